"""Distinct values of a column, their shares, and the range between two quantiles."""

import numpy as np


def distinct_values(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values, in order, and the share of the weights that each has."""
    values, inverse = np.unique(x, return_inverse=True)
    masses = np.bincount(inverse, weights)
    return values, masses / masses.sum()


def clipped_range(values: np.ndarray, masses: np.ndarray, clip: float) -> tuple[float, float]:
    """Return the quantiles `clip` and ``1 - clip`` of distinct values with their shares.

    The whole range, if these are one and the same value.
    """
    below = np.cumsum(masses)
    low = values[np.searchsorted(below, clip)]
    high = values[min(len(values) - 1, np.searchsorted(below, 1 - clip))]
    return (float(low), float(high)) if low < high else (float(values[0]), float(values[-1]))
