"""Screening: find the products of features that correlate with the residual of a linear model.

Gradient methods and sweeps find a high-order interaction only if terms of lower order point to it.
A sum of pure products of six features has none. Screening tests all products up to a given order.
For each cut of the columns into a left and a right part, let A hold the products of at most q
functions of the left part, and B those of the right part. Without any interaction the entries of

    M = A^T diag(w residual) B

are about normal with mean 0 and variance v. Entries of more than ``sqrt(2 log(number of entries))``
standard deviations are therefore significant: they are the terms that are found. A term of order
2 q is found at the cut that halves it. Each term that is found and fitted lowers the residual, and
with it the noise of the others.

Functions are centred and scaled to variance 1 first, so that M estimates coefficients, and v is the
same for all entries if the columns are independent. If they are not, or if values are rare, the
variance of an entry is its own, ``(A^2)^T diag(w^2 residual^2) B^2``. It keeps products that differ
from zero in a dozen rows from being found.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...data.batch import RankOneBatch
from ...tt.tensor import TTTensor
from ..data import Data
from ..initialize import Additive
from ..linear import fit_linear
from .plan import PLAN, ScreeningPlan


def screen(
    data: Data, linear: Additive, ridge: float, max_order: int, plan: ScreeningPlan = PLAN.screening
) -> TTTensor | None:
    """Add the products that are found at each cut to the linear model.

    For one output, at order scale 1. After each cut, all products found so far are fitted together,
    with the penalty of the linear model: products of correlated columns depend on each other.

    Returns
    -------
    TTTensor or None
        None if no products were found, or if the rounded sum has a higher objective than the linear
        model.
    """
    has_constants = all(data.batch.has_constant(k) for k in range(data.batch.ndim))
    if data.n_outputs > 1 or not has_constants:
        return None
    if len(data) > plan.most_rows:
        # Keys are hashes, so that rows with the smallest keys are a random choice.
        data = data.take(np.sort(np.argsort(data.keys)[: plan.most_rows]))
    screening = Screening(data.batch, data.weights, max_order, plan)
    W, alpha = linear.tensor(), ridge / data.size
    objective, before = data.objective(alpha), data.predict(W, 1.0)
    f, terms, coefficients = before, [], None
    for cut in screening.cuts():
        # A Newton step with the mean curvature: correlations with it estimate coefficients.
        curvature = float(objective.curvature(f).sum())
        if not curvature > 0:
            return None
        residual = -objective.derivative(f) / objective.weights.reshape(-1) / curvature
        known = {term.slots for term in terms}
        new = [term for term in screening.find_terms(residual, cut) if term.slots not in known]
        if new:
            terms = screening.strongest([*terms, *new])
            products = screening.values(terms)
            coefficients = fit_linear(products, objective.with_offset(before))
            f = before + products @ coefficients
        elif cut is None:
            break  # the residual has not changed, and nor would the result of another pass
    if not terms:
        return None
    found = (W + screening.tensor(terms, coefficients)).round(eps=plan.rounding)
    return found if data.value(found, 1.0, alpha) < data.value(W, 1.0, alpha) else None


@dataclass(frozen=True)
class Term:
    """A product that was found: its (column, slot) pairs, coefficient and z-score."""

    slots: tuple[tuple[int, int], ...]
    coefficient: float
    z_score: float


class Screening:
    """The centred and scaled functions of a batch, and the products of them that are found.

    Parameters
    ----------
    batch : RankOneBatch
        With the constant in slot 0 of every mode.
    weights : array (m,)
        A sample of weight 2 counts as two samples.
    max_order : int
        Highest order of a product; at most half of it is on each side of a cut.
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
        self.dtype = np.float64 if len(batch) <= plan.double_precision_rows else np.float32
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
            variance = shares @ values**2
            # For a function with two values, 1 / kurtosis is about the share of the rarer one.
            rare = variance**2 / np.maximum(shares @ values**4, 1e-300)
            kept = (np.sqrt(variance) > 1e-6 * np.abs(mean)) & (rare * total >= plan.fewest_rows)
            owner += [k] * kept.sum()
            slot += slots[kept].tolist()
            center += mean[kept].tolist()
            spread += np.sqrt(variance[kept]).tolist()
            functions.append((values[:, kept] / np.sqrt(variance[kept])).T.astype(self.dtype))
        self.owner, self.slot = np.array(owner, int), slot
        self.center, self.spread, self.functions = center, spread, np.vstack(functions)

    def cuts(self) -> list[int | None]:
        """Return the cuts that can halve a term of the highest order.

        None stands for all pairs of functions of different columns. A wide table, whose cuts have
        too many products, has only this one, once for each pass.
        """
        d, half = len(self.shape), self.max_order // 2
        cuts = list(range(min(half, d // 2) or 1, max(d - half, d // 2) + 1)) if d > 1 else [0]
        n_passes = self.plan.n_passes if len(self.owner) <= self.plan.most_functions else 0
        pairs = 0
        for cut in cuts:
            q = self._order(cut)
            pairs += math.prod(_n_products(len(side), q) for side in self._split(cut))
            if q < 2 or pairs * len(self.weights) > self.plan.most_work:
                return [None] * n_passes
        return cuts

    def find_terms(self, residual: np.ndarray, cut: int | None) -> list[Term]:
        """Return the significant terms at a cut, the most significant first."""
        total = self.weights.sum()
        weights = self.weights / total
        g = (weights * residual).astype(self.dtype)
        left, right = self._sides(cut)
        M = self._correlate(left, right, g)
        squares = weights * residual**2 / total
        deviation = float(np.sqrt(squares.sum()))
        if deviation == 0:
            return []
        if cut is None:
            # Keep each pair once, and no pair of functions of one column.
            M[self.owner[:, None] >= self.owner] = 0
        limit = np.sqrt(2 * np.log(max(2, M.size))) + self.plan.margin
        a, b = np.nonzero(np.abs(M) > limit * deviation)
        # The variance of each entry is computed only for rows and columns that are left.
        (a, row), (b, column) = (np.unique(side, return_inverse=True) for side in (a, b))
        left, right = [left[j] for j in a], [right[j] for j in b]
        variance = self._correlate(left, right, squares.astype(self.dtype), power=2)
        M = M[np.ix_(a, b)]
        z = M / np.sqrt(np.maximum(variance, np.finfo(self.dtype).tiny))
        found = [(i, j) for i, j in zip(row, column, strict=True) if abs(z[i, j]) > limit]
        found.sort(key=lambda at: -abs(z[at]))
        return [
            Term(
                tuple((int(self.owner[f]), self.slot[f]) for f in (*left[i], *right[j])),
                float(M[i, j]),
                float(z[i, j]),
            )
            for i, j in found[: self.plan.most_terms]
            if len(left[i]) + len(right[j]) > 0
        ]

    def _correlate(self, left, right, g, power=1):
        """Return ``sum_s g_s A_s^power B_s^power`` for the products A and B of both sides."""
        M = np.zeros((len(left), len(right)), self.dtype)
        for start in range(0, len(g), self.plan.rows_at_once):
            part = slice(start, min(start + self.plan.rows_at_once, len(g)))
            A, B = self._products(left, part) ** power, self._products(right, part) ** power
            M += (A * g[part]) @ B.T
        return M

    def _split(self, cut):
        """Return the functions on both sides of a cut; all of them twice without a cut."""
        if cut is None:
            return [np.arange(len(self.owner))] * 2
        return [np.flatnonzero(self.owner < cut), np.flatnonzero(self.owner >= cut)]

    def _order(self, cut):
        """Return the highest order on each side for which a cut has few enough products."""
        sides = [len(side) for side in self._split(cut)]
        for q in range(self.max_order // 2, 0, -1):
            # An upper bound: products of functions of one column are counted, but do not occur.
            if math.prod(_n_products(size, q) for size in sides) <= 2 * self.plan.most_products:
                return q
        return 0

    def _sides(self, cut):
        """Return the products of both sides as tuples of functions, those of low order first."""
        if cut is None:
            return [[(j,) for j in side] for side in self._split(cut)]
        q = self._order(cut)
        return [self._combinations(side, q) for side in self._split(cut)]

    def _combinations(self, functions, q):
        owner = self.owner.tolist()
        found, last = [()], [()]
        for _ in range(q):
            # Extend each product by a function of a later column.
            last = [
                (*product, j)
                for product in last
                for j in functions.tolist()
                if not product or owner[j] > owner[product[-1]]
            ]
            found += last
        return found

    def _products(self, products, part):
        """Return the products at some samples, each as one of lower order times a function."""
        place = {product: j for j, product in enumerate(products)}
        out = np.ones((len(products), part.stop - part.start), self.dtype)
        for product, j in sorted(place.items(), key=lambda item: len(item[0])):
            if product[:-1] in place and product:
                np.multiply(out[place[product[:-1]]], self.functions[product[-1], part], out=out[j])
            else:
                for function in product:
                    out[j] *= self.functions[function, part]
        return out

    def strongest(self, terms: list[Term]) -> list[Term]:
        """Return the most significant terms, as many as are fitted together."""
        return sorted(terms, key=lambda term: -abs(term.z_score))[: self.plan.most_terms]

    def values(self, terms: list[Term]) -> np.ndarray:
        """Return the products of centred functions at all samples, (m, number of terms)."""
        place = {at: j for j, at in enumerate(zip(self.owner.tolist(), self.slot, strict=True))}
        products = [tuple(place[slot] for slot in term.slots) for term in terms]
        return self._products(products, slice(0, len(self.weights))).T.astype(np.float64)

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


def _n_products(n_functions, q):
    return sum(math.comb(n_functions, order) for order in range(q + 1))


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
