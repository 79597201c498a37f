"""Where training starts: the linear model as a tensor, random linear models, Gaussian cores.

A sum over the columns has TT-rank 2 (paper, theorem 2): with c_k the vector that makes
``<c_k, phi_k(x)> = 1``, which is e_0 where slot 0 is the constant,

    f(x) = b + sum_k <w_k, phi_k(x_k)>   has the cores   [[c_k, w_k], [0, c_k]].
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, sparse
from scipy.sparse.linalg import LinearOperator, cg

from .batch import RankOneBatch
from .objective import Objective
from .tensor import TTTensor

FEW_COLUMNS, FEW_ROWS = 500, 2000  # up to which a linear model is solved by a matrix of that size
MOST_STEPS, MOST_CG_STEPS = 1000, 200
DENSE = 0.25  # share of entries that are not zero, from which on a matrix is kept dense


def additive(weights: list[np.ndarray], intercept, ones: list[np.ndarray]) -> TTTensor:
    """Return the tensor of ``intercept + sum_k <weights[k], phi_k>``.

    Parameters
    ----------
    weights : list of d arrays (n_k,), or (n_k, n_outputs)
    intercept : float, or array (n_outputs,)
        With several outputs the tensor has one more mode, and rank n_outputs + 1; else rank 2.
    ones : list of d arrays (n_k,)
        Vectors c_k with ``<c_k, phi_k(x)> = 1`` for all x.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import initialize, RankOneBatch
    >>> ones = [np.array([1.0, 0.0])] * 3
    >>> W = initialize.additive([np.array([0.0, w]) for w in (1.0, 2.0, 3.0)], 0.5, ones)
    >>> float(W.contract(RankOneBatch.from_columns([[1.0, 10.0, 100.0]]))[0])  # 321 + 0.5
    321.5
    """
    intercept = np.asarray(intercept, np.float64)
    n_outputs = intercept.size
    cores = []
    for k, (w, c) in enumerate(zip(weights, ones, strict=True)):
        # Rank 0: no column has been taken yet; rank 1 + j: one has, for output j.
        core = np.zeros((1 + n_outputs, len(c), 1 + n_outputs))
        for a in range(1 + n_outputs):
            core[a, :, a] = c
        core[0, :, 1:] = w.reshape(len(c), n_outputs)
        if k == 0:
            core[0, :, 1:] += np.outer(c, intercept)
        cores.append(core)
    cores[0] = cores[0][:1]
    if intercept.ndim == 0:
        cores[-1] = cores[-1][:, :, 1:]
    else:
        cores.append(np.vstack([np.zeros((1, n_outputs)), np.eye(n_outputs)])[:, :, None])
    return TTTensor(cores)


@dataclass(frozen=True, eq=False)
class Additive:
    """An additive model, ``intercept + sum_k <weights[k], phi_k>``; parameters as of `additive`."""

    weights: list[np.ndarray]
    intercept: np.ndarray
    ones: list[np.ndarray]

    def tensor(self) -> TTTensor:
        return additive(self.weights, self.intercept, self.ones)

    def orient(self, noise: TTTensor) -> TTTensor:
        """Give a random tensor the signs of this model, and the order of its outputs.

        If a column changes its sign, or the classes their names, so does this model, and with it
        the noise: training then starts at the same model again, in other units.
        """
        cores = noise.to_cores()
        weights = [w.reshape(len(w), -1) for w in self.weights]
        if self.intercept.ndim:
            norms = sum((w**2).sum(axis=0) for w in weights)
            order = np.lexsort((self.intercept, [float(f"{norm:.9g}") for norm in norms]))
            cores[-1] = cores[-1][:, np.argsort(order)]
            # Any combination will do that no symmetry makes zero.
            mixture, sign = np.cos(1 + np.arange(len(order)))[np.argsort(order)], 1
        else:
            # Centred targets have an intercept of rounding errors, whose sign means nothing.
            size = max(np.abs(w).max() for w in weights)
            sign = -1 if self.intercept < -1e-9 * size else 1
            mixture = np.array([sign])
        for core, w in zip(cores, weights, strict=False):
            core[:, 1:] *= np.where(w[1:] @ mixture < 0, -1, 1)[:, None]
        return sign * TTTensor(cores)


def linear(batch: RankOneBatch, objective: Objective) -> TTTensor:
    """Return the best additive model of an objective, with all of its modes' functions.

    The intercept is penalised as every other weight is, if only by alpha: it is an entry of W.
    """
    return fit_additive(batch, objective).tensor()


def fit_additive(batch: RankOneBatch, objective: Objective) -> Additive:
    """Return the best additive model of an objective, by its weights."""
    ones = [constant_of(batch, k) for k in range(batch.ndim)]
    free = [_free(c) for c in ones]
    found = fit_linear(_design(batch, free), objective)
    weights, start = [], 1
    for c, slots in zip(ones, free, strict=True):
        w = np.zeros((len(c), *found.shape[1:]))
        w[slots] = found[start : start + len(slots)]
        start += len(slots)
        weights.append(w)
    return Additive(weights, found[0], ones)


def _free(c):
    """Slots with a weight of their own: all but the constant one."""
    return np.arange(1, len(c)) if c[0] == 1 and not c[1:].any() else np.arange(len(c))


def _design(batch, free):
    """A column of ones and the functions of all modes side by side; dense if most are not zero."""
    m, n_columns = len(batch), 1 + sum(map(len, free))
    entries = sum(1 if batch.is_coded(k) else len(slots) for k, slots in enumerate(free))
    if entries < DENSE * n_columns:
        parts = [batch.matrix(k)[:, slots] for k, slots in enumerate(free)]
        return sparse.hstack([sparse.csr_array(np.ones((m, 1))), *parts], format="csr")
    design, start = np.ones((m, n_columns)), 1
    for k, slots in enumerate(free):
        design[:, start : start + len(slots)] = batch.vectors(k)[:, slots]
        start += len(slots)
    return design


# -- linear models -------------------------------------------------------------------------------


def fit_linear(design, objective: Objective) -> np.ndarray:
    """Return the w that minimises the objective of the predictions ``design @ w``, |W| = |w|.

    By Newton's method, to the last digits, so that equal problems have equal solutions; by L-BFGS
    where the loss has no curvature or couples the outputs. Either ends after a number of steps.

    Parameters
    ----------
    design : array or sparse array (m, columns)
    objective : Objective

    Returns
    -------
    array (columns,) or (columns, n_outputs)
    """
    if objective.loss.couples_outputs:
        return _fit_coupled(design, objective)
    if objective.y.ndim == 1:
        return _fit_output(design, objective)
    outputs = [objective.of_output(j) for j in range(objective.y.shape[1])]
    return np.stack([_fit_output(design, output) for output in outputs], axis=1)


def _fit_coupled(design, objective):
    shape = (design.shape[1], *objective.y.shape[1:])

    def value(w):
        f = (design @ w.reshape(shape)).reshape(-1)
        g = design.T @ objective.derivative(f).reshape(objective.y.shape)
        return objective.value(f, w @ w), g.reshape(-1) + objective.alpha * w

    start = np.zeros(shape).reshape(-1)
    options = {"gtol": 1e-6, "ftol": 1e-12, "maxiter": MOST_STEPS}
    found = optimize.minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(shape)


def _fit_output(design, objective):
    """Newton's method with backtracking, for one output."""
    m, n_columns = design.shape
    w, f, alpha = np.zeros(n_columns), np.zeros(m), objective.alpha
    if not objective.curvature(f).any():
        return _fit_coupled(design, objective)
    value, first_size, is_done = objective.value(f, 0.0), None, False
    system = _Newton(design)
    for _ in range(MOST_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = design.T @ objective.derivative(f) + alpha * w
            h = objective.curvature(f)
        size = np.linalg.norm(gradient)
        first_size = size if first_size is None else first_size
        if not 0 < size < np.inf or not np.isfinite(h).all():
            break
        step = system.solve(h, alpha, -gradient, min(0.1, np.sqrt(size / first_size)))
        slope, along = gradient @ step, design @ step
        # Near the minimum a full step squares what is left of the error: it is the last one.
        is_done = is_done or not -slope > 1e-13 * abs(value)
        t, lowest = 1.0, value + (1e-14 * abs(value) if is_done else 1e-4 * slope)
        while t > 1e-10:
            new_value = objective.value(f + t * along, np.sum((w + t * step) ** 2))
            if new_value <= lowest:
                break
            t, lowest = t / 2, value + 1e-4 * t / 2 * slope
        else:
            break
        w, f, value = w + t * step, f + t * along, new_value
        if is_done:
            break
    return w


class _Newton:
    """Solves ``(design^T diag(h) design + alpha) x = b``, in the way that suits the shape."""

    def __init__(self, design):
        self.design, (self.m, self.n_columns) = design, design.shape
        self.is_sparse = sparse.issparse(design)
        self.by_rows = self.n_columns > FEW_COLUMNS and self.m <= FEW_ROWS
        if self.by_rows:
            gram = design @ design.T
            self.gram = gram.toarray() if self.is_sparse else gram

    def solve(self, h, alpha, b, tolerance):
        # A share of the curvature stands in for a missing penalty.
        alpha = max(alpha, 1e-12 * float(h.sum()), 1e-300)
        if self.n_columns <= FEW_COLUMNS:
            return self._solve_columns(h, alpha, b)
        return self._solve_rows(h, alpha, b) if self.by_rows else self._cg(h, alpha, b, tolerance)

    def _solve_columns(self, h, alpha, b):
        if self.is_sparse:
            matrix = (self.design.T @ (sparse.diags_array(h) @ self.design)).toarray()
        else:
            matrix = self.design.T @ (h[:, None] * self.design)
        matrix[np.diag_indices(len(matrix))] += alpha
        return _solve_positive(matrix, b)

    def _solve_rows(self, h, alpha, b):
        """By the matrix inversion lemma, with a system as large as the number of rows."""
        root = np.sqrt(h)
        matrix = root[:, None] * self.gram * root
        matrix[np.diag_indices(len(matrix))] += alpha
        inner = _solve_positive(matrix, root * (self.design @ b))
        return (b - self.design.T @ (root * inner)) / alpha

    def _cg(self, h, alpha, b, tolerance):
        if self.is_sparse:
            diagonal = self.design.multiply(self.design).T @ h
        else:
            diagonal = np.einsum("sj,sj,s->j", self.design, self.design, h)

        def product(x):
            return self.design.T @ (h * (self.design @ x)) + alpha * x

        shape = (self.n_columns, self.n_columns)
        found, _ = cg(
            LinearOperator(shape, product), b, rtol=tolerance, maxiter=MOST_CG_STEPS,
            M=sparse.diags_array(1 / (diagonal + alpha)),
        )  # fmt: skip
        return found


def _solve_positive(matrix, b):
    try:
        return linalg.solve(matrix, b, assume_a="pos")
    except (linalg.LinAlgError, linalg.LinAlgWarning):
        return linalg.lstsq(matrix, b)[0]


def constant_of(batch: RankOneBatch, k: int) -> np.ndarray:
    """Return c with ``<c, phi_k(x)> = 1`` for the samples of a batch.

    Raises if the functions of mode k have no constant in their span: an additive model then is none
    of this feature map's.
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


def low_order(shape: tuple[int, ...], rank: int, scale: float, rng) -> TTTensor:
    """Return a random tensor whose entries fall off with the order of interaction, as scale^order.

    Cores ``G_k[0] = 1``, the others Gaussian.
    """
    cores = []
    for n in shape:
        core = scale * rng.standard_normal((rank, n, rank)) / rank**0.5
        core[:, 0] = np.eye(rank)
        cores.append(core)
    left, right = rng.standard_normal((2, rank)) / rank**0.5
    cores[0] = np.tensordot(left[None], cores[0], 1)
    cores[-1] = np.tensordot(cores[-1], right[:, None], 1)
    return TTTensor(cores)


def padded(W: TTTensor, rank: int, scale: float, rng, model: Additive | None = None) -> TTTensor:
    """Return W at the given rank: plus a small low-order tensor, or rounded if it has a higher one.

    The addition has `scale` times the norm of W (or the norm `scale`, if W is zero), and the
    orientation of an additive model, if there is one.
    """
    extra = rank - W.rank
    if extra <= 0:
        return W.round(rank=rank) if extra < 0 else W
    noise = low_order(W.shape, extra, 0.3, rng)
    if model is not None:
        noise = model.orient(noise)
    size = W.norm() or 1.0
    return W + noise * (scale * size / noise.norm())


def gaussian(shape: tuple[int, ...], rank: int, norm: float, rng) -> TTTensor:
    """Return a tensor of Gaussian cores, of the given norm."""
    W = TTTensor.random(shape, rank, rng)
    return W * (norm / W.norm())


def random_linear(batch: RankOneBatch, scale: float, rng) -> TTTensor:
    """Return an additive model of Gaussian weights, with predictions of about `scale`."""
    ones = [constant_of(batch, k) for k in range(batch.ndim)]
    weights = [rng.standard_normal(n) / batch.ndim**0.5 for n in batch.shape]
    for w, c in zip(weights, ones, strict=True):
        w[np.setdiff1d(np.arange(len(w)), _free(c))] = 0
    return additive([scale * w for w in weights], 0.0, ones)
