"""Design matrices of additive models: a column of ones, and the functions of all modes.

A design is not written out where a sample has few entries that are not zero: indicators of levels
make a sparse matrix, and curves are tables of knots.
"""

from functools import cached_property

import numpy as np
from scipy import sparse

from ..data.batch import RankOneBatch
from ..kernels import additive
from ..kernels.layout import CATEGORY, CURVE

DENSE = 0.25  # a matrix with at least this share of nonzero entries is kept dense
DENSE_FUNCTIONS = 12  # functions per column up to which a product of matrices beats one of knots
MANY_LEVELS = 100  # of a category, from which on its table is sparse


class AdditiveDesign:
    """The design of the additive models of a batch.

    Parameters
    ----------
    batch : RankOneBatch

    Attributes
    ----------
    ones : list of d arrays (n,)
        Vectors c with ``<c, phi> = 1`` for the feature vectors of each mode.
    slots : list of d arrays
        The slots that have a weight.
    matrix : array, sparse array or KnotDesign (m, columns)
        A column of ones, and these slots.
    """

    def __init__(self, batch: RankOneBatch):
        self.ones = [constant_of(batch, k) for k in range(batch.ndim)]
        # All but that of the constant, if there is one.
        self.slots = [np.arange(int(c[0] == 1 and not c[1:].any()), len(c)) for c in self.ones]
        self.matrix = _make_matrix(batch, self.slots)

    def predict(self, weights: list[np.ndarray], intercept: np.ndarray) -> np.ndarray:
        """Return the raw predictions of an additive model, see `initialize.Additive`."""
        return self.matrix @ self.join(weights, intercept)

    def join(self, weights: list[np.ndarray], intercept: np.ndarray) -> np.ndarray:
        """Return the weights of the columns, the transpose of `split`."""
        parts = [w[slots] for w, slots in zip(weights, self.slots, strict=True)]
        return np.concatenate([np.asarray(intercept)[None], *parts])

    def split(self, w: np.ndarray) -> list[np.ndarray]:
        """Return the weights (n,) or (n, n_outputs) of each mode, for those of the columns."""
        weights, at = [], 1
        for c, slots in zip(self.ones, self.slots, strict=True):
            part = np.zeros((len(c), *w.shape[1:]))
            part[slots] = w[at : at + len(slots)]
            at += len(slots)
            weights.append(part)
        return weights


def constant_of(batch: RankOneBatch, k: int) -> np.ndarray:
    """Return c with ``<c, phi_k(x)> = 1`` for the samples of a batch.

    Raises if the functions of mode k do not span a constant: there is no additive model then.
    """
    dense = None if batch.has_constant(k) else batch.vectors(k)
    if dense is None or (dense[:, 0] == 1).all():
        c = np.zeros(batch.shape[k])
        c[0] = 1
        return c
    c, *_ = np.linalg.lstsq(dense, np.ones(len(dense)), rcond=None)
    error = np.abs(dense @ c - 1).max()
    if error > 1e-6:
        raise ValueError(
            f"The functions of column {k} do not span a constant (the best combination misses 1 by "
            f"{error:.2g}), so that no linear model can be written with them; "
            "use constant=True, or init='gaussian'."
        )
    return c


def _make_matrix(batch, slots):
    """The chosen slots of each mode behind a column of ones: a matrix, or what acts like one."""
    is_known = np.isin(batch.modes.kinds, (CATEGORY, CURVE)).all()
    if is_known and all(chosen[0] == 1 for chosen in slots if len(chosen)):
        return KnotDesign(batch)
    m, n_columns = len(batch), 1 + sum(map(len, slots))
    entries = sum(1 if batch.is_coded(k) else len(chosen) for k, chosen in enumerate(slots))
    if entries < DENSE * n_columns:
        parts = [batch.matrix(k)[:, chosen] for k, chosen in enumerate(slots)]
        return sparse.hstack([sparse.csr_array(np.ones((m, 1))), *parts], format="csr")
    design, start = np.ones((m, n_columns)), 1
    for k, chosen in enumerate(slots):
        design[:, start : start + len(chosen)] = batch.vectors(k)[:, chosen]
        start += len(chosen)
    return design


class KnotDesign:
    """The design of categories and curves: ``design @ v``, ``design.T @ g``, ``design.gram(h)``.

    Parameters
    ----------
    batch : RankOneBatch
        Categories and curves only.

    Attributes
    ----------
    shape : tuple of int
        Samples, and one column for the constant and each other slot.
    """

    def __init__(self, batch: RankOneBatch):
        modes = batch.modes
        self._codes, self._shares = batch.knots()
        # From the functions of each mode to its knots.
        self._tables = [
            _table_of_levels(n, scale) if table is None else table[:, 1:]
            for table, scale, n in zip(modes.tables, modes.scales, modes.shape, strict=True)
        ]
        knots, functions = np.array([table.shape for table in self._tables]).T
        self._first = np.append(0, np.cumsum(knots))
        columns = np.append(1, 1 + np.cumsum(functions))
        self._blocks = [
            (slice(*columns[k : k + 2]), slice(*self._first[k : k + 2]), table)
            for k, table in enumerate(self._tables)
        ]
        self.shape = len(batch), int(columns[-1])
        self._last_gram = np.empty(0), np.empty((0, 0))

    @cached_property
    def _matrix(self) -> np.ndarray | None:
        """The design written out, if it has few columns."""
        n_columns = self.shape[1]
        if n_columns > 1 + DENSE_FUNCTIONS * len(self._tables):
            return None
        matrix = np.ones(self.shape)
        for k, (here, _, _) in enumerate(self._blocks):
            part = self._write_out(k)
            matrix[:, here] = part.toarray() if sparse.issparse(part) else part
        return matrix

    @cached_property
    def row_gram(self) -> np.ndarray:
        """``design @ design.T``, (m, m)."""
        constant = np.ones((self.shape[0], 1))
        dense, levels = [constant], []
        for part in map(self._write_out, range(len(self._tables))):
            (levels if sparse.issparse(part) else dense).append(part)
        matrix = np.hstack(dense)
        gram = matrix @ matrix.T
        for part in levels:
            gram += (part @ part.T).toarray()
        return gram

    def _write_out(self, k):
        """The functions of column k, sparse for a category of many levels."""
        table, codes, shares = self._tables[k], self._codes[:, k], self._shares[:, k, None]
        part = table[codes]
        if shares.any():
            following = np.minimum(codes + 1, len(table) - 1)
            part += shares * (table[following] - part)
        return part

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        if self._matrix is not None:
            return self._matrix @ v
        v = np.asarray(v, np.float64)
        columns = v.reshape(len(v), -1)
        tables = np.empty((self._first[-1], columns.shape[1]))
        for here, knots, table in self._blocks:
            tables[knots] = table @ columns[here]
        f = np.tile(columns[0], (self.shape[0], 1))
        additive.add_values(self._codes, self._shares, self._first, tables, f)
        return f.reshape(self.shape[0], *v.shape[1:])

    @property
    def T(self) -> "_Transposed":  # noqa: N802, as numpy has it
        return _Transposed(self)

    def pull(self, g: np.ndarray) -> np.ndarray:
        """Return ``design.T @ g``."""
        if self._matrix is not None:
            return self._matrix.T @ g
        columns = np.ascontiguousarray(g, np.float64).reshape(len(g), -1)
        sums = np.zeros((self._first[-1], columns.shape[1]))
        additive.add_gradient(self._codes, self._shares, self._first, columns, sums)
        out = np.empty((self.shape[1], columns.shape[1]))
        out[0] = columns.sum(axis=0)
        for here, knots, table in self._blocks:
            out[here] = table.T @ sums[knots]
        return out.reshape(self.shape[1], *g.shape[1:])

    def gram(self, h: np.ndarray) -> np.ndarray:
        """Return ``design.T @ diag(h) @ design``, in O(d^2) per sample.

        The last one is kept: for the squared loss, h is always the same.
        """
        if not np.array_equal(h, self._last_gram[0]):
            self._last_gram = h.copy(), self._make_gram(h)
        return self._last_gram[1].copy()

    def _make_gram(self, h):
        if self._matrix is not None:
            return self._matrix.T @ (h[:, None] * self._matrix)
        n_knots = self._first[-1]
        products = np.zeros((n_knots, n_knots))
        additive.add_products(self._codes, self._shares, self._first, h, products)
        half, out = np.empty((self.shape[1], n_knots)), np.empty((self.shape[1],) * 2)
        products = np.triu(products) + np.triu(products, 1).T
        for here, knots, table in self._blocks:
            half[here] = table.T @ products[knots]
        half[0] = products[: self._first[1]].sum(axis=0)  # hat functions and levels sum to 1
        for here, knots, table in self._blocks:
            out[:, here] = half[:, knots] @ table
        out[:, 0] = half[:, : self._first[1]].sum(axis=1)
        return out

    def diagonal(self, h: np.ndarray) -> np.ndarray:
        """Return about the diagonal of `gram`: curves are taken at the nearest knots."""
        sums = np.zeros((self._first[-1], 1))
        additive.add_gradient(self._codes, self._shares, self._first, h[:, None], sums)
        out = np.empty(self.shape[1])
        out[0] = h.sum()
        for here, knots, table in self._blocks:
            out[here] = (table**2).T @ sums[knots, 0]
        return out


def _table_of_levels(n, scale):
    """The functions (n, n - 1) of a category at its levels: all but the first have one."""
    if n <= MANY_LEVELS:
        return scale * np.eye(n)[:, 1:]
    return scale * sparse.eye_array(n, n - 1, k=-1, format="csr")


class _Transposed:
    def __init__(self, design: KnotDesign):
        self.design = design

    def __matmul__(self, g: np.ndarray) -> np.ndarray:
        return self.design.pull(g)
