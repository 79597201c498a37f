"""Factorization machines of any order, to compare with.

f(x) = b + w.x + sum_{t=2}^{order} sum_{j=1}^{rank} A^t(P^t_j, x), where the ANOVA kernel A^t(p, x)
is the sum of p_{i1} x_{i1} .. p_{it} x_{it} over all i1 < .. < it (Blondel et al., 2016).
"""

import numpy as np
from numba import njit, prange
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin

N_PARTS = 4  # of a mini-batch, for threads


class FactorizationMachine(ClassifierMixin, BaseEstimator):
    """Logistic loss on two classes, by Adam on mini-batches, in float32.

    Parameters
    ----------
    order : int
        Columns of a product, at most.
    rank : int
        Numbers a column and order.
    alpha : float
        Weight of the penalty ``alpha/2 |P|^2`` on all parameters but the constant.
    n_passes, batch_size, learning_rate
        Of Adam.
    spread : float
        Standard deviation of the numbers to start from.
    random_state : int

    Notes
    -----
    A pass takes O(z rank order^2) for z entries that are not zero.
    """

    def __init__(
        self,
        order=2,
        rank=20,
        alpha=0.0,
        n_passes=15,
        batch_size=1000,
        learning_rate=0.01,
        spread=0.1,
        random_state=0,
    ):
        self.order = order
        self.rank = rank
        self.alpha = alpha
        self.n_passes = n_passes
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.spread = spread
        self.random_state = random_state

    def fit(self, X, y):
        X, rng = sparse.csr_array(X, dtype=np.float32), np.random.default_rng(self.random_state)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(f"y must have two classes, got {len(self.classes_)}.")
        signs = (2 * codes - 1).astype(np.float32)
        shape = self.order - 1, X.shape[1], self.rank
        self.intercept_, self.coef_ = np.zeros(1, np.float32), np.zeros(X.shape[1], np.float32)
        self.factors_ = rng.normal(0, self.spread, shape).astype(np.float32)
        adam = Adam([self.intercept_, self.coef_, self.factors_], self.learning_rate)
        for _ in range(self.n_passes):
            shuffled = rng.permutation(X.shape[0])
            for rows in np.array_split(shuffled, max(1, len(shuffled) // self.batch_size)):
                adam.step(self.gradients(X[rows], signs[rows]))
        return self

    def gradients(self, X, signs):
        """Derivatives of the mean loss and the penalty, by constant, w and P."""
        slopes = -signs * expit(-signs * self.decision_function(X)) / len(signs)
        parts = np.zeros((N_PARTS, *self.factors_.shape), self.factors_.dtype)
        add_gradient(X.indptr, X.indices, X.data, self.factors_, slopes, parts)
        return [
            np.array([slopes.sum()]),
            X.T @ slopes + self.alpha * self.coef_,
            parts.sum(axis=0) + self.alpha * self.factors_,
        ]

    def decision_function(self, X):
        X = sparse.csr_array(X, dtype=self.coef_.dtype)
        f = X @ self.coef_ + self.intercept_
        add_anova(X.indptr, X.indices, X.data, self.factors_, f)
        return f

    def predict_proba(self, X):
        p = expit(self.decision_function(X))
        return np.stack([1 - p, p], axis=1)

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


class Adam:
    """Kingma and Ba 2015, on arrays in place."""

    def __init__(self, parameters, rate):
        self.parameters, self.rate, self.n_steps = parameters, rate, 0
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]

    def step(self, gradients):
        self.n_steps += 1
        for p, g, (mean, square) in zip(self.parameters, gradients, self.moments, strict=True):
            mean += 0.1 * (g - mean)
            square += 0.001 * (g * g - square)
            root = np.sqrt(square / (1 - 0.999**self.n_steps)) + 1e-8
            p -= self.rate * mean / (1 - 0.9**self.n_steps) / root


@njit(parallel=True, fastmath=True)
def add_anova(starts, columns, values, P, f):
    """f_s += sum_t sum_j A^t(P^t_j, x_s), where P[0] is P^2."""
    m, (n_orders, _, rank) = len(f), P.shape
    for part in prange(N_PARTS):
        a = np.zeros((n_orders + 2, rank), P.dtype)
        for s in range(part * m // N_PARTS, (part + 1) * m // N_PARTS):
            for k in range(n_orders):
                order = k + 2
                a[1:] = 0
                a[0] = 1
                for z in range(starts[s], starts[s + 1]):
                    for t in range(order, 0, -1):
                        for j in range(rank):
                            a[t, j] += values[z] * P[k, columns[z], j] * a[t - 1, j]
                f[s] += a[order].sum()


@njit(parallel=True, fastmath=True)
def add_gradient(starts, columns, values, P, slopes, parts):
    """parts[c] += sum_s slope_s d f_s / d P over the rows of part c: the recursion, backwards."""
    m, (n_orders, _, rank) = len(slopes), P.shape
    longest = np.max(starts[1:] - starts[:-1])
    for part in prange(N_PARTS):
        a = np.zeros((longest + 1, n_orders + 2, rank), P.dtype)
        g = np.zeros((n_orders + 2, rank), P.dtype)
        a[:, 0] = 1
        for s in range(part * m // N_PARTS, (part + 1) * m // N_PARTS):
            n = starts[s + 1] - starts[s]
            for k in range(n_orders):
                order = k + 2
                for i in range(n):
                    x, column = values[starts[s] + i], columns[starts[s] + i]
                    for t in range(1, order + 1):
                        for j in range(rank):
                            a[i + 1, t, j] = a[i, t, j] + x * P[k, column, j] * a[i, t - 1, j]
                g[:order] = 0
                g[order] = slopes[s]
                for i in range(n - 1, -1, -1):
                    x, column = values[starts[s] + i], columns[starts[s] + i]
                    for t in range(1, order + 1):
                        for j in range(rank):
                            parts[part, k, column, j] += x * g[t, j] * a[i, t - 1, j]
                            g[t - 1, j] += x * P[k, column, j] * g[t, j]
