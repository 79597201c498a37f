"""A fit from end to end: choose the settings, train one or several models, and average them.

Weight tensors are given and returned as weights of all functions at order scale 1. Training itself
is with the functions of a basis, at the order scale of the settings, where the penalty is |W|^2.
"""

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..kernels.core_sweep import count_chunks
from ..tt.tensor import TTTensor
from . import initialize, progress
from .bases import ALL_FUNCTIONS, LINEAR, SEARCHED, SMOOTH, has_curves
from .data import Data, with_outputs
from .linear import EXACT
from .selection.candidate import Candidate, Selected
from .selection.folds import hold_out
from .selection.grid import Given, largest_rank, possible_ranks
from .selection.plan import PLAN, SearchPlan
from .selection.screening import screen
from .selection.search import Search, describe, spread_starts
from .selection.validation import Validation, side_by_side
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
    time_limit: float | None = None
    verbose: bool = False
    plan: SearchPlan = field(default=PLAN)

    @property
    def is_default(self) -> bool:
        """Whether training is what the search validates: sweeps from an additive model."""
        return self.solver in registry.SWEEPS and self.init in ("auto", "screened")

    @property
    def is_searched(self) -> bool:
        """Whether all settings are searched for, so that models may be averaged."""
        return self.is_default and self.rank is self.alpha is self.order_scale is None


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of a fit.

    Attributes
    ----------
    weights : TTTensor
        Weights of all functions, at order scale 1.
    selected : Selected
        The settings; of the model with the largest weight, if several are averaged.
    averaged : list of Selected
        The settings of all models that are averaged.
    tried : list of Selected
        All settings that were validated, in the order of the search.
    history : list of Record
        The iterations of the training.
    """

    weights: TTTensor
    selected: Selected
    averaged: list[Selected]
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
    chosen = _choose(data, options, rng)
    candidate, tried = chosen.members[0][1], chosen.tried
    is_validated = bool(candidate.losses)
    if held_out is None and is_validated and options.is_searched:
        return _train_average(data, options, chosen, rng)
    W, additive, candidate = _find_start(data, options, candidate, rng, _random_seed(rng))
    return _finish(data, options, candidate, W, rng, held_out, additive, tried)


def refit(
    data: Data,
    options: FitOptions,
    rng: np.random.Generator,
    last: Fitted,
    held_out: Data | None = None,
) -> Fitted:
    """Go on from the last fit, with its settings unless others are given (warm start)."""
    data, held_out = _split(data, options, rng, held_out)
    candidate = _settings_of(last, options, data)
    W = _widened(data, last.weights, candidate, options.plan, rng)
    fitted = _finish(data, options, candidate, W, rng, held_out)
    kept = replace(fitted.selected, rank=fitted.weights.rank)
    return replace(fitted, selected=kept, averaged=[kept], tried=last.tried)


def widen(data: Data, options: FitOptions, rng: np.random.Generator, last: Fitted) -> Fitted:
    """Raise the rank to the given one, or to the lowest of the search, for rows that follow."""
    candidate = _settings_of(last, options, data)
    least = options.plan.least_rank
    rank = max(last.weights.rank, least) if options.rank is None else options.rank
    candidate = replace(candidate, rank=rank)
    W = _widened(data, last.weights, candidate, options.plan, rng)
    return replace(last, weights=data.to_plain(W, candidate.basis, candidate.order_scale))


def update(data: Data, options: FitOptions, rng: np.random.Generator, last: Fitted) -> Fitted:
    """Take one pass of Riemannian descent through more rows."""
    candidate = _settings_of(last, options, data)
    solver = Riemannian("sgd", options.learning_rate, _batch_size(options, len(data)))
    trainer = Trainer(solver, max_iter=1, tol=None, random_state=rng)
    W = data.from_plain(last.weights, candidate.basis, candidate.order_scale)
    W = _run(trainer, data, W, candidate, last.selected.alpha)
    history = [*last.history, *trainer.history]
    weights = data.to_plain(W, candidate.basis, candidate.order_scale)
    return replace(last, weights=weights, history=history)


# -- settings -------------------------------------------------------------------------------------


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


def _unsearched_basis(data):
    """Return the basis of a model that nothing was validated for: all functions, the smooth ones
    with most weight."""
    return SMOOTH if has_curves(data.batch.modes) else LINEAR


def _settings_of(last: Fitted, options: FitOptions, data: Data) -> Candidate:
    """Return the settings of the last fit, unless others are given; all functions are kept."""
    s = last.selected.order_scale
    alpha = last.selected.alpha if options.alpha is None else options.alpha
    rank = last.weights.rank if options.rank is None else options.rank
    ridge = alpha * data.size / s**2
    return Candidate(_unsearched_basis(data), ridge, s, rank, options.max_iter)


class Chosen(NamedTuple):
    """Models with their weights, the settings of all that were tried, and their validation."""

    members: list[tuple[float, Candidate]]
    tried: tuple[Selected, ...] = ()
    validation: Validation | None = None


def _choose(data, options, rng) -> Chosen:
    """Choose models, searching for the settings that were not given."""
    plan, basis = options.plan, _unsearched_basis(data)
    total = None if options.alpha is None else options.alpha * data.size
    given = Given(options.rank, total, options.order_scale)
    s = 1.0 if options.order_scale is None else options.order_scale
    if None not in (options.rank, total, options.order_scale):
        is_screened = options.init == "screened"
        basis = LINEAR if is_screened else basis
        candidate = Candidate(
            basis, total / s**2, s, options.rank, options.max_iter, is_screened=is_screened
        )
        return Chosen([(1.0, candidate)])
    if _is_small_grid(data, plan):
        ridge = plan.weak_ridge if total is None else total / s**2
        rank = possible_ranks(given, plan.few_cells * plan.rows_per_rank, data.n_outputs, plan)[-1]
        return Chosen([(1.0, Candidate(basis, ridge, s, rank, options.max_iter))])
    if data.n_groups < plan.fewest_rows:
        ridge = 1.0 if total is None else total / s**2
        return Chosen([(1.0, Candidate(LINEAR, ridge, s))])
    max_order = options.max_order if options.init in ("auto", "screened") else 0
    validation = Validation(data, rng, max_order, plan)
    search = Search(
        validation, given, has_curves(data.batch.modes),
        len(data), data.n_outputs, data.batch.ndim, _largest_ranks(data),
        options.max_iter, options.time_limit, options.verbose, plan,
    )  # fmt: skip
    try:
        members = search.run(may_be_additive=options.is_default)
    except KeyboardInterrupt:
        members = search.best_so_far(may_be_additive=options.is_default)
        if members is None:
            raise
        _warn("The search for settings was interrupted; the best ones so far are used.")
    tried = tuple(candidate.record(data.size) for candidate in search.tried)
    if options.init == "screened" and data.n_outputs == 1:
        members = [(1.0, _best_screened(search, members[0][1], plan))]
    return Chosen(members, tried, validation)


def _best_screened(search, best, plan) -> Candidate:
    """Return the best settings of screened starts; without any, those of the best of all."""
    screened = [c for c in search.tried if c.is_screened and np.isfinite(c.score)]
    if screened:
        return min(screened, key=lambda c: c.score)
    return replace(best, basis=LINEAR, rank=max(best.rank, plan.least_rank), is_screened=True)


def _largest_ranks(data):
    modes, outputs = data.batch.modes, data.y.shape[1:]
    return {basis: largest_rank((*basis.modes(modes).shape, *outputs)) for basis in SEARCHED}


def _is_small_grid(data, plan) -> bool:
    """Return whether the rows are most combinations of few values, see `SearchPlan.few_cells`."""
    if data.n_values is None or data.n_values.max() > plan.few_values:
        return False
    n_cells = math.prod(max(1, n) for n in data.n_values.tolist())
    return n_cells <= plan.few_cells and data.n_groups >= n_cells / 2


# -- training -------------------------------------------------------------------------------------


def _train_average(data, options, chosen, rng) -> Fitted:
    """Train each member on all rows, from several starts, and average them as one tensor."""
    starts, first_seed = list(spread_starts(chosen.members, options.plan)), _random_seed(rng)
    is_small = data.device == "cpu" and len(data) <= options.plan.rows_side_by_side

    def run(function, items):
        if not is_small:
            return [function(item) for item in items]
        return side_by_side(function, items, count_chunks(len(data)))

    keys = list(dict.fromkeys((m.basis, m.ridge, m.is_additive) for _, m, _ in starts))
    found = run(lambda key: _fit_additive(data, chosen.validation, options.plan, *key), keys)
    additive_models, interrupted = dict(zip(keys, found, strict=True)), []
    # One bar for all fits, which may be side by side, or one for the iterations of a single fit.
    shown = progress.bar(len(starts), "training", options.verbose and len(starts) > 1)
    options = replace(options, verbose=options.verbose and len(starts) == 1)

    def train(start):
        weight, member, number = start
        if interrupted:
            return None
        shown.update(describe(member))
        additive = additive_models[member.basis, member.ridge, member.is_additive]
        W, member = _start_beside(additive, data, options, member, first_seed + number)
        if member.is_additive:
            return weight, member, W, []
        W, trainer = _train(data, options, member, W, rng, None)
        if trainer.is_interrupted:
            interrupted.append(trainer)
        W, member = _better_of(data, member, W, additive)
        return weight, member, W, trainer.history

    try:
        fits = [fit for fit in run(train, starts) if fit is not None]
    finally:
        shown.close()
    total = sum(weight for weight, *_ in fits)
    parts = [(weight / total, member, W) for weight, member, W, _ in fits]
    history = next((found for *_, found in fits if found), [])
    shares: dict[Candidate, float] = {}
    for weight, member, _ in parts:
        shares[member] = shares.get(member, 0.0) + weight
    shares = dict(sorted(shares.items(), key=lambda pair: -pair[1]))
    records = [member.record(data.size, share) for member, share in shares.items()]
    W = _average(data, parts, options.plan)
    return Fitted(W, records[0], records, list(chosen.tried), history)


def _fit_additive(data, validation, plan, basis, ridge, is_member):
    """Return an additive model: an exact one for a member of the average, or one to start at."""
    near = None if validation is None else validation.folds[0].additive(basis, ridge)
    tolerance = EXACT if is_member else plan.additive_tolerance
    return data.additive(basis, ridge / data.size, near, tolerance)


def _average(data, parts, plan) -> TTTensor:
    """Return the weighted sum of models as one tensor of all functions, rounded.

    As coarsely as the plan allows for the changes of the predictions. (The loss of the rows would
    not do for a measure: that of other rows rises by more.)
    """
    plain = [
        weight * data.to_plain(W, member.basis, member.order_scale) for weight, member, W in parts
    ]
    if len(plain) == 1:
        return plain[0]
    total = plain[0]
    for part in plain[1:]:
        total = total + part
    exact = sum(
        weight * data.predict(W, member.basis, member.order_scale) for weight, member, W in parts
    )
    limit = plan.rounding_cost * _spread(exact, data.weights)
    for eps in plan.roundings:
        rounded = total.round(eps=eps)
        change = data.predict(rounded, ALL_FUNCTIONS, 1.0) - exact
        if np.average(change**2, axis=0, weights=data.weights).sum() ** 0.5 <= limit:
            return rounded
    return total


def _spread(f, weights):
    """The standard deviation of predictions; of several outputs, the norm of all of theirs."""
    mean = np.average(f, axis=0, weights=weights)
    return np.average((f - mean) ** 2, axis=0, weights=weights).sum() ** 0.5


def _find_start(data, options, candidate, rng, seed):
    """Return where to start, the additive model (None if not fitted), and the settings."""
    s, init, plan, basis = candidate.order_scale, options.init, options.plan, candidate.basis
    if isinstance(init, TTTensor):
        rank = candidate.rank if options.rank is not None else max(candidate.rank, init.rank)
        candidate = replace(candidate, rank=rank)
        return _widened(data, init, candidate, plan, rng), None, candidate
    shape = (*basis.modes(data.batch.modes).shape, *data.y.shape[1:])
    if init == "gaussian":
        return initialize.gaussian(shape, candidate.rank, RANDOM_SIZE, rng), None, candidate
    if init == "random_linear":
        W = initialize.random_linear(data.features(basis, s), RANDOM_SIZE, rng)
        return initialize.padded(W, candidate.rank, plan.padding, rng), None, candidate
    additive = data.additive(basis, candidate.ridge / data.size)
    W, candidate = _start_beside(additive, data, options, candidate, seed)
    return W, additive, candidate


def _start_beside(additive, data, options, candidate, seed):
    """Return where to start, which is the additive model or near it, and the settings."""
    s, plan, basis = candidate.order_scale, options.plan, candidate.basis
    if candidate.is_additive:
        return additive.tensor(s), candidate
    if candidate.is_screened:
        ridge = min(candidate.ridge, plan.screening.most_ridge)
        linear = data.additive(LINEAR, ridge / data.size)
        found = screen(data, linear, ridge, options.max_order, plan.screening)
        if found is not None:
            # All rows may show more products than the parts of them that were validated.
            rank = plan.screening.most_rank if options.rank is None else options.rank
            W = data.to_plain(found.round(rank=rank), LINEAR, 1.0)
            return data.from_plain(W, basis, s), replace(candidate, rank=W.rank)
        candidate = replace(candidate, is_screened=False)
    return TTTensor(additive.start(s, candidate.rank, plan.padding, seed)), candidate


def _random_seed(rng):
    return int(rng.integers(2**31))


def _widened(data, W, candidate, plan, rng) -> TTTensor:
    """Return weights of order scale 1 at the order scale and rank of a candidate."""
    W = data.from_plain(W, candidate.basis, candidate.order_scale)
    return initialize.padded(W, candidate.rank, plan.padding, rng)


def _finish(data, options, candidate, W, rng, held_out, additive=None, tried=()) -> Fitted:
    """Train, unless it is an additive model."""
    history = []
    if not candidate.is_additive:
        W, trainer = _train(data, options, candidate, W, rng, held_out)
        history = trainer.history
        W, candidate = _better_of(data, candidate, W, additive)
    weights = data.to_plain(W, candidate.basis, candidate.order_scale)
    selected = candidate.record(data.size)
    return Fitted(weights, selected, [selected], list(tried), history)


def _better_of(data, candidate, W, additive) -> tuple[TTTensor, Candidate]:
    """Return a trained model, or the additive one if that has the lower objective."""
    if additive is None:
        return W, candidate
    basis, s, alpha = candidate.basis, candidate.order_scale, candidate.alpha(data.size)
    simple = additive.tensor(s)
    if data.value(W, basis, s, alpha) <= data.value(simple, basis, s, alpha):
        return W, candidate
    return simple, Candidate(basis, candidate.ridge, s)  # nothing was validated for it


def _train(data, options, candidate, W, rng, held_out) -> tuple[TTTensor, Trainer]:
    metric = None
    if held_out is not None:

        def metric(W):
            return held_out.score(W, candidate.basis, candidate.order_scale)

    # The search has validated a number of sweeps. Other solvers, and other starts, train until they
    # no longer improve.
    is_counted = bool(candidate.losses) and held_out is None and options.is_default
    trainer = Trainer(
        registry.get(
            options.solver, candidate.rank, np.float32 if is_counted else np.float64,
            options.learning_rate, _batch_size(options, len(data)),
        ),
        max_iter=candidate.n_iter if is_counted else options.max_iter,
        tol=None if is_counted else options.tol,
        n_iter_no_change=options.n_iter_no_change,
        verbose=options.verbose,
        random_state=rng,
    )  # fmt: skip
    if is_counted and not candidate.n_iter:
        return W, trainer
    return _run(trainer, data, W, candidate, candidate.alpha(data.size), metric), trainer


def _run(trainer, data, W, candidate, alpha, metric=None) -> TTTensor:
    batch = data.features(candidate.basis, candidate.order_scale)
    if not trainer.solver.takes_rows_once:
        batch = with_outputs(batch, data.y)
    W = trainer.run(W, batch, data.objective(alpha), metric)
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
