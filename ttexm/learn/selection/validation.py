"""Validation: what models of given settings predict for rows that they were not trained on."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from ...kernels.core_sweep import count_chunks
from ...kernels.schedule import get_num_threads, run_side_by_side
from ...tt.tensor import TTTensor
from ..bases import LINEAR, Basis
from ..data import Data
from ..solvers.sweeps import Sweeps
from .candidate import Candidate, Request
from .folds import Fold, make_folds, rows_to_search
from .plan import PLAN, SearchPlan
from .screening import screen

SOLVER = Sweeps(dtype=np.float32)


class Validation:
    """Folds of the rows, and models of given settings on each of them.

    Parameters
    ----------
    data : Data
    rng : numpy.random.Generator
    max_order : int
        Highest order of the products that screening looks for; 0 for no screening.
    plan : SearchPlan

    Attributes
    ----------
    is_part : bool
        Whether there are more rows than the folds have.
    """

    def __init__(
        self, data: Data, rng: np.random.Generator, max_order: int, plan: SearchPlan = PLAN
    ):
        self.folds, self.max_order, self.plan = make_folds(data, rng, plan), max_order, plan
        self.is_part = len(data) > rows_to_search(data, plan)
        self._seed = int(rng.integers(2**31))  # of all random starts
        self._screening = 0.0, 0  # penalty and rank
        self._screened: dict[Fold, TTTensor | None] = {}

    @property
    def n_folds(self) -> int:
        return len(self.folds)

    def try_all(self, requests: list[Request]) -> list[Candidate]:
        """Return the candidates that were asked for, with their losses.

        Threads share the folds of each candidate or, if there are fewer folds than threads, the
        candidates.
        """
        self._fit_additive(requests)
        if requests[0].n_folds >= get_num_threads():
            return [self._try(request) for request in requests]
        return side_by_side(self._try, requests, self._n_shares)

    def _fit_additive(self, requests):
        """Fit the additive models that candidates start from, threads sharing folds and bases.

        In order for each fold and basis: a model starts from the one before.
        """
        wanted: dict[tuple[Fold, Basis], list[float]] = {}
        for request in requests:
            candidate = request.candidate
            for fold in self.folds[candidate.n_folds : request.n_folds]:
                wanted.setdefault((fold, candidate.basis), []).append(candidate.ridge)

        def fit(item):
            (fold, basis), ridges = item
            for ridge in ridges:
                fold.additive(basis, ridge)

        side_by_side(fit, wanted.items())

    @property
    def _n_shares(self):
        """How many threads can share the training of one candidate on one fold."""
        return count_chunks(len(self.folds[0].train))

    def _try(self, request):
        candidate, n_folds = request.candidate, request.n_folds
        if candidate.is_additive:
            return self.additive(candidate, n_folds)
        return self.trained(candidate, n_folds, request.fewest)

    def additive(self, candidate: Candidate, n_folds: int) -> Candidate:
        """Return an additive candidate, tried on the first folds."""
        basis, ridge = candidate.basis, candidate.ridge
        folds = self.folds[candidate.n_folds : n_folds]
        predictions = side_by_side(lambda f: f.predict(f.additive(basis, ridge), basis), folds)
        return _tried(candidate, folds, predictions)

    def trained(
        self, candidate: Candidate, n_folds: int, fewest: int = 1, patience: int = 2
    ) -> Candidate:
        """Return a candidate at its best number of sweeps, tried on the first folds.

        Parameters
        ----------
        candidate : Candidate
            Its number of sweeps is the largest that is tried. If it was tried on some folds before,
            it is trained on the others only, and the number of sweeps stays.
        n_folds : int
        fewest : int
            The smallest number of sweeps.
        patience : int
            Sweeps without a better loss after which to stop.
        """
        first, best = candidate.n_folds, None
        if first:
            fewest = candidate.n_iter
        folds = self.folds[first:n_folds]
        trials = side_by_side(lambda fold: self._trial(candidate, fold), folds)
        for n_iter in range(candidate.n_iter + 1):
            if n_iter:
                side_by_side(_Trial.advance, trials, self._n_shares)
            if n_iter < fewest:
                continue
            predictions = side_by_side(_Trial.predict, trials)
            now = _tried(replace(candidate, n_iter=n_iter), folds, predictions)
            if best is None or is_better(now, best, self.plan.improvement):
                best = now
            elif n_iter - best.n_iter >= patience:
                break
        return best

    def _trial(self, candidate, fold):
        s = candidate.order_scale
        linear = fold.additive(candidate.basis, candidate.ridge)
        if not candidate.is_screened:
            cores = linear.start(s, candidate.rank, self.plan.padding, self._seed)
            return _Trial(fold, candidate, cores, np.inf)
        W = self._products(fold)
        if W is None:
            return _Trial(fold, candidate, linear.cores(s), -np.inf)
        W = fold.train.from_plain(W, candidate.basis, s)
        alpha = candidate.alpha(fold.train.size)
        limit = fold.train.value(linear.tensor(s), candidate.basis, s, alpha)
        return _Trial(fold, candidate, W.to_cores(), limit)

    def screen(self, ridge: float, rank: int, n_folds: int) -> int:
        """Look for products in the first folds; return the largest rank of the models with them.

        0 if there is a fold in which none are found; the remaining folds are then not screened, as
        significant products would be found in all of them.
        """
        self._screening = min(ridge, self.plan.screening.most_ridge), rank
        self._screened, ranks = {}, [0]
        folds, n_threads = self.folds[: n_folds if self.max_order > 1 else 0], get_num_threads()
        for j in range(0, len(folds), n_threads):
            found = side_by_side(self._products, folds[j : j + n_threads])
            if None in found:
                return 0
            ranks += [W.rank for W in found]
        return max(ranks)

    def _products(self, fold) -> TTTensor | None:
        """Return the linear model of a fold with the products found there; None without any."""
        if fold not in self._screened:
            ridge, rank = self._screening
            linear = fold.additive(LINEAR, ridge)
            W = screen(fold.train, linear, ridge, self.max_order, self.plan.screening)
            if W is not None:
                W = fold.train.to_plain(W.round(rank=rank), LINEAR, 1.0)
            self._screened[fold] = W
        return self._screened[fold]


class _Trial:
    """The model of some settings on one fold, while it is trained."""

    def __init__(self, fold: Fold, candidate: Candidate, cores: list[np.ndarray], limit: float):
        self.candidate, self.limit = candidate, limit
        basis, s, train = candidate.basis, candidate.order_scale, fold.train
        self.test = fold.test.features(basis, s)
        objective = train.objective(candidate.alpha(train.size))
        self.run = SOLVER.start_at(cores, train.features(basis, s), objective)

    def advance(self):
        self.run.iterate()

    def predict(self):
        """The predictions now; infinite if a fit would not return the model.

        That is so for screened products whose objective is above that of the additive model.
        """
        f = self.run.predict(self.test)
        return f if self.run.value <= self.limit else np.full_like(f, np.inf)


def side_by_side(function: Callable, items: Iterable, n_shares: int = 1) -> list:
    """Return the results for all items, computed on threads; see `schedule.run_side_by_side`."""
    tasks = [lambda item=item: function(item) for item in items]
    return run_side_by_side(tasks, n_shares)


def _tried(candidate, folds, predictions):
    """The candidate with what it predicts for further folds."""
    losses = [fold.test.losses_of(f) for fold, f in zip(folds, predictions, strict=True)]
    weights = [fold.test.weights for fold in folds]
    return replace(
        candidate,
        predictions=(*candidate.predictions, *predictions),
        losses=(*candidate.losses, *losses),
        weights=(*candidate.weights, *weights),
    )


def is_better(candidate: Candidate, other: Candidate, by: float) -> bool:
    """Return whether a score is lower than another by a share of it; scores may be negative."""
    score, limit = candidate.score, other.score
    return score < limit - (by * abs(limit) if np.isfinite(limit) else 0)
