"""Places of numbers on the knots of a column: c + t for a number between knots c and c + 1."""

import numpy as np

from .compilation import inner, kernel


@inner
def place_on_knots(x, knots, first, n):
    """The place of x on the n knots from `first` on, which increase; n for NaN.

    Numbers beyond the knots have the place of the nearest one. Binary search without branches.
    """
    if x != x:
        return float(n)
    low, size = first, n
    while size > 1:
        half = size // 2
        low = low + half if knots[low + half] <= x else low
        size -= half
    if low == first + n - 1:
        return n - 1.0
    t = (x - knots[low]) / (knots[low + 1] - knots[low])
    return low - first + min(max(t, 0.0), 1.0)


@kernel
def place_columns(X, knots, firsts, counts, out):
    """out[s, k] = the place of X[s, k] on the knots of column k. O(log knots) per number."""
    for s in range(X.shape[0]):
        for k in range(X.shape[1]):
            out[s, k] = place_on_knots(X[s, k], knots, firsts[k], counts[k])


def places(X: np.ndarray, knots: list[np.ndarray]) -> np.ndarray:
    """Return the places (m, d) of a table of numbers on the knots of its columns."""
    counts = np.array([len(column) for column in knots])
    out = np.empty(X.shape)
    place_columns(X, np.concatenate(knots), np.cumsum(counts) - counts, counts, out)
    return out
