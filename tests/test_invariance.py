"""What must not change a model: units, weights' scale, order of rows, names of classes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import seeds

from ttexm import ExMClassifier, ExMRegressor
from ttexm.features import Polynomial

RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 4))
X[:, 3] = RNG.integers(0, 3, 600)
Y = X[:, 0] * X[:, 1] + X[:, 2]
LABELS = np.where(Y + 0.5 * RNG.standard_normal(600) > 0, "a", "b")
CHOSEN = ("rank_", "order_scale_", "n_iter_", "is_linear_", "is_screened_")


@pytest.fixture(scope="module")
def regressor():
    return ExMRegressor(random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return ExMClassifier(random_state=0).fit(X, LABELS)


def assert_same_settings(one, other):
    for name in CHOSEN:
        assert getattr(one, name) == getattr(other, name), name
    assert_allclose(one.alpha_, other.alpha_)


@pytest.mark.parametrize("scale", [1 / 600, 1e-6, 1e-300, 1e300, 2.7])
def test_the_scale_of_weights(regressor, scale):
    model = ExMRegressor(random_state=0).fit(X, Y, sample_weight=np.full(600, scale))
    assert_same_settings(model, regressor)
    assert_allclose(model.predict(X), regressor.predict(X), rtol=1e-6, atol=1e-6)
    assert model.score(X, Y) > 0.99  # columns are clipped: the largest products are missed


@pytest.mark.parametrize("scale", [1e-5, 1e200])
def test_the_scale_of_uneven_weights(scale):
    weights = np.random.default_rng(1).integers(1, 5, 600)
    one = ExMClassifier(random_state=0).fit(X, LABELS, sample_weight=weights)
    other = ExMClassifier(random_state=0).fit(X, LABELS, sample_weight=scale * weights)
    assert_same_settings(one, other)
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)
    # .. and whole weights do what repetitions do
    rows = np.repeat(np.arange(600), weights)
    other = ExMClassifier(random_state=0).fit(X[rows], LABELS[rows])
    assert_same_settings(one, other)
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


@settings(max_examples=8)
@given(seeds, st.floats(-10, 10), st.booleans())
def test_the_scale_of_weights_with_given_settings(seed, power, is_class):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0, 1, 200)
    settings = {"rank": 2, "alpha": 1e-3, "order_scale": 0.5, "tol": 1e-2, "random_state": 0}
    make, y = (ExMClassifier, LABELS[:200]) if is_class else (ExMRegressor, Y[:200])
    models = [make(**settings).fit(X[:200], y, sample_weight=10.0**p * weights) for p in (0, power)]
    one, other = (model._raw(X) for model in models)
    assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e160, 1e-170, 1e300, 1e-290, 3.0])
def test_the_scale_of_targets(regressor, scale):
    model = ExMRegressor(random_state=0).fit(X, scale * Y)
    assert_same_settings(model, regressor)
    assert_allclose(model.predict(X) / scale, regressor.predict(X), rtol=1e-6, atol=1e-6)


def test_targets_at_the_end_of_the_range():
    for y in (np.full(600, 1e308), np.where(Y > 0, 1e307, -1e307), np.full(600, 1e-320)):
        model = ExMRegressor(random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        size = np.abs(y).max()
        assert_allclose((model.predict(X) / size).mean(), (y / size).mean(), atol=0.2)
    both = np.stack([1e160 * Y, 1e-160 * Y], axis=1)
    settings = {"rank": 3, "alpha": 1e-5, "order_scale": 0.5, "tol": 1e-2, "random_state": 0}
    numbers = Polynomial(standardize=True)
    found = ExMRegressor(features=numbers, **settings).fit(X, both).predict(X)
    assert_allclose(found / [1e160, 1e-160], np.stack([Y, Y], axis=1), atol=0.1)


@pytest.mark.parametrize(("a", "b"), [(3.0, 5.0), (-2.0, 1.0), (1e-3, 10.0), (-1e6, 1e6)])
def test_units_of_columns(regressor, classifier, a, b):
    other = X.copy()
    other[:, [0, 3]] = a * other[:, [0, 3]] + b
    model = ExMRegressor(random_state=0).fit(other, Y)
    assert_same_settings(model, regressor)
    assert_allclose(model.predict(other), regressor.predict(X), rtol=1e-6, atol=1e-6)
    model = ExMClassifier(random_state=0).fit(other, LABELS)
    assert_same_settings(model, classifier)
    assert_allclose(model.predict_proba(other), classifier.predict_proba(X), atol=1e-6)


def test_units_of_columns_of_two_values():
    x = np.random.default_rng(0).choice([-1.0, 1.0], (500, 6))
    y = np.where(x[:, 0] * x[:, 1] + 0.5 * x[:, 2] > 0, 1, 0)
    one = ExMClassifier(random_state=0).fit(x, y)
    other = ExMClassifier(random_state=0).fit(3 - 7 * x, y)
    assert_same_settings(one, other)
    assert_allclose(one.predict_proba(x), other.predict_proba(3 - 7 * x), atol=1e-6)


def test_names_of_two_classes(classifier):
    swapped = ExMClassifier(random_state=0).fit(X, np.where(LABELS == "a", "z", "b"))
    assert_same_settings(swapped, classifier)
    assert_allclose(swapped.predict_proba(X)[:, ::-1], classifier.predict_proba(X), atol=1e-6)


def test_names_of_balanced_classes():
    y = np.where(np.median(Y) < Y, 1, 0)
    assert y.sum() == 300
    one = ExMClassifier(random_state=0).fit(X, y)
    other = ExMClassifier(random_state=0).fit(X, 1 - y)
    assert_same_settings(one, other)
    assert_allclose(one.predict_proba(X), other.predict_proba(X)[:, ::-1], atol=1e-6)


def test_names_and_units_with_three_classes():
    y = np.digitize(Y, [-0.5, 0.5])
    one = ExMClassifier(random_state=0).fit(X, y)
    other = ExMClassifier(random_state=0).fit(1 - 2 * X, (y + 1) % 3)
    assert_same_settings(one, other)
    found = other.predict_proba(1 - 2 * X)[:, [1, 2, 0]]
    # Sums over classes are in another order, in single precision.
    assert_allclose(one.predict_proba(X), found, atol=1e-4)


def test_the_order_of_rows(classifier):
    rows = np.random.default_rng(3).permutation(600)
    model = ExMClassifier(random_state=0).fit(X[rows], LABELS[rows])
    assert_same_settings(model, classifier)
    assert_allclose(model.predict_proba(X), classifier.predict_proba(X), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Training stopped at max_iter")
def test_the_order_of_rows_held_out_and_of_mini_batches():
    settings = {"rank": 2, "alpha": 1e-3, "order_scale": 0.5, "max_iter": 5, "random_state": 0}
    settings |= {"early_stopping": True, "solver": "riemannian", "n_iter_no_change": 2}
    rows = np.random.default_rng(3).permutation(600)
    one = ExMClassifier(**settings).fit(X, LABELS)
    other = ExMClassifier(**settings).fit(X[rows], LABELS[rows])
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_the_order_of_rows_of_categories():
    frame = pd.DataFrame(
        {"a": np.where(X[:, 0] > 0, "x", "y"), "b": np.digitize(X[:, 1], [-1, 0, 1]).astype(str)}
    )
    rows = np.random.default_rng(3).permutation(600)
    one = ExMRegressor(random_state=0).fit(frame, Y)
    other = ExMRegressor(random_state=0).fit(frame.iloc[rows], Y[rows])
    assert_same_settings(one, other)
    assert_allclose(one.predict(frame), other.predict(frame), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_small_table_of_all_combinations_is_learned(noise):
    """Each of few combinations, many times: none can be left out to validate with."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (1000, 3))
    product = x.prod(axis=1) * np.where(rng.random(1000) < noise, -1, 1)
    model = ExMClassifier(random_state=0).fit(x, product)
    assert np.mean(model.predict(x) == x.prod(axis=1)) == 1
    share = np.mean(product == x.prod(axis=1))
    assert abs(model.predict_proba(x).max(axis=1).mean() - share) < 0.05
    assert ExMRegressor(random_state=0).fit(x, product).score(x, x.prod(axis=1)) > 0.9
