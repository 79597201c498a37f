"""Numbers beyond the range of floats, as ``mantissa 2^exponent``.

The mantissa is a float or an array of floats, the exponent an integer or an array of integers.
Multiplying by a power of two is exact, so that moving it between the two changes no digit.
"""

import functools
import math
import numbers
from fractions import Fraction

import numpy as np

from ..checks import is_real
from ..kernels import host

ZERO_EXPONENT = -(2**40)  # stands for the exponent of zero, below that of all other numbers
# Every number has left the range at this exponent, and numpy's ldexp takes 32 bits only.
OUT_OF_RANGE = 5000
PIECE = 8192  # length up to which BLAS computes a dot product on one thread


@functools.cache
def largest_exponent(dtype: np.dtype) -> int:
    """The exponent above that of every finite number of a precision: 1024 for float64."""
    return int(np.finfo(dtype).maxexp)


# -- to and from plain numbers -------------------------------------------------------------------


def ldexp(mantissa: np.ndarray | float, exponent: np.ndarray | int) -> np.ndarray | float:
    """``mantissa 2^exponent`` as plain numbers.

    What does not fit becomes 0, or inf with numpy's own warning.
    """
    if isinstance(exponent, int):
        if exponent == 0:
            return mantissa
        return np.ldexp(mantissa, max(-OUT_OF_RANGE, min(OUT_OF_RANGE, exponent)))
    if not np.count_nonzero(exponent):  # five times faster than any() for one row
        return mantissa
    return np.ldexp(mantissa, np.clip(exponent, -OUT_OF_RANGE, OUT_OF_RANGE))


def frexp(number: numbers.Real) -> tuple[float, int]:
    """Mantissa, 1/2 <= |mantissa| < 1, and exponent of a real number of any type and size.

    The exponent of NaN, inf and 0 is 0.
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


def log_abs(mantissa: np.ndarray | float, exponent: np.ndarray | int) -> np.ndarray | float:
    """``log |mantissa 2^exponent|``, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(np.abs(mantissa, dtype=np.float64)) + exponent * math.log(2)


def as_scalar(x: object) -> numbers.Real | None:
    """A real number, or the one in an array without dimensions; None for all else."""
    if isinstance(x, np.ndarray) and x.ndim == 0 and not np.ma.is_masked(x):
        x = x[()]
    return x if is_real(x) else None


# -- arrays --------------------------------------------------------------------------------------


def extract_power(a: np.ndarray) -> tuple[np.ndarray, int]:
    """Divide by the power of two that brings the largest entry near 1; return its exponent too.

    Arrays with NaN or inf, and zeros, are left as they are.
    """
    peak = float(np.abs(a).max())
    if not 0 < peak < np.inf:
        return a, 0
    power = int(np.frexp(peak)[1])
    return np.ldexp(a, -power), power


def normalize(data: np.ndarray, dtype: np.dtype | None = None) -> tuple[np.ndarray, int]:
    """`extract_power`, only if squares of the entries might leave the range of a precision.

    That is the data's own precision by default.
    """
    exponent = host.extent(data)[0]
    if abs(exponent) < largest_exponent(dtype or data.dtype) // 4:
        return data, 0
    if exponent > largest_exponent(data.dtype):  # NaN or inf
        return data, 0
    return ldexp(data, -exponent), exponent


def is_moderate(data: np.ndarray) -> bool:
    """Whether the largest entry is finite, not zero, and its square is in range.

    False as well if all entries are from 1/2 to 1: `host.extent` is then that of zeros.
    """
    high, low = host.extent(data)
    return abs(high) < largest_exponent(data.dtype) // 4 and (high, low) != (0, 0)


def with_common_exponent(*parts: tuple[np.ndarray, int]) -> tuple[list[np.ndarray], int]:
    """Mantissas of several scaled arrays for one exponent, the largest of those not all zero."""
    most = max((exponent for data, exponent in parts if data.any()), default=0)
    return [ldexp(data, exponent - most) for data, exponent in parts], most


def scaled_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, int]:
    """``a @ b`` as mantissas and one exponent, for an `a` whose largest entry is near 1.

    A small b is scaled up first, or its products with small entries of `a` would underflow. A large
    one is not scaled down, or its own small entries would.
    """
    scaled, power = extract_power(b)
    if power > 0:
        scaled, power = b, 0
    product, rest = extract_power(a @ scaled)
    return product, power + rest


def flat_dot(a: np.ndarray, b: np.ndarray) -> float:
    """The dot product of flat arrays, with the same bits for any number of BLAS threads."""
    return float(sum(a[i : i + PIECE] @ b[i : i + PIECE] for i in range(0, len(a), PIECE)))


def flat_norm(a: np.ndarray) -> float:
    """The Euclidean norm of a flat array, computed as `flat_dot`."""
    return math.sqrt(flat_dot(a, a))
