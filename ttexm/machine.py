"""What both estimators share: parameters, features, choice of settings, training."""

import math
import numbers
import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from . import device, folds, initialize, selection, validation
from .feature_map import FeatureMap
from .features import Auto, PerColumn
from .kernels.threads import single_threaded_blas
from .problem import Problem
from .rows import row_keys
from .selection import Selection
from .settings import Choice
from .solvers import named
from .solvers.riemannian import Riemannian
from .table import check_table, read_table
from .tensor import TTTensor
from .trainer import Trainer
from .validation import Validation

INITS = ("auto", "linear", "screened", "random_linear", "gaussian")
BATCH_SIZE, FEWEST_BATCHES = 200, 8  # by default: of 200 rows, and at least 8 of them
FEWEST_ROWS = 8  # different ones; below this there is nothing to validate with
FEW_VALUES, FEW_CELLS = 4, 64  # up to which a table of all combinations is small
LARGEST_ALPHA, LARGEST_SCALE = 1e100, 1e6


class ExponentialMachine(BaseEstimator):
    """Base of the estimators; targets come encoded, as the loss takes them."""

    def __init__(
        self,
        rank="auto",
        *,
        alpha="auto",
        order_scale="auto",
        features="auto",
        categorical_features="from_dtype",
        solver="auto",
        loss="auto",
        max_iter=100,
        tol=1e-4,
        batch_size="auto",
        learning_rate="auto",
        max_order=6,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        init="auto",
        warm_start=False,
        random_state=None,
        verbose=0,
        device="cpu",
    ):
        self.rank = rank
        self.alpha = alpha
        self.order_scale = order_scale
        self.features = features
        self.categorical_features = categorical_features
        self.solver = solver
        self.loss = loss
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_order = max_order
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.init = init
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # -- parameters -----------------------------------------------------------------------------

    def _check_parameters(self):
        self._check("rank", _is_count, "'auto' or an integer of at least 1", or_auto=True)
        self._check("alpha", lambda x: _is_number(x) and x >= 0, "'auto' or at least 0", True)
        most = f"'auto' or at most {LARGEST_ALPHA:g}"
        self._check("alpha", lambda x: x <= LARGEST_ALPHA, most, or_auto=True)
        self._check("order_scale", lambda x: _is_number(x) and x > 0, "'auto' or positive", True)
        within = f"'auto' or between {1 / LARGEST_SCALE:g} and {LARGEST_SCALE:g}"
        self._check(
            "order_scale",
            lambda x: 1 <= x * LARGEST_SCALE <= LARGEST_SCALE**2,
            within,
            or_auto=True,
        )
        self._check("max_iter", _is_count, "an integer of at least 1")
        self._check("tol", lambda x: _is_real(x) and x >= 0, "at least 0")
        self._check(
            "batch_size",
            lambda x: x is None or _is_count(x),
            "'auto', an integer of at least 1, or None for all samples",
            or_auto=True,
        )
        self._check("learning_rate", lambda x: _is_real(x) and x > 0, "'auto' or positive", True)
        self._check("max_order", lambda x: _is_count(x) or x == 0, "an integer of at least 0")
        self._check("validation_fraction", lambda x: _is_real(x) and 0 < x < 1, "in (0, 1)")
        self._check("n_iter_no_change", _is_count, "an integer of at least 1")
        for name in ("early_stopping", "warm_start"):
            self._check(name, lambda x: isinstance(x, (bool, np.bool_)), "True or False")
        named.check(self.solver)
        device.resolve(self.device)
        if not isinstance(self.init, TTTensor) and self.init not in INITS:
            raise ValueError(
                f"init must be one of {', '.join(INITS)}, or a TTTensor, got {self.init!r}."
            )

    def _check(self, name, is_fine, wanted, or_auto=False):
        value = getattr(self, name)
        if not (or_auto and is_auto(value)) and not is_fine(value):
            raise ValueError(f"{name} must be {wanted}, got {value!r}.")

    def _feature_map(self) -> FeatureMap:
        if isinstance(self.features, FeatureMap):
            return clone(self.features)
        if isinstance(self.features, dict):
            return PerColumn(self.features, Auto(self.categorical_features))
        if is_auto(self.features):
            return Auto(self.categorical_features)
        raise ValueError(
            "features must be 'auto', a FeatureMap, or a dict of them by column, "
            f"got {self.features!r}."
        )

    def _rng(self):
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    # -- training -------------------------------------------------------------------------------

    def _transact(self, train, anew: bool):
        """Call `train` with a copy of this estimator, and take over all that it has learned.

        If that fails or is interrupted, this one stays as it was. `anew`: what was learned before
        is forgotten.
        """
        model = object.__new__(type(self))
        vars(model).update(vars(self))
        if anew:
            for name in [name for name in vars(model) if name.endswith("_")]:
                delattr(model, name)
        train(model)
        self.__dict__ = vars(model)  # one assignment: Ctrl-C comes before or after it
        return self

    @property
    def _goes_on(self) -> bool:
        """Whether `fit` goes on from the last fit."""
        return self.warm_start and hasattr(self, "weights_")

    @single_threaded_blas()
    def _fit(self, X, y, weights, loss, eval_set=None):
        """Train on encoded targets; `eval_set` is a pair of rows and encoded targets, or None."""
        self.device_ = device.resolve(self.device)
        rng, is_first = self._rng(), not hasattr(self, "weights_")
        problem, held_out = self._training_problem(X, y, weights, loss, is_first), None
        if isinstance(self.init, TTTensor) and self.init.shape != problem.features(1.0).shape:
            raise ValueError(
                f"init must be a TTTensor of shape {problem.features(1.0).shape}, the slots of "
                f"each column{' and the outputs' * (y.ndim - 1)}, got shape {self.init.shape}."
            )
        if eval_set is not None:
            X_val, y_val = eval_set
            held_out = self._problem(X_val, y_val, np.ones(len(y_val)), loss)
        elif self.early_stopping:
            problem, held_out = folds.hold_out(problem, self.validation_fraction, rng)
        linear = None
        if is_first:
            choice = self._choose(problem, rng)
            self.order_scale_ = choice.order_scale
            self.is_screened_, self.is_linear_ = choice.is_screened, choice.is_linear
            W, linear = self._start(problem, choice, rng)
        else:
            choice, W = self._continue(problem, rng)
        self.alpha_ = choice.alpha(problem.size)
        self.history_ = []
        if not choice.is_linear:
            W = self._train(W, problem, held_out, choice, rng)
        if linear is not None:
            W = self._no_worse(W, linear, problem)
        self.n_iter_ = max(1, len(self.history_))
        self.weights_, self.rank_, self.loss_ = W, W.rank, loss
        if is_first:
            self.feature_map_.order_scale *= choice.order_scale

    def _training_problem(self, X, y, weights, loss, is_first) -> Problem:
        """The different rows that count, and what for; the first time, their columns are learned.

        All that follows depends on these rows alone: neither on their order nor on the units of
        weights and columns, nor on whether a row is repeated or has a larger weight.
        """
        check_consistent_length(X, y)
        used = np.flatnonzero(weights > 0)
        if len(used) < len(weights):
            X, y, weights = _safe_indexing(X, used), y[used], weights[used]
        if is_first:
            self.feature_map_ = self._feature_map().fit(X, sample_weight=weights)
        validate_data(self, X, reset=is_first, skip_check_array=True)
        problem = self._problem(X, y, weights, loss)
        found = row_keys(read_table(X), weights, y)
        return replace(problem, keys=found.keys, n_values=found.n_values).merged()

    def _problem(self, X, y, weights, loss) -> Problem:
        check_consistent_length(X, y)
        batch = self._transform(X).to(self.device_)
        return Problem(batch, y, weights, loss, np.zeros(len(y), np.uint64))

    def _transform(self, X):
        check_table(X)
        if getattr(X, "ndim", 2) == 2:  # the feature map refuses others
            validate_data(self, X, reset=False, skip_check_array=True)
        return self.feature_map_.transform(X)

    def _choose(self, problem, rng) -> Choice:
        """The settings: those that were not given by validation."""
        ranks = selection.RANKS if is_auto(self.rank) else (self.rank,)
        scales = selection.ORDER_SCALES if is_auto(self.order_scale) else (self.order_scale,)
        total, s = None if is_auto(self.alpha) else self.alpha * problem.size, scales[-1]
        if total is not None and len(ranks) == len(scales) == 1:
            wanted = self.init == "screened"
            return Choice(total / s**2, s, ranks[0], self.max_iter, is_screened=wanted)
        ranks = selection.possible_ranks(problem, ranks)
        if _is_small_grid(problem):
            penalty = selection.PENALTIES[-1] if total is None else total / s**2
            return Choice(penalty, s, ranks[-1], self.max_iter)
        if problem.n_groups < FEWEST_ROWS:
            penalty = 1.0 if total is None else total / s**2
            return Choice(penalty, s, ranks[0], 0, is_linear=True)
        max_order = self.max_order if self.init in ("auto", "screened") else 0
        search = Selection(
            Validation(problem, rng, max_order), total, scales, ranks, self.max_iter,
            problem.batch.ndim, bool(self.verbose),
        )  # fmt: skip
        is_default = self.solver in named.SWEEPS and self.init in ("auto", "screened")
        try:
            choice = search.run(may_be_linear=is_default)
        except KeyboardInterrupt:
            choice = search.best_so_far(may_be_linear=is_default)
            if choice is None:
                raise
            _warn("The search for settings was interrupted; the best ones so far are used.")
        if self.init == "screened" and problem.n_outputs == 1:
            choice = replace(choice, is_screened=True, is_linear=False)
        # Only the search's own sweeps can be counted on: others stop where they stop.
        return choice if is_default else replace(choice, scores=())

    def _start(self, problem, choice, rng):
        """Where to train from, and the linear model at the same settings, unless it is not used."""
        s = choice.order_scale
        if isinstance(self.init, TTTensor):
            rank = max(choice.rank, self.init.rank) if is_auto(self.rank) else choice.rank
            return initialize.padded(self.init, rank, validation.PADDING, rng), None
        if self.init in ("random_linear", "gaussian"):
            batch = problem.features(s)
            if self.init == "gaussian":
                return initialize.gaussian(batch.shape, choice.rank, 0.1, rng), None
            W = initialize.random_linear(batch, 0.1, rng)
            return initialize.padded(W, choice.rank, validation.PADDING, rng), None
        additive = problem.linear(choice.penalty / problem.size)
        linear = problem.rescaled(additive.tensor(), s)
        if choice.is_linear:
            return linear, linear
        if choice.is_screened:
            found = validation.screen(problem, additive, choice.penalty, self.max_order)
            if found is not None:
                return problem.rescaled(found.round(rank=choice.rank), s), linear
            self.is_screened_ = False
        return validation.start(additive, choice, problem, rng), linear

    def _no_worse(self, W, linear, problem) -> TTTensor:
        """W, or the linear model if that has the lower objective at the same penalty."""
        objective = problem.objective(self.alpha_)

        def value(W):
            return objective.value(problem.predict(W, self.order_scale_), W.norm() ** 2)

        if W is linear or value(W) <= value(linear):
            return W
        self.is_linear_, self.is_screened_ = True, False
        return linear

    def _continue(self, problem, rng):
        """Settings and tensor of the last fit, for `warm_start`; given settings come first.

        The feature map has the order scale of that fit already.
        """
        alpha = self.alpha_ if is_auto(self.alpha) else self.alpha
        rank = self.rank_ if is_auto(self.rank) else self.rank
        choice = Choice(alpha * problem.size, 1.0, rank, self.max_iter)
        return choice, initialize.padded(self.weights_, rank, validation.PADDING, rng)

    def _train(self, W, problem, held_out, choice, rng) -> TTTensor:
        s, metric = choice.order_scale, None
        if held_out is not None:

            def metric(W):
                return held_out.score(W, s)

        # The number of sweeps is part of a choice by validation.
        is_counted = bool(choice.scores) and held_out is None
        if is_counted and not choice.n_iter:
            return W
        trainer = Trainer(
            named.get(
                self.solver, choice.rank, validation.precision(problem),
                self.learning_rate, self._batch_size(len(problem)),
            ),
            max_iter=choice.n_iter if is_counted else self.max_iter,
            tol=None if is_counted else self.tol,
            n_iter_no_change=self.n_iter_no_change,
            verbose=bool(self.verbose),
            random_state=rng,
        )  # fmt: skip
        W = self._run(trainer, W, problem.features(s), problem.objective(self.alpha_), metric)
        self.history_ = trainer.history
        return W

    def _run(self, trainer, *problem) -> TTTensor:
        W = trainer.run(*problem)
        if trainer.is_interrupted:
            _warn(
                f"Training was interrupted after {len(trainer.history)} iterations; the best model "
                "so far is kept."
            )
        return W

    def _batch_size(self, m):
        if is_auto(self.batch_size):
            return min(BATCH_SIZE, max(1, m // FEWEST_BATCHES))
        return self.batch_size

    @single_threaded_blas()
    def _partial_fit(self, X, y, weights, loss):
        """One more pass of descent, through these rows alone; `fit` for the first of them."""
        if not hasattr(self, "weights_"):
            self._fit(X, y, weights, loss)
            # What comes later may need more than the first rows did.
            rank = max(self.rank_, selection.RANKS[0]) if is_auto(self.rank) else self.rank
            self.weights_ = initialize.padded(self.weights_, rank, validation.PADDING, self._rng())
            self.rank_ = self.weights_.rank
            return
        self.device_ = device.resolve(self.device)
        problem = self._problem(X, y, weights, loss)
        problem = problem.take(np.flatnonzero(weights > 0))
        solver = Riemannian("sgd", self.learning_rate, self._batch_size(len(problem)))
        trainer = Trainer(solver, max_iter=1, tol=None, random_state=self._rng())
        self.weights_ = self._run(
            trainer, self.weights_, problem.features(1.0), problem.objective(self.alpha_)
        )
        self.history_ = [*self.history_, *trainer.history]
        self.n_iter_ += 1

    # -- prediction -----------------------------------------------------------------------------

    def _raw(self, X):
        """<W, X> for each row, and each output if there are several."""
        check_is_fitted(self)
        # Not device_: the model may have come to a machine without that device.
        batch = self._transform(X).to(self.device)
        if self.weights_.ndim == batch.ndim:
            return self.weights_.contract(batch)
        n_outputs = self.weights_.shape[-1]
        return np.stack([self.weights_[..., j].contract(batch) for j in range(n_outputs)], axis=1)


def _warn(message):
    warnings.warn(message, ConvergenceWarning, stacklevel=2)


def is_auto(value) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_small_grid(problem) -> bool:
    """Whether the rows are most combinations of few values: none can be left out to validate."""
    if problem.n_values.max() > FEW_VALUES:
        return False
    n_cells = math.prod(max(1, n) for n in problem.n_values.tolist())
    return n_cells <= FEW_CELLS and problem.n_groups >= n_cells / 2


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def _is_real(value) -> bool:
    return _is_number(value) and np.isfinite(value)


def _is_count(value) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= 1
