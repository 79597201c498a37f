"""The modes of a batch: what a feature vector looks like, one class per kind of column.

Kernels branch on the kind of a mode; everything else asks the kind's class here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from ..kernels import packing
from ..kernels.layout import CATEGORY, INDEX, NUMERIC, VECTOR, Batch


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

    def n_columns(self, n: int) -> int:
        """Return how many numbers are stored per sample."""
        return 1 if self.is_coded else n - self.has_constant

    @abstractmethod
    def vectors(self, columns: np.ndarray, n: int, scale: float) -> np.ndarray:
        """Return the feature vectors (m, n) of stored numbers (m, n_columns), written out."""

    @abstractmethod
    def matrix(self, columns: np.ndarray, n: int, scale: float) -> sparse.csr_array:
        """Return the same as a sparse matrix."""


class Numeric(ModeKind):
    """``(1, v_1, .., v_{n-1})``."""

    number, has_constant, is_coded = NUMERIC, True, False

    def vectors(self, columns: np.ndarray, n: int, scale: float) -> np.ndarray:
        return np.hstack([np.ones((len(columns), 1), columns.dtype), columns])

    def matrix(self, columns: np.ndarray, n: int, scale: float) -> sparse.csr_array:
        return sparse.csr_array(self.vectors(columns, n, scale))


class Vector(ModeKind):
    """``(v_0, .., v_{n-1})``."""

    number, has_constant, is_coded = VECTOR, False, False

    def vectors(self, columns: np.ndarray, n: int, scale: float) -> np.ndarray:
        return columns.copy()

    def matrix(self, columns: np.ndarray, n: int, scale: float) -> sparse.csr_array:
        return sparse.csr_array(columns)


class Index(ModeKind):
    """``scale e_c`` for the code c, where the scale is 1 for all batches that users make."""

    number, has_constant, is_coded = INDEX, False, True

    def vectors(self, columns: np.ndarray, n: int, scale: float) -> np.ndarray:
        m = len(columns)
        out = np.zeros((m, n), type(scale))
        out[np.arange(m), columns[:, 0]] = scale
        return out

    def matrix(self, columns: np.ndarray, n: int, scale: float) -> sparse.csr_array:
        m = len(columns)
        return sparse.csr_array((np.full(m, scale), (np.arange(m), columns[:, 0])), (m, n))


class Category(Index):
    """``e_0 + scale e_c`` for the code c; ``e_0`` alone for code 0."""

    number, has_constant, is_coded = CATEGORY, True, True

    def vectors(self, columns: np.ndarray, n: int, scale: float) -> np.ndarray:
        out = super().vectors(columns, n, scale)
        out[:, 0] = 1
        return out

    def matrix(self, columns: np.ndarray, n: int, scale: float) -> sparse.csr_array:
        is_level = columns[:, 0] > 0
        levels = sparse.diags_array(is_level.astype(type(scale))) @ super().matrix(
            columns, n, scale
        )
        constant = super().matrix(np.zeros_like(columns), n, type(scale)(1))
        return sparse.csr_array(constant + levels)


KINDS: tuple[ModeKind, ...] = tuple(
    sorted((Numeric(), Vector(), Category(), Index()), key=lambda kind: kind.number)
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

    Attributes
    ----------
    is_coded, has_constant : boolean arrays (d,)
        Of the modes' kinds.
    n_columns : integer array (d,)
        How many numbers, or codes, each mode has per sample.
    columns : integer array (d,)
        The first column of each mode among the numbers, or among the codes.
    """

    def __init__(self, shape: tuple[int, ...], kinds: np.ndarray, scales: np.ndarray):
        self.shape, self.kinds, self.scales = shape, kinds, scales
        self.is_coded, self.has_constant = _IS_CODED[kinds], _HAS_CONSTANT[kinds]
        self.n_columns = np.where(self.is_coded, 1, np.array(shape) - self.has_constant)
        widths = np.where(self.is_coded, 0, self.n_columns)
        numbers_before, codes_before = np.cumsum(widths) - widths, np.cumsum(self.is_coded)
        self.columns = np.where(self.is_coded, codes_before - 1, numbers_before)

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

    def stored(self, arrays: Batch, m: int, k: int) -> np.ndarray:
        """Return the numbers or codes of mode k, (m, columns)."""
        values, codes = packing.views(arrays, m)
        blocks, start = codes if self.is_coded[k] else values, self.columns[k]
        return packing.unpack(blocks[:, start : start + self.n_columns[k]], m)

    def scaled(self, factor: float) -> "Modes":
        """Return the modes with the levels of categories multiplied by a factor."""
        is_scaled = self.is_coded & self.has_constant
        return Modes(self.shape, self.kinds, np.where(is_scaled, factor, 1) * self.scales)

    def factors(self, factor: float) -> np.ndarray:
        """Return the factor of each column of values: 1 where a mode has no constant."""
        is_number = ~self.is_coded
        factors = np.where(self.has_constant, factor, 1.0)[is_number]
        return np.repeat(factors, self.n_columns[is_number])
