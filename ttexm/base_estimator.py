"""What both estimators share: parameters, fits that succeed or change nothing, predictions."""

import numbers
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from .data.rows import merge, row_keys
from .data.table import Table, TableLike, read_table
from .explain.methods import Readable
from .features import Auto, FeatureMap, PerColumn
from .kernels import backend
from .kernels.blas import single_threaded_blas
from .learn import fitting
from .learn.data import Data
from .learn.fitting import INITS, FitOptions, Fitted
from .learn.losses import Loss
from .learn.solvers import registry
from .learn.solvers.base import Solver
from .learn.targets import read_eval_set
from .model import Model
from .tt.tensor import TTTensor

LARGEST_ALPHA, LARGEST_SCALE = 1e100, 1e6


@dataclass(frozen=True, eq=False)
class Target:
    """Encoded targets, and the way from targets to encoded ones and from predictions back.

    Parameters
    ----------
    y : array
        Targets as the loss takes them.
    loss : Loss
    encode : callable
        Encodes targets; its second argument is their name in error messages.
    center, spread : float or arrays (n_outputs,)
        Units of the target, see `Model`.
    """

    y: np.ndarray
    loss: Loss
    encode: Callable[[np.ndarray, str], np.ndarray]
    center: float | np.ndarray = 0.0
    spread: float | np.ndarray = 1.0


@dataclass(eq=False, repr=False)
class ExponentialMachine(Readable, ABC, BaseEstimator):
    """Base of the estimators: parameters, and what does not depend on the kind of the target."""

    rank: int | str = "auto"
    _: KW_ONLY
    alpha: float | str = "auto"
    order_scale: float | str = "auto"
    features: str | FeatureMap | dict = "auto"
    categorical_features: Any = "from_dtype"
    solver: str | Solver = "auto"
    loss: str | Loss = "auto"
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
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0
    device: str | None = field(default="cpu")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # -- parameters -----------------------------------------------------------------------------

    def _check_parameters(self):
        check = self._check_parameter
        check("rank", _is_count, "'auto' or an integer of at least 1", or_auto=True)
        check("alpha", lambda x: _is_number(x) and x >= 0, "'auto' or at least 0", or_auto=True)
        most = f"'auto' or at most {LARGEST_ALPHA:g}"
        check("alpha", lambda x: x <= LARGEST_ALPHA, most, or_auto=True)
        check("order_scale", lambda x: _is_number(x) and x > 0, "'auto' or positive", or_auto=True)
        check(
            "order_scale",
            lambda x: 1 <= x * LARGEST_SCALE <= LARGEST_SCALE**2,
            f"'auto' or between {1 / LARGEST_SCALE:g} and {LARGEST_SCALE:g}",
            or_auto=True,
        )
        check("max_iter", _is_count, "an integer of at least 1")
        check("tol", lambda x: _is_real(x) and x >= 0, "at least 0")
        check(
            "batch_size",
            lambda x: x is None or _is_count(x),
            "'auto', an integer of at least 1, or None for all samples",
            or_auto=True,
        )
        check("learning_rate", lambda x: _is_real(x) and x > 0, "'auto' or positive", or_auto=True)
        check("max_order", lambda x: _is_count(x) or x == 0, "an integer of at least 0")
        check("validation_fraction", lambda x: _is_real(x) and 0 < x < 1, "in (0, 1)")
        check("n_iter_no_change", _is_count, "an integer of at least 1")
        check(
            "time_limit",
            lambda x: x is None or (_is_real(x) and x > 0),
            "a positive number of seconds, or None for no limit",
        )
        for name in ("early_stopping", "warm_start"):
            check(name, lambda x: isinstance(x, (bool, np.bool_)), "True or False")
        registry.check(self.solver)
        backend.resolve(self.device)
        if not isinstance(self.init, TTTensor) and self.init not in INITS:
            raise ValueError(
                f"init must be one of {', '.join(INITS)}, or a TTTensor, got {self.init!r}."
            )

    def _check_parameter(self, name: str, is_fine: Callable, wanted: str, or_auto: bool = False):
        value = getattr(self, name)
        if not (or_auto and is_auto(value)) and not is_fine(value):
            raise ValueError(f"{name} must be {wanted}, got {value!r}.")

    def _options(self) -> FitOptions:
        given = {
            name: None if is_auto(getattr(self, name)) else getattr(self, name)
            for name in ("rank", "alpha", "order_scale")
        }
        return FitOptions(
            **given, solver=self.solver, max_iter=self.max_iter, tol=self.tol,
            batch_size=self.batch_size, learning_rate=self.learning_rate, max_order=self.max_order,
            early_stopping=self.early_stopping, validation_fraction=self.validation_fraction,
            n_iter_no_change=self.n_iter_no_change, init=self.init, time_limit=self.time_limit,
            verbose=bool(self.verbose),
        )  # fmt: skip

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

    # -- fits -----------------------------------------------------------------------------------

    @property
    def _goes_on(self) -> bool:
        """Whether `fit` goes on from the last fit."""
        return self.warm_start and hasattr(self, "model_")

    def _transact(self, method: str, *arguments, anew: bool):
        """Call a method of a copy of this estimator, and take over all that it has learned.

        If that fails or is interrupted, this estimator stays as it was. With `anew`, the copy
        starts without what was learned before.
        """
        trial = object.__new__(type(self))
        vars(trial).update(vars(self))
        if anew:
            for name in [name for name in vars(trial) if name.endswith("_")]:
                delattr(trial, name)
        getattr(trial, method)(*arguments)
        self.__dict__ = vars(trial)  # one assignment: Ctrl-C comes before or after it
        return self

    @abstractmethod
    def _read_targets(self, y) -> np.ndarray:
        """Return targets as an array, checked."""

    def _read(self, X, reset: bool = False) -> Table:
        table = read_table(X)
        if table is X:  # it was read, and checked, before
            return table
        validate_data(self, X, reset=reset, skip_check_array=True)
        return table

    def _read_rows(self, X, y, reset: bool) -> Table:
        """Read the table X, and check that it has as many rows as there are targets."""
        table = read_table(X)
        check_consistent_length(table, y)
        if len(y) == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        validate_data(self, X, reset=reset, skip_check_array=True)
        return table

    @single_threaded_blas()
    def _fit(self, X, table: Table, target: "Target", weights, eval_set=None):
        """Train on the rows of a table, for `fit` and the first call of `partial_fit`."""
        self.device_ = backend.resolve(self.device)
        is_first, rng, options = not hasattr(self, "model_"), self._rng(), self._options()
        y, used = target.y, np.flatnonzero(weights)
        if len(used) < len(weights):
            table, y, weights = table[used], y[used], weights[used]
        # The fit depends on the distinct rows and their shares alone: not on the order of the rows,
        # nor on the units of weights and columns, nor on whether a row is repeated or weighs more.
        found = row_keys(table, weights, y)
        chosen, counts = merge(found.keys, y, weights)
        y, keys = y[chosen], found.keys[chosen]
        if is_first:
            self.feature_map_ = self._feature_map()
            validate_data(self.feature_map_, X, reset=True, skip_check_array=True)
        batch = self._learn_columns(table, weights, chosen, counts, is_first)
        held_out = None if eval_set is None else self._held_out(*read_eval_set(eval_set), target)
        data = Data(batch, y, counts, target.loss, keys, found.n_values, self.device_)
        if is_first:
            fitted = fitting.fit(data, options, rng, held_out)
        else:
            fitted = fitting.refit(data, options, rng, self._fitted(), held_out)
        self._take_over(fitted, target)
        self.model_ = self.model_.trained_on(data.batch, data.weights)
        self.n_iter_ = max(1, len(self.history_))

    def _learn_columns(self, table, weights, chosen, counts, is_first):
        """Return the features of the chosen rows; the feature map is fitted to them first."""

        def encode(table, weights):
            if is_first:
                self.feature_map_.fit_table(table, weights)
            return self._encode_rows(table)

        try:
            return encode(table[chosen], counts)
        except ValueError:
            encode(table, weights)  # whose message names a row of this table
            raise

    def _held_out(self, X, y, target):
        y = target.encode(self._read_targets(y), "y of eval_set")
        batch = self._encode_rows(self._read_rows(X, y, reset=False))
        return Data(batch, y, np.ones(len(y)), target.loss, device=self.device_)

    def _encode_rows(self, table):
        columns = self.feature_map_.columns_
        columns.check(table)
        return columns.encode(table, "cpu")

    def _fitted(self) -> Fitted:
        return Fitted(
            self.model_.weights, self.selected_, self.averaged_, self.search_results_, self.history_
        )

    def _take_over(self, fitted: Fitted, target: "Target"):
        columns = self.feature_map_.columns_
        self.model_ = Model(columns, fitted.weights, target.loss, target.center, target.spread)
        self.selected_, self.averaged_ = fitted.selected, fitted.averaged
        self.search_results_ = fitted.tried
        self.history_ = fitted.history

    @single_threaded_blas()
    def _partial_fit(self, X, table: Table, target: "Target", weights):
        """Take one more pass of descent through these rows; the first call is a fit."""
        options, y, loss = self._options(), target.y, target.loss
        if not hasattr(self, "model_"):
            self._fit(X, table, target, weights)
            before = self.model_
            data = self._more_data(table, y, weights, loss, slice(0, 1))
            fitted = fitting.widen(data, options, self._rng(), self._fitted())
            self._take_over(fitted, target)
            self.model_ = self.model_.with_training(before.training)
        else:
            self.device_ = backend.resolve(self.device)
            before, used = self.model_, np.flatnonzero(weights)
            data = self._more_data(table, y, weights, loss, used)
            fitted = fitting.update(data, options, self._rng(), self._fitted())
            self.n_iter_ += 1
            self._take_over(fitted, target)
            self.model_ = self.model_.trained_on(data.batch, data.weights, before.training)

    def _more_data(self, table, y, weights, loss, chosen) -> Data:
        batch = self._encode_rows(table[chosen])
        return Data(batch, y[chosen], weights[chosen], loss, device=self.device_)

    def report(self, path: str | os.PathLike, X: TableLike, y: ArrayLike) -> None:
        """Write a page about the model: one HTML file with pictures, which needs no network.

        It says what the model is, how good it is on the given rows, which terms are strongest, with
        their proof, and shows curves, pairs, orders and some single rows.

        Parameters
        ----------
        path : str or path
        X : table
            Rows that the model was not trained on.
        y : array (m,)
        """
        check_is_fitted(self)
        from .report import write_report  # matplotlib, an extra, is loaded only here

        y = self._read_targets(y)
        write_report(self, path, self._read_rows(X, y, reset=False), y)

    # -- predictions and weights ----------------------------------------------------------------

    def _raw(self, X) -> np.ndarray:
        """Return ``<W, X>`` for each row, and each output if there are several."""
        if not hasattr(self, "model_"):
            check_is_fitted(self)  # raises; it is slow for a single row
        # Not device_: the model may be loaded on a machine without that device.
        return self.model_.raw(self._read(X), self.device)

    def coefficient(self, *names: str) -> float | np.ndarray:
        """Return the weight of a product of columns, in the units of the data.

        The raw prediction is a sum over all products, each with one weight; standardisation, the
        order scale and the units of the target are undone. For a numeric column, the weight of a
        product depends on where the other columns are zero, as in any polynomial.

        Parameters
        ----------
        *names : str
            One function of each column in the product, by the name of its slot: ``"dose"`` for a
            number, ``"drug=B"`` for a level, ``"age^2"`` for one of several functions. Without any
            name, the constant is returned. ``feature_map_.slot_names_`` lists all names.

        Returns
        -------
        float, or array (n_outputs,)
            What the product adds to the raw prediction: in units of y for the squared loss, to the
            log-odds of ``classes_[1]`` for the logistic one, to the logarithm of the rate for the
            Poisson loss. With several classes or targets, one number for each.

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm import ExMRegressor
        >>> X = np.random.default_rng(0).uniform(5, 9, (500, 3))
        >>> model = ExMRegressor(random_state=0).fit(X, 2 * X[:, 0] * X[:, 1] - X[:, 2])
        >>> print(f"{model.coefficient('x0', 'x1'):.2f} {model.coefficient('x2'):.2f}")
        2.00 -1.00
        """
        check_is_fitted(self)
        return self.model_.coefficient(*names)

    def coefficients(self) -> TTTensor:
        """Return the weights of all products at once, see `coefficient`.

        Returns
        -------
        TTTensor
            Entry ``[i_1, .., i_d]`` is the weight of the product that
            ``feature_map_.name((i_1, .., i_d))`` names; with several classes or targets there is
            one more mode, the last, for them.
        """
        check_is_fitted(self)
        return self.model_.coefficients()

    @property
    def weights_(self) -> TTTensor:
        """The weight tensor, for the batches of `feature_map_`; the last mode is for outputs."""
        return self.model_.weights

    @property
    def loss_(self) -> Loss:
        """The loss that was minimised."""
        return self.model_.loss

    @property
    def rank_(self) -> int:
        """The rank of the weights. (Kept for now: use ``weights_.rank``.)"""
        return self.model_.weights.rank

    @property
    def alpha_(self) -> float:
        """The penalty. (Kept for now: use ``selected_.alpha``.)"""
        return self.selected_.alpha

    @property
    def order_scale_(self) -> float:
        """The order scale. (Kept for now: use ``selected_.order_scale``.)"""
        return self.selected_.order_scale

    @property
    def is_linear_(self) -> bool:
        """Whether it is the linear model. (Kept for now: use ``selected_.is_linear``.)"""
        return self.selected_.is_linear

    @property
    def is_screened_(self) -> bool:
        """Whether products were screened. (Kept for now: use ``selected_.is_screened``.)"""
        return self.selected_.is_screened


def is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def _is_real(value) -> bool:
    return _is_number(value) and np.isfinite(value)


def _is_count(value) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= 1
