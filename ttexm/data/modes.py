"""The modes of a batch: what a feature vector looks like, one class per kind of column.

Kernels branch on the kind of a mode; everything else asks the kind's class here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from ..kernels import packing
from ..kernels.layout import CATEGORY, CURVE, INDEX, NUMERIC, VECTOR, Batch
from ..kernels.runs import TablePanels, make_table_panels


class ModeKind(ABC):
    """What a feature vector phi of n slots is made of.

    Attributes
    ----------
    number : int
        What kernels call the kind.
    has_constant : bool
        Whether slot 0 is the constant 1.
    is_coded : bool
        Whether a sample is one integer, its code, instead of floating-point numbers.
    """

    number: int
    has_constant: bool
    is_coded: bool

    @abstractmethod
    def vectors(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> np.ndarray:
        """Return the feature vectors (m, n) of stored numbers (m, columns), written out.

        `given` is the scale of the mode or, for a curve, its table.
        """

    def matrix(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> sparse.csr_array:
        """Return the same as a sparse matrix."""
        return sparse.csr_array(self.vectors(columns, n, given))


class Numeric(ModeKind):
    """``(1, v_1, .., v_{n-1})``."""

    number, has_constant, is_coded = NUMERIC, True, False

    def vectors(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> np.ndarray:
        return np.hstack([np.ones((len(columns), 1), columns.dtype), columns])


class Vector(ModeKind):
    """``(v_0, .., v_{n-1})``."""

    number, has_constant, is_coded = VECTOR, False, False

    def vectors(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> np.ndarray:
        return columns.copy()


class Curve(ModeKind):
    """``(1 - t) P[c] + t P[c + 1]`` for the place c + t on the knots, P a table (knots, n).

    Piecewise linear functions of a column, whatever their number: a sample is one number. The first
    column of the table is 1. Without a table, P is the identity: hat functions.
    """

    number, has_constant, is_coded = CURVE, True, False

    def vectors(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> np.ndarray:
        given = given if np.ndim(given) else np.eye(n)  # without a table: hat functions
        place = columns[:, 0]
        c = place.astype(np.int64)
        t = (place - c)[:, None]
        return (1 - t) * given[c] + t * given[np.minimum(c + 1, len(given) - 1)]


class Index(ModeKind):
    """``scale e_c`` for the code c, where the scale is 1 for all batches that users make."""

    number, has_constant, is_coded = INDEX, False, True

    def vectors(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> np.ndarray:
        m = len(columns)
        out = np.zeros((m, n), type(given))
        out[np.arange(m), columns[:, 0]] = given
        return out

    def matrix(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> sparse.csr_array:
        m = len(columns)
        return sparse.csr_array((np.full(m, given), (np.arange(m), columns[:, 0])), (m, n))


class Category(Index):
    """``e_0 + scale e_c`` for the code c; ``e_0`` alone for code 0."""

    number, has_constant, is_coded = CATEGORY, True, True

    def vectors(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> np.ndarray:
        out = super().vectors(columns, n, given)
        out[:, 0] = 1
        return out

    def matrix(self, columns: np.ndarray, n: int, given: float | np.ndarray) -> sparse.csr_array:
        is_level = columns[:, 0] > 0
        levels = sparse.diags_array(is_level.astype(type(given))) @ super().matrix(
            columns, n, given
        )
        constant = super().matrix(np.zeros_like(columns), n, type(given)(1))
        return sparse.csr_array(constant + levels)


KINDS: tuple[ModeKind, ...] = tuple(
    sorted((Numeric(), Vector(), Category(), Index(), Curve()), key=lambda kind: kind.number)
)
_IS_CODED = np.array([kind.is_coded for kind in KINDS])
_HAS_CONSTANT = np.array([kind.has_constant for kind in KINDS])


class Modes:
    """The d modes of a batch, and where their numbers are stored. Immutable.

    Parameters
    ----------
    shape : tuple of int
        Numbers of slots.
    kinds : integer array (d,)
        Positions in `KINDS`.
    scales : array (d,) of float64
        Of the one-hot parts of coded modes; 1 for others.
    tables : tuple of d arrays (knots, n), or None
        Those of curves; None for other modes, or if there are no curves at all.

    Attributes
    ----------
    is_coded, has_constant, is_curve : boolean arrays (d,)
        Of the modes' kinds.
    n_columns : integer array (d,)
        How many numbers, or codes, each mode has per sample.
    columns : integer array (d,)
        The first column of each mode among the numbers, or among the codes.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        kinds: np.ndarray,
        scales: np.ndarray,
        tables: tuple[np.ndarray | None, ...] | None = None,
    ):
        self.shape, self.kinds, self.scales = shape, kinds, scales
        self.tables = (None,) * len(shape) if tables is None else tables
        self.has_tables = any(table is not None for table in self.tables)
        self.is_coded, self.has_constant = _IS_CODED[kinds], _HAS_CONSTANT[kinds]
        self.is_curve = kinds == CURVE
        n_functions = np.array(shape) - self.has_constant
        self.n_columns = np.where(self.is_coded | self.is_curve, 1, n_functions)
        widths = np.where(self.is_coded, 0, self.n_columns)
        numbers_before, codes_before = np.cumsum(widths) - widths, np.cumsum(self.is_coded)
        self.columns = np.where(self.is_coded, codes_before - 1, numbers_before)
        self._panels: dict = {}

    def __reduce__(self):
        return Modes, (self.shape, self.kinds, self.scales, self.tables)

    @classmethod
    def alike(cls, kind: type[ModeKind], shape: Sequence[int], scales: ArrayLike = 1.0) -> "Modes":
        """Return modes that are all of one kind."""
        d = len(shape)
        kinds = np.full(d, kind.number, np.int64)
        return cls(tuple(shape), kinds, np.broadcast_to(np.float64(scales), d).copy())

    @classmethod
    def join(cls, parts: Sequence["Modes"]) -> "Modes":
        """Return the modes of several batches side by side."""
        return cls(
            sum((part.shape for part in parts), ()),
            np.concatenate([part.kinds for part in parts]),
            np.concatenate([part.scales for part in parts]),
            sum((part.tables for part in parts), ()),
        )

    def kind(self, k: int) -> ModeKind:
        return KINDS[self.kinds[k]]

    def pack(
        self, values: Iterable[np.ndarray], codes: Iterable[np.ndarray], m: int, dtype: DTypeLike
    ) -> Batch:
        """Return the samples as kernels take them.

        Parameters
        ----------
        values, codes : iterables of arrays (m, columns)
            The numbers of all modes that have them, side by side, and the codes of the others.
        """
        n_codes = int(self.is_coded.sum())
        n_values = int(self.n_columns.sum()) - n_codes
        return self.laid_out(
            packing.pack(values, m, n_values, dtype), packing.pack(codes, m, n_codes, np.int32)
        )

    def laid_out(self, values: np.ndarray, codes: np.ndarray) -> Batch:
        """Return blocks (blocks, columns, stride) of numbers and codes as kernels take them."""
        return Batch(
            self.kinds, self.columns, self.scales.astype(values.dtype),
            values.reshape(-1), codes.reshape(-1), values.shape[2], values.shape[1], codes.shape[1],
        )  # fmt: skip

    def table_panels(self, dtype: DTypeLike) -> TablePanels:
        """Return the tables as sweeps take them; made once, for all batches with these modes."""
        if dtype not in self._panels:
            self._panels[dtype] = make_table_panels(self.tables, dtype)
        return self._panels[dtype]

    def stored(self, arrays: Batch, m: int, k: int) -> np.ndarray:
        """Return the numbers or codes of mode k, (m, columns)."""
        values, codes = packing.views(arrays, m)
        blocks, start = codes if self.is_coded[k] else values, self.columns[k]
        return packing.unpack(blocks[:, start : start + self.n_columns[k]], m)

    def vectors(
        self, arrays: Batch, m: int, k: int, as_matrix: bool = False
    ) -> np.ndarray | sparse.csr_array:
        """Return the feature vectors of mode k, (m, n), dense or as a sparse matrix."""
        kind, stored = self.kind(k), self.stored(arrays, m, k)
        given = arrays.scales[k] if self.tables[k] is None else self.tables[k]
        return (kind.matrix if as_matrix else kind.vectors)(stored, self.shape[k], given)

    def scaled(self, factor: float) -> "Modes":
        """Return the modes with levels of categories and functions of curves times a factor."""
        is_scaled = self.is_coded & self.has_constant
        tables = [
            table if table is None else np.hstack([table[:, :1], factor * table[:, 1:]])
            for table in self.tables
        ]
        scales = np.where(is_scaled, factor, 1) * self.scales
        return Modes(self.shape, self.kinds, scales, tuple(tables))

    def with_functions(self, scales: Sequence[np.ndarray | None]) -> "Modes":
        """Return the modes with fewer functions of curves, times scales.

        Parameters
        ----------
        scales : sequence of d arrays or None
            Of the first functions of a curve; the others are dropped. None leaves a mode as it is.
        """
        tables = [
            table if given is None else table[:, : len(given) + 1] * np.append(1.0, given)
            for table, given in zip(self.tables, scales, strict=True)
        ]
        shape = [
            n if table is None else table.shape[1]
            for n, table in zip(self.shape, tables, strict=True)
        ]
        return Modes(tuple(shape), self.kinds, self.scales, tuple(tables))

    @cached_property
    def on_knots(self) -> "Modes":
        """The modes with hat functions, one for each knot, as the functions of curves."""
        shape = [
            n if table is None else len(table)
            for n, table in zip(self.shape, self.tables, strict=True)
        ]
        return Modes(tuple(shape), self.kinds, self.scales)

    def written_out(self) -> "Modes":
        """Return the modes with numbers for curves."""
        return Modes(self.shape, np.where(self.is_curve, NUMERIC, self.kinds), self.scales)

    def factors(self, factor: float) -> np.ndarray:
        """Return the factor of each column of values: 1 for curves and modes without a constant."""
        is_number = ~self.is_coded
        is_scaled = self.has_constant & ~self.is_curve
        factors = np.where(is_scaled, factor, 1.0)[is_number]
        return np.repeat(factors, self.n_columns[is_number])
