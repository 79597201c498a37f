"""Places of numbers on the knots of a column: c + t for a number between knots c and c + 1."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from . import schedule
from .compilation import inner, kernel

FEW = 16  # knots that are counted faster than searched
FLOPS = 50  # of a search, about, in the units of `schedule.run`


@inner
def place_on_knots(x, knots, first, n):
    """The place of x on the n knots from `first` on, which increase; n for NaN.

    Numbers beyond the knots have the place of the nearest one. Binary search down to a few knots,
    of which vector instructions count those up to x.
    """
    if x != x:
        return float(n)
    low, size = first, n
    while size > FEW:
        half = size // 2
        low = low + half if knots[low + half] <= x else low
        size -= half
    n_below = 0
    for i in range(low + 1, low + size):
        n_below += knots[i] <= x
    low += n_below
    if low == first + n - 1:
        return n - 1.0
    t = (x - knots[low]) / (knots[low + 1] - knots[low])
    return low - first + min(max(t, 0.0), 1.0)


class Knots(NamedTuple):
    """The knots of some columns, as flat arrays."""

    values: np.ndarray
    firsts: np.ndarray
    counts: np.ndarray


def join_knots(columns: Sequence[np.ndarray]) -> Knots:
    """Return the knots of some columns, each with an array of its own, as flat arrays."""
    counts = np.array([len(column) for column in columns])
    return Knots(np.concatenate(columns).astype(np.float64), np.cumsum(counts) - counts, counts)


@kernel
def place_columns(X, knots, firsts, counts, out, first, last):
    """out[s, k] = the place of X[s, k] on the knots of column k, for rows first .. last - 1.

    O(log knots) per number.
    """
    for s in range(first, last):
        for k in range(X.shape[1]):
            out[s, k] = place_on_knots(X[s, k], knots, firsts[k], counts[k])


def places(X: np.ndarray, knots: Knots | Sequence[np.ndarray]) -> np.ndarray:
    """Return the places (m, d) of a table of numbers on the knots of its columns, on threads."""
    X = np.ascontiguousarray(X, np.float64)
    knots = knots if isinstance(knots, Knots) else join_knots(knots)
    out = np.empty(X.shape)

    def place_rows(first, last):
        place_columns(X, *knots, out, first, last)

    schedule.run(place_rows, len(X), FLOPS * X.size)
    return out
