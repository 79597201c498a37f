"""What is CUDA's own: padded ranks, memory, decompositions, the order of sums, barriers.

That its kernels compute the right thing is what the other tests say, run on this device.
"""

import re
import types
from pathlib import Path

import numpy as np
import pytest
from devices import IS_SIMULATED, SIMULATOR
from numpy.testing import assert_allclose, assert_array_equal
from simulator import Simulator, SimulatorError

if not IS_SIMULATED:
    pytest.skip("needs the CUDA simulator: NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)

import numba
from numba import cuda

from ttexm import ExMClassifier, ExMRegressor, Manifold, RankOneBatch, TTTensor
from ttexm.kernels import cpu, cuda_batch, cuda_dense, cuda_launch, cuda_samples, cuda_tiles
from ttexm.kernels import cuda as gpu
from ttexm.losses import Squared
from ttexm.objective import Objective
from ttexm.solvers.sweeps import Sweeps

DTYPES = (np.float64, np.float32)
TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}


def train_of(shape, rank, dtype, seed=0):
    """A train of equal inner ranks, whatever the shape allows."""
    rng, d = np.random.default_rng(seed), len(shape)
    ranks = [1] + [rank] * (d - 1) + [1]
    cores = [rng.standard_normal((ranks[k], n, ranks[k + 1])) for k, n in enumerate(shape)]
    return TTTensor([core / np.sqrt(rank) for core in cores]).astype(dtype)._train


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


def test_both_kernel_sets_have_the_same_names():
    assert sorted(gpu.__all__) == sorted(cpu.__all__)


# -- every padded rank ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 4, 5, 8, 9, 16, 17, 32, 33, 64])
def test_every_padded_rank(rank, dtype):
    shape, m = (2, 3, 2), 9
    batch, train = mixed_batch(shape, m, dtype), train_of(shape, rank, dtype)
    host, held = batch._batch, gpu.hold(batch._batch, m)
    g = np.random.default_rng(1).standard_normal(m).astype(dtype)
    dense = np.zeros(3, np.bool_)
    for period in (1, 2, 4):
        found, wanted = (
            np.ldexp(*kernels.contract(train, dense, there, m, period))
            for kernels, there in ((gpu, held), (cpu, host))
        )
        assert_close(found, wanted, dtype)
    found = gpu.core_gradient(train, held, m, g, 4)
    assert_close(found, cpu.core_gradient(train, host, m, g, 4), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_identity_gauge(dtype):
    batch = mixed_batch((2, 3, 3, 4, 2), 20, dtype)
    W = TTTensor.random(batch.shape, 3, seed=0, dtype=dtype).compile()
    assert W.n_identity > 0
    assert_close(W.contract(batch.to("cuda")), W.contract(batch.to("cpu")), dtype)


def test_padding_is_zero_also_next_to_infinity():
    batch = RankOneBatch.from_columns(np.ones((3, 1)))
    samples = gpu.Samples(gpu.hold(batch._batch, 3), 3, np.float64)
    P, out = cuda_launch.send(np.full(4 * samples.room, np.inf)), samples.empty(2)
    samples.expand(P, 2, 1, 0, out)
    assert_array_equal(samples.rows(out, 4), [[np.inf, np.inf, 0, 0]] * 3)


def test_ranks_beyond_64_are_refused():
    train, batch = train_of((2, 2, 2), 65, np.float64), mixed_batch((2, 2, 2), 3, np.float64)
    with pytest.raises(ValueError, match=r"can be at most 64, got 65; use device='cpu'"):
        gpu.contract(train, np.zeros(3, np.bool_), gpu.hold(batch._batch, 3), 3, 9)


# -- decompositions ------------------------------------------------------------------------------


@cuda.jit
def decompose(M, p, w, r, U, small, work):
    cuda_dense._decompose(M, p, w, r, 1.0, U, M, small, work)


@cuda.jit
def qr(a, p, q, r, work):
    cuda_dense.householder(a, p, q, r, work)


@cuda.jit
def invert(a, n, out, work, done):
    is_regular = cuda_dense.inverse(a, n, out, work)
    if cuda.threadIdx.x == 0:
        done[0] = is_regular


@cuda.jit
def chain(a, out, b):
    """What each function wrote is read by other threads in the next one."""
    cuda_dense.copy(a, 18, b)
    cuda_dense.copy_columns(b, 6, 3, 5, out, 6)
    cuda_dense.set_identity(b, 4)
    cuda_dense.add_scaled(b, 4, 3, 3, 1.0, out, 6)


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
    U, work = np.full(p * r, np.nan), np.full(cuda_dense.decompose_scratch(p, w), np.nan)
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
    for module in (cuda_tiles, cuda_batch):
        monkeypatch.setattr(module, "SEGMENT", 16)
    monkeypatch.setattr(cuda_batch, "MOST_CHUNKS", 3)


@pytest.fixture
def unrecorded():
    """Faster, for more samples."""
    with Simulator(recorded=False):
        yield


def results(batch, train, g):
    m, held = len(batch), gpu.hold(batch._batch, len(batch))
    dense = np.zeros(len(train.sizes), np.bool_)
    return held, [
        *gpu.contract(train, dense, held, m, 2),
        gpu.core_gradient(train, held, m, g, 9),
        gpu.core_gradient(train, held, m, g, 2),
        gpu.core_gradient(train, held, m, lambda f, powers: np.sin(np.ldexp(f, powers)), 9),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_changes_no_bits(short_segments, unrecorded, monkeypatch, dtype):
    shape, m = (2, 3, 2), 900  # in three blocks, which parts are made of
    batch, train = mixed_batch(shape, m, dtype), train_of(shape, 3, dtype)
    g = np.random.default_rng(0).standard_normal(m).astype(dtype)
    held, wanted = results(batch, train, g)
    assert held.n_parts == 1
    assert_close(wanted[2], cpu.core_gradient(train, batch._batch, m, g, 9), dtype)
    for n_bytes, n_parts in ((2000, 3), (10**5, 1)):  # both take several passes for a gradient
        monkeypatch.setattr(cuda_batch, "free_bytes", lambda n=n_bytes: n)
        held, found = results(batch, train, g)
        assert held.n_parts == n_parts
        for one, other in zip(found, wanted, strict=True):
            assert_array_equal(one, other)


def test_sweeps_need_room_for_all_samples(monkeypatch):
    batch = mixed_batch((2, 3), 4000, np.float64)
    monkeypatch.setattr(cuda_batch, "free_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match=r"no room for 4000 .* batch_size, or device='cpu'"):
        gpu.Samples(gpu.hold(batch._batch, 4000), 4000, np.float64)


@pytest.mark.parametrize("is_resident", [True, False])
def test_mini_batches(monkeypatch, is_resident):
    batch, rows = mixed_batch((2, 3, 2, 4), 4000, np.float64), np.array([5, 3999, 5, 0, 700])
    if not is_resident:
        monkeypatch.setattr(cuda_batch, "free_bytes", lambda: 1000)
    held = gpu.take(gpu.hold(batch._batch, 4000), 4000, rows)
    train, dense = train_of(batch.shape, 2, np.float64), np.zeros(4, np.bool_)
    found, _ = gpu.contract(train, dense, held, 5, 9)
    assert_close(found, cpu.contract(train, dense, batch[rows]._batch, 5, 9)[0], np.float64)


def test_the_order_of_threads_changes_no_bits(short_segments):
    shape, m, dtype = (2, 3, 2), 50, np.float32
    batch, train = mixed_batch(shape, m, dtype), train_of(shape, 5, dtype)
    g, seen = np.ones(m, dtype), []
    manifold = Manifold((3, 2, 3, 2), 3, device="cpu")
    W = manifold.random_point(0)
    xi = manifold.random_tangent(W, 1)
    left, right, exponent = W._frames
    for order in ("ascending", "descending", "shuffled"):
        with Simulator(order=order):
            moved, _ = gpu.retract(left, exponent, right, xi._deltas)
            seen.append([*results(batch, train, g)[1], moved.data])
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            assert_array_equal(one, other)


def test_a_part_is_copied_while_another_is_computed_with(unrecorded, monkeypatch):
    batch, seen = mixed_batch((2, 2), 12_000, np.float64), []
    train, dense = train_of((2, 2), 1, np.float64), np.zeros(2, np.bool_)
    monkeypatch.setattr(cuda_batch, "free_bytes", lambda: 1000)

    def noted(name):
        function = getattr(cuda_batch, name)

        def call(*arguments, stream=0, **others):
            if stream:
                seen.append((name, streams.setdefault(id(stream), len(streams)), stream))
            return function(*arguments, stream=stream, **others)

        return call

    streams = {}
    for name in ("send", "launch"):
        monkeypatch.setattr(cuda_batch, name, noted(name))
    values = cuda_batch.Partials.values

    def wait(found):
        seen.append(("wait", streams[id(found.batch.stream)], None))
        return values(found)

    monkeypatch.setattr(cuda_batch.Partials, "values", wait)
    found, _ = gpu.contract(train, dense, gpu.hold(batch._batch, 12_000), 12_000, 9)
    # Four parts of 3072 samples; values and codes are sent one after the other.
    assert [event[:2] for event in seen if event[0] != "send"] == [
        ("launch", 0), ("launch", 1), ("wait", 0), ("launch", 0), ("wait", 1), ("launch", 1),
        ("wait", 0), ("wait", 1),
    ]  # fmt: skip
    sends = [k for k, event in enumerate(seen) if event[0] == "send"]
    launches = [k for k, event in enumerate(seen) if event[0] == "launch"]
    assert all(sends[2 * part + 3] < launches[part] for part in range(3))  # the next one is sent
    assert_close(found, cpu.contract(train, dense, batch._batch, 12_000, 9)[0], np.float64)


def type_of(argument):
    if isinstance(argument, bool):
        return numba.boolean
    if hasattr(argument, "_numba_type_"):
        return numba.from_dtype(argument.dtype)[::1]
    return numba.typeof(argument)


def test_kernels_are_launched_with_the_types_that_they_are_compiled_for(monkeypatch):
    """Of arguments and threads, but for the number of threads of a simulated block."""
    launched, run_kernel = {}, cuda_launch.launch

    def launch(function, grid, *arguments, **settings):
        launched.setdefault(function.__name__, []).append(tuple(map(type_of, arguments)))
        run_kernel(function, grid, *arguments, **settings)

    for module in (gpu, cuda_batch, cuda_samples, cuda_launch):
        monkeypatch.setattr(module, "launch", launch)
    for dtype in DTYPES:
        batch = mixed_batch((2, 3, 2, 3), 20, dtype)
        manifold = Manifold(batch.shape, 2, device="cuda")
        W = manifold.random_point(0, dtype)
        W = TTTensor([core.copy() for core in W.cores])
        xi = manifold.gradient(W, batch[::2].to("cuda"), np.sin)
        manifold.retract(W, manifold.project(W, xi.to_tensor()))
        objective = Objective(Squared(), np.ones(20), np.ones(20), 0.1)
        run = Sweeps(sites=2).start(W, batch.to("cuda"), objective)
        run.iterate()
        run.samples.squares(run.samples.ones(), 1)  # which is not needed for few samples
    compiled = {}
    for variant in gpu.variants():
        compiled.setdefault(variant.name, []).append(variant.signature)
    assert launched.keys() == compiled.keys()
    for name, signatures in launched.items():
        assert set(signatures) <= set(compiled[name]), name


# -- from end to end -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [ExMClassifier, ExMRegressor])
@pytest.mark.parametrize("solver", ["riemannian", "sweeps", "cores"])
def test_a_short_fit_agrees_with_the_cpu(model, solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = X[:, 0] * X[:, 1] > 0 if model is ExMClassifier else X[:, 0] * X[:, 1]
    settings = {"rank": 2, "alpha": 1e-2, "order_scale": 1.0, "max_iter": 2, "solver": solver}
    fits = [
        model(**settings, device=device, random_state=0).fit(X, y) for device in ("cpu", "cuda")
    ]
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
    train, held = train_of(batch.shape, 6, np.float64), gpu.hold(batch._batch, m)
    train = train._replace(data=2.0**300 * train.data)
    found += gpu.contract(train, dense, held, m, 1)
    found.append(gpu.core_gradient(train, held, m, np.full(m, 2.0**-900), 1))
    numeric = RankOneBatch.from_columns(np.random.default_rng(0).standard_normal((m, 3)))
    gauge = cpu.identity_gauge(train_of((2, 2, 2), 3, np.float64))
    assert gauge.identity.any()
    found += gpu.contract(gauge.train, gauge.identity, gpu.hold(numeric._batch, m), m, 9)
    return found


def work_of_blocks():
    """Numbers that need every part of the kernels of one block."""
    found = []
    for shape, rank, step in (((2, 3, 2, 2), 3, 0.1), ((3, 3, 3, 3), 3, 3.0), ((2, 2, 2), 2, 0.0)):
        manifold = Manifold(shape, rank, device="cpu")
        W, Z = manifold.random_point(0), TTTensor.random(shape, 2, seed=2)
        left, right, exponent = W._frames
        train = TTTensor.random(shape, rank, seed=3)._train
        xi = manifold.random_tangent(W, 1)._deltas
        found += [part.data for part in gpu.both_gauges(train, False)[:2]]
        found += [gpu.project_train(left, right, Z._train, 3), gpu.fix_gauge(left, xi + 1)]
        found.append(gpu.retract(left, exponent, right, step * xi)[0].data)
    A = np.random.default_rng(0).standard_normal((6, 5))
    U, work = np.empty(18), np.empty(cuda_dense.decompose_scratch(6, 5))
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
    for module, work in ((cuda_tiles, work_of_tiles), (cuda_dense, work_of_blocks))
    for which in range(count(module, "cuda.syncthreads()"))
]
SHIFTS = [
    (cuda_tiles, work_of_tiles, old, new)
    for old, new in (
        ("own + q * quarter]", "own + q * quarter - 1]"),
        ("panel[a * R + column], ", "panel[a * R + column + 1], "),
        ("(slots + code) * R * R", "(slots + code + 1) * R * R"),
        ("place = columns[mode] + i - ", "place = columns[mode] + i + 1 - "),
        ("(j + 1) // period * room", "j // period * room"),
        ("(d - 1 - k) * Q_rows", "(d - k) * Q_rows"),
        ("shared[half + column * row + u]", "shared[half + column * row + u + 1]"),
        ("total += shared[other * square + e]", "total += shared[other * square]"),
        ("base + begin + u0 + u]", "base + begin + u0]"),
        (
            "if held[u] == code:\n                order",
            "if held[u] == code + 1:\n                order",
        ),
        ("a < r0 and b < r1", "a < r0 and b <= r1"),
        ("+ e // r1) * R + e % r1", "+ e // r1) * R + e // r1"),
    )
] + [
    (cuda_dense, work_of_blocks, old, new)
    for old, new in (
        ("e // q * lda + e % q]", "e // q * lda + e // q]"),
        ("a[i * row + k * step]", "a[i * row + k]"),
        ("columns[(first + own) * ld + i]", "columns[own * ld + i + 1]"),
        ("parts[n_threads + e // p]", "parts[n_threads]"),
        ("Q[j * p + e // k]", "Q[j * p]"),
        ("rows[best * width + c] = rows[j * width + c]", "rows[best * width + c] = x"),
        ("(turn - pair + players - 1)", "(turn - pair + players)"),
        ("total - offsets[k + 1]", "total - offsets[k]"),
        ("work[k * rank * rank :]", "work"),
    )
]


def assert_seen(module, changed, work, wanted, monkeypatch):
    for name, value in vars(changed).items():
        if callable(value) and getattr(value, "__module__", None) == module.__name__:
            monkeypatch.setattr(module, name, value)
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


@pytest.mark.parametrize(("module", "work", "old", "new"), SHIFTS)
def test_shifted_indices_are_seen(sound, monkeypatch, module, work, old, new):
    assert_seen(module, mutated(module, old, new), work, sound[work], monkeypatch)
