"""Starts: the linear model as a tensor is exactly the linear model."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression, Ridge
from strategies import feature_vectors, seeds, shapes

from ttexm import RankOneBatch, TTTensor
from ttexm.learn import initialize
from ttexm.learn.losses import Hinge, Logistic, Squared
from ttexm.learn.objective import Objective


def mixed_batch(rng, m=300):
    """Numeric, categorical and spline-like columns; the last has no constant slot but sums to 1."""
    hats = rng.random((m, 3))
    return RankOneBatch.join(
        [
            RankOneBatch.from_columns(rng.standard_normal((m, 2))),
            RankOneBatch.from_codes(rng.integers(0, 4, (m, 1)), (4,), 0.5),
            RankOneBatch.from_vectors([hats / hats.sum(axis=1, keepdims=True)]),
        ]
    )


def design(batch):
    columns = [np.ones((len(batch), 1))]
    for k, vectors in enumerate(feature_vectors(batch)):
        columns.append(vectors if k == batch.ndim - 1 else vectors[:, 1:])
    return np.hstack(columns)


def additive(weights, intercept):
    """The additive model of weights (n,) or (n, n_outputs) of columns with a constant in slot 0."""
    ones = [np.eye(len(w))[0] for w in weights]
    return initialize.Additive(weights, np.array(intercept), ones)


def weights_of_functions(rng, shape):
    """Random weights, without any of the constants in slot 0: those are in the intercept."""
    return [np.append(0.0, rng.standard_normal(n - 1)) for n in shape]


@given(shapes(), seeds, st.integers(1, 30))
def test_additive_models_are_exact(shape, seed, m):
    rng = np.random.default_rng(seed)
    batch = RankOneBatch.from_columns([rng.standard_normal((m, n - 1)) for n in shape])
    weights = [rng.standard_normal(n) for n in shape]
    W = additive(weights, 0.7).tensor()
    f = 0.7 + sum(phi @ w for phi, w in zip(feature_vectors(batch), weights, strict=True))
    assert_allclose(W.contract(batch), f, atol=1e-12)
    assert W.rank <= 2


@given(shapes(), seeds, st.integers(1, 30), st.floats(0.1, 3))
def test_additive_models_are_the_same_at_any_order_scale(shape, seed, m, scale):
    rng = np.random.default_rng(seed)
    batch = RankOneBatch.from_columns([rng.standard_normal((m, n - 1)) for n in shape])
    model = additive(weights_of_functions(rng, shape), 0.7)
    f = model.tensor().contract(batch)
    assert_allclose(model.tensor(scale).contract(batch.scaled(scale)), f, atol=1e-11)


@given(shapes(4), seeds, st.integers(1, 30), st.integers(2, 4))
def test_additive_models_of_several_outputs_are_those_of_each(shape, seed, m, n_outputs):
    rng = np.random.default_rng(seed)
    batch = RankOneBatch.from_columns([rng.standard_normal((m, n - 1)) for n in shape])
    weights = [rng.standard_normal((n, n_outputs)) for n in shape]
    intercept = rng.standard_normal(n_outputs)
    f = additive(weights, intercept).tensor().contract(batch)
    for j in range(n_outputs):
        one = additive([w[:, j] for w in weights], intercept[j]).tensor()
        assert_allclose(f[:, j], one.contract(batch), atol=1e-11)


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0])
def test_the_linear_model_is_that_of_scikit_learn(alpha):
    rng = np.random.default_rng(0)
    batch = mixed_batch(rng)
    X = design(batch)
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(len(X))
    W = initialize.linear(batch, Objective(Squared(), y, np.ones(len(y)), alpha))
    ridge = Ridge(alpha * len(y), fit_intercept=False).fit(X, y)
    assert_allclose(W.contract(batch), ridge.predict(X), atol=1e-4)
    labels = np.where(y > 0, 1.0, -1.0)
    W = initialize.linear(batch, Objective(Logistic(), labels, np.ones(len(y)), alpha))
    logistic = LogisticRegression(C=1 / (alpha * len(y)), fit_intercept=False, tol=1e-8)
    wanted = logistic.fit(X, labels).decision_function(X)
    assert_allclose(W.contract(batch), wanted, atol=2e-3 * np.abs(wanted).max())


def test_weights_of_samples_count():
    rng = np.random.default_rng(0)
    batch = mixed_batch(rng, 100)
    y, weights = rng.standard_normal(100), rng.integers(0, 3, 100).astype(float)
    rows = np.repeat(np.arange(100), weights.astype(int))
    one = initialize.linear(batch, Objective(Squared(), y, weights, 0.01))
    other = initialize.linear(batch[rows], Objective(Squared(), y[rows], np.ones(len(rows)), 0.01))
    assert_allclose(one.contract(batch), other.contract(batch), atol=1e-4)


def test_a_loss_without_curvature_has_a_linear_model_too():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_columns(rng.standard_normal((200, 3)))
    y = np.sign(batch.vectors(1)[:, 1] + 0.1)
    W = initialize.linear(batch, Objective(Hinge(), y, np.ones(200), 1e-3))
    assert np.mean(np.sign(W.contract(batch)) == y) > 0.97


def test_functions_without_a_constant_are_refused():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.join(
        [
            RankOneBatch.from_columns(rng.standard_normal((50, 1))),
            RankOneBatch.from_vectors([rng.standard_normal((50, 2))]),
        ]
    )
    with pytest.raises(ValueError, match="functions of column 1 do not span a constant"):
        initialize.constant_of(batch, 1)


@given(shapes(), seeds, st.integers(2, 6))
def test_padding_is_small_and_fills_the_ranks(shape, seed, rank):
    rng = np.random.default_rng(seed)
    model = additive(weights_of_functions(rng, shape), 1.0)
    W = model.tensor()
    padded = initialize.padded(W, rank, 1e-3, rng)
    start = TTTensor(model.start(1.0, rank, 1e-3, seed))
    for filled in (padded, start):
        if len(shape) > 1:
            assert filled.rank == max(2, rank)
        assert (filled - W).norm() <= 1.001e-3 * W.norm()


def test_low_order_entries_fall_off_with_the_order():
    W = initialize.low_order((2,) * 8, 4, 0.1, np.random.default_rng(0)).full()
    order = np.indices(W.shape).sum(axis=0)
    sizes = [np.sqrt(np.mean(W[order == j] ** 2)) for j in range(4)]
    for lower, higher in itertools.pairwise(sizes[1:]):
        assert higher < 0.3 * lower


def test_random_linear_is_additive():
    batch = mixed_batch(np.random.default_rng(0), 50)
    W = initialize.random_linear(batch, 0.1, np.random.default_rng(1))
    assert W.rank == 2
    assert 0.001 < np.std(W.contract(batch)) < 1


def test_gaussian_has_the_norm():
    W = initialize.gaussian((2,) * 100, 4, 0.5, np.random.default_rng(0))
    assert_allclose(W.norm(), 0.5)
