"""Sweeps: the objective never rises, and where they end is a minimum."""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ttexm import Manifold, RankOneBatch, TTTensor
from ttexm.learn.losses import Hinge, Logistic, Poisson, Softmax, Squared, SquaredHinge
from ttexm.learn.objective import Objective
from ttexm.learn.solvers.sweeps import FEW_SAMPLES, Settings, Sweep, Sweeps, tall_qr


def batch_of(rng, m=400):
    return RankOneBatch.join(
        [
            RankOneBatch.from_columns(rng.standard_normal((m, 2))),
            RankOneBatch.from_codes(rng.integers(0, 4, (m, 2)), (4, 4), 0.7),
            RankOneBatch.from_vectors([rng.standard_normal((m, 3))]),
            RankOneBatch.from_columns([rng.standard_normal((m, 2))]),
        ]
    )


def problem(loss, seed=0, m=400, alpha=1e-3):
    rng = np.random.default_rng(seed)
    batch = batch_of(rng, m)
    f = TTTensor.random(batch.shape, 3, seed).contract(batch)
    if isinstance(loss, Squared):
        y = f + 0.1 * rng.standard_normal(m)
    elif isinstance(loss, Poisson):
        y = rng.poisson(np.exp(np.clip(f, -3, 2))).astype(float)
    else:
        y = np.where(f > 0, 1.0, -1.0)
    W = TTTensor.random(batch.shape, 3, seed + 1)
    return W * (0.1 / W.norm()), batch, Objective(loss, y, rng.uniform(0.5, 2, m), alpha)


@pytest.mark.large
@pytest.mark.parametrize("loss", [Squared(), Logistic(), SquaredHinge(), Poisson()], ids=repr)
@pytest.mark.parametrize("sites", [1, 2])
def test_the_objective_never_rises(loss, sites):
    W, batch, objective = problem(loss)
    sweep = Sweep(W, batch, objective)
    values = [sweep.value]
    for _ in range(6):
        values.append(sweep.one_site() if sites == 1 else sweep.two_site(max_rank=50))
    assert np.all(np.diff(values) <= 1e-9 * np.abs(values[0]))
    assert values[-1] < 0.8 * values[0]
    W = sweep.tensor()
    # What it says of itself is what its tensor gives.
    assert_allclose(sweep.f, W.contract(batch), atol=1e-9 * (1 + np.abs(sweep.f).max()))
    assert_allclose(sweep.value, objective.value(W.contract(batch), W.norm() ** 2), rtol=1e-9)


@pytest.mark.large
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_one_site_sweeps_end_where_the_riemannian_gradient_is_zero(loss):
    W, batch, objective = problem(loss, alpha=1e-2)
    solver = Sweeps(settings=Settings(newton_steps=5, cg_steps=50, cg_tolerance=1e-4))
    sweep = Sweep(W, batch, objective, solver)
    for _ in range(300):
        sweep.one_site()
    W = sweep.tensor()
    manifold = Manifold(W.shape, W.ranks)
    start = Manifold(W.shape, W.ranks).gradient(W, batch, objective.derivative(0 * sweep.f))
    xi = manifold.gradient(W, batch, objective.derivative) + objective.alpha * manifold.project(
        W, W
    )
    assert xi.norm() < 1e-4 * start.norm()


def test_one_mode_is_the_linear_model():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((100, 3)), rng.standard_normal(100)
    batch = RankOneBatch.from_columns([x])
    objective = Objective(Squared(), y, np.ones(100), 0.1)
    sweep = Sweep(TTTensor.zeros((4,)), batch, objective, Sweeps(settings=Settings(1, 20, 1e-10)))
    sweep.two_site(max_rank=5)
    A = np.hstack([np.ones((100, 1)), x])
    w = np.linalg.solve(A.T @ A / 100 + 0.1 * np.eye(4), A.T @ y / 100)
    assert_allclose(sweep.tensor().full(), w, atol=1e-6)


@pytest.mark.large
def test_two_sites_find_the_rank():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_columns(rng.choice([-1.0, 1.0], (2000, 8)))
    truth = TTTensor.random(batch.shape, 3, seed=5)
    objective = Objective(Squared(), truth.contract(batch), np.ones(2000), 0.0)
    solver = Sweeps(settings=Settings(1, 10, 1e-3))
    sweep = Sweep(TTTensor.random(batch.shape, 1, seed=1), batch, objective, solver)
    for _ in range(12):
        sweep.two_site(max_rank=10, eps=1e-4)
    W = sweep.tensor()
    assert W.ranks == truth.ranks
    assert (W - truth).norm() < 1e-3 * truth.norm()


def test_a_cut_of_the_rank_is_seen_in_the_predictions():
    W, batch, objective = problem(Squared())
    sweep = Sweep(TTTensor.random(W.shape, 4, seed=3), batch, objective)
    sweep.two_site(max_rank=2)
    assert sweep.tensor().rank == 2
    assert_allclose(sweep.f, sweep.tensor().contract(batch), atol=1e-10)


@pytest.mark.large
def test_several_outputs_are_one_more_mode():
    rng = np.random.default_rng(0)
    m, classes = 300, 3
    x = rng.standard_normal((m, 4))
    y = np.eye(classes)[np.argmax(x[:, :3] * x[:, 1:], axis=1)]
    rows = np.repeat(np.arange(m), classes)
    outputs = np.tile(np.arange(classes), m)[:, None]
    batch = RankOneBatch.join(
        [RankOneBatch.from_columns(x[rows]), RankOneBatch.from_indices(outputs, (classes,))]
    )
    objective = Objective(Softmax(), y, np.ones(m), 1e-4)
    sweep = Sweep(0.1 * TTTensor.random(batch.shape, 6, seed=0), batch, objective)
    for _ in range(10):
        sweep.one_site()
    f = sweep.f.reshape(m, classes)
    assert np.mean(np.argmax(f, axis=1) == np.argmax(y, axis=1)) > 0.95


def test_a_loss_without_curvature_still_descends():
    W, batch, objective = problem(Hinge())
    sweep = Sweep(W, batch, objective)
    before = sweep.value
    assert sweep.one_site() < before


@pytest.mark.large
def test_float32_partial_products_are_enough():
    W, batch, objective = problem(Logistic())
    values = []
    for dtype in (np.float64, np.float32):
        sweep = Sweep(W, batch, objective, Sweeps(dtype=dtype))
        for _ in range(4):
            sweep.one_site()
        values.append(objective.value(sweep.tensor().contract(batch), sweep.tensor().norm() ** 2))
    assert_allclose(*values, rtol=2e-2)


def test_an_offset_is_added_to_the_predictions():
    W, batch, objective = problem(Squared())
    shifted = Objective(Squared(), objective.y + 3, objective.weights.reshape(-1), 1e-3, offset=3.0)
    one, other = Sweep(W, batch, objective), Sweep(W, batch, shifted)
    assert_allclose(one.one_site(), other.one_site(), rtol=1e-9)


@pytest.mark.large
@pytest.mark.parametrize("m", [1, 5, 40, FEW_SAMPLES])
@pytest.mark.parametrize("sites", [1, 2])
def test_local_problems_of_few_samples_are_solved_exactly(m, sites):
    W, batch, objective = problem(Squared(), m=m)
    sweep = Sweep(W, batch, objective)
    assert sweep.vectors is not None
    for _ in range(2):
        sweep.one_site() if sites == 1 else sweep.two_site(max_rank=50)
        # The first core was solved last: the dense gradient in it is zero.
        center = sweep.tensor().orthogonalize(0)
        g = objective.derivative(center.contract(batch))
        gradient = center.core_gradient(batch, g)[0] + objective.alpha * center.cores[0]
        assert_allclose(gradient, 0, atol=1e-10)


def test_few_samples_without_a_penalty_are_interpolated():
    W, batch, objective = problem(Squared(), m=20, alpha=0.0)
    sweep = Sweep(W, batch, objective)
    for _ in range(3):
        sweep.one_site()
    assert sweep.value < 1e-12
    assert np.isfinite(sweep.tensor().norm())


@pytest.mark.parametrize("rows", [6, 96, 4000])
@pytest.mark.parametrize("flaw", ["none", "repeated", "zero", "tiny"])
def test_orthogonal_factors(rows, flaw):
    A = np.random.default_rng(0).standard_normal((rows, 6))
    if flaw == "repeated":
        A[:, 1] = A[:, 0]
    elif flaw == "zero":
        A[:] = 0
    elif flaw == "tiny":
        A[:, 2] *= 1e-9
    Q, R = tall_qr(A)
    assert_allclose(Q.T @ Q, np.eye(6), atol=1e-12)
    assert_allclose(Q @ R, A, atol=1e-12)


@pytest.mark.large
def test_many_small_singular_values_are_dropped_though_their_sum_is_large():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_vectors(
        [np.repeat(np.eye(20), 20, axis=0), np.tile(np.eye(20), (20, 1))]
    )
    signal = np.outer(np.eye(20)[0], np.eye(20)[0])
    noise = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    y = (signal + 0.1 * noise).reshape(-1)
    objective = Objective(Squared(), y, np.ones(400), 0.0)
    solver = Sweeps(settings=Settings(1, 20, 1e-6))
    sweep = Sweep(TTTensor.random((20, 20), 1, seed=0), batch, objective, solver)
    sweep.two_site(max_rank=20, eps=0.15)
    assert sweep.tensor().rank == 1


@pytest.mark.parametrize("m", [40, 400])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_partial_products_are_computed_on_the_device(stand_in, m, dtype):
    W, batch, objective = problem(Logistic(), m=m)
    tensors = []
    for sites in (1, 2):
        for placed in (batch.to("cpu"), batch.to("cuda")):
            with stand_in.alone() if placed.device == "cuda" else nullcontext():
                run = Sweeps(sites, 4, dtype=dtype).start(W, placed, objective)
                run.iterate()
                run.iterate()
            tensors.append(run.tensor())
    for here, there in (tensors[:2], tensors[2:]):
        assert_array_equal(here.scaled_train.data, there.scaled_train.data)
    assert stand_in.calls == {"partial_products": 2, "hold": 1}


def test_a_start_beyond_the_range_of_floats_is_refused():
    W, batch, objective = problem(Squared())
    with pytest.raises(ValueError, match=r"norm less than exp\(700\), got exp\(\d+.*divide"):
        Sweeps().start(W * 1e200 * 1e200, batch, objective)
    # .. while a tiny one is a start as any other
    assert Sweeps().start(W * 1e-200 * 1e-200, batch, objective).value > 0
