"""A batch of rank-1 tensors: what a tensor train is contracted with."""

import math
import numbers
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from ..checks import (
    check_dtype,
    check_real,
    check_same_shape,
    check_shape,
    float_array,
    is_integer,
    plain_array,
)
from ..kernels import backend, host, packing
from ..kernels.layout import Batch, aligned
from ..kernels.runs import Runs, make_runs
from .modes import Category, Index, ModeKind, Modes, Numeric, Vector

MOST_CODES = 2**31 - 1  # codes are 32-bit integers


class RankOneBatch:
    """m rank-1 tensors, each given by d feature vectors.

    The tensor of sample s is ``X_s = phi_{s,1} x .. x phi_{s,d}``.

    Build one from numeric columns, vectors, integer codes or indices, and put batches of different
    kinds side by side with `join`; feature maps make them from data. A batch is immutable and keeps
    its own copy of the data, in blocks of samples. A category costs one integer per sample, however
    many levels it has.

    Computations with a batch run on its device. The data are copied there once, when they are first
    used; mini-batches ``batch[rows]`` are then taken on the device itself.

    Attributes
    ----------
    shape : tuple of int
        Sizes of the d modes.
    n_samples : int
    dtype : numpy.dtype
        float64 or float32.
    device : {"cpu", "cuda"}
        Where computations with the batch run; see `to`. New batches are on the default device:
        "cpu", unless the environment variable ``TTEXM_DEVICE`` names another one.
    modes : Modes
        What the modes are made of.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import RankOneBatch
    >>> numeric = RankOneBatch.from_columns([[0.5, 2.0], [1.5, 3.0]])  # (1, x) twice
    >>> color = RankOneBatch.from_codes([[1], [0]], shape=(4,))  # (1, one-hot of 3)
    >>> batch = RankOneBatch.join([numeric, color])
    >>> batch
    RankOneBatch(2 samples, shape (2, 2, 4), float64)
    >>> batch.vectors(2)
    array([[1., 1., 0., 0.],
           [1., 0., 0., 0.]])
    """

    def __init__(
        self,
        modes: Modes,
        n_samples: int,
        dtype: np.dtype,
        device: str,
        source: "_Packed | _Rows",
        bounds: "_Bounds | None" = None,
    ):
        """Set the fields; users call `from_columns` and the like, other code `from_arrays`."""
        self.modes, self.n_samples, self.dtype, self.device = modes, n_samples, dtype, device
        self._source = source
        self._bounds = _Bounds(modes, source) if bounds is None else bounds
        self._twins: dict = {}  # the same samples, by device and precision: see `to`

    @classmethod
    def from_arrays(
        cls, modes: Modes, arrays: Batch, n_samples: int, device: str | None = None
    ) -> "RankOneBatch":
        """Return the batch of samples that are packed as kernels take them, see `Modes.pack`."""
        source, device = _Packed(arrays, n_samples), backend.resolve(device)
        if device != "cpu" and modes.is_curve.any():
            return cls(modes, n_samples, arrays.values.dtype, "cpu", source).to(device)
        return cls(modes, n_samples, arrays.values.dtype, device, source)

    def __reduce__(self):
        # The device is not looked for here: there may be none where a stored batch is read.
        source = _Packed(self.arrays, self.n_samples)
        return RankOneBatch, (self.modes, self.n_samples, self.dtype, self.device, source)

    # -- construction --------------------------------------------------------------------------

    @classmethod
    def from_columns(cls, columns: ArrayLike, dtype: DTypeLike = None) -> "RankOneBatch":
        """Make modes ``(1, x_1, .., x_{n-1})`` of numeric columns.

        Parameters
        ----------
        columns : array-like of shape (m, d), or list of d arrays (m,) or (m, n_k - 1)
            One number per sample and mode; or, in a list, one array per mode, which may hold
            several functions of a column. Arrays are numpy's, pandas' and polars' Series and all
            else but plain lists and tuples: a list of those is one of m rows.
        dtype : optional
            float64 or float32; by default that of the columns.

        Notes
        -----
        NaN and inf are let through: contractions with such samples give NaN or inf.

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm import RankOneBatch
        >>> x = np.array([2.0, 3.0])
        >>> RankOneBatch.from_columns([np.stack([x, x**2], axis=1)]).vectors(0)
        array([[1., 2., 4.],
               [1., 3., 9.]])
        """
        return cls._numeric(Numeric(), columns, "columns", dtype)

    @classmethod
    def from_vectors(cls, vectors: ArrayLike, dtype: DTypeLike = None) -> "RankOneBatch":
        """Make modes of any vectors, without a constant in front.

        Parameters
        ----------
        vectors : array-like of shape (m, d, n), or list of d arrays of shape (m, n_k)
            Arrays in a list are as for `from_columns`: all else but plain lists and tuples.
        dtype : optional
            float64 or float32; by default that of the vectors.

        Notes
        -----
        NaN and inf are let through: contractions with such samples give NaN or inf.

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm import RankOneBatch
        >>> RankOneBatch.from_vectors([np.eye(3), np.ones((3, 2))]).shape
        (3, 2)
        """
        if not _is_list_of_arrays(vectors, "vectors"):
            array = float_array(vectors, "vectors")
            if array.ndim != 3 or array.shape[1] == 0:
                raise ValueError(
                    f"vectors must be of shape (m, d, n), or a list of d arrays (m, n_k), "
                    f"got {array.shape}."
                )
            vectors = list(np.moveaxis(array, 1, 0))
        return cls._numeric(Vector(), vectors, "vectors", dtype)

    @classmethod
    def from_codes(
        cls,
        codes: ArrayLike,
        shape: Sequence[int],
        scale: float | Sequence[float] = 1.0,
        dtype: DTypeLike = np.float64,
    ) -> "RankOneBatch":
        """Make modes ``e_0 + scale e_c`` of category codes c; code 0 stands for "none", ``e_0``.

        Parameters
        ----------
        codes : integer array of shape (m, d)
            ``0 <= codes[s, k] < shape[k]``.
        shape : sequence of d int
            Number of slots of each mode, the constant slot 0 included.
        scale : float or sequence of d float
            Weight of the one-hot part: any finite number.

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> RankOneBatch.from_codes([[2], [0]], shape=(3,), scale=0.5).vectors(0)
        array([[1. , 0. , 0.5],
               [1. , 0. , 0. ]])
        """
        return cls._coded(Category(), codes, shape, scale, dtype, "codes")

    @classmethod
    def from_indices(
        cls, indices: ArrayLike, shape: Sequence[int], dtype: DTypeLike = np.float64
    ) -> "RankOneBatch":
        """Make unit tensors, ``<W, X_s> = W[indices[s]]``: the entries of W, or of its gradient.

        Parameters
        ----------
        indices : integer array of shape (m, d)
            ``0 <= indices[s, k] < shape[k]``.

        Examples
        --------
        >>> from ttexm import RankOneBatch, TTTensor
        >>> W = TTTensor.random(shape=(4, 5), rank=2, seed=0)
        >>> bool(W.contract(RankOneBatch.from_indices([[3, 1]], W.shape))[0] == W[3, 1])
        True
        """
        return cls._coded(Index(), indices, shape, 1.0, dtype, "indices")

    @classmethod
    def join(cls, batches: Sequence["RankOneBatch"]) -> "RankOneBatch":
        """Put the modes of several batches, of the same samples, side by side.

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> x = RankOneBatch.from_columns([[1.0], [2.0]])
        >>> RankOneBatch.join([x, x, x]).shape
        (2, 2, 2)
        """
        if not isinstance(batches, (list, tuple, Iterator)):
            raise TypeError(f"join needs a list of batches, got {type(batches).__name__}.")
        batches = list(batches)
        if not batches:
            raise ValueError("join needs at least one batch, got none.")
        for i, batch in enumerate(batches):
            if not isinstance(batch, RankOneBatch):
                raise TypeError(f"batches[{i}] must be a RankOneBatch, got {type(batch).__name__}.")
            if len(batch) != len(batches[0]):
                raise ValueError(
                    f"All batches must have the same number of samples: batches[0] has "
                    f"{len(batches[0])}, batches[{i}] has {len(batch)}."
                )
            if batch.device != batches[0].device:
                raise ValueError(
                    f"All batches must be on one device: batches[0] is on {batches[0].device!r}, "
                    f"batches[{i}] on {batch.device!r}; bring one to the other's with `to`."
                )
        dtype, m = np.result_type(*(batch.dtype for batch in batches)), len(batches[0])
        parts = [packing.views(batch.astype(dtype).arrays, m) for batch in batches]
        modes = Modes.join([batch.modes for batch in batches])
        values, codes = (packing.side_by_side(blocks) for blocks in zip(*parts, strict=True))
        return cls.from_arrays(modes, modes.laid_out(values, codes), m, batches[0].device)

    @classmethod
    def _numeric(cls, kind: ModeKind, given, name, dtype):
        tables, widths = _tables(given, name, 1 if kind.has_constant else 2)
        dtype = check_dtype(np.result_type(*tables) if dtype is None else dtype)
        modes = Modes.alike(kind, check_shape((widths + kind.has_constant).tolist()))
        m = len(tables[0])
        return cls.from_arrays(modes, modes.pack(tables, [], m, dtype), m)

    @classmethod
    def _coded(cls, kind: ModeKind, codes, shape, scale, dtype, name):
        shape, dtype = check_shape(shape), check_dtype(dtype)
        d, codes = len(shape), plain_array(codes, name)
        if max(shape) > MOST_CODES:
            k = next(k for k, n in enumerate(shape) if n > MOST_CODES)
            raise ValueError(f"shape[{k}] must be at most 2^31 - 1, got {shape[k]}.")
        if codes.ndim != 2 or codes.shape[1] != d:
            raise ValueError(
                f"{name} must be of shape (m, {d}), one column per mode, got {codes.shape}."
            )
        if codes.dtype.kind not in "iu":
            raise TypeError(f"{name} must be integers, got {codes.dtype}.")
        if len(codes):
            low, high = codes.min(axis=0), codes.max(axis=0)
            for k in np.flatnonzero((low < 0) | (high >= shape)):
                value = low[k] if low[k] < 0 else high[k]
                row = int(np.flatnonzero(codes[:, k] == value)[0])
                raise IndexError(
                    f"{name}[{row}, {k}] = {value} is out of range for mode {k} of size {shape[k]}."
                )
        given = float_array(scale, "scale")
        if given.ndim > 1 or (given.ndim == 1 and len(given) != d):
            raise ValueError(f"scale must be a number or {d} of them, got shape {given.shape}.")
        with np.errstate(over="ignore"):
            scales = given.astype(dtype)
        if not np.isfinite(scales).all():
            raise ValueError(f"scale must be finite, also as {dtype}, got {scale!r}.")
        modes = Modes.alike(kind, shape, scales)
        return cls.from_arrays(modes, modes.pack([], [codes], len(codes), dtype), len(codes))

    # -- where it is ---------------------------------------------------------------------------

    def to(self, device: str | None) -> "RankOneBatch":
        """Return the batch on a device, or itself if it is there.

        Parameters
        ----------
        device : {"cpu", "cuda", "auto"} or None
            "auto" is "cuda" if there is a GPU that can be used, else "cpu"; None is the default
            device.

        Returns
        -------
        RankOneBatch
            Shares the host's arrays; they are copied to the device when they are first used there.
            The same one for every call: data are not copied twice. Curves are written out.

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> batch = RankOneBatch.from_columns([[5.0], [7.0]])
        >>> batch.to("cpu").device
        'cpu'
        """
        name = backend.resolve(device)
        if name == self.device:
            return self
        key = name, self.dtype
        if key not in self._twins:
            batch = self if name == "cpu" else self.written_out()
            source = _Packed(batch.arrays, self.n_samples)
            self._twins[key] = RankOneBatch(
                batch.modes, self.n_samples, self.dtype, name, source, batch._bounds
            )
        return self._twins[key]

    @property
    def arrays(self) -> Batch:
        """The samples in the memory of the host, as kernels take them."""
        return self._source.arrays

    def held(self, dtype: DTypeLike = None) -> Any:
        """Return the samples in a precision, as the kernels of the batch's device take them.

        Curves are written out: most kernels take numbers only. See `runs` for those that do not.
        """
        batch = self.written_out()
        if dtype is not None and dtype != batch.dtype:
            batch = batch.astype(dtype)
        return batch._held

    @cached_property
    def _held(self):
        return self._source.hold(self.device)

    def written_out(self) -> "RankOneBatch":
        """Return the batch with the functions of curves as numbers, or itself without curves."""
        return self._written_out if self.modes.is_curve.any() else self

    @cached_property
    def _written_out(self):
        modes, arrays, m = self.modes.written_out(), self.arrays, self.n_samples

        def stored(is_coded):
            for k in np.flatnonzero(self.modes.is_coded == is_coded):
                if self.modes.is_curve[k]:
                    yield self.vectors(k)[:, 1:]
                else:
                    yield self.modes.stored(arrays, m, k)

        packed = modes.pack(stored(False), stored(True), m, self.dtype)
        return RankOneBatch.from_arrays(modes, packed, m, self.device)

    @property
    def has_tables(self) -> bool:
        """Whether there are curves, each with a table of its functions at the knots."""
        return self.modes.has_tables

    def on_knots(self) -> "RankOneBatch":
        """Return the batch with the hat functions of the knots in the place of a curve's own."""
        # Of two hat functions that sum to 1, one is at least a half.
        return self._with_modes(self.modes.on_knots, (1, 0) if self.modes.is_curve.all() else None)

    def stored(self, dtype: DTypeLike) -> Any:
        """Return the samples as `held` does, but places on knots as they are."""
        is_plain = self.device == "cpu" and dtype == self.dtype
        return self._held if is_plain else self.held(dtype)

    def runs(self, dtype: DTypeLike) -> Runs:
        """Return the samples as sweeps on the CPU take them, see `kernels.runs`."""
        modes, dtype = self.modes, np.dtype(dtype)
        runs = self.to("cpu")._source.runs(modes, dtype)
        tables, first_table = modes.table_panels(dtype)
        return runs._replace(scales=modes.scales, tables=tables, first_table=first_table)

    def knots(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the knot or level of each sample and mode, and the share of the next one, (m, d).

        For batches of categories and curves.
        """
        return self._source.knots(self.modes)

    # -- what it is ----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the d modes."""
        return self.modes.shape

    @property
    def ndim(self) -> int:
        """Number of modes d."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        shape = f"shape {self.shape}" if self.ndim <= 12 else f"{self.ndim} modes"
        where = "" if self.device == "cpu" else f", on {self.device}"
        return f"RankOneBatch({self.n_samples} samples, {shape}, {self.dtype}{where})"

    @property
    def extent(self) -> tuple[int, int]:
        """Exponents of the largest and the smallest non-zero number in the feature vectors."""
        return self._written_numbers._bounds.extent

    def gradient_period(self, dtype: DTypeLike) -> int:
        """Return how many cores a gradient may pass between two checks of the range of products.

        In orthogonal gauges, where ``|P_{k+1}| <= |P_k| |phi_k|``.
        """
        return self._written_numbers._bounds.gradient_period(dtype)

    @property
    def _written_numbers(self):
        """The batch whose stored numbers are those of the feature vectors."""
        return self.written_out() if self.modes.has_tables else self

    def __array__(self, dtype=None, copy=None):
        raise TypeError("A RankOneBatch cannot be made an array: use batch.vectors(k).")

    def has_constant(self, k: int) -> bool:
        """Return whether slot 0 of mode k is the constant 1, for numeric columns and codes."""
        return bool(self.modes.has_constant[k])

    def is_coded(self, k: int) -> bool:
        """Return whether mode k is kept as integers: one of codes or indices."""
        return bool(self.modes.is_coded[k])

    def vectors(self, k: int) -> np.ndarray:
        """Return the feature vectors of mode k, of shape (m, n_k), written out.

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> RankOneBatch.from_columns([[5.0], [7.0]]).vectors(0)
        array([[1., 5.],
               [1., 7.]])
        """
        return self.modes.vectors(self.arrays, self.n_samples, self._mode(k))

    def matrix(self, k: int) -> sparse.csr_array:
        """Return the feature vectors of mode k as a sparse matrix of shape (m, n_k).

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> RankOneBatch.from_codes([[700], [0]], shape=(1000,)).matrix(0).nnz
        3
        """
        return self.modes.vectors(self.arrays, self.n_samples, self._mode(k), as_matrix=True)

    def _mode(self, k):
        if not is_integer(k) or not -self.ndim <= k < self.ndim:
            raise IndexError(f"k must be one of the {self.ndim} modes, got {k!r}.")
        return k

    # -- other batches -------------------------------------------------------------------------

    def astype(self, dtype: DTypeLike) -> "RankOneBatch":
        """Return the batch in another precision, or itself if it has that one."""
        dtype = check_dtype(dtype)
        if dtype == self.dtype:
            return self
        if self.modes.is_curve.any():  # places on the knots need all their digits
            return self.written_out().astype(dtype)
        if self.device == "cpu":
            return self._cast(dtype)
        key = self.device, dtype
        if key not in self._twins:
            self._twins[key] = self._source.cast(self, dtype)
        return self._twins[key]

    def _cast(self, dtype):
        values = aligned(len(self.arrays.values), dtype)
        values[:] = self.arrays.values
        arrays = self.arrays._replace(scales=self.arrays.scales.astype(dtype), values=values)
        return RankOneBatch.from_arrays(self.modes, arrays, self.n_samples, self.device)

    def scaled(self, factor: float) -> "RankOneBatch":
        """Return the batch with all but the constants of slot 0 multiplied by a factor.

        Modes without such a constant, of vectors and indices, stay as they are.

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> RankOneBatch.from_columns([[4.0], [8.0]]).scaled(0.5).vectors(0)
        array([[1., 2.],
               [1., 4.]])
        """
        check_real("factor", factor)
        if not abs(factor) <= np.finfo(self.dtype).max:
            raise ValueError(f"factor must be finite, also as {self.dtype}, got {factor!r}.")
        modes, factors = self.modes.scaled(float(factor)), self.modes.factors(float(factor))
        if (factors == 1).all():
            return self.with_modes(modes)
        given, codes = self._blocks()
        values = aligned(given.size, self.dtype).reshape(given.shape)
        np.multiply(given, factors.astype(self.dtype)[:, None], out=values)
        arrays = modes.laid_out(values, codes)
        return RankOneBatch.from_arrays(modes, arrays, self.n_samples, self.device)

    def with_modes(self, modes: Modes) -> "RankOneBatch":
        """Return the batch with other scales and tables of its modes; the samples are not copied.

        Parameters
        ----------
        modes : Modes
            Of the same kinds, made of those of the batch by `with_functions` or `scaled`.
        """
        return self._with_modes(modes)

    def _with_modes(self, modes, extent=None):
        scales = modes.scales.astype(self.dtype)
        if isinstance(self._source, _Packed):
            source = self._source.with_scales(scales)
        else:
            source = _Packed(self.arrays._replace(scales=scales), self.n_samples)
        bounds = _Bounds(modes, source, extent)
        return RankOneBatch(modes, self.n_samples, self.dtype, self.device, source, bounds)

    def _blocks(self):
        return packing.views(self.arrays, self.n_samples)

    def __getitem__(self, rows) -> "RankOneBatch":
        """Return some samples, given by a slice, an integer array or a boolean mask."""
        if not isinstance(rows, slice):
            given, rows = rows, plain_array(rows, "rows")
            # An empty list is one of floats to numpy.
            if rows.ndim != 1 or (rows.dtype.kind not in "biu" and rows.size):
                raise IndexError(
                    "A batch is indexed by a slice or a one-dimensional array of samples, "
                    f"integers or booleans, got {given!r}."
                )
            rows = rows if rows.size else rows.astype(int)
        chosen = np.arange(self.n_samples)[rows]
        if self.device == "cpu":
            source = _Packed(packing.select(self.arrays, self.n_samples, chosen), len(chosen))
        else:
            source = _Rows(self, chosen)
        # Bounds of all samples hold for some of them: mini-batches need no pass of their own.
        return RankOneBatch(self.modes, len(chosen), self.dtype, self.device, source, self._bounds)


class _Packed:
    """Samples in the memory of the host."""

    def __init__(self, arrays: Batch, n_samples: int, prepared: dict | None = None):
        self.arrays, self.n_samples = arrays, n_samples
        self._prepared = {} if prepared is None else prepared

    def __reduce__(self):
        return _Packed, (self.arrays, self.n_samples)

    def with_scales(self, scales):
        return _Packed(self.arrays._replace(scales=scales), self.n_samples, self._prepared)

    def runs(self, modes, dtype):
        """The samples in runs, sorted once for all scales and tables."""
        if dtype not in self._prepared:
            self._prepared[dtype] = make_runs(
                self.arrays, self.n_samples, modes.shape, dtype, modes.tables
            )
        return self._prepared[dtype]

    def knots(self, modes):
        if "knots" not in self._prepared:
            d = len(modes.shape)
            stored = [modes.stored(self.arrays, self.n_samples, k)[:, 0] for k in range(d)]
            codes = np.stack(stored, axis=1).astype(np.int32)
            shares = np.stack(stored, axis=1) - codes
            self._prepared["knots"] = codes, np.ascontiguousarray(shares, np.float64)
        return self._prepared["knots"]

    def hold(self, device):
        return backend.get(device).hold(self.arrays, self.n_samples)

    def cast(self, batch, dtype):
        return batch._cast(dtype)


class _Rows:
    """Some samples of a batch that is on a device: taken there, and on the host only if asked."""

    def __init__(self, whole: RankOneBatch, rows: np.ndarray):
        self.whole, self.rows = whole, rows

    @cached_property
    def arrays(self):
        return packing.select(self.whole.arrays, len(self.whole), self.rows)

    def hold(self, device):
        return backend.get(device).take(self.whole.held(), len(self.whole), self.rows)

    def cast(self, batch, dtype):
        return self.whole.astype(dtype)[self.rows]


class _Bounds:
    """How large and how small the numbers of a batch are: found when they are first asked for."""

    def __init__(self, modes: Modes, source, extent: tuple[int, int] | None = None):
        self.modes, self.source, self._known, self._periods = modes, source, extent, {}

    @cached_property
    def extent(self):
        if self._known is not None:
            return self._known
        high, low = 1, 1
        tables = [table.reshape(-1) for table in self.modes.tables if table is not None]
        for values in (self.source.arrays.values, self.source.arrays.scales, *tables):
            top, bottom = host.extent(values)
            high, low = max(high, top), min(low, bottom)
        return high, low

    def gradient_period(self, dtype):
        if dtype not in self._periods:
            d = len(self.modes.shape)
            widest = int(np.where(self.modes.is_coded, 2, self.modes.shape).max())
            high, low = self.extent
            up = max(1, high) + math.log2(widest) / 2
            safe = d * up < np.finfo(dtype).maxexp * 3 / 4
            often = host.check_period(dtype, max(math.ceil(up), -low))
            self._periods[dtype] = d + 1 if safe else often
        return self._periods[dtype]


def check_batch(batch: RankOneBatch, shape: tuple[int, ...], what: str = "The batch") -> None:
    """Raise unless it is a batch of this shape."""
    if not isinstance(batch, RankOneBatch):
        raise TypeError(f"{what} must be a RankOneBatch, got {type(batch).__name__}.")
    check_same_shape(batch.shape, shape, what)


def _is_list_of_arrays(given, name) -> bool:
    """Whether it is a list of arrays, one per mode; False for a table, or a list of its rows."""
    if not isinstance(given, (list, tuple)):
        return False
    arrays = [not isinstance(part, (list, tuple, numbers.Number)) for part in given]
    if any(arrays) and not all(arrays):
        one, other = arrays.index(True), arrays.index(False)
        raise TypeError(
            f"{name} must be a list of arrays, one per mode, or of rows, all of them lists: "
            f"{name}[{one}] is of type {type(given[one]).__name__}, {name}[{other}] of type "
            f"{type(given[other]).__name__}."
        )
    return any(arrays)


def _tables(given, name, least_dims):
    """The numbers as (m, c) arrays, one for all modes or one each, and each mode's columns."""
    if _is_list_of_arrays(given, name):
        tables = [float_array(table, f"{name}[{k}]") for k, table in enumerate(given)]
        for k, table in enumerate(tables):
            if not least_dims <= table.ndim <= 2:
                raise ValueError(f"{name}[{k}] must be of shape (m, ..), got {table.shape}.")
            if len(table) != len(tables[0]):
                raise ValueError(
                    f"All modes must have the same number of samples: {name}[0] has "
                    f"{len(tables[0])}, {name}[{k}] has {len(table)}."
                )
        tables = [table[:, None] if table.ndim == 1 else table for table in tables]
        return tables, np.array([table.shape[1] for table in tables], np.int64)
    matrix = float_array(given, name)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(
            f"{name} must be of shape (m, d), one column per mode, got {matrix.shape}."
        )
    return [matrix], np.ones(matrix.shape[1], np.int64)
