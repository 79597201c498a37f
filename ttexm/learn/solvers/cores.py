"""Gradient descent on the entries of the cores: the baseline of the paper (section 7.2).

The gradient depends on the gauge, that is, on which of the many cores of the same tensor are used.
Steps change the gauge, and nothing restores it.
"""

from dataclasses import dataclass

import numpy as np

from ...checks import check_choice, check_optional_count
from ...data.batch import RankOneBatch
from ...kernels import host
from ...kernels.layout import Train
from ...tt.core_arrays import to_slots
from ...tt.derivatives import flat_value_and_core_gradient
from ...tt.scaled_train import ScaledTrain
from ...tt.tensor import TTTensor
from ..data import TrainingSet
from ..objective import Objective
from .base import Run, Solver
from .descent import (
    Descent,
    Evaluation,
    LearningRate,
    Point,
    check_learning_rate,
)

METHODS = ("adam", "sgd")
ADAM_RATE = 0.01
DECAY, SQUARE_DECAY, TINY = 0.9, 0.999, 1e-8  # of Adam, as in its paper (Kingma, Ba 2015)


@dataclass(frozen=True)
class Cores(Solver):
    """Gradient descent on the entries of the cores; an iteration takes each row once.

    Parameters
    ----------
    method : {"adam", "sgd"}
    learning_rate : float or "auto"
        "sgd" steps by this multiple of the gradient, "adam" by about this much in each entry.
        "auto" is 0.01 for "adam", and is chosen for each step of "sgd" as `Riemannian` does.
    batch_size : int, optional
        Rows of a mini-batch; by default all.

    Notes
    -----
    The run's `value` is the objective at the current tensor if there are no mini-batches, else the
    mean over them, each before its step. It is NaN after a step that overflows, which is not taken.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import ExMRegressor
    >>> from ttexm.features import Polynomial
    >>> from ttexm.solvers import Cores
    >>> X = np.random.default_rng(0).standard_normal((500, 4))
    >>> settings = dict(rank=2, alpha=1e-6, order_scale=1.0, max_iter=500, random_state=0)
    >>> model = ExMRegressor(features=Polynomial(), solver=Cores(batch_size=50), **settings)
    >>> round(model.fit(X, X[:, 0] * X[:, 3]).coefficient("x0", "x3"), 1)
    1.0
    """

    method: str = "adam"
    learning_rate: float | str = "auto"
    batch_size: int | None = None

    def __post_init__(self):
        check_choice("method", self.method, METHODS)
        check_learning_rate(self.learning_rate)
        check_optional_count("batch_size", self.batch_size, "all samples")

    def start(
        self, W: TTTensor, batch: RankOneBatch, objective: Objective, rng: np.random.Generator
    ) -> Run:
        # Steps are in plain numbers: a power of two that is kept apart goes into the cores.
        W, rate = TTTensor(W.astype(batch.dtype).cores), self.learning_rate
        moments = Moments() if self.method == "adam" else None
        if moments is not None and rate == "auto":
            rate = ADAM_RATE
        rows = TrainingSet(batch, objective)
        return Descent(CorePoint(W, moments), rows, rng, LearningRate(rate), self.batch_size)


def penalty(train: Train) -> tuple[float, np.ndarray]:
    """Return ``|W|^2``, and the derivatives of half of it in the cores, flat. O(d n r^3)."""
    slots = to_slots(train)
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
        """Return the mean of all gradients so far, each entry divided by its usual size."""
        self.n_steps += 1
        self.mean = DECAY * self.mean + (1 - DECAY) * gradient
        self.square = SQUARE_DECAY * self.square + (1 - SQUARE_DECAY) * gradient**2
        # Both means start at zero and are too small by these factors.
        mean = self.mean / (1 - DECAY**self.n_steps)
        return mean / (np.sqrt(self.square / (1 - SQUARE_DECAY**self.n_steps)) + TINY)


@dataclass
class CorePoint(Point):
    """The cores of a tensor, in whatever gauge they are."""

    W: TTTensor
    moments: Moments | None = None

    def evaluate(self, rows: TrainingSet) -> Evaluation:
        objective, train = rows.objective, self.W.scaled_train.train
        f, gradient = flat_value_and_core_gradient(train, rows.batch, objective)
        squared_norm = 0.0
        if objective.alpha:
            squared_norm, of_penalty = penalty(train)
            gradient += train.data.dtype.type(objective.alpha) * of_penalty
        norm = float(np.linalg.norm(gradient))
        return Evaluation(gradient, norm, objective.value(f, squared_norm), f)

    def tangent(self, gradient: np.ndarray) -> TTTensor:
        train = self.W.scaled_train.train
        tangent = host.assemble_tangent(train, host.reverse(train), gradient)
        return TTTensor.from_train(ScaledTrain(tangent))

    def step(self, gradient: np.ndarray, rate: float) -> bool:
        train = self.W.scaled_train.train
        direction = gradient if self.moments is None else self.moments.scaled(gradient)
        data = train.data - train.data.dtype.type(rate) * direction
        if not np.isfinite(data).all():
            return False
        self.W = TTTensor.from_train(ScaledTrain(train._replace(data=data)))
        return True
