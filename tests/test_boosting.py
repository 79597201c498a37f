"""Boosting: it finds what sweeps miss, and the objective never rises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import classes, problem, start, value_at

from ttexm import RankOneBatch, TTTensor
from ttexm.learn.losses import Hinge, Logistic, Poisson, Squared
from ttexm.learn.objective import Objective
from ttexm.learn.solvers.boosting import Boosting
from ttexm.learn.solvers.sweeps import Sweeps
from ttexm.learn.trainer import Trainer


def two_products(m=3000, d=10):
    """Products of four features, of which the start has the first only."""
    x = np.random.default_rng(0).choice([-1.0, 1.0], (m, d))
    first, second = x[:, :4].prod(axis=1), x[:, 4:8].prod(axis=1)
    W = np.zeros((2,) * d)
    W[(1,) * 4 + (0,) * (d - 4)] = 0.9
    objective = Objective(Squared(), first + second, np.ones(m), 1e-4)
    return TTTensor.from_dense(W), RankOneBatch.from_columns(x), objective


def test_an_interaction_that_sweeps_miss_is_found():
    W, batch, objective = two_products()
    swept = start(Sweeps(), W, batch, objective)
    boosted = start(Boosting(boost_rank=4, rows=2000), W, batch, objective)
    for _ in range(5):
        swept.iterate()
        boosted.iterate()
    assert swept.value > 0.4
    assert boosted.value < 1e-3
    assert boosted.tensor().rank == 2
    assert_allclose(boosted.tensor()[(0,) * 4 + (1,) * 4 + (0,) * 2], 1, atol=1e-2)


@pytest.mark.parametrize("rows", [None, 200])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Hinge(), Poisson()], ids=repr)
def test_the_objective_never_rises(loss, rows):
    W, batch, objective = problem(loss)
    # A coarse cut and few rows: many of these iterations are of no use.
    run = start(Boosting(boost_rank=2, max_rank=3, eps=0.2, rows=rows), W, batch, objective)
    values = [run.value]
    for _ in range(6):
        run.iterate()
        values.append(run.value)
        assert_allclose(run.value, value_at(run.tensor(), batch, objective), rtol=1e-9)
        assert np.isfinite(run.gradient_norm)
        assert run.tensor().rank <= 3
    assert np.all(np.diff(values) <= 0)
    assert values[-1] < values[0]


@pytest.mark.parametrize("rows", [None, 70])
def test_several_outputs_are_boosted_together(rows):
    W, batch, objective = classes()
    solver = Boosting(boost_rank=3, eps=0.01, rows=rows)
    W = Trainer(solver, max_iter=5, tol=None).run(W, batch, objective)
    offset = 0 if objective.offset is None else objective.offset
    f = W.contract(batch).reshape(objective.y.shape) + offset
    assert np.mean(np.argmax(f, axis=1) == np.argmax(objective.y, axis=1)) > 0.9


def test_a_boost_is_fitted_to_what_is_left():
    W, batch, objective = problem()
    f, extra = W.contract(batch), 0.1 * np.arange(len(batch))
    left = objective.with_offset(f)
    assert_allclose(left.value(extra, 0.0), objective.value(f + extra, 0.0))
    assert_allclose(left.derivative(extra), objective.derivative(f + extra))
    # Offsets add up, and weights stay as they are, in a part as well.
    part = objective.take(np.arange(50)).with_offset(f[:50]).with_offset(extra[:50])
    assert_allclose(part.value(f[:50], 2.0), objective.take(np.arange(50)).value(
        2 * f[:50] + extra[:50], 2.0))  # fmt: skip


def test_a_boost_does_not_find_again_what_the_penalty_took():
    W, batch, objective = two_products()
    shrunk = start(Boosting(), 0.5 * W, batch, objective)
    assert_allclose(shrunk._stretch(), 1 / 0.45, rtol=0.1)
    assert abs(shrunk._boost()[(1,) * 4 + (0,) * 6]) < 0.1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_equal_seeds_give_equal_bits(dtype):
    W, batch, objective = two_products(1000)
    solver = Boosting(boost_rank=2, rows=500, dtype=dtype)
    one, other = (
        Trainer(solver, max_iter=2, tol=None, random_state=3).run(W, batch, objective)
        for _ in range(2)
    )
    assert_array_equal(one.scaled_train.data, other.scaled_train.data)
    assert one.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [None, 500])
def test_boosts_are_fitted_on_the_device(stand_in, rows, dtype):
    W, batch, objective = two_products(1000)
    solver = Boosting(boost_rank=2, boost_sweeps=2, rows=rows, dtype=dtype)
    here = start(solver, W, batch.to("cpu"), objective)
    here.iterate()
    with stand_in.alone():
        there = start(solver, W, batch.to("cuda"), objective)
        there.iterate()
    assert_array_equal(here.tensor().scaled_train.data, there.tensor().scaled_train.data)
    # The whole batch once in each precision; what a sweep takes of it is taken there.
    assert stand_in.calls["hold"] == (1 if dtype == np.float64 else 2)
    assert stand_in.calls["take"] == (0 if rows is None else 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"boost_rank": 0}, "boost_rank must be at least 1, got 0"),
        ({"boost_sweeps": 1.5}, "boost_sweeps must be at least 1, got 1.5"),
        ({"polish_sweeps": None}, "polish_sweeps must be at least 1, got None"),
        ({"max_rank": -1}, "max_rank must be at least 1, got -1"),
        ({"eps": 1.0}, "eps must be at least 0 and less than 1, got 1.0"),
        ({"rows": 0}, "rows must be at least 1, or None for all samples, got 0"),
    ],
)
def test_settings_that_are_wrong_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Boosting(**settings)
