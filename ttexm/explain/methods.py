"""The methods of both estimators that read a fitted model."""

import copy
import numbers
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.table import Table, TableLike
from ..model import Model
from .background import Background
from .compression import compress
from .dependence import partial_dependence
from .effects import Effect, Term, effect_on_grid
from .exchange import to_shap, to_shapiq
from .interactions import TopInteractions, top_terms, top_weights
from .shapley import interaction_values, moebius_values, shap_values
from .shares import VarianceShares, order_spectrum, variance_shares

INDICES = ("k-SII", "STII")


class Readable:
    """Explanations of a fitted estimator, exact for all 2^d terms of its model.

    All of them are about the raw prediction f: the prediction itself for the squared loss, the
    log-odds of ``classes_[1]`` for two classes, the logits for several, of which the mean over the
    classes is subtracted, and the logarithm of the rate for the Poisson loss.
    """

    model_: Model

    @abstractmethod
    def _read(self, X: TableLike, reset: bool = False) -> Table: ...

    @abstractmethod
    def output_of(self, target: Hashable) -> int | None:
        """Return the position of a class or a target among the outputs; None for all of them."""

    @abstractmethod
    def _output_names(self) -> list[str] | None:
        """Return what several outputs are called; None for one."""

    def _checked(self, X):
        """The table X, of columns of the kinds that were fitted."""
        table = self._read(X)
        self.model_.columns.check(table)
        return table

    def _rows(self, X, name="X"):
        """The same, for what is a mean over the rows."""
        table = self._checked(X)
        if len(table) == 0:
            raise ValueError(f"{name} must have at least one row, got none.")
        return table

    # -- variance ------------------------------------------------------------------------------

    def variance_shares(
        self, target: Hashable = None, X: TableLike | None = None
    ) -> VarianceShares:
        """Return how much of the variance of f is due to each column and each order.

        The expectation is over independent columns, each distributed as in training. Columns that
        are correlated have another variance together: compare ``ratio`` with 1.

        Parameters
        ----------
        target : optional
            A class, or the position of a target, if there are several; by default all are summed.
        X : table, optional
            Rows on which to show the shares as well, which correlated columns change.

        Returns
        -------
        VarianceShares
            Sobol indices of first order and total, Shapley effects, shares by order, mean order.
            Printed as a table, or a data frame with ``to_frame``.

        Examples
        --------
        >>> from itertools import product
        >>> import numpy as np
        >>> from ttexm import ExMRegressor
        >>> X = np.array(list(product([-1.0, 1.0], repeat=3)) * 60)
        >>> model = ExMRegressor(random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2])
        >>> model.variance_shares().total.round(2)
        array([0.5, 0.5, 0.5])
        """
        check_is_fitted(self)
        table = None if X is None else self._rows(X)
        return variance_shares(self.model_, self.output_of(target), table)

    def order_spectrum(self, by: str = "variance", target: Hashable = None) -> np.ndarray:
        """Return the shares of all terms of j columns, for j = 0 .. d.

        The variance is that under independent columns, see `variance_shares`.

        Parameters
        ----------
        by : {"variance", "weight"}
            Shares of the variance under independent columns; or of the squared weights of the
            model's own functions, which depend on where these are 0.
        target : optional
            A class, or the position of a target, if there are several; by default all are summed.

        Returns
        -------
        array (d + 1,)
        """
        check_is_fitted(self)
        _check_choice("by", by, ("variance", "weight"))
        return order_spectrum(self.model_, by, self.output_of(target))

    @property
    def feature_importances_(self) -> np.ndarray:
        """Total shares of the variance under independent columns, see `variance_shares`, (d,)."""
        return self.variance_shares().total

    def top_interactions(
        self,
        k: int = 10,
        order: int | tuple[int, int] | None = None,
        by: str = "variance",
        X: TableLike | None = None,
        target: Hashable = None,
    ) -> TopInteractions:
        """Return the k sets of columns that matter most together, single columns included.

        Parameters
        ----------
        k : int
        order : int or (int, int), optional
            The number of columns, or the least and the largest.
        by : {"variance", "weight"}
            "variance" compares terms of the functional decomposition, under independent columns
            that are distributed as in training. "weight" compares the weights of products of the
            model's own functions, each with the names of its functions; these depend on where the
            functions are 0, and on how levels are coded.
        X : table, optional
            Rows on which to show ``Cov(f_S, f) / Var f`` as well, which correlated columns change.
        target : optional
            A class, or the position of a target, if there are several; by default all are summed.

        Returns
        -------
        TopInteractions
            A list of `Interaction`, which says whether it is proved that no other set is stronger.

        Examples
        --------
        >>> from itertools import product
        >>> import numpy as np
        >>> from ttexm import ExMRegressor
        >>> X = np.array(list(product([-1.0, 1.0], repeat=5)) * 16)
        >>> y = X[:, 0] + 2 * X[:, 1] * X[:, 2] * X[:, 4]
        >>> model = ExMRegressor(random_state=0).fit(X, y)
        >>> model.top_interactions(2)
                      order   share  effect
        x1 x x2 x x4      3  0.8000       2
        x0                1  0.2000       1
        proved: no other set is stronger
        variance under independent columns / on the training rows: 1.00
        """
        check_is_fitted(self)
        _check_choice("by", by, ("variance", "weight"))
        if not _is_count(k):
            raise ValueError(f"k must be an integer of at least 1, got {k!r}.")
        orders, output = self._orders(order), self.output_of(target)
        if by == "weight":
            if X is not None:
                raise ValueError("X is for by='variance'; weights have no share on rows.")
            return top_weights(self.model_, k, orders, output)
        table = None if X is None else self._rows(X)
        return top_terms(self.model_, k, orders, output, table)

    def _orders(self, order):
        if order is None:
            return None
        d = len(self.model_.columns)
        both = order if isinstance(order, (tuple, list)) else (order, order)
        is_fine = len(both) == 2 and all(map(_is_count, both)) and both[0] <= both[1] <= d
        if not is_fine:
            raise ValueError(
                f"order must be a number of columns from 1 to {d}, or a pair (least, most), got "
                f"{order!r}."
            )
        return tuple(both)

    # -- effects -------------------------------------------------------------------------------

    def effect(self, *columns: str | int, X: TableLike | None = None) -> Effect | np.ndarray:
        """Return what some columns do together, beyond what fewer of them do.

        This is a term of the functional decomposition of f, under independent columns that are
        distributed as in training: f is the mean and the sum of the effects of all sets of columns,
        each with mean 0. (`coefficient` is the plain weight of a product.)

        Parameters
        ----------
        *columns : str or int
            Names or positions.
        X : table, optional
            Rows on which to evaluate the effect; by default it is shown on a grid.

        Returns
        -------
        Effect, or array (m,) or (m, n_outputs)
            With a grid: ``points``, ``values``, and ``to_frame``.

        Examples
        --------
        >>> from itertools import product
        >>> import numpy as np
        >>> from ttexm import ExMRegressor
        >>> X = np.array(list(product([-1.0, 1.0], repeat=3)) * 60)
        >>> model = ExMRegressor(random_state=0).fit(X, 5 + X[:, 0] * X[:, 1])
        >>> model.effect("x0", "x1", X=[[1.0, 1.0, -1.0], [1.0, -1.0, 1.0]]).round(2)
        array([ 1., -1.])
        """
        check_is_fitted(self)
        places = self._places(columns)
        if X is not None:
            return Term(self.model_, sorted(places)).on_rows(self._checked(X))
        return effect_on_grid(self.model_, places)

    def partial_dependence(
        self,
        columns: str | int | Sequence,
        X: TableLike | None = None,
        grid: Sequence | None = None,
    ) -> Effect:
        """Return the mean of f over rows, with the values of one column or two replaced.

        scikit-learn's ``inspection.partial_dependence`` of ``decision_function``, or of the
        prediction of the squared loss, but exact at the cost of few predictions.

        Parameters
        ----------
        columns : str, int, or a pair of them
        X : table, optional
            The rows. By default, columns are independent and distributed as in training, which is
            the mean of f and the effects of these columns.
        grid : array, or a pair of arrays, optional
            Values of each column; by default as for `effect`.
        """
        check_is_fitted(self)
        is_one = isinstance(columns, (str, numbers.Integral))
        places = self._places([columns] if is_one else columns)
        if len(places) > 2:
            raise ValueError(f"columns must be one column or two, got {columns!r}.")
        grids = None if grid is None else [grid] if is_one else list(grid)
        table = None if X is None else self._rows(X)
        return partial_dependence(self.model_, places, table, grids)

    def _places(self, columns):
        places = [self.model_.place(column) for column in columns]
        if not places:
            raise ValueError("Name at least one column.")
        if len(set(places)) < len(places):
            raise ValueError(f"Each column may be named once, got {list(columns)!r}.")
        return places

    # -- single predictions --------------------------------------------------------------------

    def shap_values(
        self, X: TableLike, background: TableLike | Background | None = None
    ) -> np.ndarray:
        """Return the exact Shapley values of predictions f.

        The values of a row sum to f minus the base value, see `shap_base`.

        Parameters
        ----------
        X : table
        background : table or Background, optional
            What stands for the columns that are not in a set. By default, columns are independent
            and distributed as in training; correlations between them are ignored. With rows, it is
            the mean over these, shap's interventional game; the cost grows with the number of
            different ones. ``ttexm.explain.summarize(X, k)`` gives k clusters instead.

        Returns
        -------
        array (m, d) or (m, d, n_outputs)

        Examples
        --------
        >>> from itertools import product
        >>> import numpy as np
        >>> from ttexm import ExMRegressor
        >>> X = np.array(list(product([-1.0, 1.0], repeat=3)) * 60)
        >>> model = ExMRegressor(random_state=0).fit(X, 5 + 2 * X[:, 0] * X[:, 1])
        >>> model.shap_values([[1.0, 1.0, -1.0]], background=[[-1.0, 1.0, 1.0]]).round(2)
        array([[4., 0., 0.]])
        """
        return self._without_outputs(shap_values(*self._game(X, background))[0])

    def shap_base(self, background: TableLike | Background | None = None) -> float | np.ndarray:
        """Return the base value of Shapley values: the mean of f over the background."""
        check_is_fitted(self)
        d = len(self.model_.columns)
        nobody = Table(0, matrix=np.zeros((0, d)))
        base = shap_values(self.model_, nobody, self._background(background))[1]
        return base if self.model_.has_outputs else float(base[0])

    def shap_interaction_values(
        self,
        X: TableLike,
        order: int = 2,
        index: str = "k-SII",
        background: TableLike | Background | None = None,
    ) -> np.ndarray:
        """Return exact interactions of pairs of columns, for predictions f.

        Parameters
        ----------
        X : table
        order : {2}
            The largest sets that are told apart; what larger ones do is divided among these.
        index : {"k-SII", "STII"}
            "k-SII": the Shapley interaction index of pairs; the diagonal has what is left of the
            Shapley values, which are the sums of the rows of the matrix. "STII": that of Shapley
            and Taylor, where the diagonal has the effect of the column alone.
        background : table or Background, optional
            As of `shap_values`.

        Returns
        -------
        array (m, d, d) or (m, d, d, n_outputs)
            Symmetric; half of each pair's index is at each of its two places, as in shap. All
            entries of a row sum to f minus the base value.
        """
        _check_choice("index", index, INDICES)
        if order != 2:
            raise ValueError(f"order must be 2, got {order!r}; see `effect` for larger sets.")
        model, table, given = self._game(X, background)
        found = interaction_values(model, table, index == "STII", given)
        return self._without_outputs(found)

    def shap_explanation(
        self, X: TableLike, background: TableLike | Background | None = None
    ) -> Any:
        """Return Shapley values as a ``shap.Explanation``, for the plots of shap.

        Parameters as of `shap_values`; needs the package shap.
        """
        model, table, given = self._game(X, background)
        values, base = shap_values(model, table, given)
        return to_shap(self._without_outputs(values), base, table, self._output_names())

    def shapiq_values(
        self,
        X: TableLike,
        index: str = "k-SII",
        background: TableLike | Background | None = None,
        target: Hashable = None,
    ) -> list:
        """Return interactions as ``shapiq.InteractionValues``, one for each row, for its plots.

        Parameters as of `shap_interaction_values`, and a `target`, a class or the position of a
        target, which is wanted if there are several; needs the package shapiq.
        """
        _check_choice("index", index, INDICES)
        model, table, given = self._game(X, background)
        output = self.output_of(target)
        if output is None and model.has_outputs:
            raise ValueError("target must name one of the outputs, as shapiq shows one at a time.")
        values = interaction_values(model, table, index == "STII", given, output)
        base = shap_values(model, table[:1], given, output)[1]
        return to_shapiq(values[..., 0], float(base[0]), index)

    def moebius_values(
        self,
        X: TableLike,
        sets: Sequence[Sequence[str | int]],
        background: TableLike | Background | None = None,
    ) -> np.ndarray:
        """Return what sets of columns do beyond their subsets (Moebius terms), for predictions f.

        Parameters
        ----------
        X : table
        sets : sequence of sequences of names or positions
        background : table or Background, optional
            As of `shap_values`; by default these are the effects on the rows.

        Returns
        -------
        array (m, sets) or (m, sets, n_outputs)
        """
        model, table, given = self._game(X, background)
        places = [self._places(columns) for columns in sets]
        return self._without_outputs(moebius_values(model, table, places, given))

    def _game(self, X, background):
        check_is_fitted(self)
        return self.model_, self._checked(X), self._background(background)

    def _background(self, background):
        if background is None:
            return None
        if not isinstance(background, Background):
            return Background(self._rows(background, "background"))
        d = len(self.model_.columns)
        if background.table.n_columns != d:
            raise ValueError(
                f"The background must have the {d} columns of the model, got "
                f"{background.table.n_columns}."
            )
        self.model_.columns.check(background.table)
        return background

    def _without_outputs(self, values):
        return values if self.model_.has_outputs else values[..., 0]

    # -- smaller models ------------------------------------------------------------------------

    def compress(self, rank: int, X: TableLike | None = None) -> "Readable":
        """Return the estimator with a model of smaller rank.

        Parameters
        ----------
        rank : int
        X : table, optional
            Rows on which to say what it costs.

        Returns
        -------
        estimator
            A copy; its ``compression_`` has ``rank``, ``n_params``, and what is ``lost``: the mean
            squared change of f as a share of its variance, under independent columns, and on the
            rows.
        """
        check_is_fitted(self)
        if not _is_count(rank):
            raise ValueError(f"rank must be an integer of at least 1, got {rank!r}.")
        small = copy.copy(self)
        table = None if X is None else self._rows(X)
        small.model_, small.compression_ = compress(self.model_, rank, table)
        return small


def _check_choice(name, value, choices):
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}.")


def _is_count(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= 1
