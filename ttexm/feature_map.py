"""What all feature maps share: fit and transform, names of slots, and what is kept of a column."""

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from .batch import RankOneBatch
from .table import Column, read_table


class FeatureMap(BaseEstimator):
    """Base of all feature maps: ``fit(X)`` learns the columns, ``transform(X)`` makes the batch.

    Attributes
    ----------
    modes_ : list of Mode
        What was learned of each column.
    slot_names_ : list of list of str
        For each column the names of its slots: ``["1", "age", "age^2"]``.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    def __init__(self, order_scale: float = 1.0):
        self.order_scale = order_scale

    @abstractmethod
    def _learn(self, column: Column, k: int, weights: np.ndarray) -> "Mode":
        """Learn one column, the k-th."""

    def _prepare(self, table: list[Column]) -> None:
        """Look at the whole table before its columns are learned."""

    def fit(self, X, y=None, sample_weight=None):
        """Learn the columns of a table: a numpy array, or a pandas or polars data frame."""
        if not self.order_scale > 0:
            raise ValueError(f"order_scale must be positive, got {self.order_scale!r}.")
        table = self._read(X, reset=True)
        self._prepare(table)
        weights = np.ones(len(table[0].values)) if sample_weight is None else sample_weight
        self.modes_ = [self._learn(column, k, weights) for k, column in enumerate(table)]
        return self

    def transform(self, X) -> RankOneBatch:
        """Return the rank-1 tensors of the rows of X."""
        check_is_fitted(self)
        table = self._read(X, reset=False)
        parts = []
        pairs = zip(self.modes_, table, strict=True)
        for kind, group in itertools.groupby(pairs, key=lambda pair: type(pair[0])):
            modes, columns = zip(*group, strict=True)
            parts.append(kind.batch(modes, columns, self.order_scale))
        return RankOneBatch.join(parts)

    def fit_transform(self, X, y=None) -> RankOneBatch:
        """Return ``fit(X).transform(X)``."""
        return self.fit(X).transform(X)

    def _read(self, X, reset):
        table = read_table(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return table

    @property
    def shape_(self) -> tuple[int, ...]:
        """Sizes of the modes: the shape of the weight tensor."""
        check_is_fitted(self)
        return tuple(len(mode.names) for mode in self.modes_)

    @property
    def slot_names_(self) -> list[list[str]]:
        check_is_fitted(self)
        return [mode.names for mode in self.modes_]

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
        names = [mode.names[i] for mode, i in zip(self.modes_, index, strict=True)]
        return " * ".join(name for name in names if name != "1") or "1"


# -- what is learned of a column ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FunctionMode:
    """A column of numbers under some functions, with or without the constant in front."""

    names: list[str]
    basis: FeatureMap  # with functions: see features.FunctionMap
    state: object
    scale: float = 1.0

    @staticmethod
    def batch(modes, columns, order_scale) -> RankOneBatch:
        parts = []
        pairs = zip(modes, columns, strict=True)
        for constant, group in itertools.groupby(pairs, key=lambda pair: pair[0].basis.constant):
            make = RankOneBatch.from_columns if constant else RankOneBatch.from_vectors
            parts.append(make([mode.values(column, order_scale) for mode, column in group]))
        return RankOneBatch.join(parts)

    def values(self, column: Column, order_scale: float) -> np.ndarray:
        x = column.numbers()
        missing = np.isnan(x)
        constant = self.basis.constant
        out = np.zeros((len(x), len(self.names) - constant))
        if missing.any() and not constant:
            raise ValueError(
                f"Column {column.name!r} has a missing value in row {missing.argmax()}, and its "
                f"basis has no constant to fall back on; use constant=True, or fill it in."
            )
        if not missing.all():
            out[~missing] = self.basis._evaluate(x[~missing], self.state, column.name)
        # Without a constant slot there is no order of interaction to scale.
        return out * (order_scale * self.scale) if constant else out


@dataclass(frozen=True, eq=False)
class CategoryMode:
    """A category: slot 0 for all, one slot for each level that was seen."""

    names: list[str]
    levels: dict
    scale: float = 1.0

    @staticmethod
    def batch(modes, columns, order_scale) -> RankOneBatch:
        codes = [column.codes(mode.levels) for mode, column in zip(modes, columns, strict=True)]
        shape = [len(mode.names) for mode in modes]
        scales = [order_scale * mode.scale for mode in modes]
        return RankOneBatch.from_codes(np.stack(codes, axis=1), shape, scales)


Mode = FunctionMode | CategoryMode
