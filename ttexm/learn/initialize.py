"""Where training starts: the linear model as a tensor, random linear models, Gaussian cores.

A sum over the columns has TT-rank 2 (paper, theorem 2): with c_k the vector that makes
``<c_k, phi_k(x)> = 1``, which is e_0 where slot 0 is the constant,

    f(x) = b + sum_k <w_k, phi_k(x_k)>   has the cores   [[c_k, w_k], [0, c_k]].
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ..data.batch import RankOneBatch
from ..tt.tensor import TTTensor
from .designs import AdditiveDesign, constant_of
from .linear import EXACT, fit_linear
from .objective import Objective

LOW_ORDER = 0.3  # of the tensors that fill up ranks, see `low_order`


def additive_cores(
    weights: list[np.ndarray], intercept: ArrayLike, ones: list[np.ndarray]
) -> list[np.ndarray]:
    """Return the cores (r0, n, r1) of ``intercept + sum_k <weights[k], phi_k>``.

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
    >>> from ttexm import RankOneBatch, TTTensor
    >>> from ttexm.learn import initialize
    >>> ones = [np.array([1.0, 0.0])] * 3
    >>> cores = initialize.additive_cores([np.array([0.0, w]) for w in (1.0, 2.0, 3.0)], 0.5, ones)
    >>> batch = RankOneBatch.from_columns([[1.0, 10.0, 100.0]])
    >>> float(TTTensor(cores).contract(batch)[0])  # 321 + 0.5
    321.5
    """
    intercept = np.asarray(intercept, np.float64)
    n_outputs = intercept.size
    cores = []
    for k, (w, c) in enumerate(zip(weights, ones, strict=True)):
        # Rank index 0 means that no weight has been used yet, 1 + j that one of output j has been.
        core = np.zeros((1 + n_outputs, len(c), 1 + n_outputs))
        core[np.arange(1 + n_outputs), :, np.arange(1 + n_outputs)] = c
        core[0, :, 1:] = w.reshape(len(c), n_outputs)
        if k == 0:
            core[0, :, 1:] += np.outer(c, intercept)
        cores.append(core)
    cores[0] = cores[0][:1]
    if intercept.ndim == 0:
        cores[-1] = cores[-1][:, :, 1:]
    else:
        cores.append(np.vstack([np.zeros((1, n_outputs)), np.eye(n_outputs)])[:, :, None])
    return cores


@dataclass(frozen=True, eq=False)
class Additive:
    """An additive model, ``intercept + sum_k <weights[k], phi_k>``, see `additive_cores`."""

    weights: list[np.ndarray]
    intercept: np.ndarray
    ones: list[np.ndarray]

    def cores(self, order_scale: float = 1.0) -> list[np.ndarray]:
        """Return the model as cores, for functions that are multiplied by an order scale."""
        weights = self.weights
        if order_scale != 1:
            # Only modes with a constant in slot 0 are scaled.
            weights = [
                w / order_scale if _is_first(c) else w
                for w, c in zip(self.weights, self.ones, strict=True)
            ]
        return additive_cores(weights, self.intercept, self.ones)

    def tensor(self, order_scale: float = 1.0) -> TTTensor:
        """Return the model as a tensor, for functions that are multiplied by an order scale."""
        return TTTensor(self.cores(order_scale))

    def orient(self, noise: list[np.ndarray]) -> list[np.ndarray]:
        """Give the cores of a random tensor the signs of the weights, and the order of the outputs.

        If the user changes the sign of a column or the names of the classes, the random tensor
        changes with them, and training finds the same model.
        """
        weights = [w.reshape(len(w), -1) for w in self.weights]
        cores = list(noise)
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
        for k, w in enumerate(weights):
            signs = np.where(w @ mixture < 0, -1.0, 1.0)
            signs[0] = 1
            cores[k] = cores[k] * (signs if k else sign * signs)[:, None]
        return cores

    def start(self, order_scale: float, rank: int, scale: float, seed: int) -> list[np.ndarray]:
        """Return the model as cores of a rank: plus a small random tensor, as `padded` adds it."""
        cores = self.cores(order_scale)
        extra = rank - max(core.shape[2] for core in cores)
        if extra <= 0:
            W = TTTensor(cores)
            return (W.round(rank=rank) if extra < 0 else W).to_cores()
        noise = self.orient(_unit_noise(tuple(core.shape[1] for core in cores), extra, seed))
        noise[0] = noise[0] * (scale * (self._norm(order_scale) or 1.0))
        return _add_cores(cores, noise)

    def _norm(self, order_scale):
        if not all(map(_is_first, self.ones)):
            return self.tensor(order_scale).norm()
        squared = sum(float(np.vdot(w, w)) for w in self.weights) / order_scale**2
        return (squared + float(np.vdot(self.intercept, self.intercept))) ** 0.5


def _is_first(c):
    """Whether the constant is slot 0."""
    return c[0] == 1 and not c[1:].any()


def _add_cores(first, second):
    """The cores of a sum of two trains."""
    if len(first) == 1:
        return [first[0] + second[0]]
    cores = [np.concatenate([first[0], second[0]], axis=2)]
    for A, B in zip(first[1:-1], second[1:-1], strict=True):
        (a, n, b), (c, _, d) = A.shape, B.shape
        core = np.zeros((a + c, n, b + d))
        core[:a, :, :b], core[a:, :, b:] = A, B
        cores.append(core)
    return [*cores, np.concatenate([first[-1], second[-1]])]


def linear(batch: RankOneBatch, objective: Objective) -> TTTensor:
    """Return the tensor of the best additive model of an objective.

    The intercept is an entry of W, and penalised as all entries are.
    """
    return fit_additive(AdditiveDesign(batch), objective).tensor()


def fit_additive(
    design: AdditiveDesign,
    objective: Objective,
    start: Additive | None = None,
    tolerance: float = EXACT,
) -> Additive:
    """Return the best additive model of an objective.

    Parameters
    ----------
    design : AdditiveDesign
    objective : Objective
    start : Additive, optional
        A model of the same functions to start from.
    tolerance : float
        Of `linear.fit_linear`; by default the model is exact.
    """
    first = None if start is None else design.join(start.weights, start.intercept)
    found = fit_linear(design.matrix, objective, first, tolerance)
    return Additive(design.split(found), found[0], design.ones)


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


def padded(W: TTTensor, rank: int, scale: float, rng: np.random.Generator) -> TTTensor:
    """Return W at the given rank: plus a small low-order tensor, or rounded if it has a higher one.

    The addition has `scale` times the norm of W, or the norm `scale` if W is zero.
    """
    extra = rank - W.rank
    if extra <= 0:
        return W.round(rank=rank) if extra < 0 else W
    noise = low_order(W.shape, extra, LOW_ORDER, rng)
    return W + noise * (scale * (W.norm() or 1.0) / noise.norm())


@lru_cache(maxsize=32)  # the search asks for the same ones again and again
def _unit_noise(shape, rank, seed):
    noise = low_order(shape, rank, LOW_ORDER, np.random.default_rng(seed))
    return (noise / noise.norm()).to_cores()


def gaussian(shape: tuple[int, ...], rank: int, norm: float, rng: np.random.Generator) -> TTTensor:
    """Return a tensor of Gaussian cores, of the given norm."""
    W = TTTensor.random(shape, rank, rng)
    return W * (norm / W.norm())


def random_linear(batch: RankOneBatch, scale: float, rng: np.random.Generator) -> TTTensor:
    """Return an additive model of Gaussian weights, with predictions of about `scale`."""
    ones = [constant_of(batch, k) for k in range(batch.ndim)]
    weights = [scale * rng.standard_normal(n) / batch.ndim**0.5 for n in batch.shape]
    for w, c in zip(weights, ones, strict=True):
        if _is_first(c):
            w[0] = 0
    return TTTensor(additive_cores(weights, 0.0, ones))
