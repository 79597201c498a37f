"""ScaledTrain: a tensor train and a power of two, and the numerics behind `TTTensor`.

A product over thousands of cores leaves the range of floats, so a power of two is kept apart from
them. Algorithms need trains in one of three forms:

    normalized  the largest entry of each core is of moderate size
    balanced    the largest entry in each row of each core is near 1
    squarable   entries whose squares underflow, if there are any, are negligible

Other trains are brought into these forms by moving powers of two between the cores and the
exponent, which changes no digit.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import NamedTuple, final

import numpy as np

from ..kernels import cpu, host
from ..kernels.layout import Train
from .contraction import ContractionPlan
from .core_arrays import from_slots, read_only_cores, to_slots
from .scaled_numbers import (
    ZERO_EXPONENT,
    extract_power,
    flat_norm,
    largest_exponent,
    ldexp,
    normalize,
    scaled_product,
)

# Entries whose exponents differ by less than this share of a precision's largest exponent can be
# squared without losing the smaller ones to underflow.
SQUARABLE = 0.4


class OrthogonalGauges(NamedTuple):
    """``2^exponent`` times a train, both left- and right-orthogonal; the right one is reversed."""

    left: Train
    right: Train
    exponent: int


@final
@dataclass(frozen=True, eq=False)
class ScaledTrain:
    """The tensor ``2^exponent`` times a train. Immutable; arrays are shared, and never written to.

    Results are again scaled: trains as ScaledTrain, numbers as pairs (mantissa, exponent).

    Parameters
    ----------
    train : Train
    exponent : int
    is_left_orthogonal : bool
        Whether all cores but the last are known to be left-orthogonal.

    Examples
    --------
    >>> from ttexm import TTTensor
    >>> W = TTTensor.ones((2, 3)) * 2**2000
    >>> W.scaled_train.exponent, W.scaled_train.data
    (2002, array([1.  , 1.  , 0.25, 0.25, 0.25]))
    """

    train: Train
    exponent: int = 0
    is_left_orthogonal: bool = False

    def __reduce__(self):
        return ScaledTrain, (self.train, self.exponent, self.is_left_orthogonal)

    # -- what it is ----------------------------------------------------------------------------

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the d modes."""
        return tuple(self.train.sizes.tolist())

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The d + 1 ranks."""
        return tuple(self.train.ranks.tolist())

    @cached_property
    def size(self) -> int:
        """Number of entries of the tensor, exact."""
        return math.prod(self.shape)

    @property
    def data(self) -> np.ndarray:
        """The entries of all cores in one buffer, without the power of two."""
        return self.train.data

    @property
    def dtype(self) -> np.dtype:
        """float64 or float32."""
        return self.train.data.dtype

    @cached_property
    def plain(self) -> Train:
        """The tensor as a plain train: the power of two in the last core, else spread over all.

        If it does not fit even so, cores are inf or 0.
        """
        train = _absorb_power(self.train, self.exponent)
        return _spread_power(self.normalized) if train is None else train

    @cached_property
    def cores(self) -> tuple[np.ndarray, ...]:
        """The cores of `plain`, read-only, of shape (r0, n, r1)."""
        return read_only_cores(self.plain)

    def full(self) -> np.ndarray:
        """All entries, in O(size r)."""
        exponent, rows = self.normalized.exponent, np.ones((1, 1), self.dtype)
        for slots in to_slots(self.normalized.train):
            n, r0, r1 = slots.shape
            rows, power = scaled_product(rows, slots.transpose(1, 0, 2).reshape(r0, n * r1))
            rows, exponent = rows.reshape(-1, r1), exponent + power
        return ldexp(rows.reshape(self.shape), exponent)

    def check_finite(self, what: str) -> tuple[int, int]:
        """Raise for NaN and inf; return exponents of the largest and smallest non-zero entries."""
        high, low = host.extent(self.train.data)
        if high > largest_exponent(self.dtype):
            slots = to_slots(self.train)
            k = next(k for k, G in enumerate(slots) if not np.isfinite(G).all())
            raise ValueError(f"{what} needs finite cores, but cores[{k}] has NaN or inf.")
        return high, low

    # -- range ---------------------------------------------------------------------------------

    @cached_property
    def normalized(self) -> "ScaledTrain":
        """`normalize`, for the train's own precision."""
        return self.normalize()

    def normalize(self, dtype: np.dtype | None = None, is_uneven: bool = False) -> "ScaledTrain":
        """The tensor with cores of moderate size.

        Entries keep their bits unless they are less than about 2^-1000 (float32: 2^-120) of others
        that they are added to.

        Parameters
        ----------
        dtype : optional
            The precision whose range counts, by default the train's own.
        is_uneven : bool
            Whether blocks within cores are known to differ vastly in size.
        """
        high, low = host.extent(self.train.data)
        is_finite = high <= largest_exponent(self.dtype)
        wide = largest_exponent(dtype or self.dtype) * 3 // 4
        if is_finite and (is_uneven or high - low >= wide):
            return self.balance()
        train, power = host.normalize_cores(self.train)
        return ScaledTrain(train, self.exponent + power)

    def balance(self) -> "ScaledTrain":
        """The tensor with the largest entry in each row of each core near 1. O(d n r^2).

        For finite trains. It is needed if the columns of a core differ vastly in size, and the rows
        of the next one the other way round: entries that matter are then far below the largest of
        their core.
        """
        slots, column = [], np.zeros(1, np.int64)
        for G in reversed(to_slots(self.train)):
            mantissas, exponents = np.frexp(G)
            exponents = np.where(mantissas == 0, ZERO_EXPONENT, exponents + column)
            column = exponents.max(axis=(0, 2))
            # Rows of zeros, and columns that are only multiplied by such rows, may have any size.
            is_dead = column < ZERO_EXPONENT // 2
            slots.append(ldexp(mantissas, exponents - np.where(is_dead, 0, column)[:, None]))
            column[is_dead] = ZERO_EXPONENT
        power = 0 if is_dead[0] else int(column[0])
        return ScaledTrain(from_slots(slots[::-1]), self.exponent + power)

    def make_squarable(self) -> "ScaledTrain":
        """A normalized train itself, or its balanced form if squares of entries would underflow."""
        high, low = host.extent(self.train.data)
        limit = largest_exponent(self.dtype)
        return self if high - low < SQUARABLE * limit or high > limit else self.balance()

    def drop_negligible_columns(self) -> "ScaledTrain":
        """`make_squarable`, with columns set to zero whose squared norm would underflow.

        Householder reflections divide by the norms of columns. In a balanced train such a column is
        negligible, as the rows that it is multiplied by are near 1.
        """
        squarable = self.make_squarable()
        if squarable is self:
            return self
        least, slots = 2.0 ** (-SQUARABLE * largest_exponent(self.dtype)), []
        for G in to_slots(squarable.train):
            peaks = np.abs(G).max(axis=(0, 1))
            slots.append(np.where(peaks < least * peaks.max(), 0, G))
        return ScaledTrain(from_slots(slots), squarable.exponent)

    # -- algebra -------------------------------------------------------------------------------

    def plus(self, other: "ScaledTrain", sign: int) -> "ScaledTrain":
        """``W + sign Z``, of the sum of their ranks."""
        left, right = self.normalized, other.normalized
        if left.exponent == right.exponent:
            return ScaledTrain(host.add(left.train, 1, right.train, sign), left.exponent)
        first, second, exponent = _with_common_exponent(left, right)
        # Blocks that differ vastly in size may still have products of the same size.
        return ScaledTrain(host.add(first, 1, second, sign), exponent).normalize(is_uneven=True)

    def times(self, mantissa: float, exponent: int) -> "ScaledTrain":
        """The tensor times ``mantissa 2^exponent``, which goes into the last core if it fits."""
        data = self.train.data.copy()
        last, power = data[self.train.offsets[-2] :], 0
        # The factor itself must fit as well.
        is_factor = abs(exponent) < largest_exponent(data.dtype) - 2
        if is_factor and _fits(last, exponent - 1, exponent + 1):
            mantissa = math.ldexp(mantissa, exponent)
        else:
            last[:], power = extract_power(last)
            power += exponent
        last *= data.dtype.type(mantissa)
        return ScaledTrain(self.train._replace(data=data), self.exponent + power)

    def hadamard(self, other: "ScaledTrain") -> "ScaledTrain":
        """The entrywise product, of the product of their ranks."""
        left, right = self.normalized.make_squarable(), other.normalized.make_squarable()
        return ScaledTrain(host.hadamard(left.train, right.train), left.exponent + right.exponent)

    def astype(self, dtype: np.dtype) -> "ScaledTrain":
        """The tensor in another precision."""
        # float32 has the smaller range: first move powers of two to where they fit.
        moved = self.normalize(dtype) if dtype == np.float32 else self
        return ScaledTrain(
            moved.train._replace(data=moved.train.data.astype(dtype)), moved.exponent
        )

    def inner(self, other: "ScaledTrain") -> tuple[float, int]:
        """``<W, Z>``, in O(d n r^3)."""
        left, right = self.normalized, other.normalized
        mantissa, exponent = host.inner_product(left.train, right.train)
        return mantissa, exponent + left.exponent + right.exponent

    @cached_property
    def norm(self) -> tuple[float, int]:
        """``|W|``, in O(d n r^3)."""
        scaled = self.normalized.drop_negligible_columns()
        mantissa, power = host.norm(scaled.train)
        return mantissa, power + scaled.exponent

    def round(self, most: tuple[int, ...], eps: float) -> "ScaledTrain":
        """TT-SVD to ranks of at most `most`, within eps |W| where those allow it. O(d n r^3)."""
        scaled, last = self.normalized.drop_negligible_columns(), len(self.shape) - 1
        train, exponent = host.orthogonalize(host.reverse(scaled.train), last)
        train = host.reverse(train)
        first = train.data[: train.offsets[1]]
        first[:], power = normalize(first)
        tolerance = eps * flat_norm(first) / math.sqrt(max(1, last))
        train = host.truncate(train, np.array(most), tolerance)
        return ScaledTrain(train, scaled.exponent + exponent + power)

    def orthogonalize(self, center: int) -> "ScaledTrain":
        """Cores before the center left-orthogonal, those after it right-orthogonal. O(d n r^3).

        The power of two goes into the center if it fits there.
        """
        train, exponent = _orthogonalize(self.normalized, center)
        core = train.data[train.offsets[center] : train.offsets[center + 1]]
        if exponent != 0 and _fits(core, exponent, exponent):
            core[:] = ldexp(core, exponent)
            exponent = 0
        return ScaledTrain(train, exponent)

    # -- contraction ---------------------------------------------------------------------------

    @cached_property
    def contraction_plan(self) -> ContractionPlan:
        """What contraction with a batch needs, with the cores as they are."""
        train, exponent = self.normalized.train, self.normalized.exponent
        return ContractionPlan(train, exponent, np.zeros(len(train.sizes), np.bool_))

    def compile(self) -> ContractionPlan:
        """The same in the identity gauge, where the cores' condition allows it, in O(d n r^3)."""
        # The orthogonal gauge comes first: in it, runs of well-conditioned G_k[0] are longer.
        scaled = self.normalized.drop_negligible_columns()
        left, power = host.orthogonalize(scaled.train, len(self.shape) - 1)
        gauge = host.identity_gauge(left)
        return ContractionPlan(gauge.train, scaled.exponent + power, gauge.identity)

    # -- tangent space -------------------------------------------------------------------------

    def orthogonal_gauges(self, kernels: ModuleType = cpu) -> OrthogonalGauges:
        """Both orthogonal gauges, for ranks that the shape allows. O(d n r^3), computed once.

        Tangent vectors at a point must have the same gauges, so these are computed by the kernels
        of whoever asks first, and kept.
        """
        if not self._gauges:
            self._gauges.append(self._compute_gauges(kernels))
        return self._gauges[0]

    @cached_property
    def _gauges(self) -> list[OrthogonalGauges]:
        """The cache of `orthogonal_gauges`."""
        return []

    def _compute_gauges(self, kernels):
        high, low = self.check_finite("A tangent space")
        scaled = self
        # Sweeps take powers of two out of products of cores, but not out of the cores themselves.
        is_moderate = max(high, -low) < SQUARABLE / 2 * largest_exponent(self.dtype)
        if not (self.is_left_orthogonal or is_moderate):
            scaled = self.normalized.drop_negligible_columns()
        left, right, power = kernels.gauges(scaled.train, self.is_left_orthogonal)
        center = left.data[left.offsets[-2] :]
        mantissas, rest = normalize(center)
        if rest != 0:
            center[:] = mantissas
        return OrthogonalGauges(left, right, scaled.exponent + power + rest)


# -- powers of two in cores ----------------------------------------------------------------------


def _fits(values, least, most):
    """Whether the values times 2^least, .., 2^most are all normal numbers, or zero."""
    (high, low), info = host.extent(values), np.finfo(values.dtype)
    return info.minexp < low + least and high + most <= info.maxexp


def _absorb_power(train, exponent):
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
        return host.spread_power(train, exponent)
    return None


def _spread_power(scaled):
    """A plain train of a normalized one, each core with an equal share of the power of two.

    Entries that leave the range become inf or 0.
    """
    d, exponent = len(scaled.shape), scaled.exponent
    shares = [exponent * (k + 1) // d - exponent * k // d for k in range(d)]
    return from_slots([ldexp(G, e) for G, e in zip(to_slots(scaled.train), shares, strict=True)])


def _with_common_exponent(left, right):
    """Trains of two tensors for one exponent, and that exponent."""
    e, f = left.exponent, right.exponent
    absorbed = _absorb_power(left.train, e - f)
    if absorbed is not None:
        return absorbed, right.train, f
    absorbed = _absorb_power(right.train, f - e)
    if absorbed is not None:
        return left.train, absorbed, e
    # Neither fits: only their norms tell which one is larger, and whether the other matters.
    (left, e), (right, f) = _with_norm_in_exponent(left), _with_norm_in_exponent(right)
    exponent = max(e, f)
    if exponent == ZERO_EXPONENT:
        return left, right, 0
    for train, power in ((left, e - exponent), (right, f - exponent)):
        train.data[: train.offsets[1]] = ldexp(train.data[: train.offsets[1]], power)
    return left, right, exponent


def _with_norm_in_exponent(scaled):
    """A new, right-orthogonal train with a first core near 1, and the exponent of the tensor."""
    train, exponent = _orthogonalize(scaled.normalized, 0)
    first = train.data[: train.offsets[1]]
    first[:], power = extract_power(first)
    return train, (exponent + power if first.any() else ZERO_EXPONENT)


def _orthogonalize(scaled, center):
    """A new train of a normalized one, orthogonal around a center, and its exponent."""
    scaled = scaled.drop_negligible_columns()
    train, left = host.orthogonalize(scaled.train, center)
    train, right = host.orthogonalize(host.reverse(train), len(train.sizes) - 1 - center)
    return host.reverse(train), scaled.exponent + left + right
