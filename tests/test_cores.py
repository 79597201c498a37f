"""Derivatives in the cores, and descent along them."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import classes, problem, start, value_at
from sklearn.exceptions import ConvergenceWarning
from strategies import batches, cores_of, dtypes, feature_vectors, seeds, shapes

from ttexm import RankOneBatch, TTTensor
from ttexm.learn.losses import Logistic, Squared
from ttexm.learn.objective import Objective
from ttexm.learn.solvers.cores import Cores, penalty
from ttexm.learn.trainer import Trainer
from ttexm.tt.scaled_train import ScaledTrain


@given(data=st.data(), shape=shapes(), dtype=dtypes)
def test_core_gradient_is_the_derivative_in_each_entry(data, shape, dtype):
    cores = data.draw(cores_of(shape, dtype=dtype))
    batch = data.draw(batches(shape, dtype=dtype))
    g = np.random.default_rng(0).standard_normal(len(batch))
    Z = (g @ naive.rank_ones(feature_vectors(batch))).reshape(shape)
    expected = naive.core_gradient([core.astype(np.float64) for core in cores], Z)
    W, seen = TTTensor(cores), {}
    for given_g in (g, lambda f: seen.setdefault("f", f) * 0 + g):
        for found, wanted in zip(W.core_gradient(batch, given_g), expected, strict=True):
            tolerance = 1e4 * np.finfo(dtype).eps * (1 + np.abs(wanted).max(initial=0))
            assert_allclose(found, wanted, rtol=0, atol=tolerance)
            assert found.dtype == dtype
    assert_allclose(seen["f"], W.contract(batch), rtol=1e-3, atol=1e-3)
    f, gradient = W.value_and_core_gradient(batch, lambda f: f * 0 + g)
    assert_array_equal(f, seen["f"])
    for found, wanted in zip(gradient, W.core_gradient(batch, g), strict=True):
        assert_array_equal(found, wanted)


@pytest.mark.large
def test_core_gradient_of_many_samples_and_of_products_out_of_range():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_columns(rng.standard_normal((2000, 20)))
    W = TTTensor.random(batch.shape, 3, seed=0)
    g = rng.standard_normal(2000)
    whole = W.core_gradient(batch, g)
    parts = [W.core_gradient(batch[i::4], g[i::4]) for i in range(4)]
    for k, found in enumerate(whole):
        assert_allclose(found, sum(part[k] for part in parts), atol=1e-10 * np.abs(found).max())
    # 2^3000 from the left, 2^-3000 from the right: no derivative is, but partial products are.
    powers = np.repeat([300, -300], 10)
    cores = [np.ldexp(core, e) for core, e in zip(W.to_cores(), powers, strict=True)]
    for found, wanted, e in zip(
        TTTensor(cores).core_gradient(batch, g), whole, powers, strict=True
    ):
        assert_allclose(np.ldexp(found, e), wanted, atol=1e-10 * np.abs(wanted).max())


def test_core_gradient_checks_g_and_the_batch():
    W, batch = TTTensor.ones((2, 2)), RankOneBatch.from_columns(np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"one number per sample, shape \(3,\), got \(2,\)"):
        W.core_gradient(batch, np.ones(2))
    with pytest.raises(ValueError, match="must have 3 modes, got 2"):
        TTTensor.ones((2, 2, 2)).core_gradient(batch, np.ones(3))


# -- descent ------------------------------------------------------------------------------------


@given(data=st.data(), shape=shapes(), dtype=dtypes)
def test_the_penalty_is_the_squared_norm_with_its_derivatives(data, shape, dtype):
    cores = data.draw(cores_of(shape, dtype=dtype))
    exact = [core.astype(np.float64) for core in cores]
    W, full = TTTensor(cores), naive.full(exact)
    squared_norm, gradient = penalty(W.scaled_train.train)
    scale = 1e4 * np.finfo(dtype).eps
    assert_allclose(squared_norm, np.sum(full**2), rtol=scale)
    parts = TTTensor.from_train(ScaledTrain(W.scaled_train.train._replace(data=gradient))).cores
    for found, wanted in zip(parts, naive.core_gradient(exact, full), strict=True):
        assert_allclose(found, wanted, rtol=0, atol=scale * (1e-30 + np.abs(wanted).max()))


@given(data=st.data(), shape=shapes(4, 3, 60), seed=seeds)
def test_a_full_step_is_against_the_derivatives_in_the_cores(data, shape, seed):
    batch = data.draw(batches(shape, 30).filter(lambda batch: len(batch) > 0))
    rng = np.random.default_rng(seed)
    cores = data.draw(cores_of(shape, 3))
    objective = Objective(Squared(), rng.standard_normal(len(batch)), np.ones(len(batch)), 0.1)
    X, full = naive.rank_ones(feature_vectors(batch)), naive.full(cores)
    Z = (objective.derivative(X @ full.ravel()) @ X).reshape(shape) + 0.1 * full
    run = start(Cores("sgd", 0.01), TTTensor(cores), batch, objective)
    run.iterate()
    for found, core, dG in zip(
        run.tensor().cores, cores, naive.core_gradient(cores, Z), strict=True
    ):
        assert_allclose(found, core - 0.01 * dG, atol=1e-9 * (1 + np.abs(dG).max()))
    W = run.tensor()
    assert_allclose(run.value, objective.value(W.contract(batch), W.norm() ** 2), rtol=1e-8)


def test_the_first_step_of_adam_is_the_rate_in_every_entry():
    W, batch, objective = problem()
    run = start(Cores("adam", 1e-3), W, batch, objective)
    signs = np.sign(run.evaluation.gradient)
    run.iterate()
    assert_allclose(run.tensor().scaled_train.data, W.scaled_train.data - 1e-3 * signs, atol=1e-6)


@pytest.mark.large
@pytest.mark.parametrize("batch_size", [None, 25])
@pytest.mark.parametrize("method", ["adam", "sgd"])
@pytest.mark.parametrize("make", [lambda: problem(), lambda: problem(Logistic()), classes])
def test_both_methods_descend_at_their_own_rate(method, batch_size, make):
    W, batch, objective = make()
    before = value_at(W, batch, objective)
    run = start(Cores(method, batch_size=batch_size), W, batch, objective)
    for _ in range(40):
        run.iterate()
    assert value_at(run.tensor(), batch, objective) < 0.95 * before


def test_the_same_generator_gives_the_same_bits():
    W, batch, objective = problem(dtype=np.float32)
    runs = [start(Cores(batch_size=40), W, batch, objective, seed=7) for _ in range(2)]
    for run in runs:
        for _ in range(3):
            run.iterate()
    assert_array_equal(runs[0].tensor().scaled_train.data, runs[1].tensor().scaled_train.data)
    assert runs[0].tensor().dtype == np.float32


@pytest.mark.parametrize("method", ["adam", "sgd"])
def test_zero_is_a_start_that_gradients_do_not_leave(method):
    _, batch, objective = problem()
    run = start(Cores(method), TTTensor.zeros(batch.shape), batch, objective)
    before = run.value
    run.iterate()
    assert run.value == before


@pytest.mark.parametrize("batch_size", [None, 40])
@pytest.mark.parametrize("method", ["adam", "sgd"])
def test_an_overflow_ends_in_the_best_model_and_a_warning(method, batch_size):
    W, batch, objective = problem()
    trainer = Trainer(Cores(method, 1e80, batch_size), n_iter_no_change=1000)
    with pytest.warns(ConvergenceWarning, match="overflowed"):
        best = trainer.run(W, batch, objective)
    assert np.isfinite(best.scaled_train.data).all()


@pytest.mark.parametrize("batch_size", [None, 40])
@pytest.mark.parametrize("method", ["adam", "sgd"])
def test_derivatives_are_taken_on_the_device(stand_in, method, batch_size):
    W, batch, objective = problem()
    here = start(Cores(method, batch_size=batch_size), W, batch.to("cpu"), objective)
    here.iterate()
    with stand_in.alone():
        there = start(Cores(method, batch_size=batch_size), W, batch.to("cuda"), objective)
        there.iterate()
    assert_array_equal(here.tensor().scaled_train.data, there.tensor().scaled_train.data)
    assert stand_in.calls["core_gradient"] > 0
    assert stand_in.calls["hold"] == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "lbfgs"}, "method must be one of 'adam', 'sgd', got 'lbfgs'"),
        ({"learning_rate": -1}, "learning_rate must be 'auto' or a number above 0, got -1"),
        ({"batch_size": 2.5}, "batch_size must be at least 1, or None for all samples, got 2.5"),
    ],
)
def test_settings_that_are_wrong_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Cores(**settings)
