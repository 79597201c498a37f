"""Gradient descent on the manifold of tensors of fixed TT-rank (paper, section 5).

The gradient of the objective is projected on the tangent space at W, a step is taken along it, and
the result is rounded back to the ranks of W. The penalty's gradient alpha W is its own projection.
"""

from dataclasses import dataclass

import numpy as np

from ..manifold import Manifold
from ..tangent import TangentVector
from ..tensor import TTTensor
from .base import Run, Solver
from .descent import (
    CAUTION,
    Descent,
    Point,
    Rate,
    Samples,
    Seen,
    check_choice,
    check_count,
    check_learning_rate,
)
from .sweeps import Sweep

METHODS = ("cg", "sgd", "momentum", "svrg")
LINE_SEARCHES = ("exact", "armijo")


@dataclass(frozen=True)
class Riemannian(Solver):
    """Riemannian gradient descent; an iteration takes each sample once.

    Parameters
    ----------
    method : {"cg", "sgd", "momentum", "svrg"}
        "cg" are nonlinear conjugate gradients (Polak-Ribiere) of all samples; "sgd" is the paper's
        algorithm 1; "momentum" adds the last step, transported; "svrg" corrects the gradients of
        mini-batches by that of all samples, which it takes once an iteration.
    learning_rate : float or "auto"
        Length of a step, in gradients; "cg" has none. "auto" is half of what is best for quadratic
        models: of a few mini-batches at the start of an iteration, and, if that is less, of the
        step's own mini-batch; with momentum, the share ``1 - momentum`` of it. It costs one more
        pass of predictions.
    batch_size : int, optional
        Samples of a mini-batch; by default all, which is what "cg" needs.
    momentum : float
        Share of the last step that is kept, for "momentum".
    line_search : {"exact", "armijo"}
        How "cg" finds a step: as the minimum along the tangent, where predictions are linear in the
        step, or by trying; both go back until the objective is lower after rounding.
    adapt_every : int, optional
        Iterations after which a two-site sweep finds new ranks; by default they are kept.
    max_rank : int, optional
        Of a bond after a sweep; by default the largest rank there is.
    eps : float
        Share of a pair's norm below which a sweep drops a singular value.

    Notes
    -----
    The run's `value` is the objective at the current tensor, for "cg", "svrg" and without
    mini-batches; else the mean over the mini-batches, before each step. It is NaN after a step
    that would leave the range of floats; the tensor then stays. Runs are in the batch's precision.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import RankOneBatch, TTTensor
    >>> from ttexm.losses import Squared
    >>> from ttexm.objective import Objective
    >>> from ttexm.solvers.riemannian import Riemannian
    >>> from ttexm.trainer import Trainer
    >>> x = np.random.default_rng(0).standard_normal((500, 4))
    >>> batch = RankOneBatch.from_columns(x)
    >>> objective = Objective(Squared(), x[:, 0] * x[:, 3], np.ones(500), alpha=1e-6)
    >>> W = TTTensor.random(batch.shape, rank=2, seed=0)
    >>> W = Trainer(Riemannian("cg")).run(W, batch, objective)
    >>> bool(abs(W[1, 0, 0, 1] - 1) < 1e-3)
    True
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
        check_count("batch_size", self.batch_size, "all samples")
        if self.method == "cg" and self.batch_size is not None:
            raise ValueError(
                f"method='cg' needs all samples, batch_size=None, got {self.batch_size}."
            )
        for name, share in (("momentum", self.momentum), ("eps", self.eps)):
            if not 0 <= share < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {share!r}.")
        check_choice("line_search", self.line_search, LINE_SEARCHES)
        check_count("adapt_every", self.adapt_every, "never")
        check_count("max_rank", self.max_rank, "the rank of the start")

    def start(self, W, batch, objective, rng):
        samples = Samples(batch, objective)
        run = self._start(W, samples, rng)
        return run if self.adapt_every is None else _Adaptive(self, run, samples, rng)

    def _start(self, W, samples, rng):
        W = W.astype(samples.batch.dtype)
        manifold = Manifold(W.shape, W.ranks, samples.batch.device)
        if W.ranks != manifold.ranks:
            W = W.orthogonalize(0).orthogonalize(-1)
        if self.method == "cg":
            return _ConjugateGradients(manifold, W, samples, self.line_search)
        if self.method == "svrg":
            point, rate = ManifoldPoint(manifold, W), Rate(self.learning_rate)
            return _ReducedVariance(point, samples, rng, rate, self.batch_size)
        momentum = self.momentum if self.method == "momentum" else 0.0
        rate = Rate(self.learning_rate, (1 - momentum) * CAUTION)
        return Descent(ManifoldPoint(manifold, W, momentum), samples, rng, rate, self.batch_size)


def look(manifold: Manifold, W: TTTensor, samples: Samples, derivative=None) -> Seen:
    """The Riemannian gradient at W and all that comes with it; one pass through the samples."""
    objective, kept = samples.objective, []

    def keep(f):
        kept.append(f)
        return (derivative or objective.derivative)(f)

    gradient, squared_norm = manifold.gradient(W, samples.batch, keep), 0.0
    if objective.alpha:
        position = manifold.project(W, W)
        gradient = gradient + objective.alpha * position
        squared_norm = position.inner(position)
    f = kept[0]
    return Seen(gradient, gradient.norm(), objective.value(f, squared_norm), f)


@dataclass
class ManifoldPoint(Point):
    """A point of the manifold, and the step that led there."""

    manifold: Manifold
    W: TTTensor
    momentum: float = 0.0
    last: TangentVector | None = None

    def look(self, samples, derivative=None):
        return look(self.manifold, self.W, samples, derivative)

    def tangent(self, gradient):
        return gradient.to_tensor()

    def step(self, gradient, rate):
        xi = -rate * gradient
        if self.momentum and self.last is not None:
            xi = xi + self.momentum * self.manifold.transport(self.last, self.W)
        if not np.isfinite(xi.norm()):
            return False
        self.W, self.last = self.manifold.retract(self.W, xi), xi
        return True


class _ReducedVariance(Run):
    """Gradients of mini-batches, less what they were at the anchor, plus that of all samples there.

    The anchor is the point where an iteration starts. Its derivatives of a mini-batch's losses are
    projected at the current point, together with the current ones; only its gradient of all losses
    is transported.
    """

    def __init__(self, point: ManifoldPoint, samples: Samples, rng, rate: Rate, batch_size):
        self.point, self.samples, self.rng = point, samples, rng
        self.rate, self.batch_size = rate, batch_size
        self._anchor()

    def _anchor(self):
        """Look at all samples from the current point."""
        self.seen = self.point.look(self.samples)
        self.value, self.gradient_norm = self.seen.value, self.seen.norm
        # The penalty's gradient is known everywhere: it needs no anchor.
        position = self.point.manifold.project(self.point.W, self.point.W)
        self.of_losses = self.seen.gradient - self.samples.objective.alpha * position

    def tensor(self):
        return self.point.W

    def iterate(self):
        parts = self.samples.split(self.batch_size, self.rng)
        self.rate.choose(self.point, self.samples, parts)
        for rows in parts:
            part = self.samples.take(rows)
            seen = self.look(part, rows)
            if not self.point.step(seen.gradient, self.rate.step(self.point, seen, part)):
                self.value = np.nan
                return
        self._anchor()

    def look(self, part: Samples, rows) -> Seen:
        """The corrected gradient of a mini-batch, at the current point."""
        derivative = part.objective.derivative
        old = derivative(self.seen.f.reshape(self.samples.objective.y.shape)[rows])
        seen = self.point.look(part, lambda f: derivative(f) - old)
        xi = seen.gradient + self.point.manifold.transport(self.of_losses, self.point.W)
        return seen._replace(gradient=xi, norm=xi.norm())


class _ConjugateGradients(Run):
    """Directions of Polak and Ribiere, with restarts, and a line search along each."""

    def __init__(self, manifold: Manifold, W: TTTensor, samples: Samples, line_search: str):
        self.manifold, self.W, self.samples = manifold, W, samples
        self.line_search, self.t = line_search, None
        self.seen = look(manifold, W, samples)
        self.last = None  # gradient and direction of the last step

    @property
    def value(self) -> float:
        """The objective now."""
        return self.seen.value

    @property
    def gradient_norm(self) -> float:
        return self.seen.norm

    def tensor(self):
        return self.W

    def iterate(self):
        direction = self._direction()
        slope = direction.inner(self.seen.gradient)
        if not -np.inf < slope < 0:
            return  # a minimum, or beyond the range of floats
        t = self._first_step(direction)
        self.last = None
        for _ in range(30):
            xi = t * direction
            if np.isfinite(xi.norm()):
                W = self.manifold.retract(self.W, xi)
                seen = look(self.manifold, W, self.samples)
                if seen.value <= self.value + 1e-4 * t * slope:
                    self.last, self.t = (self.seen.gradient, direction), t
                    self.W, self.seen = W, seen
                    break
            t /= 2

    def _direction(self):
        gradient = self.seen.gradient
        if self.last is None:
            return -gradient
        old, direction = (self.manifold.transport(xi, self.W) for xi in self.last)
        square = self.last[0].inner(self.last[0])
        beta = gradient.inner(gradient - old) / square if square > 0 else 0.0
        direction = max(0.0, beta) * direction - gradient
        return direction if direction.inner(gradient) < 0 else -gradient

    def _first_step(self, direction):
        if self.line_search == "armijo" and self.t is not None:
            return 2 * self.t
        along = direction.to_tensor().contract(self.samples.batch).astype(np.float64)
        cross = direction.inner(self.manifold.project(self.W, self.W))
        square = direction.inner(direction)
        return exact_step(self.samples.objective, self.seen.f, along, cross, square)


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def exact_step(objective, f, along, cross, square) -> float:
    """The t that minimises the objective at f + t along and |W|^2 + 2 t cross + t^2 square.

    Newton's method for the zero of the derivative, between bounds. O(m) a step.
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


class _Adaptive(Run):
    """Another run, which starts anew every so often, from what a two-site sweep has found."""

    def __init__(self, plan: Riemannian, run: Run, samples: Samples, rng):
        self.plan, self.run, self.samples, self.rng = plan, run, samples, rng
        self.max_rank = plan.max_rank or run.tensor().rank
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
        if self.n_iter and self.n_iter % self.plan.adapt_every == 0:
            sweep = Sweep(self.tensor(), self.samples.batch, self.samples.objective)
            sweep.two_site(self.max_rank, self.plan.eps)
            self.run = self.plan._start(sweep.tensor(), self.samples, self.rng)
        self.run.iterate()
        self.n_iter += 1
