"""Feature maps: the vectors they make, the names they give, and what they refuse."""

import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from strategies import seeds

from ttexm import ExMClassifier, ExMRegressor, TTTensor
from ttexm.features import (
    Auto,
    Basis,
    Categorical,
    Legendre,
    PerColumn,
    Polynomial,
    Smooth,
    Spline,
    Trigonometric,
)

NUMERIC_MAPS = [
    Polynomial(3),
    Polynomial(2, standardize=True),
    Basis([np.sin, np.cos]),
    Trigonometric(2),
    Legendre(3),
    Spline(4),
    Smooth(5),
    Polynomial(2, standardize=True, clip=0.1),
]
MIXED = {
    "age": [20.0, 35.0, None, 50.0],
    "color": ["red", "blue", None, "red"],
    "flag": [True, False, True, True],
}
PANDAS = pd.DataFrame(MIXED).astype({"color": "category"})
POLARS = pl.DataFrame(MIXED, schema_overrides={"color": pl.Categorical})


@given(seeds, st.integers(1, 20), st.integers(1, 4))
def test_a_polynomial_of_degree_one_is_the_basis_of_x(seed, m, d):
    X = np.random.default_rng(seed).standard_normal((m, d))
    one, other = Polynomial().fit_transform(X), Basis([lambda x: x]).fit_transform(X)
    bare = Basis([np.ones_like, lambda x: x], constant=False).fit_transform(X)
    for k in range(d):
        assert_array_equal(one.vectors(k), other.vectors(k))
        assert_array_equal(one.vectors(k), bare.vectors(k))


@given(seeds, st.integers(1, 30), st.integers(1, 5))
def test_a_category_is_its_one_hot(seed, m, n):
    codes = np.random.default_rng(seed).integers(0, n, (m, 1))
    levels = np.unique(codes)
    one_hot = (codes == levels).astype(float)
    for X in (codes, codes.astype(float), codes.astype(str).astype(object), codes.astype(str)):
        batch = Categorical(order_scale=0.5).fit_transform(X)
        assert_array_equal(batch.vectors(0), np.hstack([np.ones((m, 1)), 0.5 * one_hot]))


@pytest.mark.parametrize("chosen", NUMERIC_MAPS, ids=repr)
def test_missing_values_are_the_constant_alone(chosen):
    X = np.random.default_rng(0).standard_normal((20, 2))
    X[3, 1] = np.nan
    vectors = clone(chosen).fit_transform(X).vectors(1)
    assert_array_equal(vectors[3], [1, *[0] * (vectors.shape[1] - 1)])
    assert (vectors[:, 0] == 1).all()
    assert vectors[2, 1:].any()


@pytest.mark.parametrize("chosen", [*NUMERIC_MAPS, Categorical(), Auto()], ids=repr)
def test_the_order_scale_cancels_against_the_weights(chosen):
    X = np.random.default_rng(0).integers(0, 4, (30, 3)).astype(float)
    plain, scaled = clone(chosen).fit(X), clone(chosen).set_params(order_scale=0.5).fit(X)
    W = TTTensor.random(plain.shape_, 3, seed=0)
    grown = [core.copy() for core in W.cores]
    for core in grown:
        core[:, 1:] *= 2
    f = W.contract(plain.transform(X))
    assert_allclose(TTTensor(grown).contract(scaled.transform(X)), f, rtol=1e-10)


@pytest.mark.parametrize("chosen", [*NUMERIC_MAPS, Categorical(), Auto()], ids=repr)
def test_each_row_is_mapped_on_its_own(chosen):
    X = np.random.default_rng(0).integers(0, 4, (30, 3)).astype(float)
    fitted = clone(chosen).fit(X)
    fitted = pickle.loads(pickle.dumps(fitted)) if not isinstance(chosen, Basis) else fitted
    whole, part = fitted.transform(X), fitted.transform(X[[5, 7]])
    for k in range(3):
        assert_allclose(part.vectors(k), whole.vectors(k)[[5, 7]], rtol=1e-13)


@pytest.mark.parametrize("frame", [PANDAS, POLARS], ids=["pandas", "polars"])
def test_frames_are_read_by_their_types(frame):
    fitted = Auto().fit(frame)
    assert fitted.slot_names_ == [
        ["1", "age", "curve2(age)"],
        ["1", "color=blue", "color=red"],
        ["1", "flag"],
    ]
    batch = fitted.transform(frame)
    age = np.array([20, 35, 50])
    assert_allclose(batch.vectors(0)[[0, 1, 3], 1], (age - age.mean()) / age.std())
    assert_array_equal(batch.vectors(0)[2], [1, 0, 0])
    assert_array_equal(batch.vectors(1), [[1, 0, 1], [1, 1, 0], [1, 0, 0], [1, 0, 1]])
    assert_array_equal(batch.vectors(2)[:, 1], [1, -1, 1, 1])
    assert fitted.name((1, 2, 0)) == "age * color=red"
    assert fitted.name((0, 0, 0)) == "1"


@pytest.mark.parametrize("degree", [1, 2])
def test_a_degree_gives_clipped_polynomials(degree):
    x = np.random.default_rng(0).standard_cauchy((1000, 1))
    fitted = Auto(degree=degree).fit(x)
    assert fitted.slot_names_ == [["1", "x0", "x0^2"][: degree + 1]]
    t = np.clip(x[:, 0], *np.sort(x[:, 0])[[5, -6]])
    t = (t - t.mean()) / t.std()
    expected = t[:, None] ** np.arange(degree + 1)
    assert_allclose(fitted.transform(x).vectors(0), expected, rtol=1e-10, atol=1e-13)


def test_pandas_types_with_their_own_missing_values():
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], "Int64"),
            "b": pd.array([True, None, False], "boolean"),
            "s": pd.array(["u", None, "v"], "string"),
        }
    )
    batch = Auto().fit_transform(frame)
    assert batch.shape == (2, 2, 3)
    for k, n in enumerate(batch.shape):
        assert_array_equal(batch.vectors(k)[1], np.eye(n)[0])


@pytest.mark.parametrize("chosen", [[1], [False, True, False], ["x1"], np.array([-2])])
def test_categories_can_be_chosen(chosen):
    X = np.random.default_rng(0).integers(0, 3, (20, 3)).astype(float)
    given_as = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    assert Auto(chosen).fit(given_as).shape_ == (3, 4, 3)
    assert Auto(None).fit(given_as).shape_ == (3, 3, 3)


def test_unseen_levels_are_the_constant_alone():
    fitted = Categorical().fit(np.array([["a"], ["b"]], object))
    unseen = np.array([["c"], [None], [np.nan], ["b"]], object)
    assert_array_equal(fitted.transform(unseen).vectors(0)[:, 1:], [[0, 0]] * 3 + [[0, 1]])


def test_columns_can_have_maps_of_their_own():
    maps = PerColumn({"age": Legendre(2, order_scale=0.5)}, order_scale=0.5).fit(PANDAS)
    assert maps.slot_names_[0] == ["1", "P1(age)", "P2(age)"]
    assert maps.shape_ == (3, 3, 2)
    full = Legendre(2).fit_transform(PANDAS[["age"]]).vectors(0)
    assert_allclose(maps.transform(PANDAS).vectors(0)[:, 1:], 0.25 * full[:, 1:])
    assert_array_equal(maps.transform(PANDAS).vectors(2)[:, 1], [0.5, -0.5, 0.5, 0.5])


def test_legendre_polynomials_are_orthonormal_on_their_range():
    x = np.linspace(-3, 7, 100_001)[:, None]
    vectors = Legendre(4).fit_transform(x).vectors(0)
    assert_allclose(vectors.T @ vectors / len(x), np.eye(5), atol=1e-3)
    beyond = Legendre(4).fit(x).transform(np.array([[100.0], [7.0]])).vectors(0)
    assert_allclose(beyond[0], beyond[1])


@pytest.mark.parametrize("chosen", NUMERIC_MAPS, ids=repr)
def test_constant_and_empty_columns(chosen):
    X = np.full((5, 2), 3.0)
    X[:, 1] = np.nan
    vectors = clone(chosen).fit_transform(X).vectors(0)
    assert np.isfinite(vectors).all()
    assert (vectors == vectors[0]).all()


def test_huge_columns_are_standardised_without_overflow():
    X = 1e200 * np.arange(4.0)[:, None]
    vectors = Polynomial(1, standardize=True).fit_transform(X).vectors(0)
    assert_allclose(vectors[:, 1].std(), 1)


CASES = [
    (
        lambda: Polynomial().fit(PANDAS),
        "Column 'color' must hold numbers, got strings: 'red' in row 0. Convert it to numbers",
    ),
    (lambda: Polynomial().fit([[1.0], [-np.inf]]), "Column 'x0' must be finite, got -inf in row 1"),
    (lambda: Polynomial().fit(np.ones(3)), "X must have two dimensions"),
    (lambda: Polynomial().fit(np.ones((3, 0))), "0 feature(s) (shape=(3, 0)) while a minimum of 1"),
    (lambda: Polynomial().fit(np.ones((2, 1)) * 1j), "Complex data not supported"),
    (
        lambda: Polynomial().fit(np.ones((2, 3))).transform(np.ones((2, 2))),
        "X has 2 features, but Polynomial is expecting 3 features",
    ),
    (
        lambda: Basis([np.sin, np.log]).fit(np.zeros((2, 1))),
        "functions[1] (log) of column 'x0' must give finite numbers, got -inf at 0.",
    ),
    (
        lambda: Basis([lambda x: x[:, None]]).fit(np.zeros((2, 1))),
        "functions[0] (g1) of column 'x0' must give shape (2,), got (2, 1).",
    ),
    (
        lambda: Basis([lambda x: x * 1j]).fit(np.zeros((2, 1))),
        "functions[0] (g1) of column 'x0' must give real numbers, got complex128.",
    ),
    (
        lambda: Basis([np.sin], constant=False).fit_transform([[1.0], [np.nan]]),
        "Column 'x0' has a missing value in row 1, and its basis has no constant",
    ),
    (lambda: Auto([7]).fit(PANDAS), "there is no column 7, as there are 3 columns."),
    (
        lambda: Auto([True]).fit(PANDAS),
        "as a mask must have 3 entries, one per column, got 1.",
    ),
    (lambda: PerColumn({"agee": Legendre()}).fit(PANDAS), "maps: there is no column 'agee'"),
    (
        lambda: PerColumn({"age": "spline"}).fit(PANDAS),
        "maps['age'] must be a FeatureMap, got 'spline'.",
    ),
    (
        lambda: PerColumn({"age": Legendre(), 0: Spline()}).fit(PANDAS),
        "maps: 'age' and 0 are one and the same column.",
    ),
    (lambda: PerColumn([Legendre()]).fit(PANDAS), "maps of PerColumn must be a dict of column to"),
    (
        lambda: PerColumn(otherwise="spline").fit(PANDAS),
        "otherwise of PerColumn must be a FeatureMap, got 'spline'.",
    ),
    (
        lambda: Auto("age").fit(PANDAS),
        "categorical_features must be 'from_dtype', None, or a list of columns (a mask, positions "
        "or names), got 'age'.",
    ),
    (lambda: Auto(3).fit(PANDAS), "or a list of columns (a mask, positions or names), got 3."),
    (lambda: Auto([1.0]).fit(PANDAS), "there is no column 1.0, as there are 3 columns."),
    (lambda: Auto(["ag"]).fit(PANDAS), "there is no column 'ag'; the columns are ['age', 'color',"),
    (
        lambda: PerColumn({"a": Legendre()}).fit(pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])),
        "The columns of X must have different names, got 'a' more than once.",
    ),
    (
        lambda: Auto([1]).fit(pd.DataFrame(np.ones((2, 2)), columns=[1, 2])),
        "categorical_features: 1 is the position of column '2' and the name of another one, in "
        "position 0; use '2' or '1', as a string.",
    ),
    (
        lambda: Auto().fit(pd.DataFrame({"a": []})),
        "0 sample(s) (shape=(0, 1)) while a minimum of 1 is required by Auto.",
    ),
    (
        lambda: Auto().fit(PANDAS, sample_weight=np.ones(3)),
        "sample_weight must have shape (4,), one number per row, got (3,).",
    ),
    (
        lambda: Auto().fit(PANDAS, sample_weight=[1, 1, -1, 1]),
        "sample_weight must be finite and not negative, got -1 in row 2.",
    ),
    (
        lambda: Auto().fit(PANDAS, sample_weight=np.ma.array([1, 1, 1, 1], mask=[0, 1, 0, 0])),
        "sample_weight must be finite and not negative, got nan in row 1.",
    ),
    (
        lambda: Auto().fit(PANDAS, sample_weight=np.zeros(4)),
        "sample_weight must not be zero for all rows.",
    ),
    (lambda: Auto().fit(PANDAS).name((1,)), "index must have 3 entries, got 1."),
    (
        lambda: Auto().fit(pd.DataFrame({"t": pd.to_datetime(["2020-01-01"])})),
        "Column 't' holds dates or times (datetime64",
    ),
]


@pytest.mark.parametrize(("call", "message"), CASES, ids=[message for _, message in CASES])
def test_bad_input(call, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert message in str(caught.value)


ONES = np.ones((2, 1))
COUNT, POSITIVE = "an integer of at least 1", "a positive finite number"
PARAMETERS = [
    *((Polynomial, "degree", value, COUNT) for value in (0, -1, 2.5, True, "2", None)),
    *((Legendre, "degree", value, COUNT) for value in (0, -1, 2.5, True)),
    *((Auto, "degree", value, COUNT) for value in (0, -1, 1.5)),
    *((Trigonometric, "n_frequencies", value, COUNT) for value in (0, -2, 1.5, True)),
    *((Trigonometric, "period", value, POSITIVE) for value in (np.nan, np.inf, 0, -1, "24", True)),
    *((Spline, "n_knots", value, "an integer of at least 2") for value in (1, 0, 2.5, "5")),
    *(
        (Smooth, "n_knots", value, "'auto' or an integer of at least 2")
        for value in (1, 0, -3, 2.5, np.nan, True, "5", "Auto", None, [17])
    ),
    *(
        (kind, "clip", value, "at least 0 and less than 0.5")
        for kind in (Smooth, Polynomial)
        for value in (-0.01, 0.5, 1, np.nan, np.inf, True, "0.1", None, [0.1])
    ),
    *((Spline, "degree", value, "an integer of at least 0") for value in (-1, 0.5, None)),
    *((Spline, "knots", value, "'quantile' or 'uniform'") for value in ("foo", None, [[0.0]])),
    (Basis, "functions", np.sin, "a list of functions"),
    (Basis, "functions", None, "a list of functions"),
    (Basis, "functions", "sin", "a list of functions"),
    (Basis, "functions", [], "at least one function"),
    (Basis, "constant", "no", "True or False"),
    (Polynomial, "standardize", "yes", "True or False"),
    *(
        (kind, "order_scale", value, POSITIVE)
        for kind in (Polynomial, Smooth, Categorical, Auto, PerColumn)
        for value in (np.nan, np.inf, 0, -1.0, "a", None, True)
    ),
]


@pytest.mark.parametrize(("kind", "name", "value", "wanted"), PARAMETERS)
def test_parameters_are_checked_in_fit(kind, name, value, wanted):
    chosen = kind(**{name: value})
    message = f"{name} of {kind.__name__} must be {wanted}, got {value!r}."
    # .. of a map within a map as well
    for asked in (chosen, PerColumn({0: chosen})):
        with pytest.raises((ValueError, TypeError)) as caught:
            asked.fit(ONES)
        assert str(caught.value) == message


def test_two_knots_of_degree_zero_are_refused():
    with pytest.raises(ValueError, match="n_knots of Spline must be an integer of at least 3, got"):
        Spline(2, 0).fit(ONES)
    assert Spline(3, 0).fit(ONES).shape_ == (2,)


def test_functions_must_be_functions():
    with pytest.raises(TypeError, match=r"functions\[1\] of Basis must be a function, got 'cos'."):
        Basis([np.sin, "cos"]).fit(ONES)


def test_columns_of_several_names():
    frame = pd.DataFrame(np.ones((2, 3)), columns=pd.MultiIndex.from_tuples(["ab", "ac", "bc"]))
    assert PerColumn({("a", "c"): Legendre(2)}).fit(frame).shape_ == (2, 3, 2)
    # Positions are positions where no other column has that name, and next to names.
    frame.columns = [0, 1, 5]
    assert PerColumn({1: Legendre(2), "5": Legendre(3)}).fit(frame).shape_ == (2, 3, 4)
    assert Auto([0, "5"]).fit(frame).shape_ == (2, 2, 2)
    assert Auto([0, "5"]).fit(frame).slot_names_[2] == ["1", "5=1"]


# -- levels ---------------------------------------------------------------------------------------


def column_of(values, kind=None):
    """A table of one column, of pandas' own types if a kind is given."""
    if kind is None:
        table = np.empty((len(values), 1), object)
        table[:, 0] = values
        return table
    return pd.DataFrame({"x0": pd.Series(values, dtype=kind)})


STRINGS = [
    column_of(["1", "2", "3"]),
    np.array([["1"], ["2"], ["3"]]),
    column_of([np.str_("1"), np.str_("2"), np.str_("3")]),
    column_of(["1", "2", "3"], "category"),
    column_of(["1", "2", "3"], "string"),
    column_of(["1", "2", "3"], "str"),
    column_of(["1", "2", "3"], object),
    pl.DataFrame({"x0": ["1", "2", "3"]}),
    pl.DataFrame({"x0": ["1", "2", "3"]}, schema={"x0": pl.Categorical}),
    pl.DataFrame({"x0": ["1", "2", "3"]}, schema={"x0": pl.Enum(["3", "2", "1"])}),
]
NUMBERS = [
    np.array([[1], [2], [3]]),
    np.array([[1.0], [2.0], [3.0]]),
    np.array([[1], [2], [3]], np.int8),
    column_of([1, 2, 3]),
    column_of([1.0, np.int64(2), Fraction(3)]),
    column_of([Decimal(1), Decimal(2), 3]),
    column_of([True, 2, np.float32(3)]),
    column_of([1, 2, 3], "category"),
    column_of([1.0, 2.0, 3.0], "category"),
    column_of([1, 2, 3], "Int64"),
    column_of([1, 2, 3], "Float64"),
    pl.DataFrame({"x0": [1, 2, 3]}),
]
BYTES = [np.array([[b"1"], [b"2"], [b"3"]]), pl.DataFrame({"x0": [b"1", b"2", b"3"]})]
KINDS = {"strings": STRINGS, "numbers": NUMBERS, "bytes": BYTES}
MISSING = [
    column_of([None, np.nan, pd.NA]),
    np.full((3, 1), np.nan),
    column_of([None] * 3, "category"),
    column_of([None] * 3, "string"),
    pl.DataFrame({"x0": [None] * 3}),
    pl.DataFrame({"x0": [None] * 3}, schema={"x0": pl.String}),
]
# A data frame has names, an array has none: scikit-learn warns, which is not what is tested here.
any_names = pytest.mark.filterwarnings("ignore:X (does not have|has) .*feature names")


@any_names
@pytest.mark.parametrize("kind", KINDS)
def test_equal_levels_of_any_table_are_known(kind):
    for fitted_on in KINDS[kind]:
        fitted = Categorical().fit(fitted_on)
        for table in KINDS[kind]:
            assert_array_equal(fitted.transform(table).vectors(0)[:, 1:], np.eye(3))
        for table in MISSING:
            assert not fitted.transform(table).vectors(0)[:, 1:].any()


@any_names
@pytest.mark.parametrize("fitted_on", KINDS)
@pytest.mark.parametrize("given_now", KINDS)
def test_levels_of_another_type_are_refused(fitted_on, given_now):
    if fitted_on == given_now:
        return
    for table in KINDS[fitted_on]:
        fitted = Categorical().fit(table)
        for other in KINDS[given_now]:
            with pytest.raises(TypeError) as caught:
                fitted.transform(other)
            assert f"Column 'x0' was fitted on {fitted_on}, such as " in str(caught.value)
            assert f", got {given_now}: " in str(caught.value)
            assert " in row 0. Convert it" in str(caught.value)


def test_levels_of_some_other_type_are_refused_too():
    fitted = Categorical().fit(column_of(["a", "b"]))
    with pytest.raises(TypeError, match="fitted on strings, such as 'a', got numbers: 3 in row 2"):
        fitted.transform(column_of(["a", None, 3]))
    flags = Categorical().fit(column_of([True, False], "category"))
    assert_array_equal(flags.transform(pd.DataFrame({"x0": [0, 1]})).vectors(0)[:, 1:], np.eye(2))
    with pytest.raises(TypeError, match="fitted on numbers, such as False, got strings: 'True'"):
        flags.transform(pd.DataFrame({"x0": ["True"]}))
    dates = Categorical().fit(column_of(pd.to_datetime(["2020-01-01"]), "category"))
    with pytest.raises(
        TypeError, match=r"fitted on values of type Timestamp, .*got strings: '2020"
    ):
        dates.transform(pd.DataFrame({"x0": ["2020-01-01"]}))


def test_a_column_may_have_levels_of_several_types():
    fitted = Categorical().fit(column_of(["a", 1, 2.5, "1", None]))
    assert fitted.slot_names_ == [["1", "x0=1", "x0=2.5", "x0=1", "x0=a"]]
    codes = fitted.transform(column_of([1.0, 2.5, "1", "a", 7])).vectors(0)[:, 1:]
    assert_array_equal(codes, np.eye(5, 4))
    with pytest.raises(TypeError, match="fitted on numbers and strings, such as 1, got bytes: b'a"):
        fitted.transform(column_of([b"a"]))


def test_a_column_without_a_known_level_is_warned_of():
    fitted = Categorical().fit(np.array([["a", "u"], ["b", "v"]]))
    with pytest.warns(UserWarning, match="Column") as caught:
        vectors = fitted.transform(np.array([["A", "u"], ["B", "w"]])).vectors(0)
    assert [str(warning.message) for warning in caught] == [
        "Column 'x0' holds no level that was seen in fit (['a', 'b']), but 'A' in row 0; all its "
        "values count as missing."
    ]
    assert not vectors[:, 1:].any()
    # .. but not of one that is missing altogether, nor of a table without rows.
    fitted.transform(np.array([[None, "u"], [None, None]], object))
    fitted.transform(np.empty((0, 2), object))
    numbers = Auto([0]).fit(np.array([[1.0], [2.0]]))
    with pytest.warns(UserWarning, match=r"Column 'x0' .* \(\[1, 2\]\), but 3.0 in row 1"):
        numbers.transform(np.array([[np.nan], [3.0]]))
    # A column that was missing in fit has no levels, of no type.
    empty = Auto([0]).fit(np.full((2, 1), np.nan))
    with pytest.warns(UserWarning, match=r"Column 'x0' holds no level .* \(\[\]\), but 'a'"):
        empty.transform(np.array([["a"]]))


@pytest.mark.parametrize("chosen", [*NUMERIC_MAPS, Auto()], ids=repr)
def test_strings_are_not_numbers(chosen):
    fitted = clone(chosen).fit(np.arange(5.0)[:, None])
    for strings in (column_of([None, "1.5"]), np.array([["nan"], ["1.5"]])):
        with pytest.raises(TypeError, match=r"Column 'x0' must hold numbers, got strings: '.*' in"):
            fitted.transform(strings)
    if not isinstance(chosen, Auto):
        with pytest.raises(TypeError, match="Column 'x0' must hold numbers, got strings: '1' in"):
            clone(chosen).fit(np.array([["1"], ["2"]]))


@pytest.mark.parametrize("model", [ExMClassifier, ExMRegressor])
def test_estimators_refuse_levels_of_another_type(model):
    rng = np.random.default_rng(0)
    X, y = rng.integers(1, 4, (100, 2)), rng.integers(0, 2, 100)
    model = model(rank=2, alpha=1e-3, order_scale=1.0, tol=1e-2, random_state=0)
    model.fit(X.astype(str), y)
    with pytest.raises(TypeError, match="Column 'x0' was fitted on strings, such as '1', got numb"):
        model.predict(X)


# -- extremes -------------------------------------------------------------------------------------

EXTREMES = [
    [1e308, 2e307, -3e307, 0.0],
    [-1.7e308, 1.7e308, 0.0, 1e308],
    [-1.7e308, 1.7e308],
    [0.0, 5e-324, 1e-323, 5e-324],
    [0.0, 5e-324],
    [1e-200, 3e-200, 4e-200],
    [1.7e308] * 3,
    [5e-324] * 3,
    [1e17] * 2,
    [0.0, -0.0],
]
RELATIVE = [
    Polynomial(3, standardize=True),
    Trigonometric(2),
    Legendre(3),
    Auto(degree=2),
    Smooth(),
]
SPLINES = [Spline(4), Spline(5, 2, "uniform"), Spline(3, 0)]


@pytest.mark.parametrize("column", EXTREMES, ids=str)
@pytest.mark.parametrize("chosen", [*RELATIVE, *SPLINES, Categorical()], ids=repr)
def test_extreme_columns_are_those_of_moderate_size(chosen, column):
    x = np.array(column)
    exponent = np.frexp(np.abs(x).max())[1]
    moderate = clone(chosen).fit_transform(np.ldexp(x, -exponent)[:, None]).vectors(0)
    if len(set(column)) == 1 and isinstance(chosen, Trigonometric):
        return  # has no range, and hence no period of its own
    assert_allclose(clone(chosen).fit_transform(x[:, None]).vectors(0), moderate, atol=1e-12)


def test_unseen_values_far_beyond_the_range():
    tiny = 1e-300 * np.arange(5.0)[:, None]
    for chosen in (Smooth(), Auto(degree=2), Legendre(3), *SPLINES):
        vectors = clone(chosen).fit(tiny).transform(np.array([[1e300], [4e-300]])).vectors(0)
        assert_allclose(vectors[0], vectors[1])
    with pytest.raises(ValueError, match="Column 'x0' must have finite features, but x0 is inf at"):
        Polynomial(standardize=True).fit(tiny).transform(np.array([[1e300]]))


@pytest.mark.parametrize(
    ("chosen", "x", "feature"),
    [
        (Polynomial(9), 1e200, "x0^2 is inf at 1e+200"),
        (Polynomial(9), -1e100, "x0^4 is inf at -1e+100"),
        (Polynomial(order_scale=1e10), 1e300, "x0 is inf at 1e+300"),
    ],
)
def test_overflow_names_the_column(chosen, x, feature):
    with pytest.raises(ValueError, match="Column") as caught:
        chosen.fit_transform(np.array([[1.0], [x]]))
    assert str(caught.value) == (
        f"Column 'x0' must have finite features, but {feature} in row 1. Scale the column, or use "
        "another feature map than Polynomial."
    )


def test_the_phase_of_a_large_number_is_exact():
    x = 2.0**70 + np.array([0.0, 2.0**20])
    vectors = Trigonometric(1, period=24.0).fit_transform(x[:, None]).vectors(0)
    phases = [2 * np.pi * (int(value) % 24) / 24 for value in x]
    assert_allclose(vectors[:, 1:], np.stack([np.sin(phases), np.cos(phases)], axis=1), atol=1e-12)


def test_rows_without_weight_are_left_out():
    X = np.array([[1.0, 5.0], [2.0, 6.0], [100.0, 7.0]])
    weighted = Auto([1]).fit(X, sample_weight=[1.0, 2.0, 0.0])
    assert weighted.slot_names_ == [["1", "x0"], ["1", "x1=5", "x1=6"]]
    assert_array_equal(weighted.transform(X[:2]).vectors(0)[:, 1], [-1, 1])


@pytest.mark.parametrize("unit", [5e-324, 1e-300, 1e300])
def test_only_ratios_of_weights_count(unit):
    X = 1e100 * np.array([[1.0], [2.0], [4.0]])
    weights = np.array([1.0, 2.0, 1.0])
    expected = Auto().fit(X, sample_weight=weights).transform(X).vectors(0)
    found = Auto().fit(X, sample_weight=unit * weights).transform(X).vectors(0)
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e-140, 1e-131, 1e-100, 1.0, 1e100, 1e131, 1e300])
def test_the_last_digits_of_a_column_are_standardised(size):
    x = size * (1 + np.finfo(float).eps * np.array([0, 8, 8, 24, 40.0]))
    t = Polynomial(1, standardize=True).fit_transform(x[:, None]).vectors(0)[:, 1]
    steps = np.round((x - x[0]) / np.spacing(x[0]))
    # The mean is a float as well, and lies between two of these steps.
    assert_allclose(np.diff(t), np.diff(steps) / steps.std(), rtol=0.02, atol=1e-6)
