"""The CPU's kernel set: what the layers above call, trains and arrays in, trains and arrays out.

Batches are what `hold` gave. Another device's set has the same names, with the same arguments.
"""

from contextlib import nullcontext

import numpy as np

from . import algebra, project, workspace
from . import contract as contraction
from . import gradient as gradients
from . import orthogonalize as sweeps
from . import retract as retraction
from .blocks import take
from .gradient import Gauge, contract, gradient, identity_gauge
from .layout import NUMERIC, Batch, Train
from .samples import Samples
from .threads import single_threaded_blas

__all__ = [
    "Gauge",
    "Samples",
    "add",
    "assemble_tangent",
    "both_gauges",
    "check_period",
    "contract",
    "core_gradient",
    "extent",
    "fix_gauge",
    "gradient",
    "hadamard",
    "hold",
    "identity_gauge",
    "inner_product",
    "make_train",
    "norm",
    "normalize_cores",
    "orthogonalize",
    "project_train",
    "retract",
    "reverse",
    "spread_power",
    "take",
    "truncate",
]


# Ranks up to which no LAPACK routine uses several threads; beyond, it must not: see `threads`.
SINGLE_THREADED_RANK = 32


def make_train(data, ranks, sizes) -> Train:
    """A train of contiguous cores; `data` may be longer than they are."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(ranks[:-1] * sizes * ranks[1:], out=offsets[1:])
    rows = int((sizes * np.maximum(ranks[:-1], ranks[1:])).max())
    return Train(data[: offsets[-1]], ranks, sizes, offsets, int(ranks.max()), rows)


def _empty_train(ranks, sizes, dtype) -> Train:
    train = make_train(np.empty(0, dtype), ranks, sizes)
    return train._replace(data=np.empty(train.offsets[-1], dtype))


def check_period(dtype, growth):
    """Cores between two checks of a product's range, if each may change it by 2^growth."""
    # Three quarters of the exponents: a check leaves products within a quarter of the range.
    return int(max(1, min(16, (np.finfo(dtype).maxexp * 3 // 4) // max(1, growth))))


def _blas_for(train):
    """A block for kernels that call LAPACK: with one thread, whatever BLAS would take."""
    return single_threaded_blas() if train.rank > SINGLE_THREADED_RANK else nullcontext()


def hold(batch: Batch, m: int) -> Batch:
    """m samples as this set's functions of a batch take them: here, as they are."""
    return batch


# -- algebra -----------------------------------------------------------------------------------


def add(left, a, right, b) -> Train:
    """a W + b Z, of the sum of their ranks."""
    ranks = left.ranks + right.ranks
    ranks[0] = ranks[-1] = 1
    train = _empty_train(ranks, left.sizes, left.data.dtype)
    number = train.data.dtype.type
    algebra.add(tuple(left), number(a), tuple(right), number(b), train.data)
    return train


def hadamard(left, right) -> Train:
    """The entrywise product, of the product of their ranks."""
    train = _empty_train(left.ranks * right.ranks, left.sizes, left.data.dtype)
    algebra.hadamard(tuple(left), tuple(right), train.data)
    return train


def normalize_cores(train):
    """(train, exponent) with a power of two taken out of each core that is far from 1."""
    data = np.empty_like(train.data)
    exponent, changed = algebra.normalize_cores(tuple(train), data)
    return (train._replace(data=data) if changed else train), exponent


def spread_power(train, exponent) -> Train:
    """2^exponent W, the power spread over all cores."""
    data = np.empty_like(train.data)
    algebra.spread_power(tuple(train), exponent, data)
    return train._replace(data=data)


def extent(values):
    """Exponents of the largest and of the smallest non-zero magnitude; (0, 0) if all are zero.

    The first is that of inf if there is NaN or inf: one more than that of any number.
    """
    bits = values.view(np.int64 if values.itemsize == 8 else np.int32)
    high, low = algebra.extent(bits)
    if high == 0:
        return 0, 0
    digits, bias = (52, 1022) if values.itemsize == 8 else (23, 126)
    return (high >> digits) - bias, (low >> digits) - bias


def inner_product(left, right):
    """<W, Z> = mantissa 2^exponent, in O(d n r^3)."""
    with workspace.lend("sweep", 3 * left.rank * right.rank, left.data.dtype) as work:
        return contraction.inner_product(tuple(left), tuple(right), work)


# -- orthogonal gauges -------------------------------------------------------------------------


def norm(train):
    """|W| = mantissa 2^exponent, in O(d n r^3)."""
    room = sweeps.sweep_scratch(train) + train.rows * train.rank
    with workspace.lend("sweep", room, train.data.dtype) as work:
        return sweeps.norm(tuple(train), work)


def reverse(train) -> Train:
    """The train of the reversed tensor."""
    mirrored = _unfilled(train)
    sweeps.reverse(tuple(train), tuple(mirrored))
    return mirrored


def _unfilled(train) -> Train:
    """A train of the same number of elements as another, all arrays uninitialised."""
    return Train(*map(np.empty_like, train[:4]), train.rank, train.rows)


def orthogonalize(train, stop):
    """(train, exponent) with cores 0 .. stop - 1 left-orthogonal, in O(d n r^3)."""
    data, ranks = np.empty_like(train.data), np.empty_like(train.ranks)
    with workspace.lend("sweep", sweeps.sweep_scratch(train), train.data.dtype) as work:
        exponent = sweeps.orthogonalize(tuple(train), stop, data, ranks, work)
    return make_train(data, ranks, train.sizes), exponent


def both_gauges(train, is_left):
    """(left, right, exponent): left- and right-orthogonal, the right one reversed. O(d n r^3).

    For trains whose ranks the shape allows. is_left: the train is left-orthogonal already.
    """
    left, right = np.empty_like(train.data), _unfilled(train)
    room = sweeps.sweep_scratch(train) + len(left)
    with workspace.lend("sweep", room, left.dtype) as work:
        exponent = sweeps.both_gauges(tuple(train), is_left, left, tuple(right), work)
    return Train(left, *train[1:]), right, exponent


def truncate(train, most, tolerance) -> Train:
    """TT-SVD of a train with right-orthogonal cores 1 .. d - 1, in O(d n r^3)."""
    data, ranks = np.empty_like(train.data), np.empty_like(train.ranks)
    with (
        _blas_for(train),
        workspace.lend("sweep", sweeps.sweep_scratch(train), train.data.dtype) as work,
    ):
        sweeps.truncate(tuple(train), most, tolerance, data, ranks, work)
    return make_train(data, ranks, train.sizes)


def core_gradient(train, batch, m, g, period):
    """Derivatives of sum_s g_s <W, X_s> in the cores of any train; g as for `gradient`."""
    return gradients.core_gradient(train, reverse(train), batch, m, g, period)


# -- tangent spaces, of a point given in both gauges ---------------------------------------------


def project_train(left, right, Z, exponent):
    """Deltas of the projection of 2^exponent Z, in O(d n r r' (r + r'))."""
    out, d = np.empty_like(left.data), len(left.sizes)
    room = (d + 4) * left.rank * Z.rank + left.rank**2
    with workspace.lend("sweep", room, out.dtype) as work:
        powers = np.empty(d + 1, np.int64)
        project.project_train(tuple(left), tuple(right), tuple(Z), exponent, out, work, powers)
    return out


def fix_gauge(left, deltas):
    """Deltas made orthogonal to U, in O(d n r^3)."""
    out, d = np.empty_like(deltas), len(left.sizes)
    kinds, scales = np.full(d, NUMERIC, np.int64), np.ones(d, deltas.dtype)
    with workspace.lend("sweep", left.rank**2, deltas.dtype) as work:
        project.finish_deltas(deltas[None], kinds, scales, tuple(left), out, work)
    return out


def assemble_tangent(left, right, deltas) -> Train:
    """The train, of ranks 2 r, of a tangent vector."""
    ranks = 2 * left.ranks
    ranks[0] = ranks[-1] = 1
    train = _empty_train(ranks, left.sizes, deltas.dtype)
    project.assemble_tangent(tuple(left), tuple(right), deltas, train.data)
    return train


def retract(left, exponent, right, deltas):
    """(train, exponent) of 2^exponent W + xi, rounded to the ranks of W, in O(d n r^3)."""
    data, dtype = np.empty_like(left.data), left.data.dtype
    with (
        _blas_for(left),
        workspace.lend("Z", 2 * len(data), dtype) as Z,
        workspace.lend("sweep", retraction.retract_scratch(left), dtype) as work,
    ):
        extra = np.empty_like(left.ranks)
        total = retraction.retract(
            tuple(left), exponent, tuple(right), deltas, Z, extra, data, work
        )
    return left._replace(data=data), total
