"""The algebra of trains on the host: trains and arrays in, trains and arrays out.

Trains are small, so this work is left to the CPU on every device; what a device does itself is in
`backend.Device`.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np

from . import algebra, contraction, local_problem, orthogonalization, projection
from .blas import single_threaded_blas
from .dense import householder_scratch
from .identity_gauge import impose_identity
from .layout import NUMERIC, Train
from .schedule import scratch

# LAPACK uses one thread up to this rank. Beyond it, several would change the bits: see `blas`.
SINGLE_THREADED_RANK = 32
# Largest condition number, divided by the rank, of a change to the identity gauge, in the maximum
# norm, by itemsize: it keeps 12 digits of float64 and 4 of float32, measured on random trains.
WORST_CONDITION = {8: 150.0, 4: 15.0}


def make_train(data: np.ndarray, ranks: np.ndarray, sizes: np.ndarray) -> Train:
    """Return the train of contiguous cores; `data` may be longer than they are."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(ranks[:-1] * sizes * ranks[1:], out=offsets[1:])
    rows = int((sizes * np.maximum(ranks[:-1], ranks[1:])).max())
    return Train(data[: offsets[-1]], ranks, sizes, offsets, int(ranks.max()), rows)


def _empty_train(ranks, sizes, dtype) -> Train:
    train = make_train(np.empty(0, dtype), ranks, sizes)
    return train._replace(data=np.empty(train.offsets[-1], dtype))


def empty_like(train: Train) -> Train:
    """Return a train with arrays of the same sizes as those of another, uninitialised."""
    return Train(*map(np.empty_like, train[:4]), train.rank, train.rows)


def check_period(dtype: np.dtype, growth: int) -> int:
    """Return how many cores may pass between two checks of a product's range.

    Each core changes the product by a factor of at most 2^growth, up or down.
    """
    # A check leaves products within a quarter of the exponents: three quarters are left.
    return int(max(1, min(16, (np.finfo(dtype).maxexp * 3 // 4) // max(1, growth))))


def with_blas_for(train: Train) -> AbstractContextManager:
    """Return a context for kernels that call LAPACK: BLAS has one thread in it."""
    return single_threaded_blas() if train.rank > SINGLE_THREADED_RANK else nullcontext()


# -- algebra -----------------------------------------------------------------------------------


def add(left: Train, a: float, right: Train, b: float) -> Train:
    """Return a W + b Z; the ranks add."""
    ranks = left.ranks + right.ranks
    ranks[0] = ranks[-1] = 1
    train = _empty_train(ranks, left.sizes, left.data.dtype)
    number = train.data.dtype.type
    algebra.add(tuple(left), number(a), tuple(right), number(b), train.data)
    return train


def hadamard(left: Train, right: Train) -> Train:
    """Return the entrywise product; the ranks multiply."""
    train = _empty_train(left.ranks * right.ranks, left.sizes, left.data.dtype)
    algebra.hadamard(tuple(left), tuple(right), train.data)
    return train


def normalize_cores(train: Train) -> tuple[Train, int]:
    """Return (train, exponent), with a power of two taken out of each core that is far from 1."""
    data = np.empty_like(train.data)
    exponent, changed = algebra.normalize_cores(tuple(train), data)
    return (train._replace(data=data) if changed else train), exponent


def spread_power(train: Train, exponent: int) -> Train:
    """Return 2^exponent W, the power spread over all cores."""
    data = np.empty_like(train.data)
    algebra.spread_power(tuple(train), exponent, data)
    return train._replace(data=data)


def extent(values: np.ndarray) -> tuple[int, int]:
    """Return the exponents of the largest and the smallest non-zero magnitude.

    (0, 0) if all values are zero. If there is a NaN or inf, the first exponent is that of inf: one
    more than that of any number.
    """
    bits = values.view(np.int64 if values.itemsize == 8 else np.int32)
    high, low = algebra.extent(bits)
    if high == 0:
        return 0, 0
    digits, bias = (52, 1022) if values.itemsize == 8 else (23, 126)
    return (high >> digits) - bias, (low >> digits) - bias


def inner_product(left: Train, right: Train) -> tuple[float, int]:
    """Return <W, Z> = mantissa 2^exponent, in O(d n r^3)."""
    with scratch("sweep", 3 * left.rank * right.rank, left.data.dtype) as work:
        return contraction.inner_product(tuple(left), tuple(right), work)


def argmax_rows(f: np.ndarray) -> np.ndarray:
    """Return the argmax of each row of f (m, K); numpy takes three times as long for short rows."""
    out = np.empty(len(f), np.int64)
    contraction.argmax_rows(np.ascontiguousarray(f), out)
    return out


# -- orthogonal gauges -------------------------------------------------------------------------


def norm(train: Train) -> tuple[float, int]:
    """Return |W| = mantissa 2^exponent, in O(d n r^3)."""
    n_scratch = orthogonalization.sweep_scratch(train) + train.rows * train.rank
    with scratch("sweep", n_scratch, train.data.dtype) as work:
        return orthogonalization.norm(tuple(train), work)


def reverse(train: Train) -> Train:
    """Return the train of the reversed tensor: modes in reverse order, cores transposed."""
    mirrored = empty_like(train)
    orthogonalization.reverse(tuple(train), tuple(mirrored))
    return mirrored


def orthogonalize(train: Train, stop: int) -> tuple[Train, int]:
    """Return (train, exponent) with cores 0 .. stop - 1 left-orthogonal, in O(d n r^3).

    The last rank may be open: the matrix after the modes is core d then.
    """
    data, ranks = np.empty_like(train.data), np.empty_like(train.ranks)
    with scratch("sweep", orthogonalization.sweep_scratch(train), train.data.dtype) as work:
        exponent = orthogonalization.orthogonalize(tuple(train), stop, data, ranks, work)
    return make_train(data, ranks, train.sizes), exponent


def truncate(train: Train, most: np.ndarray, tolerance: float) -> Train:
    """Return the TT-SVD of a train with right-orthogonal cores 1 .. d - 1, in O(d n r^3).

    Bond k keeps at most most[k] singular values, and drops a norm of at most `tolerance`.
    """
    data, ranks = np.empty_like(train.data), np.empty_like(train.ranks)
    with (
        with_blas_for(train),
        scratch("sweep", orthogonalization.sweep_scratch(train), train.data.dtype) as work,
    ):
        orthogonalization.truncate(tuple(train), most, tolerance, data, ranks, work)
    return make_train(data, ranks, train.sizes)


def qr(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Q (p, k) and R (k, q) of a matrix A (p, q), k = min(p, q), in O(p q k).

    By Householder reflections: Q is orthonormal to rounding whatever the rank of A, and
    diag(R) >= 0.
    """
    p, q = A.shape
    k = min(p, q)
    Q, R = np.array(A, order="C").reshape(-1), np.empty((k, q), A.dtype)
    with scratch("sweep", householder_scratch(p, q), A.dtype) as work:
        orthogonalization.factorize(Q, p, q, R, work)
    return Q[: p * k].reshape(p, k), R


# -- the identity gauge --------------------------------------------------------------------------


class Gauge(NamedTuple):
    """A train in the identity gauge, the flags of cores with G[0] = 1, and the changes of gauge."""

    train: Train
    identity: np.ndarray
    T: np.ndarray


def identity_gauge(train: Train) -> Gauge:
    """Return the train in the identity gauge, in O(d n r^3); the last rank may be open."""
    dtype, r = train.data.dtype, train.rank
    data, T = np.empty_like(train.data), np.empty(int((train.ranks**2).sum()), dtype)
    identity = np.empty(len(train.sizes), np.bool_)
    worst = WORST_CONDITION[dtype.itemsize] * r
    with scratch("sweep", r * (3 * r + 3), dtype) as work:
        impose_identity(tuple(train), worst, data, T, identity, work)
    return Gauge(train._replace(data=data), identity, T)


# -- tangent spaces, of a point given in both gauges ---------------------------------------------


def fix_gauge(left: Train, deltas: np.ndarray) -> np.ndarray:
    """Return the deltas, made orthogonal to U, in O(d n r^3)."""
    out, d = np.empty_like(deltas), len(left.sizes)
    kinds, scales = np.full(d, NUMERIC, np.int64), np.ones(d, deltas.dtype)
    with scratch("sweep", left.rank**2, deltas.dtype) as work:
        projection.finish_deltas(deltas[None], kinds, scales, tuple(left), out, work)
    return out


def assemble_tangent(left: Train, right: Train, deltas: np.ndarray) -> Train:
    """Return a tangent vector as a train, of ranks 2 r."""
    ranks = 2 * left.ranks
    ranks[0] = ranks[-1] = 1
    train = _empty_train(ranks, left.sizes, deltas.dtype)
    projection.assemble_tangent(tuple(left), tuple(right), deltas, train.data)
    return train


# -- local problems of sweeps --------------------------------------------------------------------


def newton_step(
    phi: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    C: np.ndarray,
    g: np.ndarray,
    h: np.ndarray,
    alpha: float,
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return (step, J step, slope, |gradient|^2) of the Newton step from a core C (n, r0, r1).

    The loss has slopes g and curvatures h (m,), and alpha / 2 |C|^2 is added. Row s of J is the
    product of the rows s of phi (m, n), left (m, r0) and right (m, r1). slope = <gradient, step> is
    NaN if numbers overflow. O(m k^2 + k^3) with k = min(m, n r0 r1): meant for few samples.
    """
    phi, left, right, C, g, h = (
        np.ascontiguousarray(a, np.float64) for a in (phi, left, right, C, g, h)
    )
    step, along = np.empty(C.shape), np.empty(len(g))
    slope, squared = local_problem.newton_step(phi, left, right, C, g, h, float(alpha), step, along)
    return step, along, slope, squared
