"""Terms of single sets of columns: on a grid of the columns' values, and on rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.batch import RankOneBatch
from ..data.columns import object_column
from ..data.moments import CodeMoments
from ..data.table import Table
from ..features.columns import FittedColumn, FittedColumns
from ..model import Model
from ..tt.core_arrays import from_slots, to_slots
from ..tt.scaled_numbers import ldexp, scaled_product
from ..tt.scaled_train import ScaledTrain
from ..tt.tensor import TTTensor


class Term:
    """The term f_S of some columns S, as a train over these columns alone.

    Its cores are those of the model for the columns in S, shifted so that they have mean 0, with
    the averages of the columns between them multiplied in. O(d n r^2) once.

    Parameters
    ----------
    model : Model
    columns : sequence of int
        In increasing order; at least one.
    """

    def __init__(self, model: Model, columns: Sequence[int]):
        self.columns = tuple(columns)
        self._fitted = [model.columns[k] for k in columns]
        scaled = model.raw_weights.scaled_train.normalized
        slots, moments = to_slots(scaled.train), model.training.moments
        kept, exponent, carried = [], scaled.exponent, np.ones((1, 1))
        for k in range(len(model.columns)):
            core = np.asarray(slots[k], np.float64)
            average = moments[k].average(core)
            if k in self.columns:
                core = _shifted(core, average, model.columns[k].has_constant)
                kept.append(carried @ core)
                carried = np.eye(core.shape[2])
            else:
                carried, power = scaled_product(carried, average)
                exponent += power
        if model.has_outputs:
            kept.append(carried @ slots[-1])
        else:
            kept[-1] = kept[-1] @ carried
        self.weights = TTTensor.from_train(ScaledTrain(from_slots(kept), exponent))

    def on_rows(self, table: Table) -> np.ndarray:
        """Return the term on the rows of a table with all columns of the model."""
        parts = [
            self._encode(fitted, table, k)
            for k, fitted in zip(self.columns, self._fitted, strict=True)
        ]
        return self.weights.contract(RankOneBatch.join(parts))

    def _encode(self, fitted, table, k):
        batch = FittedColumns([fitted]).encode(table.with_columns([k]), "cpu")
        return batch if fitted.has_constant else RankOneBatch.from_columns([batch.vectors(0)])

    def on_grid(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """Return the term on a grid, given the feature vectors of each column's points (P, n)."""
        slots = to_slots(self.weights.scaled_train.train)
        values = np.ones((1, 1))
        for fitted, core, points in zip(self._fitted, slots, vectors, strict=False):
            if not fitted.has_constant:
                points = np.hstack([np.ones((len(points), 1)), points])
            matrices = np.tensordot(points, core, 1)  # (P, r0, r1)
            values = np.einsum("sa,pab->spb", values, matrices).reshape(-1, matrices.shape[2])
        if len(slots) > len(self._fitted):
            values = values @ slots[-1][:, :, 0].T
        shape = [len(points) for points in vectors]
        shape += [values.shape[1]] if len(slots) > len(self._fitted) else []
        return ldexp(values.reshape(shape), self.weights.scaled_train.exponent)


def _shifted(core, average, has_constant):
    """The core of ``phi . core - average``: for phi, or for (1, phi) without a constant."""
    if not has_constant:
        return np.concatenate([-average[None], core])
    core = core.copy()
    core[0] -= average
    return core


@dataclass(frozen=True, eq=False)
class Effect:
    """A function of one column or several, on a grid of their values.

    Attributes
    ----------
    columns : tuple of str
    points : tuple of lists
        For each column the values of the grid: levels, with None for missing ones if there were any
        in training; knots of curves; or equally spaced numbers over the training range.
    values : array
        One axis per column, and a last one for the outputs if there are several.
    """

    columns: tuple[str, ...]
    points: tuple[list, ...]
    values: np.ndarray

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per point of the grid."""
        import pandas as pd

        index = pd.MultiIndex.from_product(self.points, names=self.columns)
        values = self.values.reshape(len(index), -1)
        n = values.shape[1]
        names = ["effect"] if n == 1 else [f"effect{j}" for j in range(n)]
        return pd.DataFrame(values, index, names).reset_index()


def effect_on_grid(model: Model, columns: Sequence[int]) -> Effect:
    """Return the term of some columns on a grid of all combinations of their values."""
    order = sorted(columns)
    points = {k: grid_of(model, k) for k in columns}
    values = Term(model, order).on_grid([vectors_at(model.columns[k], points[k]) for k in order])
    axes = [order.index(k) for k in columns]
    return Effect(
        tuple(model.columns[k].name for k in columns),
        tuple(points[k] for k in columns),
        values.transpose([*axes, *range(len(axes), values.ndim)]),
    )


def grid_of(model: Model, k: int) -> list:
    """Return the values of column k on which effects are shown."""
    moments = model.training.moments[k]
    has_missing = isinstance(moments, CodeMoments) and moments.shares[0] > 0
    return [*model.columns[k].points(), *([None] if has_missing else [])]


def vectors_at(fitted: FittedColumn, values: Sequence) -> np.ndarray:
    """Return the feature vectors (P, n) of values of a column."""
    objects = np.empty(len(values), object)
    objects[:] = values
    column = object_column(fitted.name, objects, False)
    fitted.check(column)
    return FittedColumns([fitted]).encode(Table(len(values), [column]), "cpu").vectors(0)
