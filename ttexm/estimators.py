"""ExMClassifier and ExMRegressor: Exponential Machines for users of scikit-learn."""

import numbers
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from .base_estimator import ExponentialMachine, Target, is_auto
from .data.table import TableLike
from .kernels import host
from .learn import losses
from .learn.targets import (
    check_classes,
    encode_labels,
    encode_numbers,
    learn_units,
    read_labels,
    read_numbers,
    read_weights,
    weigh_classes,
)


def _has_probabilities(estimator):
    loss = estimator.loss
    if isinstance(loss, str):  # `fit` refuses what is no name of a loss
        return loss not in losses.LOSSES or losses.LOSSES[loss].has_probabilities
    return getattr(loss, "has_probabilities", False)


@dataclass(eq=False, repr=False)
class ExMClassifier(ClassifierMixin, ExponentialMachine):
    """Exponential Machine for classes: a model of all interactions between the columns.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        TT-rank of the weight tensor: how many different interactions it can hold. "auto" chooses
        rank, alpha and order_scale by validation within the training rows. If all three are
        "auto", models that are about equally good are averaged, as one tensor.
    alpha : float or "auto", default="auto"
        Weight of the penalty ``alpha/2 |W|^2`` next to the mean loss (lambda / N in the paper): the
        larger, the closer to a constant model.
    order_scale : float or "auto", default="auto"
        Interactions of order j are penalised by ``alpha order_scale^(-2 j)``: the smaller, the
        closer to a linear model.
    features : "auto", FeatureMap or dict of column to FeatureMap, default="auto"
        How columns become feature vectors: "auto" gives numbers smooth curves and each level
        of a category a weight, see `ttexm.features.Auto`; a dict names the maps of some columns.
    categorical_features : "from_dtype", None, or array-like, default="from_dtype"
        Which columns are categories: those of strings and of the data frame's categorical types,
        none, or those of a mask, or a list of positions or names.
    solver : str or Solver, default="auto"
        How the weights are trained. "auto" and "sweeps" solve for one core at a time, "two_site"
        for two, which adapts the ranks; "boosting" adds what two-site sweeps find in the residual;
        "riemannian" is the paper's algorithm, with the variants "riemannian_momentum",
        "riemannian_svrg", "riemannian_cg" and "riemannian_adaptive" (a two-site sweep every few
        iterations); "cores" and "cores_adam" are gradient descent on the cores.
    loss : {"auto", "logistic", "hinge", "squared_hinge", "softmax"} or Loss, default="auto"
        What is minimised: "auto" is logistic for two classes and softmax for more. A loss of signs
        takes each of more than two classes against the rest. A loss of your own declares "signs" or
        "one_hot" as its targets, see `ttexm.losses.Loss`.
    max_iter : int, default=100
        Most passes through the rows, or sweeps over the cores.
    tol : float, default=1e-4
        Relative improvement of the objective per iteration that counts as one.
    batch_size : int, None or "auto", default="auto"
        Rows of a mini-batch, for solvers that have them: None takes all rows, "auto" takes 200, or
        an eighth of the rows if that is less.
    learning_rate : float or "auto", default="auto"
        Length of a step in gradients, for the same solvers; "auto" follows the curvature.
    max_order : int, default=6
        Highest order of the products that are screened one by one; an odd one counts as the even
        one below, and 0 turns screening off. If there are too many products, those of a lower
        order are screened; above 6 there may be ten times as many.
    early_stopping : bool, default=False
        Whether to hold out a part of the rows, and to stop when the loss there no longer falls. (An
        `eval_set` in `fit` does the same with rows of your own.)
    validation_fraction : float, default=0.1
        The part of the rows that is held out.
    n_iter_no_change : int, default=5
        Iterations without improvement after which training stops.
    init : str or TTTensor, default="auto"
        Where training starts: "linear" at the linear model, "screened" with the products that
        screening finds added to it, "auto" at the better of both by validation, "random_linear" and
        "gaussian" at random; a tensor is taken as `weights_` of an earlier fit.
    time_limit : float or None, default=None
        Seconds after which the search for settings stops with the best ones so far; the first model
        is always fitted, and training with the settings comes on top. This is the one parameter
        that makes a result depend on the machine, and on what else it does. By default there is no
        limit.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit, with its columns, levels and settings.
    random_state : int, RandomState or None, default=None
        Seed of everything random; the same one gives the same bits.
    verbose : int, default=0
        Above 0, progress bars are shown (needs tqdm).
    device : {"cpu", "cuda", "auto"} or None, default="cpu"
        Where to train and to predict. "auto" is "cuda" if there is a GPU that can be used, else
        "cpu"; None is what the environment variable ``TTEXM_DEVICE`` says, else "cpu". A model that
        was fitted on a GPU predicts elsewhere after ``set_params(device="cpu")``.
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of rows, by class; "balanced" gives all classes the same total.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    model_ : Model
        Columns, weights, loss and units: all that predictions need.
    weights_ : TTTensor
        The weight tensor for the batches that `feature_map_` makes; with more than two classes, the
        last mode is for them.
    feature_map_ : FeatureMap
        The fitted columns, with the names of their slots in ``slot_names_``.
    selected_ : Selected
        The settings of the fit; if several models are averaged, those of the one with the largest
        weight. They are ``basis`` (which functions of numbers it uses), ``rank``, ``alpha``,
        ``order_scale``, ``n_iter``, ``is_linear``, ``is_additive`` (whether it has no
        interactions), ``is_screened`` (whether training started from screened products), ``weight``
        (its share of the average), and the validation ``loss`` with that of each fold, ``losses``;
        NaN and none if nothing was validated.
    averaged_ : list of Selected
        The settings of all models whose average is the fitted one, from the largest ``weight`` to
        the smallest; the weights sum to 1. One model alone is a list of one.
    search_results_ : list of Selected
        All settings that were validated, in the order of the search: ``pandas.DataFrame`` makes a
        table of it. Some are tried on fewer folds than others, and have as many ``losses``. Empty
        if nothing was searched.
    loss_ : Loss
    n_iter_ : int
        Iterations of the training; of the first model with interactions, if several are averaged.
    history_ : list of Record
        Loss, rank and gradient norm after each of them.
    device_ : {"cpu", "cuda"}
        Where it was fitted.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    rank_, alpha_, order_scale_, is_linear_, is_screened_
        Older names for what is in `selected_` and `weights_`, kept for now.

    See Also
    --------
    ExMRegressor : The same for numbers.

    Notes
    -----
    A fit depends only on the distinct rows (features and target) and their shares of the total
    weight: a common factor of all weights changes nothing, and a weight of 2 does what the same row
    twice does. Where a number of rows enters, as in the penalty, it is the effective number
    ``1 / sum of the squared shares``, which is the number of rows if all differ and have one
    weight. Rows with equal features are not split between training and validation, except for
    copies of a row in a table where the features of most rows occur once.

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

    class_weight: dict | str | None = field(default=None, kw_only=True)

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        eval_set: tuple | None = None,
    ) -> "ExMClassifier":
        """Train on rows X with labels y of any type.

        Parameters
        ----------
        X : array, data frame of pandas or polars, or table of pyarrow
            Missing values are allowed.
        y : array (m,)
        sample_weight : array (m,), optional
            Only shares of the total count: a row of weight 2 does what the same row twice does.
        eval_set : pair (X, y), optional
            Training stops when the loss on these rows no longer falls.

        Notes
        -----
        If it fails, or is interrupted before there is a model, the estimator stays as it was.
        """
        goes_on = self._goes_on
        return self._transact("_train", X, y, sample_weight, eval_set, anew=not goes_on)

    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "ExMClassifier":
        """Train on more rows, once through them.

        The first call is a `fit`: it learns the columns with their levels and scales, and the
        settings. Later calls take one pass of Riemannian descent through their rows.

        Parameters
        ----------
        X : array, data frame of pandas or polars, or table of pyarrow
        y : array (m,)
        classes : array, optional
            All classes there will be; wanted in the first call if its y lacks some.
        sample_weight : array (m,), optional
        """
        return self._transact("_train_more", X, y, classes, sample_weight, anew=False)

    def _train(self, X, y, sample_weight, eval_set):
        self._check_parameters()
        labels = self._read_targets(y)
        table = self._read_rows(X, labels, reset=not self._goes_on)
        if not self._goes_on:
            self.classes_ = np.unique(labels)
        check_classes(self.classes_, "y must have")
        weights = self._weights(sample_weight, labels)
        self._fit(X, table, self._target(labels), weights, eval_set)

    def _train_more(self, X, y, classes, sample_weight):
        self._check_parameters()
        labels, is_first = self._read_targets(y), not hasattr(self, "model_")
        table = self._read_rows(X, labels, reset=is_first)
        if is_first:
            self.classes_ = np.unique(labels if classes is None else classes)
            check_classes(self.classes_, "There must be", "; give all of them as `classes`")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, "
                f"got {classes!r}."
            )
        self._partial_fit(X, table, self._target(labels), self._weights(sample_weight, labels))

    def _read_targets(self, y):
        return read_labels(type(self).__name__, y)

    def _weights(self, sample_weight, labels):
        return weigh_classes(read_weights(sample_weight, len(labels)), self.class_weight, labels)

    def _target(self, labels):
        default = "logistic" if len(self.classes_) == 2 else "softmax"
        loss = losses.get_for("ExMClassifier", default if is_auto(self.loss) else self.loss)
        encode = partial(encode_labels, self.classes_, loss)
        return Target(encode(labels, "y"), loss, encode)

    def output_of(self, target: Hashable) -> int | None:
        """Return the position of a class among the outputs; None for all, or for two classes."""
        if target is None:
            return None
        known = self.classes_.tolist()
        if target not in known:
            raise ValueError(f"target must be one of the classes, {known}, got {target!r}.")
        return known.index(target) if self.model_.has_outputs else None

    def _output_names(self):
        return [str(label) for label in self.classes_] if self.model_.has_outputs else None

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return the raw predictions: of the second class, (m,), or of each of several."""
        f = self._raw(X)
        is_pair = f.ndim == 2 and len(self.classes_) == 2
        return f[:, 1] - f[:, 0] if is_pair else f

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the most probable class of each row."""
        f = self._raw(X)
        return self.classes_[(f > 0).astype(int) if f.ndim == 1 else host.argmax_rows(f)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Return the probability of each class; not for losses that know none, as the hinge."""
        f = self._raw(X)
        p = self.model_.predict(f)
        if p.ndim == 1:
            both = np.empty((len(p), 2))
            both[:, 1] = p
            np.subtract(1, p, out=both[:, 0])
            return both
        # If all probabilities of a row underflow, those of the softmax do not.
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1), softmax(f, axis=1))


@dataclass(eq=False, repr=False)
class ExMRegressor(RegressorMixin, ExponentialMachine):
    """Exponential Machine for numbers, one target or several.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        TT-rank of the weight tensor: how many different interactions it can hold. "auto" chooses
        rank, alpha and order_scale by validation within the training rows. If all three are
        "auto", models that are about equally good are averaged, as one tensor.
    alpha : float or "auto", default="auto"
        Weight of the penalty ``alpha/2 |W|^2`` next to the mean loss (lambda / N in the paper): the
        larger, the closer to a constant model.
    order_scale : float or "auto", default="auto"
        Interactions of order j are penalised by ``alpha order_scale^(-2 j)``: the smaller, the
        closer to a linear model.
    features : "auto", FeatureMap or dict of column to FeatureMap, default="auto"
        How columns become feature vectors: "auto" gives numbers smooth curves and each level
        of a category a weight, see `ttexm.features.Auto`; a dict names the maps of some columns.
    categorical_features : "from_dtype", None, or array-like, default="from_dtype"
        Which columns are categories: those of strings and of the data frame's categorical types,
        none, or those of a mask, or a list of positions or names.
    solver : str or Solver, default="auto"
        How the weights are trained. "auto" and "sweeps" solve for one core at a time, "two_site"
        for two, which adapts the ranks; "boosting" adds what two-site sweeps find in the residual;
        "riemannian" is the paper's algorithm, with the variants "riemannian_momentum",
        "riemannian_svrg", "riemannian_cg" and "riemannian_adaptive" (a two-site sweep every few
        iterations); "cores" and "cores_adam" are gradient descent on the cores.
    loss : {"auto", "squared", "poisson"} or Loss, default="auto"
        What is minimised: "auto" is the squared loss; "poisson" is for counts, of which it predicts
        the rate. A loss of your own declares "numbers" as its targets, see `ttexm.losses.Loss`. If
        the loss allows it, as the squared one does, targets are centred and scaled for training.
    max_iter : int, default=100
        Most passes through the rows, or sweeps over the cores.
    tol : float, default=1e-4
        Relative improvement of the objective per iteration that counts as one.
    batch_size : int, None or "auto", default="auto"
        Rows of a mini-batch, for solvers that have them: None takes all rows, "auto" takes 200, or
        an eighth of the rows if that is less.
    learning_rate : float or "auto", default="auto"
        Length of a step in gradients, for the same solvers; "auto" follows the curvature.
    max_order : int, default=6
        Highest order of the products that are screened one by one; an odd one counts as the even
        one below, and 0 turns screening off. If there are too many products, those of a lower
        order are screened; above 6 there may be ten times as many.
    early_stopping : bool, default=False
        Whether to hold out a part of the rows, and to stop when the loss there no longer falls. (An
        `eval_set` in `fit` does the same with rows of your own.)
    validation_fraction : float, default=0.1
        The part of the rows that is held out.
    n_iter_no_change : int, default=5
        Iterations without improvement after which training stops.
    init : str or TTTensor, default="auto"
        Where training starts: "linear" at the linear model, "screened" with the products that
        screening finds added to it, "auto" at the better of both by validation, "random_linear" and
        "gaussian" at random; a tensor is taken as `weights_` of an earlier fit.
    time_limit : float or None, default=None
        Seconds after which the search for settings stops with the best ones so far; the first model
        is always fitted, and training with the settings comes on top. This is the one parameter
        that makes a result depend on the machine, and on what else it does. By default there is no
        limit.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit, with its columns, levels and settings.
    random_state : int, RandomState or None, default=None
        Seed of everything random; the same one gives the same bits.
    verbose : int, default=0
        Above 0, progress bars are shown (needs tqdm).
    device : {"cpu", "cuda", "auto"} or None, default="cpu"
        Where to train and to predict. "auto" is "cuda" if there is a GPU that can be used, else
        "cpu"; None is what the environment variable ``TTEXM_DEVICE`` says, else "cpu". A model that
        was fitted on a GPU predicts elsewhere after ``set_params(device="cpu")``.

    Attributes
    ----------
    model_ : Model
        Columns, weights, loss and units: all that predictions need.
    weights_ : TTTensor
        The weight tensor for the batches that `feature_map_` makes; with several targets, the last
        mode is for them.
    feature_map_ : FeatureMap
        The fitted columns, with the names of their slots in ``slot_names_``.
    selected_ : Selected
        The settings of the fit; if several models are averaged, those of the one with the largest
        weight. They are ``basis`` (which functions of numbers it uses), ``rank``, ``alpha``,
        ``order_scale``, ``n_iter``, ``is_linear``, ``is_additive`` (whether it has no
        interactions), ``is_screened`` (whether training started from screened products), ``weight``
        (its share of the average), and the validation ``loss`` with that of each fold, ``losses``;
        NaN and none if nothing was validated.
    averaged_ : list of Selected
        The settings of all models whose average is the fitted one, from the largest ``weight`` to
        the smallest; the weights sum to 1. One model alone is a list of one.
    search_results_ : list of Selected
        All settings that were validated, in the order of the search: ``pandas.DataFrame`` makes a
        table of it. Some are tried on fewer folds than others, and have as many ``losses``. Empty
        if nothing was searched.
    loss_ : Loss
    n_iter_ : int
        Iterations of the training; of the first model with interactions, if several are averaged.
    history_ : list of Record
        Loss, rank and gradient norm after each of them.
    device_ : {"cpu", "cuda"}
        Where it was fitted.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    rank_, alpha_, order_scale_, is_linear_, is_screened_
        Older names for what is in `selected_` and `weights_`, kept for now.
    center_, spread_ : float, or arrays (n_targets,)
        Predictions of the squared loss are ``center_ + spread_ <weights_, X>``.

    See Also
    --------
    ExMClassifier : The same for classes.

    Notes
    -----
    A fit depends only on the distinct rows (features and target) and their shares of the total
    weight: a common factor of all weights changes nothing, and a weight of 2 does what the same row
    twice does. Where a number of rows enters, as in the penalty, it is the effective number
    ``1 / sum of the squared shares``, which is the number of rows if all differ and have one
    weight. Rows with equal features are not split between training and validation, except for
    copies of a row in a table where the features of most rows occur once.

    Neither the order of the rows, nor the units of a numeric column (``a x + b``, a not 0), nor the
    units of the target change the predictions, up to rounding.

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

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        eval_set: tuple | None = None,
    ) -> "ExMRegressor":
        """Train on rows X with targets y.

        Parameters
        ----------
        X : array, data frame of pandas or polars, or table of pyarrow
            Missing values are allowed.
        y : array (m,) or (m, n_targets)
        sample_weight : array (m,), optional
            Only shares of the total count: a row of weight 2 does what the same row twice does.
        eval_set : pair (X, y), optional
            Training stops when the loss on these rows no longer falls.

        Notes
        -----
        If it fails, or is interrupted before there is a model, the estimator stays as it was.
        """
        goes_on = self._goes_on
        return self._transact("_train", X, y, sample_weight, eval_set, anew=not goes_on)

    def partial_fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "ExMRegressor":
        """Train on more rows, once through them.

        The first call is a `fit`: it learns the columns with their levels and scales, the units of
        y, and the settings. Later calls take one pass of Riemannian descent through their rows.

        Parameters
        ----------
        X : array, data frame of pandas or polars, or table of pyarrow
        y : array (m,) or (m, n_targets)
        sample_weight : array (m,), optional
        """
        return self._transact("_train_more", X, y, sample_weight, anew=False)

    def _train(self, X, y, sample_weight, eval_set):
        table, target, weights = self._prepare(X, y, sample_weight, anew=not self._goes_on)
        self._fit(X, table, target, weights, eval_set)

    def _train_more(self, X, y, sample_weight):
        anew = not hasattr(self, "model_")
        self._partial_fit(X, *self._prepare(X, y, sample_weight, anew))

    def _prepare(self, X, y, sample_weight, anew):
        """Return table, targets and weights; the units of the targets are learned if `anew`."""
        self._check_parameters()
        loss = losses.get_for("ExMRegressor", "squared" if is_auto(self.loss) else self.loss)
        numbers = self._read_targets(y)
        table = self._read_rows(X, numbers, reset=anew)
        weights = read_weights(sample_weight, len(numbers))
        units = learn_units(numbers, weights, loss) if anew else (self.center_, self.spread_)
        encode = partial(encode_numbers, *units, loss)
        return table, Target(encode(numbers, "y"), loss, encode, *units), weights

    def _read_targets(self, y):
        return read_numbers(type(self).__name__, y)

    @property
    def center_(self) -> float | np.ndarray:
        """What is added to predictions, the mean of y for the squared loss."""
        return self.model_.center

    @property
    def spread_(self) -> float | np.ndarray:
        """What predictions are multiplied by, the deviation of y for the squared loss."""
        return self.model_.spread

    def output_of(self, target: Hashable) -> int | None:
        """Return the position of a target among the outputs; None for all of them."""
        if target is None:
            return None
        n = self.model_.weights.shape[-1] if self.model_.has_outputs else 1
        is_place = isinstance(target, numbers.Integral) and not isinstance(target, bool)
        if not is_place or not 0 <= target < n:
            raise ValueError(f"target must be a position from 0 to {n - 1}, got {target!r}.")
        return int(target) if self.model_.has_outputs else None

    def _output_names(self):
        n = self.model_.weights.shape[-1]
        return [f"target {j}" for j in range(n)] if self.model_.has_outputs else None

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the predicted target of each row."""
        f = self._raw(X)
        return self.model_.predict(f)
