"""ExMClassifier and ExMRegressor: Exponential Machines for users of scikit-learn."""

import contextlib

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    _num_samples,
    check_consistent_length,
    column_or_1d,
)

from . import losses
from .machine import ExponentialMachine, is_auto
from .rows import DIGITS
from .shapes import refuse_masked
from .table import check_table


def _has_probabilities(estimator):
    loss = estimator.loss
    if isinstance(loss, str):  # `fit` refuses what is no name of a loss
        return loss not in losses.LOSSES or losses.LOSSES[loss].has_probabilities
    return getattr(loss, "has_probabilities", False)


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
    loss : {"auto", "logistic", "hinge", "squared_hinge", "softmax"} or Loss
        "auto" is logistic for two classes, softmax for more. A loss of your own has to declare
        "signs" or "one_hot" as its targets, see `ttexm.losses.Loss`; one of signs takes each of
        more than two classes against the rest.
    max_iter : int
        Passes through the rows, or sweeps over the cores.
    tol : float
        Relative improvement that counts as one.
    batch_size : int, None or "auto"
        Rows of a mini-batch, for solvers that have them: None for all rows, "auto" for 200, or an
        eighth of the rows if that is less.
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

    Notes
    -----
    A fit depends on the different rows (features and target) and their shares of the total weight
    alone. All weights may have a common factor, and a weight of 2 does what a row that is there
    twice does. Where a number of rows is wanted, as in the penalty, it is the effective number
    ``1 / sum of the squared shares``, which is the number of rows if all are different and of one
    weight. Rows with equal features are validated with together, never on each other.

    Neither the order of the rows, nor the units of a numeric column (``a x + b``, a not 0), nor the
    names of the classes change the predictions, up to rounding.

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
            Only shares of the total count: a factor makes no difference, and a row of weight 2
            does what the same row twice does. See the notes of the class.
        eval_set : pair (X, y), optional
            Training stops when the loss on these rows no longer improves.

        Notes
        -----
        If it fails, or is interrupted before there is a model, the estimator stays as it was.
        """

        def train(model):
            model._check_parameters()
            labels = model._labels(X, y)
            if not model._goes_on:
                model.classes_ = np.unique(labels)
            _check_classes(model.classes_, "y must have")
            loss, held_out = model._loss(), None
            if eval_set is not None:
                X_val, y_val = _pair(eval_set)
                held_out = X_val, model._encode(model._labels(X_val, y_val), loss, "y of eval_set")
            weights = model._weights(sample_weight, X, labels)
            model._fit(X, model._encode(labels, loss, "y"), weights, loss, held_out)

        return self._transact(train, anew=not self._goes_on)

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

        def train(model):
            model._check_parameters()
            labels = model._labels(X, y)
            if not hasattr(model, "weights_"):
                model.classes_ = np.unique(labels if classes is None else classes)
                hint = "; give all of them as `classes`"
                _check_classes(model.classes_, "There must be", hint)
            elif classes is not None and not np.array_equal(np.unique(classes), model.classes_):
                raise ValueError(
                    f"classes must be those of the first call, {model.classes_.tolist()}, "
                    f"got {classes!r}."
                )
            loss = model._loss()
            weights = model._weights(sample_weight, X, labels)
            model._partial_fit(X, model._encode(labels, loss, "y"), weights, loss)

        return self._transact(train, anew=False)

    def _labels(self, X, y):
        _require(self, y)
        y = column_or_1d(y, warn=True)
        _check_rows(X, y)
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return y

    def _weights(self, sample_weight, X, y):
        weights = _weights(sample_weight, X, len(y))
        if self.class_weight is None:
            return weights
        try:
            given = np.asarray(compute_sample_weight(self.class_weight, y), np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"class_weight must be 'balanced', None, or a dict of class to a number, got "
                f"{self.class_weight!r}."
            ) from None
        strange = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
        if len(strange):
            row = strange[0]
            raise ValueError(
                f"class_weight must be finite and not negative, got {given[row]:g} for class "
                f"{y[row : row + 1].tolist()[0]!r}."
            )
        if not (weights * given).any():
            raise ValueError(
                f"class_weight={self.class_weight!r} leaves no row with a weight above 0."
            )
        return weights * (given / given.max())

    def _check_known(self, y, name):
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"{name} must have classes of {self.classes_.tolist()} only, "
                f"got {strange.tolist()[0]!r}."
            )

    def _loss(self):
        default = "logistic" if len(self.classes_) == 2 else "softmax"
        return losses.get_for("ExMClassifier", default if is_auto(self.loss) else self.loss)

    def _encode(self, y, loss, name):
        """Labels as the loss takes them."""
        self._check_known(y, name)
        codes, n_classes = np.searchsorted(self.classes_, y), len(self.classes_)
        if loss.targets == "one_hot":
            encoded = np.eye(n_classes)[codes]
        elif n_classes == 2:
            encoded = 2.0 * codes - 1
        else:
            encoded = 2 * np.eye(n_classes)[codes] - 1
        losses.check_targets(loss, encoded)
        return encoded

    def decision_function(self, X):
        """Return the raw predictions: of the second class, or of each of several."""
        f = self._raw(X)
        is_pair = f.ndim == 2 and len(self.classes_) == 2
        return f[:, 1] - f[:, 0] if is_pair else f

    def predict(self, X):
        """Return the most probable class of each row."""
        f = self._raw(X)
        return self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Return the probability of each class; not for losses that know none, as the hinge."""
        f = self._raw(X)
        p = self.loss_.predict(f)
        if p.ndim == 1:
            return np.stack([1 - p, p], axis=1)
        # Where no class has a probability that a float can hold, the largest f are the least small.
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1), softmax(f, axis=1))


class ExMRegressor(RegressorMixin, ExponentialMachine):
    """Exponential Machine for numbers, one target or several.

    Parameters and attributes are those of `ExMClassifier`, with the losses "squared" and "poisson",
    or one of your own whose targets are "numbers". If the loss allows it, as the squared one does,
    the targets are centred and scaled for training: predictions are ``center_ + spread_ f`` with
    ``f = <weights_, X>``, or else what the loss makes of f.

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
            Only shares of the total count: a factor makes no difference, and a row of weight 2
            does what the same row twice does. See the notes of `ExMClassifier`.
        eval_set : pair (X, y), optional
            Training stops when the loss on these rows no longer improves.

        Notes
        -----
        If it fails, or is interrupted before there is a model, the estimator stays as it was.
        """

        def train(model):
            model._check_parameters()
            loss, targets = model._loss(), model._targets(X, y)
            weights, held_out = _weights(sample_weight, X, len(targets)), None
            if not model._goes_on:
                model._learn_units(targets, weights, loss)
            if eval_set is not None:
                X_val, y_val = _pair(eval_set)
                held_out = X_val, model._encode(model._targets(X_val, y_val), loss, "y of eval_set")
            model._fit(X, model._encode(targets, loss, "y"), weights, loss, held_out)

        return self._transact(train, anew=not self._goes_on)

    def partial_fit(self, X, y, sample_weight=None):
        """Train on more rows, once through them.

        The first call is a `fit`: it learns the columns with their levels and scales, the units of
        y, and the settings. Later calls take one pass of Riemannian descent through their rows.
        """

        def train(model):
            model._check_parameters()
            loss, targets = model._loss(), model._targets(X, y)
            weights = _weights(sample_weight, X, len(targets))
            if not hasattr(model, "weights_"):
                model._learn_units(targets, weights, loss)
            model._partial_fit(X, model._encode(targets, loss, "y"), weights, loss)

        return self._transact(train, anew=False)

    def _loss(self):
        return losses.get_for("ExMRegressor", "squared" if is_auto(self.loss) else self.loss)

    def _targets(self, X, y):
        _require(self, y)
        with np.errstate(invalid="ignore"), _named("y"):  # it sums y, which may be inf - inf
            y = np.asarray(_check_y(y, multi_output=True, y_numeric=True), np.float64)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        _check_rows(X, y)
        return y

    def _learn_units(self, y, weights, loss):
        self.center_, self.spread_ = np.zeros(y.shape[1:])[()], np.ones(y.shape[1:])[()]
        if loss.allows_rescaling:
            # By a power of two first: squares of 1e160, and of 1e-170, are no floats.
            power = _exponents(y)
            y = np.ldexp(y, -power)
            center = np.average(y, axis=0, weights=weights)
            spread = np.sqrt(np.average((y - center) ** 2, axis=0, weights=weights))
            # Constant targets have a spread of rounding errors: their size stands in for it.
            size = np.abs(y).max(axis=0)
            spread = np.where(spread > 1e-14 * size, spread, np.where(size > 0, size, 1.0))
            self.center_, self.spread_ = np.ldexp(center, power), np.ldexp(spread, power)

    def _encode(self, y, loss, name):
        """Targets as the loss takes them."""
        shape = np.shape(self.center_)
        if y.shape[1:] != shape:
            raise ValueError(
                f"{name} must have {shape[0] if shape else 1} targets per row, as in the first "
                f"fit, got shape {y.shape}."
            )
        if loss.allows_rescaling:
            power = _exponents(y)
            y = np.ldexp(y, -power) - np.ldexp(self.center_, -power)
            y = y / np.ldexp(self.spread_, -power)
            # What is beyond may be rounding errors, which other units of y have others of.
            y = np.round(y * DIGITS) / DIGITS
        losses.check_targets(loss, y)
        return y

    def predict(self, X):
        """Return the predicted target of each row."""
        f = self._raw(X)
        return self.loss_.predict(f) * self.spread_ + self.center_


def _exponents(y):
    """Of the largest magnitude in each column."""
    return np.frexp(np.abs(y).max(axis=0))[1]


def _check_classes(classes, what, hint=""):
    if len(classes) < 2:
        raise ValueError(f"{what} at least two classes, got one class only: {classes[0]!r}{hint}.")


def _pair(eval_set):
    """Rows and targets of an eval_set; a list of one pair, as other libraries want it, will do."""
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if not isinstance(eval_set, tuple) or len(eval_set) != 2:
        raise ValueError(f"eval_set must be a pair (X, y), got {type(eval_set).__name__}.")
    if _num_samples(eval_set[0]) == 0:
        raise ValueError("eval_set must have at least one row, got none.")
    return eval_set


def _require(estimator, y):
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None")
    refuse_masked(y, "y")


@contextlib.contextmanager
def _named(name):
    """Say which argument an error is about, if it says that of an entry alone."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "convert" not in str(error) and "real number" not in str(error):
            raise
        raise type(error)(f"{name} must hold real numbers: {error}") from None


def _check_rows(X, y):
    check_table(X)
    check_consistent_length(X, y)
    if len(y) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def _weights(sample_weight, X, m):
    if sample_weight is None:
        return np.ones(m)
    refuse_masked(sample_weight, "sample_weight")
    with _named("sample_weight"):
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        row = int(np.argmin(weights))
        raise ValueError(f"sample_weight must not be negative, got {weights[row]} in row {row}.")
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all samples.")
    return weights / weights.max()  # sums of weights of 1e300 are no floats
