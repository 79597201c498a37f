"""Linear models: the weights that minimise an objective of ``design @ w``."""

import numpy as np
from scipy import linalg, optimize, sparse
from scipy.sparse.linalg import LinearOperator, cg

from .designs import KnotDesign
from .objective import Objective

FEW_COLUMNS, FEW_ROWS = 600, 2000  # up to which Newton systems are solved by dense factors
MOST_STEPS, MOST_CG_STEPS = 1000, 200
EXACT = 1e-13  # decrease that the last Newton step promises, as a share of the objective


def fit_linear(
    design: np.ndarray | sparse.csr_array | KnotDesign,
    objective: Objective,
    start: np.ndarray | None = None,
    tolerance: float = EXACT,
) -> np.ndarray:
    """Return the w that minimises the objective of the predictions ``design @ w``, |W| = |w|.

    By default Newton's method finds it to the last digits, so that equal problems have equal
    solutions. L-BFGS is used if the loss has no curvature or couples the outputs.

    Parameters
    ----------
    design : array or sparse array (m, columns), or KnotDesign
    objective : Objective
    start : array like the result, optional
        Where to start; by default zero.
    tolerance : float
        Training ends when a Newton step promises a relative decrease of less than this or, unless
        it is `EXACT`, when a full step has kept its promise up to this.

    Returns
    -------
    array (columns,) or (columns, n_outputs)
    """
    if start is None:
        start = np.zeros((design.shape[1], *objective.y.shape[1:]))
    if objective.loss.couples_outputs:
        return _fit_coupled(design, objective, start, tolerance)
    if objective.y.ndim == 1:
        return _fit_output(design, objective, start, tolerance)
    fits = [
        _fit_output(design, objective.of_output(j), start[:, j], tolerance)
        for j in range(objective.y.shape[1])
    ]
    return np.stack(fits, axis=1)


def _fit_coupled(design, objective, start, tolerance):
    def value(w):
        f = (design @ w.reshape(start.shape)).reshape(-1)
        g = design.T @ objective.derivative(f).reshape(objective.y.shape)
        return objective.value(f, w @ w), g.reshape(-1) + objective.alpha * w

    options = {
        "gtol": 1e-6 if tolerance <= EXACT else 1e-3,
        "ftol": max(1e-12, tolerance),
        "maxiter": MOST_STEPS,
    }
    found = optimize.minimize(
        value, start.reshape(-1), jac=True, method="L-BFGS-B", options=options
    )
    return found.x.reshape(start.shape)


def _fit_output(design, objective, start, tolerance):
    """Newton's method with backtracking, for one output."""
    w, f, alpha = start.copy(), design @ start, objective.alpha
    if not objective.curvature(f).any():
        return _fit_coupled(design, objective, start, tolerance)
    value, first_size, is_done = objective.value(f, w @ w), None, False
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
        # Near the minimum the error of a full step is about the square of the error before it.
        is_done = is_done or not -slope > tolerance * abs(value)
        t, lowest = 1.0, value + (1e-14 * abs(value) if is_done else 1e-4 * slope)
        while t > 1e-10:
            new_value = objective.value(f + t * along, np.sum((w + t * step) ** 2))
            if new_value <= lowest:
                break
            t, lowest = t / 2, value + 1e-4 * t / 2 * slope
        else:
            break
        # The quadratic model of the objective says value + slope / 2 for a full step.
        error = abs(new_value - (value + slope / 2)) if t == 1 else np.inf
        w, f, value = w + t * step, f + t * along, new_value
        if is_done or (tolerance > EXACT and error <= tolerance * abs(value)):
            break
    return w


class _Newton:
    """Solves ``(design^T diag(h) design + alpha) x = b``, by columns, by rows or iteratively."""

    def __init__(self, design):
        self.design, (self.m, self.n_columns) = design, design.shape
        self.is_knots = isinstance(design, KnotDesign)
        self.is_sparse = sparse.issparse(design)
        many = self.m if self.is_knots else FEW_COLUMNS
        self.by_rows = self.n_columns > many and self.m <= FEW_ROWS
        if self.by_rows:
            gram = design.row_gram if self.is_knots else design @ design.T
            self.gram = gram.toarray() if self.is_sparse else gram

    def solve(self, h, alpha, b, tolerance):
        # Without a penalty, a small share of the curvature keeps the system regular.
        alpha = max(alpha, 1e-12 * float(h.sum()), 1e-300)
        if self.by_rows:
            return self._solve_rows(h, alpha, b)
        is_small = self.n_columns <= FEW_COLUMNS
        return self._solve_columns(h, alpha, b) if is_small else self._cg(h, alpha, b, tolerance)

    def _solve_columns(self, h, alpha, b):
        if self.is_knots:
            matrix = self.design.gram(h)
        elif self.is_sparse:
            matrix = (self.design.T @ (sparse.diags_array(h) @ self.design)).toarray()
        else:
            matrix = self.design.T @ (h[:, None] * self.design)
        matrix[np.diag_indices(len(matrix))] += alpha
        return _solve_positive(matrix, b)

    def _solve_rows(self, h, alpha, b):
        """Use the matrix inversion lemma, which leads to a system of as many equations as rows."""
        root = np.sqrt(h)
        matrix = root[:, None] * self.gram * root
        matrix[np.diag_indices(len(matrix))] += alpha
        inner = _solve_positive(matrix, root * (self.design @ b))
        return (b - self.design.T @ (root * inner)) / alpha

    def _cg(self, h, alpha, b, tolerance):
        if self.is_knots:
            diagonal = self.design.diagonal(h)
        elif self.is_sparse:
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
        return linalg.solve(matrix, b, assume_a="pos", check_finite=False)
    except (linalg.LinAlgError, linalg.LinAlgWarning):
        return linalg.lstsq(matrix, b)[0]
