"""What the layers above cannot see: scratch memory, threads, the range of numbers, tiles."""

import os
import subprocess
import sys
import textwrap
import threading

import naive
import numpy as np
import pytest
from devices import IS_SIMULATED
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from strategies import DTYPES, batches, dtypes, feature_vectors, seeds, shapes

from ttexm import Manifold, RankOneBatch, TTTensor
from ttexm.kernels import gradients, host, layout, schedule

GUARD = 64
# Tiles come in 8, 4, 3, 2 and 1 rows and columns; remainders of all sizes must fit together.
RANKS = (1, 4, 5, 9) if IS_SIMULATED else range(1, 14)


@pytest.fixture
def guarded(monkeypatch):
    """Scratch arrays of exactly the size asked for, with a guard zone behind that must stay."""
    acquired = {}

    def acquire(role, n, dtype):
        array = layout.aligned(n + GUARD, dtype)
        array[:n] = 1e30 if np.dtype(dtype).kind == "f" else 12345
        array[n:] = 77
        acquired[id(array)] = n
        return array

    def release(role, array):
        n = acquired.pop(id(array))
        assert (array[n:] == 77).all(), f"a kernel wrote past its {role!r} scratch of {n} elements"

    patch_scratch(monkeypatch, acquire, release)
    yield
    assert not acquired


def patch_scratch(monkeypatch, acquire, release):
    for module in (schedule, gradients):
        monkeypatch.setattr(module, "acquire", acquire)
        monkeypatch.setattr(module, "release", release)


@pytest.mark.cpu
def test_retraction_at_full_rank_reads_no_scratch_that_it_has_not_written(monkeypatch):
    def acquire(role, n, dtype):
        array = layout.aligned(n, dtype)
        array[:] = np.nan
        return array

    patch_scratch(monkeypatch, acquire, lambda role, array: None)
    manifold = Manifold((2, 2, 4, 4, 3), rank=(1, 2, 4, 12, 3, 1))  # bonds without further room
    W = manifold.random_point(seed=0)
    xi = manifold.random_tangent(W, seed=1)
    moved = manifold.retract(W, xi)
    assert (moved - W - xi.to_tensor()).norm() < 1e-12


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 3, 5, 8, 9, 16, 17])
@pytest.mark.parametrize("shape", [(2,) * 7, (3, 1, 4, 2), (5,), (2, 30, 2, 3), (1, 1, 1)])
def test_kernels_stay_within_their_scratch(guarded, shape, rank, dtype):
    rng = np.random.default_rng(rank)
    manifold = Manifold(shape, rank)
    W, Z = TTTensor.random(shape, rank, rng, dtype), TTTensor.random(shape, 2 * rank, rng, dtype)
    untrimmed = TTTensor([rng.standard_normal((1 if k == 0 else rank, n, rank if k < len(shape) - 1
                          else 1)).astype(dtype) for k, n in enumerate(shape)])  # fmt: skip
    for m in (0, 1, 47, 48, 49, 300, 900):
        modes = [RankOneBatch.from_columns([rng.standard_normal((m, n - 1))]) for n in shape[:1]]
        modes += [RankOneBatch.from_codes(rng.integers(0, n, (m, 1)), (n,)) for n in shape[1:2]]
        modes += [RankOneBatch.from_vectors([rng.standard_normal((m, n))]) for n in shape[2:]]
        batch = RankOneBatch.join(modes).astype(dtype)
        g = rng.standard_normal(m)
        W.contract(batch)
        W.compile().contract(batch)
        xi = manifold.gradient(W, batch, g)
        manifold.gradient(W, batch, lambda f, g=g: g)
    for tensor in (W, Z, untrimmed):
        assert np.isfinite(tensor.norm() + tensor.inner(W))
        tensor.round(rank=rank)
        tensor.orthogonalize(0)
    for step in (0.0, 1e-3, 10.0):
        manifold.retract(W, step * manifold.project(W, Z))
    manifold.transport(xi, manifold.random_point(rng, dtype))


# -- every tile shape -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["columns", "vectors", "codes", "indices"])
@pytest.mark.parametrize("r0", RANKS)
def test_every_pair_of_ranks(r0, kind, dtype):
    rng = np.random.default_rng(r0)
    n, m = 3, 61
    for r1 in RANKS:
        cores = [rng.standard_normal(s) for s in ((1, n, r0), (r0, n, r1), (r1, n, 1))]
        W = TTTensor(cores).astype(dtype)
        make = {
            "columns": lambda: RankOneBatch.from_columns(list(rng.standard_normal((3, m, n - 1)))),
            "vectors": lambda: RankOneBatch.from_vectors(rng.standard_normal((m, 3, n))),
            "codes": lambda: RankOneBatch.from_codes(rng.integers(0, n, (m, 3)), (n,) * 3, 0.5),
            "indices": lambda: RankOneBatch.from_indices(rng.integers(0, n, (m, 3)), (n,) * 3),
        }[kind]
        batch = make().astype(dtype)
        exact = naive.contract(naive.full(cores), feature_vectors(batch))
        eps = 300 * np.finfo(dtype).eps * np.abs(exact).max() * (r0 + r1)
        assert_allclose(W.contract(batch), exact, rtol=0, atol=eps)
        assert_allclose(W.inner(W), (naive.full(cores) ** 2).sum(), rtol=1e4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("rank", RANKS)
def test_gradients_of_every_rank(rank):
    rng = np.random.default_rng(rank)
    manifold = Manifold((4,) * 4, rank)
    W = manifold.random_point(rng)
    batch = RankOneBatch.join(
        [
            RankOneBatch.from_columns([rng.standard_normal((50, 3))]),
            RankOneBatch.from_codes(rng.integers(0, 4, (50, 1)), (4,), scale=0.3),
            RankOneBatch.from_vectors([rng.standard_normal((50, 4))]),
            RankOneBatch.from_indices(rng.integers(0, 4, (50, 1)), (4,)),
        ]
    )
    g = rng.standard_normal(50)
    Z = (g @ naive.rank_ones(feature_vectors(batch))).reshape(manifold.shape)
    xi = manifold.gradient(W, batch, g).to_tensor()
    # The projection is the nearest tangent vector: the rest is orthogonal to the tangent space.
    rest = TTTensor.from_dense(Z) - xi
    assert manifold.project(W, rest).norm() <= 1e-12 * np.linalg.norm(Z)
    assert (manifold.project(W, xi).to_tensor() - xi).norm() <= 1e-12 * np.linalg.norm(Z)


@pytest.mark.cpu
@pytest.mark.slow
def test_tiles_of_512_bits_give_the_same_numbers(tmp_path):
    # This machine may not have them; LLVM splits them then. Lane arithmetic is what is tested.
    code = textwrap.dedent("""
        import numpy as np
        from ttexm import Manifold, RankOneBatch
        rng = np.random.default_rng(0)
        for dtype in (np.float64, np.float32):
            manifold = Manifold((2, 3, 4, 2, 3), 5)
            W = manifold.random_point(0, dtype)
            codes = RankOneBatch.from_codes(rng.integers(0, 4, (130, 1)), (4,), 0.5, dtype)
            batch = RankOneBatch.join([
                RankOneBatch.from_columns([rng.standard_normal((130, n - 1))], dtype)
                if n < 4 else codes for n in manifold.shape])
            xi = manifold.gradient(W, batch, rng.standard_normal(130))
            print(W.contract(batch).astype(float).tolist(), xi.to_tensor().full().ravel().tolist())
    """)
    results = []
    for width in ("32", "64"):
        environment = os.environ | {"TTEXM_VECTOR_BYTES": width, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", code]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        results.append(eval(run.stdout.replace("\n", ",").replace("] [", "], [")))
    for narrow, wide in zip(*results, strict=True):
        assert_allclose(narrow, wide, rtol=2e-4, atol=2e-4)


# -- threads --------------------------------------------------------------------------------------


@pytest.fixture
def thread_counts():
    before = schedule.get_num_threads()
    yield [1, 2, 3, 5]
    schedule.set_num_threads(before)


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [3, 8])
def test_results_do_not_depend_on_the_number_of_threads(thread_counts, rank, dtype):
    rng = np.random.default_rng(0)
    manifold = Manifold((2,) * 20, rank)
    W = manifold.random_point(0, dtype)
    batch = RankOneBatch.from_columns(rng.standard_normal((20_000, 20)), dtype)
    g, seen = rng.standard_normal(20_000), []
    for n in thread_counts:
        schedule.set_num_threads(n)
        xi, eta = manifold.gradient(W, batch, g), manifold.gradient(W, batch, np.sin)
        seen.append(
            [W.contract(batch), W.compile().contract(batch), xi.flat_deltas, eta.flat_deltas]
        )
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            assert_array_equal(one, other)


@pytest.mark.cpu
def test_results_do_not_depend_on_the_threads_of_blas():
    from threadpoolctl import threadpool_limits

    W, Z = (TTTensor.random((4,) * 6, rank=40, seed=seed) for seed in range(2))
    manifold = Manifold(W.shape, 40)
    seen = []
    for n in (1, 2):
        with threadpool_limits(n):
            W = TTTensor(W.to_cores())
            moved = manifold.retract(W, manifold.project(W, Z))
            seen.append([W.norm(), W.inner(Z), *(W + Z).round(rank=20).cores, *moved.cores])
    for one, other in zip(*seen, strict=True):
        assert_array_equal(one, other)


@pytest.mark.cpu
def test_many_python_threads_at_once():
    rng = np.random.default_rng(0)
    manifold = Manifold((2,) * 15, 6)
    W = manifold.random_point(0)
    batch, g = RankOneBatch.from_columns(rng.standard_normal((5000, 15))), rng.standard_normal(5000)
    expected, wrong = manifold.gradient(W, batch, g).flat_deltas, []

    def work():
        for _ in range(20):
            if not np.array_equal(manifold.gradient(W, batch, g).flat_deltas, expected):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.cpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_compute(thread_counts):
    schedule.set_num_threads(2)
    batch = RankOneBatch.from_columns(np.random.default_rng(0).standard_normal((50_000, 20)))
    W = TTTensor.random((2,) * 20, 8, seed=0)
    expected = W.contract(batch)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(W.contract(batch), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_function_may_compute_within_a_gradient():
    # The outer computation's scratch memory must not be taken from it.
    rng = np.random.default_rng(0)
    manifold = Manifold((2,) * 10, 3)
    W = manifold.random_point(0)
    batch, g = RankOneBatch.from_columns(rng.standard_normal((100, 10))), rng.standard_normal(100)

    def nested(f):
        manifold.gradient(W, batch, lambda f: -f)
        manifold.retract(W, manifold.random_tangent(W, 0))
        return g

    xi = manifold.gradient(W, batch, nested)
    assert_array_equal(xi.flat_deltas, manifold.gradient(W, batch, g).flat_deltas)


# -- range ----------------------------------------------------------------------------------------


@given(shapes(most_modes=4), seeds, st.sampled_from([-1000, -600, 600, 1000]))
def test_scales_of_2_to_the_1000(shape, seed, exponent):
    W = TTTensor.random(shape, 3, seed)
    scaled = 2.0**exponent * W
    assert_array_equal(scaled.full(), W.full() * 2.0**exponent)
    assert_allclose(scaled.log_norm(), W.log_norm() + exponent * np.log(2))
    assert_allclose(scaled.log_inner(scaled)[1], 2 * scaled.log_norm())
    # inf is right where the result itself does not fit; nothing may overflow on the way to one.
    bounded = abs(exponent) * np.log(2) + abs(W.log_norm()) < 700
    if bounded:
        assert_allclose(scaled.norm(), W.norm() * 2.0**exponent)
    assert_allclose((scaled + scaled).round().full() / 2.0**exponent, 2 * W.full(), atol=1e-10)
    assert_allclose(scaled.orthogonalize(0).full() / 2.0**exponent, W.full(), atol=1e-10)
    manifold = Manifold(shape, scaled.ranks)
    Z = TTTensor.random(shape, 2, seed + 1)
    xi, scaled_xi = manifold.project(W, Z), manifold.project(scaled, 2.0**exponent * Z)
    assert_allclose(scaled_xi.to_tensor().full() / 2.0**exponent, xi.to_tensor().full(), atol=1e-10)
    moved, scaled_moved = manifold.retract(W, xi), manifold.retract(scaled, scaled_xi)
    assert_allclose(scaled_moved.full() / 2.0**exponent, moved.full(), atol=1e-10)


def test_factors_that_cancel_only_in_the_end():
    # 2^-300 and 2^300 in turn, or all small ones first: the product is 1 every time.
    for signs in (np.tile([1, -1], 50), np.repeat([1, -1], 50), np.repeat([-1, 1], 50)):
        W = TTTensor.rank_one([np.full(2, 2.0 ** (300 * sign)) for sign in signs])
        index = np.zeros((3, 100), int)
        assert_array_equal(W[index], [1, 1, 1])
        assert W[(0,) * 100] == 1
        assert_allclose(W.log_norm(), 50 * np.log(2))
        assert_allclose(W.inner(W), 2.0**100)
        batch = RankOneBatch.from_columns(np.ones((2, 100)))
        assert_allclose(W.contract(batch), 2.0**100)
        assert_allclose(W.compile().contract(batch), 2.0**100)
        assert_allclose(W.round().log_norm(), 50 * np.log(2))
        assert_allclose(W.sum(), 2.0**100)


def test_samples_of_very_different_size_in_one_batch():
    values = 2.0 ** np.array([[-400.0] * 3, [0.0] * 3, [300.0] * 3])
    batch = RankOneBatch.from_vectors([values[:, [k]] for k in range(3)])
    W = TTTensor.rank_one([np.ones(1)] * 3)
    assert_array_equal(W.contract(batch), [0, 1, 2.0**900])
    signs, logs = W.log_contract(batch)
    assert_allclose(logs / np.log(2), [-1200, 0, 900], atol=1e-9)
    assert_array_equal(signs, [1, 1, 1])


@pytest.mark.large
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_where_left_and_right_products_leave_the_range(dtype):
    # Left products near 2^-(d/4), right ones near 2^(d/4): out of range each, not their product.
    d = 6000
    rng = np.random.default_rng(0)
    x = np.concatenate([np.zeros(d // 2), np.ones(d // 2)]) + 0.01 * rng.standard_normal((3, d))
    manifold = Manifold((2,) * d, 1)
    W = TTTensor.rank_one([np.ones(2, dtype)] * d)
    batch, g = RankOneBatch.from_columns(x, dtype), np.array([1.0, -2.0, 0.5])
    xi = manifold.gradient(W, batch, g)
    # In rank 1 delta_k = sum_s g_s prod_{j != k} <u, phi_j> (phi_k - u <u, phi_k>), and
    # u = (1, 1) / sqrt 2.
    u = np.full(2, 0.5**0.5)
    overlaps = np.log2((1 + x) / 2**0.5)
    for k in (0, 1, d // 2, d - 2):
        others = overlaps.sum(axis=1) - overlaps[:, k]
        phi = np.stack([np.ones(3), x[:, k]], axis=1)
        terms = (g * 2.0**others)[:, None] * (phi - (phi @ u)[:, None] * u)
        exact, scale = terms.sum(axis=0), np.abs(terms).sum() + 1e-30
        delta = xi.deltas[k][0, :, 0]
        tolerance = {np.float64: 1e-9, np.float32: 0.02}[dtype]
        assert np.isfinite(delta).all()
        assert_allclose(delta, exact, atol=tolerance * scale)


def test_nan_and_inf_stay_visible():
    W = TTTensor.random((2,) * 20, 4, seed=0)
    x = np.random.default_rng(0).standard_normal((100, 20))
    x[3, 7], x[5, 0], x[9, 19] = np.nan, np.inf, -np.inf
    batch = RankOneBatch.from_columns(x)
    bad = np.isin(np.arange(100), [3, 5, 9])
    for f in (W.contract(batch), W.compile().contract(batch)):
        assert_array_equal(~np.isfinite(f), bad)
    assert np.isnan(Manifold(W.shape, 4).gradient(W, batch, np.ones(100)).norm())
    cores = W.to_cores()
    cores[4][0, 0, 0] = np.nan
    broken = TTTensor(cores)
    assert np.isnan(broken.contract(batch[~bad])).all()
    assert np.isnan(broken.norm())
    assert np.isnan(broken.inner(W))
    assert np.isnan((broken + W).full()).any()
    assert np.isnan(broken[(0,) * 20])


# -- size -----------------------------------------------------------------------------------------


@pytest.mark.large
def test_a_hundred_thousand_modes():
    d, r = 100_000, 3
    manifold = Manifold((2,) * d, r)
    W = manifold.random_point(seed=0)
    assert abs(W.norm() - 1) < 1e-10
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_columns(rng.choice([-1.0, 1.0], (20, d)))
    signs, logs = W.log_contract(batch)
    assert np.isfinite(logs).all()
    assert set(signs) <= {-1.0, 1.0}
    compiled_signs, compiled_logs = W.compile().log_contract(batch)
    assert_array_equal(signs, compiled_signs)
    assert_allclose(logs, compiled_logs, atol=1e-6)
    Z = W + 0.5 * W
    assert abs(Z.norm() - 1.5) < 1e-10
    assert abs(Z.inner(W) - 1.5) < 1e-10
    assert abs((Z.round(rank=r) - 1.5 * W).norm()) < 1e-9
    xi = manifold.project(W, Z)
    assert abs(xi.norm() - 1.5) < 1e-9
    assert abs((manifold.retract(W, xi) - 2.5 * W).norm()) < 1e-9
    gradient = manifold.gradient(W, batch, np.zeros(20))
    assert gradient.norm() == 0


@given(shapes().flatmap(batches), dtypes)
def test_extents_bound_all_numbers(batch, dtype):
    high, low = batch.astype(dtype).extent
    for phi in feature_vectors(batch.astype(dtype)):
        numbers = np.abs(phi[phi != 0])
        assert (numbers <= 2.0**high).all()
        assert (numbers >= 2.0 ** (low - 1)).all()


def test_the_extent_of_numbers():
    for dtype, top in ((np.float64, 1025), (np.float32, 129)):
        for numbers, extent in (
            ([], (0, 0)),
            ([0, 0], (0, 0)),
            ([1, -0.25, 0], (1, -1)),
            ([np.nan, 1], (top, 1)),
            ([1, -np.inf], (top, 1)),
        ):
            assert host.extent(np.array(numbers, dtype)) == extent


@given(
    arrays(
        dtypes,
        st.tuples(st.integers(0, 6), st.integers(1, 12)),
        elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf, np.nan]),
    )
)
def test_the_argmax_of_rows_is_that_of_numpy(f):
    assert_array_equal(host.argmax_rows(f), f.argmax(axis=1))
    assert_array_equal(host.argmax_rows(np.asfortranarray(f)), f.argmax(axis=1))
