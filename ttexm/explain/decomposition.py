"""The functional ANOVA of a model: one term for each set of columns, and its variance.

With independent columns that are distributed as in training, the raw prediction is a sum of terms,

    f = sum_S f_S,    f_S(x) = <W, psi_1 x .. x psi_d>,    psi_k = phi_k - m_k for k in S, else m_k,

m_k the mean of the feature vector phi_k. Terms have mean 0 (but for the empty set) and are
uncorrelated. With the covariance C_k = L_k L_k^T of phi_k, and

    A_k = sum_i m_k[i] G_k[i],    B_k[q] = sum_i L_k[i, q] G_k[i],

the variance of f_S is the sum of the squared entries of the train with the cores [A_k, B_k] where
slot 0 is taken for the columns that are not in S, and any other slot for those that are. So all
sums over sets of columns are sums over squared entries of one tensor train.
"""

from functools import cached_property

import numpy as np

from ..data.moments import Moments
from ..tt.core_arrays import from_slots, to_slots
from ..tt.scaled_numbers import extract_power
from ..tt.scaled_train import ScaledTrain
from ..tt.tensor import TTTensor


class Squares:
    """Sums of squared entries of a train, over the sets of columns that are not at slot 0.

    Variances of terms, for the train of the module's docstring; or squared weights, for the weights
    themselves. With several outputs, the last mode, the squares are summed over them.

    Parameters
    ----------
    train : ScaledTrain
    n_columns : int

    Attributes
    ----------
    exponent : int
        All results are to be multiplied by ``4^exponent``.
    outside, inside : lists of arrays (r0, r1) and (q, r0, r1)
        Slot 0 of each core, for columns that are not in a set, and the others. All cores but the
        first are right-orthogonal.
    """

    def __init__(self, train: ScaledTrain, n_columns: int):
        # In this gauge the squared norm of the first cores is the sum over all that follows.
        gauged = TTTensor.from_train(train).orthogonalize(0).scaled_train
        cores = to_slots(gauged.train)
        cores[0], power = extract_power(cores[0])  # its squares stay in the range of floats
        self.exponent = gauged.exponent + power
        has_outputs = len(cores) > n_columns
        self.tail = cores[n_columns][:, :, 0].T if has_outputs else np.ones((1, 1))
        self.outside = [core[0] for core in cores[:n_columns]]
        self.inside = [core[1:] for core in cores[:n_columns]]

    @property
    def cores(self) -> list[np.ndarray]:
        """The cores (1 + q, r0, r1) of the columns."""
        return [
            np.concatenate([A[None], B]) for A, B in zip(self.outside, self.inside, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.outside)

    @cached_property
    def _left_outside(self):
        """The product of the averages before each column, (1, r)."""
        products = [np.ones((1, 1))]
        for A in self.outside:
            products.append(products[-1] @ A)
        return products

    @cached_property
    def _right_outside(self):
        """The product of the averages from each column on, (r, outputs)."""
        products = [self.tail]
        for A in reversed(self.outside):
            products.append(A @ products[-1])
        return products[::-1]

    def of_set(self, columns: tuple[int, ...]) -> float:
        """Return that of one set of columns, in O(d n r^3)."""
        gram = np.ones((1, 1))
        for k, (A, B) in enumerate(zip(self.outside, self.inside, strict=True)):
            gram = carry(B, gram) if k in columns else A.T @ gram @ A
        return float(np.sum(self.tail * (gram @ self.tail)))

    def first(self) -> np.ndarray:
        """Return those of each column alone, (d,), in O(d n r^2)."""
        found = [
            np.sum((left @ B @ right) ** 2)
            for left, B, right in zip(
                self._left_outside[:-1], self.inside, self._right_outside[1:], strict=True
            )
        ]
        return np.array(found)

    def total(self) -> float:
        """Return the sum over all sets but the empty one, in O(d n r^3).

        Sets with no column so far are kept apart from the others: a mean that is far larger than
        the variance costs no digits.
        """
        none, some = np.ones((1, 1)), np.zeros((1, 1))
        for A, B in zip(self.outside, self.inside, strict=True):
            some = A.T @ some @ A + carry(B, none + some)
            none = A.T @ none @ A
        return float(np.sum(self.tail * (some @ self.tail)))

    def totals(self) -> np.ndarray:
        """Return the sum over all sets with each column, (d,), in O(d n r^3)."""
        return self._weighted_totals(np.ones(1))[0]

    def shapley(self) -> np.ndarray:
        """Return the sums where a set is divided equally among its columns, (d,), in O(d^2 n r^3).

        A set of j columns counts 1/j for each of them, the integral of t^(j - 1): of a polynomial,
        for which the quadrature is exact.
        """
        nodes, weights = nodes_on_unit_interval((len(self) + 1) // 2)
        return weights @ self._weighted_totals(nodes)

    def _weighted_totals(self, t):
        """The sums over all sets with each column, where the others in them count t, (nodes, d)."""
        t, right = t[:, None, None], self.tail @ self.tail.T
        rights = [np.broadcast_to(right, (len(t), *right.shape))]
        for A, B in zip(self.outside[:0:-1], self.inside[:0:-1], strict=True):
            right = rights[-1]
            rights.append(A @ right @ A.T + t * carry_back(B, right))
        left, found = np.ones((len(t), 1, 1)), []
        for A, B, right in zip(self.outside, self.inside, reversed(rights), strict=True):
            within = carry(B, left)
            found.append(np.sum(within * right, axis=(1, 2)))
            left = A.T @ left @ A + t * within
        return np.stack(found, axis=1)

    def by_order(self) -> np.ndarray:
        """Return the sum over all sets of j columns, (d + 1,), in O(d^2 n r^3)."""
        gram = np.ones((1, 1, 1))  # of the sets of j of the columns so far
        for A, B in zip(self.outside, self.inside, strict=True):
            following = np.zeros((len(gram) + 1, A.shape[1], A.shape[1]))
            following[:-1] = A.T @ gram @ A
            following[1:] += carry(B, gram)
            gram = following
        return np.sum(self.tail * (gram @ self.tail), axis=(1, 2))


def variances(weights: TTTensor, moments: Moments) -> Squares:
    """Return the variances of all terms.

    Parameters
    ----------
    weights : TTTensor
        A mode for each column, and one more for the outputs if there are several.
    moments : Moments
        Of the columns.
    """
    scaled, d = weights.scaled_train.normalized, len(moments)
    slots = to_slots(scaled.train)
    whitened = [moments[k].whiten(np.asarray(slots[k], np.float64)) for k in range(d)]
    return Squares(ScaledTrain(from_slots([*whitened, *slots[d:]]), scaled.exponent), d)


def carry(B: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """``sum_q B[q]^T gram B[q]``, of one gram (r0, r0) or several (j, r0, r0)."""
    q, r0, r1 = B.shape
    # (j, r0, q r1), then a sum over q and r0 at once.
    half = gram @ B.transpose(1, 0, 2).reshape(r0, q * r1)
    half = half.reshape(*gram.shape[:-2], r0 * q, r1)
    return B.transpose(1, 0, 2).reshape(r0 * q, r1).T @ half


def carry_back(B: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """``sum_q B[q] gram B[q]^T``."""
    return carry(B.transpose(0, 2, 1), gram)


def nodes_on_unit_interval(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n nodes of Gauss and Legendre on [0, 1] and their weights: exact to degree 2 n - 1."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1) / 2, weights / 2
