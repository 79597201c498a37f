"""The CPU as a `backend.Device`, where these functions are documented."""

import numpy as np

from . import contraction, gradients, orthogonalization, projection, retraction
from .host import empty_like, with_blas_for
from .layout import Batch, Train
from .packing import select
from .partial_products import HostPartialProducts
from .schedule import scratch

contract = contraction.contract
gradient = gradients.gradient
core_gradient = gradients.core_gradient


def hold(batch: Batch, m: int) -> Batch:
    return batch


def take(held: Batch, m: int, rows: np.ndarray) -> Batch:
    return select(held, m, rows)


def gauges(train: Train, is_left_orthogonal: bool) -> tuple[Train, Train, int]:
    left, right = np.empty_like(train.data), empty_like(train)
    n_scratch = orthogonalization.sweep_scratch(train) + len(left)
    with scratch("sweep", n_scratch, left.dtype) as work:
        exponent = orthogonalization.both_gauges(
            tuple(train), is_left_orthogonal, left, tuple(right), work
        )
    return Train(left, *train[1:]), right, exponent


def project(left: Train, right: Train, Z: Train, exponent: int) -> np.ndarray:
    out, d = np.empty_like(left.data), len(left.sizes)
    n_scratch = (d + 4) * left.rank * Z.rank + left.rank**2
    with scratch("sweep", n_scratch, out.dtype) as work:
        powers = np.empty(d + 1, np.int64)
        projection.project_train(tuple(left), tuple(right), tuple(Z), exponent, out, work, powers)
    return out


def retract(left: Train, exponent: int, right: Train, deltas: np.ndarray) -> tuple[Train, int]:
    data, dtype = np.empty_like(left.data), left.data.dtype
    with (
        with_blas_for(left),
        scratch("Z", 2 * len(data), dtype) as Z,
        scratch("sweep", retraction.retract_scratch(left), dtype) as work,
    ):
        extra = np.empty_like(left.ranks)
        total = retraction.retract(
            tuple(left), exponent, tuple(right), deltas, Z, extra, data, work
        )
    return left._replace(data=data), total


def partial_products(held: Batch, m: int, dtype: np.dtype) -> HostPartialProducts:
    return HostPartialProducts(held, m, dtype)
