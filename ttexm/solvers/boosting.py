"""Residual boosting: small tensors, fitted to what the model has left, are added to it.

To sweeps an interaction shows only through directions that have a part of it. A model has none to
spare once all of its own are in use; a small random tensor, with the model as an offset, has all of
its own, and others each time.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from .. import initialize
from ..shapes import is_integer
from .base import Run, Solver
from .descent import Samples, check_count
from .sweeps import Settings, Sweeps

MOST_STRETCH = 4.0  # of predictions, to undo the penalty
# Of the start of a boost. Low scales find less: of a sum of products of six, five sweeps at rank 16
# explain 38 % from scale 0.3 and 62 % from 1.0, on average over four starts.
START_SCALE, START_NORM = 1.0, 1e-6
ROUGH = Settings(cg_steps=2)


@dataclass(frozen=True)
class Boosting(Solver):
    """Two-site sweeps that find what is missing; an iteration adds one small tensor.

    The small tensor is fitted with the model's predictions as an offset and added; the sum is
    polished. The model is kept as it was if that has not lowered the objective.

    Parameters
    ----------
    boost_rank : int
        Rank of what is added.
    boost_sweeps : int
        Sweeps by which it is fitted, from a random start.
    polish_sweeps : int
        Sweeps over the sum.
    max_rank : int
        Of the sum.
    eps : float
        Share of a pair's norm below which polishing drops a singular value. Found terms should be
        above, noise below it: too low, and ranks fill up with noise; too high, and weak terms never
        get in.
    rows : int, optional
        Samples of a sweep, drawn anew for each; by default all. The objective is always of all.
    settings : Settings
        Of each pair of cores; a rough solution is enough, as the next sweep comes.
    dtype : dtype, optional
        Of the partial products; by default that of the batch.

    Notes
    -----
    The penalty is on the sum, while a boost's own fit penalises the boost alone: left to that, it
    finds again what the penalty has taken from strong terms. The offset is therefore the model's
    predictions times the factor at which their loss is lowest; polishing minimises the sum's own
    objective. The initial offset of the objective, if there is one, is kept as it is.

    A term is found if noise does not hide it. Order scale and alpha say how much noise of high
    orders a fit lets in: where the target is noisy, as labels are, a larger alpha than is best for
    prediction finds more.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import RankOneBatch, TTTensor
    >>> from ttexm.losses import Squared
    >>> from ttexm.objective import Objective
    >>> from ttexm.solvers.boosting import Boosting
    >>> from ttexm.trainer import Trainer
    >>> x = np.random.default_rng(0).choice([-1.0, 1.0], (2000, 8))
    >>> y = x[:, :4].prod(axis=1) + x[:, 2:7].prod(axis=1)
    >>> batch = RankOneBatch.from_columns(x)
    >>> objective = Objective(Squared(), y, np.ones(2000), alpha=1e-6)
    >>> trainer = Trainer(Boosting(boost_rank=2), n_iter_no_change=1, max_iter=20)
    >>> W = trainer.run(TTTensor.zeros(batch.shape), batch, objective)
    >>> W.ranks
    (1, 2, 2, 2, 2, 2, 2, 1, 1)
    """

    boost_rank: int = 8
    boost_sweeps: int = 4
    polish_sweeps: int = 1
    max_rank: int = 24
    eps: float = 0.04
    rows: int | None = None
    settings: Settings = ROUGH
    dtype: type | None = None

    def __post_init__(self):
        for name in ("boost_rank", "boost_sweeps", "polish_sweeps", "max_rank"):
            count = getattr(self, name)
            if not (is_integer(count) and count >= 1):
                raise ValueError(f"{name} must be at least 1, got {count!r}.")
        if not 0 <= self.eps < 1:
            raise ValueError(f"eps must be at least 0 and less than 1, got {self.eps!r}.")
        check_count("rows", self.rows, "all samples")

    def start(self, W, batch, objective, rng):
        return _Boosted(self, W, Samples(batch, objective), rng)


class _Boosted(Run):
    """A model, its predictions, and the objective there."""

    def __init__(self, plan: Boosting, W, samples: Samples, rng):
        self.plan, self.samples, self.rng = plan, samples, rng
        self.W, self.f, self.value = self._look(W.astype(np.float64))

    def tensor(self):
        return self.W

    def iterate(self):
        plan = self.plan
        W = (self.W + self._boost()).round(plan.max_rank)
        W = self._sweep(W, self.samples, plan.polish_sweeps, plan.max_rank, plan.eps)
        seen = self._look(W)
        if seen[-1] <= self.value:
            self.W, self.f, self.value = seen

    def _boost(self):
        """A small tensor for what is left."""
        batch, rank = self.samples.batch, self.plan.boost_rank
        left = Samples(batch, self.samples.objective.beyond(self._stretch() * self.f))
        W = initialize.low_order(batch.shape, rank, START_SCALE, self.rng)
        return self._sweep(W * (START_NORM / W.norm()), left, self.plan.boost_sweeps, rank)

    def _stretch(self):
        """The factor at which the model's predictions are best, without the penalty.

        What the penalty has taken from strong terms would hide weak ones from a boost.
        """

        def loss(factor):
            return self.samples.objective.value(factor * self.f, 0.0)

        return minimize_scalar(loss, bounds=(1, MOST_STRETCH), options={"xatol": 1e-2}).x

    def _sweep(self, W, samples, n_sweeps, max_rank, eps=0.0):
        sweeps = Sweeps(2, max_rank, eps, self.plan.settings, self.plan.dtype)
        for _ in range(n_sweeps):
            part = samples.take(samples.split(self.plan.rows, self.rng)[0])
            run = sweeps.start(W, part.batch, part.objective)
            run.iterate()
            W, self.gradient_norm = run.tensor(), run.gradient_norm
        return W

    def _look(self, W):
        f = W.contract(self.samples.batch).astype(np.float64)
        return W, f, self.samples.objective.value(f, W.norm() ** 2)
