"""Scratch memory that is used again: a fresh array of megabytes costs more than a pass over it."""

import threading

import numpy as np

LARGEST_KEPT = 128 * 1024 * 1024  # bytes of one array, a thread and role


class _Kept(threading.local):
    def __init__(self):
        self.arrays = {}


_kept = _Kept()


def aligned(n: int, dtype) -> np.ndarray:
    """Uninitialised array that starts at a cache line: unaligned rows of samples cost a third."""
    dtype = np.dtype(dtype)
    raw = np.empty(n * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + n * dtype.itemsize].view(dtype)


def take(role: str, n: int, dtype) -> np.ndarray:
    """An aligned array of at least n elements, uninitialised: this thread's kept one if possible.

    Whoever takes it has it alone, until `give`: a computation within another gets a second one.
    """
    array = _kept.arrays.pop((role, dtype), None)
    return array if array is not None and len(array) >= n else aligned(n, dtype)


def give(role: str, array: np.ndarray) -> None:
    """Keep an array for the next `take` of its role."""
    if array.nbytes <= LARGEST_KEPT:
        _kept.arrays[role, array.dtype] = array


class lend:  # noqa: N801, used like a function
    """``with lend(role, n, dtype) as array``: `take`, then `give`."""

    __slots__ = ("array", "role")

    def __init__(self, role: str, n: int, dtype):
        self.role, self.array = role, take(role, n, dtype)

    def __enter__(self) -> np.ndarray:
        return self.array

    def __exit__(self, *_) -> None:
        give(self.role, self.array)
