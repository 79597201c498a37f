"""What all feature maps share: fit and transform, names of slots, and what is kept of a column."""

import itertools
import numbers
import reprlib
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from .batch import RankOneBatch
from .table import Column, kinds_of, read_table


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
        """Check the parameters, and look at the whole table before its columns are learned."""
        self._check_positive("order_scale")

    def _check(self, name, is_fine, wanted, error=ValueError):
        """Refuse a parameter by its name if it is not what was wanted."""
        if not is_fine:
            value = reprlib.repr(getattr(self, name))
            raise error(f"{name} of {type(self).__name__} must be {wanted}, got {value}.")

    def _check_positive(self, name):
        value = getattr(self, name)
        is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        self._check(name, is_real and 0 < value < np.inf, "a positive finite number")

    def _check_count(self, name, least):
        value = getattr(self, name)
        is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        self._check(name, is_integer and value >= least, f"an integer of at least {least}")

    def _check_flag(self, name):
        self._check(name, isinstance(getattr(self, name), (bool, np.bool_)), "True or False")

    def fit(self, X, y=None, sample_weight=None):
        """Learn the columns of a table: a numpy array, or a pandas or polars data frame.

        Parameters
        ----------
        X : array, pandas or polars data frame
            Missing values are NaN, None, those of pandas and polars, and entries that a masked
            array masks. Columns of strings are categories, also if the strings are digits.
        y : ignored
        sample_weight : array (m,), optional
            Rows of weight 0 are left out.
        """
        table = self._read(X, reset=True)
        m = len(table[0].values)
        if m == 0:
            raise ValueError(
                f"Found array with 0 sample(s) (shape=(0, {len(table)})) while a minimum of 1 is "
                f"required by {type(self).__name__}."
            )
        self._prepare(table)
        weights = np.ones(m) if sample_weight is None else _read_weights(sample_weight, m)
        used = weights > 0
        if not used.all():
            table = [replace(column, values=column.values[used]) for column in table]
            weights = weights[used]
        self.modes_ = [self._learn(column, k, weights) for k, column in enumerate(table)]
        return self

    def transform(self, X) -> RankOneBatch:
        """Return the rank-1 tensors of the rows of X.

        A level of a category that was not seen in `fit` counts as missing. A column without a
        single known level is warned of, and values of another type than the levels (numbers where
        there were strings) are refused.
        """
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
    # Only their ratios count: by a power of two, which is exact, they are at most 1.
    return np.ldexp(weights, -np.frexp(weights.max())[1])


# -- what is learned of a column ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FunctionMode:
    """A column of numbers under some functions, with or without the constant in front."""

    names: list[str]
    basis: FeatureMap  # with functions: see features.FunctionMap
    state: object
    scale: float = 1.0
    exponent: int = 0  # the functions are those of 2^-exponent x

    @staticmethod
    def batch(modes, columns, order_scale) -> RankOneBatch:
        parts = []
        pairs = zip(modes, columns, strict=True)
        for constant, group in itertools.groupby(pairs, key=lambda pair: pair[0].basis.constant):
            make = RankOneBatch.from_columns if constant else RankOneBatch.from_vectors
            with np.errstate(all="ignore"):  # what is not finite is refused, by name
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
            known = x[~missing]
            if self.exponent:
                known = np.ldexp(known, -self.exponent)
            out[~missing] = self.basis._evaluate(known, self.state, column.name)
        # Without a constant slot there is no order of interaction to scale.
        out = out * (order_scale * self.scale) if constant else out
        if not np.isfinite(out).all():
            row, j = np.argwhere(~np.isfinite(out))[0]
            raise ValueError(
                f"Column {column.name!r} must have finite features, but {self.names[constant + j]} "
                f"is {out[row, j]} at {x[row]:g} in row {row}. Scale the column, or use another "
                f"feature map than {type(self.basis).__name__}."
            )
        return out


@dataclass(frozen=True, eq=False)
class CategoryMode:
    """A category: slot 0 for all, one slot for each level that was seen."""

    names: list[str]
    levels: dict
    scale: float = 1.0

    @staticmethod
    def batch(modes, columns, order_scale) -> RankOneBatch:
        codes = [mode.codes(column) for mode, column in zip(modes, columns, strict=True)]
        shape = [len(mode.names) for mode in modes]
        scales = [order_scale * mode.scale for mode in modes]
        return RankOneBatch.from_codes(np.stack(codes, axis=1), shape, scales)

    def codes(self, column: Column) -> np.ndarray:
        """Slots of the levels, 0 where a level is missing or unknown."""
        codes, kinds, known = column.codes(self.levels), column.kinds(), kinds_of(self.levels)
        if known and kinds - known:
            kind = min(kinds - known)
            raise TypeError(
                f"Column {column.name!r} was fitted on {' and '.join(sorted(known))}, such as "
                f"{reprlib.repr(next(iter(self.levels)))}, got {kind}: {column.example(kind)}. "
                "Convert it to the type that it was fitted on."
            )
        if kinds and not codes.any():
            warnings.warn(
                f"Column {column.name!r} holds no level that was seen in fit "
                f"({reprlib.repr(list(self.levels))}), but {column.example(min(kinds))}; all its "
                "values count as missing.",
                UserWarning,
                stacklevel=2,
            )
        return codes


Mode = FunctionMode | CategoryMode
