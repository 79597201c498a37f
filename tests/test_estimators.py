"""The estimators: what they find, and what they refuse."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from ttexm import ExMClassifier, ExMRegressor, TTTensor
from ttexm.features import Polynomial, Trigonometric

RNG = np.random.default_rng(0)
X = RNG.choice([-1.0, 1.0], (1200, 8))
PRODUCT = X[:, 0] * X[:, 3] * X[:, 6]


def test_a_pure_product_is_found():
    model = ExMClassifier(random_state=0).fit(X[:600], np.where(PRODUCT > 0, "yes", "no")[:600])
    assert model.score(X[600:], np.where(PRODUCT > 0, "yes", "no")[600:]) == 1
    assert model.is_screened_
    # max_order=0 turns the search for products off.
    plain = ExMClassifier(max_order=0, random_state=0).fit(X[:600], PRODUCT[:600])
    assert not plain.is_screened_


def test_weights_have_names():
    y = 2 * X[:, 1] - 3 * X[:, 2] * X[:, 5]
    model = ExMRegressor(random_state=0).fit(X, y)
    index = (0, 0, 1, 0, 0, 1, 0, 0)
    assert model.feature_map_.name(index) == "x2 * x5"
    weight = model.weights_[index] * model.order_scale_**2 * model.spread_
    assert_allclose(weight, -3, atol=0.05)


def test_several_classes():
    A, b = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(b))
    model = ExMClassifier(random_state=0).fit(A[rows[:100]], b[rows[:100]])
    probabilities = model.predict_proba(A)
    assert_allclose(probabilities.sum(axis=1), 1)
    assert_array_equal(model.predict(A), model.classes_[probabilities.argmax(axis=1)])
    assert model.score(A[rows[100:]], b[rows[100:]]) > 0.9


def test_several_targets():
    y = np.stack([PRODUCT, X[:, 1] + 5], axis=1)
    model = ExMRegressor(rank=4, alpha=1e-5, order_scale=1.0, tol=1e-2, random_state=0)
    model.fit(X[:600], y[:600])
    assert model.predict(X).shape == (1200, 2)
    assert_allclose(model.predict(X)[600:, 1], y[600:, 1], atol=0.1)


def test_where_nothing_interacts_the_linear_model_may_win():
    y = X @ np.arange(8.0) + RNG.standard_normal(1200)
    model = ExMRegressor(random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.98


def test_frames_with_categories_and_missing_values():
    frame = pd.DataFrame({"x": X[:, 0], "color": np.where(X[:, 1] > 0, "red", "blue")})
    frame.loc[::7, "x"] = np.nan
    y = np.where(frame["x"].fillna(0) * X[:, 1] > 0, 1, 0)
    model = ExMClassifier(random_state=0).fit(frame[:800], y[:800])
    assert model.score(frame[800:], y[800:]) > 0.95
    assert list(model.feature_names_in_) == ["x", "color"]


def test_the_same_seed_gives_the_same_bits():
    one, other = (ExMRegressor(random_state=3).fit(X[:300], PRODUCT[:300]) for _ in range(2))
    assert_array_equal(one.predict(X), other.predict(X))


def test_weights_count_as_repetitions():
    weights = np.random.default_rng(1).integers(0, 4, 150)
    rows = np.repeat(np.arange(150), weights)
    y = np.where(PRODUCT[:150] + 0.5 * X[:150, 1] > 0, 1, 0)
    weighted = ExMClassifier(random_state=0).fit(X[:150], y, sample_weight=weights)
    repeated = ExMClassifier(random_state=0).fit(X[rows], y[rows])
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6, atol=1e-8)


def test_given_settings_are_taken():
    settings = {"rank": 3, "alpha": 1e-4, "order_scale": 0.5, "features": Polynomial(2)}
    model = ExMRegressor(**settings, max_iter=7, tol=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=7, while it still improved"):
        model.fit(X[:200], PRODUCT[:200])
    assert (model.rank_, model.order_scale_, model.n_iter_) == (3, 0.5, 7)
    assert model.alpha_ == pytest.approx(1e-4)
    assert model.weights_.shape == (3,) * 8
    losses = [record.loss for record in model.history_]
    assert np.all(np.diff(losses) <= 1e-12)


@pytest.mark.parametrize("init", ["linear", "random_linear", "gaussian", TTTensor.ones((2,) * 8)])
@pytest.mark.parametrize("solver", ["sweeps", "two_site"])
def test_starts_and_solvers(init, solver):
    model = ExMRegressor(
        rank=4, alpha=1e-6, order_scale=1.0, init=init, solver=solver, max_iter=60, random_state=0
    )
    model.fit(X[:, :8], X[:, 0] * X[:, 1] + X[:, 2])
    assert model.score(X, X[:, 0] * X[:, 1] + X[:, 2]) > 0.99


def test_early_stopping_keeps_the_best_on_the_held_out_rows():
    y = np.where(X[:, 0] + RNG.standard_normal(1200) > 0, 1, 0)
    settings = {"rank": 8, "alpha": 0.0, "order_scale": 1.0, "max_iter": 30, "random_state": 0}
    stopped = ExMClassifier(early_stopping=True, n_iter_no_change=3, **settings).fit(
        X[:300], y[:300]
    )
    assert stopped.n_iter_ < 30
    assert all(np.isfinite(record.metric) for record in stopped.history_)


def test_columns_can_have_maps():
    hour = RNG.uniform(0, 24, 600)
    y = np.sin(2 * np.pi * hour / 24) * X[:600, 0]
    A = np.stack([hour, X[:600, 0]], axis=1)
    model = ExMRegressor(features={0: Trigonometric(1, period=24.0)}, random_state=0).fit(A, y)
    assert model.score(A, y) > 0.99


CASES = [
    ({"rank": 0}, "rank must be 'auto' or an integer of at least 1, got 0."),
    ({"alpha": -1.0}, "alpha must be 'auto' or at least 0, got -1.0."),
    ({"order_scale": 0.0}, "order_scale must be 'auto' or positive, got 0.0."),
    ({"max_iter": 0}, "max_iter must be an integer of at least 1, got 0."),
    ({"solver": "newton"}, "solver must be one of auto, sweeps, two_site, got 'newton'."),
    ({"loss": "huber"}, "loss must be one of 'squared', 'logistic'"),
    ({"init": "zeros"}, "init must be one of auto, linear, random_linear, gaussian, or a TTTensor"),
    ({"features": 3}, "features must be 'auto', a FeatureMap, or a dict of them by column, got 3."),
    ({"device": "tpu"}, "device must be 'auto' or 'cpu', got 'tpu'."),
]


@pytest.mark.parametrize(("parameters", "message"), CASES, ids=[text for _, text in CASES])
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the text is compared below
        ExMClassifier(**parameters).fit(X[:20], PRODUCT[:20])
    assert message in str(caught.value)


def test_bad_data():
    y = PRODUCT[:20]
    with pytest.raises(ValueError, match=r"at least two classes, got one class only: .*1\.0"):
        ExMClassifier().fit(X[:20], np.ones(20))
    with pytest.raises(ValueError, match="Input y contains infinity"):
        ExMClassifier().fit(X[:20], np.where(np.arange(20) == 3, np.inf, y))
    with pytest.raises(ValueError, match="NaN"):
        ExMRegressor().fit(X[:20], np.where(np.arange(20) == 3, np.nan, y))
    with pytest.raises(ValueError, match="Column 'x2' must be finite, got inf in row 1"):
        ExMRegressor().fit(
            np.where((np.indices((20, 8)) == [[[1]], [[2]]]).all(0), np.inf, X[:20]), y
        )
    with pytest.raises(ValueError, match=r"must not be negative, got -1\.0 in row 4"):
        ExMRegressor().fit(X[:20], y, sample_weight=np.where(np.arange(20) == 4, -1.0, 1.0))
    with pytest.raises(ValueError, match=r"X has 7 features, but .* expecting 8"):
        ExMClassifier(random_state=0).fit(X[:20], y).predict(X[:, :7])
    with pytest.raises(ValueError, match=r"counts of at least 0, got -1 in y\[1\]"):
        ExMRegressor(loss="poisson").fit(X[:3], np.array([1.0, -1.0, 2.0]))
    with pytest.raises(NotFittedError):
        ExMClassifier().predict_proba(X)
