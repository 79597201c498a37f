"""Gradient descent on the manifold of tensors of fixed TT-rank (paper, section 5).

The gradient of the objective is projected on the tangent space at W, a step is taken along it, and
the result is rounded back to the ranks of W. The gradient of the penalty, alpha W, already lies in
the tangent space.
"""

from dataclasses import dataclass

import numpy as np

from ...checks import check_choice, check_optional_count
from ...data.batch import RankOneBatch
from ...tt.derivatives import Derivative
from ...tt.manifold import Manifold
from ...tt.tangent import TangentVector
from ...tt.tensor import TTTensor
from ..data import TrainingSet
from ..objective import Objective
from .base import Run, Solver
from .descent import (
    STEP_SHARE,
    Descent,
    Evaluation,
    LearningRate,
    Point,
    check_learning_rate,
)
from .product_sweep import ProductSweep

METHODS = ("cg", "sgd", "momentum", "svrg")
LINE_SEARCHES = ("exact", "armijo")


@dataclass(frozen=True)
class Riemannian(Solver):
    """Riemannian gradient descent; an iteration takes each row once.

    Parameters
    ----------
    method : {"cg", "sgd", "momentum", "svrg"}
        "cg": nonlinear conjugate gradients (Polak-Ribiere) of all rows. "sgd": algorithm 1 of the
        paper. "momentum": "sgd" plus a share of the last step, transported to the current point.
        "svrg": "sgd" with gradients corrected by that of all rows, computed once an iteration.
    learning_rate : float or "auto"
        A step is this multiple of the gradient; "cg" does not use it. "auto" takes half of the step
        that a quadratic model of the objective finds best, on other mini-batches or on the step's
        own, whichever is shorter; with momentum, ``1 - momentum`` times that. It costs one more
        pass of predictions.
    batch_size : int, optional
        Rows of a mini-batch; by default all. "cg" needs all.
    momentum : float
        Share of the last step that "momentum" adds.
    line_search : {"exact", "armijo"}
        How "cg" finds its first step along a direction. "exact" minimises the objective along the
        tangent, where predictions are linear in the step; "armijo" tries twice the last step. Both
        then halve it until the objective is lower after rounding.
    adapt_every : int, optional
        Iterations after which a two-site sweep finds new ranks; by default ranks stay.
    max_rank : int, optional
        Highest rank that such a sweep may choose; by default the largest rank of the start.
    eps : float
        Such a sweep drops singular values up to `eps` times the norm of the two cores.

    Notes
    -----
    The run's `value` is the objective at the current tensor for "cg", for "svrg" and without
    mini-batches; else the mean over the mini-batches, each before its step. It is NaN after a step
    that overflows, which is not taken. Runs have the precision of the batch.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import ExMRegressor
    >>> from ttexm.features import Polynomial
    >>> from ttexm.solvers import Riemannian
    >>> X = np.random.default_rng(0).standard_normal((500, 4))
    >>> settings = dict(rank=4, alpha=1e-6, order_scale=1.0, features=Polynomial())
    >>> model = ExMRegressor(solver=Riemannian("cg"), **settings)
    >>> round(model.fit(X, X[:, 0] * X[:, 3]).coefficient("x0", "x3"), 2)
    1.0
    """

    method: str = "cg"
    learning_rate: float | str = "auto"
    batch_size: int | None = None
    momentum: float = 0.9
    line_search: str = "exact"
    adapt_every: int | None = None
    max_rank: int | None = None
    eps: float = 0.0

    def __post_init__(self):
        check_choice("method", self.method, METHODS)
        check_learning_rate(self.learning_rate)
        check_optional_count("batch_size", self.batch_size, "all samples")
        if self.method == "cg" and self.batch_size is not None:
            raise ValueError(
                f"method='cg' needs all samples, batch_size=None, got {self.batch_size}."
            )
        for name, share in (("momentum", self.momentum), ("eps", self.eps)):
            if not 0 <= share < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {share!r}.")
        check_choice("line_search", self.line_search, LINE_SEARCHES)
        check_optional_count("adapt_every", self.adapt_every, "never")
        check_optional_count("max_rank", self.max_rank, "the rank of the start")

    def start(
        self, W: TTTensor, batch: RankOneBatch, objective: Objective, rng: np.random.Generator
    ) -> Run:
        rows = TrainingSet(batch, objective)
        run = self.start_at_ranks(W, rows, rng)
        return run if self.adapt_every is None else _AdaptiveRanks(self, run, rows, rng)

    def start_at_ranks(self, W: TTTensor, rows: TrainingSet, rng: np.random.Generator) -> Run:
        """Return a run that starts at W and keeps its ranks."""
        W = W.astype(rows.batch.dtype)
        manifold = Manifold(W.shape, W.ranks, rows.batch.device)
        if W.ranks != manifold.ranks:
            W = W.orthogonalize(0).orthogonalize(-1)
        if self.method == "cg":
            return _ConjugateGradients(manifold, W, rows, self.line_search)
        if self.method == "svrg":
            point, rate = ManifoldPoint(manifold, W), LearningRate(self.learning_rate)
            return _ReducedVariance(point, rows, rng, rate, self.batch_size)
        momentum = self.momentum if self.method == "momentum" else 0.0
        point = ManifoldPoint(manifold, W, momentum)
        # Steps add up to 1 / (1 - momentum) times one of them.
        rate = LearningRate(self.learning_rate, (1 - momentum) * STEP_SHARE)
        return Descent(point, rows, rng, rate, self.batch_size)


def evaluate(
    manifold: Manifold, W: TTTensor, rows: TrainingSet, derivative: Derivative | None = None
) -> Evaluation:
    """Return the objective at W and its Riemannian gradient, by one pass through the rows.

    `derivative` replaces the objective's own, of predictions.
    """
    objective, squared_norm = rows.objective, 0.0
    f, gradient = manifold.value_and_gradient(W, rows.batch, derivative or objective)
    if objective.alpha:
        position = manifold.project(W, W)
        gradient = gradient + objective.alpha * position
        squared_norm = position.inner(position)
    return Evaluation(gradient, gradient.norm(), objective.value(f, squared_norm), f)


@dataclass
class ManifoldPoint(Point):
    """A point of the manifold, and the step that led there."""

    manifold: Manifold
    W: TTTensor
    momentum: float = 0.0
    last_step: TangentVector | None = None

    def evaluate(self, rows: TrainingSet, derivative: Derivative | None = None) -> Evaluation:
        return evaluate(self.manifold, self.W, rows, derivative)

    def tangent(self, gradient: TangentVector) -> TTTensor:
        return gradient.to_tensor()

    def step(self, gradient: TangentVector, rate: float) -> bool:
        xi = -rate * gradient
        if self.momentum and self.last_step is not None:
            xi = xi + self.momentum * self.manifold.transport(self.last_step, self.W)
        if not np.isfinite(xi.norm()):
            return False
        self.W, self.last_step = self.manifold.retract(self.W, xi), xi
        return True


class _ReducedVariance(Run):
    """Stochastic gradients of reduced variance (SVRG).

    From the gradient of a mini-batch its gradient at the anchor is subtracted, and that of all rows
    at the anchor is added. The anchor is the point where the iteration started. Its derivatives of
    a mini-batch's losses are projected at the current point, together with the current ones. Only
    its gradient of all losses is transported.
    """

    def __init__(
        self,
        point: ManifoldPoint,
        rows: TrainingSet,
        rng: np.random.Generator,
        rate: LearningRate,
        batch_size: int | None,
    ):
        self.point, self.rows, self.rng = point, rows, rng
        self.rate, self.batch_size = rate, batch_size
        self._set_anchor()

    def _set_anchor(self):
        """Make the current point the anchor."""
        self.anchor = self.point.evaluate(self.rows)
        self.value, self.gradient_norm = self.anchor.value, self.anchor.norm
        # The gradient of the penalty is known at every point, and needs no anchor.
        position = self.point.manifold.project(self.point.W, self.point.W)
        self.loss_gradient = self.anchor.gradient - self.rows.objective.alpha * position

    def tensor(self):
        return self.point.W

    def iterate(self):
        mini_batches = self.rows.mini_batches(self.batch_size, self.rng)
        self.rate.start_iteration(self.point, self.rows, mini_batches)
        for chosen in mini_batches:
            part = self.rows.take(chosen)
            evaluation = self.corrected(part, chosen)
            rate = self.rate.of_step(self.point, evaluation, part)
            if not self.point.step(evaluation.gradient, rate):
                self.value = np.nan
                return
        self._set_anchor()

    def corrected(self, part, chosen):
        """Return the evaluation of a mini-batch, with the corrected gradient."""
        derivative = part.objective.derivative
        at_anchor = derivative(self.anchor.f.reshape(self.rows.objective.y.shape)[chosen])
        evaluation = self.point.evaluate(part, lambda f: derivative(f) - at_anchor)
        transported = self.point.manifold.transport(self.loss_gradient, self.point.W)
        xi = evaluation.gradient + transported
        return evaluation._replace(gradient=xi, norm=xi.norm())


class _ConjugateGradients(Run):
    """Directions of Polak and Ribiere, with restarts, and a line search along each."""

    def __init__(self, manifold: Manifold, W: TTTensor, rows: TrainingSet, line_search: str):
        self.manifold, self.W, self.rows = manifold, W, rows
        self.line_search, self.last_length = line_search, None
        self.here = evaluate(manifold, W, rows)
        self.last = None  # gradient and direction of the last step

    @property
    def value(self) -> float:
        """The objective now."""
        return self.here.value

    @property
    def gradient_norm(self) -> float:
        return self.here.norm

    def tensor(self):
        return self.W

    def iterate(self):
        direction = self._direction()
        slope = direction.inner(self.here.gradient)
        if not -np.inf < slope < 0:
            return  # a minimum, or an overflow
        t = self._first_length(direction)
        self.last = None
        for _ in range(30):
            xi = t * direction
            if np.isfinite(xi.norm()):
                W = self.manifold.retract(self.W, xi)
                there = evaluate(self.manifold, W, self.rows)
                if there.value <= self.value + 1e-4 * t * slope:
                    self.last, self.last_length = (self.here.gradient, direction), t
                    self.W, self.here = W, there
                    break
            t /= 2

    def _direction(self):
        gradient = self.here.gradient
        if self.last is None:
            return -gradient
        old, direction = (self.manifold.transport(xi, self.W) for xi in self.last)
        square = self.last[0].inner(self.last[0])
        beta = gradient.inner(gradient - old) / square if square > 0 else 0.0
        direction = max(0.0, beta) * direction - gradient
        return direction if direction.inner(gradient) < 0 else -gradient

    def _first_length(self, direction):
        if self.line_search == "armijo" and self.last_length is not None:
            return 2 * self.last_length
        along = direction.to_tensor().contract(self.rows.batch).astype(np.float64)
        cross = direction.inner(self.manifold.project(self.W, self.W))
        square = direction.inner(direction)
        return exact_step(self.rows.objective, self.here.f, along, cross, square)


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def exact_step(
    objective: Objective, f: np.ndarray, along: np.ndarray, cross: float, square: float
) -> float:
    """Return the t > 0 that minimises the objective along a line.

    At t, predictions are ``f + t along``; the squared norm is ``|W|^2 + 2 t cross + t^2 square``.
    Newton's method finds the zero of the derivative, within bounds. O(m) a step.
    """
    low, high, t, first = 0.0, np.inf, 0.0, None
    for _ in range(20):
        now = f + t * along
        slope = objective.derivative(now) @ along + objective.alpha * (cross + t * square)
        first = slope if first is None else first
        if t > 0 and abs(slope) <= 1e-3 * abs(first):
            break
        low, high = (t, high) if slope < 0 else (low, t)
        curvature = objective.curvature(now) @ along**2 + objective.alpha * square
        t = t - slope / curvature
        if not low < t < high:
            # Without curvature, try predictions that move by 1, then twice as far.
            t = (low + high) / 2 if high < np.inf else 2 * low or 1 / np.abs(along).max()
    return t


class _AdaptiveRanks(Run):
    """A run of fixed ranks, started again every few iterations after a two-site sweep."""

    def __init__(self, solver: Riemannian, run: Run, rows: TrainingSet, rng: np.random.Generator):
        self.solver, self.run, self.rows, self.rng = solver, run, rows, rng
        self.max_rank = solver.max_rank or run.tensor().rank
        self.n_iter = 0

    @property
    def value(self) -> float:
        return self.run.value

    @property
    def gradient_norm(self) -> float:
        return self.run.gradient_norm

    def tensor(self):
        return self.run.tensor()

    def iterate(self):
        if self.n_iter and self.n_iter % self.solver.adapt_every == 0:
            sweep = ProductSweep(self.tensor(), self.rows.batch, self.rows.objective)
            sweep.two_site(self.max_rank, self.solver.eps)
            self.run = self.solver.start_at_ranks(sweep.tensor(), self.rows, self.rng)
        self.run.iterate()
        self.n_iter += 1
