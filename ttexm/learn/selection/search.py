"""The search for settings that were not given: penalty, order scale, rank and number of sweeps.

The search uses cross-validation on the training rows. It tries many candidates with few sweeps, and
then the best of them with more:

1. a path of linear models, from large to small penalties;
2. for each order scale, two sweeps at rank 4 with penalties around the best one, each started from
   the last (on one fold, if there are many rows);
3. the best three candidates, with more sweeps, at rank 8;
4. the best candidate at other ranks, higher ones first, with as many sweeps as help.

The linear model, and models that start from the products that screening finds, are candidates as
well. As in the one-standard-error rule, the simplest candidate within half a standard error of the
best one is taken. All numbers are those of `SearchPlan`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...checks import check_ranks
from .. import progress
from ..data import Data
from .candidate import Candidate
from .plan import PLAN, SearchPlan
from .validation import Validation


def possible_ranks(data: Data, ranks: Sequence[int], plan: SearchPlan = PLAN) -> list[int]:
    """Return the ranks that the shape of the tensor and the number of rows allow, in order."""
    # Ranks above what the shape allows would all be the same model.
    most = max(check_ranks(data.shape, max(ranks)))
    if len(ranks) > 1:
        # Few rows cannot determine a high rank, but a linear model must have room.
        fewest = data.n_outputs + 1
        most = min(most, max(min(ranks), round(data.size) // plan.rows_per_rank, fewest))
        ranks = [max(rank, fewest) for rank in ranks]
    return sorted({min(rank, most) for rank in ranks})


class Search:
    """A search for settings.

    Parameters
    ----------
    validation : Validation
    total_alpha : float, optional
        The penalty alpha times the number of rows, if the user has chosen it.
    order_scales, ranks : sequences, optional
        Values to choose from, by default those of the plan; only one if the user has chosen it.
    max_iter : int, optional
        Most sweeps, if fewer than those of the plan.
    n_columns : int
        Columns of the table. If there are many, fewer candidates are tried.
    verbose : bool
    plan : SearchPlan

    Attributes
    ----------
    tried : list of Candidate
        Candidates that were tried on all folds so far, with their losses.
    """

    def __init__(
        self,
        validation: Validation,
        total_alpha: float | None = None,
        order_scales: Sequence[float] | None = None,
        ranks: Sequence[int] | None = None,
        max_iter: int | None = None,
        n_columns: int = 1,
        verbose: bool = False,
        plan: SearchPlan = PLAN,
    ):
        self.validation, self.total_alpha, self.plan = validation, total_alpha, plan
        self.order_scales = sorted(order_scales or plan.order_scales)
        self.ranks = sorted(ranks or plan.ranks)
        self.is_wide = n_columns >= plan.many_columns
        most = plan.few_sweeps if self.is_wide else plan.most_sweeps
        self.max_iter = most if max_iter is None else min(max_iter, most)
        self.verbose = verbose
        self.tried: list[Candidate] = []

    @property
    def _n_folds(self):
        return len(self.validation.weights)

    @property
    def _n_explored(self):
        """Number of folds for exploring: one if there are many rows, else all."""
        is_thorough = self._n_folds == self.plan.n_folds and not self.is_wide
        return self._n_folds if is_thorough else 1

    @property
    def _exploring_sweeps(self):
        return 1 if self.is_wide else self.plan.exploring_sweeps

    def run(self, may_be_linear: bool = True) -> Candidate:
        """Return the best settings; those of a linear model only if that is wanted."""
        plan = self.plan
        n_steps = len(plan.ridges) + 1
        n_steps += len(self.order_scales) * (plan.higher + 1 + plan.lower)
        n_steps += plan.n_candidates + len(self.ranks) + 1
        self.bar = progress.bar(n_steps, "choosing settings", self.verbose)
        try:
            linear = self._linear_path()
            screened = self.validation.screened(linear.ridge, self._screened_rank)
            tried = self._search(linear)
            best = self._simplest([linear, *tried] if may_be_linear else tried)
            if screened is None:
                return best
            found = self._try_screened(screened, linear)
            return found if _is_better(found, best, by=plan.screening.gain) else best
        finally:
            self.bar.close()

    def best_so_far(self, may_be_linear: bool = True) -> Candidate | None:
        """Return the best settings that were tried on all folds, if the search was interrupted."""
        tried = [candidate for candidate in self.tried if may_be_linear or not candidate.is_linear]
        return min(tried, key=_score, default=None)

    def _linear_path(self) -> Candidate:
        """Return the best linear model; the path ends after two penalties that were worse."""
        if self.total_alpha is None:
            settings = [(ridge, self.order_scales[-1]) for ridge in self.plan.ridges]
        else:
            settings = [(self.total_alpha / s**2, s) for s in self.order_scales]
        path = []
        for ridge, s in settings:
            losses = self.validation.linear(ridge)
            path.append(self._judged(Candidate(ridge, s, 2, 0, is_linear=True), losses))
            self._tell(path[-1])
            if len(path) > 2 and path[-3].score < path[-2].score < path[-1].score:
                break
        return min(path, key=_score)

    def _grid(self, linear: Candidate):
        """Yield each order scale with the penalties to try, from large to small."""
        plan = self.plan
        for s in self.order_scales:
            if self.total_alpha is not None:
                yield s, (self.total_alpha / s**2,)
            elif self.is_wide:
                yield s, (linear.ridge,)
            else:
                at = plan.ridges.index(linear.ridge)
                yield s, plan.ridges[max(0, at - plan.higher) : at + plan.lower + 1]

    def _search(self, linear: Candidate) -> list[Candidate]:
        plan = self.plan
        low, middle, *high = self.ranks if len(self.ranks) > 1 else self.ranks * 2
        explored, tried = [], []
        for s, ridges in self._grid(linear):
            explored += self._explore(s, ridges, low)
        n_candidates = plan.n_candidates - self.is_wide
        for candidate in sorted(explored, key=_score)[:n_candidates]:
            again = replace(candidate, rank=middle, n_iter=plan.judging_sweeps)
            tried.append(self._try(again, self._n_folds)[0])
        top = min(tried, key=_score)
        # Higher ranks come first: if one of them helps, lower ones are not tried.
        for rank in dict.fromkeys((*high, middle, low)):
            is_done = top.n_iter < plan.judging_sweeps or self.max_iter <= plan.judging_sweeps
            if rank == middle and is_done:
                continue
            again = replace(top, rank=rank, n_iter=self.max_iter)
            tried.append(self._try(again, self._n_folds)[0])
            if rank > middle and _score(tried[-1]) < _score(top):
                break
        return tried

    def _explore(self, s, ridges, rank) -> Iterator[Candidate]:
        """Try penalties from large to small, with few sweeps, until one is worse."""
        tensors, last = None, np.inf
        for ridge in ridges:
            candidate = Candidate(ridge, s, rank, self._exploring_sweeps)
            candidate, tensors = self._try(candidate, self._n_explored, tensors)
            yield candidate
            if candidate.score > last:
                break
            last = candidate.score

    def _try(self, candidate: Candidate, n_folds: int, starts=None, fewest: int = 1):
        """Return the candidate at its best number of sweeps, and the tensors of the last sweep."""
        trial = self.validation.trial(candidate, n_folds, starts)
        patience, best = 1 if self.is_wide else self.plan.patience, None
        for n_iter in range(min(candidate.n_iter, self.max_iter) + 1):
            if n_iter:
                trial.advance()
            now = self._judged(replace(candidate, n_iter=n_iter), trial.losses())
            is_first = best is None or best.n_iter < fewest
            if is_first or _is_better(now, best, by=self.plan.improvement):
                best = now
            elif n_iter - best.n_iter >= patience:
                break
        self._tell(best)
        return best, trial.tensors

    def _judged(self, candidate: Candidate, losses) -> Candidate:
        weights = self.validation.weights[: len(losses)]
        with np.errstate(over="ignore"):
            scores = [
                float(np.average(part, weights=shares))
                for part, shares in zip(losses, weights, strict=True)
            ]
        shares = tuple(float(part.sum()) for part in weights)
        return replace(candidate, scores=tuple(scores), shares=shares, losses=tuple(losses))

    def _simplest(self, candidates: list[Candidate]) -> Candidate:
        """Return the simplest candidate within the plan's number of standard errors of the best.

        The simplest is the one with the largest penalty on interactions, then the lowest rank.
        """
        best = min(candidates, key=_score)
        weights = np.concatenate(self.validation.weights)
        weights, n = weights / weights.sum(), weights.sum()

        def penalty_of_pairs(candidate):
            return np.inf if candidate.is_linear else candidate.ridge / candidate.order_scale**2

        for candidate in sorted(candidates, key=lambda c: (-penalty_of_pairs(c), c.rank)):
            with np.errstate(invalid="ignore"):
                worse = np.concatenate(candidate.losses) - np.concatenate(best.losses)
                mean = weights @ worse
                standard_error = np.sqrt(weights @ (worse - mean) ** 2 / n)
            if candidate is best or mean <= self.plan.as_good * standard_error:
                return candidate
        return best

    @property
    def _screened_rank(self):
        return self.plan.screening.most_rank if len(self.ranks) > 1 else self.ranks[0]

    def _try_screened(self, starts, linear: Candidate) -> Candidate:
        """Return the best settings for starts from screened products.

        The two largest order scales are tried.
        """
        explored, rank = [], max(W.rank for W in starts)

        def judge(candidate, n_folds):
            scaled = self.validation.rescaled(starts, candidate.order_scale)[:n_folds]
            return self._try(candidate, n_folds, scaled, fewest=0)[0]

        # Order scale 1, at which the products were fitted, comes first: the first of equals wins.
        for s, ridges in list(self._grid(linear))[:-3:-1]:
            for ridge in ridges:
                sweeps = self._exploring_sweeps + 1
                candidate = Candidate(ridge, s, rank, sweeps, is_screened=True)
                explored.append(judge(candidate, self._n_explored))
        best = min(explored, key=_score)
        if self._n_explored == self._n_folds:
            return best
        return judge(replace(best, n_iter=self._exploring_sweeps + 1), self._n_folds)

    def _tell(self, candidate):
        if len(candidate.scores) == self._n_folds:
            self.tried.append(candidate)
        self.bar.update(f"validation loss {candidate.score:.4g}")


def _score(candidate):
    """Return the score to nine digits, so that rounding errors do not decide between equals."""
    return float(f"{candidate.score:.9g}")


def _is_better(candidate, other, by):
    """Return whether a score is lower than another by a share of it; scores may be negative."""
    score, limit = _score(candidate), _score(other)
    return score < limit - (by * abs(limit) if np.isfinite(limit) else 0)
