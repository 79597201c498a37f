"""Checks of what users give: shapes, ranks, numbers and arrays.

Each returns the value in the form that the rest of the package works with, or raises an error that
names the culprit, what was wanted and what came.
"""

import math
import numbers
from collections.abc import Mapping, Sequence, Set

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as a tuple of Python integers, all at least 1."""
    if isinstance(shape, numbers.Integral):
        shape = (shape,)
    try:
        if isinstance(shape, (str, bytes, Set, Mapping)):
            raise TypeError
        shape = tuple(shape)
    except TypeError:
        raise TypeError(f"shape must be a sequence of integers, got {shape!r}.") from None
    if shape and all(type(n) is int and 0 < n < 2**63 for n in shape):
        return shape  # the usual case; the checks below take long for 100 000 modes
    if not shape:
        raise ValueError("shape must have at least one mode, got ().")
    for k, n in enumerate(shape):
        if not is_integer(n):
            raise TypeError(f"shape[{k}] must be an integer, got {n!r}.")
        if n < 1:
            raise ValueError(f"shape[{k}] must be at least 1, got {n}.")
        if n >= 2**63:
            raise ValueError(f"shape[{k}] must be less than 2^63, got {n}.")
    return tuple(int(n) for n in shape)


def check_ranks(
    shape: tuple[int, ...], rank: int | Sequence[int], name: str = "rank"
) -> tuple[int, ...]:
    """The d + 1 ranks that `rank` stands for, trimmed to what the shape allows.

    The rank of an unfolding is at most its number of rows, and of columns.
    """
    d = len(shape)
    if is_integer(rank):
        if rank < 1:
            raise ValueError(f"{name} must be at least 1, got {rank}.")
        ranks = [1] + [int(rank)] * (d - 1) + [1]
    else:
        try:
            ranks = list(rank)
        except TypeError:
            raise TypeError(
                f"{name} must be an integer or {d + 1} of them, got {rank!r}."
            ) from None
        if len(ranks) != d + 1:
            raise ValueError(
                f"{name} must be an integer or the d + 1 = {d + 1} ranks of {d} modes, "
                f"got {len(ranks)} of them."
            )
        for k, r in enumerate(ranks):
            if not is_integer(r):
                raise TypeError(f"{name}[{k}] must be an integer, got {r!r}.")
            if r < 1:
                raise ValueError(f"{name}[{k}] must be at least 1, got {r}.")
        for k in (0, d):
            if ranks[k] != 1:
                raise ValueError(f"{name}[{k}] must be 1, as nothing is beyond, got {ranks[k]}.")
    for k in range(1, d):
        ranks[k] = min(int(ranks[k]), ranks[k - 1] * shape[k - 1])
    for k in range(d - 1, 0, -1):
        ranks[k] = min(ranks[k], ranks[k + 1] * shape[k])
    return tuple(ranks)


def check_truncation(eps: float, dtype: np.dtype, d: int) -> float:
    """The relative error that TT-SVD of d modes may make: `eps`, or that of rounding if larger."""
    check_real("eps", eps)
    if not 0 <= eps < 1:
        raise ValueError(f"eps must be at least 0 and less than 1, got {eps!r}.")
    return max(float(eps), 32 * float(np.finfo(dtype).eps) * math.sqrt(max(1, d - 1)))


def check_dtype(dtype: DTypeLike) -> np.dtype:
    """float64 or float32, as a dtype."""
    try:
        dtype = np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(f"dtype must be float64 or float32, got {dtype!r}.") from None
    if dtype not in FLOATS:
        raise TypeError(f"dtype must be float64 or float32, got {dtype}.")
    return dtype


def check_seed(seed: int | np.random.Generator | None) -> np.random.Generator:
    """The generator itself, or a new one of the seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"seed must be None, an integer of at least 0 or a numpy.random.Generator, "
            f"got {seed!r}."
        ) from None


def check_real(name: str, value: object) -> None:
    """Raise unless the value is a real number. NaN and inf are, booleans are not."""
    if not is_real(value) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}.")


def check_at_least(name: str, value: object, least: float) -> None:
    """Raise unless the value is a finite real number of at least `least`."""
    check_real(name, value)
    if not least <= value <= np.finfo(np.float64).max:
        raise ValueError(f"{name} must be finite and at least {least}, got {value!r}.")


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise unless the value is an integer of at least `least`."""
    if not is_integer(value):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")


def check_optional_count(name: str, value: object, default: str) -> None:
    """Raise unless the value is an integer of at least 1, or None, which stands for `default`."""
    if value is not None and not (is_integer(value) and value >= 1):
        raise ValueError(f"{name} must be at least 1, or None for {default}, got {value!r}.")


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Raise unless the value is one of the known ones."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}.")


def plain_array(values: ArrayLike, what: str) -> np.ndarray:
    """The values as an array. Masks and sparse matrices are refused: numpy would misread them."""
    if sparse.issparse(values):
        raise TypeError(f"{what} must be dense, got a sparse matrix; use its toarray().")
    refuse_masked(values, what)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{what} must be an array of numbers: {error}") from None


def refuse_masked(values: object, what: str) -> None:
    """Raise if an array, or one in a list of arrays, has masked entries."""
    if isinstance(values, (list, tuple)):
        # A list of numbers may be long, and holds no arrays.
        if values and not isinstance(values[0], numbers.Number):
            for k, part in enumerate(values):
                refuse_masked(part, f"{what}[{k}]")
    elif isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        place = ", ".join(map(str, np.argwhere(np.ma.getmaskarray(values))[0]))
        raise ValueError(
            f"{what} must have no masked entries, got one at [{place}]; "
            f"put numbers in their place with filled()."
        )


def float_array(values: ArrayLike, what: str) -> np.ndarray:
    """The values as an array of float64 or float32; integers and booleans become float64."""
    array = plain_array(values, what)
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    if array.dtype not in FLOATS:
        raise TypeError(f"{what} must be of dtype float64 or float32, got {array.dtype}.")
    return array


def is_integer(n: object) -> bool:
    """Whether n is an integer of any type, but not a boolean."""
    return type(n) is int or (
        isinstance(n, numbers.Integral) and not isinstance(n, (bool, np.bool_, np.timedelta64))
    )


def is_real(x: object) -> bool:
    """Whether x is a real number of any type. numpy's timedelta64, an Integral, is not."""
    return isinstance(x, numbers.Real) and not isinstance(x, np.timedelta64)


def check_same_shape(given: tuple[int, ...], wanted: tuple[int, ...], what: str) -> None:
    """Raise an error that names the first mode in which two shapes differ, if they do."""
    if given == wanted:
        return
    if len(given) != len(wanted):
        raise ValueError(f"{what} must have {len(wanted)} modes, got {len(given)}.")
    k = next(k for k in range(len(given)) if given[k] != wanted[k])
    raise ValueError(f"{what} must have size {wanted[k]} in mode {k}, got {given[k]}.")


def shorten(values: tuple[int, ...]) -> str:
    """A long tuple in few characters: ``(2,) * 160``, or ``(1, 2, 4, 4, ..., 4, 4, 2, 1)``."""
    if len(values) <= 8:
        return str(values)
    if len(set(values)) == 1:
        return f"({values[0]},) * {len(values)}"
    head, tail = ", ".join(map(str, values[:4])), ", ".join(map(str, values[-4:]))
    return f"({head}, ..., {tail})"
