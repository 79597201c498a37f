"""Maps that treat different columns in different ways."""

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from sklearn.base import clone

from ..data.table import Table
from .categories import Categorical
from .feature_map import ColumnMap, FeatureMap
from .functions import Polynomial
from .smooth import Smooth


class Auto(FeatureMap):
    """Categories and numbers by the types of the columns: `Categorical` and `Smooth`.

    Parameters
    ----------
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Which columns are categories: those that a data frame says are (pandas' category, polars'
        Categorical and Enum) and all columns of strings; none; a mask, positions, or names.
    degree : int, optional
        If given, numeric columns are polynomials of this degree instead of smooth curves: they are
        standardised, and clipped to the quantiles .005 and .995.
    order_scale : float
        Multiplies every function but the constant.
    """

    def __init__(
        self,
        categorical_features: str | Sequence | None = "from_dtype",
        degree: int | None = None,
        order_scale: float = 1.0,
    ):
        super().__init__(order_scale)
        self.categorical_features = categorical_features
        self.degree = degree

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.degree is not None:
            self.check_count("degree", 1)

    def assign(self, table: Table) -> list[tuple[ColumnMap, float]]:
        self.check_parameters()
        category, number = Categorical(), Smooth()
        if self.degree is not None:
            number = Polynomial(self.degree, standardize=True, clip=number.clip)
        return [
            (category if is_category else number, self.order_scale)
            for is_category in _find_categories(self.categorical_features, table)
        ]


def _find_categories(chosen, table):
    """Which columns of a table are categories."""
    if chosen is None:
        return [False] * table.n_columns
    if isinstance(chosen, str) and chosen == "from_dtype":
        return [column.is_category for column in table]
    if isinstance(chosen, (str, bytes, dict)) or not isinstance(chosen, Iterable):
        raise TypeError(
            "categorical_features must be 'from_dtype', None, or a list of columns (a mask, "
            f"positions or names), got {chosen!r}."
        )
    # Not as an array, which would make strings of positions next to names.
    chosen = chosen.tolist() if isinstance(chosen, np.ndarray) else list(chosen)
    if chosen and all(isinstance(key, (bool, np.bool_)) for key in chosen):
        if len(chosen) != table.n_columns:
            raise ValueError(
                f"categorical_features as a mask must have {table.n_columns} entries, one per "
                f"column, got {len(chosen)}."
            )
        return [bool(key) for key in chosen]
    places = {_place(key, table, "categorical_features") for key in chosen}
    return [k in places for k in range(table.n_columns)]


def _place(key, table, what):
    """Position of a column that is given by name or position."""
    if isinstance(key, (str, tuple)):  # tuples are names in a MultiIndex of pandas
        names = [column.name for column in table]
        if str(key) not in names:
            raise ValueError(f"{what}: there is no column {key!r}; the columns are {names[:20]}.")
        return names.index(str(key))
    is_integer = isinstance(key, (int, np.integer)) and not isinstance(key, bool)
    d = table.n_columns
    if not is_integer or not -d <= key < d:
        raise ValueError(
            f"{what}: there is no column {key!r}, as there are {d} columns. An integer is "
            "a position, a string a name."
        )
    place = int(key) % d
    name = table.columns[place].name
    for k, column in enumerate(table):
        is_named_so = isinstance(column.label, (int, np.integer)) and column.label == key
        if is_named_so and k != place:
            raise ValueError(
                f"{what}: {key} is the position of column {name!r} and the name of another one, in "
                f"position {k}; use {name!r} or {column.name!r}, as a string."
            )
    return place


class PerColumn(FeatureMap):
    """Different maps for different columns.

    Parameters
    ----------
    maps : dict of column to FeatureMap
        Columns by name or position.
    otherwise : FeatureMap, optional
        For all other columns; by default `Auto`.
    order_scale : float
        Multiplies every function but the constant, on top of the order scales of the maps.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm.features import PerColumn, Polynomial, Trigonometric
    >>> maps = PerColumn({0: Trigonometric(1, period=24.0)}, otherwise=Polynomial())
    >>> maps.fit(np.ones((5, 2))).slot_names_
    [['1', 'sin(x0)', 'cos(x0)'], ['1', 'x1']]
    """

    def __init__(
        self,
        maps: dict[Hashable, FeatureMap] | None = None,
        otherwise: FeatureMap | None = None,
        order_scale: float = 1.0,
    ):
        super().__init__(order_scale)
        self.maps = maps
        self.otherwise = otherwise

    def assign(self, table: Table) -> list[tuple[ColumnMap, float]]:
        self.check_parameters()
        maps = {} if self.maps is None else self.maps
        self.check_parameter(
            "maps", isinstance(maps, dict), "a dict of column to FeatureMap", TypeError
        )
        others = Auto() if self.otherwise is None else self.otherwise
        self.check_parameter("otherwise", isinstance(others, FeatureMap), "a FeatureMap", TypeError)
        assigned, keys = clone(others).assign(table), {}
        for key, chosen in maps.items():
            if not isinstance(chosen, FeatureMap):
                raise TypeError(f"maps[{key!r}] must be a FeatureMap, got {chosen!r}.")
            place = _place(key, table, "maps")
            if place in keys:
                raise ValueError(f"maps: {keys[place]!r} and {key!r} are one and the same column.")
            keys[place] = key
            assigned[place] = clone(chosen).assign(table)[place]
        return [(chosen, self.order_scale * scale) for chosen, scale in assigned]
