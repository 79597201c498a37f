"""ExMClassifier and ExMRegressor: Exponential Machines for users of scikit-learn."""

import numbers

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import (
    _safe_indexing,
    assert_all_finite,
    check_random_state,
    compute_sample_weight,
)
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
from .solvers.sweeps import Sweeps
from .table import hash_rows, read_table
from .tensor import TTTensor
from .trainer import Trainer

SOLVERS = {
    "auto": Sweeps(),
    "sweeps": Sweeps(),
    "two_site": Sweeps(sites=2, eps=1e-3),
}
INITS = ("auto", "linear", "random_linear", "gaussian")
RANKS = (4, 8, 16)


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
        max_iter=20,
        tol=1e-4,
        max_order=6,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        init="auto",
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
        self.max_order = max_order
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.init = init
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # -- training -------------------------------------------------------------------------------

    def _check_parameters(self):
        if self.rank != "auto" and (not isinstance(self.rank, numbers.Integral) or self.rank < 1):
            raise ValueError(f"rank must be 'auto' or an integer of at least 1, got {self.rank!r}.")
        for name, lowest in (("alpha", "at least 0"), ("order_scale", "positive")):
            value = getattr(self, name)
            fine = isinstance(value, numbers.Real) and (
                value > 0 or (value == 0 and name == "alpha")
            )
            if not (isinstance(value, str) and value == "auto") and not fine:
                raise ValueError(f"{name} must be 'auto' or {lowest}, got {value!r}.")
        device.get(self.device)
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be an integer of at least 1, got {self.max_iter!r}.")
        if not isinstance(self.solver, str) or self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {self.solver!r}.")
        if not isinstance(self.init, TTTensor) and self.init not in INITS:
            raise ValueError(
                f"init must be one of {', '.join(INITS)}, or a TTTensor, got {self.init!r}."
            )

    def _feature_map(self) -> FeatureMap:
        if isinstance(self.features, FeatureMap):
            return clone(self.features)
        if isinstance(self.features, dict):
            return PerColumn(self.features, Auto(self.categorical_features))
        if isinstance(self.features, str) and self.features == "auto":
            return Auto(self.categorical_features)
        raise ValueError(
            "features must be 'auto', a FeatureMap, or a dict of them by column, "
            f"got {self.features!r}."
        )

    def _fit(self, X, y, weights, loss):
        self._check_parameters()
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self.feature_map_ = self._feature_map()
        check_consistent_length(X, y)
        used = np.flatnonzero(weights > 0)
        if len(used) < len(weights):
            X = _safe_indexing(X, used)
        batch = self.feature_map_.fit(X, sample_weight=weights[used]).transform(X)
        self.n_features_in_ = self.feature_map_.n_features_in_
        if hasattr(self.feature_map_, "feature_names_in_"):
            self.feature_names_in_ = self.feature_map_.feature_names_in_
        keys = hash_rows(read_table(X))
        problem = Problem(batch, y[used], weights[used], loss, keys)
        choice = self._choose(problem, rng)
        self.rank_, self.order_scale_ = choice.rank, choice.order_scale
        self.alpha_ = choice.alpha(problem.size)
        W = self._start(problem, choice, rng)
        if choice.is_linear:
            self.history_, self.n_iter_ = [], 1
        else:
            W = self._train(W, problem, choice, rng)
        self.weights_, self.loss_ = W, loss
        self.is_screened_, self.is_linear_ = choice.is_screened, choice.is_linear
        self.feature_map_.set_params(order_scale=self.feature_map_.order_scale * choice.order_scale)
        return self

    def _choose(self, problem, rng) -> selection.Choice:
        """The settings, those that were not given by validation."""
        ranks = RANKS if self.rank == "auto" else (self.rank,)
        scales = selection.ORDER_SCALES if self.order_scale == "auto" else (self.order_scale,)
        given = self.rank != "auto" and self.order_scale != "auto" and self.alpha != "auto"
        if given or self.alpha != "auto":
            s = 1.0 if self.order_scale == "auto" else self.order_scale
            rank = 8 if self.rank == "auto" else self.rank
            penalty = self.alpha * problem.size / s**2
            return selection.Choice(penalty, s, rank, self.max_iter)
        if problem.size < 8:
            s = scales[-1]
            return selection.Choice(1.0 / s**2, s, ranks[0], self.max_iter, is_linear=True)
        max_order = self.max_order if self.rank == "auto" else 0
        search = selection.Selection(
            problem, rng, selection.PENALTIES, scales, ranks, self.max_iter, max_order
        )
        return search.run()

    def _start(self, problem, choice, rng) -> TTTensor:
        d, s = problem.batch.ndim, choice.order_scale
        if isinstance(self.init, TTTensor):
            return initialize.padded(self.init, choice.rank, selection.PADDING, rng)
        if self.init in ("auto", "linear"):
            linear = problem.linear(choice.penalty / problem.size)
            if choice.is_linear:
                return rescaled(linear, s, d)
            screened = (
                selection.screen(problem, linear, self.max_order) if choice.is_screened else None
            )
            if screened is not None:
                return rescaled(screened, s, d)
            return selection.start(linear, choice, d, rng)
        batch = problem.features(s)
        if self.init == "random_linear":
            return initialize.padded(
                initialize.random_linear(batch, 0.1, rng), choice.rank, selection.PADDING, rng
            )
        return initialize.gaussian(batch.shape, choice.rank, 0.1, rng)

    def _train(self, W, problem, choice, rng):
        s, train, metric = choice.order_scale, problem, None
        if self.early_stopping:
            held = rng.random(len(problem)) < self.validation_fraction
            train, validation = problem.take(~held), problem.take(held)

            def metric(W):
                return validation.score(W, s)

        by_validation = choice.score < np.inf
        solver = SOLVERS[self.solver]
        trainer = Trainer(
            Sweeps(solver.sites, choice.rank, solver.eps, dtype=selection.precision(train)),
            max_iter=choice.n_iter if by_validation else self.max_iter,
            tol=0.0 if by_validation else self.tol,
            n_iter_no_change=max(self.n_iter_no_change, choice.n_iter if by_validation else 0),
            verbose=bool(self.verbose),
            random_state=rng,
        )
        if choice.n_iter:
            W = trainer.run(W, train.features(s), train.objective(self.alpha_), metric)
        self.history_, self.n_iter_ = trainer.history, max(1, len(trainer.history))
        return W

    # -- prediction -----------------------------------------------------------------------------

    def _raw(self, X):
        """<W, X> for each row, and each output if there are several."""
        check_is_fitted(self)
        batch = self.feature_map_.transform(X)
        if self.weights_.ndim == batch.ndim:
            return self.weights_.contract(batch)
        n_outputs = self.weights_.shape[-1]
        return np.stack([self.weights_[..., j].contract(batch) for j in range(n_outputs)], axis=1)


class ExMClassifier(ClassifierMixin, _ExM):
    """Exponential Machine for classes: a model of all interactions between the columns.

    Parameters
    ----------
    rank : int or "auto"
        TT-rank of the weight tensor: how many different interactions it can hold.
    alpha : float or "auto"
        Weight of the penalty ``alpha/2 |W|^2`` next to the mean loss (lambda / N of the paper).
        Where it is given, nothing is searched for: "auto" then is rank 8 and order scale 1.
    order_scale : float or "auto"
        s: interactions of order j are penalised by ``alpha s^(-2 j)``.
    features : "auto", FeatureMap or dict of column to FeatureMap
    categorical_features : "from_dtype", None, or array-like
        See `ttexm.features.Auto`.
    solver : {"auto", "sweeps", "two_site"}
    loss : {"auto", "logistic", "hinge", "squared_hinge"} or Loss
        For two classes; several have the softmax loss.
    max_iter : int
    tol : float
    max_order : int
        Highest order of the products that are looked for one by one (see `solvers.screening`);
        0 for none.
    early_stopping : bool
        Whether to stop by the loss on a part of the rows that is held out.
    validation_fraction : float
    n_iter_no_change : int
    init : {"auto", "linear", "random_linear", "gaussian"} or TTTensor
    class_weight : dict, "balanced" or None
    random_state : int, RandomState or None
    verbose : int
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
        max_iter=20,
        tol=1e-4,
        max_order=6,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        init="auto",
        class_weight=None,
        random_state=None,
        verbose=0,
        device="cpu",
    ):
        super().__init__(
            rank, alpha=alpha, order_scale=order_scale, features=features,
            categorical_features=categorical_features, solver=solver, loss=loss,
            max_iter=max_iter, tol=tol, max_order=max_order, early_stopping=early_stopping,
            validation_fraction=validation_fraction, n_iter_no_change=n_iter_no_change, init=init,
            random_state=random_state, verbose=verbose, device=device,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None):
        """Train on rows X with labels y of any type."""
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        weights = _weights(sample_weight, X, len(y))
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes, got one class only: {self.classes_[0]!r}."
            )
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, y)
        if len(self.classes_) == 2:
            loss = losses.get("logistic" if _is_auto(self.loss) else self.loss)
            return self._fit(X, 2.0 * codes - 1, weights, loss)
        loss = losses.get("softmax" if _is_auto(self.loss) else self.loss)
        return self._fit(X, np.eye(len(self.classes_))[codes], weights, loss)

    def decision_function(self, X):
        """Return the raw predictions: of the second class, or of each of several."""
        return self._raw(X)

    def predict(self, X):
        """Return the most probable class of each row."""
        f = self._raw(X)
        return self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)]

    def predict_proba(self, X):
        """Return the probability of each class."""
        f = self._raw(X)
        p = self.loss_.predict(f)
        return np.stack([1 - p, p], axis=1) if p.ndim == 1 else p


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

    def fit(self, X, y, sample_weight=None):
        """Train on rows X with targets y, (m,) or (m, n_targets)."""
        y = np.asarray(_check_y(y, multi_output=True, y_numeric=True), np.float64)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        weights = _weights(sample_weight, X, len(y))
        loss = losses.get("squared" if _is_auto(self.loss) else self.loss)
        loss.check(y)
        if isinstance(loss, losses.Poisson):
            self.center_, self.spread_ = 0.0, 1.0
        else:
            self.center_ = np.average(y, axis=0, weights=weights)
            spread = np.sqrt(np.average((y - self.center_) ** 2, axis=0, weights=weights))
            self.spread_ = np.where(spread > 0, spread, 1.0)
        return self._fit(X, (y - self.center_) / self.spread_, weights, loss)

    def predict(self, X):
        """Return the predicted target of each row."""
        f = self._raw(X)
        return self.loss_.predict(f) * self.spread_ + self.center_


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
