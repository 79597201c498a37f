"""Descent along gradients of mini-batches: what the manifold and the cores have in common."""

import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..batch import RankOneBatch
from ..objective import Objective
from ..shapes import is_integer
from ..tensor import TTTensor
from .base import Run

ALL = slice(None)
LOOKS = 3  # mini-batches from which a learning rate is chosen
CAUTION = 0.5  # share of a step that a quadratic model finds best


@dataclass(frozen=True, eq=False)
class Samples:
    """A batch and the objective of its samples, each of which has n_outputs rows of the batch."""

    batch: RankOneBatch
    objective: Objective

    def split(self, size: int | None, rng: np.random.Generator) -> list:
        """Samples by mini-batches of some size, in random order, the rest last; or all at once."""
        m = len(self.objective.y)
        if size is None or size >= m:
            return [ALL]
        order = rng.permutation(m)
        return [order[start : start + size] for start in range(0, m, size)]

    def take(self, rows) -> "Samples":
        """Some of the samples; their objective estimates that of all."""
        if rows is ALL:
            return self
        n_outputs = len(self.batch) // len(self.objective.y)
        of_batch = (rows[:, None] * n_outputs + np.arange(n_outputs)).reshape(-1)
        return Samples(self.batch[of_batch], self.objective.take(rows))


class Seen(NamedTuple):
    """What one pass through some samples tells: a gradient, its norm, the objective, and f."""

    gradient: object
    norm: float
    value: float
    f: np.ndarray


class Point(ABC):
    """Where a descent is, and how it moves."""

    W: TTTensor

    @abstractmethod
    def look(self, samples: Samples) -> Seen:
        """Take the gradient of the samples' objective."""

    @abstractmethod
    def tangent(self, gradient) -> TTTensor:
        """Return the derivative of W along a gradient."""

    @abstractmethod
    def step(self, gradient, rate: float) -> bool:
        """Move against a gradient; False, and no move, if that would leave the range of floats."""


@dataclass
class Rate:
    """A learning rate: the same for all steps; or "auto", chosen anew.

    For each iteration the best step, on average, for mini-batches other than the gradient's own:
    that one would promise too much, as a tensor has room for the noise of some samples. For each
    step no more than the best one for its own mini-batch, or a few steep ones could add up to an
    overflow. Of both, the careful share.
    """

    given: float | str
    share: float = CAUTION
    most: float = np.inf

    def choose(self, point: Point, samples: Samples, parts: list) -> None:
        """Bound the steps of an iteration through these parts of the samples."""
        if self.given != "auto" or len(parts) == 1:
            return
        parts = [samples.take(rows) for rows in parts[:LOOKS]]
        looks = [point.look(part) for part in parts]
        slopes = curvatures = 0.0
        for seen, there, part in zip(looks[-1:] + looks, looks, parts, strict=False):
            slope, curvature = bend(point, seen.gradient, there.f, part)
            slopes, curvatures = slopes + slope, curvatures + curvature
        self.most = max(0.0, slopes) / curvatures if curvatures > 0 else 0.0

    def step(self, point: Point, seen: Seen, part: Samples) -> float:
        """The rate for a step against the gradient that was seen."""
        if self.given != "auto":
            return self.given
        _, curvature = bend(point, seen.gradient, seen.f, part)
        # norm * norm, as ** raises an OverflowError.
        own = seen.norm * seen.norm / curvature if curvature > 0 else 0.0
        return self.share * min(self.most, own)


def bend(point: Point, gradient, f, samples: Samples) -> tuple[float, float]:
    """Slope and curvature of the samples' objective along a gradient; f are their predictions."""
    tangent, objective = point.tangent(gradient), samples.objective
    along = tangent.contract(samples.batch).astype(np.float64)
    g, h = objective.derivative(f), objective.curvature(f)
    if not h.any():
        # The hinge has slopes only: taken for a squared loss, its predictions move by about 1.
        h = np.abs(g)
    slope, curvature = g @ along, h @ along**2
    if objective.alpha:
        slope += objective.alpha * tangent.inner(point.W)
        curvature += objective.alpha * tangent.inner(tangent)
    return slope, curvature


class Descent(Run):
    """Steps against the gradients of mini-batches; an iteration takes each sample once.

    With all samples at once `value` is the objective at the current point: the gradient of the next
    step is taken at the end of an iteration. Else it is the mean over the mini-batches, as seen
    before each step.
    """

    def __init__(self, point: Point, samples: Samples, rng, rate: Rate, batch_size: int | None):
        self.point, self.samples, self.rng = point, samples, rng
        self.rate, self.batch_size = rate, batch_size
        self.is_whole = batch_size is None or batch_size >= len(samples.objective.y)
        if self.is_whole:
            self._look()

    def _look(self):
        self.seen = self.point.look(self.samples)
        self.value, self.gradient_norm = self.seen.value, self.seen.norm

    def tensor(self) -> TTTensor:
        return self.point.W

    def iterate(self) -> None:
        parts = self.samples.split(self.batch_size, self.rng)
        self.rate.choose(self.point, self.samples, parts)
        values = []
        for rows in parts:
            part = self.samples.take(rows)
            seen = self.seen if self.is_whole else self.point.look(part)
            values.append(seen.value)
            if not self.point.step(seen.gradient, self.rate.step(self.point, seen, part)):
                self.value = np.nan
                return
        if self.is_whole:
            self._look()
        else:
            self.value = float(np.average(values, weights=[len(rows) for rows in parts]))
            self.gradient_norm = seen.norm


def check_choice(name: str, value, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}.")


def check_learning_rate(value) -> None:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if value != "auto" and not (is_number and 0 < value < np.inf):
        raise ValueError(f"learning_rate must be 'auto' or a number above 0, got {value!r}.")


def check_count(name: str, value, default: str) -> None:
    if value is not None and not (is_integer(value) and value >= 1):
        raise ValueError(f"{name} must be at least 1, or None for {default}, got {value!r}.")
