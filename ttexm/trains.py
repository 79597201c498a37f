"""What can be done with trains: the numerics behind `TTTensor`, in scaled numbers.

A train stands for 2^exponent times its cores, so that no product of cores leaves the range of
floating-point numbers on the way; results are likewise mantissa and exponent.
"""

import functools
import math
import numbers
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from . import device
from .batch import RankOneBatch
from .indexing import without_power
from .kernels.layout import Train
from .shapes import check_real, float_array

NEVER = -(2**40)  # the exponent of zero
PIECE = 8192  # numbers that BLAS does not split by its number of threads
SQUARED = 0.4  # of a precision's exponents: so far below 1, squares keep all digits

kernels = device.get("cpu")  # for trains alone; batches go to their own device


class Growth(NamedTuple):
    """Powers of two by which one core can raise or lower a partial product, vectors of ones."""

    up: int
    down: int


def ldexp(mantissa, exponent):
    """mantissa 2^exponent as plain numbers: inf, with numpy's warning, or 0 where it does not fit.

    Beyond 5000 every number has left the range, and numpy takes 32 bits only.
    """
    if not (exponent if isinstance(exponent, int) else np.any(exponent)):
        return mantissa
    if isinstance(exponent, int):
        return np.ldexp(mantissa, max(-5000, min(5000, exponent)))
    return np.ldexp(mantissa, np.clip(exponent, -5000, 5000))


def frexp(number) -> tuple[float, int]:
    """A real number of any type and size as mantissa 2^exponent, with 1/2 <= |mantissa| < 1.

    NaN, inf and 0 have the exponent 0.
    """
    if isinstance(number, float):
        return math.frexp(number)
    if isinstance(number, numbers.Rational):
        # Python's integers and fractions may be beyond all floats.
        number = Fraction(int(number.numerator), int(number.denominator))
        exponent = number.numerator.bit_length() - number.denominator.bit_length()
        mantissa, rest = math.frexp(number / Fraction(2) ** exponent)
        return mantissa, exponent + rest if mantissa else 0
    mantissa, exponent = np.frexp(number)
    return float(mantissa), int(exponent)


def normalized(data, dtype=None):
    """The data by a power of two such that squares stay in range, and its exponent.

    NaN and inf are left as they are. dtype: whose range counts, by default the data's own.
    """
    exponent = kernels.extent(data)[0]
    if abs(exponent) < _largest_exponent(dtype or data.dtype) // 4:
        return data, 0
    if exponent > _largest_exponent(data.dtype):
        return data, 0
    return ldexp(data, -exponent), exponent


def is_moderate(data) -> bool:
    """Whether the largest number is not zero, and its square is in range; not so for NaN and inf.

    False as well if all numbers are from 1/2 to 1, as their extent is that of zeros.
    """
    high, low = kernels.extent(data)
    return abs(high) < _largest_exponent(data.dtype) // 4 and (high, low) != (0, 0)


@functools.cache
def _largest_exponent(dtype) -> int:
    return int(np.finfo(dtype).maxexp)


def common(*parts: tuple[int, np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """Arrays, given with their exponents, up to one power of two: that of the largest."""
    most = max((exponent for exponent, data in parts if data.any()), default=0)
    return most, [ldexp(data, exponent - most) for exponent, data in parts]


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """<a, b> of flat arrays; in short pieces, which have the same bits for any threads of BLAS."""
    return float(sum(a[i : i + PIECE] @ b[i : i + PIECE] for i in range(0, len(a), PIECE)))


def size(a: np.ndarray) -> float:
    """The norm of a flat array, as `dot`."""
    return math.sqrt(dot(a, a))


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


def absorb(train: Train, exponent: int) -> Train | None:
    """2^exponent times the train, exactly: in the last core or spread over all, None if neither."""
    if exponent == 0:
        return train
    last = train.data[train.offsets[-2] :]
    if _fits(last, exponent, exponent):
        data = train.data.copy()
        data[train.offsets[-2] :] = ldexp(last, exponent)
        return train._replace(data=data)
    d = len(train.sizes)
    if _fits(train.data, exponent // d, -(-exponent // d)):
        return kernels.spread_power(train, exponent)
    return None


def _fits(values, least: int, most: int) -> bool:
    """Whether the values times 2^least, .., 2^most are all normal numbers, or zero."""
    (high, low), info = kernels.extent(values), np.finfo(values.dtype)
    return info.minexp < low + least and high + most <= info.maxexp


def spread(train: Train, exponent: int) -> Train:
    """2^exponent times a tame train, an even share for each core: what does not fit is inf or 0."""
    d = len(train.sizes)
    shares = [exponent * (k + 1) // d - exponent * k // d for k in range(d)]
    return from_slots([ldexp(G, e) for G, e in zip(to_slots(train), shares, strict=True)])


def absorb_at(train: Train, exponent: int, k: int) -> tuple[Train, int]:
    """2^exponent times the train, in core k if it fits there, else apart."""
    core = train.data[train.offsets[k] : train.offsets[k + 1]]
    if exponent == 0 or not _fits(core, exponent, exponent):
        return train, exponent
    core[:] = ldexp(core, exponent)
    return train, 0


def align(left: Train, e: int, right: Train, f: int) -> tuple[Train, Train, int]:
    """Trains of 2^e left and 2^f right up to one power of two, and its exponent."""
    absorbed = absorb(left, e - f)
    if absorbed is not None:
        return absorbed, right, f
    absorbed = absorb(right, f - e)
    if absorbed is not None:
        return left, absorbed, e
    # Only norms say which is larger, and whether the other counts at all.
    (left, e), (right, f) = _with_norm_apart(left, e), _with_norm_apart(right, f)
    exponent = max(e, f)
    if exponent == NEVER:
        return left, right, 0
    for train, power in ((left, e - exponent), (right, f - exponent)):
        train.data[: train.offsets[1]] = ldexp(train.data[: train.offsets[1]], power)
    return left, right, exponent


def _with_norm_apart(train, exponent):
    """The train, right-orthogonal, with a first core near 1, and the power of two that it lacks."""
    train, power = tame(train)
    train, rest = orthogonalize(train, 0)
    first = train.data[: train.offsets[1]]
    first[:], last = without_power(first)
    return train, (exponent + power + rest + last if first.any() else NEVER)


def scale(train: Train, mantissa: float, exponent: int) -> tuple[Train, int]:
    """The train times mantissa 2^exponent, in the last core, and the power of two that it lacks."""
    data = train.data.copy()
    last, power = data[train.offsets[-2] :], 0
    # The factor itself must fit as well.
    is_factor = abs(exponent) < _largest_exponent(data.dtype) - 2
    if is_factor and _fits(last, exponent - 1, exponent + 1):
        mantissa = math.ldexp(mantissa, exponent)
    else:
        last[:], power = without_power(last)
        power += exponent
    last *= data.dtype.type(mantissa)
    return train._replace(data=data), power


def tame(train: Train, dtype=None, is_uneven: bool = False) -> tuple[Train, int]:
    """The train with cores of moderate size, and the power of two that it lacks.

    Numbers keep their bits unless they are less than about 2^-1000 (float32: 2^-120) of others that
    they are added to. dtype: the precision whose range counts, by default the train's own.
    is_uneven: parts of cores are known to differ vastly in size.
    """
    high, low = kernels.extent(train.data)
    is_finite = high <= _largest_exponent(train.data.dtype)
    wide = _largest_exponent(dtype or train.data.dtype) * 3 // 4
    if is_finite and (is_uneven or high - low >= wide):
        return balance(train)
    return kernels.normalize_cores(train)


def level(train: Train) -> tuple[Train, int]:
    """A tame train whose numbers can be squared, and the power of two that it lacks."""
    high, low = kernels.extent(train.data)
    limit = _largest_exponent(train.data.dtype)
    return (train, 0) if high - low < SQUARED * limit or high > limit else balance(train)


def for_sweeps(train: Train) -> tuple[Train, int]:
    """`level`, without columns that are too small to be squared next to the others.

    A reflection of such a column would be none: the squares of its entries underflow. In a level
    train it does not count, as its rows go on with numbers near 1.
    """
    levelled, power = level(train)
    if levelled is not train:
        least = 2.0 ** (-SQUARED * _largest_exponent(train.data.dtype))
        for G in to_slots(levelled):
            peaks = np.abs(G).max(axis=(0, 1))
            G[:, :, peaks < least * peaks.max()] = 0
    return levelled, power


def balance(train: Train) -> tuple[Train, int]:
    """The train with the peak of each row of each core near 1, and the power of two it lacks.

    A gauge of powers of two, so no digit changes; for finite trains, in O(d n r^2). Without it, if
    the columns of a core differ vastly in size, and the rows of the next one the other way round,
    then numbers that count are far below the peak of their core.
    """
    slots, column = [], np.zeros(1, np.int64)
    for G in reversed(to_slots(train)):
        mantissas, exponents = np.frexp(G)
        exponents = np.where(mantissas == 0, NEVER, exponents + column)
        column = exponents.max(axis=(0, 2))
        # Rows of zeros, and what only leads to them: however large, it does not count.
        is_dead = column < NEVER // 2
        slots.append(ldexp(mantissas, exponents - np.where(is_dead, 0, column)[:, None]))
        column[is_dead] = NEVER
    return from_slots(slots[::-1]), 0 if is_dead[0] else int(column[0])


def check_finite(train: Train, what: str) -> tuple[int, int]:
    """Exponents of the largest and smallest non-zero entries of the cores; raises for NaN, inf."""
    high, low = kernels.extent(train.data)
    if high > _largest_exponent(train.data.dtype):
        k = next(k for k, G in enumerate(to_slots(train)) if not np.isfinite(G).all())
        raise ValueError(f"{what} needs finite cores, but cores[{k}] has NaN or inf.")
    return high, low


def relative_eps(eps: float, dtype, d: int) -> float:
    """The relative error that a truncation may make, at least that of rounding at each bond."""
    check_real("eps", eps)
    if not 0 <= eps < 1:
        raise ValueError(f"eps must be at least 0 and less than 1, got {eps!r}.")
    return max(float(eps), 32 * float(np.finfo(dtype).eps) * math.sqrt(max(1, d - 1)))


def round(train: Train, most: tuple[int, ...], eps: float) -> tuple[Train, int]:
    """TT-SVD to ranks of at most `most`, within eps |W| where those allow it."""
    last = len(train.sizes) - 1
    train, start = for_sweeps(train)
    train, exponent = kernels.orthogonalize(kernels.reverse(train), last)
    train = kernels.reverse(train)
    first = train.data[: train.offsets[1]]
    first[:], power = normalized(first)
    tolerance = eps * size(first) / math.sqrt(max(1, last))
    return kernels.truncate(train, np.array(most), tolerance), start + exponent + power


def orthogonalize(train: Train, center: int) -> tuple[Train, int]:
    """Cores before the center left-orthogonal, those after it right-orthogonal."""
    train, start = for_sweeps(train)
    train, left = kernels.orthogonalize(train, center)
    train, right = kernels.orthogonalize(kernels.reverse(train), len(train.sizes) - 1 - center)
    return kernels.reverse(train), start + left + right


def norm(train: Train) -> tuple[float, int]:
    """|W| = mantissa 2^exponent."""
    train, start = for_sweeps(train)
    mantissa, exponent = kernels.norm(train)
    return mantissa, start + exponent


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
    """Derivatives of sum_s g_s <W, X_s> in the cores, flat as they are; g as for `Derivatives`."""
    dtype, m = train.data.dtype, len(batch)
    held, period = batch.astype(dtype)._held, _period(train, growth(train), batch)
    there, g = device.get(batch.device), Derivatives(g, m, dtype)
    data = there.core_gradient(train, held, m, g.argument, period)
    return ldexp(data, g.power)


class Derivatives:
    """What kernels take for g, one number per sample: an array, or a function of the predictions.

    The numbers are checked, and a power of two that would endanger their sums is taken out: it is
    `power`, once the kernel has been called.
    """

    def __init__(self, g, m: int, dtype, exponent: int = 0, name: str = "g"):
        self.g, self.m, self.dtype, self.exponent, self.name = g, m, dtype, exponent, name
        self.power = 0
        self.argument = self._call if callable(g) else self._checked(g)

    def _call(self, f, powers):
        return self._checked(self.g(ldexp(f, powers + self.exponent)))

    def _checked(self, values):
        if type(values) is not np.ndarray or values.dtype != self.dtype:
            values = float_array(values, self.name)
        if values.shape != (self.m,):
            raise ValueError(
                f"{self.name} must have one number per sample, shape ({self.m},), "
                f"got {values.shape}."
            )
        values, self.power = normalized(np.ascontiguousarray(values), self.dtype)
        return values.astype(self.dtype, copy=not values.flags.writeable)
