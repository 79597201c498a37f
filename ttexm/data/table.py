"""Tables as users have them: arrays, and data frames of pandas, polars and Arrow; each read once.

Narwhals, on which scikit-learn 1.9 depends, reads all of these data frames, but it has no access to
the codes of a category, without which each cell has to be looked at: `frames` reads them by
branches of our own.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property

import numpy as np
from scipy import sparse

from . import frames
from .columns import Column, NumberColumn, may_round, object_column, refuse_dates
from .frames import TableLike

WANTED = "X must be an array of two dimensions, or a pandas, polars or Arrow table"


class Table:
    """The columns of a table.

    Parameters
    ----------
    n_rows : int
    columns : list of Column, optional
    matrix : array (m, d) of float64, optional
        All columns as one array, if all are numbers; NaN where a value is missing. Given in the
        place of columns.
    labels : sequence, optional
        Names of the columns of a matrix; by default "x0", "x1", ..
    """

    def __init__(
        self,
        n_rows: int,
        columns: list[Column] | None = None,
        matrix: np.ndarray | None = None,
        labels: Sequence[Hashable] | None = None,
    ):
        self.n_rows, self.matrix = n_rows, matrix
        self._labels = labels
        if columns is not None:
            self.columns = columns

    @cached_property
    def columns(self) -> list[Column]:
        d = self.matrix.shape[1]
        labels = [f"x{k}" for k in range(d)] if self._labels is None else self._labels
        return [number_column(label, self.matrix[:, k]) for k, label in enumerate(labels)]

    @property
    def n_columns(self) -> int:
        return len(self.columns) if self.matrix is None else self.matrix.shape[1]

    def __len__(self) -> int:
        return self.n_rows

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, rows) -> "Table":
        """Return some rows, given by a slice or an array of positions."""
        if self.matrix is not None:
            matrix = self.matrix[rows]
            return Table(len(matrix), matrix=matrix, labels=self._labels)
        columns = [column[rows] for column in self.columns]
        return Table(len(columns[0]), columns)

    def with_columns(self, places: Sequence[int]) -> "Table":
        """Return some of the columns."""
        return Table(self.n_rows, [self.columns[k] for k in places])


def number_column(label: Hashable, values: np.ndarray) -> NumberColumn:
    """Return a column of floats under the name that its table has for it."""
    return NumberColumn(str(label), False, None if isinstance(label, str) else label, values)


def read_table(X: TableLike) -> Table:
    """Return the columns of an array of two dimensions or of a data frame.

    Missing values are NaN, None, what pandas, polars and Arrow have for them, and masked entries of
    a masked array. Strings are never read as numbers.

    Parameters
    ----------
    X : array, list of rows, data frame of pandas or polars, table of pyarrow, or Table
    """
    if isinstance(X, Table):
        return X
    found = _read_array(X) if isinstance(X, np.ndarray) else _read_other(X)
    if found.n_columns == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape=({len(found)}, 0)) while a minimum of 1 is "
            "required."
        )
    return found


def _read_other(X):
    library = frames.library_of(X)
    if library is not None:
        return _from_parts(*frames.read(X, library))
    refuse_others(X)
    return _read_array(_read_rows(X) if isinstance(X, (list, tuple)) else X)


def _from_parts(n_rows, labels, content):
    """A table of what `frames` has read: a matrix of numbers, or columns."""
    if isinstance(content, np.ndarray):
        return Table(n_rows, matrix=content, labels=labels)
    return Table(n_rows, content)


def refuse_others(X: TableLike) -> None:
    """Raise if X is something that numpy would take for an array of something else."""
    if sparse.issparse(X):
        raise TypeError("A sparse matrix is not supported yet; use X.toarray() if it fits.")
    advice = frames.advice_for(X)
    if advice:
        raise TypeError(f"{WANTED}, got {advice}")
    if isinstance(X, dict):
        raise TypeError(f"{WANTED}, got a dict. Use pandas.DataFrame(X), or polars.DataFrame(X).")


def _read_array(X) -> Table:
    array = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if array.dtype.names is not None:
        raise TypeError(
            "X must be an array of one type, got a structured array with fields "
            f"{list(array.dtype.names)}. Use pandas.DataFrame(X)."
        )
    if array.ndim == 0 and not isinstance(X, (np.ndarray, np.generic)):
        raise TypeError(f"{WANTED}, got {type(X).__name__}.")
    if array.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows and columns, got shape {array.shape}. Reshape your "
            "data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real.")
    if array.dtype.kind in "mM" and array.shape[1]:
        refuse_dates("x0", array.dtype)
    mask, values = np.ma.getmask(array), np.ma.getdata(array)
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # of long doubles: infinity is refused by name
            matrix = values.astype(np.float64, copy=mask is not np.ma.nomask)
        if values.dtype.kind not in "iu" or values.itemsize < 8 or not may_round(matrix):
            if mask is not np.ma.nomask:
                matrix[mask] = np.nan
            return Table(len(matrix), matrix=matrix)
    is_text = values.dtype.kind in "UST"
    objects = values.astype(object)
    objects[mask] = None
    columns = [object_column(f"x{k}", objects[:, k], is_text) for k in range(objects.shape[1])]
    return Table(len(objects), columns)


def _read_rows(X):
    """A list of rows as an array: of numbers, or of objects where a row has something else."""
    if any(isinstance(row, np.ma.MaskedArray) for row in X):
        return np.ma.array(X)
    try:
        array = np.asarray(X)
    except ValueError:
        lengths = [len(row) if isinstance(row, (list, tuple, np.ndarray)) else 1 for row in X]
        for row, length in enumerate(lengths):
            if length != lengths[0]:
                raise ValueError(
                    f"All rows of X must have the same number of entries, got {lengths[0]} in row "
                    f"0 and {length} in row {row}."
                ) from None
        array = np.asarray(X, object)
    # One string would have made strings of all numbers.
    return np.asarray(X, object) if array.dtype.kind in "US" else array
