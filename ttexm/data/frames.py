"""Data frames of pandas, polars and Arrow; none of these libraries is imported here.

Each is read column by column: numbers as floats, categories by the codes that the library has for
them, strings by hashes that it computes, and all else as Python objects. Only distinct values are
looked at one by one.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np

from ..kernels.factorize import distinct
from .columns import (
    DATES,
    Column,
    LevelColumn,
    NumberColumn,
    is_entry_type,
    may_round,
    number_equal,
    object_column,
    plain_entry,
    refuse_dates,
)

TableLike = Any  # what `read_table` takes: an array, or a table of pandas, polars or Arrow

PANDAS_LEVELS = ("Interval", "Period")  # types of levels that a category of pandas may also have
NULL = np.uint64(2**64 - 1)  # a key that no category has


def library_of(X: TableLike) -> ModuleType | None:
    """Return the library that X is a data frame of, if it is one of those that are read here."""
    for name, classes in (
        ("pandas", ("DataFrame",)),
        ("polars", ("DataFrame",)),
        ("pyarrow", ("Table", "RecordBatch")),
    ):
        library = sys.modules.get(name)
        if library is not None and isinstance(X, tuple(getattr(library, c) for c in classes)):
            return library
    return None


def advice_for(X: TableLike) -> str:
    """Say what X is and what to do, if it is nearly a data frame; else return nothing."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(X, (pandas.Series, pandas.Index)):
        return (
            f"a pandas {type(X).__name__}. Use X.to_frame() for a table of one column, or select "
            "columns by a list, as in df[['a']]."
        )
    if polars is not None and isinstance(X, polars.Series):
        return (
            "a polars Series. Use X.to_frame() for a table of one column, or select columns by a "
            "list, as in df.select(['a'])."
        )
    if polars is not None and isinstance(X, polars.LazyFrame):
        return "a polars LazyFrame. Use X.collect()."
    if hasattr(X, "__dataframe__") or hasattr(X, "__arrow_c_stream__"):
        return (
            f"{type(X).__module__.partition('.')[0]}'s {type(X).__name__}. Convert it first, for "
            "example with X.to_pandas() or polars.from_arrow(X)."
        )
    return ""


def read(X: TableLike, library: ModuleType) -> tuple[int, list, np.ndarray | list[Column]]:
    """Return the number of rows, the names of the columns, and these: as one array, or a list."""
    readers = {"pandas": _read_pandas, "polars": _read_polars, "pyarrow": _read_arrow}
    return readers[library.__name__](X, library)


def _refuse_duplicates(name):
    raise ValueError(
        f"The columns of X must have different names, got {name!r} more than once. Rename them."
    )


# -- pandas ---------------------------------------------------------------------------------------


def _read_pandas(X, pandas):
    labels = X.columns
    if not labels.is_unique:
        _refuse_duplicates(labels[labels.duplicated()][0])
    dtypes = X.dtypes.tolist()
    if dtypes and all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in dtypes):
        with np.errstate(over="ignore"):  # of long doubles: infinity is refused by name
            matrix = X.to_numpy(np.float64)
        if not any(dtype.kind in "iu" for dtype in dtypes) or not may_round(matrix):
            return len(X), labels, matrix
    columns = [_pandas_column(pandas, label, X.iloc[:, k]) for k, label in enumerate(labels)]
    return len(X), labels, columns


def _pandas_column(pandas, label, series):
    name, label = str(label), None if isinstance(label, str) else label
    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        categories = [plain_entry(level) for level in series.cat.categories.to_numpy(object)]
        _check_levels(name, categories)
        places, entries = number_equal(categories)
        codes = series.cat.codes.to_numpy()
        if len(entries) < len(categories):  # Fraction(1, 2) and 0.5, say
            codes = np.append(places, np.int32(-1))[codes]
        return LevelColumn(name, True, label, codes, entries)
    if dtype.kind in "biuf":
        x = series.to_numpy(np.float64, na_value=np.nan)
        if dtype.kind not in "iu" or not may_round(x):
            return NumberColumn(name, False, label, x)
    if dtype.kind in "mM":
        refuse_dates(name, dtype)
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: column {name!r} must be real.")
    is_text = isinstance(dtype, pandas.StringDtype)
    if is_text and dtype.storage.startswith("pyarrow"):
        codes, values = pandas.factorize(series)
        return LevelColumn(name, True, label, codes, values.to_numpy(object).tolist())
    values = series.to_numpy(object)
    if not is_text and values.dtype != object:
        values = values.astype(object)
    return object_column(name, values, is_text, label)


def _check_levels(name, levels):
    for type_ in set(map(type, levels)):
        is_known = is_entry_type(type_) or issubclass(type_, DATES)
        if not is_known and type_.__name__ not in PANDAS_LEVELS:
            raise TypeError(
                f"Column {name!r} is a category with levels of type {type_.__name__}; levels must "
                "be strings, numbers, dates or intervals. Convert them to strings first."
            )


# -- polars ---------------------------------------------------------------------------------------


def _read_polars(X, polars):
    dtypes = X.dtypes
    if dtypes and all(dtype.is_numeric() or dtype == polars.Boolean for dtype in dtypes):
        matrix = X.cast(polars.Float64).to_numpy()
        if not any(dtype.is_integer() for dtype in dtypes) or not may_round(matrix):
            return X.height, X.columns, matrix
    return X.height, X.columns, [_polars_column(polars, series) for series in X.get_columns()]


def _polars_column(polars, series):
    name, dtype = series.name, series.dtype
    if dtype.is_numeric() or dtype == polars.Boolean:
        x = series.cast(polars.Float64).to_numpy()
        if not dtype.is_integer() or not may_round(x):
            return NumberColumn(name, False, None, x)
    if dtype.is_temporal():
        refuse_dates(name, dtype)
    if dtype.is_nested():
        raise TypeError(
            f"Column {name!r} holds lists or structs ({dtype}); turn it into columns of numbers or "
            "strings first."
        )
    if dtype in (polars.Categorical, polars.Enum):
        keys = series.to_physical().cast(polars.UInt64).fill_null(int(NULL)).to_numpy()
        return _by_keys(polars, name, series, keys)
    if dtype == polars.String:
        column = _by_keys(
            polars, name, series, series.hash(0).to_numpy(), series.hash(1).to_numpy()
        )
        if column is not None:
            return column
    values = np.fromiter(series.to_list(), object, len(series))
    return object_column(name, values, dtype in (polars.String, polars.Binary))


def _by_keys(polars, name, series, keys, others=None):
    """A column of strings whose equal values have equal keys.

    Where the keys are hashes, `others` are those of another seed: if strings of one key differ in
    them, None is returned.
    """
    codes, firsts = distinct(keys)
    if others is not None and (others != others[firsts][codes]).any():
        return None
    places, entries = number_equal(series.gather(firsts).cast(polars.String).to_list())
    return LevelColumn(name, True, None, np.take(places, codes), entries)


# -- Arrow ----------------------------------------------------------------------------------------


def _read_arrow(X, pyarrow):
    names = X.schema.names
    for name in names:
        if names.count(name) > 1:
            _refuse_duplicates(name)
    columns = [_arrow_column(pyarrow, name, X.column(k)) for k, name in enumerate(names)]
    return X.num_rows, names, columns


def _arrow_column(pyarrow, name, values):
    types, dtype = pyarrow.types, values.type
    if types.is_dictionary(dtype) and not types.is_string(dtype.value_type):
        values, dtype = values.cast(dtype.value_type), dtype.value_type
    if any(
        test(dtype) for test in (types.is_integer, types.is_floating, types.is_boolean)
    ) or types.is_decimal(dtype):
        numbers = values.cast(pyarrow.uint8()) if types.is_boolean(dtype) else values
        x = numbers.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        if not types.is_integer(dtype) or not may_round(x):
            return NumberColumn(name, False, None, np.asarray(x, np.float64))
    if types.is_temporal(dtype):
        refuse_dates(name, dtype)
    if types.is_nested(dtype):
        raise TypeError(
            f"Column {name!r} holds lists or structs ({dtype}); turn it into columns of numbers or "
            "strings first."
        )
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_dictionary(dtype):
        encoded = values if types.is_dictionary(dtype) else values.dictionary_encode()
        if isinstance(encoded, pyarrow.ChunkedArray):
            encoded = encoded.unify_dictionaries().combine_chunks()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        places, entries = number_equal(encoded.dictionary.to_pylist())
        return LevelColumn(name, True, None, np.append(places, np.int32(-1))[codes], entries)
    objects = np.fromiter(values.to_pylist(), object, len(values))
    return object_column(name, objects, types.is_binary(dtype))
