"""The CUDA kernel set: the names and arguments of `cpu`, on a GPU or in numba's simulator.

Trains come from the host and go back there, as they are small; batches stay on the device (`hold`).
What is not worth a launch, the algebra of trains, is the CPU's.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numba
import numpy as np

from . import blocks, cuda_dense, cuda_tiles
from .cpu import (
    Gauge,
    add,
    assemble_tangent,
    check_period,
    extent,
    hadamard,
    identity_gauge,
    inner_product,
    make_train,
    norm,
    normalize_cores,
    reverse,
    spread_power,
    truncate,
)
from .cuda_batch import Gradient, Held, contract
from .cuda_launch import empty, launch, launch_block, send, send_train
from .cuda_samples import Samples
from .cuda_tiles import RANKS, Geometry
from .layout import Batch
from .orthogonalize import sweep_scratch
from .retract import retract_scratch

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


def hold(batch: Batch, m: int) -> Held:
    """A copy of m samples on the device; if there is no room for it, what copies their parts."""
    return Held(batch, m)


def take(held: Held, m: int, rows: np.ndarray) -> Held:
    """Some of the m samples, in the order of `rows`, gathered on the device."""
    if held.resident is None:
        return Held(blocks.take(held.batch, m, rows), len(rows))
    return held.take(rows)


# -- orthogonal gauges -------------------------------------------------------------------------


def _orthogonalize(train, stop):
    """(data, ranks, exponent) on the device, of a train that is there."""
    data, ranks = empty(train.data.size, np.float64), empty(train.d + 1, np.int64)
    work, power = empty(sweep_scratch(train), np.float64), empty(1, np.int64)
    launch_block(
        cuda_dense.orthogonalize_train, 1, train.data, *train.shape, train.rank, train.rows, stop,
        data, ranks, work, power,
    )  # fmt: skip
    return data, ranks, power


def orthogonalize(train, stop):
    """(train, exponent) with cores 0 .. stop - 1 left-orthogonal, in O(d n r^3)."""
    data, ranks, power = _orthogonalize(send_train(train), stop)
    data = data.copy_to_host().astype(train.data.dtype)
    return make_train(data, ranks.copy_to_host(), train.sizes), int(power.copy_to_host()[0])


def both_gauges(train, is_left):
    """(left, right, exponent): left- and right-orthogonal, the right one reversed. O(d n r^3).

    For trains whose ranks the shape allows. is_left: the train is left-orthogonal already.
    """
    device, exponent = send_train(train), 0
    last, dtype = device.d - 1, train.data.dtype
    if not is_left:
        data, _, power = _orthogonalize(device, last)
        device, exponent = device._replace(data=data), int(power.copy_to_host()[0])
    mirrored = empty(len(train.data), np.float64)
    launch(cuda_dense.mirror, device.d, device.data, *device.shape, mirrored)
    ranks, sizes = train.ranks[::-1].copy(), train.sizes[::-1].copy()
    right = make_train(np.empty(0, dtype), ranks, sizes)
    shape = send_train(right)._replace(data=mirrored)
    data = _orthogonalize(shape, last)[0].copy_to_host().astype(dtype)
    left = train.data.copy() if is_left else device.data.copy_to_host().astype(dtype)
    return train._replace(data=left), right._replace(data=data), exponent


# -- tangent spaces ----------------------------------------------------------------------------


def _fix_gauge(left, deltas):
    """Deltas on the device, made orthogonal to U there."""
    work = empty(left.d * left.rank**2, np.float64)
    launch_block(
        cuda_dense.fix_gauge, left.d - 1, left.data, *left.shape, left.rank, deltas, work
    )  # fmt: skip


def fix_gauge(left, deltas):
    """Deltas made orthogonal to U, in O(d n r^3)."""
    out = send(deltas, np.float64)
    _fix_gauge(send_train(left), out)
    return out.copy_to_host().astype(deltas.dtype)


def gradient(left, right, batch: Held, m, g, period):
    """Deltas of the projection of sum_s g_s X_s, in O(d n r^2 (m + r)); g as for the CPU's."""
    job = Gradient(left, right, batch, m, period)
    job.accumulate(g)
    deltas = job.finish()
    _fix_gauge(job.trains[0], deltas)
    return deltas.copy_to_host().astype(left.data.dtype)


def core_gradient(train, batch: Held, m, g, period):
    """Derivatives of sum_s g_s <W, X_s> in the cores of any train; g as for `gradient`."""
    job = Gradient(train, reverse(train), batch, m, period)
    job.accumulate(g)
    return job.finish().copy_to_host().astype(train.data.dtype)


def project_train(left, right, Z, exponent):
    """Deltas of the projection of 2^exponent Z, in O(d n r r' (r + r'))."""
    point, other, d = send_train(left), send_train(Z), len(left.sizes)
    out = empty(len(left.data), np.float64)
    work = empty((d + 4) * left.rank * Z.rank + left.rank**2, np.float64)
    launch_block(
        cuda_dense.project_train, 1, point.data, send(right.data, np.float64), *point.shape,
        point.rank, send(right.offsets, np.int64), other.data, other.ranks, other.offsets,
        other.rank, exponent, out, work, empty(d + 1, np.int64),
    )  # fmt: skip
    return out.copy_to_host().astype(left.data.dtype)


def retract(left, exponent, right, deltas):
    """(train, exponent) of 2^exponent W + xi, rounded to the ranks of W, in O(d n r^3)."""
    point, size = send_train(left), len(left.data)
    out, power = empty(size, np.float64), empty(1, np.int64)
    room = retract_scratch(left) + cuda_dense.decompose_scratch(left.rows, 2 * left.rank)
    trains = (
        point.data, send(right.data, np.float64), *point.shape, point.rank,
        send(right.offsets, np.int64),
    )  # fmt: skip
    deltas, work = send(deltas, np.float64), empty(room, np.float64)
    Z, extra = empty(2 * size, np.float64), empty(point.d + 1, np.int64)
    launch_block(
        cuda_dense.retract_left, 1, *trains, exponent, deltas, Z, extra, work, power
    )  # fmt: skip
    launch_block(cuda_dense.retract_right, 1, *trains, deltas, Z, extra, out, work, power)
    data = out.copy_to_host().astype(left.data.dtype)
    return left._replace(data=data), int(power.copy_to_host()[0])


# -- what is compiled --------------------------------------------------------------------------


class Variant(NamedTuple):
    """A kernel as it is compiled for a GPU."""

    name: str
    rank: int | None  # padded; None if the kernel takes any
    dtype: str
    function: object
    signature: tuple
    threads: int
    dynamic_shared: int  # bytes

    @property
    def launch_bounds(self):
        return getattr(self.function, "launch_bounds", None)


def variants() -> Iterator[Variant]:
    """Every kernel at every padded rank and precision; needs no GPU."""
    double, int64, int32, flag = (
        numba.float64[::1], numba.int64[::1], numba.int32[::1], numba.boolean[::1]
    )  # fmt: skip
    i = numba.int64
    blocks_of = cuda_dense.THREADS
    shared = cuda_dense.SHARED_NUMBERS * blocks_of * 8
    train = (int64, int64, int64)  # ranks, sizes, offsets
    for function, signature in (
        (cuda_dense.orthogonalize_train,
         (double, *train, i, i, i, double, int64, double, int64)),
        (cuda_dense.mirror, (double, *train, double)),
        (cuda_dense.fix_gauge, (double, *train, i, double, double)),
        (cuda_dense.project_train,
         (double, double, *train, i, int64, double, int64, int64, i, i, double, double, int64)),
        (cuda_dense.retract_left,
         (double, double, *train, i, int64, i, double, double, int64, double, int64)),
        (cuda_dense.retract_right,
         (double, double, *train, i, int64, double, double, int64, double, double, int64)),
    ):  # fmt: skip
        yield Variant(function.__name__, None, "float64", function, signature, blocks_of, shared)
    for dtype in ("float32", "float64"):
        number = getattr(numba, dtype)
        array = number[::1]
        batch = (int64, int64, array, array, int32, i, i, i)
        for R in RANKS:
            geometry = Geometry.of(R, False)
            signature = (
                array, int64, int64, flag, *batch, i, numba.boolean, i, i, i, array, i, array, i, i,
                int32, array, int32,
            )  # fmt: skip
            function = cuda_tiles.make_partials(R, dtype, geometry.threads)
            yield Variant("partials", R, dtype, function, signature, geometry.threads, 0)
            groups = (int32, int64, int32, int64, i)
            side = (array, i, int32)
            signature = (
                int64, int64, int64, int64, array, i, i, *groups, i, array, i, i, i, i, *side,
                *side, i, i, array, i,
            )  # fmt: skip
            function = cuda_tiles.make_deltas(R, dtype, geometry.lanes)
            threads = (R // 4) ** 2 * geometry.lanes
            yield Variant("deltas", R, dtype, function, signature, threads, 0)
        data = (array, int32, i, i, i)
        for function, signature in (
            (cuda_tiles.clear, (array,)),
            (cuda_tiles.pad, (double, int64, int64, int64, int64, i, array)),
            (cuda_tiles.finish,
             (array, i, i, i, int64, int64, int64, int64, int64, array, double)),
            (cuda_tiles.dot, (array, i, array, i, i, i, array, numba.boolean, array)),
            (cuda_tiles.expand, (array, i, i, i, i, number, *data, i, i, i, array)),
            (cuda_tiles.squares, (array, i, i, i, array)),
            (cuda_tiles.take, (int64, i, *data, array, int32, i)),
        ):  # fmt: skip
            yield Variant(function.__name__, None, dtype, function, signature, blocks_of, 0)
    signature = (int32, i, i, int64, int64, int64, int64, i, i, int32, int64, int32)
    yield Variant("group", None, "int32", cuda_tiles.group, signature, blocks_of, 0)
