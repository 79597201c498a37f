"""The losses inside kernels: those of `ttexm.losses`, also for huge and for tiny arguments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inner_kernels import evaluate
from numpy.testing import assert_allclose
from strategies import seeds

from ttexm.kernels import loss_formulas
from ttexm.learn.losses import Hinge, Logistic, Poisson, Softmax, Squared, SquaredHinge
from ttexm.learn.objective import Objective
from ttexm.learn.solvers.sweeps import BUILT_IN

LOSSES = [Squared(), Logistic(), Poisson(), Hinge(), SquaredHinge(), Softmax()]
SIZES = [0.0, 5e-324, 1e-300, 1e-17, 1e-8, 0.3, 1.0, 20.0, 36.0, 300.0]
HUGE = [*SIZES, 690.0, 705.0, 745.0, 1e4, 1e8, 1e80]


def targets(loss, K, m, rng):
    if isinstance(loss, (Logistic, Hinge, SquaredHinge)):
        return rng.choice([-1.0, 1.0], (K, m))
    if isinstance(loss, Poisson):
        return rng.poisson(3.0, (K, m)).astype(float)
    if isinstance(loss, Softmax):
        return np.eye(K)[:, rng.integers(0, K, m)]
    return rng.standard_normal((K, m))


def assert_is_the_loss(loss, y, w, f, rtol=1e-12):
    value, g, h = evaluate(BUILT_IN[type(loss)], y, w, f)
    objective = Objective(loss, y.T, w, 0.0)
    total = w.sum()
    losses = w[:, None] * loss.value(y.T, f.T)
    # Softmax and Poisson add terms of both signs.
    size = np.abs(losses).sum() + np.abs(w * y * f).sum() * isinstance(loss, Poisson)
    assert_allclose(value, losses.sum(), rtol=0, atol=rtol * size)
    slopes = total * objective.derivative(f.T).reshape(f.T.shape).T
    assert_allclose(g, slopes, rtol=rtol, atol=rtol * (w * (1 + np.abs(y))).max())
    if isinstance(loss, Softmax):
        assert_allclose(h, loss.predict(f.T).T, rtol=rtol, atol=1e-300)
    else:
        curvatures = total * objective.curvature_or_slope(f.T).reshape(f.T.shape).T
        assert_allclose(h, curvatures, rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(m=st.integers(1, 40), K=st.integers(1, 4), seed=seeds, size=st.sampled_from(SIZES))
def test_values_and_derivatives_are_those_of_the_loss(loss, m, K, seed, size):
    rng = np.random.default_rng(seed)
    K = K + 1 if isinstance(loss, Softmax) else K
    y, f = targets(loss, K, m, rng), size * rng.standard_normal((K, m))
    assert_is_the_loss(loss, y, rng.uniform(0.1, 2, m), f)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("m", [1, 255, 256, 257, 1000])
def test_any_number_of_samples(loss, m):
    rng = np.random.default_rng(m)
    y, f = targets(loss, 5, m, rng), 3 * rng.standard_normal((5, m))
    assert_is_the_loss(loss, y, rng.uniform(0.1, 2, m), f)


@pytest.mark.parametrize("loss", LOSSES[1:], ids=repr)
@pytest.mark.parametrize("size", HUGE)
def test_huge_and_tiny_predictions(loss, size):
    rng, f = np.random.default_rng(0), np.array([[size, -size], [0.0, size / 3], [1.0, -1.0]])
    y = targets(loss, 3, 2, rng)
    with np.errstate(over="ignore"):
        value, g, h = evaluate(BUILT_IN[type(loss)], y, np.ones(2), f)
        assert np.isfinite(value)
        assert np.isfinite(g).all()
        assert (h >= 0).all()
        assert np.isfinite(h).all()
    # exp ends at exp(-700): what is smaller may be as large as that.
    expected = loss.value(y.T, f.T)
    assert_allclose(value, expected.sum(), rtol=1e-12, atol=1e-300)
    assert_allclose(g, loss.derivative(y.T, f.T).T, rtol=1e-12, atol=1e-300)


def test_small_losses_keep_their_digits():
    one, f = np.ones((1, 1)), np.array([[50.0]])
    value, g, h = evaluate(loss_formulas.LOGISTIC, one, one[0], f)
    assert_allclose([value, -g[0, 0], h[0, 0]], np.exp(-50.0), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_samples_without_weight_count_nothing(loss):
    rng = np.random.default_rng(0)
    y, f, w = targets(loss, 3, 20, rng), rng.standard_normal((3, 20)), rng.uniform(0.1, 2, 20)
    w[5:9] = 0
    value, g, _ = evaluate(BUILT_IN[type(loss)], y, w, f)
    kept = w > 0
    expected = evaluate(BUILT_IN[type(loss)], y[:, kept], w[kept], f[:, kept])
    assert_allclose(value, expected[0])
    assert_allclose(g[:, kept], expected[1])
    assert_allclose(g[:, ~kept], 0)


@pytest.mark.parametrize("loss", LOSSES[:5], ids=repr)
def test_predictions_that_are_nan_are_seen_in_the_value(loss):
    y, f = np.ones((1, 9)), np.zeros((1, 9))
    f[0, 4] = np.nan
    value, _, _ = evaluate(BUILT_IN[type(loss)], y, np.ones(9), f)
    assert not value < np.inf
