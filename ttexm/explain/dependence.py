"""Partial dependence: mean predictions of rows with the values of some columns replaced."""

from collections.abc import Sequence

import numpy as np

from ..data.table import Table
from ..model import Model
from ..tt.core_arrays import to_slots
from ..tt.scaled_numbers import ldexp
from .effects import Effect, grid_of, vectors_at

ROWS_AT_ONCE = 4096


def partial_dependence(
    model: Model,
    columns: Sequence[int],
    table: Table | None = None,
    grid: Sequence[list] | None = None,
) -> Effect:
    """Return the mean raw prediction of rows at each point on a grid of one column or two.

    Parameters
    ----------
    model : Model
    columns : sequence of int
        One or two.
    table : Table, optional
        The rows, with all columns; by default their columns are independent, and distributed as in
        training.
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
    total, n_rows = 0.0, 0
    for vectors in _parts(model, table):
        total = total + _sum_over_rows(vectors, cores, tail, sorted(columns), matrices)
        n_rows += len(vectors[0])
    values = ldexp(total / n_rows, scaled.exponent) + model.center
    values = values if model.has_outputs else values[..., 0]
    if list(columns) != sorted(columns):
        values = values.swapaxes(0, 1)
    return Effect(
        tuple(model.columns[k].name for k in columns), tuple(points[k] for k in columns), values
    )


def _parts(model, table):
    """Yield the feature vectors (m, n) of all columns, for some rows after the others."""
    if table is None:
        yield [column.mean[None] for column in model.training.moments.columns]
        return
    for start in range(0, len(table), ROWS_AT_ONCE):
        batch = model.columns.encode(table[start : start + ROWS_AT_ONCE], "cpu")
        yield [batch.vectors(k) for k in range(batch.ndim)]


def _sum_over_rows(vectors, cores, tail, columns, matrices):
    """The sum of predictions at each point, (P, outputs) or (P, Q, outputs)."""
    first, last = columns[0], columns[-1]
    m = len(vectors[0])
    left = np.ones((m, 1))
    for k in range(first):
        left = _absorb(left, vectors[k], cores[k])
    right = np.broadcast_to(tail, (m, *tail.shape))
    for k in range(len(vectors) - 1, last, -1):
        right = np.tensordot(vectors[k], cores[k], 1) @ right
    if first == last:
        return np.tensordot(matrices[0], np.tensordot(left, right, (0, 0)), 2)
    found = []
    for at_point in matrices[0]:
        v = left @ at_point
        for k in range(first + 1, last):
            v = _absorb(v, vectors[k], cores[k])
        found.append(np.tensordot(matrices[1], np.tensordot(v, right, (0, 0)), 2))
    return np.stack(found)


def _absorb(left, vectors, core):
    return np.einsum("sa,sab->sb", left, np.tensordot(vectors, core, 1))
