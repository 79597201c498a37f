"""Tables as users have them, arrays and pandas or polars data frames, as lists of columns."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse


@dataclass(frozen=True, eq=False)
class Column:
    """One column: float64 with NaN for missing values, or objects with None for them."""

    name: str
    values: np.ndarray
    is_category: bool

    def numbers(self) -> np.ndarray:
        """The column as finite numbers, NaN where missing."""
        x = self.values
        if x.dtype == object:
            try:
                x = np.array([np.nan if value is None else float(value) for value in x])
            except ValueError as error:
                raise ValueError(
                    f"Column {self.name!r} must hold numbers: {error}. Is it a category?"
                ) from None
        infinite = np.isinf(x)
        if infinite.any():
            raise ValueError(
                f"Column {self.name!r} must be finite, got {x[infinite.argmax()]} in row "
                f"{infinite.argmax()} (infinity; a missing value is NaN)."
            )
        return x

    def levels(self) -> list:
        """The different values, missing ones left out, in order."""
        if self.values.dtype != object:
            levels = np.unique(self.values[~np.isnan(self.values)]).tolist()
            return [int(level) if level.is_integer() else level for level in levels]
        levels = {value for value in self.values if value is not None}
        try:
            return sorted(levels)
        except TypeError:  # numbers and strings in one column
            return sorted(levels, key=lambda level: (type(level).__name__, str(level)))

    def codes(self, levels: dict) -> np.ndarray:
        """Codes of the values by a dictionary of levels; 0 for those that are not in it."""
        if self.values.dtype != object:
            different, inverse = np.unique(self.values, return_inverse=True)
            return np.array([levels.get(value, 0) for value in different.tolist()], int)[inverse]
        return np.array([levels.get(value, 0) for value in self.values], int)


def read_table(X) -> list[Column]:
    """The columns of an array of two dimensions or of a data frame."""
    if sparse.issparse(X):
        raise TypeError("A sparse matrix is not supported yet; use X.toarray() if it fits.")
    if hasattr(X, "iloc"):
        columns = [_pandas_column(str(name), X.iloc[:, k]) for k, name in enumerate(X.columns)]
    elif hasattr(X, "get_columns"):
        columns = [_polars_column(series) for series in X.get_columns()]
    else:
        columns = _array_columns(np.asarray(X))
    if not columns:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    return columns


def hash_rows(table: list[Column]) -> np.ndarray:
    """An unsigned integer for each row: the same for equal rows, hardly ever for others."""
    out = np.zeros(len(table[0].values), np.uint64)
    for column in table:
        if column.values.dtype == object:
            levels = {level: code + 1 for code, level in enumerate(column.levels())}
            bits = column.codes(levels).astype(np.uint64)
        else:
            bits = (column.values + 0.0).view(np.uint64)  # -0 is 0
        out = (out ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return out


def _array_columns(X):
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows and columns, got shape {X.shape}. Reshape your "
            "data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
        )
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real.")
    names = [f"x{k}" for k in range(X.shape[1])]
    if X.dtype.kind in "biuf":
        X = X.astype(np.float64)
        return [Column(name, X[:, k], False) for k, name in enumerate(names)]
    return [_object_column(name, X[:, k].astype(object)) for k, name in enumerate(names)]


def _object_column(name, values):
    """A column of Python objects: numbers if all are, else a category."""
    values = np.array([None if _is_missing(value) else value for value in values], object)
    if any(isinstance(value, (str, bytes)) for value in values):
        return Column(name, values, True)
    # float() says what it wanted where an entry is neither a number nor a string.
    numbers = [np.nan if value is None else float(value) for value in values]
    return Column(name, np.array(numbers, np.float64), False)


def _is_missing(value):
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _pandas_column(name, series):
    kind = series.dtype.kind
    if kind in "biuf":
        return Column(name, series.to_numpy(np.float64, na_value=np.nan), False)
    if series.dtype.name == "category":
        values = series.astype(object).to_numpy()
        return Column(name, np.array([None if _is_missing(v) else v for v in values], object), True)
    _refuse_dates(name, kind in "mM", series.dtype)
    return _object_column(name, series.to_numpy(object))


def _polars_column(series):
    dtype = series.dtype
    if dtype.is_numeric():
        return Column(series.name, np.array(series.to_numpy(), np.float64), False)
    _refuse_dates(series.name, dtype.is_temporal(), dtype)
    return _object_column(series.name, np.array(series.to_list(), object))


def _refuse_dates(name, is_date, dtype):
    if is_date:
        raise TypeError(
            f"Column {name!r} holds dates or times ({dtype}); turn it into numbers (days since a "
            "date, hour of the day) or a category first."
        )
