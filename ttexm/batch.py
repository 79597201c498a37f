"""A batch of rank-1 tensors: what a tensor train is contracted with."""

import math
import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from . import device
from .device import resolve
from .kernels import blocks, workspace
from .kernels.layout import CATEGORY, INDEX, NUMERIC, VECTOR, Batch
from .shapes import (
    check_dtype,
    check_real,
    check_same_shape,
    check_shape,
    float_array,
    is_integer,
    plain_array,
)

MOST_CODES = 2**31 - 1  # codes are 32-bit integers


@dataclass(frozen=True, eq=False, repr=False)
class RankOneBatch:
    """m rank-1 tensors ``X_s = phi_{s,1} x .. x phi_{s,d}``, each given by d feature vectors.

    Build one from numeric columns, vectors, integer codes or indices, and put batches of different
    kinds side by side with `join`; feature maps make them from data. A batch is immutable and keeps
    its own copy of the data, in blocks of samples. A category costs one integer a sample,
    also if the mode has thousands of levels.

    What is computed with a batch is computed on its device. There the data are copied once, when
    they are first used; mini-batches ``batch[rows]`` are then taken on the device itself.

    Attributes
    ----------
    shape : tuple of int
        Sizes of the d modes.
    n_samples : int
    dtype : numpy.dtype
        float64 or float32.
    device : {"cpu", "cuda"}
        Of new batches the default: "cpu", or what the environment variable ``TTEXM_DEVICE`` says.
        See `to`.

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

    shape: tuple[int, ...]
    n_samples: int
    dtype: np.dtype
    device: str
    _part: tuple["RankOneBatch", np.ndarray] | None = None  # these rows of another batch

    @classmethod
    def _of(cls, shape, n_samples, batch: Batch, device: str) -> "RankOneBatch":
        """A batch of the host's arrays."""
        self = cls(shape, n_samples, batch.values.dtype, device)
        vars(self)["_batch"] = batch
        return self

    def __reduce__(self):
        return RankOneBatch._of, (self.shape, self.n_samples, self._batch, self.device)

    # -- construction --------------------------------------------------------------------------

    @classmethod
    def from_columns(cls, columns, dtype=None) -> "RankOneBatch":
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
        return cls._numeric(NUMERIC, columns, "columns", dtype)

    @classmethod
    def from_vectors(cls, vectors, dtype=None) -> "RankOneBatch":
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
        return cls._numeric(VECTOR, vectors, "vectors", dtype)

    @classmethod
    def from_codes(cls, codes, shape: Sequence[int], scale=1.0, dtype=np.float64) -> "RankOneBatch":
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
        return cls._coded(CATEGORY, codes, shape, scale, dtype, "codes")

    @classmethod
    def from_indices(cls, indices, shape: Sequence[int], dtype=np.float64) -> "RankOneBatch":
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
        return cls._coded(INDEX, indices, shape, 1.0, dtype, "indices")

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
        dtype = np.result_type(*(batch.dtype for batch in batches))
        batches = [batch.astype(dtype) for batch in batches]
        parts = [batch._batch for batch in batches]
        values, codes = zip(*map(blocks.views, parts, map(len, batches)), strict=True)
        columns, n_values, n_codes = [], 0, 0
        for part in parts:
            numeric = (part.kinds == NUMERIC) | (part.kinds == VECTOR)
            columns.append(part.columns + np.where(numeric, n_values, n_codes))
            n_values, n_codes = n_values + part.n_values, n_codes + part.n_codes
        joined = Batch(
            np.concatenate([part.kinds for part in parts]),
            np.concatenate(columns),
            np.concatenate([part.scales for part in parts]),
            blocks.side_by_side(values),
            blocks.side_by_side(codes),
            parts[0].stride,
            n_values,
            n_codes,
        )
        shape = sum((batch.shape for batch in batches), ())
        return cls._of(shape, len(batches[0]), joined, batches[0].device)

    @classmethod
    def _numeric(cls, kind, given, name, dtype):
        tables, widths = _tables(given, name, 1 if kind == NUMERIC else 2)
        dtype = check_dtype(np.result_type(*tables) if dtype is None else dtype)
        shape = check_shape((widths + 1 if kind == NUMERIC else widths).tolist())
        d, n_columns = len(widths), int(widths.sum())
        values, codes = blocks.pack(tables, dtype), np.empty(0, np.int32)
        batch = Batch(
            np.full(d, kind, np.int64), np.cumsum(widths) - widths, np.ones(d, dtype),
            values.reshape(-1), codes, values.shape[2], n_columns, 0,
        )  # fmt: skip
        return cls._of(shape, len(tables[0]), batch, resolve())

    @classmethod
    def _coded(cls, kind, codes, shape, scale, dtype, name):
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
        packed = blocks.pack([codes], np.int32)
        batch = Batch(
            np.full(d, kind, np.int64), np.arange(d), np.broadcast_to(scales, d).copy(),
            np.empty(0, dtype), packed.reshape(-1), packed.shape[2], 0, d,
        )  # fmt: skip
        return cls._of(shape, len(codes), batch, resolve())

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
            The same one for every call: data are not copied twice.

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> batch = RankOneBatch.from_columns([[5.0], [7.0]])
        >>> batch.to("cpu").device
        'cpu'
        """
        name = resolve(device)
        if name == self.device:
            return self
        key = name, self.dtype
        if key not in self._twins:
            twin = RankOneBatch._of(self.shape, self.n_samples, self._batch, name)
            vars(twin).update(extent=self.extent, _periods=self._periods)
            self._twins[key] = twin
        return self._twins[key]

    @cached_property
    def _twins(self) -> dict:
        """The same samples, by device and precision."""
        return {}

    @cached_property
    def _batch(self) -> Batch:
        """The data on the host: mini-batches of another device make them only if somebody asks."""
        whole, rows = self._part
        return device.get("cpu").take(whole._batch, len(whole), rows)

    @cached_property
    def _held(self):
        """The data as the device's kernels take them."""
        kernels = device.get(self.device)
        if self._part is None:
            return kernels.hold(self._batch, self.n_samples)
        whole, rows = self._part
        return kernels.take(whole._held, len(whole), rows)

    # -- what it is ----------------------------------------------------------------------------

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

    @cached_property
    def extent(self) -> tuple[int, int]:
        """Exponents of the largest and the smallest non-zero number in the feature vectors."""
        high, low = 1, 1
        for values in (self._batch.values, self._batch.scales):
            top, bottom = device.get("cpu").extent(values)
            high, low = max(high, top), min(low, bottom)
        return high, low

    def gradient_period(self, dtype) -> int:
        """Cores between range checks in orthogonal gauges, where |P_{k+1}| <= |P_k| |phi_k|."""
        if self._part is not None:
            return self._part[0].gradient_period(dtype)
        if dtype not in self._periods:
            numeric = np.isin(self._batch.kinds, (NUMERIC, VECTOR))
            widest = int(np.where(numeric, self.shape, 2).max())
            high, low = self.extent
            up = max(1, high) + math.log2(widest) / 2
            safe = self.ndim * up < np.finfo(dtype).maxexp * 3 / 4
            often = device.get("cpu").check_period(dtype, max(math.ceil(up), -low))
            self._periods[dtype] = self.ndim + 1 if safe else often
        return self._periods[dtype]

    @cached_property
    def _periods(self) -> dict:
        return {}

    def __array__(self, dtype=None, copy=None):
        raise TypeError("A RankOneBatch cannot be made an array: use batch.vectors(k).")

    def has_constant(self, k: int) -> bool:
        """Return whether slot 0 of mode k is the constant 1, for numeric columns and codes."""
        return int(self._batch.kinds[k]) in (NUMERIC, CATEGORY)

    def is_coded(self, k: int) -> bool:
        """Return whether mode k is kept as integers: one of codes or indices."""
        return int(self._batch.kinds[k]) in (CATEGORY, INDEX)

    def vectors(self, k: int) -> np.ndarray:
        """Return the feature vectors of mode k, of shape (m, n_k), written out.

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> RankOneBatch.from_columns([[5.0], [7.0]]).vectors(0)
        array([[1., 5.],
               [1., 7.]])
        """
        k = self._check_mode(k)
        kind, n, m = self._batch.kinds[k], self.shape[k], self.n_samples
        column, (values, codes) = self._batch.columns[k], blocks.views(self._batch, m)
        out = np.zeros((m, n), self.dtype)
        if kind in (NUMERIC, VECTOR):
            width = n - 1 if kind == NUMERIC else n
            out[:, n - width :] = blocks.unpack(values[:, column : column + width], m)
        else:
            slots = blocks.unpack(codes[:, column : column + 1], m)[:, 0]
            out[np.arange(m), slots] = self._batch.scales[k]
        if kind in (NUMERIC, CATEGORY):
            out[:, 0] = 1
        return out

    def _check_mode(self, k):
        if not is_integer(k) or not -self.ndim <= k < self.ndim:
            raise IndexError(f"k must be one of the {self.ndim} modes, got {k!r}.")
        return int(k)

    def matrix(self, k: int) -> sparse.csr_array:
        """Return the feature vectors of mode k as a sparse matrix of shape (m, n_k).

        Examples
        --------
        >>> from ttexm import RankOneBatch
        >>> RankOneBatch.from_codes([[700], [0]], shape=(1000,)).matrix(0).nnz
        3
        """
        k = self._check_mode(k)
        kind, n, m = self._batch.kinds[k], self.shape[k], self.n_samples
        if kind in (NUMERIC, VECTOR):
            return sparse.csr_array(self.vectors(k))
        codes = blocks.views(self._batch, m)[1][:, self._batch.columns[k]].reshape(-1)[:m]
        rows, scale = np.arange(m), self._batch.scales[k]
        one_hot = sparse.csr_array((np.full(m, scale), (rows, codes)), (m, n), self.dtype)
        if kind == INDEX:
            return one_hot
        first = sparse.csr_array((np.ones(m), (rows, np.zeros(m, int))), (m, n), self.dtype)
        known = sparse.diags_array((codes > 0).astype(self.dtype))
        return sparse.csr_array(first + known @ one_hot)

    def astype(self, dtype) -> "RankOneBatch":
        """Return the batch in another precision, or itself if it has that one."""
        dtype = check_dtype(dtype)
        if dtype == self.dtype:
            return self
        if self.device == "cpu":
            return self._cast(dtype)
        key = self.device, dtype
        if key not in self._twins:
            if self._part is None:
                self._twins[key] = self._cast(dtype)
            else:  # taken on the device, from the whole in that precision
                whole, rows = self._part
                self._twins[key] = whole.astype(dtype)[rows]
        return self._twins[key]

    def _cast(self, dtype):
        values = workspace.aligned(len(self._batch.values), dtype)
        values[:] = self._batch.values
        data = self._batch._replace(scales=self._batch.scales.astype(dtype), values=values)
        return RankOneBatch._of(self.shape, self.n_samples, data, self.device)

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
        factor = float(factor)
        data = self._batch
        factors = np.ones(data.n_values, self.dtype)
        for k in np.flatnonzero(data.kinds == NUMERIC):
            factors[data.columns[k] : data.columns[k] + self.shape[k] - 1] = factor
        values = workspace.aligned(len(data.values), self.dtype)
        given = blocks.views(data, self.n_samples)[0]
        np.multiply(given, factors[:, None], out=values.reshape(given.shape))
        scales = np.where(data.kinds == CATEGORY, factor * data.scales, data.scales)
        scaled = data._replace(values=values, scales=scales.astype(self.dtype))
        return RankOneBatch._of(self.shape, self.n_samples, scaled, self.device)

    def __getitem__(self, rows) -> "RankOneBatch":
        """Select samples: a slice, an integer array or a boolean mask."""
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
            data = device.get("cpu").take(self._batch, self.n_samples, chosen)
            batch = RankOneBatch._of(self.shape, len(chosen), data, "cpu")
        else:
            batch = RankOneBatch(self.shape, len(chosen), self.dtype, self.device, (self, chosen))
        # Bounds of the whole are bounds of the part: mini-batches need no pass of their own.
        vars(batch).update(extent=self.extent, _periods=self._periods)
        return batch


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
