"""Feature maps: the vectors they make, the names they give, and what they refuse."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from strategies import seeds

from ttexm import TTTensor
from ttexm.features import (
    Auto,
    Basis,
    Categorical,
    Legendre,
    PerColumn,
    Polynomial,
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
    assert fitted.slot_names_ == [["1", "age"], ["1", "color=blue", "color=red"], ["1", "flag"]]
    batch = fitted.transform(frame)
    age = np.array([20, 35, 50])
    assert_allclose(batch.vectors(0)[[0, 1, 3], 1], (age - age.mean()) / age.std())
    assert_array_equal(batch.vectors(0)[2], [1, 0])
    assert_array_equal(batch.vectors(1), [[1, 0, 1], [1, 1, 0], [1, 0, 0], [1, 0, 1]])
    assert_array_equal(batch.vectors(2)[:, 1], [1, -1, 1, 1])
    assert fitted.name((1, 2, 0)) == "age * color=red"
    assert fitted.name((0, 0, 0)) == "1"


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
    assert Auto(chosen).fit(given_as).shape_ == (2, 4, 2)
    assert Auto(None).fit(given_as).shape_ == (2, 2, 2)


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
    (lambda: Polynomial(0).fit(np.ones((2, 1))), "degree must be an integer of at least 1, got 0."),
    (
        lambda: Polynomial(order_scale=0).fit(np.ones((2, 1))),
        "order_scale must be positive, got 0.",
    ),
    (lambda: Polynomial().fit(PANDAS), "Column 'color' must hold numbers: could not convert"),
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
        lambda: Basis([]).fit(np.ones((2, 1))),
        "functions must hold at least one function, got none.",
    ),
    (
        lambda: Basis([np.sin], constant=False).fit_transform([[1.0], [np.nan]]),
        "Column 'x0' has a missing value in row 1, and its basis has no constant",
    ),
    (lambda: Trigonometric(period=-1).fit([[1.0]]), "period must be positive, got -1."),
    (lambda: Auto([7]).fit(PANDAS), "there is no column 7, as there are 3 columns."),
    (
        lambda: Auto([True]).fit(PANDAS),
        "as a mask must have 3 entries, one a column, got shape (1,)",
    ),
    (lambda: PerColumn({"agee": Legendre()}).fit(PANDAS), "maps: there is no column 'agee'"),
    (
        lambda: PerColumn({"age": "spline"}).fit(PANDAS),
        "maps['age'] must be a FeatureMap, got str.",
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
