"""Feature maps: from the columns of a table to a batch of rank-1 tensors.

A map turns column k into the vectors phi_k(x_k) of mode k: ``(1, g_1(x), .., g_{n-1}(x))``, or
``(1, one-hot)`` for a category. Slot 0, the constant, stands for "this column takes no part": a
missing value is that and nothing else, and so is a level that was not seen in training. Values of
another type than in training are refused: the string "1" is neither the number 1 nor a level 1.

The order scale s multiplies every function but the constant. As W_S then belongs to s^|S| times a
product of |S| columns, a plain penalty |W|^2 weighs interactions of order |S| by s^(-2 |S|).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import SplineTransformer

from .feature_map import CategoryMode, FeatureMap, FunctionMode

TINY, HUGE = 1e-130, 1e130  # between them squares are normal floats, also of last digits

# -- functions of numbers -------------------------------------------------------------------------


class FunctionMap(FeatureMap):
    """Base of maps that apply functions to columns of numbers."""

    constant = True

    @property
    def _is_relative(self) -> bool:
        """Whether the functions are those of the column in units of its own."""
        return True

    def _learn(self, column, k, weights):
        x = column.numbers()
        known = ~np.isnan(x)
        x, weights = (x[known], weights[known]) if known.any() else (np.zeros(1), np.ones(1))
        exponent = _exponent(x) if self._is_relative else 0
        state = self._fit_function(np.ldexp(x, -exponent), weights, column.name)
        names = [*(["1"] if self.constant else []), *self._names(column.name, state)]
        return FunctionMode(names, self, state, exponent=exponent)

    def _fit_function(self, x: np.ndarray, weights: np.ndarray, name: str):
        """What has to be known of a column, from its known values: range, mean, .."""
        return None

    @abstractmethod
    def _evaluate(self, x: np.ndarray, state, name: str) -> np.ndarray:
        """The functions at x, of shape (m, number of functions), without the constant."""

    @abstractmethod
    def _names(self, name: str, state) -> list[str]:
        """Names of the functions of a column."""


def _exponent(x):
    """The power of two to divide by, lest squares overflow or vanish; 0 for most columns."""
    size = np.abs(x).max()
    return 0 if size == 0 or TINY < size < HUGE else int(np.frexp(size)[1])


class Polynomial(FunctionMap):
    """Powers of each column, ``(1, x, x^2, .., x^degree)``.

    Parameters
    ----------
    degree : int
    standardize : bool
        Whether to shift and scale each column first: to -1 and 1 if it has just two values, else to
        mean 0 and standard deviation 1.
    order_scale : float
        Multiplies every function but the constant.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm.features import Polynomial
    >>> Polynomial(degree=2).fit_transform(np.array([[2.0], [np.nan]])).vectors(0)
    array([[1., 2., 4.],
           [1., 0., 0.]])
    """

    def __init__(self, degree: int = 1, standardize: bool = False, order_scale: float = 1.0):
        super().__init__(order_scale)
        self.degree = degree
        self.standardize = standardize

    @property
    def _is_relative(self):
        return self.standardize

    def _prepare(self, table):
        super()._prepare(table)
        self._check_count("degree", 1)
        self._check_flag("standardize")

    def _fit_function(self, x, weights, name):
        if not self.standardize:
            return 0.0, 1.0
        low, high = x.min(), x.max()
        if ((x == low) | (x == high)).all():
            center, spread = low / 2 + high / 2, high / 2 - low / 2
        else:
            center = np.average(x, weights=weights)
            spread = np.sqrt(np.average((x - center) ** 2, weights=weights))
        return center, spread if spread > 0 else 1.0

    def _evaluate(self, x, state, name):
        center, spread = state
        return ((x - center) / spread)[:, None] ** np.arange(1, self.degree + 1)

    def _names(self, name, state):
        return [name, *(f"{name}^{power}" for power in range(2, self.degree + 1))]


class Basis(FunctionMap):
    """Functions of your own of each column, ``(1, g_1(x), g_2(x), ..)``.

    Parameters
    ----------
    functions : sequence of callable
        Each gets a column (m,) and returns m numbers.
    constant : bool
        Whether slot 0 is the constant 1. Without it missing values are refused, and the order scale
        has no meaning.
    order_scale : float
        Multiplies every function but the constant.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm.features import Basis
    >>> basis = Basis([np.sin, np.cos]).fit(np.zeros((2, 1)))
    >>> basis.slot_names_
    [['1', 'sin(x0)', 'cos(x0)']]
    >>> basis.transform(np.array([[0.0]])).vectors(0)
    array([[1., 0., 1.]])
    """

    def __init__(
        self, functions: Sequence[Callable] = (), constant: bool = True, order_scale: float = 1.0
    ):
        super().__init__(order_scale)
        self.functions = functions
        self.constant = constant

    @property
    def _is_relative(self):
        return False

    def _prepare(self, table):
        super()._prepare(table)
        self._check_flag("constant")
        is_list = isinstance(self.functions, Sequence) and not isinstance(self.functions, str)
        self._check("functions", is_list, "a list of functions", TypeError)
        self._check("functions", len(self.functions) > 0, "at least one function")
        for j, function in enumerate(self.functions):
            if not callable(function):
                raise TypeError(f"functions[{j}] of Basis must be a function, got {function!r}.")

    def _fit_function(self, x, weights, name):
        self._evaluate(x, None, name)

    def _evaluate(self, x, state, name):
        out = np.empty((len(x), len(self.functions)))
        for j, function in enumerate(self.functions):
            with np.errstate(all="ignore"):  # what is not finite is refused below, by name
                values = np.asarray(function(x))
            called = f"functions[{j}] ({_function_name(function, j)}) of column {name!r}"
            if values.shape != x.shape:
                raise ValueError(f"{called} must give shape {x.shape}, got {values.shape}.")
            if values.dtype.kind not in "biuf":
                raise TypeError(f"{called} must give real numbers, got {values.dtype}.")
            bad = ~np.isfinite(values)
            if bad.any():
                raise ValueError(
                    f"{called} must give finite numbers, got {values[bad.argmax()]} at "
                    f"{x[bad.argmax()]:g}."
                )
            out[:, j] = values
        return out

    def _names(self, name, state):
        return [f"{_function_name(g, j)}({name})" for j, g in enumerate(self.functions)]


def _function_name(function, j):
    name = getattr(function, "__name__", "<lambda>")
    return f"g{j + 1}" if name == "<lambda>" else name


class Trigonometric(FunctionMap):
    """Sines and cosines of each column, ``(1, sin(w x), cos(w x), sin(2 w x), ..)``.

    Parameters
    ----------
    n_frequencies : int
    period : float, optional
        ``w = 2 pi / period``; by default the range of the column in training.
    order_scale : float
        Multiplies every function but the constant.
    """

    def __init__(
        self, n_frequencies: int = 2, period: float | None = None, order_scale: float = 1.0
    ):
        super().__init__(order_scale)
        self.n_frequencies = n_frequencies
        self.period = period

    @property
    def _is_relative(self):
        return self.period is None

    def _prepare(self, table):
        super()._prepare(table)
        self._check_count("n_frequencies", 1)
        if self.period is not None:
            self._check_positive("period")

    def _fit_function(self, x, weights, name):
        return (float(np.ptp(x)) or 1.0) if self.period is None else float(self.period)

    def _evaluate(self, x, state, name):
        # Whole periods are taken off first, which is exact: 1e300 has a phase, too.
        phases = 2 * np.pi * (np.fmod(x, state) / state)
        angles = np.outer(phases, np.arange(1, self.n_frequencies + 1))
        return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(x), -1)

    def _names(self, name, state):
        return [
            f"{f}({j} {name})" if j > 1 else f"{f}({name})"
            for j in range(1, self.n_frequencies + 1)
            for f in ("sin", "cos")
        ]


class Legendre(FunctionMap):
    """Legendre polynomials of each column, scaled to [-1, 1] by its range in training.

    Values beyond that range are taken as its nearest end. Each polynomial is normalised to mean
    square 1 under the uniform distribution.

    Parameters
    ----------
    degree : int
    order_scale : float
        Multiplies every function but the constant.
    """

    def __init__(self, degree: int = 3, order_scale: float = 1.0):
        super().__init__(order_scale)
        self.degree = degree

    def _prepare(self, table):
        super()._prepare(table)
        self._check_count("degree", 1)

    def _fit_function(self, x, weights, name):
        return x.min(), x.max()

    def _evaluate(self, x, state, name):
        low, high = state
        spread = high / 2 - low / 2
        t = (np.clip(x, low, high) - low) / spread - 1 if spread > 0 else np.zeros_like(x)
        values = np.polynomial.legendre.legvander(t, self.degree)[:, 1:]
        return values * np.sqrt(2 * np.arange(1, self.degree + 1) + 1)

    def _names(self, name, state):
        return [f"P{j}({name})" for j in range(1, self.degree + 1)]


class Spline(FunctionMap):
    """B-splines of each column, of scikit-learn's SplineTransformer; constant beyond the knots.

    Parameters
    ----------
    n_knots, degree : int
    knots : {"quantile", "uniform"}
    order_scale : float
        Multiplies every function but the constant.
    """

    def __init__(
        self, n_knots: int = 5, degree: int = 3, knots: str = "quantile", order_scale: float = 1.0
    ):
        super().__init__(order_scale)
        self.n_knots = n_knots
        self.degree = degree
        self.knots = knots

    def _prepare(self, table):
        super()._prepare(table)
        self._check_count("degree", 0)
        # Two knots of degree 0 are one constant, which is in slot 0 already.
        self._check_count("n_knots", 2 if self.degree else 3)
        is_known = isinstance(self.knots, str) and self.knots in ("quantile", "uniform")
        self._check("knots", is_known, "'quantile' or 'uniform'")

    def _fit_function(self, x, weights, name):
        low, high = x.min(), x.max()
        if low == high:  # any range that starts there will do
            x = np.array([low, low + max(1.0, abs(low))])
        # The splines sum to 1, so that one of them is redundant next to the constant.
        spline = SplineTransformer(self.n_knots, self.degree, knots=self.knots, include_bias=False)
        return low, high, spline.fit(x[:, None])

    def _evaluate(self, x, state, name):
        low, high, spline = state
        return spline.transform(np.clip(x, low, high)[:, None])

    def _names(self, name, state):
        return [f"B{j + 1}({name})" for j in range(state[2].n_features_out_)]


# -- categories and mixtures ----------------------------------------------------------------------


class Categorical(FeatureMap):
    """Categories of each column, ``(1, one-hot)``: one core a column, however many levels.

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

    def _learn(self, column, k, weights):
        levels = column.levels()
        names = ["1", *(f"{column.name}={level}" for level in levels)]
        return CategoryMode(names, {level: code + 1 for code, level in enumerate(levels)})


class Auto(FeatureMap):
    """Categories and numbers by the types of the columns.

    Parameters
    ----------
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Which columns are categories: those that a data frame says are (pandas' category, polars'
        Categorical and Enum) and all columns of strings; none; a mask, positions, or names.
    degree : int
        Of the polynomials of the other columns, which are standardised.
    order_scale : float
        Multiplies every function but the constant.
    """

    def __init__(
        self, categorical_features="from_dtype", degree: int = 1, order_scale: float = 1.0
    ):
        super().__init__(order_scale)
        self.categorical_features = categorical_features
        self.degree = degree

    def _prepare(self, table):
        super()._prepare(table)
        self._check_count("degree", 1)
        self._is_category = _chosen(self.categorical_features, table)

    def _learn(self, column, k, weights):
        chosen = Categorical() if self._is_category[k] else Polynomial(self.degree, True)
        return chosen._learn(column, k, weights)


def _chosen(chosen, table):
    """Which columns of a table are categories."""
    if chosen is None:
        return [False] * len(table)
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
        if len(chosen) != len(table):
            raise ValueError(
                f"categorical_features as a mask must have {len(table)} entries, one per column, "
                f"got {len(chosen)}."
            )
        return [bool(key) for key in chosen]
    places = {_place(key, table, "categorical_features") for key in chosen}
    return [k in places for k in range(len(table))]


def _place(key, table, what):
    """Position of a column that is given by name or position."""
    if isinstance(key, (str, tuple)):  # tuples are names in a MultiIndex of pandas
        names = [column.name for column in table]
        if str(key) not in names:
            raise ValueError(f"{what}: there is no column {key!r}; the columns are {names[:20]}.")
        return names.index(str(key))
    is_integer = isinstance(key, (int, np.integer)) and not isinstance(key, bool)
    if not is_integer or not -len(table) <= key < len(table):
        raise ValueError(
            f"{what}: there is no column {key!r}, as there are {len(table)} columns. An integer is "
            "a position, a string a name."
        )
    place = int(key) % len(table)
    for k, column in enumerate(table):
        is_named_so = isinstance(column.label, (int, np.integer)) and column.label == key
        if is_named_so and k != place:
            raise ValueError(
                f"{what}: {key} is the position of column {table[place].name!r} and the name of "
                f"another one, in position {k}; use {table[place].name!r} or {column.name!r}, as a "
                "string."
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

    def __init__(self, maps=None, otherwise=None, order_scale: float = 1.0):
        super().__init__(order_scale)
        self.maps = maps
        self.otherwise = otherwise

    def _prepare(self, table):
        super()._prepare(table)
        maps = {} if self.maps is None else self.maps
        self._check("maps", isinstance(maps, dict), "a dict of column to FeatureMap", TypeError)
        others = Auto() if self.otherwise is None else self.otherwise
        self._check("otherwise", isinstance(others, FeatureMap), "a FeatureMap", TypeError)
        others, keys = clone(others), {}
        self._chosen = [others] * len(table)
        for key, chosen in maps.items():
            if not isinstance(chosen, FeatureMap):
                raise TypeError(f"maps[{key!r}] must be a FeatureMap, got {chosen!r}.")
            place = _place(key, table, "maps")
            if place in keys:
                raise ValueError(f"maps: {keys[place]!r} and {key!r} are one and the same column.")
            keys[place] = key
            self._chosen[place] = clone(chosen)
        for chosen in set(self._chosen):
            chosen._prepare(table)

    def _learn(self, column, k, weights):
        mode = self._chosen[k]._learn(column, k, weights)
        return replace(mode, scale=mode.scale * self._chosen[k].order_scale)
