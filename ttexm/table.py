"""Tables as users have them, arrays and pandas or polars data frames, as lists of columns."""

import datetime
import functools
import numbers
import reprlib
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from scipy import sparse

NUMBERS = (numbers.Real, Decimal, np.bool_)
DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
EXACT = 2**53  # integers of larger magnitude may round when they become floats
# By name, as pandas may not be installed.
MISSING = ("NAType", "NaTType", "MaskedConstant")
PANDAS_LEVELS = ("Interval", "Period")


@dataclass(frozen=True, eq=False)
class Column:
    """One column: float64 with NaN for missing values, or objects with None for them.

    Numbers are kept as objects where float64 does not do: next to strings, in a data frame's
    category, and where integers would round.

    Parameters
    ----------
    name : str
    values : array (m,)
    is_category : bool
        Whether the column holds strings, or is a category of its data frame.
    label : optional
        What the data frame calls the column, if that is not a string.
    """

    name: str
    values: np.ndarray
    is_category: bool
    label: Hashable = None

    def numbers(self) -> np.ndarray:
        """The column as finite numbers, NaN where missing."""
        x = self.values
        if x.dtype == object:
            strange = self.kinds() - {"numbers"}
            if strange:
                kind = min(strange)
                raise TypeError(
                    f"Column {self.name!r} must hold numbers, got {kind}: {self.example(kind)}. "
                    "Convert it to numbers, or fit it as a category."
                )
            x = _floats(self.name, x)
        infinite = np.isinf(x)
        if infinite.any():
            row = int(infinite.argmax())
            raise ValueError(
                f"Column {self.name!r} must be finite, got {x[row]} in row {row} (infinity; a "
                "missing value is NaN)."
            )
        return x

    def kinds(self) -> set[str]:
        """Kinds of the values that are not missing: "numbers", "strings", "bytes", .."""
        if self.values.dtype != object:
            return set() if np.isnan(self.values).all() else {"numbers"}
        return kinds_of(self.values)

    def example(self, kind: str) -> str:
        """Describe the first value of a kind: what it is, and where."""
        if self.values.dtype != object:
            row = int(np.isnan(self.values).argmin())
        else:
            row = next(row for row, value in enumerate(self.values) if _kind(type(value)) == kind)
        return f"{reprlib.repr(self.values.item(row))} in row {row}"

    def levels(self) -> list:
        """The different values, missing ones left out, in order."""
        if self.values.dtype != object:
            levels = np.unique(self.values[~np.isnan(self.values)]).tolist()
            return [int(x) if x.is_integer() and abs(x) < EXACT else x for x in levels]
        levels = set(self.values) - {None}
        try:
            return sorted(levels)
        except (TypeError, ValueError):  # numbers and strings in one column
            return sorted(levels, key=lambda level: (_kind(type(level)), str(level)))

    def codes(self, levels: dict) -> np.ndarray:
        """Codes of the values by a dictionary of levels; 0 for those that are not in it."""
        if self.values.dtype != object:
            different, inverse = np.unique(self.values, return_inverse=True)
            return np.array([levels.get(value, 0) for value in different.tolist()], int)[inverse]
        return np.array([levels.get(value, 0) for value in self.values], int)


def read_table(X) -> list[Column]:
    """The columns of an array of two dimensions or of a data frame.

    Missing values are NaN, None, what pandas and polars have for them, and masked entries of a
    masked array. Strings are never read as numbers.
    """
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if _is_frame(X, pandas):
        if not X.columns.is_unique:
            name = X.columns[X.columns.duplicated()][0]
            raise ValueError(
                f"The columns of X must have different names, got {name!r} more than once. Rename "
                "them."
            )
        columns = [_pandas_column(pandas, label, X.iloc[:, k]) for k, label in enumerate(X.columns)]
    elif _is_frame(X, polars):
        columns = [_polars_column(polars, series) for series in X.get_columns()]
    else:
        check_table(X)
        X = _read_array(X)
        columns = _array_columns(X)
    if not columns:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    return columns


def kinds_of(values) -> set[str]:
    """Kinds of objects, None left out: "numbers", "strings", "bytes", .."""
    return {_kind(type_) for type_ in set(map(type, values)) if type_ is not type(None)}


@functools.cache
def _kind(type_: type) -> str:
    """What values of a type are called; levels of different kinds are never equal."""
    if issubclass(type_, str):
        return "strings"
    if issubclass(type_, bytes):
        return "bytes"
    if issubclass(type_, NUMBERS):
        return "numbers"
    return f"values of type {type_.__name__}"


# -- arrays ---------------------------------------------------------------------------------------


def check_table(X) -> None:
    """Raise if X is what numpy would take for an array of something else."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if isinstance(X, np.ndarray) or _is_frame(X, pandas) or _is_frame(X, polars):
        return
    if sparse.issparse(X):
        raise TypeError("A sparse matrix is not supported yet; use X.toarray() if it fits.")
    wanted = "X must be an array of two dimensions, or a pandas or polars data frame"
    if pandas is not None and isinstance(X, (pandas.Series, pandas.Index)):
        raise TypeError(
            f"{wanted}, got a pandas {type(X).__name__}. Use X.to_frame() for a table of one "
            "column, or select columns by a list, as in df[['a']]."
        )
    if polars is not None and isinstance(X, polars.Series):
        raise TypeError(
            f"{wanted}, got a polars Series. Use X.to_frame() for a table of one column, or "
            "select columns by a list, as in df.select(['a'])."
        )
    if polars is not None and isinstance(X, polars.LazyFrame):
        raise TypeError(f"{wanted}, got a polars LazyFrame. Use X.collect().")
    if isinstance(X, dict):
        raise TypeError(f"{wanted}, got a dict. Use pandas.DataFrame(X), or polars.DataFrame(X).")
    if hasattr(X, "__dataframe__") or hasattr(X, "__arrow_c_stream__"):
        raise TypeError(
            f"{wanted}, got {type(X).__module__.partition('.')[0]}'s {type(X).__name__}. Convert "
            "it first, for example with X.to_pandas() or polars.from_arrow(X)."
        )


def _is_frame(X, module) -> bool:
    return module is not None and isinstance(X, module.DataFrame)


def _read_array(X) -> np.ndarray:
    """X as an array, of two dimensions, perhaps masked."""
    if isinstance(X, (list, tuple)):
        X = _read_rows(X)
    array = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if array.dtype.names is not None:
        raise TypeError(
            "X must be an array of one type, got a structured array with fields "
            f"{list(array.dtype.names)}. Use pandas.DataFrame(X)."
        )
    if array.ndim == 0 and not isinstance(X, (np.ndarray, np.generic)):
        raise TypeError(
            "X must be an array of two dimensions, or a pandas or polars data frame, got "
            f"{type(X).__name__}."
        )
    if array.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows and columns, got shape {array.shape}. Reshape your "
            "data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real.")
    return array


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


def _array_columns(X):
    names = [f"x{k}" for k in range(X.shape[1])]
    mask = np.ma.getmask(X)
    X = np.ma.getdata(X)
    if X.dtype.kind in "mM" and names:
        _refuse_dates(names[0], X.dtype)
    if X.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # of long doubles: infinity is refused by name
            x = X.astype(np.float64)
        if X.dtype.kind not in "iu" or X.dtype.itemsize < 8 or not _may_round(x):
            x[mask] = np.nan
            return [Column(name, x[:, k], False) for k, name in enumerate(names)]
    is_text = X.dtype.kind in "UST"
    X = X.astype(object)
    X[mask] = None
    return [_object_column(name, X[:, k], is_text) for k, name in enumerate(names)]


def _may_round(x) -> bool:
    """Whether floats that came from integers may be other numbers than these."""
    if not x.size or (x.min() > -EXACT and x.max() < EXACT):  # quick, if nothing is missing
        return False
    return bool((np.abs(x) >= EXACT).any())


# -- objects --------------------------------------------------------------------------------------


def _object_column(name, values, is_category=False, label=None):
    """A column of Python objects: numbers if all are, else a category."""
    # Floats alone need no look at each of them: NaN stays NaN.
    if is_category or not set(map(type, values)) <= {float, type(None)}:
        values = _entries(values)
    types = set(map(type, values)) - {type(None)}
    for type_ in types:
        if not issubclass(type_, (str, bytes, *NUMBERS)):
            _refuse_entry(name, values, type_)
    if is_category or any(issubclass(type_, (str, bytes)) for type_ in types):
        return Column(name, values, True, label)
    x = _floats(name, values)
    is_rounded = any(issubclass(type_, int) for type_ in types) and _may_round(x)
    return Column(name, values if is_rounded else x, False, label)


def _entries(values):
    """Objects with None for missing ones, and with Python's own numbers."""
    if set(map(type, values)) <= {str, bytes, int, bool, type(None)}:
        return values
    return np.fromiter(map(_entry, values), object, len(values))


def _floats(name, values):
    try:
        return values.astype(np.float64)
    except OverflowError:
        row = next(row for row, value in enumerate(values) if not _fits_float(value))
    raise ValueError(
        f"Column {name!r} must hold numbers of at most {sys.float_info.max:.2g}, got a larger one "
        f"in row {row}. Scale it down, or turn it into strings if it is a category."
    )


def _fits_float(value) -> bool:
    try:
        float(np.nan if value is None else value)
    except OverflowError:
        return False
    return True


def _entry(value):
    type_ = type(value)
    if type_ is str or type_.__name__ in MISSING:
        return value if type_ is str else None
    if isinstance(value, Decimal):
        return None if value.is_nan() else float(value)
    if isinstance(value, (float, np.floating, *DATES)) and value != value:
        return None
    if isinstance(value, Fraction) and _fits_float(value):
        return float(value)
    return value.item() if isinstance(value, (np.number, np.bool_)) else value


def _refuse_entry(name, values, type_):
    if issubclass(type_, DATES) or type_.__name__ == "Period":
        _refuse_dates(name, type_.__name__)
    row = next(row for row, value in enumerate(values) if type(value) is type_)
    raise TypeError(
        f"Column {name!r} holds a value of type {type_.__name__} in row {row}, "
        f"{reprlib.repr(values[row])}; each entry of the argument must be a string or a real "
        "number. Convert the column first; strings are read as categories."
    )


def _refuse_dates(name, dtype):
    raise TypeError(
        f"Column {name!r} holds dates or times ({dtype}); turn it into numbers (days since a date, "
        "hour of the day) or a category first."
    )


# -- data frames ----------------------------------------------------------------------------------


def _pandas_column(pandas, label, series):
    name, label = str(label), None if isinstance(label, str) else label
    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        levels = _levels(name, series.cat.categories.to_numpy(object))
        return Column(name, levels[series.cat.codes.to_numpy()], True, label)
    if dtype.kind in "biuf":
        x = series.to_numpy(np.float64, na_value=np.nan)
        if dtype.kind not in "iu" or not _may_round(x):
            return Column(name, x, False, label)
    if dtype.kind in "mM":
        _refuse_dates(name, dtype)
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: column {name!r} must be real.")
    values, missing = series.to_numpy(object), series.isna().to_numpy()
    if missing.any():
        values = np.where(missing, None, values)
    return _object_column(name, values, isinstance(dtype, pandas.StringDtype), label)


def _levels(name, levels):
    """The levels of a category of pandas, with None behind them for its code -1."""
    levels = _entries(levels)
    for type_ in set(map(type, levels)):
        is_known = issubclass(type_, (str, bytes, *NUMBERS, *DATES))
        if not is_known and type_.__name__ not in PANDAS_LEVELS:
            raise TypeError(
                f"Column {name!r} is a category with levels of type {type_.__name__}; levels must "
                "be strings, numbers, dates or intervals. Convert them to strings first."
            )
    return np.append(levels, None)


def _polars_column(polars, series):
    name, dtype = series.name, series.dtype
    if dtype.is_numeric() or dtype == polars.Boolean:
        x = series.cast(polars.Float64).to_numpy()
        if not dtype.is_integer() or not _may_round(x):
            return Column(name, x, False)
    if dtype.is_temporal():
        _refuse_dates(name, dtype)
    if dtype.is_nested():
        raise TypeError(
            f"Column {name!r} holds lists or structs ({dtype}); turn it into columns of numbers or "
            "strings first."
        )
    values = np.fromiter(series.to_list(), object, len(series))
    is_category = dtype in (polars.Categorical, polars.Enum, polars.String, polars.Binary)
    return _object_column(name, values, is_category)
