"""Codes for equal keys, by hashing: what pandas calls factorising."""

import numpy as np

from .compilation import kernel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads neighbouring keys


@kernel
def factorize(keys, shift, places, codes, firsts):
    """Number the distinct keys in the order of their first appearance; return how many there are.

    codes[s] is the number of keys[s], and firsts[j] the position of the first key of number j. The
    hash table `places`, of 2^(64 - shift) entries, must be more than there are keys, and filled
    with -1. O(m) on average.
    """
    n_distinct, mask = 0, len(places) - 1
    for s in range(len(keys)):
        at = np.int64((keys[s] * _MULTIPLIER) >> shift)
        while places[at] >= 0 and keys[firsts[places[at]]] != keys[s]:
            at = (at + 1) & mask  # linear probing
        if places[at] < 0:
            places[at] = n_distinct
            firsts[n_distinct] = s
            n_distinct += 1
        codes[s] = places[at]
    return n_distinct


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number equal keys alike: (codes, firsts), see `factorize`.

    Parameters
    ----------
    keys : array (m,) of integers of up to 64 bits
    """
    keys = np.ascontiguousarray(keys.astype(np.uint64, copy=False))
    bits = max(1, (2 * len(keys)).bit_length())
    places = np.full(1 << bits, -1, np.int32)
    codes, firsts = np.empty(len(keys), np.int32), np.empty(len(keys), np.int64)
    n_distinct = factorize(keys, np.uint64(64 - bits), places, codes, firsts)
    return codes, firsts[:n_distinct].copy()


def addresses(values: np.ndarray) -> np.ndarray:
    """Return the addresses of the objects in an array of them, as ``map(id, values)`` would.

    Objects of one address are one object. Cells of a table that hold the same string mostly do hold
    the same object; this is ten times faster than hashing the strings.
    """
    return np.array(_Addresses(values))


class _Addresses:
    """The memory of an array of objects, read as integers (the array stays alive meanwhile)."""

    def __init__(self, values):
        self.values = values
        kind = np.dtype(np.uintp).str
        described = {"typestr": kind, "descr": [("", kind)]}
        self.__array_interface__ = values.__array_interface__ | described
