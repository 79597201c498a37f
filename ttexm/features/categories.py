"""Categories: one weight for each level."""

import reprlib
import warnings
from typing import Any

import numpy as np

from ..data.columns import Column, kinds_of
from ..data.modes import Category
from .columns import FittedColumn
from .feature_map import ColumnMap


class Categorical(ColumnMap):
    """Categories of each column, ``(1, one-hot)``: one core per column, however many levels.

    Parameters
    ----------
    order_scale : float
        Weight of the one-hot part.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm.features import Categorical
    >>> colors = Categorical().fit(np.array([["red"], ["blue"], ["red"]], dtype=object))
    >>> colors.slot_names_
    [['1', 'x0=blue', 'x0=red']]
    >>> colors.transform(np.array([["red"], ["green"]], dtype=object)).vectors(0)
    array([[1., 0., 1.],
           [1., 0., 0.]])
    """

    def fit_column(self, column: Column, weights: np.ndarray, scale: float) -> "CategoryColumn":
        return CategoryColumn(column.name, column.levels(), scale)


class CategoryColumn(FittedColumn):
    """A category: slot 0 is the constant, then one slot for each level that was seen.

    Parameters
    ----------
    name : str
    levels : list
    scale : float
        Weight of the one-hot part.
    """

    kind = Category()

    def __init__(self, name: str, levels: list, scale: float):
        super().__init__(name, ["1", *(f"{name}={level}" for level in levels)], scale)
        self.levels = levels
        self._slots = {level: slot for slot, level in enumerate(levels, start=1)}

    def check(self, column: Column) -> None:
        kinds, known = column.kinds(), kinds_of(self.levels)
        if known and kinds - known:
            kind = min(kinds - known)
            raise TypeError(
                f"Column {column.name!r} was fitted on {' and '.join(sorted(known))}, such as "
                f"{reprlib.repr(self.levels[0])}, got {kind}: {column.example(kind)}. "
                "Convert it to the type that it was fitted on."
            )
        if kinds and not column.has_any(self._slots):
            warnings.warn(
                f"Column {column.name!r} holds no level that was seen in fit "
                f"({reprlib.repr(self.levels)}), but {column.example(min(kinds))}; all its "
                "values count as missing.",
                UserWarning,
                stacklevel=4,
            )

    def stored(self, column: Column) -> np.ndarray:
        return column.slots(self._slots)[:, None]

    def to_user_units(self, core: np.ndarray) -> np.ndarray:
        return np.concatenate([core[:, :1], self.scale * core[:, 1:]], axis=1)

    def points(self) -> list:
        return list(self.levels)

    def state(self) -> dict[str, Any]:
        return {
            "kind": "category",
            "name": self.name,
            "levels": list(self.levels),
            "scale": self.scale,
        }
