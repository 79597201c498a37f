"""Games between the columns: Shapley values and interaction indices, exact for all 2^d terms.

f is linear in the feature vector of each column. With a base vector per column, the value of a set
of columns is f with their own feature vectors and the base for all others; the Shapley value is the
integral over t of the derivative by one column, with ``base + t (phi - base)`` for the others.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from ..data.batch import RankOneBatch
from ..kernels import schedule
from ..kernels import shapley as kernels
from ..tt.core_arrays import to_slots
from ..tt.scaled_numbers import ldexp, scaled_product
from ..tt.tensor import TTTensor
from .decomposition import nodes_on_unit_interval

NODES_AT_ONCE = 8  # numbers in a vector register
MANY_COLUMNS, MOST_NODES = 208, 64  # with more columns, so many nodes are enough
ACCURATE = 1e-6  # relative difference to half as many nodes that is no error


class Game:
    """The game of one weight tensor: lines from a base to rows.

    Parameters
    ----------
    weights : TTTensor
        A mode for each column, and one more for the outputs if there are several.
    n_columns : int
    """

    def __init__(self, weights: TTTensor, n_columns: int):
        scaled = weights.scaled_train.normalized
        slots = [np.asarray(slot, np.float64) for slot in to_slots(scaled.train)]
        self.cores, self.exponent = slots[:n_columns], scaled.exponent
        last = slots[n_columns:]
        self.tails = last[0][:, :, 0].T.copy() if last else np.ones((1, 1))

    def values(self, batch: RankOneBatch, base: list[np.ndarray]) -> np.ndarray:
        """Return the Shapley values (m, d, outputs), in O(d^2 r^2) per row and output.

        With very many columns a quadrature of fewer nodes is used, in O(d r^2), and checked.
        """
        n = _enough_nodes(len(self.cores))
        found = self._run(kernels.shapley_values, 4, 1, batch, base, *nodes_on_unit_interval(n))
        if 2 * n < len(self.cores):
            half = nodes_on_unit_interval(n // 2)
            self._compare(found, self._run(kernels.shapley_values, 4, 1, batch, base, *half))
        return found

    def _compare(self, found, coarse):
        error = np.abs(found - coarse).max(initial=0)
        if not error <= ACCURATE * np.abs(found).max(initial=0):
            warnings.warn(
                f"Shapley values of {len(self.cores)} columns may be wrong by {error:.1g}: "
                f"{MOST_NODES} nodes are too few where very many columns act together.",
                RuntimeWarning,
                stacklevel=5,
            )

    def pairs(self, batch: RankOneBatch, base: list[np.ndarray], is_taylor: bool) -> np.ndarray:
        """Return the indices of pairs (m, d, d, outputs), in O(d^3 r^2) per row and output.

        The Shapley interaction index, or that of Shapley and Taylor, of order 2; 0 on the diagonal.
        """
        t, weights = nodes_on_unit_interval(_enough_nodes(len(self.cores)))
        if is_taylor:
            weights = weights * 2 * (1 - t)
        return self._run(kernels.shapley_pairs, 6, 2, batch, base, t, weights)

    def value_at(self, base: list[np.ndarray]) -> np.ndarray:
        """Return f at the base, (outputs,)."""
        v, exponent = np.ones((1, 1)), self.exponent
        for core, b in zip(self.cores, base, strict=True):
            v, power = scaled_product(v, np.tensordot(b, core, 1))
            exponent += power
        return ldexp((v @ self.tails)[0], exponent)

    def differences(
        self, batch: RankOneBatch, base: list[np.ndarray], columns: Sequence[int]
    ) -> np.ndarray:
        """Return f with ``phi - base`` for some columns and the base for others, (m, outputs)."""
        v, exponent = np.ones((len(batch), 1)), self.exponent
        for k, (core, b) in enumerate(zip(self.cores, base, strict=True)):
            if k in columns:
                v = np.einsum("sa,si,iab->sb", v, batch.vectors(k) - b, core, optimize=True)
                power = 0
            else:
                v, power = scaled_product(v, np.tensordot(b, core, 1))
            exponent += power
        return ldexp(v @ self.tails, exponent)

    def alone(self, batch: RankOneBatch, base: list[np.ndarray]) -> np.ndarray:
        """Return what each column changes on its own, (m, d, outputs)."""
        terms = [self.differences(batch, base, [k]) for k in range(len(self.cores))]
        return np.stack(terms, axis=1)

    def _run(self, kernel, n_vectors, order, batch, base, t, weights):
        lines, d, m = self._lines(batch, base), len(self.cores), len(batch)
        rank, n_outputs = int(lines.ranks.max()), self.tails.shape[1]
        out = np.zeros((m, *[d] * order, n_outputs))

        def run_rows(first, last):
            work = np.empty((d + n_vectors, rank, len(t)))
            powers, D = np.empty(d, np.int64), np.empty(len(lines.base))
            kernel(tuple(lines), t, weights, self.tails, work, powers, D, out, first, last)

        flops = 8.0 * m * len(lines.base) * len(t) * n_outputs * (d if order == 2 else 1)
        schedule.run(run_rows, m, flops)
        return ldexp(out, self.exponent)

    def _lines(self, batch, base):
        modes, m, d = batch.modes, len(batch), len(self.cores)
        averages, matrices = [], []
        codes, shares, numbers = np.zeros((m, d), np.int64), np.zeros((m, d)), []
        n_numbers = np.zeros(d, np.int64)
        for k, (core, b) in enumerate(zip(self.cores, base, strict=True)):
            M = np.tensordot(b, core, 1)
            averages.append(M)
            if modes.is_coded[k]:
                codes[:, k] = modes.stored(batch.arrays, m, k)[:, 0]
                matrices.append(np.tensordot(_vectors_of_codes(modes, k), core, 1) - M)
            elif modes.is_curve[k]:
                place = modes.stored(batch.arrays, m, k)[:, 0]
                codes[:, k] = place
                shares[:, k] = place - codes[:, k]
                matrices.append(np.tensordot(modes.tables[k], core, 1) - M)
            else:
                first = int(modes.has_constant[k] and b[0] == 1)  # the constants cancel
                part = batch.vectors(k)[:, first:] - b[first:]
                n_numbers[k] = part.shape[1]
                if n_numbers[k]:
                    numbers.append(part)
                    matrices.append(core[first:])
                else:  # the constant alone: one place, where nothing changes
                    matrices.append(np.zeros((1, *M.shape)))
        ranks = np.array([core.shape[1] for core in self.cores] + [self.cores[-1].shape[2]])
        return kernels.Lines(
            ranks, *_join(averages), *_join(matrices), n_numbers, codes, shares,
            np.ascontiguousarray(np.hstack(numbers)) if numbers else np.zeros((m, 0)),
            np.cumsum(n_numbers) - n_numbers,
        )  # fmt: skip


def _join(arrays):
    """Arrays as one flat array, and where each begins."""
    sizes = np.array([array.size for array in arrays])
    return np.concatenate([array.reshape(-1) for array in arrays]), np.cumsum(sizes) - sizes


def _vectors_of_codes(modes, k):
    codes = np.arange(modes.shape[k])[:, None]
    return modes.kind(k).vectors(codes, modes.shape[k], np.float64(modes.scales[k]))


def _enough_nodes(d):
    """A quadrature that is exact for polynomials of degree d - 1, in whole vector registers."""
    if d > MANY_COLUMNS:
        return MOST_NODES
    return -(-d // (2 * NODES_AT_ONCE)) * NODES_AT_ONCE
