"""Distinct rows: what a table comes down to, whatever its units, its order and its repetitions.

Everything random in a fit (folds, samples of many rows) is decided by hashes of the rows, so that
shuffling the rows changes nothing. The hashes are those of ranks within each column, not of values,
so that other units change nothing either. A column and its negative get the same ranks: each is
first oriented such that it is skewed to the right.
"""

from dataclasses import dataclass

import numpy as np

from .columns import NumberColumn
from .table import Table

SYMMETRIC = 1e-6  # a skewness or correlation up to which a column has no orientation
DIGITS = 2.0**40  # precision of shares and targets: what is beyond may be rounding errors


@dataclass(frozen=True, eq=False)
class RowKeys:
    """Hashes of rows, equal for equal rows, and the number of distinct values of each column."""

    keys: np.ndarray
    n_values: np.ndarray


def row_keys(table: Table, weights: np.ndarray, y: np.ndarray) -> RowKeys:
    """Return the hashes of the rows of a table.

    Parameters
    ----------
    table : Table
    weights : array (m,)
    y : array (m,) or (m, n_outputs)
        Encoded targets; they orient columns that are not skewed.
    """
    shares = weights / weights.sum()
    target = _direction(y, shares)
    keys, n_values = np.zeros(len(shares), np.uint64), []
    for column in table:
        ranks, n = _ranks(column, shares, target)
        keys = mixed(keys ^ ranks.astype(np.uint64))
        n_values.append(n)
    return RowKeys(keys, np.array(n_values))


def _ranks(column, shares, target):
    """Ranks of the values among the distinct ones, 0 for missing ones; and how many there are."""
    if not isinstance(column, NumberColumn):
        levels = column.levels()
        return column.slots({level: rank + 1 for rank, level in enumerate(levels)}), len(levels)
    values, inverse = np.unique(column.values, return_inverse=True)
    known = ~np.isnan(values)
    n = int(known.sum())
    if n < 2:
        return np.where(known, 1, 0)[inverse], n
    ranks = np.where(known, np.arange(1, len(values) + 1), 0)
    if _is_reversed(values, known, inverse, shares, target):
        ranks = np.where(known, n + 1 - ranks, 0)
    return ranks[inverse], n


def _is_reversed(values, known, inverse, shares, target):
    masses = np.bincount(inverse, shares, len(values))[known]
    masses = masses / masses.sum()
    with np.errstate(invalid="ignore"):  # infinite values are refused where columns are read
        z = values[known] / np.abs(values[known]).max()
        z = z - masses @ z
        z = z / np.abs(z).max()
        cubes = z * z * z  # z**3 takes many times as long
        skewness = (masses @ cubes) / (masses @ np.abs(cubes))
    if abs(skewness) <= SYMMETRIC:
        pull = np.bincount(inverse, shares * target, len(values))[known]
        skewness = (pull @ z) / max(np.abs(pull) @ np.abs(z), 1e-300)
    return skewness < -SYMMETRIC


def _direction(y, shares):
    """One centred number per row that says how targets differ; class names do not matter."""
    if y.ndim == 2:
        means = shares @ y
        y = y[:, np.argmax(means)]
        second = np.sort(means)[-2]
        return (y - means.max()) * (means.max() - second > SYMMETRIC)
    mean = shares @ y
    if not (np.abs(y) == 1).all():
        return y - mean
    return (y - mean) * (np.sign(mean) if abs(mean) > SYMMETRIC else 0)


def mixed(keys: np.ndarray) -> np.ndarray:
    """Return keys with their bits spread, by the finaliser of splitmix64."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def merge(keys: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one of each of the different rows, and what they count for.

    Returns
    -------
    rows : integer array
        Rows that differ in their key or target, sorted by key and target.
    counts : array
        Shares of the total weight, times the effective number of different rows, ``1 / sum of the
        squared shares``. That is their number if all have one weight. No scale of the weights, nor
        whether a row is repeated or has a larger weight, makes a difference.
    """
    columns = y[:, None] if y.ndim == 1 else y
    order = np.lexsort((*columns.T, keys))
    is_new = np.ones(len(order), bool)
    is_new[1:] = keys[order[1:]] != keys[order[:-1]]
    is_new[1:] |= (columns[order[1:]] != columns[order[:-1]]).any(axis=1)
    # Divided first: sums of weights of 1e300 are no floats.
    totals = np.add.reduceat(weights[order] / weights.max(), np.flatnonzero(is_new))
    mantissas, exponents = np.frexp(totals / totals.sum())
    shares = np.ldexp(np.round(mantissas * DIGITS) / DIGITS, exponents)
    return order[is_new], shares / np.sum(shares**2)
