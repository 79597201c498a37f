"""Screening: find the products of features that correlate with the residual of a linear model.

Gradient methods and sweeps find a high-order interaction only if terms of lower order point to it.
A sum of pure products of six features has none. Screening tests all products up to a given order.
For each column k, let A hold the products of at most q functions that end with one of column k, and
B those of the columns after it. Without any interaction the entries of

    M = A^T diag(w residual) B

are about normal with mean 0 and variance v. Entries of more than ``sqrt(2 log(number of entries))``
standard deviations are therefore significant: they are the terms that are found. A term of order
2 q is tested once, at the column in its middle. Terms that are found and fitted lower the residual,
and with it the noise of the others; then all products are tested again.

Functions are centred and scaled to variance 1 first, so that M estimates coefficients, and v is the
same for all entries if the columns are independent. If they are not, or if values are rare, the
variance of an entry is its own, ``(A^2)^T diag(w^2 residual^2) B^2``. It keeps products that differ
from zero in a dozen rows from being found.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from ...data.batch import RankOneBatch
from ...kernels import schedule
from ...tt.tensor import TTTensor
from ..bases import LINEAR
from ..data import Data
from ..initialize import Additive
from ..linear import fit_linear
from .plan import PLAN, ScreeningPlan


def screen(
    data: Data, linear: Additive, ridge: float, max_order: int, plan: ScreeningPlan = PLAN.screening
) -> TTTensor | None:
    """Add the products that are found to the linear model.

    For one output, of the columns themselves (the basis LINEAR), at order scale 1. After each pass,
    all products found so far are fitted together, with the penalty of the linear model: products of
    correlated columns depend on each other.

    Returns
    -------
    TTTensor or None
        None if no products were found, or if the rounded sum has a higher objective than the linear
        model.
    """
    has_constants = data.batch.modes.has_constant.all()
    if data.n_outputs > 1 or not has_constants:
        return None
    if len(data) > plan.most_rows:
        # Keys are hashes, so that rows with the smallest keys are a random choice.
        data = data.take(np.sort(np.argsort(data.keys)[: plan.most_rows]))
    screening = Screening(data.features(LINEAR).to("cpu"), data.weights, max_order, plan)
    W, alpha = linear.tensor(), ridge / data.size
    objective, before = data.objective(alpha), data.predict(W, LINEAR, 1.0)
    f, terms, coefficients = before, [], None
    for _ in range(plan.n_passes):
        # A Newton step with the mean curvature: correlations with it estimate coefficients.
        curvature = float(objective.curvature(f).sum())
        if not curvature > 0:
            return None
        residual = -objective.derivative(f) / objective.weights.reshape(-1) / curvature
        known = {term.slots for term in terms}
        new = [term for term in screening.find_terms(residual) if term.slots not in known]
        if not new:
            break
        terms = screening.strongest([*terms, *new])
        products = screening.values(terms)
        coefficients = fit_linear(products, objective.with_offset(before))
        f = before + products @ coefficients
        if _squares(new) < plan.least_share * _squares(terms):
            break
    if not terms:
        return None
    found = (W + screening.tensor(terms, coefficients)).round(eps=plan.rounding)
    is_lower = data.value(found, LINEAR, 1.0, alpha) < data.value(W, LINEAR, 1.0, alpha)
    return found if is_lower else None


@dataclass(frozen=True)
class Term:
    """A product that was found: its (column, slot) pairs, coefficient and z-score."""

    slots: tuple[tuple[int, int], ...]
    coefficient: float
    z_score: float


def _squares(terms):
    """About how much of the noise of all products is due to some terms."""
    return sum(term.z_score**2 for term in terms)


class Screening:
    """The centred and scaled functions of a batch, and the products of them that are found.

    Parameters
    ----------
    batch : RankOneBatch
        With the constant in slot 0 of every mode.
    weights : array (m,)
        A sample of weight 2 counts as two samples.
    max_order : int
        Highest order of a product; a lower even one, if there would be too many of them.
    plan : ScreeningPlan
    """

    def __init__(
        self,
        batch: RankOneBatch,
        weights: np.ndarray,
        max_order: int = 6,
        plan: ScreeningPlan = PLAN.screening,
    ):
        self.shape, self.weights = batch.shape, weights
        total = weights.sum()
        shares = weights / total
        self.max_order, self.plan = max_order, plan
        owner, slot, center, spread, functions = [], [], [], [], []
        for k in range(batch.ndim):
            if not batch.has_constant(k):
                raise ValueError(
                    f"Column {k} has no constant in slot 0, so that there are no products of "
                    "some of the columns; use constant=True."
                )
            if batch.is_coded(k):
                # Rare levels are dropped while the matrix is sparse: there may be very many.
                matrix = batch.matrix(k).tocsc()
                slots = 1 + np.flatnonzero(((matrix != 0).T @ weights)[1:] >= plan.fewest_rows)
                values = matrix[:, slots].toarray()
            else:
                slots, values = np.arange(1, batch.shape[k]), batch.vectors(k)[:, 1:]
            mean = shares @ values
            values = values - mean
            squares = values**2
            variance = shares @ squares
            # For a function with two values, 1 / kurtosis is about the share of the rarer one.
            rare = variance**2 / np.maximum(shares @ squares**2, 1e-300)
            kept = (np.sqrt(variance) > 1e-6 * np.abs(mean)) & (rare * total >= plan.fewest_rows)
            owner += [k] * kept.sum()
            slot += slots[kept].tolist()
            center += mean[kept].tolist()
            spread += np.sqrt(variance[kept]).tolist()
            functions.append((values[:, kept] / np.sqrt(variance[kept])).T.astype(np.float32))
        self.owner, self.slot = np.array(owner, int), slot
        self.center, self.spread, self.functions = center, spread, np.vstack(functions)

    @cached_property
    def _products(self) -> "_Products":
        """All products of at most q functions, for the largest q that the plan allows."""
        plan = self.plan
        for q in range(self.max_order // 2, 0, -1):
            limit = min(plan.most_products, plan.most_work / len(self.weights))
            if 2 * q > plan.usual_order:
                limit *= plan.patience
            found = _Products.up_to(q, self.owner, len(self.shape), limit)
            if found is not None:
                return found
        return _Products.up_to(0, self.owner, len(self.shape), np.inf)

    def find_terms(self, residual: np.ndarray) -> list[Term]:
        """Return the significant terms, the most significant first.

        O(number of tested products) per row.
        """
        total, products = self.weights.sum(), self._products
        weights = self.weights / total
        squares = weights * residual**2 / total
        deviation = float(np.sqrt(squares.sum()))
        if deviation == 0:
            return []
        limit = np.sqrt(2 * np.log(max(2, products.n_pairs))) + self.plan.margin
        pairs = products.pairs()
        correlations = self._correlate((weights * residual).astype(np.float32), pairs)
        # The variance of each entry is computed only for rows and columns that are left.
        places = [np.nonzero(np.abs(M) > limit * deviation) for M in correlations]
        kept = [
            (left[np.unique(i)], np.unique(j))
            for (left, _), (i, j) in zip(pairs, places, strict=True)
        ]
        variances = self._vary(squares.astype(np.float32), kept)
        found = {}
        for (left, right), (i, j), M, variance in zip(
            kept, places, correlations, variances, strict=True
        ):
            M = M[np.ix_(np.unique(i), np.unique(j))]
            z = M / np.sqrt(np.maximum(variance, np.finfo(np.float32).tiny))
            for a, b in np.argwhere((np.abs(z) > limit) & (np.abs(M) > limit * deviation)):
                functions = products.functions(left[a]) + products.functions(right[b])
                slots = tuple((int(self.owner[f]), self.slot[f]) for f in functions)
                found[slots] = Term(slots, float(M[a, b]), float(z[a, b]))
        return self.strongest(list(found.values()))

    def _correlate(self, g, pairs):
        """Return ``sum_s g_s A_s B_s`` for the products A and B of each of ``_Products.pairs``."""
        products, m = self._products, len(g)
        out = [np.zeros((len(left), n_right), np.float32) for left, n_right in pairs]
        step = max(1, min(m, self.plan.numbers_at_once // len(products)))
        for start in range(0, m, step):
            part = slice(start, min(start + step, m))
            values, weights = products.values(self.functions[:, part]), g[part]

            def add(first, last, values=values, weights=weights):
                for M, (left, n_right) in zip(out[first:last], pairs[first:last], strict=True):
                    M += (values[left] * weights) @ values[:n_right].T

            schedule.run(add, len(pairs), 2 * len(weights) * products.n_pairs)
        return out

    def _vary(self, squares, pairs):
        """Return ``sum_s squares_s A_s^2 B_s^2`` for a few products A and B of each pair."""
        products, known = self._products, {}

        def values(indices):
            for i in indices.tolist():
                if i not in known:
                    factors = self.functions[list(products.functions(i))]
                    known[i] = factors.prod(axis=0) ** 2 if len(factors) else np.ones_like(squares)
            return np.stack([known[i] for i in indices.tolist()])

        return [
            (values(left) * squares) @ values(right).T if len(left) else np.empty((0, 0))
            for left, right in pairs
        ]

    def strongest(self, terms: list[Term]) -> list[Term]:
        """Return the most significant terms, as many as are fitted together."""
        return sorted(terms, key=lambda term: -abs(term.z_score))[: self.plan.most_terms]

    def values(self, terms: list[Term]) -> np.ndarray:
        """Return the products of centred functions at all samples, (m, number of terms)."""
        place = {at: j for j, at in enumerate(zip(self.owner.tolist(), self.slot, strict=True))}
        columns = [
            self.functions[[place[slot] for slot in term.slots]].astype(float).prod(axis=0)
            for term in terms
        ]
        return np.stack(columns, axis=1)

    def tensor(
        self, terms: list[Term], coefficients: ArrayLike | None = None, eps: float = 1e-3
    ) -> TTTensor:
        """Return the sum of some terms, rounded with the relative error `eps`.

        The coefficients are by default those that the terms were found with.
        """
        if coefficients is None:
            coefficients = [term.coefficient for term in terms]
        d = len(self.shape)
        indices = np.zeros((len(terms), d), int)
        for row, term in zip(indices, terms, strict=True):
            for k, i in term.slots:
                row[k] = i
        unique, inverse = np.unique(indices, axis=0, return_inverse=True)
        sums = np.zeros(len(unique))
        np.add.at(sums, inverse.reshape(-1), coefficients)
        cores = sparse_cores(unique, sums, self.shape, eps)
        # From centred functions (x - center) / spread to the slots (1, x).
        scale = dict(
            zip(
                zip(self.owner.tolist(), self.slot, strict=True),
                zip(self.center, self.spread, strict=True),
                strict=True,
            )
        )
        for k, core in enumerate(cores):
            for i in range(1, self.shape[k]):
                center, spread = scale.get((k, i), (0.0, 1.0))
                core[:, i] /= spread
                core[:, 0] -= center * core[:, i]
        return TTTensor(cores)


class _Products:
    """Products of functions of different columns: none at all, then those of the last columns.

    Product i is function `first[i]` times product `rest[i]`, which consists of functions of later
    columns. Product 0 has no function.
    """

    def __init__(self, first, rest, ends, last):
        self.first, self.rest = first, rest
        self.ends = ends  # products of columns from k on are those before ends[k]
        self._left = [np.flatnonzero(last == k) for k in range(len(ends) - 1)]
        self.n_pairs = sum(len(left) * n_right for left, n_right in self.pairs())

    @classmethod
    def up_to(cls, q: int, owner: np.ndarray, d: int, limit: float) -> "_Products | None":
        """Return those of at most q functions; None if there are more pairs than the limit."""
        first, rest, order, last = (np.array([start]) for start in (-1, -1, 0, -1))
        ends, n_pairs = np.ones(d + 1, int), 0
        for k in range(d - 1, -1, -1):
            n, short = len(first), np.flatnonzero(order < q)
            ends_here = np.where(short == 0, k, last[short])
            for f in np.flatnonzero(owner == k):
                first = np.concatenate([first, np.full(len(short), f)])
                rest = np.concatenate([rest, short])
                order = np.concatenate([order, order[short] + 1])
                last = np.concatenate([last, ends_here])
            ends[k] = len(first)
            # A product that is added here is the left one of pairs with all after its last column.
            n_pairs += int(ends[last[n:] + 1].sum())
            if n_pairs > limit:
                return None
        return cls(first, rest, ends, last)

    def __len__(self):
        return len(self.first)

    def pairs(self) -> list[tuple[np.ndarray, int]]:
        """Return for each column the products that end there, and how many come after it.

        Those after it are the first ones in the list of all.
        """
        return list(zip(self._left, self.ends[1:].tolist(), strict=True))

    def functions(self, i: int) -> tuple[int, ...]:
        """Return the functions of a product."""
        found = []
        while i > 0:
            found.append(int(self.first[i]))
            i = self.rest[i]
        return tuple(found)

    def values(self, functions: np.ndarray) -> np.ndarray:
        """Return the products (n, m) of the values (functions, m)."""
        out = np.ones((len(self), functions.shape[1]), functions.dtype)
        ends = self.ends[::-1].tolist()
        for start, stop in pairwise(ends):
            np.multiply(
                functions[self.first[start:stop]], out[self.rest[start:stop]], out=out[start:stop]
            )
        return out


def sparse_cores(
    indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...], eps: float
) -> list[np.ndarray]:
    """Return the TT-SVD of a sparse tensor, computed from left to right.

    Parameters
    ----------
    indices : integer array of shape (j, d)
        Of the entries that are not zero; no entry is given twice.
    values : array of shape (j,)
    eps : float
        Relative error, about.
    """
    # Number the distinct suffixes (indices from mode k on) of the entries, from right to left.
    number, suffixes = np.zeros(len(values), int), []
    for k in range(len(shape) - 1, -1, -1):
        n_tails = number.max() + 1
        different, number = np.unique(indices[:, k] * n_tails + number, return_inverse=True)
        suffixes.append((*np.divmod(different, n_tails), n_tails))
    rest, cores = np.zeros((1, len(values))), []
    rest[0, number] = values
    tolerance = eps * np.linalg.norm(values) / max(1, len(shape) - 1) ** 0.5
    for n, (index, tail, n_tails) in zip(shape, suffixes[::-1], strict=True):
        r = len(rest)
        matrix = np.zeros((r, n, n_tails))
        matrix[:, index, tail] = rest
        u, sigma, vt = np.linalg.svd(matrix.reshape(r * n, -1), full_matrices=False)
        tails = np.sqrt(np.cumsum(sigma[::-1] ** 2)[::-1])
        kept = max(1, int(np.sum(tails > tolerance)))
        cores.append(u[:, :kept].reshape(r, n, kept))
        rest = sigma[:kept, None] * vt[:kept]
    cores[-1] = cores[-1] @ rest
    return cores
