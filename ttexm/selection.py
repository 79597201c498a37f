"""Settings that were not given: penalty, order scale, rank and number of sweeps, by validation.

Only training rows are looked at. Interactions of order j are penalised by c s^(2 - 2 j) / N each: c
is that of the linear model, and s < 1 makes each further order cost more. The search goes from many
settings, each tried briefly, to few that are tried in earnest:

1. a path of linear models, from large to small c;
2. two sweeps at rank 4 around the best c, for all s, warm-started along c (on one fold, if there
   are many rows);
3. the best few, with more sweeps, at rank 8;
4. the best one at other ranks, higher ones first, for as many sweeps as help.

The linear model, and what screening finds (see `solvers.screening`), are candidates as well. Of
settings whose losses differ by no more than chance would have it, the simplest is taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from . import progress
from .folds import N_FOLDS
from .problem import Problem
from .settings import Choice
from .shapes import check_ranks
from .validation import Validation

PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
ORDER_SCALES = (0.05, 0.1, 0.2, 0.4, 1.0)
RANKS = (4, 8, 16)
ROWS_A_RANK = 50
HIGHER, LOWER = 1, 2  # penalties to try beside the linear model's
MOST_CANDIDATES = 3
EXPLORING_SWEEPS, MORE_SWEEPS, MOST_SWEEPS = 2, 6, 20
PATIENCE, ENOUGH = 3, 5e-4  # sweeps without a better score, and the share by which it is better
# Columns from which on sweeps are dear: order scales are explored by one of them, on one fold, at
# the linear model's penalty, and the best two are judged by few of them.
MANY_COLUMNS, FEW_SWEEPS = 100, 3
MOST_SCREENED_RANK = 24
CLEARLY = 0.05  # share of the others' loss by which screened products have to be better
AS_GOOD = 0.5  # standard deviations of a difference of validation losses


def possible_ranks(problem: Problem, ranks: Sequence[int]) -> list[int]:
    """Those of some ranks that can make a difference, in order."""
    # A shape allows no more than this: a higher rank would be the same model again.
    most = max(check_ranks(problem.features(1.0).shape, max(ranks)))
    if len(ranks) > 1:
        # Nor do few rows tell more than a few interactions apart; but a linear model must fit.
        fewest = problem.n_outputs + 1
        most = min(most, max(min(ranks), round(problem.size) // ROWS_A_RANK, fewest))
        ranks = [max(rank, fewest) for rank in ranks]
    return sorted({min(rank, most) for rank in ranks})


class Selection:
    """A search for settings.

    Parameters
    ----------
    validation : Validation
    total : float, optional
        The penalty ``alpha N``, where it is given; by default it is searched for.
    order_scales, ranks : sequences
        What to choose from; of one element where the user has chosen.
    max_iter : int
    n_columns : int
        Of the table; of many columns less is tried.
    verbose : bool

    Attributes
    ----------
    tried : list of Choice
        Settings that were tried on all folds so far, with their losses.
    """

    def __init__(
        self,
        validation: Validation,
        total: float | None = None,
        order_scales: Sequence[float] = ORDER_SCALES,
        ranks: Sequence[int] = RANKS,
        max_iter: int = MOST_SWEEPS,
        n_columns: int = 1,
        verbose: bool = False,
    ):
        self.validation, self.total = validation, total
        self.order_scales, self.ranks = sorted(order_scales), sorted(ranks)
        self.is_wide = n_columns >= MANY_COLUMNS
        self.max_iter = min(max_iter, FEW_SWEEPS if self.is_wide else MOST_SWEEPS)
        self.verbose = verbose
        self.tried: list[Choice] = []

    @property
    def _n_folds(self):
        return len(self.validation.weights)

    @property
    def _n_explored(self):
        """Folds to explore on: one of many rows is enough; of few, it would let chance choose."""
        return self._n_folds if self._n_folds == N_FOLDS and not self.is_wide else 1

    @property
    def _exploring_sweeps(self):
        return 1 if self.is_wide else EXPLORING_SWEEPS

    def run(self, may_be_linear: bool = True) -> Choice:
        """Return the best settings; those of a linear model only if that is wanted."""
        n_steps = len(PENALTIES) + 1 + len(self.order_scales) * (HIGHER + 1 + LOWER)
        n_steps += MOST_CANDIDATES + len(self.ranks) + 1
        self.bar = progress.bar(n_steps, "choosing settings", self.verbose)
        try:
            linear = self._linear_path()
            screened = self.validation.screened(linear.penalty, self._screened_rank)
            tried = self._search(linear)
            best = self._simplest([linear, *tried] if may_be_linear else tried)
            if screened is None:
                return best
            found = self._try_screened(screened, linear)
            return found if _is_better(found, best, by=CLEARLY) else best
        finally:
            self.bar.close()

    def best_so_far(self, may_be_linear: bool = True) -> Choice | None:
        """Return the best settings that were tried on all folds, for a search that was stopped."""
        tried = [choice for choice in self.tried if may_be_linear or not choice.is_linear]
        return min(tried, key=_score, default=None)

    def _linear_path(self) -> Choice:
        """The best linear model; the path ends where it gets worse and worse."""
        if self.total is None:
            settings = [(c, self.order_scales[-1]) for c in PENALTIES]
        else:
            settings = [(self.total / s**2, s) for s in self.order_scales]
        path = []
        for c, s in settings:
            losses = self.validation.linear(c)
            path.append(self._judged(Choice(c, s, 2, 0, is_linear=True), losses))
            self._tell(path[-1])
            if len(path) > 2 and path[-3].score < path[-2].score < path[-1].score:
                break
        return min(path, key=_score)

    def _grid(self, linear: Choice):
        """For each order scale the penalties to try, from large to small."""
        at = PENALTIES.index(linear.penalty) if self.total is None else 0
        for s in self.order_scales:
            if self.total is None and self.is_wide:
                yield s, (linear.penalty,)
            elif self.total is None:
                yield s, PENALTIES[max(0, at - HIGHER) : at + LOWER + 1]
            else:
                yield s, (self.total / s**2,)

    def _search(self, linear: Choice) -> list[Choice]:
        low, middle, *high = self.ranks if len(self.ranks) > 1 else self.ranks * 2
        explored, tried = [], []
        for s, penalties in self._grid(linear):
            explored += self._explore(s, penalties, low)
        n_candidates = MOST_CANDIDATES - self.is_wide
        for choice in sorted(explored, key=_score)[:n_candidates]:
            again = replace(choice, rank=middle, n_iter=MORE_SWEEPS)
            tried.append(self._try(again, self._n_folds)[0])
        top = min(tried, key=_score)
        # Upwards first: if more rank helps, less will not.
        for rank in dict.fromkeys((*high, middle, low)):
            is_same = rank == middle and (top.n_iter < MORE_SWEEPS or self.max_iter <= MORE_SWEEPS)
            if not is_same:
                again = replace(top, rank=rank, n_iter=self.max_iter)
                tried.append(self._try(again, self._n_folds)[0])
                if rank > middle and _score(tried[-1]) < _score(top):
                    break
        return tried

    def _explore(self, s, penalties, rank) -> Iterator[Choice]:
        """A short look at each penalty, from large to small, as long as that helps."""
        tensors, last = None, np.inf
        for c in penalties:
            choice = Choice(c, s, rank, self._exploring_sweeps)
            choice, tensors = self._try(choice, self._n_explored, tensors)
            yield choice
            if choice.score > last:
                break
            last = choice.score

    def _try(self, choice: Choice, n_folds: int, starts=None, fewest: int = 1):
        """The settings with their scores at the best number of sweeps, and where they led."""
        trial = self.validation.trial(choice, n_folds, starts)
        best = None
        for n_iter in range(min(choice.n_iter, self.max_iter) + 1):
            if n_iter:
                trial.advance()
            now = self._judged(replace(choice, n_iter=n_iter), trial.losses())
            if best is None or best.n_iter < fewest or _is_better(now, best, by=ENOUGH):
                best = now
            elif n_iter - best.n_iter >= (1 if self.is_wide else PATIENCE):
                break
        self._tell(best)
        return best, trial.tensors

    def _judged(self, choice: Choice, losses) -> Choice:
        weights = self.validation.weights[: len(losses)]
        with np.errstate(over="ignore"):
            scores = [
                float(np.average(part, weights=shares))
                for part, shares in zip(losses, weights, strict=True)
            ]
        shares = tuple(float(part.sum()) for part in weights)
        return replace(choice, scores=tuple(scores), shares=shares, losses=tuple(losses))

    def _simplest(self, choices: list[Choice]) -> Choice:
        """The simplest of those that are not worse than the best by more than chance has it.

        Simple is what penalises interactions most, then what has the lowest rank.
        """
        best = min(choices, key=_score)
        weights = np.concatenate(self.validation.weights)
        weights, n = weights / weights.sum(), weights.sum()

        def penalty_of_pairs(choice):
            return np.inf if choice.is_linear else choice.penalty / choice.order_scale**2

        for choice in sorted(choices, key=lambda c: (-penalty_of_pairs(c), c.rank)):
            with np.errstate(invalid="ignore"):
                worse = np.concatenate(choice.losses) - np.concatenate(best.losses)
                mean = weights @ worse
                deviation = np.sqrt(weights @ (worse - mean) ** 2 / n)
            if choice is best or mean <= AS_GOOD * deviation:
                return choice
        return best

    @property
    def _screened_rank(self):
        return MOST_SCREENED_RANK if len(self.ranks) > 1 else self.ranks[0]

    def _try_screened(self, starts, linear: Choice) -> Choice:
        """The best settings for linear models with screened products, of the largest two scales."""
        explored, rank = [], max(W.rank for W in starts)

        def judge(choice, n_folds):
            scaled = self.validation.rescaled(starts, choice.order_scale)[:n_folds]
            return self._try(choice, n_folds, scaled, fewest=0)[0]

        # From 1 on, the scale that the products were fitted at: of equals, the first is taken.
        for s, penalties in list(self._grid(linear))[:-3:-1]:
            for c in penalties:
                choice = Choice(c, s, rank, self._exploring_sweeps + 1, is_screened=True)
                explored.append(judge(choice, self._n_explored))
        best = min(explored, key=_score)
        if self._n_explored == self._n_folds:
            return best
        return judge(replace(best, n_iter=self._exploring_sweeps + 1), self._n_folds)

    def _tell(self, choice):
        if len(choice.scores) == self._n_folds:
            self.tried.append(choice)
        self.bar.update(f"validation loss {choice.score:.4g}")


def _score(choice):
    """A score without its last digits, so that rounding decides nothing: of equals, the first."""
    return float(f"{choice.score:.9g}")


def _is_better(choice, other, by):
    """Whether a score is lower than another by a share of it; scores may be negative."""
    score, limit = _score(choice), _score(other)
    return score < limit - (by * abs(limit) if np.isfinite(limit) else 0)
