"""Settings that nobody gave: penalty, order scale, rank and number of sweeps, by validation.

Only training rows are looked at. Interactions of order j are penalised by c s^(2 - 2 j) / N each: c
is that of the linear model, and s < 1 makes each further order cost more. The search is short:
a path of linear models gives c; sweeps at rank 4, warm-started from lower to higher s and from
higher to lower c, give the neighbourhood; the best few are tried at higher ranks. The linear model
itself, and what screening finds (see `solvers.screening`), are candidates as well.
"""

from dataclasses import dataclass, replace

import numpy as np

from . import initialize
from .problem import Problem, rescaled
from .shapes import check_ranks
from .solvers.screening import Screening, Term
from .solvers.sweeps import Sweeps
from .tensor import TTTensor

PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
ORDER_SCALES = (0.05, 0.1, 0.2, 0.4, 1.0)
MOST_ROWS = 20_000
MOST_CLASSES = 50  # different targets that are taken for classes, and spread over the folds
EXPLORING_FOLDS = 1
MOST_PENALTIES = 4
MOST_CANDIDATES = 4
MOST_SCREENED_RANK = 24
PADDING = 0.02  # size of the random part that fills the ranks of a start


@dataclass(frozen=True)
class Choice:
    """Settings, and the validation loss they had."""

    penalty: float
    order_scale: float
    rank: int
    n_iter: int
    is_linear: bool = False
    is_screened: bool = False
    score: float = np.inf

    def alpha(self, n_samples: float) -> float:
        return self.penalty * self.order_scale**2 / n_samples


@dataclass
class Fold:
    """A split of the rows, with what has been learned of its training part."""

    train: Problem
    test: Problem
    linear: dict
    screened: TTTensor | None = None


def make_folds(problem: Problem, rng) -> list[Fold]:
    """Few rows in several folds, many in one.

    Equal rows go to the same fold, and each class is spread over the folds: weights then count as
    repetitions do.
    """
    m = len(problem)
    n_folds = 4 if m <= MOST_ROWS // 4 else 3
    salt = rng.integers(0, 2**63, dtype=np.uint64)
    keys = (problem.keys ^ salt) * np.uint64(0x9E3779B97F4A7C15)
    labels = problem.y.argmax(axis=1) if problem.n_outputs > 1 else problem.y
    values, labels = np.unique(labels, return_inverse=True)
    if len(values) > MOST_CLASSES:
        labels = np.zeros(m, int)
    pairs = np.stack([labels.astype(np.uint64), keys], axis=1)
    different, place = np.unique(pairs, axis=0, return_inverse=True)
    chosen = np.argsort(different[:, 1], kind="stable")[:MOST_ROWS]
    number = np.full(len(different), -1)
    number[np.sort(chosen)] = np.arange(len(chosen)) % n_folds
    fold_of = number[place.reshape(-1)]
    folds = [
        Fold(
            problem.take(np.flatnonzero((fold_of != j) & (fold_of >= 0))),
            problem.take(np.flatnonzero(fold_of == j)),
            {},
        )
        for j in range(n_folds)
    ]
    folds = [fold for fold in folds if len(fold.train) and len(fold.test)]
    return folds if m <= MOST_ROWS else folds[:1]


class Selection:
    """A search for settings.

    Parameters
    ----------
    problem : Problem
        All training rows.
    rng : numpy.random.Generator
    penalties, order_scales, ranks : sequences
        What to choose from; of one element where the user has chosen.
    max_iter : int
    max_order : int
        Of the terms that screening looks for; 0 for none.
    """

    def __init__(self, problem, rng, penalties, order_scales, ranks, max_iter, max_order):
        self.penalties, self.order_scales = sorted(penalties, reverse=True), sorted(order_scales)
        # A shape allows no more than this: a higher rank would be the same model again.
        most = max(check_ranks(problem.features(1.0).shape, max(ranks)))
        self.ranks = sorted({min(rank, most) for rank in ranks})
        self.max_iter, self.max_order = max_iter, max_order
        self.folds = make_folds(problem, rng)
        self.tried: list[Choice] = []
        self._starts = {}

    def run(self) -> Choice:
        """Return the best settings."""
        linear = [self._score_linear(c) for c in self.penalties]
        best = min(linear, key=_score)
        few, ranks = self.folds[:EXPLORING_FOLDS], self.ranks
        if self.max_order >= 2:
            fold = self.folds[0]
            fold.screened = screen(fold.train, fold.linear[best.penalty], self.max_order)
        explored = []
        for s in self.order_scales:
            self._starts.clear()
            for c in [c for c in self.penalties if c <= best.penalty][:MOST_PENALTIES]:
                explored.append(self._try(Choice(c, s, ranks[0], min(2, self.max_iter)), few))
        for choice in sorted(explored, key=_score)[:MOST_CANDIDATES]:
            self._starts.clear()
            rank = ranks[min(1, len(ranks) - 1)]
            again = replace(choice, rank=rank, n_iter=min(5, self.max_iter))
            self.tried.append(self._try(again, self.folds))
        top = min(self.tried, key=_score)
        for rank in ranks[:1] + ranks[2:]:
            self._starts.clear()
            again = replace(top, rank=rank, n_iter=min(5, self.max_iter))
            self.tried.append(self._try(again, self.folds))
        if self.folds[0].screened is not None:
            self._try_screened(best)
        return min([*linear, *self.tried], key=_score)

    def _score_linear(self, c):
        scores = []
        for fold in self.folds:
            fold.linear[c] = fold.train.linear(c / fold.train.size)
            scores.append(fold.test.score(fold.linear[c], 1.0))
        return Choice(c, 1.0, 2, 0, is_linear=True, score=float(np.mean(scores)))

    def _try(self, choice, folds):
        """The settings with their score, and the best number of sweeps; starts are the last."""
        curves = []
        for number, fold in enumerate(folds):
            W = self._starts.get(number)
            if W is None:
                rng = np.random.default_rng(number)
                W = start(fold.linear[choice.penalty], choice, fold.train.batch.ndim, rng)
            curve, W = learning_curve(fold, W, choice)
            self._starts[number] = W
            curves.append(curve)
        mean = np.mean(curves, axis=0)
        n_iter = int(np.argmin(mean[1:])) + 1
        return replace(choice, n_iter=n_iter, score=float(mean[n_iter]))

    def _try_screened(self, linear):
        fold, tried = self.folds[0], []
        for s in self.order_scales[-2:]:
            for c in [c for c in self.penalties if c <= linear.penalty][:MOST_PENALTIES]:
                W = rescaled(fold.screened, s, fold.train.batch.ndim)
                choice = Choice(c, s, W.rank, min(3, self.max_iter), is_screened=True)
                curve, _ = learning_curve(fold, W, choice)
                n_iter = int(np.argmin(curve))
                tried.append(replace(choice, n_iter=n_iter, score=float(curve[n_iter])))
        found = min(tried, key=_score)
        # On the same fold the others have their own scores: compare like with like.
        others = [fold.test.score(fold.linear[linear.penalty], 1.0)]
        top = min(self.tried, key=_score)
        W = start(fold.linear[top.penalty], top, fold.train.batch.ndim, np.random.default_rng(0))
        others.append(learning_curve(fold, W, top)[0][-1])
        if found.score < 0.95 * min(others):
            self.tried = [replace(found, score=-np.inf)]


def _score(choice):
    return choice.score


def start(linear: TTTensor, choice: Choice, n_features: int, rng) -> TTTensor:
    """The linear model at some settings' order scale, its ranks filled up."""
    W = rescaled(linear, choice.order_scale, n_features)
    return initialize.padded(W, choice.rank, PADDING, rng)


def learning_curve(fold: Fold, W: TTTensor, choice: Choice):
    """Validation losses after 0, 1, .. sweeps, and the tensor after all of them."""
    s = choice.order_scale
    W = initialize.padded(W, choice.rank, PADDING, np.random.default_rng(0))
    objective = fold.train.objective(choice.alpha(fold.train.size))
    run = Sweeps(dtype=precision(fold.train)).start(W, fold.train.features(s), objective)
    curve = [fold.test.score(W, s)]
    for _ in range(choice.n_iter):
        run.iterate()
        score = fold.test.score(run.tensor(), s)
        curve.append(score if np.isfinite(score) else np.inf)
    return np.array(curve), run.tensor()


def precision(problem: Problem):
    """Of partial products: float32 where memory counts, float64 where it does not."""
    return np.float32 if len(problem) > 5000 else np.float64


def screen(problem: Problem, W: TTTensor, max_order: int, rounds: int = 2) -> TTTensor | None:
    """Add to a model the products that its residual shows, cut by cut; None if there are none.

    For one output, at order scale 1.
    """
    if problem.n_outputs > 1:
        return None
    m, objective = len(problem), problem.objective(0.0)
    try:
        screening = Screening(problem.batch, problem.weights, max_order)
    except ValueError:  # a basis without constants
        return None
    f, found_any = problem.predict(W, 1.0), False
    for rows in (min(m, 30_000), m)[: rounds if m > 30_000 else 1]:
        for cut in screening.cuts():
            # One Newton step along the terms: the residual by the mean curvature.
            curvature = float(objective.curvature(f).sum())
            if not curvature > 0:
                return None
            residual = -objective.derivative(f) / objective.weights.reshape(-1) / curvature
            terms: list[Term] = screening.look(residual, cut, rows)
            if terms:
                found_any = True
                W = (W + screening.tensor(terms)).round(eps=1e-3)
                f = problem.predict(W, 1.0)
    return W.round(rank=MOST_SCREENED_RANK) if found_any else None
