"""Shapes and ranks: what users may give, and what a tensor of that shape allows."""

import numbers
from collections.abc import Sequence

import numpy as np

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as a tuple of Python integers, all at least 1."""
    if isinstance(shape, numbers.Integral):
        shape = (shape,)
    shape = tuple(shape)
    if shape and all(type(n) is int and n > 0 for n in shape):
        return shape  # the usual case; the checks below take long for 100 000 modes
    if not shape:
        raise ValueError("shape must have at least one mode, got ().")
    for k, n in enumerate(shape):
        if not is_integer(n):
            raise TypeError(f"shape[{k}] must be an integer, got {n!r}.")
        if n < 1:
            raise ValueError(f"shape[{k}] must be at least 1, got {n}.")
    return tuple(int(n) for n in shape)


def check_ranks(shape: tuple[int, ...], rank: int | Sequence[int], name="rank") -> tuple[int, ...]:
    """The d + 1 ranks that `rank` asks for, trimmed to what the shape allows.

    A rank can be neither more than the number of entries to its left nor to its right.
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


def check_dtype(dtype) -> np.dtype:
    """float64 or float32, as a dtype."""
    dtype = np.dtype(dtype)
    if dtype not in FLOATS:
        raise TypeError(f"dtype must be float64 or float32, got {dtype}.")
    return dtype


def float_array(values, what: str) -> np.ndarray:
    """The values as an array of float64 or float32; integers and booleans become float64."""
    array = np.asarray(values)
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    if array.dtype not in FLOATS:
        raise TypeError(f"{what} must be of dtype float64 or float32, got {array.dtype}.")
    return array


def is_integer(n) -> bool:
    """Whether it is an integer of any type, and no boolean."""
    return type(n) is int or (
        isinstance(n, numbers.Integral) and not isinstance(n, (bool, np.bool_))
    )


def check_same_shape(given: tuple[int, ...], wanted: tuple[int, ...], what: str) -> None:
    if given == wanted:
        return
    if len(given) != len(wanted):
        raise ValueError(f"{what} must have {len(wanted)} modes, got {len(given)}.")
    k = next(k for k in range(len(given)) if given[k] != wanted[k])
    raise ValueError(f"{what} must have size {wanted[k]} in mode {k}, got {given[k]}.")


def shorten(values: tuple[int, ...]) -> str:
    """A tuple for people: (2,) * 160, or (1, 2, 4, ..., 4, 2, 1)."""
    if len(values) <= 8:
        return str(values)
    if len(set(values)) == 1:
        return f"({values[0]},) * {len(values)}"
    head, tail = ", ".join(map(str, values[:4])), ", ".join(map(str, values[-4:]))
    return f"({head}, ..., {tail})"
