"""Validation: losses of candidates on rows that their models were not trained on."""

import numpy as np

from ...tt.tensor import TTTensor
from .. import initialize
from ..data import Data
from ..initialize import Additive
from ..solvers.sweeps import Sweeps
from .candidate import Candidate
from .folds import Fold, make_folds
from .plan import PLAN, SearchPlan
from .screening import screen


class Validation:
    """Folds of the rows, and models of given settings on each of them.

    Parameters
    ----------
    data : Data
    rng : numpy.random.Generator
    max_order : int
        Highest order of the products that screening looks for; 0 for no screening.
    plan : SearchPlan
    """

    def __init__(
        self, data: Data, rng: np.random.Generator, max_order: int, plan: SearchPlan = PLAN
    ):
        self.folds, self.max_order, self.plan = make_folds(data, rng, plan), max_order, plan

    @property
    def weights(self) -> list[np.ndarray]:
        """Weights of the rows that each fold is tested on."""
        return [fold.test.weights for fold in self.folds]

    def linear(self, ridge: float) -> list[np.ndarray]:
        """Return the losses of the linear model, an array for each fold."""
        return [fold.test.losses(fold.linear(ridge).tensor(), 1.0) for fold in self.folds]

    def trial(
        self, candidate: Candidate, n_folds: int, starts: list[TTTensor] | None = None
    ) -> "Trial":
        """Return models of some settings on the first folds.

        They start from the given tensors, or else from the linear model.
        """
        folds = self.folds[:n_folds]
        if starts is None:
            starts = [
                initial_point(fold.linear(candidate.ridge), candidate, fold.train, self.plan)
                for fold in folds
            ]
        return Trial(folds, candidate, starts, self.plan)

    def screened(self, ridge: float, rank: int) -> list[TTTensor] | None:
        """Return linear models with the products that screening finds, at order scale 1.

        None if there is a fold in which none are found; the remaining folds are then not screened,
        as significant products would be found in all of them.
        """
        found = []
        for fold in self.folds if self.max_order > 1 else []:
            W = screen(fold.train, fold.linear(ridge), ridge, self.max_order, self.plan.screening)
            if W is None:
                return None
            found.append(W.round(rank=rank))
        return found or None

    def rescaled(self, tensors: list[TTTensor], order_scale: float) -> list[TTTensor]:
        """Return models of order scale 1 at another one, one for each fold."""
        return [
            fold.train.rescaled(W, order_scale) for fold, W in zip(self.folds, tensors, strict=True)
        ]


class Trial:
    """Models of some settings, one for each fold, while they are trained."""

    def __init__(
        self, folds: list[Fold], candidate: Candidate, starts: list[TTTensor], plan: SearchPlan
    ):
        self.folds, self.candidate, self.tensors = folds, candidate, starts
        self._runs, self._limits = [], []
        for fold, W in zip(folds, starts, strict=True):
            s, alpha = candidate.order_scale, candidate.alpha(fold.train.size)
            sweeps = Sweeps(dtype=precision(fold.train, plan))
            objective = fold.train.objective(alpha)
            self._runs.append(sweeps.start(W, fold.train.features(s), objective))
            self._limits.append(np.inf)
            if candidate.is_screened:
                linear = fold.train.rescaled(fold.linear(candidate.ridge).tensor(), s)
                self._limits[-1] = fold.train.value(linear, s, alpha)

    def advance(self) -> None:
        """Sweep once over the cores of each model."""
        for run in self._runs:
            run.iterate()
        self.tensors = [run.tensor() for run in self._runs]

    def losses(self) -> list[np.ndarray]:
        """Return the losses now, an array for each fold.

        They are infinite for screened products whose objective is above that of the linear model:
        with these settings, a fit would not return them.
        """
        losses = []
        for fold, W, run, limit in zip(
            self.folds, self.tensors, self._runs, self._limits, strict=True
        ):
            found = fold.test.losses(W, self.candidate.order_scale)
            losses.append(found if run.value <= limit else np.full_like(found, np.inf))
        return losses


def initial_point(
    linear: Additive,
    candidate: Candidate,
    data: Data,
    plan: SearchPlan,
    rng: np.random.Generator | None = None,
) -> TTTensor:
    """Return the linear model at a candidate's order scale, its ranks filled up at random."""
    W = data.rescaled(linear.tensor(), candidate.order_scale)
    rng = np.random.default_rng(0) if rng is None else rng
    return initialize.padded(W, candidate.rank, plan.padding, rng, linear)


def precision(data: Data, plan: SearchPlan) -> type:
    """Return the precision of the partial products of a sweep."""
    return np.float64 if len(data) <= plan.double_precision_rows else np.float32
