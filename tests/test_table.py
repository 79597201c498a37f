"""Tables: what is read of arrays and data frames, and what is refused."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from ttexm.data.table import read_table
from ttexm.features import Auto, Categorical

DAY = datetime.date(2020, 2, 29)
BIG = 2**53


def frame(values, dtype=None, name="t"):
    """A data frame of pandas with one column."""
    return pd.DataFrame({name: pd.Series(values, dtype=dtype)})


def cells(*values):
    """An array of objects of one column."""
    X = np.empty((len(values), 1), object)
    for row, value in enumerate(values):
        X[row, 0] = value
    return X


def read(X):
    """A table's only column."""
    (column,) = read_table(X)
    return column


def entries(column):
    """The values of a column of levels, None where they are missing."""
    return [None if code < 0 else column.entries[code] for code in column.codes]


# -- what is read ---------------------------------------------------------------------------------

NUMBERS = {
    "pandas Int64": frame([1, None, 3], "Int64"),
    "pandas Float64": frame([1.0, None, 3.0], "Float64"),
    "pandas int and None": frame([1, None, 3], object),
    "pandas NA in objects": frame([1, pd.NA, 3.0], object),
    "pandas decimals": frame([Decimal(1), Decimal("nan"), Decimal("3.0")]),
    "fractions": cells(Fraction(1), None, Fraction(6, 2)),
    "numpy scalars": cells(np.int8(1), np.float32("nan"), np.float16(3)),
    "signaling NaN": cells(1, Decimal("snan"), 3),
    "NaT": cells(1, pd.NaT, 3),
    "masked constant": cells(1, np.ma.masked, 3),
    "polars integers": pl.DataFrame({"t": [1, None, 3]}),
    "polars floats": pl.DataFrame({"t": [1.0, None, 3.0]}),
    "polars decimals": pl.DataFrame({"t": [Decimal(1), None, Decimal(3)]}),
    "polars Int128": pl.DataFrame({"t": [1, None, 3]}, schema={"t": pl.Int128}),
    "masked floats": np.ma.array([[1.0], [2.0], [3.0]], mask=[[0], [1], [0]]),
    "masked integers": np.ma.array([[1], [2], [3]], mask=[[0], [1], [0]]),
    "masked objects": np.ma.array(cells(1, 2, 3), mask=[[0], [1], [0]]),
    "masked and wrong": np.ma.array(cells(1, "?", 3), mask=[[0], [1], [0]]),
    "masked rows": [np.ma.array([1]), np.ma.array([2], mask=[True]), np.ma.array([3])],
    "Arrow integers": pa.table({"t": [1, None, 3]}),
    "Arrow floats": pa.table({"t": [1.0, None, 3.0]}),
    "Arrow NaN": pa.table({"t": [1.0, float("nan"), 3.0]}),
    "Arrow decimals": pa.table({"t": [Decimal("1.00"), None, Decimal("3.00")]}),
    "Arrow records": pa.record_batch({"t": [1, None, 3]}),
    "Arrow chunks": pa.concat_tables([pa.table({"t": [1, None]}), pa.table({"t": [3]})]),
    "pandas Arrow": frame([1, None, 3], "int64[pyarrow]"),
    "list of lists": [[1], [None], [3]],
    "list of tuples": [(1,), (np.nan,), (3.0,)],
}


@pytest.mark.parametrize("X", NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_read_with_missing_values(X):
    column = read(X)
    assert column.values.dtype == np.float64
    assert not column.is_category
    assert_array_equal(column.values, [1, np.nan, 3])
    assert_array_equal(column.numbers(), [1, np.nan, 3])


FLAGS = {
    "numpy": np.array([[True], [False]]),
    "objects": cells(True, np.False_),
    "pandas": frame([True, False]),
    "pandas boolean": frame([True, False], "boolean"),
    "polars": pl.DataFrame({"t": [True, False]}),
    "pandas sparse": pd.DataFrame({"t": pd.arrays.SparseArray([1.0, 0.0])}),
    "pandas sparse integers": pd.DataFrame({"t": pd.arrays.SparseArray([1, 0])}),
    "long double": np.array([[1], [0]], np.longdouble),
    "big-endian": np.array([[1], [0]], ">i4"),
    "Arrow": pa.table({"t": [True, False]}),
}


@pytest.mark.parametrize("X", FLAGS.values(), ids=FLAGS)
def test_flags_and_other_types_are_numbers(X):
    assert_array_equal(read(X).values, [1.0, 0.0])
    assert read(X).values.dtype == np.float64


STRINGS = {
    "numpy objects": cells("u", None, "v"),
    "numpy objects, NA": cells("u", pd.NA, np.str_("v")),
    "numpy objects, NaN": cells("u", np.nan, "v"),
    "pandas str": frame(["u", None, "v"], "str"),
    "pandas string": frame(["u", None, "v"], "string"),
    "pandas object": frame(["u", np.nan, "v"], object),
    "pandas category": frame(["u", None, "v"], "category"),
    "polars strings": pl.DataFrame({"t": ["u", None, "v"]}),
    "polars categories": pl.DataFrame({"t": ["u", None, "v"]}, schema={"t": pl.Categorical}),
    "polars enum": pl.DataFrame({"t": ["u", None, "v"]}, schema={"t": pl.Enum(["v", "u"])}),
    "polars, equal objects": pl.DataFrame({"t": ["u", None, "".join("v")]}),
    "pandas Arrow strings": frame(["u", None, "v"], pd.StringDtype("pyarrow")),
    "Arrow strings": pa.table({"t": ["u", None, "v"]}),
    "Arrow large strings": pa.table({"t": pa.array(["u", None, "v"], pa.large_string())}),
    "Arrow dictionary": pa.table({"t": pa.array(["u", None, "v"]).dictionary_encode()}),
    "Arrow chunks": pa.concat_tables(
        [pa.table({"t": pa.array(part).dictionary_encode()}) for part in (["u", None], ["v"])]
    ),
    "masked": np.ma.array([["u"], ["?"], ["v"]], mask=[[0], [1], [0]]),
    "numpy's own": np.array([["u"], [None], ["v"]], np.dtypes.StringDType(na_object=None)),
}


@pytest.mark.parametrize("X", STRINGS.values(), ids=STRINGS)
def test_strings_are_categories(X):
    column = read(X)
    assert column.is_category
    assert entries(column) == ["u", None, "v"]
    assert column.levels() == ["u", "v"]


@pytest.mark.parametrize(
    "X",
    [
        frame([None, None], "string"),
        frame([None, None], "category"),
        pl.DataFrame({"t": [None, None]}, schema={"t": pl.String}),
        pl.DataFrame({"t": [None, None]}, schema={"t": pl.Categorical}),
        np.ma.array([["u"], ["v"]], mask=True),
    ],
    ids=["string", "category", "polars", "polars category", "masked"],
)
def test_strings_that_are_all_missing_are_categories_still(X):
    assert read(X).is_category
    assert read(X).levels() == []
    assert Auto().fit(X).shape_ == (1,)


def test_nothing_known_at_all_is_a_column_of_numbers():
    for X in (pl.DataFrame({"t": [None, None]}), cells(None, None), frame([None, None], object)):
        assert_array_equal(read(X).values, [np.nan, np.nan])


def test_a_list_of_rows_keeps_numbers_next_to_strings():
    number, text, flag = read_table([[1, "a", True], [2.5, "b", False]])
    assert_array_equal(number.values, [1, 2.5])
    assert entries(text) == ["a", "b"]
    assert_array_equal(flag.values, [1, 0])


def test_categories_of_pandas_may_be_dates_and_intervals():
    days = pd.to_datetime(["2020-01-02", None, "2020-01-01"])
    for values in (days, days.to_period("D"), days - days[2]):
        column = read(frame(values, "category"))
        first, missing, last = entries(column)
        assert missing is None
        assert column.levels() == [last, first]
    cut = read(pd.DataFrame({"t": pd.cut([1, 5, 9, np.nan], [0, 4, 10])}))
    assert [str(level) for level in cut.levels()] == ["(0, 4]", "(4, 10]"]
    assert Categorical().fit(frame(days, "category")).shape_ == (3,)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[BIG], [BIG + 1], [-BIG - 1]]),
        cells(BIG, BIG + 1, -BIG - 1),
        frame([BIG, BIG + 1, -BIG - 1]),
        frame([BIG, BIG + 1, -BIG - 1], "Int64"),
        frame([BIG, BIG + 1, -BIG - 1], "category"),
        pl.DataFrame({"t": [BIG, BIG + 1, -BIG - 1]}),
        pa.table({"t": [BIG, BIG + 1, -BIG - 1]}),
    ],
    ids=["array", "objects", "pandas", "Int64", "category", "polars", "Arrow"],
)
def test_integers_that_floats_round_are_different_levels(X):
    assert Categorical().fit(X).shape_ == (4,)
    # .. and numbers as any others
    assert_array_equal(read(X).numbers(), [BIG, float(BIG + 1), float(-BIG - 1)])


def test_large_levels_have_short_names():
    assert read(np.array([[1e300], [3.0]])).levels() == [3, 1e300]


def test_the_order_of_levels_is_not_that_of_the_rows():
    values = [3, "b", 1.5, "a", b"c", True, 0]
    levels = read(cells(*values)).levels()
    assert levels == read(cells(*values[::-1])).levels() == [b"c", 0, 1.5, 3, True, "a", "b"]


def test_reading_changes_nothing():
    X = np.ma.array([[1.0, 2.0]], mask=[[True, False]])
    read_table(X)
    assert X.data.tolist() == [[1.0, 2.0]]
    objects = np.array([["a", np.nan]], object)
    read_table(objects)
    assert np.isnan(objects[0, 1])


def test_equal_strings_are_one_level_wherever_they_are():
    """Objects are told apart by their addresses first, and polars' strings by hashes."""
    texts = ["".join(letters) for letters in (["a", "b"], ["a", "c"]) for _ in range(3)]
    assert len({id(text) for text in texts}) == 6
    for X in (cells(*texts), frame(texts, object), pl.DataFrame({"t": texts})):
        assert read(X).codes.tolist() == [0, 0, 0, 1, 1, 1]
        assert read(X).levels() == ["ab", "ac"]


def test_strings_of_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(pl.Series, "hash", lambda self, seed: pl.Series([seed, seed, seed * 2]))
    assert entries(read(pl.DataFrame({"t": ["u", "u", "v"]}))) == ["u", "u", "v"]


def test_levels_that_no_row_has_are_left_out():
    for X in (
        frame(pd.Categorical(["u", "w"], ["w", "v", "u"])),
        pl.DataFrame({"t": ["u", "w"]}, schema={"t": pl.Enum(["w", "v", "u"])}),
        pa.table({"t": pa.DictionaryArray.from_arrays([2, 0], ["w", "v", "u"])}),
    ):
        assert read(X).levels() == ["u", "w"]


def test_rows_of_a_table():
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0], "c": ["a", None, "b"]})
    part = read_table(X)[np.array([2, 1])]
    number, text = part
    assert len(part) == 2
    assert_array_equal(number.values, [3, 2])
    assert entries(text) == ["b", None]
    matrix = read_table(X[["x"]])[:2]
    assert matrix.columns[0].name == "x"
    assert_array_equal(matrix.matrix, [[1], [2]])


def test_an_array_of_floats_is_read_without_a_copy():
    X = np.ones((3, 2))
    assert read_table(X).matrix is X
    table = pd.DataFrame(X)
    assert np.shares_memory(read_table(table).matrix, table.to_numpy())


# -- what is refused ------------------------------------------------------------------------------


class Table:
    """A data frame of a library that is not known here."""

    __module__ = "modin.pandas"

    def __dataframe__(self):
        """The protocol that other libraries' data frames have."""


ENTRY = "each entry of the argument must be a string or a real number"
DATES = "turn it into numbers (days since a date, hour of the day) or a category first."
DIMENSIONS = "X must have two dimensions, rows and columns, got shape"
TABLE = "X must be an array of two dimensions, or a pandas, polars or Arrow table, got"
REFUSED = {
    "pandas Series": (pd.Series([1.0]), TypeError, f"{TABLE} a pandas Series. Use X.to_frame()"),
    "pandas Index": (pd.Index([1.0]), TypeError, f"{TABLE} a pandas Index. Use X.to_frame()"),
    "polars Series": (pl.Series([1.0]), TypeError, f"{TABLE} a polars Series. Use X.to_frame()"),
    "polars LazyFrame": (
        pl.DataFrame({"t": [1]}).lazy(),
        TypeError,
        f"{TABLE} a polars LazyFrame. Use X.collect().",
    ),
    "another": (Table(), TypeError, f"{TABLE} modin's Table. Convert it first, for example with"),
    "dict": ({"t": [1, 2]}, TypeError, f"{TABLE} a dict. Use pandas.DataFrame(X)"),
    "None": (None, TypeError, f"{TABLE} NoneType."),
    "string": ("abc", TypeError, f"{TABLE} str."),
    "generator": ((x for x in [[1]]), TypeError, f"{TABLE} generator."),
    "number": (3.0, TypeError, f"{TABLE} float."),
    "sparse": (sparse.eye(2), TypeError, "A sparse matrix is not supported yet; use X.toarray()"),
    "structured": (
        np.zeros(3, [("a", float), ("b", int)]),
        TypeError,
        "X must be an array of one type, got a structured array with fields ['a', 'b'].",
    ),
    "0-d": (np.array(3.0), ValueError, f"{DIMENSIONS} ()."),
    "1-d": ([1.0, 2.0], ValueError, f"{DIMENSIONS} (2,)."),
    "3-d": (np.ones((2, 3, 4)), ValueError, f"{DIMENSIONS} (2, 3, 4)."),
    "empty list": ([], ValueError, f"{DIMENSIONS} (0,)."),
    "no columns, list": ([[], []], ValueError, "0 feature(s) (shape=(2, 0)) while a minimum of 1"),
    "no columns, pandas": (pd.DataFrame(index=[1, 2]), ValueError, "0 feature(s) (shape=(2, 0))"),
    "no columns, polars": (pl.DataFrame(), ValueError, "0 feature(s) (shape=(0, 0)) while"),
    "ragged": (
        [[1, 2], [3, 4], [5]],
        ValueError,
        "All rows of X must have the same number of entries, got 2 in row 0 and 1 in row 2.",
    ),
    "complex array": (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
    "complex, pandas": (frame([1j]), ValueError, "not supported: column 't' must be real."),
    "complex objects": (cells(1, 1j), TypeError, "'x0' holds a value of type complex in row 1, 1j"),
    "duplicates": (
        pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        ValueError,
        "The columns of X must have different names, got 'a' more than once. Rename them.",
    ),
    "list cells": (frame([None, [1, 2]]), TypeError, "Column 't' holds a value of type list in"),
    "array cells": (frame([np.ones(2), np.ones(2)]), TypeError, "'t' holds a value of type ndarra"),
    "dict cells": (cells({"a": 1}), TypeError, f"type dict in row 0, {{'a': 1}}; {ENTRY}"),
    "tuples": (cells((1, 2), (3, 4)), TypeError, f"type tuple in row 0, (1, 2); {ENTRY}"),
    "frozensets": (frame([frozenset([1])]), TypeError, "'t' holds a value of type frozenset in"),
    "sets": (cells("a", {1}), TypeError, f"type set in row 1, {{1}}; {ENTRY}"),
    "objects": (cells(1, object()), TypeError, "'x0' holds a value of type object in row 1"),
    "intervals": (
        pd.DataFrame({"t": pd.interval_range(0, 2)}),
        TypeError,
        "Column 't' holds a value of type Interval in row 0, Interval(0, 1, closed='right'); each",
    ),
    "periods": (
        pd.DataFrame({"t": pd.period_range("2020", periods=2, freq="M")}),
        TypeError,
        f"Column 't' holds dates or times (Period); {DATES}",
    ),
    "dates": (frame([None, DAY], object), TypeError, "Column 't' holds dates or times (date);"),
    "times": (cells(datetime.time(1)), TypeError, "Column 'x0' holds dates or times (time);"),
    "timestamps": (
        frame([pd.Timestamp(2020, 1, 1)], object),
        TypeError,
        "Column 't' holds dates or times (Timestamp);",
    ),
    "datetime64, pandas": (
        frame(pd.to_datetime(["2020-01-01"])),
        TypeError,
        "Column 't' holds dates or times (datetime64[",
    ),
    "time zones": (
        frame(pd.to_datetime(["2020-01-01"]).tz_localize("UTC")),
        TypeError,
        "Column 't' holds dates or times (datetime64[",
    ),
    "timedelta, pandas": (
        frame(pd.to_timedelta([1, 2])),
        TypeError,
        "Column 't' holds dates or times (timedelta64[",
    ),
    "datetime64": (
        np.array([["2020-01-01"]], "M8[D]"),
        TypeError,
        "Column 'x0' holds dates or times (datetime64[D]);",
    ),
    "timedelta64": (np.ones((2, 1), "m8[s]"), TypeError, "holds dates or times (timedelta64[s]);"),
    "polars dates": (
        pl.DataFrame({"t": [DAY]}),
        TypeError,
        "Column 't' holds dates or times (Date);",
    ),
    "polars durations": (
        pl.DataFrame({"t": [datetime.timedelta(1)]}),
        TypeError,
        "Column 't' holds dates or times (Duration",
    ),
    "Arrow dates": (
        pa.table({"t": [DAY]}),
        TypeError,
        "Column 't' holds dates or times (date32[day]);",
    ),
    "Arrow lists": (
        pa.table({"t": [[1], [2]]}),
        TypeError,
        "Column 't' holds lists or structs (list<",
    ),
    "Arrow duplicates": (
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
        ValueError,
        "The columns of X must have different names, got 'a' more than once.",
    ),
    "polars lists": (
        pl.DataFrame({"t": [[1], [2]]}),
        TypeError,
        "Column 't' holds lists or structs (List(Int64)); turn it into columns of numbers or",
    ),
    "polars arrays": (
        pl.DataFrame({"t": [[1, 2]]}, schema={"t": pl.Array(pl.Int64, 2)}),
        TypeError,
        "Column 't' holds lists or structs (Array(Int64",
    ),
    "polars structs": (
        pl.DataFrame({"t": [{"a": 1}]}),
        TypeError,
        "Column 't' holds lists or structs (Struct({'a': Int64}))",
    ),
    "polars objects": (
        pl.DataFrame({"t": [object()]}, schema={"t": pl.Object}),
        TypeError,
        "Column 't' holds a value of type object in row 0",
    ),
    "categories of tuples": (
        frame(pd.Categorical([(1, 2), (3, 4)])),
        TypeError,
        "Column 't' is a category with levels of type tuple; levels must be strings, numbers,",
    ),
    "categories of frozensets": (
        frame(pd.Categorical([frozenset([1])])),
        TypeError,
        "Column 't' is a category with levels of type frozenset; levels must be",
    ),
    "integer of 400 digits": (
        cells(1, 10**400),
        ValueError,
        "Column 'x0' must hold numbers of at most 1.8e+308, got a larger one in row 1. Scale it",
    ),
    "integer of 5000 digits": (cells(10**5000), ValueError, "'x0' must hold numbers of at most"),
    "huge fraction": (frame([Fraction(10**400)]), ValueError, "'t' must hold numbers of at most"),
}


@pytest.mark.parametrize(("X", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_table_is_refused(X, error, message):
    with pytest.raises(error) as caught:
        read_table(X)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "X",
    [
        cells(1.0, Decimal("1e400")),
        cells(1.0, float("-inf")),
        np.array([["1"], ["1e4000"]]).astype(np.longdouble),
        frame([1.0, np.inf], "category", "x0"),
    ],
    ids=["Decimal", "object", "long double", "category"],
)
def test_infinity_is_no_number(X):
    with pytest.raises(ValueError, match=r"Column 'x0' must be finite, got -?inf in row 1"):
        read(X).numbers()
    with pytest.raises(ValueError, match=r"Column 'x0' must be finite, got -?inf in row 1"):
        Auto(None).fit(X)


def test_huge_integers_in_categories_have_no_floats():
    levels = pd.Index([1, 10**400], dtype=object)
    (column,) = read_table(frame(pd.Categorical.from_codes([0, 1], levels)))
    with pytest.raises(ValueError, match=r"Column 't' must hold numbers of at most 1.8e\+308"):
        column.numbers()
    assert column.levels() == [1, 10**400]
