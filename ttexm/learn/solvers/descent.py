"""Descent along gradients of mini-batches: what the manifold and the cores have in common."""

import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...tt.tensor import TTTensor
from ..data import TrainingSet
from .base import Run

RATE_BATCHES = 3  # mini-batches from which the learning rate of an iteration is chosen
STEP_SHARE = 0.5  # share of the step that a quadratic model finds best


class Evaluation(NamedTuple):
    """What one pass through some rows gives: a gradient, its norm, the objective, predictions f."""

    gradient: Any
    norm: float
    value: float
    f: np.ndarray


class Point(ABC):
    """Where a descent is, and how it moves."""

    W: TTTensor

    @abstractmethod
    def evaluate(self, rows: TrainingSet) -> Evaluation:
        """Return the objective of some rows at this point, and its gradient."""

    @abstractmethod
    def tangent(self, gradient: Any) -> TTTensor:
        """Return the derivative of W along a gradient."""

    @abstractmethod
    def step(self, gradient: Any, rate: float) -> bool:
        """Move by -rate times a gradient. Return False, without a move, if that overflows."""


@dataclass
class LearningRate:
    """The length of steps: a fixed number, or "auto".

    "auto" takes `share` of the smaller one of two step lengths, each the minimum of a quadratic
    model of the objective along a gradient:

    - one for each iteration. The gradient of one mini-batch is followed on the next one, and slopes
      and curvatures are averaged over a few such pairs. On its own mini-batch a gradient would look
      too good, because it also fits the noise of these rows.
    - one for each step, on the mini-batch of its gradient. A mini-batch that is much steeper than
      others could otherwise take a step that overflows.
    """

    given: float | str
    share: float = STEP_SHARE
    bound: float = np.inf

    def start_iteration(self, point: Point, rows: TrainingSet, mini_batches: list) -> None:
        """Find the bound on the steps of an iteration through these mini-batches."""
        if self.given != "auto" or len(mini_batches) == 1:
            return
        parts = [rows.take(chosen) for chosen in mini_batches[:RATE_BATCHES]]
        evaluations = [point.evaluate(part) for part in parts]
        previous = evaluations[-1:] + evaluations[:-1]
        slopes = curvatures = 0.0
        for of_gradient, here, part in zip(previous, evaluations, parts, strict=True):
            slope, curvature = slope_and_curvature(point, of_gradient.gradient, here.f, part)
            slopes, curvatures = slopes + slope, curvatures + curvature
        self.bound = max(0.0, slopes) / curvatures if curvatures > 0 else 0.0

    def of_step(self, point: Point, evaluation: Evaluation, part: TrainingSet) -> float:
        """Return the length of a step along the gradient of a mini-batch."""
        if self.given != "auto":
            return self.given
        _, curvature = slope_and_curvature(point, evaluation.gradient, evaluation.f, part)
        # norm * norm, as ** raises an OverflowError.
        best = evaluation.norm * evaluation.norm / curvature if curvature > 0 else 0.0
        return self.share * min(self.bound, best)


def slope_and_curvature(
    point: Point, gradient: Any, f: np.ndarray, rows: TrainingSet
) -> tuple[float, float]:
    """Return both for the objective of some rows, along a gradient; f are their predictions."""
    tangent, objective = point.tangent(gradient), rows.objective
    along = tangent.contract(rows.batch).astype(np.float64)
    g, h = objective.derivative(f), objective.curvature_or_slope(f)
    slope, curvature = g @ along, h @ along**2
    if objective.alpha:
        slope += objective.alpha * tangent.inner(point.W)
        curvature += objective.alpha * tangent.inner(tangent)
    return slope, curvature


class Descent(Run):
    """Steps along the gradients of mini-batches; an iteration takes each row once.

    Without mini-batches `value` is the objective at the current point, because the gradient of the
    next step is computed at the end of an iteration. With them it is the mean over the
    mini-batches, each one before its step.
    """

    def __init__(
        self,
        point: Point,
        rows: TrainingSet,
        rng: np.random.Generator,
        rate: LearningRate,
        batch_size: int | None,
    ):
        self.point, self.rows, self.rng = point, rows, rng
        self.rate, self.batch_size = rate, batch_size
        self.is_whole = batch_size is None or batch_size >= len(rows)
        if self.is_whole:
            self._evaluate()

    def _evaluate(self):
        self.evaluation = self.point.evaluate(self.rows)
        self.value, self.gradient_norm = self.evaluation.value, self.evaluation.norm

    def tensor(self) -> TTTensor:
        return self.point.W

    def iterate(self) -> None:
        mini_batches = self.rows.mini_batches(self.batch_size, self.rng)
        self.rate.start_iteration(self.point, self.rows, mini_batches)
        values = []
        for chosen in mini_batches:
            part = self.rows.take(chosen)
            evaluation = self.evaluation if self.is_whole else self.point.evaluate(part)
            values.append(evaluation.value)
            rate = self.rate.of_step(self.point, evaluation, part)
            if not self.point.step(evaluation.gradient, rate):
                self.value = np.nan
                return
        if self.is_whole:
            self._evaluate()
        else:
            sizes = [len(chosen) for chosen in mini_batches]
            self.value = float(np.average(values, weights=sizes))
            self.gradient_norm = evaluation.norm


def check_learning_rate(value: object) -> None:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if value != "auto" and not (is_number and 0 < value < np.inf):
        raise ValueError(f"learning_rate must be 'auto' or a number above 0, got {value!r}.")
