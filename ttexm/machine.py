"""What both estimators share: parameters, features, choice of settings, training."""

import numbers
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from . import device, initialize, selection
from .feature_map import FeatureMap
from .features import Auto, PerColumn
from .kernels.threads import single_threaded_blas
from .problem import Problem, rescaled
from .selection import Choice, Selection
from .solvers import named
from .solvers.riemannian import Riemannian
from .table import hash_rows, read_table
from .tensor import TTTensor
from .trainer import Trainer

INITS = ("auto", "linear", "screened", "random_linear", "gaussian")
BATCH_SIZE = 200  # of mini-batches, where nobody chose
FEWEST_ROWS = 8  # below this there is nothing to validate with


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
        self._check("alpha", lambda x: _is_real(x) and x >= 0, "'auto' or at least 0", True)
        self._check("order_scale", lambda x: _is_real(x) and x > 0, "'auto' or positive", True)
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

    @single_threaded_blas()
    def _fit(self, X, y, weights, loss, eval_set=None):
        """Train on encoded targets; `eval_set` is a pair of rows and encoded targets, or None."""
        self._check_parameters()
        self.device_ = device.resolve(self.device)
        rng, is_first = self._rng(), not (self.warm_start and hasattr(self, "weights_"))
        problem = self._problem(X, y, weights, loss, learn=is_first)
        validation = None
        if eval_set is not None:
            validation = self._problem(*eval_set, np.ones(len(eval_set[1])), loss)
        elif self.early_stopping:
            problem, validation = self._hold_out(problem, rng)
        if is_first:
            choice = self._choose(problem, rng)
            self.order_scale_ = choice.order_scale
            self.is_screened_, self.is_linear_ = choice.is_screened, choice.is_linear
            W = self._start(problem, choice, rng)
        else:
            choice, W = self._continue(problem, rng)
        self.alpha_ = choice.alpha(problem.size)
        self.history_ = []
        if not choice.is_linear:
            W = self._train(W, problem, validation, choice, rng)
        self.n_iter_ = max(1, len(self.history_))
        self.weights_, self.rank_, self.loss_ = W, W.rank, loss
        if is_first:
            self.feature_map_.order_scale *= choice.order_scale
        return self

    def _problem(self, X, y, weights, loss, learn=False) -> Problem:
        """Rows and encoded targets as a problem; the columns are learned from them if `learn`."""
        check_consistent_length(X, y)
        used = np.flatnonzero(weights > 0)
        if len(used) < len(weights):
            X = _safe_indexing(X, used)
        if learn:
            self.feature_map_ = self._feature_map().fit(X, sample_weight=weights[used])
            self.n_features_in_ = self.feature_map_.n_features_in_
            if hasattr(self.feature_map_, "feature_names_in_"):
                self.feature_names_in_ = self.feature_map_.feature_names_in_
        batch = self.feature_map_.transform(X).to(self.device_)
        return Problem(batch, y[used], weights[used], loss, hash_rows(read_table(X)))

    def _hold_out(self, problem, rng):
        """Training and validation part; classes are spread over both."""
        labels = problem.y.argmax(axis=1) if problem.n_outputs > 1 else problem.y
        rows = train_test_split(
            np.arange(len(problem)),
            test_size=self.validation_fraction,
            random_state=int(rng.integers(2**31)),
            stratify=labels if isinstance(self, ClassifierMixin) else None,
        )
        return [problem.take(np.sort(part)) for part in rows]

    def _choose(self, problem, rng) -> Choice:
        """The settings: those that were not given by validation."""
        ranks = selection.RANKS if is_auto(self.rank) else (self.rank,)
        scales = selection.ORDER_SCALES if is_auto(self.order_scale) else (self.order_scale,)
        alpha = None if is_auto(self.alpha) else self.alpha
        s = scales[-1]
        if alpha is not None and len(ranks) == len(scales) == 1:
            penalty = alpha * problem.size / s**2
            wanted = self.init == "screened"
            return Choice(penalty, s, ranks[0], self.max_iter, is_screened=wanted)
        if problem.copies.sum() < FEWEST_ROWS:
            penalty = 1.0 if alpha is None else alpha * problem.size / s**2
            return Choice(penalty, s, ranks[0], 0, is_linear=True)
        max_order = self.max_order if self.init in ("auto", "screened") else 0
        search = Selection(
            problem, rng, alpha, scales, ranks, self.max_iter, max_order, bool(self.verbose)
        )
        is_default = self.solver in named.SWEEPS and self.init in ("auto", "screened")
        choice = search.run(may_be_linear=is_default)
        if self.init == "screened" and problem.n_outputs == 1:
            choice = replace(choice, is_screened=True, is_linear=False)
        # Only the search's own sweeps can be counted on: others stop where they stop.
        return choice if is_default else replace(choice, scores=())

    def _start(self, problem, choice, rng) -> TTTensor:
        d, s = problem.batch.ndim, choice.order_scale
        if isinstance(self.init, TTTensor):
            rank = max(choice.rank, self.init.rank) if is_auto(self.rank) else choice.rank
            return initialize.padded(self.init, rank, selection.PADDING, rng)
        if self.init in ("random_linear", "gaussian"):
            batch = problem.features(s)
            if self.init == "gaussian":
                return initialize.gaussian(batch.shape, choice.rank, 0.1, rng)
            W = initialize.random_linear(batch, 0.1, rng)
            return initialize.padded(W, choice.rank, selection.PADDING, rng)
        linear = problem.linear(choice.penalty / problem.size)
        if choice.is_linear:
            return rescaled(linear, s, d)
        if choice.is_screened:
            screened = selection.screen(problem, linear, self.max_order)
            if screened is not None:
                return rescaled(screened.round(rank=choice.rank), s, d)
            self.is_screened_ = False
        return selection.start(linear, choice, problem, rng)

    def _continue(self, problem, rng):
        """Settings and tensor of the last fit, for `warm_start`; given settings come first.

        The feature map has the order scale of that fit already.
        """
        alpha = self.alpha_ if is_auto(self.alpha) else self.alpha
        rank = self.rank_ if is_auto(self.rank) else self.rank
        choice = Choice(alpha * problem.size, 1.0, rank, self.max_iter)
        return choice, initialize.padded(self.weights_, rank, selection.PADDING, rng)

    def _train(self, W, problem, validation, choice, rng) -> TTTensor:
        s, metric = choice.order_scale, None
        if validation is not None:

            def metric(W):
                return validation.score(W, s)

        # The number of sweeps is part of a choice by validation.
        is_counted = bool(choice.scores) and validation is None
        if is_counted and not choice.n_iter:
            return W
        trainer = Trainer(
            named.get(
                self.solver, choice.rank, selection.precision(problem),
                self.learning_rate, self._batch_size(len(problem)),
            ),
            max_iter=choice.n_iter if is_counted else self.max_iter,
            tol=None if is_counted else self.tol,
            n_iter_no_change=self.n_iter_no_change,
            verbose=bool(self.verbose),
            random_state=rng,
        )  # fmt: skip
        W = trainer.run(W, problem.features(s), problem.objective(self.alpha_), metric)
        self.history_ = trainer.history
        return W

    def _batch_size(self, m):
        return min(BATCH_SIZE, m) if is_auto(self.batch_size) else self.batch_size

    @single_threaded_blas()
    def _partial_fit(self, X, y, weights, loss):
        """One more pass of descent, through these rows alone; `fit` for the first of them."""
        if not hasattr(self, "weights_"):
            self._fit(X, y, weights, loss)
            # What comes later may need more than the first rows did.
            rank = max(self.rank_, selection.RANKS[0]) if is_auto(self.rank) else self.rank
            self.weights_ = initialize.padded(self.weights_, rank, selection.PADDING, self._rng())
            self.rank_ = self.weights_.rank
            return self
        self._check_parameters()
        self.device_ = device.resolve(self.device)
        problem = self._problem(X, y, weights, loss)
        solver = Riemannian("sgd", self.learning_rate, self._batch_size(len(problem)))
        trainer = Trainer(solver, max_iter=1, tol=None, random_state=self._rng())
        self.weights_ = trainer.run(
            self.weights_, problem.features(1.0), problem.objective(self.alpha_)
        )
        self.history_ = [*self.history_, *trainer.history]
        self.n_iter_ += 1
        return self

    # -- prediction -----------------------------------------------------------------------------

    def _raw(self, X):
        """<W, X> for each row, and each output if there are several."""
        check_is_fitted(self)
        # Not device_: the model may have come to a machine without that device.
        batch = self.feature_map_.transform(X).to(self.device)
        if self.weights_.ndim == batch.ndim:
            return self.weights_.contract(batch)
        n_outputs = self.weights_.shape[-1]
        return np.stack([self.weights_[..., j].contract(batch) for j in range(n_outputs)], axis=1)


def is_auto(value) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_real(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_count(value) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= 1
