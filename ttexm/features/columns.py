"""Fitted columns: what a feature map has learned of each column of a table.

A fitted column turns the values of its column into feature vectors, says its state in plain numbers
and strings, so that it can be stored, and translates weights into the units of the user.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..data.batch import RankOneBatch
from ..data.columns import Column
from ..data.modes import ModeKind, Modes
from ..data.table import Table
from ..kernels.knots import join_knots, places


class FittedColumn(ABC):
    """What was learned of one column.

    Parameters
    ----------
    name : str
        Of the column.
    slot_names : list of str
        ``"1"`` for the constant, if there is one, and the functions of the column.
    scale : float
        Multiplies every function but the constant.
    """

    kind: ModeKind
    table: np.ndarray | None = None  # of a curve, see `data.modes.Curve`
    # Of a curve whose knots are in the units of the table.
    plain_knots: np.ndarray | None = None

    def __init__(self, name: str, slot_names: list[str], scale: float):
        self.name, self.slot_names, self.scale = name, slot_names, scale

    @property
    def has_constant(self) -> bool:
        """Whether slot 0 is the constant 1."""
        return self.kind.has_constant

    def check(self, column: Column) -> None:  # noqa: B027, most columns have nothing to check
        """Raise, or warn, if the values of a column are not of the kind that was learned."""

    @abstractmethod
    def stored(self, column: Column) -> np.ndarray:
        """Return what a batch stores of the column: numbers (m, n - 1 or n), or codes (m, 1)."""

    def affine(self) -> tuple[float, float] | None:
        """Return (a, b) if the only function is ``(x - a) / b``, else None."""
        return None

    @abstractmethod
    def to_user_units(self, core: np.ndarray) -> np.ndarray:
        """Translate a core of weights.

        Parameters
        ----------
        core : array (r0, n, r1)
            Weights of the slots, as the model has them.

        Returns
        -------
        array (r0, n, r1)
            Weights of the functions that the slots are named after, in the units of the user. With
            phi = A psi, phi the slots and psi these functions, it is ``sum_i A[i, j] core[:, i]``.
        """

    @abstractmethod
    def points(self) -> list:
        """Return values of the column, in order, that show what its functions look like."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return all that was learned, in plain numbers, strings, lists and dictionaries."""


class FittedColumns:
    """The fitted columns of a table, in order: from its rows to a batch of rank-1 tensors.

    Parameters
    ----------
    columns : sequence of FittedColumn

    Attributes
    ----------
    modes : Modes
        Of the batches.
    """

    def __init__(self, columns: Sequence[FittedColumn]):
        self.columns = tuple(columns)
        self.modes = Modes(
            tuple(len(column.slot_names) for column in columns),
            np.array([column.kind.number for column in columns], np.int64),
            np.array([column.scale if column.kind.is_coded else 1.0 for column in columns]),
            tuple(column.table for column in columns),
        )
        # If each column is one affine function, or each a curve, the rows are read as one matrix.
        affine = [column.affine() for column in columns]
        self._affine = None if None in affine else np.array(affine).T
        knots = [column.plain_knots for column in columns]
        self._knots = join_knots(knots) if all(own is not None for own in knots) else None

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[FittedColumn]:
        return iter(self.columns)

    def __getitem__(self, k: int) -> FittedColumn:
        return self.columns[k]

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of slots: the shape of the weight tensor, outputs left out."""
        return self.modes.shape

    @property
    def slot_names(self) -> list[list[str]]:
        return [column.slot_names for column in self.columns]

    def check(self, table: Table) -> None:
        """Raise, or warn, if the columns of a table are not of the kinds that were learned."""
        if table.matrix is None or self.modes.is_coded.any():
            for fitted, column in zip(self.columns, table, strict=True):
                fitted.check(column)

    def encode(self, table: Table, device: str | None = None) -> RankOneBatch:
        """Return the rank-1 tensors of the rows of a table, in O(number of slots) per row.

        A level that was not seen in training counts as missing. Missing values are the constant
        alone.
        """
        m, values, codes = len(table), None, []
        if table.matrix is not None:
            values = self._encode_matrix(table.matrix)
        if values is None:
            values, codes = self._stored(table, False), self._stored(table, True)
        with np.errstate(all="ignore"):  # what is not finite is refused, by name
            arrays = self.modes.pack(values, codes, m, np.float64)
        return RankOneBatch.from_arrays(self.modes, arrays, m, device)

    def _stored(self, table, is_coded):
        """Yield what a batch stores of the columns that are kept as codes, or of the others."""
        for fitted, column in zip(self.columns, table, strict=True):
            if fitted.kind.is_coded == is_coded:
                yield fitted.stored(column)

    def _encode_matrix(self, matrix):
        """All columns at once; None if one by one is needed, which also names what is wrong."""
        if self._knots is not None:
            return None if np.isinf(matrix).any() else [places(matrix, self._knots)]
        if self._affine is None:
            return None
        center, spread = self._affine
        with np.errstate(all="ignore"):
            values = matrix - center
            values /= spread
            if not np.isfinite(values.sum()):
                values[np.isnan(matrix)] = 0
                if not np.isfinite(values).all():
                    return None
        return [values]

    def find(self, name: str) -> list[tuple[int, int]]:
        """Return the (column, slot) pairs that have a name; there is more than one if it is taken
        twice, and none if it is unknown."""
        return [
            (k, i)
            for k, column in enumerate(self.columns)
            for i, slot_name in enumerate(column.slot_names)
            if slot_name == name and (i > 0 or not column.has_constant)
        ]

    def all_names(self) -> list[str]:
        """Return the names of all slots but the constants."""
        return list(
            itertools.chain.from_iterable(
                column.slot_names[column.has_constant :] for column in self.columns
            )
        )
