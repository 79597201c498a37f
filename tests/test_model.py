"""Model: predictions by parts, and weights in the units of the user."""

import functools
import itertools
import json
import pickle
import re

import naive
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.legendre import Legendre as LegendreSeries
from numpy.testing import assert_allclose, assert_array_equal
from strategies import seeds

from ttexm import ExMClassifier, ExMRegressor, TTTensor, features, model
from ttexm.data.table import read_table
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
from ttexm.learn.losses import Squared
from ttexm.model import Model

QUICK = {"rank": 3, "alpha": 1e-9, "order_scale": 0.7, "tol": 1e-3, "random_state": 0}

# -- what the names of slots say, from their definition -------------------------------------------


def number(name, x):
    """x0 and x0^2; x0=3 for a level."""
    if "=" in name:
        return (x == float(name.split("=")[1])).astype(float)
    return x ** int((name + "^1").split("^")[1])


def function(name, x):
    """sin(x0)"""
    return getattr(np, name.split("(")[0])(x)


def wave(name, x):
    """sin(2 x0), of a period of 3."""
    kind, times = re.fullmatch(r"(sin|cos)\((\d*) ?x\d\)", name).groups()
    return getattr(np, kind)(2 * np.pi * int(times or 1) * x / 3)


def legendre(name, x):
    """P2(x0), on the range of the column, of mean square 1."""
    degree = int(name[1])
    t = 2 * (x - x.min()) / np.ptp(x) - 1 if np.ptp(x) else np.zeros_like(x)
    return np.sqrt(2 * degree + 1) * LegendreSeries.basis(degree)(t)


def hat(name, x):
    """B1(x0): the hat functions of minimum, median and maximum."""
    knots = np.quantile(x, [0, 0.5, 1])
    if knots[0] == knots[2]:
        knots = knots[0] + max(1, abs(knots[0])) * np.array([0, 0.5, 1])
    return np.interp(x, knots, np.eye(3)[int(name[1]) - 1])


def curve(name, x, n_knots=17, clip=0.005):
    """x0 and curve2(x0), of the column between its first and its last knot."""
    weights = np.ones(len(x), int)
    knots = naive.knots(x, weights, n_knots, clip)
    x = np.clip(x, knots[0], knots[-1])
    if not name.startswith("curve"):
        return number(name, x)
    functions = naive.smooth_functions(x, weights, knots)[0]
    return naive.hats(x, knots) @ functions[:, int(name[5 : name.index("(")]) - 1]


MAPS = [
    (Polynomial(), number),
    (Polynomial(3), number),
    (Polynomial(2, standardize=True), number),
    (Polynomial(3, standardize=True, order_scale=0.3), number),
    (Basis([np.sin, np.cos], order_scale=0.5), function),
    (Basis([np.exp, np.tanh], constant=False), function),
    (Trigonometric(2, period=3.0, order_scale=2.0), wave),
    (Legendre(2, order_scale=0.7), legendre),
    (Spline(3, degree=1, order_scale=0.5), hat),
    (Categorical(order_scale=0.4), number),
    (Smooth(order_scale=0.5), curve),
    (Smooth(2, clip=0.0), functools.partial(curve, n_knots=2, clip=0.0)),
    (Smooth(3, clip=0.25), functools.partial(curve, n_knots=3, clip=0.25)),
    (Auto(categorical_features=[1], order_scale=0.6), curve),
    (Auto(degree=2), number),
    (PerColumn({0: Polynomial(2, True, order_scale=0.5)}, order_scale=0.25), curve),
]
NAMES = [repr(chosen) for chosen, _ in MAPS]


def random_model(chosen, seed, outputs=(), m=30):
    """A model of random weights over three random columns, and its rows."""
    rng = np.random.default_rng(seed)
    X = 3 + rng.permuted(np.arange(3 * m).reshape(m, 3) % 4, axis=0).astype(float)
    columns = chosen.fit(X).columns_
    has_constants = all(column.has_constant for column in columns)
    center, spread = rng.standard_normal((2, *outputs))
    W = TTTensor.random((*columns.shape, *outputs), 3, seed)
    return Model(columns, W, Squared(), has_constants * center, np.exp(spread)), X


@pytest.mark.parametrize(("chosen", "value"), MAPS, ids=NAMES)
@pytest.mark.parametrize("outputs", [(), (2,)], ids=["one output", "two outputs"])
def test_coefficients_are_those_of_the_named_functions(chosen, value, outputs):
    """The sum of all products, written out in the named functions of raw columns, is f."""
    found, X = random_model(chosen, 0, outputs)
    expected = found.predict(found.raw(read_table(X), "cpu"))
    total, slot_names = np.zeros_like(expected), found.columns.slot_names
    for names in itertools.product(*slot_names):
        product = np.ones(len(X))
        for name, x in zip(names, X.T, strict=True):
            product *= 1 if name == "1" else value(name, x)
        weight = found.coefficient(*(name for name in names if name != "1"))
        assert np.shape(weight) == outputs
        total += np.multiply.outer(product, weight)
    assert_allclose(total, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@given(seeds, st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.booleans())
def test_coefficients_follow_the_units_of_a_column(seed, shift, scale, is_reversed):
    """The weight of the highest product is divided by a^2 for each column z = a x + b."""
    found, X = random_model(Polynomial(2, standardize=True), seed)
    a = -scale if is_reversed else scale
    other = Polynomial(2, standardize=True).fit(a * X + shift)
    # Standardised columns are the same ones, or their negatives.
    cores = found.weights.to_cores()
    for core in cores:
        core[:, 1] *= np.sign(a)
    moved = Model(other.columns_, TTTensor(cores), Squared(), found.center, found.spread)
    expected = found.coefficient("x0^2", "x1^2", "x2^2") / a**6
    assert_allclose(moved.coefficient("x0^2", "x1^2", "x2^2"), expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_coefficients_of_extreme_columns(scale):
    X = scale * np.random.default_rng(0).uniform(1, 2, (50, 2))
    columns = Auto().fit(X).columns_
    W = TTTensor.random(columns.shape, 2, seed=0)
    weight = Model(columns, W, Squared()).coefficient("x1")
    x = X / scale
    same = Model(Auto().fit(x).columns_, W, Squared()).coefficient("x1")
    assert_allclose(weight * scale, same, rtol=1e-9)


def test_a_product_of_raw_columns_has_its_weight():
    rng = np.random.default_rng(0)
    X = rng.uniform(5, 9, (400, 4))
    raw = Polynomial(standardize=True)
    fitted = ExMRegressor(features=raw, **QUICK).fit(X, 2 * X[:, 0] * X[:, 1] - X[:, 3] + 7)
    assert_allclose(fitted.coefficient("x0", "x1"), 2, rtol=1e-4)
    assert_allclose(fitted.coefficient("x1", "x0"), 2, rtol=1e-4)
    assert_allclose(fitted.coefficient("x3"), -1, rtol=1e-3)
    assert_allclose(fitted.coefficient(), 7, atol=0.05)


def test_a_column_has_its_slope_next_to_its_curves():
    X = np.random.default_rng(0).uniform(5, 9, (600, 3))
    x0, x1, x2 = np.clip(X, *np.sort(X, axis=0)[[3, -4]]).T  # 3 of 600 rows are cut at either end
    fitted = ExMRegressor(random_state=0).fit(X, 2 * x0 * x1 - x2 + 7)
    assert_allclose(fitted.coefficient("x0", "x1"), 2, rtol=1e-2)
    assert_allclose(fitted.coefficient("x2"), -1, rtol=1e-2)
    assert_allclose(fitted.coefficient("curve2(x0)", "x1"), 0, atol=1e-2)


def test_a_product_with_a_curve_has_its_weight():
    X = np.random.default_rng(0).uniform(5, 9, (400, 3))
    smooth = Smooth(n_knots=5, clip=0)
    curve3 = smooth.fit_transform(X).vectors(1)[:, 3]
    fitted = ExMRegressor(features=smooth, **QUICK).fit(X, 2 * X[:, 0] * curve3 + 7)
    assert smooth.name((0, 3, 0)) == "curve3(x1)"
    assert_allclose(fitted.coefficient("x0", "curve3(x1)"), 2, rtol=1e-4)
    assert_allclose(fitted.coefficient("x0", "curve2(x1)"), 0, atol=1e-3)


def test_levels_and_classes_have_weights_in_units_of_the_data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"dose": rng.uniform(10, 20, 3000), "drug": rng.choice(list("ABC"), 3000)})
    slope = X["drug"].map({"A": 0.0, "B": 1.0, "C": 0.0}).to_numpy() * (X["dose"] - 15)
    labels = np.where(rng.random(3000) < 1 / (1 + np.exp(-slope)), "well", "ill")
    settings = {"rank": 4, "alpha": 1e-5, "order_scale": 1.0, "random_state": 0}
    fitted = ExMClassifier(features=Auto(degree=1), **settings).fit(X, labels)
    # One weight per level next to the constant is not unique; contrasts are.
    contrast = fitted.coefficient("dose", "drug=B") - fitted.coefficient("dose", "drug=A")
    assert_allclose(contrast, 1, atol=0.15)
    three = ExMClassifier(**QUICK).fit(X, np.digitize(slope, [-1, 1]))
    assert three.coefficient("dose", "drug=B").shape == (3,)
    assert three.coefficient("curve2(dose)", "drug=B").shape == (3,)


def test_the_map_of_a_fit_is_left_as_it_was():
    X = np.random.default_rng(0).standard_normal((60, 3))
    given_map = Polynomial(2, order_scale=0.5)
    fitted = ExMRegressor(features=given_map, **QUICK).fit(X, X[:, 0])
    assert given_map.order_scale == fitted.feature_map_.order_scale == 0.5
    f = fitted.weights_.contract(fitted.feature_map_.transform(X))
    assert_allclose(fitted.predict(X), fitted.center_ + fitted.spread_ * f)


TABLE = pd.DataFrame({"dose": [1.0, 2.0, 4.0], "drug": ["A", "B", "A"], "age": [30.0, 40.0, 60.0]})
NAMED = PerColumn({"age": Polynomial(2)}).fit(TABLE).columns_
MODEL = Model(NAMED, TTTensor.ones(NAMED.shape), Squared())
BARE = Basis([np.sin, np.cos], constant=False).fit(np.ones((2, 1))).columns_
TWICE = pd.DataFrame({"a": ["b=c", "d"], "a=b": ["c", "d"]})
MESSAGES = [
    (MODEL, ["dosis"], ValueError, "There is no function 'dosis'; did you mean 'dose'?"),
    (MODEL, ["drug"], ValueError, "'drug'; did you mean 'drug=A' or 'drug=B'?"),
    (MODEL, ["curve9(dose)"], ValueError, "did you mean 'curve2(dose)'"),
    (MODEL, ["age^3"], ValueError, "There is no function 'age^3'; did you mean 'age^2' or 'age'?"),
    (MODEL, ["qqqq"], ValueError, "There is no function 'qqqq'."),
    (MODEL, ["1"], ValueError, "There is no function '1'."),
    (MODEL, [0], TypeError, "names must be strings, such as 'x0' or 'drug=B', got 0."),
    (MODEL, ["drug=A", "dose", "drug=B"], ValueError,
     "'drug=A' and 'drug=B' are both functions of column 'drug'; a product has at most one"),
    (MODEL, ["dose", "dose"], ValueError, "'dose' and 'dose' are both functions of column 'dose'"),
    (Model(BARE, TTTensor.ones(BARE.shape), Squared()), [], ValueError,
     "Column 'x0' has no constant, so that it is in every product: name one of its functions, "
     "'sin(x0)', 'cos(x0)'."),
    (Model(Auto().fit(TWICE).columns_, TTTensor.ones((3, 3)), Squared()), ["a=b=c"], ValueError,
     "'a=b=c' is a function of several columns, 'a' and 'a=b'; rename one of them."),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "names", "error", "message"), MESSAGES)
def test_names_that_are_refused(asked, names, error, message):
    with pytest.raises(error, match=re.escape(message)):
        asked.coefficient(*names)


def test_an_estimator_that_is_not_fitted_has_no_coefficients():
    with pytest.raises(ValueError, match="not fitted"):
        ExMRegressor().coefficient("x0")


# -- predictions by parts -------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [(), (3,)])
def test_parts_are_predicted_as_the_whole(outputs, monkeypatch):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.standard_normal(50), "c": rng.choice(list("abc"), 50)})
    columns = Auto().fit(X).columns_
    found = Model(columns, TTTensor.random((*columns.shape, *outputs), 2, 0), Squared())
    whole = found.raw(read_table(X), "cpu")
    assert whole.shape == (50, *outputs)
    monkeypatch.setattr(model, "ROWS_AT_ONCE", 7)
    assert_array_equal(found.raw(read_table(X), "cpu"), whole)


def test_errors_in_a_later_part_count_rows_from_the_first(monkeypatch):
    X = np.random.default_rng(0).standard_normal((50, 2))
    columns = Auto().fit(X).columns_
    found = Model(columns, TTTensor.ones(columns.shape), Squared())
    monkeypatch.setattr(model, "ROWS_AT_ONCE", 7)
    X[33, 1] = np.inf
    with pytest.raises(ValueError, match="Column 'x1' must be finite, got inf in row 33"):
        found.raw(read_table(X), "cpu")


def test_levels_are_checked_for_all_rows_at_once(monkeypatch):
    """A part without a known level is nothing to warn of."""
    X = pd.DataFrame({"c": ["a"] * 8 + ["b"] * 8})
    columns = Auto().fit(X).columns_
    found = Model(columns, TTTensor.ones(columns.shape), Squared())
    monkeypatch.setattr(model, "ROWS_AT_ONCE", 4)
    new = pd.DataFrame({"c": ["?"] * 8 + ["b"] * 8})
    assert_allclose(found.raw(read_table(new), "cpu"), [1] * 8 + [2] * 8)


def test_models_can_be_stored():
    found, X = random_model(MAPS[2][0], 0, (2,))
    again = pickle.loads(pickle.dumps(found))
    table = read_table(X)
    assert_array_equal(again.raw(table, "cpu"), found.raw(table, "cpu"))


# -- states of fitted columns ---------------------------------------------------------------------


def restored(state):
    """The column that a state describes, from what the state says alone."""
    if state["kind"] == "category":
        return features.categories.CategoryColumn(state["name"], state["levels"], state["scale"])
    basis = getattr(features, state["map"])(**state["parameters"])
    kind = features.function_map.FunctionColumn
    if isinstance(basis, Smooth):
        kind = features.smooth.CurveColumn
    rest = [state[name] for name in ("learned", "scale", "exponent", "span")]
    return kind(state["name"], basis, *rest)


@pytest.mark.parametrize("chosen", [c for c, _ in MAPS if not isinstance(c, Basis)], ids=repr)
@pytest.mark.parametrize("unit", [1.0, 1e200])
def test_states_are_plain_and_complete(chosen, unit):
    X = unit * np.random.default_rng(0).integers(1, 5, (20, 3))
    if unit > 1 and "Polynomial" in repr(chosen) and "True" not in repr(chosen):
        return  # powers of raw columns of that size overflow
    table = read_table(X)
    for fitted, column in zip(chosen.fit(X).columns_, table, strict=True):
        again = restored(json.loads(json.dumps(fitted.state(), allow_nan=False)))
        assert again.slot_names == fitted.slot_names
        assert_array_equal(again.stored(column), fitted.stored(column))
        assert_array_equal(again.table, fitted.table)
        core = np.random.default_rng(0).standard_normal((2, len(fitted.slot_names), 3))
        assert_array_equal(again.to_user_units(core), fitted.to_user_units(core))


def test_functions_of_your_own_are_named_in_a_state():
    (fitted,) = Basis([np.sin, lambda x: x**2]).fit(np.ones((2, 1))).columns_
    assert json.loads(json.dumps(fitted.state()))["parameters"]["functions"] == ["sin", "g2"]


def test_parameters_that_are_scalars_of_numpy_are_plain_in_a_state():
    chosen = Smooth(n_knots=np.int64(4), clip=np.float32(0.25))
    (fitted,) = chosen.fit(np.arange(9.0)[:, None]).columns_
    state = json.loads(json.dumps(fitted.state(), allow_nan=False))
    assert state["parameters"] == {"n_knots": 4, "clip": 0.25}
