"""Settings that nobody gave: penalty, order scale, rank and number of sweeps, by validation.

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
from dataclasses import dataclass, field, replace

import numpy as np

from . import initialize, progress
from .problem import Problem, rescaled
from .shapes import check_ranks
from .solvers.screening import Screening
from .solvers.sweeps import Sweeps
from .tensor import TTTensor

PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
ORDER_SCALES = (0.05, 0.1, 0.2, 0.4, 1.0)
RANKS = (4, 8, 16)
MOST_ROWS, FEW_ROWS = 20_000, 5_000
N_FOLDS = 4  # of few rows
ROWS_A_RANK = 50
MIXER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio: spreads hashes
MOST_CLASSES = 50  # different targets that are taken for classes, and spread over the folds
HIGHER, LOWER = 1, 2  # penalties to try beside the linear model's
MOST_CANDIDATES = 3
EXPLORING_SWEEPS, MORE_SWEEPS, MOST_SWEEPS = 2, 6, 20
PATIENCE, ENOUGH = 3, 1 - 5e-4  # sweeps without a better score, and how much better that is
SCREENING_ROWS = 30_000
MOST_SCREENED_RANK = 24
CLEARLY = 0.95  # of the others' validation loss: screened products are then the better start
AS_GOOD = 0.5  # standard deviations of a difference of validation losses
PADDING = 0.02  # size of the random part that fills the ranks of a start


@dataclass(frozen=True)
class Choice:
    """Settings, and the validation losses they had.

    `losses` are those of the samples of each fold that the settings were tried on, `scores` their
    weighted means.
    """

    penalty: float
    order_scale: float
    rank: int
    n_iter: int
    is_linear: bool = False
    is_screened: bool = False
    scores: tuple[float, ...] = ()
    losses: tuple[np.ndarray, ...] = field(default=(), repr=False, compare=False)

    def alpha(self, n_samples: float) -> float:
        return self.penalty * self.order_scale**2 / n_samples

    @property
    def score(self) -> float:
        return float(np.mean(self.scores)) if self.scores else np.inf


@dataclass
class Fold:
    """A split of the rows, with the linear models of its training part."""

    train: Problem
    test: Problem
    _linear: dict = field(default_factory=dict)

    def linear(self, penalty: float) -> TTTensor:
        if penalty not in self._linear:
            self._linear[penalty] = self.train.linear(penalty / self.train.size)
        return self._linear[penalty]

    def start(self, choice: Choice, W: TTTensor):
        """A run from W at some settings."""
        objective = self.train.objective(choice.alpha(self.train.size))
        solver = Sweeps(dtype=precision(self.train))
        return solver.start(W, self.train.features(choice.order_scale), objective)


def make_folds(problem: Problem, rng) -> list[Fold]:
    """Few rows in several folds, many in one; each class is spread over them.

    A row that counts n times is taken for n rows, which may go to different folds: weights that are
    small whole numbers then do what repetitions of the rows would do.
    """
    m, copies = len(problem), problem.copies
    rows = np.repeat(np.arange(m), copies)
    labels = problem.y.argmax(axis=1) if problem.n_outputs > 1 else problem.y
    values, labels = np.unique(labels, return_inverse=True)
    labels = labels[rows] if len(values) <= MOST_CLASSES else np.zeros(len(rows), int)
    keys = (problem.keys[rows] ^ rng.integers(0, 2**63, dtype=np.uint64)) * MIXER
    # The order is one of contents, not of places: equal rows are numbered, and hashed by number.
    order = np.lexsort((keys, labels))
    rows, labels, keys = rows[order], labels[order], keys[order]
    is_new = np.r_[True, (keys[1:] != keys[:-1]) | (labels[1:] != labels[:-1])]
    place = np.arange(len(rows))
    number = place - np.maximum.accumulate(np.where(is_new, place, 0))
    keys = (keys ^ ((number.astype(np.uint64) + np.uint64(1)) * MIXER)) * MIXER
    chosen = np.argsort(keys, kind="stable")[:MOST_ROWS]
    chosen = chosen[np.lexsort((keys[chosen], labels[chosen]))]
    n_folds = N_FOLDS if len(rows) <= FEW_ROWS else N_FOLDS - 1
    fold_of, share = np.arange(len(chosen)) % n_folds, (problem.weights / copies)[rows]

    def weights_of(part):
        part = chosen[part]
        return np.bincount(rows[part], share[part], m)

    folds = [
        Fold(problem.weighted(weights_of(fold_of != j)), problem.weighted(weights_of(fold_of == j)))
        for j in range(n_folds)
    ]
    folds = [fold for fold in folds if len(fold.train) and len(fold.test)]
    return folds if len(rows) <= MOST_ROWS else folds[:1]


class Selection:
    """A search for settings.

    Parameters
    ----------
    problem : Problem
        All training rows.
    rng : numpy.random.Generator
    alpha : float, optional
        The penalty, where it is given; by default it is searched for.
    order_scales, ranks : sequences
        What to choose from; of one element where the user has chosen.
    max_iter : int
    max_order : int
        Of the terms that screening looks for; 0 for none.
    verbose : bool
    """

    def __init__(
        self,
        problem: Problem,
        rng,
        alpha: float | None = None,
        order_scales: Sequence[float] = ORDER_SCALES,
        ranks: Sequence[int] = RANKS,
        max_iter: int = MOST_SWEEPS,
        max_order: int = 6,
        verbose: bool = False,
    ):
        self.total = None if alpha is None else alpha * problem.size
        self.order_scales = sorted(order_scales)
        # A shape allows no more than this: a higher rank would be the same model again.
        most = max(check_ranks(problem.features(1.0).shape, max(ranks)))
        if len(ranks) > 1:
            # Nor do few rows tell more than a few interactions apart; but a linear model must fit.
            most = min(
                most, max(min(ranks), problem.copies.sum() // ROWS_A_RANK, problem.n_outputs + 1)
            )
            ranks = [max(rank, problem.n_outputs + 1) for rank in ranks]
        self.ranks = sorted({min(rank, most) for rank in ranks})
        self.max_iter, self.max_order = min(max_iter, MOST_SWEEPS), max_order
        self.folds = make_folds(problem, rng)
        self.verbose = verbose

    def run(self, may_be_linear: bool = True) -> Choice:
        """Return the best settings; those of a linear model only if that is wanted."""
        n_steps = len(PENALTIES) + 1 + len(self.order_scales) * (HIGHER + 1 + LOWER)
        n_steps += MOST_CANDIDATES + len(self.ranks) + 1
        self.bar = progress.bar(n_steps, "choosing settings", self.verbose)
        try:
            linear = self._linear_path()
            screened = self._screened_start(linear)
            tried = self._search(linear)
            best = self._simplest([linear, *tried] if may_be_linear else tried)
            if screened is None:
                return best
            found = self._try_screened(screened, linear)
            # On the same fold: that is all that the screened ones have seen.
            return found if found.score < CLEARLY * best.scores[0] else best
        finally:
            self.bar.close()

    def _linear_path(self) -> Choice:
        """The best linear model; the path ends where it gets worse and worse."""
        if self.total is None:
            settings = [(c, self.order_scales[-1]) for c in PENALTIES]
        else:
            settings = [(self.total / s**2, s) for s in self.order_scales]
        path = []
        for c, s in settings:
            losses = [fold.test.losses(fold.linear(c), 1.0) for fold in self.folds]
            path.append(self._judged(Choice(c, s, 2, 0, is_linear=True), losses))
            self._tell(path[-1])
            if len(path) > 2 and path[-3].score < path[-2].score < path[-1].score:
                break
        return min(path, key=_score)

    def _grid(self, linear: Choice):
        """For each order scale the penalties to try, from large to small."""
        at = PENALTIES.index(linear.penalty) if self.total is None else 0
        for s in self.order_scales:
            if self.total is None:
                yield s, PENALTIES[max(0, at - HIGHER) : at + LOWER + 1]
            else:
                yield s, (self.total / s**2,)

    def _search(self, linear: Choice) -> list[Choice]:
        low, middle, *high = self.ranks if len(self.ranks) > 1 else self.ranks * 2
        explored, tried = [], []
        for s, penalties in self._grid(linear):
            explored += self._explore(s, penalties, low)
        for choice in sorted(explored, key=_score)[:MOST_CANDIDATES]:
            again = replace(choice, rank=middle, n_iter=MORE_SWEEPS)
            tried.append(self._try(again, self.folds)[0])
        top = min(tried, key=_score)
        # Upwards first: if more rank helps, less will not.
        for rank in (*high, middle, low):
            is_same = rank == middle and top.n_iter < MORE_SWEEPS
            if not is_same:
                again = replace(top, rank=rank, n_iter=self.max_iter)
                tried.append(self._try(again, self.folds)[0])
                if rank > middle and _score(tried[-1]) < _score(top):
                    break
        return tried

    def _explore(self, s, penalties, rank) -> Iterator[Choice]:
        """A short look at each penalty, from large to small, as long as that helps."""
        # One fold of many rows tells enough; of few, it would let chance choose.
        folds = self.folds if len(self.folds) == N_FOLDS else self.folds[:1]
        tensors, last = None, np.inf
        for c in penalties:
            choice = Choice(c, s, rank, EXPLORING_SWEEPS)
            choice, tensors = self._try(choice, folds, tensors)
            yield choice
            if choice.score > last:
                break
            last = choice.score

    def _try(self, choice: Choice, folds, starts=None):
        """The settings with their scores at the best number of sweeps, and where they led."""
        if starts is None:
            starts = [start(fold.linear(choice.penalty), choice, fold.train) for fold in folds]
        return self._follow(choice, folds, starts, fewest=1)

    def _follow(self, choice, folds, starts, fewest=0):
        runs = [fold.start(choice, W) for fold, W in zip(folds, starts, strict=True)]
        best, tensors = None, starts
        for n_iter in range(min(choice.n_iter, self.max_iter) + 1):
            if n_iter:
                for run in runs:
                    run.iterate()
                tensors = [run.tensor() for run in runs]
            losses = [
                fold.test.losses(W, choice.order_scale)
                for fold, W in zip(folds, tensors, strict=True)
            ]
            now = self._judged(replace(choice, n_iter=n_iter), losses)
            if best is None or best.n_iter < fewest or _score(now) < ENOUGH * _score(best):
                best = now
            elif n_iter - best.n_iter >= PATIENCE:
                break
        self._tell(best)
        return best, tensors

    def _judged(self, choice: Choice, losses) -> Choice:
        scores = [
            float(np.average(part, weights=fold.test.weights))
            for part, fold in zip(losses, self.folds, strict=False)
        ]
        return replace(choice, scores=tuple(scores), losses=tuple(losses))

    def _simplest(self, choices: list[Choice]) -> Choice:
        """The simplest of those that are not worse than the best by more than chance has it.

        Simple is what penalises interactions most, then what has the lowest rank.
        """
        best = min(choices, key=_score)
        weights = np.concatenate([fold.test.weights for fold in self.folds])
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

    def _screened_start(self, linear: Choice) -> TTTensor | None:
        if self.max_order < 2:
            return None
        fold = self.folds[0]
        found = screen(fold.train, fold.linear(linear.penalty), self.max_order)
        return None if found is None else found.round(rank=self._screened_rank)

    @property
    def _screened_rank(self):
        return MOST_SCREENED_RANK if len(self.ranks) > 1 else self.ranks[0]

    def _try_screened(self, W: TTTensor, linear: Choice) -> Choice:
        fold, tried = self.folds[:1], []
        for s, penalties in list(self._grid(linear))[-2:]:
            for c in penalties:
                choice = Choice(c, s, W.rank, EXPLORING_SWEEPS + 1, is_screened=True)
                scaled = rescaled(W, s, fold[0].train.batch.ndim)
                tried.append(self._follow(choice, fold, [scaled])[0])
        return min(tried, key=_score)

    def _tell(self, choice):
        self.bar.update(f"validation loss {choice.score:.4g}")


def _score(choice):
    return _rounded(choice.score)


def _rounded(score):
    """A score without its last digits, so that rounding decides nothing: of equals, the first."""
    return float(f"{score:.9g}")


def start(linear: TTTensor, choice: Choice, problem: Problem, rng=None) -> TTTensor:
    """The linear model at some settings' order scale, its ranks filled up."""
    W = rescaled(linear, choice.order_scale, problem.batch.ndim)
    rng = np.random.default_rng(0) if rng is None else rng
    return initialize.padded(W, choice.rank, PADDING, rng)


def precision(problem: Problem):
    """Of partial products: float32 where memory counts, float64 where it does not."""
    return np.float32 if len(problem) > 5000 else np.float64


def screen(problem: Problem, W: TTTensor, max_order: int) -> TTTensor | None:
    """Add to a model the products that its residual shows, cut by cut; None if there are none.

    For one output, at order scale 1.
    """
    if problem.n_outputs > 1:
        return None
    if len(problem) > SCREENING_ROWS:
        # Keys are hashes: the smallest ones are a random choice.
        problem = problem.take(np.sort(np.argsort(problem.keys)[:SCREENING_ROWS]))
    try:
        screening = Screening(problem.batch, problem.weights, max_order)
    except ValueError:  # a basis without constants
        return None
    objective = problem.objective(0.0)
    f, found_any = problem.predict(W, 1.0), False
    for cut in screening.cuts():
        # One Newton step along the terms: the residual by the mean curvature.
        curvature = float(objective.curvature(f).sum())
        if not curvature > 0:
            return None
        residual = -objective.derivative(f) / objective.weights.reshape(-1) / curvature
        terms = screening.look(residual, cut)
        if terms:
            found_any = True
            W = (W + screening.tensor(terms)).round(eps=1e-3)
            f = problem.predict(W, 1.0)
    return W if found_any else None
