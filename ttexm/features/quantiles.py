"""Distinct values of a column, their shares, and the range between two quantiles."""

import numpy as np

CLOSE = 1e-9  # shares that differ by less are equal


def distinct_values(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values, in order, and the share of the weights that each has."""
    values, inverse = np.unique(x, return_inverse=True)
    masses = np.bincount(inverse, weights)
    return values, masses / masses.sum()


def clipped_range(values: np.ndarray, masses: np.ndarray, clip: float) -> tuple[float, float]:
    """Return the quantiles `clip` and ``1 - clip`` of distinct values with their shares.

    They are the first and the last value such that it and all beyond it have more than the share
    `clip`. The whole range, if these are one and the same value.
    """
    # A share that equals the limit is cut off at either end, whatever its rounding.
    limit = clip * (1 + CLOSE)
    low = values[np.argmax(np.cumsum(masses) > limit)]
    high = values[::-1][np.argmax(np.cumsum(masses[::-1]) > limit)]
    return (float(low), float(high)) if low < high else (float(values[0]), float(values[-1]))


def nearest_places(positions: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the place of the position that is nearest to each target, in order.

    Of two that are equally near, the inner one, and both for a target in the middle: the mirrored
    positions have the mirrored places.

    Parameters
    ----------
    positions, targets : arrays
        In ascending order, from 0 to 1.
    """
    right = np.clip(np.searchsorted(positions, targets), 1, len(positions) - 1)
    left = right - 1
    # How much nearer the right one is; equally near ones differ by rounding.
    nearer = (targets - positions[left]) - (positions[right] - targets)
    lean = np.where(np.abs(nearer) > CLOSE, nearer, np.round(0.5 - targets, 9))
    return np.unique(np.concatenate([left[lean <= 0], right[lean >= 0]]))
