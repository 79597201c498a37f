"""Smooth functions of columns of numbers: the default of the estimators."""

from typing import Any

import numpy as np
from scipy import linalg

from ..data.columns import Column
from ..data.modes import Curve
from ..kernels import knots as knot_kernels
from .function_map import FunctionColumn, FunctionMap
from .quantiles import CLOSE, clipped_range, distinct_values, nearest_places

# Rows from which on a column has so many knots.
KNOTS = ((0, 17), (2_000, 33), (10_000, 65))
FLOOR = 1e-9  # share of the mean variance that functions without any data get
TINY_VALUE = 1e-6  # of the largest value of a function: its sign may be rounding


class Smooth(FunctionMap):
    """Smooth functions of each column: itself, then curves that bend more and more.

    Piecewise linear functions on knots, in the order of Demmler and Reinsch: of all functions of
    variance 1 that are uncorrelated with those before, each is the one that changes least between
    neighbouring knots. The first one is the column itself, standardised. Values beyond the first
    and the last knot are taken as these, in training as in predictions: nothing is extrapolated.

    Parameters
    ----------
    n_knots : int or "auto", default="auto"
        About how many knots a column has: so many quantiles, all values if there are few of them,
        and all frequent values with their neighbours. "auto" is 17 below 2000 rows, 33 below 10 000
        and 65 above. (Weighted rows count as ``sum(w)^2 / sum(w^2)``.)
    clip : float, default=0.005
        Share of the rows at either end whose values are taken as the quantile there.
    order_scale : float
        Multiplies every function but the constant.

    Notes
    -----
    With n knots there are n - 1 functions, each a curve with a name: ``age``, ``curve2(age)``, ..
    They all have mean 0 and variance 1 in training, are uncorrelated with each other, and positive
    at the last knot. A column of two values has one function, -1 and 1. A missing value is the
    constant alone.

    The cost of a prediction does not grow with the number of functions: a row lies between two
    knots, and needs the weights of these alone.

    References
    ----------
    .. [1] Demmler, Reinsch: Oscillation Matrices with Spline Smoothing, Numer. Math. 24, 1975.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm.features import Smooth
    >>> age = np.arange(101.0)[:, None]
    >>> smooth = Smooth(n_knots=5).fit(age)
    >>> smooth.slot_names_
    [['1', 'x0', 'curve2(x0)', 'curve3(x0)', 'curve4(x0)']]
    >>> values = smooth.transform(age).vectors(0)
    >>> bool(np.allclose(values[:, 1:].mean(axis=0), 0))
    True
    >>> bool(np.allclose(np.cov(values[:, 1:].T, bias=True), np.eye(4)))
    True
    """

    def __init__(self, n_knots: int | str = "auto", clip: float = 0.005, order_scale: float = 1.0):
        super().__init__(order_scale)
        self.n_knots = n_knots
        self.clip = clip

    @property
    def is_relative(self) -> bool:
        return True

    def check_parameters(self) -> None:
        super().check_parameters()
        if not (isinstance(self.n_knots, str) and self.n_knots == "auto"):
            self.check_count("n_knots", 2, "'auto' or an integer")
        self.check_clip()

    def learn(self, x: np.ndarray, weights: np.ndarray, name: str) -> dict[str, Any]:
        n_knots = self.n_knots
        if n_knots == "auto":
            n_rows = weights.sum() ** 2 / np.sum(weights**2)
            n_knots = max(n for rows, n in KNOTS if n_rows >= rows)
        values, masses = distinct_values(x, weights)
        knots = choose_knots(values, masses, n_knots, self.clip)
        center, spread, functions = smooth_functions(knots, values, masses)
        return {
            "knots": knots.tolist(),
            "functions": functions.tolist(),
            "center": center,
            "spread": spread,
        }

    def evaluate(
        self, x: np.ndarray, name: str, knots: list, functions: list, **units: float
    ) -> np.ndarray:
        place = knot_kernels.places(x[:, None], [np.array(knots)])
        table = np.array(functions)
        return Curve().vectors(place, table.shape[1], table)

    def function_names(self, name: str, functions: list, **learned: Any) -> list[str]:
        n = len(functions[0])
        return [name, *(f"curve{j}({name})" for j in range(2, n + 1))]

    def units(
        self, n: int, exponent: int, center: float, spread: float, **learned: Any
    ) -> np.ndarray:
        # The first function is (x - center) / spread, x clipped; the others have no units.
        units = super().units(n, exponent)
        units[0, :2] = -center / spread, 1 / np.ldexp(spread, exponent)
        return units

    def fit_column(self, column: Column, weights: np.ndarray, scale: float) -> "CurveColumn":
        fitted = super().fit_column(column, weights, scale)
        return CurveColumn(fitted.name, self, fitted.learned, scale, fitted.exponent, fitted.span)


class CurveColumn(FunctionColumn):
    """A column of numbers under piecewise linear functions; parameters as of `FunctionColumn`.

    Attributes
    ----------
    knots : array (n_knots,)
        Of ``2^-exponent x``.
    table : array (n_knots + 1, n)
        The feature vectors at the knots, and that of missing values.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.kind = Curve()
        self.knots = np.array(self.learned["knots"])
        functions = self.scale * np.array(self.learned["functions"])
        self.table = np.zeros((len(functions) + 1, functions.shape[1] + 1))
        self.table[:, 0] = 1
        self.table[:-1, 1:] = functions

    @property
    def plain_knots(self) -> np.ndarray | None:
        return None if self.exponent else self.knots

    def points(self) -> list:
        return np.ldexp(self.knots, self.exponent).tolist()

    def stored(self, column: Column) -> np.ndarray:
        x = column.numbers()
        if self.exponent:
            with np.errstate(over="ignore"):  # beyond the knots, infinity is as good as any number
                x = np.ldexp(x, -self.exponent)
        return knot_kernels.places(x[:, None], [self.knots])


def choose_knots(values: np.ndarray, masses: np.ndarray, n_knots: int, clip: float) -> np.ndarray:
    """Return the knots of a column, at least two.

    Parameters
    ----------
    values, masses : arrays
        Distinct values in order, and their shares.
    n_knots : int
        About how many.
    clip : float
        Share at either end that is cut off.
    """
    if len(values) == 1:
        # Any second knot will do: the only function is zero.
        return np.array([values[0], values[0] + max(1.0, abs(values[0]))])
    low, high = clipped_range(values, masses, clip)
    kept = (values >= low) & (values <= high)
    values, masses = values[kept], masses[kept]
    n = len(values)
    if n <= 1.5 * n_knots:
        return values
    # No value may take two quantiles: its share is capped.
    capped = np.minimum(masses, 1 / n_knots)
    for _ in range(3):
        capped = np.minimum(capped / capped.sum(), 1 / (n_knots - 1))
    middles = np.cumsum(capped) - capped / 2
    middles = (middles - middles[0]) / (middles[-1] - middles[0])
    places = nearest_places(middles, np.linspace(0, 1, n_knots))
    # Both neighbours of a frequent value are knots, so that its hat function says "is this value".
    frequent = np.flatnonzero(masses >= (1 - CLOSE) / n_knots)
    chosen = np.concatenate([places, [0, n - 1], frequent, frequent - 1, frequent + 1])
    return values[np.unique(np.clip(chosen, 0, n - 1))]


def smooth_functions(
    knots: np.ndarray, values: np.ndarray, masses: np.ndarray
) -> tuple[float, float, np.ndarray]:
    """Return center and spread of the clipped column, and all functions at the knots, (K, n).

    Parameters
    ----------
    knots : array (K,)
    values, masses : arrays
        Distinct values in order, and their shares.
    """
    if len(values) == 1:
        return float(values[0]), 1.0, np.zeros((2, 1))
    if np.isin(np.clip(values, knots[0], knots[-1]), knots[[0, -1]]).all():
        center, spread = knots[0] / 2 + knots[-1] / 2, knots[-1] / 2 - knots[0] / 2
        return float(center), float(spread), np.array([[-1.0], [1.0]])
    hats = hat_functions(values, knots)
    mean = masses @ hats
    hats -= mean
    covariance = hats.T @ (masses[:, None] * hats)
    # Distances from the first knot keep the last digits of a column that is far from zero.
    x = knots - knots[0]
    center = x @ mean
    x = x - center
    spread = np.sqrt(x @ covariance @ x)
    x = x / spread
    functions = np.column_stack([x, smoothest_functions(mean, covariance, x)])
    return float(knots[0] + center), float(spread), functions * last_signs(functions)


def smoothest_functions(mean: np.ndarray, covariance: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return functions at the knots that are uncorrelated with x, the smoothest ones first.

    Parameters
    ----------
    mean, covariance : arrays (K,), (K, K)
        Of the hat functions.
    x : array (K,)
    """
    if len(x) == 2:
        return np.empty((2, 0))
    shared = covariance @ x
    free = linalg.null_space(np.array([mean, shared / np.linalg.norm(shared)]))
    steps = np.diff(np.eye(len(x)), axis=0) @ free
    variance = free.T @ covariance @ free
    variance += FLOOR * np.trace(variance) / len(variance) * np.eye(len(variance))
    return free @ linalg.eigh(steps.T @ steps, variance)[1]


def last_signs(functions: np.ndarray) -> np.ndarray:
    """Return the sign of each column of an array in the last row where it is not tiny."""
    is_large = np.abs(functions) > TINY_VALUE * np.abs(functions).max(axis=0)
    last = len(functions) - 1 - np.argmax(is_large[::-1], axis=0)
    return np.sign(functions[last, np.arange(functions.shape[1])])


def hat_functions(x: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Return the hat functions of the knots at x, (len(x), K): they sum to 1."""
    place = knot_kernels.places(x[:, None], [knots])
    return Curve().vectors(place, len(knots), np.eye(len(knots)))
