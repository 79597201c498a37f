"""What can be done with trains: the numerics behind `TTTensor`, in scaled numbers.

A train stands for 2^exponent times its cores, so that no product of cores leaves the range of
floating-point numbers on the way; results are likewise mantissa and exponent.
"""

import math
from typing import NamedTuple

import numpy as np

from . import device
from .batch import RankOneBatch
from .kernels.layout import Train

kernels = device.get("cpu")  # for trains alone; batches go to their own device


class Growth(NamedTuple):
    """Powers of two by which one core can raise or lower a partial product, vectors of ones."""

    up: int
    down: int


def ldexp(mantissa, exponent):
    """mantissa 2^exponent; inf or 0 where that does not fit, without a warning."""
    if not (exponent if isinstance(exponent, int) else np.any(exponent)):
        return mantissa
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(mantissa, np.clip(exponent, -5000, 5000))


def normalized(data):
    """The data by a power of two such that squares stay in range, and its exponent."""
    exponent = kernels.extent(data)[0]
    if abs(exponent) < np.finfo(data.dtype).maxexp // 4:
        return data, 0
    return ldexp(data, -exponent), exponent


def log_abs(mantissa, exponent):
    """log |mantissa 2^exponent|, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(np.abs(mantissa, dtype=np.float64)) + exponent * math.log(2)


def from_slots(slots: list[np.ndarray]) -> Train:
    """The train of cores that are given slot-major, (n, r0, r1)."""
    data = np.concatenate([part.ravel() for part in slots])
    ranks = np.array([1] + [part.shape[2] for part in slots], np.int64)
    return kernels.make_train(data, ranks, np.array([len(part) for part in slots], np.int64))


def to_slots(train: Train) -> list[np.ndarray]:
    """Views of the cores, (n, r0, r1)."""
    ends, ranks, sizes = train.offsets.tolist(), train.ranks.tolist(), train.sizes.tolist()
    return [
        train.data[ends[k] : ends[k + 1]].reshape(n, ranks[k], ranks[k + 1])
        for k, n in enumerate(sizes)
    ]


def settle(train: Train, exponent: int) -> Train:
    """2^exponent times the train: in the last core, or spread over all if it does not fit there."""
    if exponent == 0:
        return train
    last = train.data[train.offsets[-2] :]
    high, low = kernels.extent(last)
    info = np.finfo(last.dtype)
    if info.minexp < low + exponent and high + exponent < info.maxexp:
        data = train.data.copy()
        data[train.offsets[-2] :] = ldexp(last, exponent)
        return train._replace(data=data)
    return kernels.spread_power(train, exponent)


def scale(train: Train, factor: float) -> Train:
    """The train with its last core times a factor."""
    data = train.data.copy()
    data[train.offsets[-2] :] *= data.dtype.type(factor)
    return train._replace(data=data)


def check_finite(train: Train, what: str) -> tuple[int, int]:
    """Exponents of the largest and smallest non-zero entries of the cores; raises for NaN, inf."""
    high, low = kernels.extent(train.data)
    if high > np.finfo(train.data.dtype).maxexp:
        k = next(k for k, G in enumerate(to_slots(train)) if not np.isfinite(G).all())
        raise ValueError(f"{what} needs finite cores, but cores[{k}] has NaN or inf.")
    return high, low


def relative_eps(eps: float, dtype, d: int) -> float:
    """The relative error that a truncation may make, at least that of rounding at each bond."""
    if not 0 <= eps < 1:
        raise ValueError(f"eps must be at least 0 and less than 1, got {eps!r}.")
    return max(float(eps), 32 * float(np.finfo(dtype).eps) * math.sqrt(max(1, d - 1)))


def round(train: Train, most: tuple[int, ...], eps: float) -> tuple[Train, int]:
    """TT-SVD to ranks of at most `most`, within eps |W| where those allow it."""
    last = len(train.sizes) - 1
    train, exponent = kernels.orthogonalize(kernels.reverse(train), last)
    train = kernels.reverse(train)
    first = train.data[: train.offsets[1]]
    first[:], power = normalized(first)
    tolerance = eps * float(np.linalg.norm(first)) / math.sqrt(max(1, last))
    return kernels.truncate(train, np.array(most), tolerance), exponent + power


def orthogonalize(train: Train, center: int) -> tuple[Train, int]:
    """Cores before the center left-orthogonal, those after it right-orthogonal."""
    train, left = kernels.orthogonalize(train, center)
    train, right = kernels.orthogonalize(kernels.reverse(train), len(train.sizes) - 1 - center)
    return kernels.reverse(train), left + right


def growth(train: Train) -> Growth:
    high, low = kernels.extent(train.data)
    terms = int((train.sizes * train.ranks[:-1]).max()).bit_length()
    return Growth(high + terms, -low)


def contract(
    train: Train, exponent: int, identity: np.ndarray, growth: Growth, batch: RankOneBatch
):
    """2^exponent <W, X_s> as mantissas and exponents."""
    held, period = batch.astype(train.data.dtype)._held, _period(train, growth, batch)
    there = device.get(batch.device)
    mantissas, exponents = there.contract(train, identity, held, len(batch), period)
    if exponent != 0:
        exponents += exponent
    return mantissas, exponents


def _period(train, growth, batch):
    """Cores between two checks of the range of partial products."""
    high, low = batch.extent
    return kernels.check_period(train.data.dtype, max(growth.up + high, growth.down - low))


def core_gradient(train: Train, batch: RankOneBatch, g) -> np.ndarray:
    """Derivatives of sum_s g_s <W, X_s> in the cores, flat as they are; g as in `derivatives`."""
    dtype, m = train.data.dtype, len(batch)
    held, period = batch.astype(dtype)._held, _period(train, growth(train), batch)
    there = device.get(batch.device)
    return there.core_gradient(train, held, m, derivatives(g, m, dtype), period)


def derivatives(g, m: int, dtype, exponent: int = 0):
    """g, one number a sample, checked; a function of f becomes one of f 2^-exponent and powers."""

    def checked(values):
        values = np.ascontiguousarray(values, dtype)
        if values.shape != (m,):
            raise ValueError(f"g must have one number a sample, shape ({m},), got {values.shape}.")
        return values

    if callable(g):
        return lambda f, powers: checked(g(ldexp(f, powers + exponent)))
    return checked(g)
