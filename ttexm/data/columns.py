"""Columns of a table, as they are read: numbers, or codes of levels."""

import datetime
import functools
import itertools
import numbers
import reprlib
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from ..kernels.factorize import addresses, distinct

NUMBERS = (numbers.Real, Decimal, np.bool_)
DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
EXACT = 2**53  # integers of larger magnitude may round when they become floats
MISSING_TYPES = ("NAType", "NaTType", "MaskedConstant")  # by name: pandas may not be installed


@dataclass(frozen=True, eq=False)
class Column(ABC):
    """One column of a table.

    Parameters
    ----------
    name : str
    is_category : bool
        Whether the column holds strings, or its data frame says that it is a category.
    label : optional
        What the data frame calls the column, if that is not a string.
    """

    name: str
    is_category: bool
    label: Hashable

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, rows) -> "Column":
        """Return some rows of the column."""

    @abstractmethod
    def numbers(self) -> np.ndarray:
        """Return the column as finite floats, NaN where a value is missing; raise if it is not."""

    @abstractmethod
    def levels(self) -> list:
        """Return the distinct values in order, missing ones left out."""

    @abstractmethod
    def slots(self, known: dict) -> np.ndarray:
        """Return the number that each value has in `known`, 0 for missing and unknown ones."""

    @abstractmethod
    def has_any(self, known: dict) -> bool:
        """Return whether at least one value is in `known`."""

    @abstractmethod
    def kinds(self) -> set[str]:
        """Return the kinds of values there are: "numbers", "strings", "bytes", .."""

    @abstractmethod
    def example(self, kind: str) -> str:
        """Describe the first value of a kind: what it is, and in which row."""


@dataclass(frozen=True, eq=False)
class NumberColumn(Column):
    """A column of floats, NaN where a value is missing.

    Parameters
    ----------
    values : array (m,) of float64
    """

    values: np.ndarray

    def __len__(self):
        return len(self.values)

    def __getitem__(self, rows):
        return replace(self, values=self.values[rows])

    def numbers(self) -> np.ndarray:
        infinite = np.isinf(self.values)
        if infinite.any():
            row = int(infinite.argmax())
            raise ValueError(
                f"Column {self.name!r} must be finite, got {self.values[row]} in row {row} "
                "(infinity; a missing value is NaN)."
            )
        return self.values

    def levels(self) -> list:
        levels = np.unique(self.values[~np.isnan(self.values)]).tolist()
        return [int(x) if x.is_integer() and abs(x) < EXACT else x for x in levels]

    def slots(self, known: dict) -> np.ndarray:
        codes, firsts = distinct(self.values.view(np.uint64))
        return np.take(_look_up(self.values[firsts].tolist(), known), codes)

    def has_any(self, known: dict) -> bool:
        return bool(self.slots(known).any())

    def kinds(self) -> set[str]:
        return set() if np.isnan(self.values).all() else {"numbers"}

    def example(self, kind: str) -> str:
        row = int(np.isnan(self.values).argmin())
        return f"{self.values.item(row)!r} in row {row}"


@dataclass(frozen=True, eq=False)
class LevelColumn(Column):
    """A column of codes: strings, categories, numbers that floats would round, or a mixture.

    Parameters
    ----------
    codes : integer array (m,)
        Position of each value among the entries; -1 where it is missing.
    entries : sequence
        Distinct values, in any order; some may be in no row.
    """

    codes: np.ndarray
    entries: Sequence

    def __len__(self):
        return len(self.codes)

    def __getitem__(self, rows):
        return replace(self, codes=self.codes[rows])

    def _used(self):
        """The entries that are in some row."""
        is_used = np.zeros(len(self.entries) + 1, bool)
        is_used[self.codes] = True  # -1, for missing values, is the last one
        return [entry for entry, used in zip(self.entries, is_used[:-1], strict=True) if used]

    def numbers(self) -> np.ndarray:
        strange = self.kinds() - {"numbers"}
        if strange:
            kind = min(strange)
            raise TypeError(
                f"Column {self.name!r} must hold numbers, got {kind}: {self.example(kind)}. "
                "Convert it to numbers, or fit it as a category."
            )
        return to_number_column(self).numbers()

    def levels(self) -> list:
        levels = self._used()
        try:
            return sorted(levels)
        except (TypeError, ValueError):  # numbers and strings in one column
            return sorted(levels, key=lambda level: (_kind(type(level)), str(level)))

    def slots(self, known: dict) -> np.ndarray:
        found = np.append(_look_up(self.entries, known), np.int32(0))
        return np.take(found, self.codes)

    def has_any(self, known: dict) -> bool:
        is_known = np.array([entry in known for entry in self.entries] + [False])
        if is_known[:-1].all():
            return bool((self.codes >= 0).any())
        return bool(is_known[self.codes].any())

    def kinds(self) -> set[str]:
        kinds = kinds_of(self.entries)
        if len(kinds) > 1:
            return kinds_of(self._used())
        return kinds if (self.codes >= 0).any() else set()

    def example(self, kind: str) -> str:
        is_of_kind = np.array([_kind(type(entry)) == kind for entry in self.entries] + [False])
        row = int(is_of_kind[self.codes].argmax())
        return f"{reprlib.repr(self.entries[self.codes[row]])} in row {row}"


def _look_up(values, known):
    return np.array([known.get(value, 0) for value in values], np.int32)


def to_number_column(column: LevelColumn) -> NumberColumn:
    """Return a column whose entries are all numbers as one of floats."""
    try:
        values = np.array([*column.entries, np.nan], np.float64)
    except OverflowError:
        is_large = np.array([not fits_float(entry) for entry in column.entries] + [False])
        row = int(is_large[column.codes].argmax())
        raise ValueError(
            f"Column {column.name!r} must hold numbers of at most {sys.float_info.max:.2g}, got a "
            f"larger one in row {row}. Scale it down, or turn it into strings if it is a category."
        ) from None
    return NumberColumn(
        column.name, column.is_category, column.label, np.take(values, column.codes)
    )


def kinds_of(values: Iterable) -> set[str]:
    """Return the kinds of some values that are not missing: "numbers", "strings", "bytes", .."""
    return {_kind(type_) for type_ in set(map(type, values))}


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


def may_round(x: np.ndarray) -> bool:
    """Return whether floats that came from integers may be other numbers than these."""
    if not x.size or (x.min() > -EXACT and x.max() < EXACT):  # quick, if nothing is missing
        return False
    return bool((np.abs(x) >= EXACT).any())


def fits_float(value: object) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


# -- columns of Python objects --------------------------------------------------------------------


def object_column(
    name: str, values: np.ndarray, is_category: bool, label: Hashable = None
) -> Column:
    """Read an array of objects: strings, numbers and missing values of any type.

    Only distinct objects are looked at one by one.
    """
    codes, firsts = distinct(addresses(values))
    given = values[firsts].tolist()
    types = set(map(type, given))
    if not is_category and types <= {float, type(None)}:
        return NumberColumn(name, False, label, values.astype(np.float64))
    entries = given
    if not types <= {str, bytes, int, bool, type(None)}:
        entries = list(map(plain_entry, given))
        types = set(map(type, entries))
    strange = {type_ for type_ in types - {type(None)} if not is_entry_type(type_)}
    if strange:
        row = min(int(firsts[j]) for j, entry in enumerate(entries) if type(entry) in strange)
        refuse_entry(name, values[row], row)
    places, entries = number_equal(entries)
    column = LevelColumn(name, is_category, label, np.take(places, codes), entries)
    if is_category or kinds_of(entries) - {"numbers"}:
        return replace(column, is_category=True)
    as_numbers = to_number_column(column)
    holds_integers = any(isinstance(entry, int) for entry in entries)
    return column if holds_integers and may_round(as_numbers.values) else as_numbers


def number_equal(values: list) -> tuple[np.ndarray, list]:
    """Return the number of each value among the distinct ones, -1 for None, and those."""
    # One pass, as it costs most if no two cells of a column hold the same object: a value that is
    # not found gets the next number. None has the first one, 0.
    number = defaultdict(itertools.count(1).__next__, {None: 0})
    codes = np.fromiter(map(number.__getitem__, values), np.int32, len(values))
    return codes - 1, list(number)[1:]


def is_entry_type(type_: type) -> bool:
    """Return whether values of a type are strings or numbers; numpy takes time spans for them."""
    return issubclass(type_, (str, bytes, *NUMBERS)) and not issubclass(type_, DATES)


def is_missing_type(type_: type) -> bool:
    return type_ is type(None) or type_.__name__ in MISSING_TYPES


def plain_entry(value: object) -> object:
    """Return a value as Python's own string or number; None if it is missing."""
    type_ = type(value)
    if type_ is str:
        return value
    if is_missing_type(type_):
        return None
    if isinstance(value, Decimal):
        return None if value.is_nan() else float(value)
    if isinstance(value, (float, np.floating, *DATES)) and value != value:
        return None
    if isinstance(value, Fraction) and fits_float(value):
        return float(value)
    return value.item() if isinstance(value, (np.number, np.bool_)) else value


def refuse_entry(name: str, value: object, row: int) -> None:
    """Raise for an entry that is neither a string nor a number."""
    type_ = type(value)
    if issubclass(type_, DATES) or type_.__name__ == "Period":
        refuse_dates(name, type_.__name__)
    raise TypeError(
        f"Column {name!r} holds a value of type {type_.__name__} in row {row}, "
        f"{reprlib.repr(value)}; each entry of the argument must be a string or a real "
        "number. Convert the column first; strings are read as categories."
    )


def refuse_dates(name: str, dtype: object) -> None:
    raise TypeError(
        f"Column {name!r} holds dates or times ({dtype}); turn it into numbers (days since a date, "
        "hour of the day) or a category first."
    )
