"""What is CUDA's own: padded ranks, memory, decompositions, the order of sums, barriers.

That its kernels compute the right thing is what the other tests say, run on this device.
"""

import re
import types
from pathlib import Path

import naive
import numpy as np
import pytest
from devices import IS_SIMULATED, SIMULATOR
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from simulator import Simulator, SimulatorError
from strategies import batches as batches_of
from strategies import cores_of, feature_vectors, shapes

if not IS_SIMULATED:
    pytest.skip("needs the CUDA simulator: NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)
pytest.importorskip("numba_cuda")

import numba
from numba import cuda

from ttexm import ExMClassifier, ExMRegressor, Manifold, RankOneBatch, TTTensor
from ttexm.kernels import backend, cpu, host, schedule
from ttexm.kernels import cuda as cuda_package
from ttexm.kernels.cuda import (
    batches,
    block_algebra,
    block_kernels,
    device,
    partial_products,
    runtime,
    sample_kernels,
    tile_kernels,
)
from ttexm.kernels.cuda.runtime import Kernel
from ttexm.learn.losses import Squared
from ttexm.learn.objective import Objective
from ttexm.learn.solvers.sweeps import Sweeps
from ttexm.tt.contraction import ContractionPlan

DTYPES = (np.float64, np.float32)
TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}


def train_of(shape, rank, dtype, seed=0):
    """A train of equal inner ranks, whatever the shape allows."""
    rng, d = np.random.default_rng(seed), len(shape)
    ranks = [1] + [rank] * (d - 1) + [1]
    cores = [rng.standard_normal((ranks[k], n, ranks[k + 1])) for k, n in enumerate(shape)]
    return TTTensor([core / np.sqrt(rank) for core in cores]).astype(dtype).scaled_train.train


def mixed_batch(shape, m, dtype):
    """Modes of all four kinds in turn."""
    rng, modes = np.random.default_rng(m), []
    for k, n in enumerate(shape):
        numbers, codes = rng.standard_normal((m, n)), rng.integers(0, n, (m, 1))
        modes.append(
            [
                lambda x=numbers: RankOneBatch.from_columns([x[:, 1:]]),
                lambda c=codes, n=n: RankOneBatch.from_codes(c, (n,), scale=0.5),
                lambda x=numbers: RankOneBatch.from_vectors([x]),
                lambda c=codes, n=n: RankOneBatch.from_indices(c, (n,)),
            ][k % 4]()
        )
    return RankOneBatch.join(modes).astype(dtype)


def assert_close(found, wanted, dtype):
    scale = np.abs(wanted).max(initial=1e-300)
    assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype] * scale)


def test_cuda_fits_the_protocol():
    backend.check("cuda", device)


# -- every padded rank ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 4, 5, 8, 9, 16, 17, 32, 33, 64])
def test_every_padded_rank(rank, dtype):
    shape, m = (2, 3, 2), 9
    batch, train = mixed_batch(shape, m, dtype), train_of(shape, rank, dtype)
    host, held = batch.arrays, device.hold(batch.arrays, m)
    g = np.random.default_rng(1).standard_normal(m).astype(dtype)
    dense = np.zeros(3, np.bool_)
    for period in (1, 2, 4):
        found, wanted = (
            np.ldexp(*kernels.contract(train, dense, there, m, period))
            for kernels, there in ((device, held), (cpu, host))
        )
        assert_close(found, wanted, dtype)
    found = device.core_gradient(train, held, m, g, 4)
    assert_close(found, cpu.core_gradient(train, host, m, g, 4), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_identity_gauge(dtype):
    batch = mixed_batch((2, 3, 3, 4, 2), 20, dtype)
    W = TTTensor.random(batch.shape, 3, seed=0, dtype=dtype).compile()
    assert W.n_identity > 0
    assert_close(W.contract(batch.to("cuda")), W.contract(batch.to("cpu")), dtype)


def test_padding_is_zero_also_next_to_infinity():
    batch = RankOneBatch.from_columns(np.ones((3, 1)))
    samples = device.partial_products(device.hold(batch.arrays, 3), 3, np.float64)
    P, out = samples.empty(1), samples.empty(2)
    P.copy_to_device(np.full(P.size, np.inf))
    samples.expand(P, 2, 1, 0, out)
    assert_array_equal(samples.rows(out, 4), [[np.inf, np.inf, 0, 0]] * 3)


def test_ranks_beyond_64_are_refused():
    train, batch = train_of((2, 2, 2), 65, np.float64), mixed_batch((2, 2, 2), 3, np.float64)
    with pytest.raises(ValueError, match=r"can be at most 64, got 65; use device='cpu'"):
        device.contract(train, np.zeros(3, np.bool_), device.hold(batch.arrays, 3), 3, 9)


# -- open trains ---------------------------------------------------------------------------------


@st.composite
def open_cases(draw):
    """A tensor with one mode more than its batch, of any kinds of modes."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(shapes(most_modes=4, most_entries=60))
    W = TTTensor(draw(cores_of((*shape, draw(st.integers(1, 9))), 9, dtype)))
    return W, draw(batches_of(shape, most_samples=20, dtype=dtype))


@given(open_cases(), st.sampled_from([1, 2, 16]))
def test_open_contraction_is_the_sum_of_its_definition(case, period):
    W, batch = case
    phis = feature_vectors(batch)
    wanted = naive.open_contract(W.full().astype(np.float64), phis)
    magnitudes = naive.full([np.abs(G).astype(np.float64) for G in W.cores])
    terms = naive.open_contract(magnitudes, [np.abs(phi) for phi in phis])
    atol = 100 * np.finfo(W.dtype).eps * max(1e-300, terms.max(initial=0))
    for made in (W, W.compile()):
        found = made.contract(batch, device="cuda")
        assert found.shape == (len(batch), W.shape[-1])
        assert_allclose(found, wanted, rtol=0, atol=atol if made is W else 100 * atol)
    plan = ContractionPlan(W.scaled_train.train, 0, np.zeros(W.ndim, np.bool_)).with_open_mode
    m, held = len(batch), device.hold(batch.written_out().arrays, len(batch))
    mantissas, exponents = device.contract(plan.train, plan.identity, held, m, period)
    found = np.ldexp(mantissas, exponents[:, None] + W.scaled_train.exponent)
    assert_allclose(found, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rank", "n_outputs"), [(1, 5), (3, 100), (5, 1), (17, 3)])
def test_there_may_be_more_outputs_than_a_padded_rank(rank, n_outputs, dtype):
    shape, rng = (2, 3, 2), np.random.default_rng(0)
    batch = mixed_batch(shape, 9, dtype)
    cores = [rng.standard_normal((1 if k == 0 else rank, n, rank)) for k, n in enumerate(shape)]
    W = TTTensor([*cores, rng.standard_normal((rank, n_outputs, 1))]).astype(dtype)
    assert_close(W.contract(batch, device="cuda"), W.contract(batch, device="cpu"), dtype)


# -- decompositions ------------------------------------------------------------------------------


@cuda.jit
def decompose(M, p, w, r, U, small, work):
    block_algebra.singular_vectors(M, p, w, r, 1.0, U, M, small, work)


@cuda.jit
def qr(a, p, q, r, work):
    block_algebra.householder(a, p, q, r, work)


@cuda.jit
def invert(a, n, out, work, done):
    is_regular = block_algebra.inverse(a, n, out, work)
    if cuda.threadIdx.x == 0:
        done[0] = is_regular


@cuda.jit
def chain(a, out, b):
    """What each function wrote is read by other threads in the next one."""
    block_algebra.copy(a, 18, b)
    block_algebra.copy_columns(b, 6, 3, 5, out, 6)
    block_algebra.set_identity(b, 4)
    block_algebra.add_scaled(b, 4, 3, 3, 1.0, out, 6)


def run(kernel, *arguments, threads):
    kernel[1, threads, 0, 16 * threads](*arguments)


@pytest.mark.parametrize("threads", [1, 4, 7])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (5, 3), (3, 5), (4, 4), (9, 2), (2, 9)])
def test_qr(p, q, threads):
    rng = np.random.default_rng(p)
    for A in (rng.standard_normal((p, q)), np.ones((p, q)), np.zeros((p, q)), np.eye(p, q)):
        k, a = min(p, q), np.full(p * max(p, q), np.nan)
        a[: p * q] = A.ravel()
        r = np.full(k * q, np.nan)
        run(qr, a, p, q, r, np.full(p * q + k * p, np.nan), threads=threads)
        Q, R = a[: p * k].reshape(p, k), r.reshape(k, q)
        assert_allclose(Q @ R, A, atol=1e-14)
        assert_allclose(Q.T @ Q, np.eye(k), atol=1e-14)
        assert_array_equal(np.tril(R, -1), 0)
        assert (np.diag(R) >= 0).all()


@pytest.mark.parametrize(("p", "w", "r"), [(4, 4, 2), (9, 4, 3), (6, 5, 3), (5, 8, 4), (7, 1, 1)])
@pytest.mark.parametrize("flaw", ["none", "deficient", "graded", "zero"])
def test_the_leading_singular_vectors(p, w, r, flaw):
    rng = np.random.default_rng(p)
    M = rng.standard_normal((p, w))
    if flaw == "deficient":
        M[:, 1:] = M[:, :1]
    elif flaw == "graded":
        M *= 10.0 ** -np.arange(w)
    elif flaw == "zero":
        M *= 0
    U, work = np.full(p * r, np.nan), np.full(block_algebra.svd_scratch(p, w), np.nan)
    run(decompose, M.ravel(), p, w, r, U, np.empty(r * r), work, threads=4)
    U = U.reshape(p, r)
    assert_allclose(U.T @ U, np.eye(r), atol=1e-14)
    sigma = np.linalg.svd(M, compute_uv=False)
    missed, least = np.linalg.norm(M - U @ (U.T @ M)), np.linalg.norm(sigma[r:])
    assert missed <= least + 1e-14 * np.linalg.norm(M)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_inverses(n):
    A = np.random.default_rng(n).standard_normal((n, n))
    for matrix, is_regular in ((A, True), (A[::-1], True), (np.zeros((n, n)), False)):
        out, done = np.full(n * n, np.nan), np.zeros(1)
        run(invert, matrix.ravel(), n, out, np.full(2 * n * n + n, np.nan), done, threads=4)
        assert done[0] == is_regular
        if is_regular:
            assert_allclose(out.reshape(n, n) @ matrix, np.eye(n), atol=1e-12)


# -- memory, and the order of sums ---------------------------------------------------------------


@pytest.fixture
def short_segments(monkeypatch):
    """As if a few samples were many."""
    for module in (tile_kernels, sample_kernels, batches, partial_products):
        monkeypatch.setattr(module, "SEGMENT", 16)
    monkeypatch.setattr(schedule, "MOST_CHUNKS", 3)
    monkeypatch.setattr(schedule, "SAMPLES_PER_CHUNK", 16)


@pytest.fixture
def unrecorded():
    """Faster, for more samples."""
    with Simulator(recorded=False):
        yield


def results(batch, train, g):
    m, held = len(batch), device.hold(batch.arrays, len(batch))
    dense = np.zeros(len(train.sizes), np.bool_)
    return held, [
        *device.contract(train, dense, held, m, 2),
        device.core_gradient(train, held, m, g, 9),
        device.core_gradient(train, held, m, g, 2),
        device.core_gradient(train, held, m, lambda f, powers: np.sin(np.ldexp(f, powers)), 9),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_changes_no_bits(short_segments, unrecorded, monkeypatch, dtype):
    shape, m = (2, 3, 2), 900  # in three blocks, which parts are made of
    batch, train = mixed_batch(shape, m, dtype), train_of(shape, 3, dtype)
    g = np.random.default_rng(0).standard_normal(m).astype(dtype)
    held, wanted = results(batch, train, g)
    assert held.n_parts == 1
    assert_close(wanted[2], cpu.core_gradient(train, batch.arrays, m, g, 9), dtype)
    for n_bytes, n_parts in ((2000, 3), (10**5, 1)):  # both take several passes for a gradient
        monkeypatch.setattr(batches, "free_bytes", lambda n=n_bytes: n)
        held, found = results(batch, train, g)
        assert held.n_parts == n_parts
        for one, other in zip(found, wanted, strict=True):
            assert_array_equal(one, other)


def test_sweeps_need_room_for_all_samples(monkeypatch):
    batch = mixed_batch((2, 3), 4000, np.float64)
    monkeypatch.setattr(batches, "free_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match=r"no room for 4000 .* batch_size, or device='cpu'"):
        device.partial_products(device.hold(batch.arrays, 4000), 4000, np.float64)


@pytest.mark.parametrize("is_resident", [True, False])
def test_mini_batches(monkeypatch, is_resident):
    batch, rows = mixed_batch((2, 3, 2, 4), 4000, np.float64), np.array([5, 3999, 5, 0, 700])
    if not is_resident:
        monkeypatch.setattr(batches, "free_bytes", lambda: 1000)
    held = device.take(device.hold(batch.arrays, 4000), 4000, rows)
    train, dense = train_of(batch.shape, 2, np.float64), np.zeros(4, np.bool_)
    found, _ = device.contract(train, dense, held, 5, 9)
    assert_close(found, cpu.contract(train, dense, batch[rows].arrays, 5, 9)[0], np.float64)


def test_the_order_of_threads_changes_no_bits(short_segments):
    shape, m, dtype = (2, 3, 2), 50, np.float32
    batch, train = mixed_batch(shape, m, dtype), train_of(shape, 5, dtype)
    g, seen = np.ones(m, dtype), []
    manifold = Manifold((3, 2, 3, 2), 3, device="cpu")
    W = manifold.random_point(0)
    xi = manifold.random_tangent(W, 1)
    left, right, exponent = W.scaled_train.orthogonal_gauges()
    for order in ("ascending", "descending", "shuffled"):
        with Simulator(order=order):
            moved, _ = device.retract(left, exponent, right, xi.flat_deltas)
            seen.append([*results(batch, train, g)[1], moved.data])
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            assert_array_equal(one, other)


def test_a_part_is_copied_while_another_is_computed_with(unrecorded, monkeypatch):
    batch, seen = mixed_batch((2, 2), 12_000, np.float64), []
    train, dense = train_of((2, 2), 1, np.float64), np.zeros(2, np.bool_)
    monkeypatch.setattr(batches, "free_bytes", lambda: 1000)

    def note(what, stream):
        if stream:
            seen.append((what, streams.setdefault(id(stream), len(streams)), stream))

    def send_noted(*arguments, stream=0):
        note("send", stream)
        return runtime.send(*arguments, stream=stream)

    def launch_noted(kernel, *arguments, stream=0):
        note("launch", stream)
        launch(kernel, *arguments, stream=stream)

    streams, launch = {}, Kernel.launch
    monkeypatch.setattr(batches, "send", send_noted)
    monkeypatch.setattr(Kernel, "launch", launch_noted)
    values = batches.Partials.values

    def wait(found):
        seen.append(("wait", streams[id(found.batch.stream)], None))
        return values(found)

    monkeypatch.setattr(batches.Partials, "values", wait)
    found, _ = device.contract(train, dense, device.hold(batch.arrays, 12_000), 12_000, 9)
    # Four parts of 3072 samples; values and codes are sent one after the other.
    assert [event[:2] for event in seen if event[0] != "send"] == [
        ("launch", 0), ("launch", 1), ("wait", 0), ("launch", 0), ("wait", 1), ("launch", 1),
        ("wait", 0), ("wait", 1),
    ]  # fmt: skip
    sends = [k for k, event in enumerate(seen) if event[0] == "send"]
    launches = [k for k, event in enumerate(seen) if event[0] == "launch"]
    assert all(sends[2 * part + 3] < launches[part] for part in range(3))  # the next one is sent
    assert_close(found, cpu.contract(train, dense, batch.arrays, 12_000, 9)[0], np.float64)


def type_of(argument):
    if isinstance(argument, tuple):
        return runtime.tuple_of(*map(type_of, argument))
    if isinstance(argument, bool):
        return numba.boolean
    if hasattr(argument, "_numba_type_"):
        return numba.from_dtype(argument.dtype)[::1]
    return numba.typeof(argument)


def test_every_kernel_is_launched_with_the_types_that_it_is_compiled_for(monkeypatch):
    launched, run_kernel = set(), Kernel.launch

    def launch(kernel, grid, *arguments, **settings):
        assert tuple(map(type_of, arguments)) == kernel.signature, kernel.name
        launched.add((kernel.name, kernel.dtype))
        run_kernel(kernel, grid, *arguments, **settings)

    monkeypatch.setattr(Kernel, "launch", launch)
    for dtype in DTYPES:
        batch = mixed_batch((2, 3, 2, 3), 20, dtype)
        manifold = Manifold(batch.shape, 2, device="cuda")
        W = manifold.random_point(0, dtype)
        W = TTTensor([core.copy() for core in W.cores])
        xi = manifold.gradient(W, batch.to("cuda")[::2], np.sin)
        manifold.retract(W, manifold.project(W, xi.to_tensor()))
        TTTensor.random((*batch.shape, 5), 2, seed=0, dtype=dtype).contract(batch, device="cuda")
        objective = Objective(Squared(), np.ones(20), np.ones(20), 0.1)
        run = Sweeps(sites=2).start(W, batch.to("cuda"), objective)
        run.iterate()
        run.products.squares(run.products.ones(), 1)  # which is not needed for few samples
        run.products.product(np.ones((2, 1, 2), dtype), np.ones(20), 0, *[run.products.ones()] * 2)
    assert launched == {(kernel.name, kernel.dtype) for kernel in device.all_kernels()}


# -- from end to end -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [ExMClassifier, ExMRegressor])
@pytest.mark.parametrize("solver", ["riemannian", "sweeps", "cores"])
def test_a_short_fit_agrees_with_the_cpu(model, solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = X[:, 0] * X[:, 1] > 0 if model is ExMClassifier else X[:, 0] * X[:, 1]
    settings = {"rank": 2, "alpha": 1e-2, "order_scale": 1.0, "max_iter": 2, "solver": solver}
    fits = [model(**settings, device=name, random_state=0).fit(X, y) for name in ("cpu", "cuda")]
    outputs = [
        fit.decision_function(X) if model is ExMClassifier else fit.predict(X) for fit in fits
    ]
    assert [fit.device_ for fit in fits] == ["cpu", "cuda"]
    assert_allclose(outputs[1], outputs[0], atol=1e-9 * np.abs(outputs[0]).max())


def test_numbas_own_simulator_agrees():
    manifold, batch = Manifold((2, 3), 2, device="cuda"), mixed_batch((2, 3), 4, np.float64)
    W = Manifold((2, 3), 2, device="cpu").random_point(0)
    checked = manifold.retract(W, manifold.gradient(W, batch, np.ones(4)))
    SIMULATOR.uninstall()
    try:
        plain = manifold.retract(W, manifold.gradient(W, batch, np.ones(4)))
    finally:
        SIMULATOR.install()
    assert_array_equal(plain.full(), checked.full())


# -- mutations -----------------------------------------------------------------------------------


def mutated(module, old, new, which=0):
    """The module with one occurrence of a piece of its source replaced."""
    source = Path(module.__file__).read_text()
    at = [match.start() for match in re.finditer(re.escape(old), source)][which]
    changed = types.ModuleType(module.__name__)
    changed.__package__, changed.__file__ = module.__package__, module.__file__
    source = source[:at] + new + source[at + len(old) :]
    exec(compile(source, module.__file__, "exec"), vars(changed))
    return changed


def count(module, piece):
    return Path(module.__file__).read_text().count(piece)


def work_of_tiles():
    """Numbers that need every part of the kernels over samples."""
    found, m = [], 40
    batch, dense = mixed_batch((2, 3, 2, 3), m, np.float64), np.zeros(4, np.bool_)
    for rank in (3, 7):
        found += results(batch, train_of(batch.shape, rank, np.float64), np.ones(m))[1]
    # Partial products that leave the middle range at every core.
    train, held = train_of(batch.shape, 6, np.float64), device.hold(batch.arrays, m)
    train = train._replace(data=2.0**300 * train.data)
    found += device.contract(train, dense, held, m, 1)
    found.append(device.core_gradient(train, held, m, np.full(m, 2.0**-900), 1))
    numeric = RankOneBatch.from_columns(np.random.default_rng(0).standard_normal((m, 3)))
    gauge = host.identity_gauge(train_of((2, 2, 2), 3, np.float64))
    assert gauge.identity.any()
    held = device.hold(numeric.arrays, m)
    found += device.contract(gauge.train, gauge.identity, held, m, 9)
    found.append(TTTensor.random((2, 2, 2, 5), 3, seed=0).contract(numeric, device="cuda"))
    return found


def work_of_blocks():
    """Numbers that need every part of the kernels of one block."""
    found = []
    for shape, rank, step in (((2, 3, 2, 2), 3, 0.1), ((3, 3, 3, 3), 3, 3.0), ((2, 2, 2), 2, 0.0)):
        manifold = Manifold(shape, rank, device="cpu")
        W, Z = manifold.random_point(0), TTTensor.random(shape, 2, seed=2)
        left, right, exponent = W.scaled_train.orthogonal_gauges()
        train = TTTensor.random(shape, rank, seed=3).scaled_train.train
        xi = manifold.random_tangent(W, 1).flat_deltas
        found += [part.data for part in device.gauges(train, False)[:2]]
        found += [device.project(left, right, Z.scaled_train.train, 3)]
        found.append(device.retract(left, exponent, right, step * xi)[0].data)
        held = device.hold(mixed_batch(shape, 3, np.float64).arrays, 3)
        found.append(device.gradient(left, right, held, 3, np.ones(3), 9))
    A = np.random.default_rng(0).standard_normal((6, 5))
    U, work = np.empty(18), np.empty(block_algebra.svd_scratch(6, 5))
    run(decompose, A.ravel(), 6, 5, 3, U, np.empty(9), work, threads=4)
    inverse, regular = np.empty(25), np.roll(np.eye(5), 1, axis=0) + 0.1 * A[:5]  # pivots move
    run(invert, regular.ravel(), 5, inverse, np.empty(55), np.zeros(1), threads=4)
    turned = np.zeros(18)
    run(chain, A.ravel()[:18], turned, np.empty(18), threads=4)
    return [*found, U, inverse, turned]


@pytest.fixture(scope="module")
def sound():
    return {work: work() for work in (work_of_tiles, work_of_blocks)}


BARRIERS = [
    (module, work, which)
    for module, work in (
        (tile_kernels, work_of_tiles), (sample_kernels, work_of_tiles),
        (block_algebra, work_of_blocks),
    )
    for which in range(count(module, "cuda.syncthreads()"))
]  # fmt: skip
SHIFTS = {
    tile_kernels: [
        ("own + q * quarter]", "own + q * quarter - 1]"),
        ("panel[a * R + column], ", "panel[a * R + column + 1], "),
        ("(slots + code) * R * R", "(slots + code + 1) * R * R"),
        ("place = columns[mode] + i - ", "place = columns[mode] + i + 1 - "),
        ("(j + 1) // period * room", "j // period * room"),
        ("(d - 1 - k) * Q_rows", "(d - k) * Q_rows"),
        ("shared[half + column * row + u]", "shared[half + column * row + u + 1]"),
        ("total += shared[other * square + e]", "total += shared[other * square]"),
        ("base + begin + u0 + u]", "base + begin + u0]"),
        ("last[a * n_outputs + j]", "last[a * n_outputs]"),
        ("range(1, last_rows)", "range(2, last_rows)"),
        ("f[(s0 + s) * n_outputs + j]", "f[(s0 + s) * n_outputs]"),
    ],
    sample_kernels: [
        (
            "if held[u] == code:\n                order",
            "if held[u] == code + 1:\n                order",
        ),
        ("a < r0 and b < r1", "a < r0 and b <= r1"),
        ("+ e // r1) * R + e % r1", "+ e // r1) * R + e // r1"),
    ],
    block_algebra: [
        ("e // q * lda + e % q]", "e // q * lda + e // q]"),
        ("a[i * row + k * step]", "a[i * row + k]"),
        ("columns[(first + own) * ld + i]", "columns[own * ld + i + 1]"),
        ("parts[n_threads + e // p]", "parts[n_threads]"),
        ("Q[j * p + e // k]", "Q[j * p]"),
        ("rows[best * width + c] = rows[j * width + c]", "rows[best * width + c] = x"),
        ("(turn - pair + players - 1)", "(turn - pair + players)"),
    ],
    block_kernels: [
        ("total - offsets[k + 1]", "total - offsets[k]"),
        ("work[k * rank * rank :]", "work"),
    ],
}


def replace_functions(module, changed, monkeypatch):
    for name, value in vars(changed).items():
        if callable(value) and getattr(value, "__module__", None) == module.__name__:
            monkeypatch.setattr(module, name, value)


def assert_seen(module, changed, work, wanted, monkeypatch):
    replace_functions(module, changed, monkeypatch)
    if module is block_algebra:
        # The kernels of one block were made with the functions of the unchanged module.
        monkeypatch.setattr(cuda_package, "block_algebra", changed)
        replace_functions(block_kernels, mutated(block_kernels, "", ""), monkeypatch)
    try:
        found = work()
    except (SimulatorError, IndexError, ValueError, AssertionError):
        return
    same = [np.allclose(a, b, rtol=0, atol=1e-9) for a, b in zip(found, wanted, strict=True)]
    assert not all(same), "nothing saw the change"


@pytest.mark.parametrize(("module", "work", "which"), BARRIERS)
def test_every_barrier_is_needed(sound, monkeypatch, module, work, which):
    changed = mutated(module, "cuda.syncthreads()", "pass", which)
    assert_seen(module, changed, work, sound[work], monkeypatch)


@pytest.mark.parametrize(
    ("module", "old", "new"), [(module, *shift) for module in SHIFTS for shift in SHIFTS[module]]
)
def test_shifted_indices_are_seen(sound, monkeypatch, module, old, new):
    work = work_of_tiles if module in (tile_kernels, sample_kernels) else work_of_blocks
    assert_seen(module, mutated(module, old, new), work, sound[work], monkeypatch)
