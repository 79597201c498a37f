"""Discovery: which products of features does a residual correlate with, beyond chance?

Descent finds a high-order interaction only where lower orders lead the way; a sum of pure products
of six features shows nothing at all to it. Here all products up to a bounded order are looked at,
in a pass for each cut of the train: with A the products of at most q functions left of the cut, B
those right of it,

    M = A^T diag(w residual) B,      N(0, v) entry by entry if there is nothing to find,

so that entries beyond sqrt(2 log(number of entries)) standard deviations are found terms. A term of
order 2 q is in sight of the cut that halves it; removing each found term lowers the noise for the
rest. Functions are centred and scaled to variance 1 first, so that M estimates coefficients, and v
is the same for all entries if columns are independent. Where they are not, or values are rare, an
entry is judged by its own variance (A^2)^T diag(w^2 residual^2) B^2: a product that a dozen samples
have cannot be beyond chance.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..batch import RankOneBatch
from ..tensor import TTTensor

MARGIN = 0.5  # standard deviations beyond the largest that chance gives
ROWS_AT_ONCE = 8192
FEW_ROWS = 5000  # up to which float64 is cheap enough
FEWEST = 15.5  # samples in which a function differs from its usual value: fewer show nothing
MOST_TERMS = 500
MOST_FUNCTIONS = 8192  # of which all pairs are looked at
MOST_WORK = 1e12  # multiplications, of all cuts; where there are more, pairs are looked at only
PASSES = 4  # over all pairs


@dataclass(frozen=True)
class Term:
    """A found product: functions by column and slot, its coefficient, and its significance."""

    slots: tuple[tuple[int, int], ...]
    coefficient: float
    z_score: float


class Screening:
    """Centred functions of a batch, to be searched for products.

    Parameters
    ----------
    batch : RankOneBatch
        With the constant in slot 0 of every mode.
    weights : array (m,)
        Of the samples: a weight of 2 counts as two samples.
    max_order : int
        The highest order of a product: at most half of it on each side of a cut.
    max_products : int
        Cuts with more pairs of products than this are searched to a lower order.
    """

    def __init__(self, batch: RankOneBatch, weights, max_order=6, max_products=2**20):
        self.shape, self.weights = batch.shape, weights
        self.dtype = np.float32 if len(batch) > FEW_ROWS else np.float64
        total = weights.sum()
        shares = weights / total
        self.max_order, self.max_products = max_order, max_products
        owner, slot, center, spread, functions = [], [], [], [], []
        for k in range(batch.ndim):
            if not batch.has_constant(k):
                raise ValueError(
                    f"Column {k} has no constant in slot 0: products of some of the columns "
                    "cannot be told from those of all."
                )
            if batch.is_coded(k):
                # Rare levels first, while they are sparse: there may be a great many of them.
                matrix = batch.matrix(k).tocsc()
                slots = 1 + np.flatnonzero(((matrix != 0).T @ weights)[1:] >= FEWEST)
                values = matrix[:, slots].toarray()
            else:
                slots, values = np.arange(1, batch.shape[k]), batch.vectors(k)[:, 1:]
            mean = shares @ values
            values = values - mean
            variance = shares @ values**2
            # 1 / kurtosis is about the share of the rarer value of a function with two.
            rare = variance**2 / np.maximum(shares @ values**4, 1e-300)
            kept = (np.sqrt(variance) > 1e-6 * np.abs(mean)) & (rare * total >= FEWEST)
            owner += [k] * kept.sum()
            slot += slots[kept].tolist()
            center += mean[kept].tolist()
            spread += np.sqrt(variance[kept]).tolist()
            functions.append((values[:, kept] / np.sqrt(variance[kept])).T.astype(self.dtype))
        self.owner, self.slot = np.array(owner, int), slot
        self.center, self.spread, self.functions = center, spread, np.vstack(functions)

    def cuts(self) -> list[int | None]:
        """The cuts of the train at which a term of the highest order can be halved.

        None stands for all pairs of functions, wherever they are. That is all there is where cuts
        have too many products, as those of wide tables have.
        """
        d, half = len(self.shape), self.max_order // 2
        cuts = list(range(min(half, d // 2) or 1, max(d - half, d // 2) + 1)) if d > 1 else [0]
        pairs = 0
        for cut in cuts:
            q = self._order(cut)
            pairs += math.prod(_n_products(len(side), q) for side in self._split(cut))
            if q < 2 or pairs * len(self.weights) > MOST_WORK:
                return [None] * PASSES if len(self.owner) <= MOST_FUNCTIONS else []
        return cuts

    def look(self, residual: np.ndarray, cut: int | None) -> list[Term]:
        """Terms at a cut that the residual correlates with, the most significant first."""
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
            # Each pair once, and none of functions of one column.
            M[self.owner[:, None] >= self.owner] = 0
        limit = np.sqrt(2 * np.log(max(2, M.size))) + MARGIN
        a, b = np.nonzero(np.abs(M) > limit * deviation)
        # Only now each entry's own variance, for the rows and columns that matter.
        (a, row), (b, column) = (np.unique(side, return_inverse=True) for side in (a, b))
        some = [left[j] for j in a], [right[j] for j in b]
        variance = self._correlate(*some, squares.astype(self.dtype), power=2)
        M = M[np.ix_(a, b)]
        z = M / np.sqrt(np.maximum(variance, np.finfo(self.dtype).tiny))
        found = [(i, j) for i, j in zip(row, column, strict=True) if abs(z[i, j]) > limit]
        found.sort(key=lambda at: -abs(z[at]))
        return [
            Term(
                tuple((int(self.owner[f]), self.slot[f]) for f in (*some[0][i], *some[1][j])),
                float(M[i, j]),
                float(z[i, j]),
            )
            for i, j in found[:MOST_TERMS]
            if len(some[0][i]) + len(some[1][j]) > 0
        ]

    def _correlate(self, left, right, g, power=1):
        """sum_s g_s A_s^power B_s^power, for the products A and B on both sides."""
        M = np.zeros((len(left), len(right)), self.dtype)
        for start in range(0, len(g), ROWS_AT_ONCE):
            part = slice(start, min(start + ROWS_AT_ONCE, len(g)))
            A, B = self._products(left, part) ** power, self._products(right, part) ** power
            M += (A * g[part]) @ B.T
        return M

    def _split(self, cut):
        """Functions on both sides of a cut; all on each, without one."""
        if cut is None:
            return [np.arange(len(self.owner))] * 2
        return [np.flatnonzero(self.owner < cut), np.flatnonzero(self.owner >= cut)]

    def _order(self, cut):
        """The highest order, on each side, that a cut can be searched to."""
        sides = [len(side) for side in self._split(cut)]
        for q in range(self.max_order // 2, 0, -1):
            # Functions of one column do not multiply: there are at most so many products.
            if math.prod(_n_products(size, q) for size in sides) <= 2 * self.max_products:
                return q
        return 0

    def _sides(self, cut):
        """Products of functions on both sides, as tuples of functions, the shorter ones first."""
        if cut is None:
            return [[(j,) for j in side] for side in self._split(cut)]
        q = self._order(cut)
        return [self._combinations(side, q) for side in self._split(cut)]

    def _combinations(self, functions, q):
        owner = self.owner.tolist()
        found, last = [()], [()]
        for _ in range(q):
            # Each product with one more function, of a column further on.
            last = [
                (*product, j)
                for product in last
                for j in functions.tolist()
                if not product or owner[j] > owner[product[-1]]
            ]
            found += last
        return found

    def _products(self, products, part):
        """The products at some samples, each from the one that lacks its last function."""
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
        """The most significant of some terms, as many as can be fitted together."""
        return sorted(terms, key=lambda term: -abs(term.z_score))[:MOST_TERMS]

    def values(self, terms: list[Term]) -> np.ndarray:
        """The products of centred functions at all samples, (m, number of terms)."""
        place = {at: j for j, at in enumerate(zip(self.owner.tolist(), self.slot, strict=True))}
        products = [tuple(place[slot] for slot in term.slots) for term in terms]
        return self._products(products, slice(0, len(self.weights))).T.astype(np.float64)

    def tensor(self, terms: list[Term], coefficients=None, eps: float = 1e-3) -> TTTensor:
        """The sum of some terms, as a tensor of the lowest ranks that keep it to `eps`.

        By default each has the coefficient that it was found with.
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


def sparse_cores(indices: np.ndarray, values: np.ndarray, shape, eps: float) -> list[np.ndarray]:
    """TT-SVD of a tensor with few entries that are not zero, from left to right.

    Parameters
    ----------
    indices : integer array of shape (j, d)
        Without repetition.
    values : array of shape (j,)
    eps : float
        Relative error that may be made, about.
    """
    # Entries by their suffixes, the indices from mode k on, which are numbered from right to left.
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
