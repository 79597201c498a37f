"""Sweeps: each is Newton's method at one core after the other, as written out densely."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import naive
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import curve_batch
from strategies import DTYPES, batches, dtypes, feature_vectors, seeds, shapes

from ttexm import Manifold, RankOneBatch, TTTensor
from ttexm.kernels import core_sweep, schedule
from ttexm.learn.data import with_outputs
from ttexm.learn.losses import Hinge, Logistic, Poisson, Softmax, Squared, SquaredHinge
from ttexm.learn.objective import Objective
from ttexm.learn.solvers.product_sweep import ProductSweep, Settings
from ttexm.learn.solvers.sweeps import CompiledSweep, Sweeps

LOSSES = [Squared(), Logistic(), Poisson(), Hinge(), SquaredHinge(), Softmax()]
EXACT = Settings(newton_steps=1, cg_steps=500, cg_tolerance=1e-14)


def batch_of(rng, m=400):
    return RankOneBatch.join(
        [
            RankOneBatch.from_columns(rng.standard_normal((m, 2))),
            RankOneBatch.from_codes(rng.integers(0, 4, (m, 2)), (4, 4), 0.7),
            RankOneBatch.from_vectors([rng.standard_normal((m, 3))]),
            curve_batch(rng, m, 4),
            RankOneBatch.from_columns([rng.standard_normal((m, 2))]),
        ]
    )


def targets(loss, f, rng):
    """Targets like predictions f (m,) or (m, n_outputs), with noise."""
    noisy = f + 0.1 * rng.standard_normal(f.shape)
    if isinstance(loss, Squared):
        return noisy
    if isinstance(loss, Poisson):
        return rng.poisson(np.exp(np.clip(noisy, -3, 2))).astype(float)
    if isinstance(loss, Softmax):
        return np.eye(f.shape[1])[noisy.argmax(axis=1)]
    return np.where(noisy > 0, 1.0, -1.0)


def problem(loss, seed=0, m=400, alpha=1e-3, n_outputs=None, make=batch_of):
    """A random start of rank 3, a batch and an objective whose targets are nearly of rank 3."""
    rng = np.random.default_rng(seed)
    batch = make(rng, m)
    n_outputs = 3 if isinstance(loss, Softmax) else n_outputs
    shape = batch.shape if n_outputs is None else (*batch.shape, n_outputs)
    y = targets(loss, TTTensor.random(shape, 3, seed).contract(batch), rng)
    W = TTTensor.random(shape, 3, seed + 1)
    return W * (0.1 / W.norm()), batch, Objective(loss, y, rng.uniform(0.5, 2, m), alpha)


def product_sweep(W, batch, objective, **settings):
    return ProductSweep(W, with_outputs(batch, objective.y), objective, **settings)


def value_at(W, batch, objective):
    return objective.value(W.contract(batch), W.norm() ** 2)


# -- one sweep, written out -----------------------------------------------------------------------


@st.composite
def small_problems(draw):
    """A start of full rank, a batch of any kinds and an objective of any loss."""
    shape, loss = draw(shapes(4, 4, 48)), draw(st.sampled_from(LOSSES))
    is_coupled = isinstance(loss, Softmax)
    n_outputs = draw(st.integers(2, 3)) if is_coupled or draw(st.booleans()) else None
    batch = draw(batches(shape, least_samples=1))
    shape, m = shape if n_outputs is None else (*shape, n_outputs), len(batch)
    ranks = [draw(st.integers(1, min(3, most))) for most in naive.largest_ranks(shape)]
    rng = np.random.default_rng(draw(seeds))
    W = TTTensor.random(shape, tuple(ranks), rng)
    y = targets(loss, TTTensor.random(shape, 2, rng).contract(batch), rng)
    offset = rng.standard_normal(y.shape) if draw(st.booleans()) else None
    alpha = draw(st.sampled_from([0.01, 0.1, 1.0]))
    objective = Objective(loss, y, rng.uniform(0.5, 2, m), alpha, offset)
    return W * (draw(st.sampled_from([0.3, 3.0])) / W.norm()), batch, objective


def written_out(batch, objective):
    """The feature vectors of each row and output, and the loss of all these predictions."""
    phis, (m, *outputs) = feature_vectors(batch), objective.y.shape
    if outputs:
        phis = [np.repeat(phi, outputs[0], axis=0) for phi in phis]
        phis.append(np.tile(np.eye(outputs[0]), (m, 1)))

    def loss(f):
        curvatures = np.diag(objective.curvature_or_slope(f))
        if isinstance(objective.loss, Softmax):
            K = outputs[0]
            p = objective.loss.predict(objective._predictions(f))
            for s, w in enumerate(objective.weights.ravel()):
                here = slice(s * K, (s + 1) * K)
                curvatures[here, here] = w * (np.diag(p[s]) - np.outer(p[s], p[s]))
        return objective.value(f, 0.0), objective.derivative(f), curvatures

    return phis, loss


def has_full_rank(cores):
    """Whether the spaces of both sides of each bond are more than rounding errors."""
    W = naive.full(cores)
    for k in range(1, len(cores)):
        s = np.linalg.svd(naive.unfolding(W, k), compute_uv=False)
        if s[cores[k].shape[0] - 1] < 1e-4 * s[0]:
            return False
    return np.linalg.norm(W) > 1e-6


@pytest.mark.cpu
@pytest.mark.parametrize("is_cut", [False, True])
@settings(max_examples=200)
@given(given_problem=small_problems())
def test_a_sweep_is_a_newton_step_at_each_core(given_problem, is_cut):
    W, batch, objective = given_problem
    phis, loss = written_out(batch, objective)
    cores = W.to_cores()
    with pytest.MonkeyPatch.context() as patch:
        if is_cut:  # into more chunks than there are groups of samples
            patch.setattr(core_sweep, "SAMPLES_PER_CHUNK", 2)
        run = Sweeps(settings=EXACT).start(W, batch, objective)
    assert isinstance(run, CompiledSweep)
    assume(run.value < 1e4)  # the Poisson loss may be huge, and alpha of no effect beside it
    for _ in range(2):
        steps = list(naive.newton_sweep(cores, phis, loss, objective.alpha))
        # Where a bond loses rank, nothing says what the slots hold that are free then.
        assume(all(has_full_rank(cores) for cores, _, _ in steps))
        cores, value, _ = steps[-1]
        run.iterate()
        # At a minimum, rounding decides whether a last step of about 1e-8 lowers the objective.
        expected = naive.full(cores)
        tolerance = 1e-7 * max(1, np.linalg.norm(expected))
        assert_allclose(run.tensor().full(), expected, atol=tolerance)
        assert_allclose(run.value, value, rtol=1e-8, atol=1e-14)
        mean = np.sqrt(np.mean([norm**2 for _, _, norm in steps]))
        assert_allclose(run.gradient_norm, mean, rtol=1e-7, atol=1e-8)


@pytest.mark.cpu
@settings(max_examples=200)
@given(small_problems())
def test_one_step_of_conjugate_gradients_is_scaled_by_the_curvature_of_each_level(given_problem):
    W, batch, objective = given_problem
    phis, loss = written_out(batch, objective)
    run = Sweeps(settings=Settings(1, 1, 0.0)).start(W, batch, objective)
    assume(run.value < 1e4)

    def step(k, J, curvatures, hessian, gradient):
        scale = np.ones(phis[k].shape[1])
        if k < batch.ndim and batch.is_coded(k):
            shape = current[k].shape
            scale = (curvatures.diagonal() @ J**2).reshape(shape).mean(axis=(0, 2))
            scale = np.maximum(scale, 1e-6 * scale.max()) + objective.alpha
        p = (-gradient.reshape(current[k].shape) / scale[:, None]).ravel()
        return -(gradient @ p) / max(p @ hessian @ p, 1e-300) * p

    current = W.to_cores()
    steps = []
    for taken in naive.newton_sweep(current, phis, loss, objective.alpha, step):
        steps.append(taken)
        current = taken[0]
        assume(has_full_rank(current))
    run.iterate()
    expected = naive.full(current)
    assert_allclose(run.tensor().full(), expected, atol=1e-7 * max(1, np.linalg.norm(expected)))
    assert_allclose(run.value, steps[-1][1], rtol=1e-8, atol=1e-14)


@given(given_problem=small_problems())
def test_a_run_says_of_itself_what_its_tensor_gives(given_problem):
    W, batch, objective = given_problem
    run = Sweeps().start(W, batch, objective)
    assert_allclose(run.tensor().full(), W.full(), atol=1e-12)
    assume(np.isfinite(run.value))
    for _ in range(3):
        W = run.tensor()
        f = W.contract(batch)
        tolerance = 1e-10 * (1 + np.abs(f).max())
        assert_allclose(run.f.reshape(f.shape), f, atol=tolerance)
        assert_allclose(run.predict(batch), f, atol=tolerance)
        assert_allclose(run.value, value_at(W, batch, objective), rtol=1e-9)
        run.iterate()


@pytest.mark.cpu
@pytest.mark.parametrize("loss", LOSSES[:-1], ids=repr)
@pytest.mark.parametrize("settings", [EXACT, Settings(), Settings(3, 2, 0.5)], ids=str)
def test_sweeps_on_partial_products_take_the_same_steps(loss, settings):
    W, batch, objective = problem(loss, m=300)
    one = Sweeps(settings=settings).start(W, batch, objective)
    other = product_sweep(W, batch, objective, settings=settings)
    for _ in range(2):
        one.iterate()
        other.iterate()
        assert_allclose(one.value, other.value, rtol=1e-9)
        assert_allclose(one.gradient_norm, other.gradient_norm, rtol=1e-6)
    assert (one.tensor() - other.tensor()).norm() < 1e-7 * other.tensor().norm()


@pytest.mark.cpu
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_several_outputs_are_rows_of_their_own_with_one_more_mode(loss):
    W, batch, objective = problem(loss, m=300, n_outputs=3)
    run = Sweeps(settings=EXACT).start(W, batch, objective)
    product = product_sweep(W, batch, objective, settings=EXACT)
    rows = with_outputs(batch, objective.y)
    weights = np.repeat(objective.weights, 3)
    # The weights of each output sum to 1.
    flat = Objective(loss, objective.y.reshape(-1), weights, objective.alpha / 3)
    written = Sweeps(settings=EXACT).start(W, rows, flat)
    assert isinstance(written, CompiledSweep)
    assert run.f.shape == (300, 3)
    for other in (product, written):
        for _ in range(2):
            other.iterate()
    run.iterate()
    run.iterate()
    for other in (product, written):
        assert_allclose(run.f.reshape(-1), other.f, atol=1e-6 * np.abs(run.f).max())
        assert (run.tensor() - other.tensor()).norm() < 1e-6 * run.tensor().norm()
    assert_allclose(run.value, product.value, rtol=1e-9)
    assert_allclose(run.value, 3 * written.value, rtol=1e-9)


@pytest.mark.cpu
def test_rows_that_are_repeated_count_as_weights_do():
    W, batch, objective = problem(Logistic(), m=200)
    counts = np.random.default_rng(0).integers(1, 4, 200)
    rows = np.repeat(np.arange(200), counts)
    y, alpha = objective.y, objective.alpha
    weighted = Sweeps(settings=EXACT).start(W, batch, Objective(Logistic(), y, counts, alpha))
    ones = np.ones(len(rows))
    repeated = Objective(Logistic(), y[rows], ones, alpha)
    repeated = Sweeps(settings=EXACT).start(W, batch[rows], repeated)
    for run in (weighted, repeated):
        run.iterate()
    assert_allclose(weighted.value, repeated.value, rtol=1e-10)
    assert_allclose(weighted.f[rows], repeated.f, atol=1e-7)


@pytest.mark.cpu
def test_ranks_that_no_tensor_of_the_shape_has_are_trimmed():
    W, batch, objective = problem(Squared(), m=50)
    W = TTTensor.random(W.shape, 40, seed=0)
    run = Sweeps().start(W, batch, objective)
    assert run.tensor().ranks == naive.largest_ranks(W.shape)
    assert (run.tensor() - W).norm() < 1e-12 * W.norm()


# -- many samples, in chunks and on several threads -----------------------------------------------


def sparse_levels(rng, m):
    """Categories and indices with levels of no row, of one row, and of rows side by side."""
    rare = np.where(rng.random(m) < 0.01, rng.integers(0, 300, m), 7)
    rare[m // 2] = 299
    grouped = np.sort(rng.integers(0, 40, m)) * 2
    return RankOneBatch.join(
        [
            RankOneBatch.from_codes(np.stack([rare, grouped], axis=1), (300, 100), 0.7),
            RankOneBatch.from_columns(rng.standard_normal((m, 1))),
            RankOneBatch.from_indices(rare[::-1, None] // 50, (7,)),
            curve_batch(rng, m, 5, 60),
        ]
    )


@pytest.mark.cpu
@pytest.mark.parametrize("make", [batch_of, sparse_levels])
@pytest.mark.parametrize("loss", [Squared(), Softmax()], ids=repr)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_do_not_depend_on_the_number_of_threads(monkeypatch, threads, make, loss, dtype):
    monkeypatch.setattr(schedule, "PARALLEL_FLOPS", 0)
    W, batch, objective = problem(loss, m=9000, make=make)
    seen = []
    for n in (1, 2, 3):
        threads(n)
        run = Sweeps(dtype=dtype).start(W, batch, objective)
        run.iterate()
        run.iterate()
        seen.append((run.tensor().scaled_train.data, run.f, run.value, run.gradient_norm))
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            assert_array_equal(one, other)


@pytest.mark.cpu
@pytest.mark.parametrize("make", [batch_of, sparse_levels])
@pytest.mark.parametrize("loss", [Logistic(), Softmax()], ids=repr)
def test_results_hardly_depend_on_the_chunks(monkeypatch, make, loss):
    W, batch, objective = problem(loss, m=9000, make=make)
    runs = [Sweeps().start(W, batch, objective)]
    assert core_sweep.count_chunks(9000) > 1
    monkeypatch.setattr(core_sweep, "SAMPLES_PER_CHUNK", 10_000)
    runs.append(Sweeps().start(W, batch, objective))
    for run in runs:
        run.iterate()
        run.iterate()
    assert_allclose(runs[0].value, runs[1].value, rtol=1e-10)
    assert (runs[0].tensor() - runs[1].tensor()).norm() < 1e-7 * runs[1].tensor().norm()


@pytest.mark.cpu
@pytest.mark.parametrize("loss", [Squared(), Softmax()], ids=repr)
def test_no_memory_is_read_before_it_is_written(monkeypatch, loss):
    W, batch, objective = problem(loss, m=100)  # which leaves gaps in the runs
    found = []
    for garbage in (0.0, np.nan):

        def filled(n, dtype, garbage=garbage):
            return np.full(n, garbage, dtype)

        monkeypatch.setattr(core_sweep, "aligned", filled)
        run = Sweeps().start(W, batch, objective)
        run.iterate()
        found.append((run.tensor().scaled_train.data, run.value))
    assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


@pytest.mark.cpu
def test_a_sweep_does_without_helpers_that_are_busy_elsewhere(monkeypatch, threads):
    """They are claimed by another computation, which ends only after the sweep."""
    threads(3)
    monkeypatch.setattr(schedule, "PARALLEL_FLOPS", 0)
    W, batch, objective = problem(Squared(), m=5000)
    runs = [Sweeps().start(W, batch, objective) for _ in range(2)]
    runs[0].iterate()
    assert schedule._pool.n_workers >= 2
    is_over = threading.Event()
    others = [schedule._pool.submit(is_over.wait, 60) for _ in range(schedule._pool.n_workers)]
    try:
        runs[1].iterate()
        assert not any(other.done() for other in others)
    finally:
        is_over.set()
    assert_array_equal(*(run.tensor().scaled_train.data for run in runs))


@pytest.mark.cpu
def test_many_sweeps_at_once_share_the_helpers(monkeypatch, threads):
    threads(3)
    monkeypatch.setattr(schedule, "PARALLEL_FLOPS", 0)
    W, batch, objective = problem(Squared(), m=5000)

    def sweep(_=None):
        run = Sweeps().start(W, batch, objective)
        for _ in range(5):
            run.iterate()
        return run.tensor().scaled_train.data

    expected = sweep()
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(sweep, range(12)):
            assert_array_equal(found, expected)


@pytest.mark.cpu
def test_helpers_return_if_the_main_thread_fails(monkeypatch, threads):
    threads(2)
    monkeypatch.setattr(schedule, "PARALLEL_FLOPS", 0)
    W, batch, objective = problem(Squared(), m=5000)
    run = Sweeps().start(W, batch, objective)

    def interrupt(self):
        time.sleep(0.05)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(core_sweep.CoreSweep, "_go_on", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.iterate()
    value = run.value
    run.iterate()
    assert run.value < value


class Mine(Logistic):
    """A loss that kernels do not know: it is evaluated between their passes."""


@pytest.mark.cpu
@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_loss_of_the_user_takes_the_same_steps(threads, n_outputs, n_threads):
    threads(n_threads)
    W, batch, objective = problem(Logistic(), m=5000, n_outputs=n_outputs)
    offset = np.random.default_rng(0).standard_normal(objective.y.shape)
    runs = []
    for loss in (Logistic(), Mine()):
        shifted = Objective(loss, objective.y, objective.weights, objective.alpha, offset)
        runs.append(Sweeps().start(W, batch, shifted))
        runs[-1].iterate()
        runs[-1].iterate()
    assert_allclose(runs[0].value, runs[1].value, rtol=1e-10)
    assert_allclose(runs[0].f, runs[1].f, atol=1e-8 * np.abs(runs[0].f).max())
    assert_allclose(runs[0].gradient_norm, runs[1].gradient_norm, rtol=1e-8)


# -- many sweeps ----------------------------------------------------------------------------------


@pytest.mark.large
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(
    ("sites", "dtype"), [(1, np.float64), (1, np.float32), (2, np.float64)], ids=str
)
def test_the_objective_never_rises(loss, sites, dtype):
    W, batch, objective = problem(loss)
    run = Sweeps(sites, 50, dtype=dtype).start(W, batch, objective)
    values = [run.value]
    for _ in range(6):
        run.iterate()
        values.append(run.value)
    assert np.all(np.diff(values) <= 1e-9 * np.abs(values[0]))
    assert values[-1] < 0.8 * values[0]
    f = run.tensor().contract(batch).reshape(run.f.shape)
    tolerance = 1e-9 if dtype == np.float64 else 2e-4
    assert_allclose(run.f, f, atol=tolerance * (1 + np.abs(f).max()))
    assert_allclose(run.value, value_at(run.tensor(), batch, objective), rtol=tolerance)


@given(small_problems(), dtypes)
def test_the_objective_never_rises_whatever_the_modes_are(given_problem, dtype):
    W, batch, objective = given_problem
    run = Sweeps(dtype=dtype).start(W, batch, objective)
    for _ in range(3):
        before = run.value
        run.iterate()
        assert run.value <= before


@pytest.mark.large
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax()], ids=repr)
def test_one_site_sweeps_end_where_the_riemannian_gradient_is_zero(loss):
    W, batch, objective = problem(loss, alpha=1e-2)
    run = Sweeps(settings=Settings(5, 50, 1e-4)).start(W, batch, objective)
    for _ in range(300):
        run.iterate()
    W, rows = run.tensor(), with_outputs(batch, objective.y)
    manifold = Manifold(W.shape, W.ranks)
    start = manifold.gradient(W, rows, objective.derivative(0 * run.f))
    gradient = manifold.gradient(W, rows, objective.derivative)
    xi = gradient + objective.alpha * manifold.project(W, W)
    assert xi.norm() < 1e-4 * start.norm()
    assert run.gradient_norm < 1e-4 * start.norm()


@pytest.mark.parametrize("sites", [1, 2])
def test_one_mode_is_the_linear_model(sites):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((100, 3)), rng.standard_normal(100)
    batch = RankOneBatch.from_columns([x])
    objective = Objective(Squared(), y, np.ones(100), 0.1)
    run = Sweeps(sites, settings=EXACT).start(TTTensor.zeros((4,)), batch, objective)
    run.iterate()
    A = np.hstack([np.ones((100, 1)), x])
    w = np.linalg.solve(A.T @ A / 100 + 0.1 * np.eye(4), A.T @ y / 100)
    assert_allclose(run.tensor().full(), w, atol=1e-6)


@pytest.mark.large
def test_two_sites_find_the_rank():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_columns(rng.choice([-1.0, 1.0], (2000, 8)))
    truth = TTTensor.random(batch.shape, 3, seed=5)
    objective = Objective(Squared(), truth.contract(batch), np.ones(2000), 0.0)
    solver = Sweeps(2, 10, 1e-4, Settings(1, 10, 1e-3))
    run = solver.start(TTTensor.random(batch.shape, 1, seed=1), batch, objective)
    for _ in range(12):
        run.iterate()
    W = run.tensor()
    assert W.ranks == truth.ranks
    assert (W - truth).norm() < 1e-3 * truth.norm()


def test_a_cut_of_the_rank_is_seen_in_the_predictions():
    W, batch, objective = problem(Squared(), m=100)
    run = Sweeps(2, 2).start(TTTensor.random(W.shape, 4, seed=3), batch, objective)
    run.iterate()
    assert run.tensor().rank == 2
    assert_allclose(run.f, run.tensor().contract(batch), atol=1e-10)


@pytest.mark.large
def test_classes_are_told_apart_by_products_of_columns():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    y = np.eye(3)[np.argmax(x[:, :3] * x[:, 1:], axis=1)]
    W = 0.1 * TTTensor.random((2, 2, 2, 2, 3), 6, seed=0)
    objective = Objective(Softmax(), y, np.ones(300), 1e-4)
    run = Sweeps().start(W, RankOneBatch.from_columns(x), objective)
    for _ in range(10):
        run.iterate()
    assert np.mean(np.argmax(run.f, axis=1) == np.argmax(y, axis=1)) > 0.95


def test_a_loss_without_curvature_still_descends():
    W, batch, objective = problem(Hinge(), m=100)
    for run in (Sweeps().start(W, batch, objective), product_sweep(W, batch, objective)):
        before = run.value
        run.iterate()
        assert run.value < before


@pytest.mark.large
def test_float32_partial_products_are_enough():
    W, batch, objective = problem(Logistic())
    values = []
    for dtype in DTYPES:
        run = Sweeps(dtype=dtype).start(W, batch, objective)
        for _ in range(4):
            run.iterate()
        values.append(value_at(run.tensor(), batch, objective))
    assert_allclose(*values, rtol=2e-2)


@pytest.mark.parametrize("n_outputs", [None, 3])
def test_an_offset_is_added_to_the_predictions(n_outputs):
    W, batch, objective = problem(Squared(), m=60, n_outputs=n_outputs)
    weights = objective.weights.reshape(-1)
    shifted = Objective(Squared(), objective.y + 3, weights, objective.alpha, offset=3.0)
    one, other = (Sweeps().start(W, batch, given) for given in (objective, shifted))
    one.iterate()
    other.iterate()
    assert_allclose(one.value, other.value, rtol=1e-9)
    assert_allclose(one.f, other.f, atol=1e-8 * np.abs(one.f).max())


def test_few_samples_without_a_penalty_are_interpolated():
    W, batch, objective = problem(Squared(), m=20, alpha=0.0)
    run = Sweeps(settings=EXACT).start(W, batch, objective)
    for _ in range(3):
        run.iterate()
    assert run.value < 1e-12
    assert np.isfinite(run.tensor().norm())


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
    solver = Sweeps(2, 20, 0.15, Settings(1, 20, 1e-6))
    run = solver.start(TTTensor.random((20, 20), 1, seed=0), batch, objective)
    run.iterate()
    assert run.tensor().rank == 1


@pytest.mark.parametrize("m", [40, 400])
@pytest.mark.parametrize("dtype", DTYPES)
def test_partial_products_are_computed_on_the_device(stand_in, m, dtype):
    W, batch, objective = problem(Logistic(), m=m)
    there = batch.to("cuda")
    for sites in (1, 2):
        here = ProductSweep(W, batch.to("cpu"), objective, sites, 4, dtype=dtype)
        with stand_in.alone():
            run = Sweeps(sites, 4, dtype=dtype).start(W, there, objective)
            for _ in range(2):
                run.iterate()
        for _ in range(2):
            here.iterate()
        assert_array_equal(run.tensor().scaled_train.data, here.tensor().scaled_train.data)
    assert stand_in.calls == {"partial_products": 2, "hold": 1}


@pytest.mark.parametrize("sites", [1, 2])
def test_a_start_beyond_the_range_of_floats_is_refused(sites):
    W, batch, objective = problem(Squared())
    with pytest.raises(ValueError, match=r"norm less than exp\(700\), got exp\(\d+.*divide"):
        Sweeps(sites).start(W * 1e200 * 1e200, batch, objective)
    # .. while a tiny one is a start as any other
    assert Sweeps(sites).start(W * 1e-200 * 1e-200, batch, objective).value > 0
