"""ExMClassifier and ExMRegressor: Exponential Machines for users of scikit-learn."""

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    column_or_1d,
)

from . import losses
from .machine import ExponentialMachine, is_auto


def _has_probabilities(estimator):
    loss = estimator.loss
    return is_auto(loss) or losses.get(loss).has_probabilities


class ExMClassifier(ClassifierMixin, ExponentialMachine):
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
    device : {"cpu", "cuda", "auto"} or None
        Where to train and to predict. "auto" is "cuda" if there is a GPU that can be used, else
        "cpu"; None is what the environment variable ``TTEXM_DEVICE`` says, else "cpu". The rows are
        copied to a GPU once and stay there during a fit; losses are computed on the host, from one
        number a row. A fitted model is bound to no device: one that was fitted on a GPU predicts
        elsewhere after ``set_params(device="cpu")``.

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
    device_ : {"cpu", "cuda"}
        Where it was fitted.
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
        return losses.get(default if is_auto(self.loss) else self.loss)

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


class ExMRegressor(RegressorMixin, ExponentialMachine):
    """Exponential Machine for numbers, one target or several.

    Parameters and attributes are those of `ExMClassifier`, with the losses "squared" and "poisson".
    The targets are centred and scaled for training, except with the Poisson loss: predictions are
    ``center_ + spread_ <weights_, X>``.

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
        return losses.get("squared" if is_auto(self.loss) else self.loss)

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
