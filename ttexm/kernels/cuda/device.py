"""CUDA as a `backend.Device`, where these functions are documented: a GPU, or numba's simulator.

Trains are small: they come from the host and go back there. Batches stay on the device.
"""

import itertools

import numpy as np

from ..backend import Derivatives
from ..host import make_train, reverse
from ..layout import Batch, Train
from ..orthogonalization import sweep_scratch
from ..packing import select
from ..retraction import retract_scratch
from . import block_algebra, block_kernels, sample_kernels, tile_kernels
from .batches import Gradient, Held, PaddedTrain, predictions
from .partial_products import DevicePartialProducts
from .runtime import Kernel, empty, send, send_train
from .tile_kernels import padded


def hold(batch: Batch, m: int) -> Held:
    return Held(batch, m)


def take(held: Held, m: int, rows: np.ndarray) -> Held:
    if held.resident is None:
        return Held(select(held.batch, m, rows), len(rows))
    return held.gather(rows)


def contract(
    train: Train, identity: np.ndarray, held: Held, m: int, period: int
) -> tuple[np.ndarray, np.ndarray]:
    is_open, shape, outputs = len(train.sizes) > len(held.kinds), m, ((1.0,),)
    if is_open:
        outputs = train.data[train.offsets[-2] :].reshape(train.ranks[-2:])
        train, identity = make_train(train.data, train.ranks[:-1], train.sizes[:-1]), identity[:-1]
        shape = m, outputs.shape[1]
    R = padded(train.rank)
    if m == 0:
        return np.empty(shape, held.dtype), np.empty(0, np.int64)
    flags = send(identity, np.bool_)
    prepared = PaddedTrain(send_train(train), flags, R, held.dtype, outputs)
    mantissas, exponents = predictions(prepared, held, period)
    return mantissas.reshape(shape), exponents


def gradient(
    left: Train, right: Train, held: Held, m: int, g: Derivatives, period: int
) -> np.ndarray:
    job = Gradient(left, right, held, m, period)
    job.accumulate(g)
    deltas = job.deltas()
    work = empty(job.left.d * left.rank**2, np.float64)
    block_kernels.make_kernels().fix_gauge.launch(job.left.d - 1, job.left.arguments, deltas, work)
    return deltas.copy_to_host().astype(left.data.dtype)


def core_gradient(train: Train, held: Held, m: int, g: Derivatives, period: int) -> np.ndarray:
    job = Gradient(train, reverse(train), held, m, period)
    job.accumulate(g)
    return job.deltas().copy_to_host().astype(train.data.dtype)


def gauges(train: Train, is_left_orthogonal: bool) -> tuple[Train, Train, int]:
    sent, exponent = send_train(train), 0
    last, dtype = sent.d - 1, train.data.dtype
    if not is_left_orthogonal:
        data, power = _orthogonalize(sent, last)
        sent, exponent = sent._replace(data=data), int(power.copy_to_host()[0])
    mirrored = empty(len(train.data), np.float64)
    block_kernels.make_kernels().mirror.launch(sent.d, sent.arguments, mirrored)
    ranks, sizes = train.ranks[::-1].copy(), train.sizes[::-1].copy()
    right = make_train(np.empty(0, dtype), ranks, sizes)
    data, _ = _orthogonalize(send_train(right)._replace(data=mirrored), last)
    left = train.data.copy() if is_left_orthogonal else sent.data.copy_to_host().astype(dtype)
    data = data.copy_to_host().astype(dtype)
    return train._replace(data=left), right._replace(data=data), exponent


def _orthogonalize(train, stop):
    """The cores and the exponent, on the device, of a train that is there."""
    data, ranks = empty(train.data.size, np.float64), empty(train.d + 1, np.int64)
    work, power = empty(sweep_scratch(train), np.float64), empty(1, np.int64)
    block_kernels.make_kernels().orthogonalize.launch(
        1, train.arguments, stop, data, ranks, work, power
    )
    return data, power


def project(left: Train, right: Train, Z: Train, exponent: int) -> np.ndarray:
    d, out = len(left.sizes), empty(len(left.data), np.float64)
    work = empty((d + 4) * left.rank * Z.rank + left.rank**2, np.float64)
    trains = (send_train(train).arguments for train in (left, right, Z))
    block_kernels.make_kernels().project.launch(
        1, *trains, exponent, out, work, empty(d + 1, np.int64)
    )
    return out.copy_to_host().astype(left.data.dtype)


def retract(left: Train, exponent: int, right: Train, deltas: np.ndarray) -> tuple[Train, int]:
    size, kernels = len(left.data), block_kernels.make_kernels()
    point = [send_train(train).arguments for train in (left, right)]
    out, power = empty(size, np.float64), empty(1, np.int64)
    room = retract_scratch(left) + block_algebra.svd_scratch(left.rows, 2 * left.rank)
    deltas, work = send(deltas, np.float64), empty(room, np.float64)
    Z, extra = empty(2 * size, np.float64), empty(len(left.ranks), np.int64)
    kernels.retract_from_right.launch(1, *point, exponent, deltas, Z, extra, work, power)
    kernels.retract_from_left.launch(1, *point, deltas, Z, extra, out, work, power)
    data = out.copy_to_host().astype(left.data.dtype)
    return left._replace(data=data), int(power.copy_to_host()[0])


def partial_products(held: Held, m: int, dtype: np.dtype) -> DevicePartialProducts:
    return DevicePartialProducts(held, m, dtype)


def all_kernels() -> list[Kernel]:
    """Return every kernel, at every padded rank and precision; needs no GPU."""
    modules = block_kernels, tile_kernels, sample_kernels
    return list(itertools.chain(*(module.all_kernels() for module in modules)))
