"""What validation tells of settings: losses on rows that a model was not trained on."""

import numpy as np

from . import initialize
from .folds import make_folds
from .initialize import Additive
from .problem import Problem
from .settings import Choice
from .solvers.screening import Screening
from .solvers.sweeps import Sweeps
from .tensor import TTTensor

PADDING = 0.02  # size of the random part that fills the ranks of a start
SCREENING_ROWS = 30_000
ROUND_EPS = 1e-3  # relative error that a sum of found products may be rounded by


class Validation:
    """Folds of the rows, and models of any settings on each of them.

    Parameters
    ----------
    problem : Problem
    rng : numpy.random.Generator
    max_order : int
        Of the products that screening looks for; 0 for none.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator, max_order: int):
        self.folds, self.max_order = make_folds(problem, rng), max_order

    @property
    def weights(self) -> list[np.ndarray]:
        """Weights of the rows that each fold is tested on."""
        return [fold.test.weights for fold in self.folds]

    def linear(self, penalty: float) -> list[np.ndarray]:
        """Losses of the linear model, an array for each fold."""
        return [fold.test.losses(fold.linear(penalty).tensor(), 1.0) for fold in self.folds]

    def trial(self, choice: Choice, n_folds: int, starts: list[TTTensor] | None = None) -> "Trial":
        """Models of some settings on the first folds, from the linear model or from others."""
        folds = self.folds[:n_folds]
        if starts is None:
            starts = [start(fold.linear(choice.penalty), choice, fold.train) for fold in folds]
        return Trial(folds, choice, starts)

    def screened(self, penalty: float, rank: int) -> list[TTTensor] | None:
        """Linear models with the products that screening finds, at order scale 1; None without.

        Where one fold shows nothing, the others are not searched: what is beyond chance shows in
        all of them.
        """
        found = []
        for fold in self.folds if self.max_order > 1 else []:
            W = screen(fold.train, fold.linear(penalty), penalty, self.max_order)
            if W is None:
                return None
            found.append(W.round(rank=rank))
        return found or None

    def rescaled(self, tensors: list[TTTensor], order_scale: float) -> list[TTTensor]:
        """Models of order scale 1 at another one, one for each fold."""
        return [
            fold.train.rescaled(W, order_scale) for fold, W in zip(self.folds, tensors, strict=True)
        ]


class Trial:
    """Models of some settings, one for each fold, while they are trained."""

    def __init__(self, folds, choice: Choice, starts: list[TTTensor]):
        self.folds, self.choice, self.tensors = folds, choice, starts
        self._runs, self._limits = [], []
        for fold, W in zip(folds, starts, strict=True):
            features = fold.train.features(choice.order_scale)
            objective = fold.train.objective(choice.alpha(fold.train.size))
            run = Sweeps(dtype=precision(fold.train)).start(W, features, objective)
            self._runs.append(run)
            self._limits.append(np.inf)
            if choice.is_screened:
                linear = fold.train.rescaled(
                    fold.linear(choice.penalty).tensor(), choice.order_scale
                )
                f = fold.train.predict(linear, choice.order_scale)
                self._limits[-1] = objective.value(f, linear.norm() ** 2)

    def advance(self) -> None:
        """Sweep once over the cores of each model."""
        for run in self._runs:
            run.iterate()
        self.tensors = [run.tensor() for run in self._runs]

    def losses(self) -> list[np.ndarray]:
        """Losses now, an array for each fold.

        They are infinite for screened products whose objective is above that of the linear model:
        with these settings, a fit would not return them.
        """
        losses = []
        for fold, W, run, limit in zip(
            self.folds, self.tensors, self._runs, self._limits, strict=True
        ):
            is_allowed = run.value <= limit
            losses.append(fold.test.losses(W, self.choice.order_scale))
            losses[-1] = losses[-1] if is_allowed else np.full_like(losses[-1], np.inf)
        return losses


def start(linear: Additive, choice: Choice, problem: Problem, rng=None) -> TTTensor:
    """The linear model at some settings' order scale, its ranks filled up."""
    W = problem.rescaled(linear.tensor(), choice.order_scale)
    rng = np.random.default_rng(0) if rng is None else rng
    return initialize.padded(W, choice.rank, PADDING, rng, linear)


def precision(problem: Problem):
    """Of partial products: float32 where memory counts, float64 where it does not."""
    return np.float32 if len(problem) > 5000 else np.float64


def screen(problem: Problem, linear: Additive, penalty: float, max_order: int) -> TTTensor | None:
    """Add to the linear model the products that its residual shows, cut by cut.

    For one output, at order scale 1. All products found so far are fitted together after each cut,
    with the penalty of the linear model, as in correlated columns none of them stands for itself.

    Returns
    -------
    TTTensor or None
        None if there are no such products, or if rounding them has cost what they are worth: the
        objective is never above that of the linear model.
    """
    if problem.n_outputs > 1:
        return None
    if len(problem) > SCREENING_ROWS:
        # Keys are hashes: the smallest ones are a random choice.
        problem = problem.take(np.sort(np.argsort(problem.keys)[:SCREENING_ROWS]))
    if not all(problem.batch.has_constant(k) for k in range(problem.batch.ndim)):
        return None
    screening = Screening(problem.batch, problem.weights, max_order)
    W = linear.tensor()
    objective = problem.objective(penalty / problem.size)
    before = problem.predict(W, 1.0)
    f, terms, coefficients = before, [], None
    for cut in screening.cuts():
        # One Newton step along a term, by the mean curvature, shows how large it may be.
        curvature = float(objective.curvature(f).sum())
        if not curvature > 0:
            return None
        residual = -objective.derivative(f) / objective.weights.reshape(-1) / curvature
        known = {term.slots for term in terms}
        new = [term for term in screening.look(residual, cut) if term.slots not in known]
        if new:
            terms = screening.strongest([*terms, *new])
            products = screening.values(terms)
            coefficients = initialize.fit_linear(products, objective.beyond(before))
            f = before + products @ coefficients
        elif cut is None:
            break  # another pass over all pairs would see the same residual
    if not terms:
        return None
    found = (W + screening.tensor(terms, coefficients)).round(eps=ROUND_EPS)

    def value(W):
        return objective.value(problem.predict(W, 1.0), W.norm() ** 2)

    return found if value(found) < value(W) else None
