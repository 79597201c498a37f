"""Partial dependence: mean predictions of rows with the values of some columns replaced."""

from collections.abc import Sequence

import numpy as np

from ..data.batch import RankOneBatch
from ..data.table import Table
from ..model import Model
from ..tt.core_arrays import to_slots
from ..tt.scaled_numbers import ldexp
from .effects import Effect, grid_of, vectors_at

ROWS_AT_ONCE = 4096


def partial_dependence(
    model: Model,
    columns: Sequence[int],
    table: Table,
    grid: Sequence[list] | None = None,
) -> Effect:
    """Return the mean raw prediction of rows at each point on a grid of one column or two.

    Parameters
    ----------
    model : Model
    columns : sequence of int
        One or two.
    table : Table
        The rows, with all columns.
    grid : sequence of lists, optional
        Values of each column; by default as for effects.

    Notes
    -----
    The sum over the rows is done once, not at each point: O(d n r^2) per row for one column, and
    as much at each point of the first for two.
    """
    points = {k: grid_of(model, k) for k in columns}
    if grid is not None:
        points = dict(zip(columns, map(list, grid), strict=True))
    scaled = model.raw_weights.scaled_train.normalized
    cores = [np.asarray(core, np.float64) for core in to_slots(scaled.train)]
    tail = cores[-1][:, :, 0].T if model.has_outputs else np.ones((1, 1))
    matrices = [
        np.tensordot(vectors_at(model.columns[k], points[k]), cores[k], 1) for k in sorted(columns)
    ]
    total = 0.0
    for start in range(0, len(table), ROWS_AT_ONCE):
        batch = model.columns.encode(table[start : start + ROWS_AT_ONCE], "cpu")
        total = total + _sum_over_rows(batch, cores, tail, sorted(columns), matrices)
    values = ldexp(total / len(table), scaled.exponent) + model.center
    values = values if model.has_outputs else values[..., 0]
    if list(columns) != sorted(columns):
        values = values.swapaxes(0, 1)
    return Effect(
        tuple(model.columns[k].name for k in columns), tuple(points[k] for k in columns), values
    )


def _sum_over_rows(batch, cores, tail, columns, matrices):
    """The sum of predictions at each point, (P, outputs) or (P, Q, outputs)."""
    first, last = columns[0], columns[-1]
    left = np.ones((len(batch), 1))
    for k in range(first):
        left = _absorb(left, batch, k, cores[k])
    right = np.broadcast_to(tail, (len(batch), *tail.shape))
    for k in range(batch.ndim - 1, last, -1):
        right = _matrices(batch, k, cores[k]) @ right
    if first == last:
        return np.tensordot(matrices[0], np.tensordot(left, right, (0, 0)), 2)
    found = []
    for at_point in matrices[0]:
        v = left @ at_point
        for k in range(first + 1, last):
            v = _absorb(v, batch, k, cores[k])
        found.append(np.tensordot(matrices[1], np.tensordot(v, right, (0, 0)), 2))
    return np.stack(found)


def _matrices(batch: RankOneBatch, k: int, core: np.ndarray) -> np.ndarray:
    """``phi . G`` of each sample, (m, r0, r1)."""
    return np.tensordot(batch.vectors(k), core, 1)


def _absorb(left, batch, k, core):
    return np.einsum("sa,sab->sb", left, _matrices(batch, k, core))
