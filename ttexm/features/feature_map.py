"""What all feature maps share: fit and transform, the check of parameters, and names of slots."""

import numbers
import reprlib
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.batch import RankOneBatch
from ..data.columns import Column
from ..data.table import Table, TableLike, read_table
from .columns import FittedColumn, FittedColumns


class FeatureMap(BaseEstimator):
    """Base of all feature maps: ``fit(X)`` learns the columns, ``transform(X)`` makes the batch.

    Parameters
    ----------
    order_scale : float
        Multiplies every function but the constant.

    Attributes
    ----------
    columns_ : FittedColumns
        What was learned of each column.
    slot_names_ : list of list of str
        For each column the names of its slots: ``["1", "age", "age^2"]``.
    shape_ : tuple of int
        Numbers of slots: the shape of a weight tensor.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    def __init__(self, order_scale: float = 1.0):
        self.order_scale = order_scale

    @abstractmethod
    def assign(self, table: Table) -> list[tuple["ColumnMap", float]]:
        """Return the map of each column, and the order scale that it is used with.

        Parameters are checked here, and columns that are given by name or position are found.
        """

    def check_parameters(self) -> None:
        """Raise if a parameter is not what it should be."""
        self.check_positive("order_scale")

    def check_parameter(
        self, name: str, is_fine: bool, wanted: str, error: type[Exception] = ValueError
    ) -> None:
        """Refuse a parameter by its name if it is not what was wanted."""
        if not is_fine:
            value = reprlib.repr(getattr(self, name))
            raise error(f"{name} of {type(self).__name__} must be {wanted}, got {value}.")

    def check_positive(self, name: str) -> None:
        value = getattr(self, name)
        is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        self.check_parameter(name, is_real and 0 < value < np.inf, "a positive finite number")

    def check_count(self, name: str, least: int, wanted: str = "an integer") -> None:
        value = getattr(self, name)
        is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        self.check_parameter(name, is_integer and value >= least, f"{wanted} of at least {least}")

    def check_clip(self) -> None:
        is_share = isinstance(self.clip, numbers.Real) and not isinstance(self.clip, bool)
        is_share = is_share and 0 <= self.clip < 0.5
        self.check_parameter("clip", is_share, "at least 0 and less than 0.5")

    def check_flag(self, name: str) -> None:
        is_flag = isinstance(getattr(self, name), (bool, np.bool_))
        self.check_parameter(name, is_flag, "True or False")

    def fit(
        self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> "FeatureMap":
        """Learn the columns of a table.

        Parameters
        ----------
        X : array, data frame of pandas or polars, or table of pyarrow
            Missing values are NaN, None, those of the libraries, and entries that a masked array
            masks. Columns of strings are categories, also if the strings are digits.
        y : ignored
        sample_weight : array (m,), optional
            Rows of weight 0 are left out.
        """
        table = read_table(X)
        validate_data(self, X, reset=True, skip_check_array=True)
        weights = None if sample_weight is None else _read_weights(sample_weight, len(table))
        return self.fit_table(table, weights)

    def fit_table(self, table: Table, weights: np.ndarray | None = None) -> "FeatureMap":
        """Learn the columns of a table that has been read; weights are at least 0."""
        if len(table) == 0:
            raise ValueError(
                f"Found array with 0 sample(s) (shape=(0, {table.n_columns})) while a minimum of 1 "
                f"is required by {type(self).__name__}."
            )
        assigned = self.assign(table)
        if weights is None:
            weights = np.ones(len(table))
        if not weights.all():
            used = np.flatnonzero(weights)
            table, weights = table[used], weights[used]
        # Only their ratios count: by a power of two, which is exact, they are at most 1.
        weights = np.ldexp(weights, -np.frexp(weights.max())[1])
        self.columns_ = FittedColumns(
            [
                chosen.fit_column(column, weights, scale)
                for (chosen, scale), column in zip(assigned, table, strict=True)
            ]
        )
        return self

    def transform(self, X: TableLike) -> RankOneBatch:
        """Return the rank-1 tensors of the rows of X.

        A level of a category that was not seen in `fit` counts as missing. A column without a
        single known level is warned of, and values of another type than the levels (numbers where
        there were strings) are refused.
        """
        check_is_fitted(self)
        table = read_table(X)
        if table is not X:
            validate_data(self, X, reset=False, skip_check_array=True)
        self.columns_.check(table)
        return self.columns_.encode(table)

    def fit_transform(self, X: TableLike, y: object = None) -> RankOneBatch:
        """Return ``fit(X).transform(X)``."""
        return self.fit(X).transform(X)

    @property
    def shape_(self) -> tuple[int, ...]:
        check_is_fitted(self)
        return self.columns_.shape

    @property
    def slot_names_(self) -> list[list[str]]:
        check_is_fitted(self)
        return self.columns_.slot_names

    def name(self, index: Sequence[int]) -> str:
        """Name the product of features that one entry of the weight tensor belongs to.

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm.features import Polynomial
        >>> Polynomial(degree=2).fit(np.ones((3, 4))).name((0, 2, 0, 1))
        'x1^2 * x3'
        """
        if len(index) != len(self.shape_):
            raise ValueError(f"index must have {len(self.shape_)} entries, got {len(index)}.")
        names = [names[i] for names, i in zip(self.slot_names_, index, strict=True)]
        return " * ".join(name for name in names if name != "1") or "1"


class ColumnMap(FeatureMap):
    """Base of maps that treat every column in the same way."""

    def assign(self, table: Table) -> list[tuple["ColumnMap", float]]:
        self.check_parameters()
        # A copy: what was learned does not change with the parameters of this map.
        return [(clone(self), self.order_scale)] * table.n_columns

    @abstractmethod
    def fit_column(self, column: Column, weights: np.ndarray, scale: float) -> FittedColumn:
        """Learn one column.

        Parameters
        ----------
        column : Column
        weights : array (m,)
            Positive weights of the rows.
        scale : float
            The order scale.
        """


def _read_weights(sample_weight, m):
    weights = np.ma.asarray(sample_weight, np.float64).filled(np.nan)
    if weights.shape != (m,):
        raise ValueError(
            f"sample_weight must have shape ({m},), one number per row, got {weights.shape}."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"sample_weight must be finite and not negative, got {weights[row]:g} in row {row}."
        )
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all rows.")
    return weights
