"""Gradient descent on the cores themselves: the baseline of the paper (section 7.2).

It depends on the gauge, which steps change as they like, and is not restored.
"""

from dataclasses import dataclass

import numpy as np

from .. import device, trains
from ..kernels.layout import Train
from ..tensor import TTTensor
from .base import Solver
from .descent import (
    Descent,
    Point,
    Rate,
    Samples,
    Seen,
    check_choice,
    check_count,
    check_learning_rate,
)

METHODS = ("adam", "sgd")
ADAM_RATE = 0.01
DECAY, SQUARE_DECAY, TINY = 0.9, 0.999, 1e-8  # of Adam, as in its paper (Kingma, Ba 2015)


@dataclass(frozen=True)
class Cores(Solver):
    """Gradient descent in the entries of the cores; an iteration takes each sample once.

    Parameters
    ----------
    method : {"adam", "sgd"}
    learning_rate : float or "auto"
        Length of a step, in gradients for "sgd". "auto" is 0.01 for "adam"; for "sgd" it is chosen
        for each iteration, as in `Riemannian`.
    batch_size : int, optional
        Samples of a mini-batch; by default all.

    Notes
    -----
    The run's `value` is the objective at the current tensor if there are no mini-batches, else the
    mean over them, before each step; NaN after a step that would leave the range of floats.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import RankOneBatch, TTTensor
    >>> from ttexm.losses import Squared
    >>> from ttexm.objective import Objective
    >>> from ttexm.solvers.cores import Cores
    >>> from ttexm.trainer import Trainer
    >>> x = np.random.default_rng(0).standard_normal((500, 4))
    >>> batch = RankOneBatch.from_columns(x)
    >>> objective = Objective(Squared(), x[:, 0] * x[:, 3], np.ones(500), alpha=1e-6)
    >>> W = TTTensor.random(batch.shape, rank=2, seed=0)
    >>> W = Trainer(Cores("adam", batch_size=50), tol=0.01).run(W, batch, objective)
    >>> bool(abs(W[1, 0, 0, 1] - 1) < 0.01)
    True
    """

    method: str = "adam"
    learning_rate: float | str = "auto"
    batch_size: int | None = None

    def __post_init__(self):
        check_choice("method", self.method, METHODS)
        check_learning_rate(self.learning_rate)
        check_count("batch_size", self.batch_size, "all samples")

    def start(self, W, batch, objective, rng):
        # Steps are in plain numbers: a power of two that is kept apart goes into the cores.
        point, rate = CorePoint(TTTensor(W.astype(batch.dtype).cores)), self.learning_rate
        if self.method == "adam":
            point.moments = Moments()
            rate = ADAM_RATE if rate == "auto" else rate
        return Descent(point, Samples(batch, objective), rng, Rate(rate), self.batch_size)


def penalty(train: Train) -> tuple[float, np.ndarray]:
    """``|W|^2`` and the derivatives of its half in the cores, flat. O(d n r^3)."""
    slots = trains.to_slots(train)
    ones = np.ones((1, 1), train.data.dtype)
    right = [ones]
    for G in slots[:0:-1]:
        right.append((G @ right[-1] @ G.transpose(0, 2, 1)).sum(axis=0))
    left, parts = ones, []
    for G in slots:
        half = left @ G
        parts.append((half @ right.pop()).reshape(-1))
        left = (G.transpose(0, 2, 1) @ half).sum(axis=0)
    return float(left[0, 0]), np.concatenate(parts)


@dataclass
class Moments:
    """Adam's running means of gradients and of their squares."""

    mean: np.ndarray | float = 0.0
    square: np.ndarray | float = 0.0
    n_steps: int = 0

    def scaled(self, gradient: np.ndarray) -> np.ndarray:
        """The mean gradient, each entry by its usual size; the gradient now included."""
        self.n_steps += 1
        self.mean = DECAY * self.mean + (1 - DECAY) * gradient
        self.square = SQUARE_DECAY * self.square + (1 - SQUARE_DECAY) * gradient**2
        # Both means start at zero, and are that much too small.
        mean = self.mean / (1 - DECAY**self.n_steps)
        return mean / (np.sqrt(self.square / (1 - SQUARE_DECAY**self.n_steps)) + TINY)


@dataclass
class CorePoint(Point):
    """The cores of a tensor, in the gauge that they happen to be in."""

    W: TTTensor
    moments: Moments | None = None

    def look(self, samples):
        objective, train, kept = samples.objective, self.W._train, []

        def keep(f):
            kept.append(f)
            return objective.derivative(f)

        gradient, squared_norm = trains.core_gradient(train, samples.batch, keep), 0.0
        if objective.alpha:
            squared_norm, shrinking = penalty(train)
            gradient += train.data.dtype.type(objective.alpha) * shrinking
        norm = float(np.linalg.norm(gradient))
        return Seen(gradient, norm, objective.value(kept[0], squared_norm), kept[0])

    def tangent(self, gradient):
        kernels, train = device.get("cpu"), self.W._train
        return TTTensor._of(kernels.assemble_tangent(train, kernels.reverse(train), gradient))

    def step(self, gradient, rate):
        train = self.W._train
        direction = gradient if self.moments is None else self.moments.scaled(gradient)
        data = train.data - train.data.dtype.type(rate) * direction
        if not np.isfinite(data).all():
            return False
        self.W = TTTensor._of(train._replace(data=data))
        return True
