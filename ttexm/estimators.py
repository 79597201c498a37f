"""ExMClassifier and ExMRegressor: Exponential Machines for users of scikit-learn."""

import numbers
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import (
    _safe_indexing,
    assert_all_finite,
    check_random_state,
    compute_sample_weight,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from . import device, initialize, losses, selection
from .features import Auto, FeatureMap, PerColumn
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


class _ExM(BaseEstimator):
    """What both estimators share: parameters, features, training."""

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
        device.get(self.device)
        if not isinstance(self.init, TTTensor) and self.init not in INITS:
            raise ValueError(
                f"init must be one of {', '.join(INITS)}, or a TTTensor, got {self.init!r}."
            )

    def _check(self, name, is_fine, wanted, or_auto=False):
        value = getattr(self, name)
        if not (or_auto and _is_auto(value)) and not is_fine(value):
            raise ValueError(f"{name} must be {wanted}, got {value!r}.")

    def _feature_map(self) -> FeatureMap:
        if isinstance(self.features, FeatureMap):
            return clone(self.features)
        if isinstance(self.features, dict):
            return PerColumn(self.features, Auto(self.categorical_features))
        if _is_auto(self.features):
            return Auto(self.categorical_features)
        raise ValueError(
            "features must be 'auto', a FeatureMap, or a dict of them by column, "
            f"got {self.features!r}."
        )

    def _rng(self):
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    # -- training -------------------------------------------------------------------------------

    def _fit(self, X, y, weights, loss, eval_set=None):
        """Train on encoded targets; `eval_set` is a pair of rows and encoded targets, or None."""
        self._check_parameters()
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
        batch = self.feature_map_.transform(X)
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
        ranks = selection.RANKS if _is_auto(self.rank) else (self.rank,)
        scales = selection.ORDER_SCALES if _is_auto(self.order_scale) else (self.order_scale,)
        alpha = None if _is_auto(self.alpha) else self.alpha
        s = scales[-1]
        if alpha is not None and len(ranks) == len(scales) == 1:
            penalty = alpha * problem.size / s**2
            is_screened = not isinstance(self.init, TTTensor) and self.init == "screened"
            return Choice(penalty, s, ranks[0], self.max_iter, is_screened=is_screened)
        if len(problem) < FEWEST_ROWS:
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
            rank = max(choice.rank, self.init.rank) if _is_auto(self.rank) else choice.rank
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
        return selection.start(linear, choice, problem, rng)

    def _continue(self, problem, rng):
        """Settings and tensor of the last fit, for `warm_start`; given settings come first.

        The feature map has the order scale of that fit already.
        """
        alpha = self.alpha_ if _is_auto(self.alpha) else self.alpha
        rank = self.rank_ if _is_auto(self.rank) else self.rank
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
        return min(BATCH_SIZE, m) if _is_auto(self.batch_size) else self.batch_size

    def _partial_fit(self, X, y, weights, loss):
        """One more pass of descent, through these rows alone; `fit` for the first of them."""
        if not hasattr(self, "weights_"):
            self._fit(X, y, weights, loss)
            # What comes later may need more than the first rows did.
            rank = max(self.rank_, selection.RANKS[0]) if _is_auto(self.rank) else self.rank
            self.weights_ = initialize.padded(self.weights_, rank, selection.PADDING, self._rng())
            self.rank_ = self.weights_.rank
            return self
        self._check_parameters()
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
        batch = self.feature_map_.transform(X)
        if self.weights_.ndim == batch.ndim:
            return self.weights_.contract(batch)
        n_outputs = self.weights_.shape[-1]
        return np.stack([self.weights_[..., j].contract(batch) for j in range(n_outputs)], axis=1)


def _has_probabilities(estimator):
    loss = estimator.loss
    return _is_auto(loss) or losses.get(loss).has_probabilities


class ExMClassifier(ClassifierMixin, _ExM):
    """Exponential Machine for classes: a model of all interactions between the columns.

    Parameters
    ----------
    rank : int or "auto"
        TT-rank of the weight tensor: how many different interactions it can hold. Like alpha and
        order_scale, "auto" is chosen by validation within the training rows.
    alpha : float or "auto"
        Weight of the penalty ``alpha/2 |W|^2`` next to the mean loss (lambda / N of the paper).
    order_scale : float or "auto"
        s: interactions of order j are penalised by ``alpha s^(-2 j)``.
    features : "auto", FeatureMap or dict of column to FeatureMap
    categorical_features : "from_dtype", None, or array-like
        See `ttexm.features.Auto`.
    solver : str or Solver
        "auto" and "sweeps" solve for one core at a time; "two_site" for two, and adapts the ranks;
        "boosting" adds what two-site sweeps find in the residual, up to the given rank;
        "riemannian" is the paper's algorithm, with variants "riemannian_momentum",
        "riemannian_svrg", "riemannian_cg" and "riemannian_adaptive" (a two-site sweep every few
        iterations); "cores" and "cores_adam" are gradient descent on the cores.
    loss : {"auto", "logistic", "hinge", "squared_hinge"} or Loss
        "auto" is logistic for two classes, softmax for more. Any other loss of more than two
        classes takes each against the rest, as labels of -1 and 1.
    max_iter : int
        Passes through the rows, or sweeps over the cores.
    tol : float
        Relative improvement that counts as one.
    batch_size : int, None or "auto"
        Rows of a mini-batch, for solvers that have them: None for all rows, "auto" for 200.
    learning_rate : float or "auto"
        For the same solvers; "auto" follows the curvature of the loss.
    max_order : int
        Highest order of the products that are looked for one by one (see `solvers.screening`);
        0 for none. `is_screened_` tells whether that was used.
    early_stopping : bool
        Whether to stop by the loss on a part of the rows that is held out. With an `eval_set`,
        training stops by that.
    validation_fraction : float
        The part that is held out.
    n_iter_no_change : int
        Iterations without improvement after which to stop.
    init : {"auto", "linear", "screened", "random_linear", "gaussian"} or TTTensor
        Where to start: "linear" is the linear model, "screened" adds the products that were found
        one by one, "auto" takes the better of both by validation.
    class_weight : dict, "balanced" or None
    warm_start : bool
        Whether `fit` goes on from the last fit, with its columns, levels and settings.
    random_state : int, RandomState or None
        The same one gives the same bits.
    verbose : int
        Above 0, progress bars are shown.
    device : "cpu"

    Attributes
    ----------
    classes_ : array
    weights_ : TTTensor
        At the order scale of `feature_map_`; with several classes, one more mode for them.
    feature_map_ : FeatureMap
    rank_, alpha_, order_scale_, n_iter_
        What was chosen.
    is_linear_, is_screened_ : bool
        Whether the linear model was best, and whether screened products were the start.
    history_ : list of Record

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import ExMClassifier
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], (2000, 10))
    >>> y = np.where(X[:, 0] * X[:, 3] * X[:, 7] > 0, "yes", "no")
    >>> model = ExMClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> float(model.score(X[1000:], y[1000:]))
    1.0
    """

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
        class_weight=None,
        warm_start=False,
        random_state=None,
        verbose=0,
        device="cpu",
    ):
        super().__init__(
            rank, alpha=alpha, order_scale=order_scale, features=features,
            categorical_features=categorical_features, solver=solver, loss=loss,
            max_iter=max_iter, tol=tol, batch_size=batch_size, learning_rate=learning_rate,
            max_order=max_order, early_stopping=early_stopping,
            validation_fraction=validation_fraction, n_iter_no_change=n_iter_no_change, init=init,
            warm_start=warm_start, random_state=random_state, verbose=verbose, device=device,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None, eval_set=None):
        """Train on rows X with labels y of any type.

        Parameters
        ----------
        X : array, pandas or polars data frame
        y : array (m,)
        sample_weight : array (m,), optional
        eval_set : pair (X, y), optional
            Training stops when the loss on these rows no longer improves.
        """
        y = self._labels(X, y)
        weights = _weights(sample_weight, X, len(y))
        if self.warm_start and hasattr(self, "weights_"):
            self._check_known(y, "y")
        else:
            self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes, got one class only: {self.classes_[0]!r}."
            )
        if eval_set is not None:
            X_val, y_val = _pair(eval_set)
            eval_set = X_val, self._encode(self._labels(X_val, y_val), "y of eval_set")
        return self._fit(
            X, self._encode(y, "y"), weights * self._class_weights(y), self._loss(), eval_set
        )

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train on more rows, once through them.

        The first call is a `fit`: it learns the columns with their levels and scales, and the
        settings. Later calls take one pass of Riemannian descent through their rows.

        Parameters
        ----------
        X : array, pandas or polars data frame
        y : array (m,)
        classes : array, optional
            All classes there will be; wanted in the first call if its y lacks some.
        sample_weight : array (m,), optional
        """
        y = self._labels(X, y)
        if not hasattr(self, "weights_"):
            self.classes_ = np.unique(y if classes is None else classes)
            if len(self.classes_) < 2:
                raise ValueError(
                    f"There must be at least two classes, got one class only: "
                    f"{self.classes_[0]!r}; give all of them as `classes`."
                )
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, "
                f"got {classes!r}."
            )
        weights = _weights(sample_weight, X, len(y)) * self._class_weights(y)
        return self._partial_fit(X, self._encode(y, "y"), weights, self._loss())

    def _labels(self, X, y):
        _require(self, y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return y

    def _class_weights(self, y):
        return 1.0 if self.class_weight is None else compute_sample_weight(self.class_weight, y)

    def _check_known(self, y, name):
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"{name} must have classes of {self.classes_.tolist()} only, "
                f"got {strange.tolist()[0]!r}."
            )

    def _loss(self):
        default = "logistic" if len(self.classes_) == 2 else "softmax"
        return losses.get(default if _is_auto(self.loss) else self.loss)

    def _encode(self, y, name):
        """Labels as the loss takes them: -1 and 1, or one-hot for the softmax."""
        self._check_known(y, name)
        codes = np.searchsorted(self.classes_, y)
        if len(self.classes_) == 2:
            return 2.0 * codes - 1
        one_hot = np.eye(len(self.classes_))[codes]
        return one_hot if isinstance(self._loss(), losses.Softmax) else 2 * one_hot - 1

    def decision_function(self, X):
        """Return the raw predictions: of the second class, or of each of several."""
        return self._raw(X)

    def predict(self, X):
        """Return the most probable class of each row."""
        f = self._raw(X)
        return self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Return the probability of each class; not for losses that know none, as the hinge."""
        f = self._raw(X)
        p = self.loss_.predict(f)
        return np.stack([1 - p, p], axis=1) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)


class ExMRegressor(RegressorMixin, _ExM):
    """Exponential Machine for numbers, one target or several.

    Parameters and attributes are those of `ExMClassifier`, with the losses "squared" and "poisson".
    The targets are centred and scaled for training, except with the Poisson loss.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import ExMRegressor
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], (2000, 10))
    >>> y = 3 + X[:, 0] * X[:, 3] * X[:, 7] - X[:, 5]
    >>> model = ExMRegressor(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.999)
    True
    """

    def fit(self, X, y, sample_weight=None, eval_set=None):
        """Train on rows X with targets y, (m,) or (m, n_targets).

        Parameters
        ----------
        X : array, pandas or polars data frame
        y : array (m,) or (m, n_targets)
        sample_weight : array (m,), optional
        eval_set : pair (X, y), optional
            Training stops when the loss on these rows no longer improves.
        """
        loss, y = self._loss(), self._targets(X, y)
        weights = _weights(sample_weight, X, len(y))
        if not (self.warm_start and hasattr(self, "weights_")):
            self._learn_units(y, weights, loss)
        if eval_set is not None:
            X_val, y_val = _pair(eval_set)
            eval_set = X_val, self._scaled(self._targets(X_val, y_val))
        return self._fit(X, self._scaled(y), weights, loss, eval_set)

    def partial_fit(self, X, y, sample_weight=None):
        """Train on more rows, once through them.

        The first call is a `fit`: it learns the columns with their levels and scales, the units of
        y, and the settings. Later calls take one pass of Riemannian descent through their rows.
        """
        loss, y = self._loss(), self._targets(X, y)
        weights = _weights(sample_weight, X, len(y))
        if not hasattr(self, "weights_"):
            self._learn_units(y, weights, loss)
        return self._partial_fit(X, self._scaled(y), weights, loss)

    def _loss(self):
        return losses.get("squared" if _is_auto(self.loss) else self.loss)

    def _targets(self, X, y):
        _require(self, y)
        y = np.asarray(_check_y(y, multi_output=True, y_numeric=True), np.float64)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        self._loss().check(y)
        return y

    def _learn_units(self, y, weights, loss):
        self.center_, self.spread_ = 0.0, 1.0
        if not isinstance(loss, losses.Poisson):
            self.center_ = np.average(y, axis=0, weights=weights)
            spread = np.sqrt(np.average((y - self.center_) ** 2, axis=0, weights=weights))
            self.spread_ = np.where(spread > 0, spread, 1.0)

    def _scaled(self, y):
        return (y - self.center_) / self.spread_

    def predict(self, X):
        """Return the predicted target of each row."""
        f = self._raw(X)
        return self.loss_.predict(f) * self.spread_ + self.center_


def _is_real(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_count(value) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= 1


def _pair(eval_set):
    """Rows and targets of an eval_set; a list of one pair, as other libraries want it, will do."""
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if not isinstance(eval_set, tuple) or len(eval_set) != 2:
        raise ValueError(f"eval_set must be a pair (X, y), got {type(eval_set).__name__}.")
    return eval_set


def _require(estimator, y):
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None")


def _is_auto(value) -> bool:
    return isinstance(value, str) and value == "auto"


def _weights(sample_weight, X, m):
    if m == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    if sample_weight is None:
        return np.ones(m)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        row = int(np.argmin(weights))
        raise ValueError(f"sample_weight must not be negative, got {weights[row]} in row {row}.")
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all samples.")
    return weights
