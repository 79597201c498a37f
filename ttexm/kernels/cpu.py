"""The CPU's kernel set: what the layers above call, arrays in, arrays out.

Each function allocates, splits the samples into blocks and chunks, and runs serial kernels over
them, on several threads where that pays. Chunks depend on the number of samples and the shape
alone, and are added in order: results have the same bits for any number of threads.
"""

from typing import NamedTuple

import numpy as np

from . import algebra, gauge, project, threads
from . import contract as contraction
from . import orthogonalize as sweeps
from . import retract as retraction
from .layout import NUMERIC, PADDING, VECTOR, Train

BLOCK_BYTES = 12 * 1024  # partial products of a block of samples: two such arrays stay in L1
PARTIALS_BYTES = 1024 * 1024  # right partial products that are kept at once, if g is known: L2
KEPT_BYTES = 128 * 1024 * 1024  # .. and if g has to wait for the predictions of the whole batch
MOST_CHUNKS = 32
SAMPLES_PER_CHUNK = 240
PARALLEL_FLOPS = 2_000_000  # below this, waking a thread costs more than it saves
# In float64 a condition of 1e4 (maximum norm) costs 4 of 16 digits at worst, 1 or 2 as a rule.
WORST_CONDITION = {8: 1e4, 4: 1e2}


class Gauge(NamedTuple):
    """A train in the identity gauge: which cores have it, and the change of gauge T, by bond."""

    train: Train
    identity: np.ndarray
    T: np.ndarray


def make_train(data, ranks, sizes) -> Train:
    """A train of contiguous cores; `data` may be longer than they are."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(ranks[:-1] * sizes * ranks[1:], out=offsets[1:])
    return Train(data[: offsets[-1]], ranks, sizes, offsets)


def aligned(n, dtype):
    """Uninitialised array that starts at a cache line: unaligned rows of samples cost a third."""
    dtype = np.dtype(dtype)
    raw = np.empty(n * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + n * dtype.itemsize].view(dtype)


def check_period(dtype, growth):
    """Cores between two checks of a product's range, if each may change it by 2^growth."""
    # Three quarters of the exponents: a check leaves products within a quarter of the range.
    return int(max(1, min(16, (np.finfo(dtype).maxexp * 3 // 4) // max(1, growth))))


def _block(train, m):
    rows = BLOCK_BYTES // (train.data.itemsize * int(train.ranks.max()))
    most = -(-m // PADDING) * PADDING
    return max(PADDING, min(8 * PADDING, rows // PADDING * PADDING, most))


def _is_large(train, m):
    return 2 * m * len(train.data) > PARALLEL_FLOPS


def contract(train, identity, batch, m, period):
    """<W, X_s> = mantissas 2^exponents, for m samples."""
    mantissas, exponents = np.empty(m, train.data.dtype), np.empty(m, np.int64)
    block = _block(train, m)

    def task(first, last):
        work = aligned((2 * int(train.ranks.max()) + 1) * block, train.data.dtype)
        start, stop = first * block, min(last * block, m)
        contraction.contract(
            train, identity, batch, start, stop, block, period, mantissas, exponents, work
        )

    threads.run(task, -(-m // block), _is_large(train, m))
    return mantissas, exponents


def gradient(left, right, batch, m, g, period):
    """Deltas of the projection of sum_s g_s X_s. `g` is an array, or a function of (f, powers).

    A function is called once, with the predictions f 2^powers of all samples, and gives the array.
    In O(d n r^2 (m + r)).
    """
    d, r, dtype = len(left.sizes), int(left.ranks.max()), left.data.dtype
    block = _block(left, m)
    # The identity gauge saves 5 r^2 of 12 r^2 operations a sample and core, and costs about 200 r^3
    # a core. Powers of two it could not follow.
    if in_gauge := period > d and m >= 48 * r:
        gauge_left, gauge_right = identity_gauge(left), identity_gauge(right)
        skip = gauge_right.identity[::-1] & ((batch.kinds == NUMERIC) | (batch.kinds == VECTOR))
    else:
        skip = np.zeros(d, np.bool_)
        gauge_left, gauge_right = Gauge(left, skip, skip), Gauge(right, skip, skip)
    n_chunks = max(1, min(MOST_CHUNKS, m // SAMPLES_PER_CHUNK, KEPT_BYTES // left.data.nbytes))
    chunk = max(PADDING, -(-m // n_chunks // PADDING) * PADDING)
    n_chunks = max(1, -(-m // chunk))
    parts = np.zeros((n_chunks, len(left.data)), dtype)
    f, f_powers = np.empty(m, dtype), np.empty(m, np.int64)
    per_sample, rows = int(left.ranks.sum()), d // period + 2

    def partials(start, stop, work):
        n = -(-(stop - start) // block) * block
        Q, powers = aligned(n * per_sample, dtype), np.empty(n * rows, np.int64)
        project.right_partials(
            *gauge_right[:2], batch, start, stop, block, period, Q, powers, f, f_powers, work
        )
        return Q, powers

    def deltas(start, stop, Q, powers, part, work):
        project.accumulate_deltas(
            *gauge_left[:2], skip, batch, g, start, stop, block, period, Q, powers, part, work
        )

    def scratch():
        return aligned(4 * r * block, dtype)

    parallel = _is_large(left, 3 * m)
    if callable(g) and m * per_sample * dtype.itemsize <= KEPT_BYTES:
        kept = [None] * n_chunks

        def first_pass(first, last):
            work = scratch()
            for c in range(first, last):
                kept[c] = partials(c * chunk, min((c + 1) * chunk, m), work)

        def second_pass(first, last):
            work = scratch()
            for c in range(first, last):
                deltas(c * chunk, min((c + 1) * chunk, m), *kept[c], parts[c], work)

        threads.run(first_pass, n_chunks, parallel)
        g = g(f, f_powers)
        threads.run(second_pass, n_chunks, parallel)
    else:
        if callable(g):
            g = g(*contract(left, np.zeros(d, np.bool_), batch, m, period))
        few = max(block, PARTIALS_BYTES // (per_sample * dtype.itemsize) // block * block)

        def only_pass(first, last):
            work = scratch()
            for c in range(first, last):
                for start in range(c * chunk, min((c + 1) * chunk, m), few):
                    stop = min(start + few, (c + 1) * chunk, m)
                    deltas(start, stop, *partials(start, stop, work), parts[c], work)

        threads.run(only_pass, n_chunks, parallel)
    out, work = np.empty_like(left.data), np.empty(2 * r * r, dtype)
    if in_gauge:
        gauge.finish_deltas_in_gauge(
            parts, batch.kinds, batch.scales, left, gauge_left.train, gauge_left.T,
            gauge_right.train, gauge_right.T, skip, out, work,
        )  # fmt: skip
    else:
        project.finish_deltas(parts, batch.kinds, batch.scales, left, out, work)
    return out


def project_train(left, right, Z, exponent):
    """Deltas of the projection of 2^exponent Z, in O(d n r r' (r + r'))."""
    out = np.empty_like(left.data)
    d, r, z = len(left.sizes), int(left.ranks.max()), int(Z.ranks.max())
    work = np.empty((d + 4) * r * z + r * r, left.data.dtype)
    project.project_train(left, right, Z, exponent, out, work, np.empty(d + 1, np.int64))
    return out


def fix_gauge(left, deltas):
    """Deltas made orthogonal to U, in O(d n r^3)."""
    out, d = np.empty_like(deltas), len(left.sizes)
    work = np.empty(int(left.ranks.max()) ** 2, deltas.dtype)
    kinds, scales = np.full(d, NUMERIC, np.int64), np.ones(d, deltas.dtype)
    project.finish_deltas(deltas[None], kinds, scales, left, out, work)
    return out


def assemble_tangent(left, right, deltas) -> Train:
    """The train, of ranks 2 r, of a tangent vector."""
    ranks = 2 * left.ranks
    ranks[0] = ranks[-1] = 1
    train = make_train(np.empty(0, deltas.dtype), ranks, left.sizes)
    data = np.empty(train.offsets[-1], deltas.dtype)
    project.assemble_tangent(left, right, deltas, data)
    return train._replace(data=data)


def retract(left, exponent, right, deltas):
    """(train, exponent) of 2^exponent W + xi, rounded to the ranks of W, in O(d n r^3)."""
    data, dtype = np.empty_like(left.data), left.data.dtype
    Z, extra = np.empty(2 * len(data), dtype), np.empty(len(left.ranks), np.int64)
    work = np.empty(retraction.retract_scratch(left), dtype)
    total = retraction.retract(left, exponent, right, deltas, Z, extra, data, work)
    return left._replace(data=data), total


def identity_gauge(train) -> Gauge:
    """The train in the identity gauge, in O(d n r^3)."""
    dtype, r = train.data.dtype, int(train.ranks.max())
    data, T = np.empty_like(train.data), np.empty(int((train.ranks**2).sum()), dtype)
    identity = np.empty(len(train.sizes), np.bool_)
    worst = WORST_CONDITION[dtype.itemsize]
    gauge.identity_gauge(train, worst, data, T, identity, np.empty(r * (3 * r + 3), dtype))
    return Gauge(train._replace(data=data), identity, T)


def inner_product(left, right):
    """<W, Z> = mantissa 2^exponent, in O(d n r^3)."""
    room = int(left.ranks.max()) * int(right.ranks.max())
    return contraction.inner_product(left, right, np.empty(3 * room, left.data.dtype))


def norm(train):
    """|W| = mantissa 2^exponent, in O(d n r^3)."""
    core = int((train.sizes * train.ranks.max() ** 2).max())
    return sweeps.norm(train, np.empty(sweeps.sweep_scratch(train) + core, train.data.dtype))


def reverse(train) -> Train:
    """The train of the reversed tensor."""
    data = np.empty_like(train.data)
    sweeps.reverse(train, data)
    return make_train(data, train.ranks[::-1].copy(), train.sizes[::-1].copy())


def orthogonalize(train, stop):
    """(train, exponent) with cores 0 .. stop - 1 left-orthogonal, in O(d n r^3)."""
    data, ranks = np.empty_like(train.data), np.empty_like(train.ranks)
    work = np.empty(sweeps.sweep_scratch(train), train.data.dtype)
    exponent = sweeps.orthogonalize(train, stop, data, ranks, work)
    return make_train(data, ranks, train.sizes), exponent


def truncate(train, most, tolerance) -> Train:
    """TT-SVD of a train with right-orthogonal cores 1 .. d - 1, in O(d n r^3)."""
    data, ranks = np.empty_like(train.data), np.empty_like(train.ranks)
    work = np.empty(sweeps.sweep_scratch(train), train.data.dtype)
    sweeps.truncate(train, most, tolerance, data, ranks, work)
    return make_train(data, ranks, train.sizes)


def add(left, a, right, b) -> Train:
    """a W + b Z, of the sum of their ranks."""
    ranks = left.ranks + right.ranks
    ranks[0] = ranks[-1] = 1
    train = make_train(np.empty(0, left.data.dtype), ranks, left.sizes)
    data = np.empty(train.offsets[-1], left.data.dtype)
    algebra.add(left, data.dtype.type(a), right, data.dtype.type(b), data)
    return train._replace(data=data)


def hadamard(left, right) -> Train:
    """The entrywise product, of the product of their ranks."""
    train = make_train(np.empty(0, left.data.dtype), left.ranks * right.ranks, left.sizes)
    data = np.empty(train.offsets[-1], left.data.dtype)
    algebra.hadamard(left, right, data)
    return train._replace(data=data)


def normalize_cores(train):
    """(train, exponent) with a power of two taken out of each core that is far from 1."""
    data = np.empty_like(train.data)
    exponent, changed = algebra.normalize_cores(train, data)
    return (train._replace(data=data) if changed else train), exponent


def spread_power(train, exponent) -> Train:
    """2^exponent W, the power spread over all cores."""
    data = np.empty_like(train.data)
    algebra.spread_power(train, exponent, data)
    return train._replace(data=data)


def extent(values):
    """Exponents of the largest and of the smallest non-zero magnitude."""
    return algebra.extent(values)
