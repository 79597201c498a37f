"""Where training starts: the linear model as a tensor, random linear models, Gaussian cores.

A sum over the columns has TT-rank 2 (paper, theorem 2): with c_k the vector that makes
``<c_k, phi_k(x)> = 1``, which is e_0 where slot 0 is the constant,

    f(x) = b + sum_k <w_k, phi_k(x_k)>   has the cores   [[c_k, w_k], [0, c_k]].
"""

import numpy as np
from scipy import optimize, sparse

from .batch import RankOneBatch
from .objective import Objective
from .tensor import TTTensor

FEW_COLUMNS = 300  # up to which a linear model is solved to the last digit


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


def linear(batch: RankOneBatch, objective: Objective) -> TTTensor:
    """Return the best additive model of an objective, with all of its modes' functions.

    The intercept is penalised as every other weight is, if only by alpha: it is an entry of W.
    """
    ones = [constant_of(batch, k) for k in range(batch.ndim)]
    free = [_free(c) for c in ones]
    columns = [batch.matrix(k)[:, free[k]] for k in range(batch.ndim)]
    design = sparse.hstack([sparse.csr_array(np.ones((len(batch), 1))), *columns], format="csr")
    found = fit_linear(design, objective)
    weights, start = [], 1
    for c, slots in zip(ones, free, strict=True):
        w = np.zeros((len(c), *found.shape[1:]))
        w[slots] = found[start : start + len(slots)]
        start += len(slots)
        weights.append(w)
    return additive(weights, found[0], ones)


def _free(c):
    """Slots with a weight of their own: all but the constant one."""
    return np.arange(1, len(c)) if c[0] == 1 and not c[1:].any() else np.arange(len(c))


def fit_linear(design, objective: Objective) -> np.ndarray:
    """Return the w that minimises the objective of the predictions ``design @ w``, |W| = |w|.

    Of shape (columns,), or (columns, n_outputs).
    """
    shape = (design.shape[1], *objective.y.shape[1:])

    def predict(w):
        return (design @ w.reshape(shape)).reshape(-1)

    def transposed(g):
        return (design.T @ g.reshape(objective.y.shape)).reshape(-1)

    def value(w):
        f = predict(w)
        gradient = transposed(objective.derivative(f)) + objective.alpha * w
        return objective.value(f, w @ w), gradient

    def product(w, p):
        h = objective.curvature(predict(w))
        return transposed(h * predict(p)) + objective.alpha * p

    start = np.zeros(shape).reshape(-1)
    # Outputs that depend on each other have curvature beyond its diagonal.
    if objective.y.ndim == 1 and objective.curvature(predict(start)).any():
        options = {"method": "trust-ncg", "hessp": product, "options": {"gtol": 1e-6}}
    else:
        options = {"method": "L-BFGS-B", "options": {"gtol": 1e-6, "ftol": 1e-12}}
    w = optimize.minimize(value, start, jac=True, **options).x
    if "hessp" in options and len(w) <= FEW_COLUMNS:
        # A full Newton step: rounding alone is left, and equal problems have equal solutions.
        h, dense = objective.curvature(predict(w)), design.toarray()
        hessian = dense.T @ (h[:, None] * dense) + objective.alpha * np.eye(len(w))
        newton = w - np.linalg.lstsq(hessian, value(w)[1], rcond=None)[0]
        w = newton if value(newton)[0] <= value(w)[0] else w
    return w.reshape(shape)


def constant_of(batch: RankOneBatch, k: int) -> np.ndarray:
    """Return c with ``<c, phi_k(x)> = 1`` for the samples of a batch.

    Raises if the functions of mode k have no constant in their span: an additive model then is none
    of this feature map's.
    """
    matrix = batch.matrix(k)
    if matrix.shape[0] == 0 or (matrix[:, [0]].toarray() == 1).all():
        c = np.zeros(matrix.shape[1])
        c[0] = 1
        return c
    dense = matrix.toarray()
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


def padded(W: TTTensor, rank: int, scale: float, rng) -> TTTensor:
    """Return W at the given rank: plus a small low-order tensor, or rounded if it has a higher one.

    The addition has `scale` times the norm of W (or the norm `scale`, if W is zero).
    """
    extra = rank - W.rank
    if extra <= 0:
        return W.round(rank=rank) if extra < 0 else W
    noise = low_order(W.shape, extra, 0.3, rng)
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
