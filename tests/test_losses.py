"""Losses: derivatives are those of the values, and nothing breaks at extreme margins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from ttexm.learn import losses
from ttexm.learn.losses import Hinge, Logistic, Poisson, Softmax, Squared, SquaredHinge

ALL = [kind() for kind in losses.LOSSES.values()]
margins = st.floats(-30, 30).filter(lambda f: min(abs(f - 1), abs(f + 1)) > 1e-3)


def targets(loss, m, rng):
    if isinstance(loss, (Logistic, Hinge, SquaredHinge)):
        return rng.choice([-1.0, 1.0], m)
    if isinstance(loss, Poisson):
        return rng.poisson(3.0, m).astype(float)
    if isinstance(loss, Softmax):
        return np.eye(3)[rng.integers(0, 3, m)]
    return rng.standard_normal(m)


def predictions(loss, values):
    f = np.array(values)
    return np.stack([f, -f, 0.3 * f], axis=1) if isinstance(loss, Softmax) else f


@pytest.mark.parametrize("loss", ALL, ids=repr)
@given(values=st.lists(margins, min_size=1, max_size=5), seed=st.integers(0, 99))
def test_derivatives_are_those_of_the_value(loss, values, seed):
    f = predictions(loss, values)
    y, step = targets(loss, len(f), np.random.default_rng(seed)), 1e-5
    for j in np.ndindex(f.shape[1:]):
        shift = np.zeros_like(f)
        shift[(slice(None), *j)] = step
        up, down = loss.value(y, f + shift), loss.value(y, f - shift)
        total = (up - down).reshape(len(f), -1).sum(axis=1) / (2 * step)
        size = 1 + np.abs(loss.value(y, f)).reshape(len(f), -1).sum(axis=1)
        assert_allclose(loss.derivative(y, f)[(slice(None), *j)], total, atol=1e-6 * size.max())
        change = loss.derivative(y, f + shift) - loss.derivative(y, f - shift)
        second = change[(slice(None), *j)] / (2 * step)
        assert_allclose(loss.curvature(y, f)[(slice(None), *j)], second, atol=1e-6 * size.max())


@pytest.mark.parametrize("loss", ALL, ids=repr)
@pytest.mark.parametrize("size", [1e2, 1e4, 1e8])
def test_extreme_predictions_stay_finite(loss, size):
    f = predictions(loss, [size, -size])
    y = targets(loss, 2, np.random.default_rng(0))
    for values in (loss.value(y, f), loss.derivative(y, f), loss.curvature(y, f), loss.predict(f)):
        assert np.isfinite(values).all()
    assert (loss.curvature(y, f) >= 0).all()


def test_small_losses_keep_their_digits():
    f = np.array([50.0])
    assert_allclose(Logistic().value(np.ones(1), f), np.exp(-50.0), rtol=1e-12)
    assert_allclose(Logistic().derivative(np.ones(1), f), -np.exp(-50.0), rtol=1e-12)


def test_the_mean_is_weighted():
    loss, y, f = Squared(), np.zeros(2), np.array([1.0, 3.0])
    assert loss.mean(y, f) == 2.5
    assert loss.mean(y, f, np.array([3.0, 1.0])) == 1.5


def test_losses_by_name():
    for name, kind in losses.LOSSES.items():
        assert type(losses.get(name)) is kind
    mine = Squared()
    assert losses.get(mine) is mine
    with pytest.raises(ValueError, match=r"loss must be one of 'squared', .* got 'log'"):
        losses.get("log")


def test_targets_that_a_loss_is_not_defined_for():
    with pytest.raises(ValueError, match=r"Labels must be -1 or 1, got 0 in y\[1\]"):
        Logistic().check(np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"counts of at least 0, got -2 in y\[1\]"):
        Poisson().check(np.array([1.0, -2.0]))
