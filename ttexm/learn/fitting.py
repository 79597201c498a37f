"""A fit from end to end: choose the settings, find a start, train, and compare with linear models.

Weight tensors are given and returned at order scale 1. Training itself is at the order scale of the
settings, where the penalty is ``|W|^2``.
"""

import math
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..tt.tensor import TTTensor
from . import initialize
from .data import Data
from .selection.candidate import Candidate, Selected
from .selection.folds import hold_out
from .selection.plan import PLAN, SearchPlan
from .selection.screening import screen
from .selection.search import Search, possible_ranks
from .selection.validation import Validation, initial_point, precision
from .solvers import registry
from .solvers.base import Solver
from .solvers.riemannian import Riemannian
from .trainer import Record, Trainer

INITS = ("auto", "linear", "screened", "random_linear", "gaussian")
BATCH_SIZE, FEWEST_BATCHES = 200, 8  # by default: rows of a mini-batch, and number of them
RANDOM_SIZE = 0.1  # norm of a random start


@dataclass(frozen=True)
class FitOptions:
    """The parameters of an estimator, see `ExMClassifier`; None is "auto" in the first three."""

    rank: int | None = None
    alpha: float | None = None
    order_scale: float | None = None
    solver: str | Solver = "auto"
    max_iter: int = 100
    tol: float = 1e-4
    batch_size: int | str | None = "auto"
    learning_rate: float | str = "auto"
    max_order: int = 6
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    init: str | TTTensor = "auto"
    verbose: bool = False
    plan: SearchPlan = field(default=PLAN)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of a fit.

    Attributes
    ----------
    weights : TTTensor
        Weights at order scale 1.
    selected : Selected
        The settings.
    tried : list of Selected
        All settings that were validated on all folds, in the order of the search.
    history : list of Record
        The iterations of the training.
    """

    weights: TTTensor
    selected: Selected
    tried: list[Selected]
    history: list[Record]


def fit(
    data: Data, options: FitOptions, rng: np.random.Generator, held_out: Data | None = None
) -> Fitted:
    """Choose the settings that were not given, and train.

    Parameters
    ----------
    data : Data
        Distinct rows.
    options : FitOptions
    rng : numpy.random.Generator
    held_out : Data, optional
        Rows whose loss decides when to stop.
    """
    _check_init(data, options)
    data, held_out = _split(data, options, rng, held_out)
    candidate, tried = _choose(data, options, rng)
    W, linear, candidate = _find_start(data, options, candidate, rng)
    return _finish(data, options, candidate, W, rng, held_out, linear, tried)


def refit(
    data: Data,
    options: FitOptions,
    rng: np.random.Generator,
    last: Fitted,
    held_out: Data | None = None,
) -> Fitted:
    """Go on from the last fit, with its settings unless others are given (warm start)."""
    data, held_out = _split(data, options, rng, held_out)
    s = last.selected.order_scale
    alpha = last.selected.alpha if options.alpha is None else options.alpha
    rank = last.weights.rank if options.rank is None else options.rank
    candidate = Candidate(alpha * data.size / s**2, s, rank, options.max_iter)
    W = _widened(data, last.weights, s, rank, options.plan, rng)
    fitted = _finish(data, options, candidate, W, rng, held_out)
    kept = replace(last.selected, alpha=alpha, rank=fitted.weights.rank)
    return replace(fitted, selected=kept, tried=last.tried)


def widen(data: Data, options: FitOptions, rng: np.random.Generator, last: Fitted) -> Fitted:
    """Raise the rank to the given one, or to the lowest of the search, for rows that follow."""
    s = last.selected.order_scale
    rank = max(last.weights.rank, options.plan.ranks[0]) if options.rank is None else options.rank
    W = _widened(data, last.weights, s, rank, options.plan, rng)
    return replace(last, weights=data.rescaled(W, 1 / s))


def update(data: Data, options: FitOptions, rng: np.random.Generator, last: Fitted) -> Fitted:
    """Take one pass of Riemannian descent through more rows."""
    s, alpha = last.selected.order_scale, last.selected.alpha
    solver = Riemannian("sgd", options.learning_rate, _batch_size(options, len(data)))
    trainer = Trainer(solver, max_iter=1, tol=None, random_state=rng)
    W = _run(trainer, data, data.rescaled(last.weights, s), s, alpha)
    history = [*last.history, *trainer.history]
    return replace(last, weights=data.rescaled(W, 1 / s), history=history)


# -- steps of a fit -------------------------------------------------------------------------------


def _check_init(data, options):
    init = options.init
    if isinstance(init, TTTensor) and init.shape != data.shape:
        raise ValueError(
            f"init must be a TTTensor of shape {data.shape}, the slots of each "
            f"column{' and the outputs' * (data.y.ndim - 1)}, got shape {init.shape}."
        )


def _split(data, options, rng, held_out):
    if held_out is None and options.early_stopping:
        return hold_out(data, options.validation_fraction, rng)
    return data, held_out


def _choose(data, options, rng) -> tuple[Candidate, list[Selected]]:
    """Return the settings, searching for those that were not given, and all that were tried."""
    plan = options.plan
    ranks = plan.ranks if options.rank is None else (options.rank,)
    scales = plan.order_scales if options.order_scale is None else (options.order_scale,)
    total, s = None if options.alpha is None else options.alpha * data.size, scales[-1]
    if total is not None and len(ranks) == len(scales) == 1:
        is_screened = options.init == "screened"
        given = Candidate(total / s**2, s, ranks[0], options.max_iter, is_screened=is_screened)
        return given, []
    ranks = possible_ranks(data, ranks, plan)
    if _is_small_grid(data, plan):
        ridge = plan.ridges[-1] if total is None else total / s**2
        return Candidate(ridge, s, ranks[-1], options.max_iter), []
    if data.n_groups < plan.fewest_rows:
        ridge = 1.0 if total is None else total / s**2
        return Candidate(ridge, s, ranks[0], 0, is_linear=True), []
    max_order = options.max_order if options.init in ("auto", "screened") else 0
    search = Search(
        Validation(data, rng, max_order, plan), total, scales, ranks, options.max_iter,
        data.batch.ndim, options.verbose, plan,
    )  # fmt: skip
    is_default = options.solver in registry.SWEEPS and options.init in ("auto", "screened")
    try:
        candidate = search.run(may_be_linear=is_default)
    except KeyboardInterrupt:
        candidate = search.best_so_far(may_be_linear=is_default)
        if candidate is None:
            raise
        _warn("The search for settings was interrupted; the best ones so far are used.")
    tried = [candidate.record(data.size) for candidate in search.tried]
    if options.init == "screened" and data.n_outputs == 1:
        candidate = replace(candidate, is_screened=True, is_linear=False)
    return candidate, tried


def _is_small_grid(data, plan) -> bool:
    """Return whether the rows are most combinations of few values, see `SearchPlan.few_cells`."""
    if data.n_values is None or data.n_values.max() > plan.few_values:
        return False
    n_cells = math.prod(max(1, n) for n in data.n_values.tolist())
    return n_cells <= plan.few_cells and data.n_groups >= n_cells / 2


def _find_start(data, options, candidate, rng):
    """Return where to start, the linear model (None if it was not fitted), and the settings."""
    s, init, plan = candidate.order_scale, options.init, options.plan
    if isinstance(init, TTTensor):
        rank = candidate.rank if options.rank is not None else max(candidate.rank, init.rank)
        return _widened(data, init, s, rank, plan, rng), None, candidate
    if init == "gaussian":
        return initialize.gaussian(data.shape, candidate.rank, RANDOM_SIZE, rng), None, candidate
    if init == "random_linear":
        W = initialize.random_linear(data.features(s), RANDOM_SIZE, rng)
        return initialize.padded(W, candidate.rank, plan.padding, rng), None, candidate
    additive = data.linear(candidate.ridge / data.size)
    linear = data.rescaled(additive.tensor(), s)
    if candidate.is_linear:
        return linear, linear, candidate
    if candidate.is_screened:
        found = screen(data, additive, candidate.ridge, options.max_order, plan.screening)
        if found is not None:
            return data.rescaled(found.round(rank=candidate.rank), s), linear, candidate
        candidate = replace(candidate, is_screened=False)
    return initial_point(additive, candidate, data, plan, rng), linear, candidate


def _widened(data, W, s, rank, plan, rng) -> TTTensor:
    """Return weights of order scale 1 at another order scale and rank."""
    return initialize.padded(data.rescaled(W, s), rank, plan.padding, rng)


def _finish(data, options, candidate, W, rng, held_out, linear=None, tried=()) -> Fitted:
    """Train, and take the linear model if that has the lower objective at the same penalty."""
    s, alpha, history = candidate.order_scale, candidate.alpha(data.size), []
    if not candidate.is_linear:
        W, history = _train(data, options, candidate, W, rng, held_out)
    selected = candidate.record(data.size)
    is_compared = linear is not None and W is not linear
    if is_compared and not data.value(W, s, alpha) <= data.value(linear, s, alpha):
        W, selected = linear, replace(selected, is_linear=True, is_screened=False)
    return Fitted(data.rescaled(W, 1 / s), selected, list(tried), history)


def _train(data, options, candidate, W, rng, held_out) -> tuple[TTTensor, list[Record]]:
    s, metric = candidate.order_scale, None
    if held_out is not None:

        def metric(W):
            return held_out.score(W, s)

    # The search has validated a number of sweeps. Other solvers, and other starts, train until they
    # no longer improve.
    is_default = options.solver in registry.SWEEPS and options.init in ("auto", "screened")
    is_counted = bool(candidate.scores) and held_out is None and is_default
    if is_counted and not candidate.n_iter:
        return W, []
    trainer = Trainer(
        registry.get(
            options.solver, candidate.rank, precision(data, options.plan),
            options.learning_rate, _batch_size(options, len(data)),
        ),
        max_iter=candidate.n_iter if is_counted else options.max_iter,
        tol=None if is_counted else options.tol,
        n_iter_no_change=options.n_iter_no_change,
        verbose=options.verbose,
        random_state=rng,
    )  # fmt: skip
    return _run(trainer, data, W, s, candidate.alpha(data.size), metric), trainer.history


def _run(trainer, data, W, order_scale, alpha, metric=None) -> TTTensor:
    W = trainer.run(W, data.features(order_scale), data.objective(alpha), metric)
    if trainer.is_interrupted:
        _warn(
            f"Training was interrupted after {len(trainer.history)} iterations; the best model so "
            "far is kept."
        )
    return W


def _batch_size(options, m):
    if options.batch_size == "auto":
        return min(BATCH_SIZE, max(1, m // FEWEST_BATCHES))
    return options.batch_size


def _warn(message):
    warnings.warn(message, ConvergenceWarning, stacklevel=2)
