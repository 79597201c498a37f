"""Where training starts: the linear model as a tensor, random linear models, Gaussian cores.

A sum over the columns has TT-rank 2 (paper, theorem 2): with c_k the vector that makes
``<c_k, phi_k(x)> = 1``, which is e_0 where slot 0 is the constant,

    f(x) = b + sum_k <w_k, phi_k(x_k)>   has the cores   [[c_k, w_k], [0, c_k]].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..data.batch import RankOneBatch
from ..tt.tensor import TTTensor
from .linear import fit_linear
from .objective import Objective

DENSE = 0.25  # a matrix with at least this share of nonzero entries is kept dense


def additive(weights: list[np.ndarray], intercept: ArrayLike, ones: list[np.ndarray]) -> TTTensor:
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
    >>> from ttexm import RankOneBatch
    >>> from ttexm.learn import initialize
    >>> ones = [np.array([1.0, 0.0])] * 3
    >>> W = initialize.additive([np.array([0.0, w]) for w in (1.0, 2.0, 3.0)], 0.5, ones)
    >>> float(W.contract(RankOneBatch.from_columns([[1.0, 10.0, 100.0]]))[0])  # 321 + 0.5
    321.5
    """
    intercept = np.asarray(intercept, np.float64)
    n_outputs = intercept.size
    cores = []
    for k, (w, c) in enumerate(zip(weights, ones, strict=True)):
        # Rank index 0 means that no weight has been used yet, 1 + j that one of output j has been.
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
        """Give a random tensor the signs of this model's weights, and the order of its outputs.

        If the user changes the sign of a column or the names of the classes, the random tensor
        changes with them, and training finds the same model.
        """
        cores = noise.to_cores()
        weights = [w.reshape(len(w), -1) for w in self.weights]
        if self.intercept.ndim:
            norms = sum((w**2).sum(axis=0) for w in weights)
            order = np.lexsort((self.intercept, [float(f"{norm:.9g}") for norm in norms]))
            cores[-1] = cores[-1][:, np.argsort(order)]
            # Any combination of the outputs that no symmetry makes zero.
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
    """Return the tensor of the best additive model of an objective.

    The intercept is an entry of W, and penalised as all entries are.
    """
    return fit_additive(batch, objective).tensor()


def fit_additive(batch: RankOneBatch, objective: Objective) -> Additive:
    """Return the best additive model of an objective."""
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
    """Return the slots that get a weight: all but that of the constant."""
    return np.arange(1, len(c)) if c[0] == 1 and not c[1:].any() else np.arange(len(c))


def _design(batch, free):
    """Return a column of ones and the functions of all modes; sparse if most of them are zero."""
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


def low_order(
    shape: tuple[int, ...], rank: int, scale: float, rng: np.random.Generator
) -> TTTensor:
    """Return a random tensor whose entries decrease with the order of interaction, as scale^order.

    Slot 0 of each core is the identity; the others are Gaussian.
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


def padded(
    W: TTTensor, rank: int, scale: float, rng: np.random.Generator, model: Additive | None = None
) -> TTTensor:
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


def gaussian(shape: tuple[int, ...], rank: int, norm: float, rng: np.random.Generator) -> TTTensor:
    """Return a tensor of Gaussian cores, of the given norm."""
    W = TTTensor.random(shape, rank, rng)
    return W * (norm / W.norm())


def random_linear(batch: RankOneBatch, scale: float, rng: np.random.Generator) -> TTTensor:
    """Return an additive model of Gaussian weights, with predictions of about `scale`."""
    ones = [constant_of(batch, k) for k in range(batch.ndim)]
    weights = [rng.standard_normal(n) / batch.ndim**0.5 for n in batch.shape]
    for w, c in zip(weights, ones, strict=True):
        w[np.setdiff1d(np.arange(len(w)), _free(c))] = 0
    return additive([scale * w for w in weights], 0.0, ones)
