"""Functions of columns of numbers: powers, sines, splines, and functions of your own."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from sklearn.preprocessing import SplineTransformer

from .function_map import FunctionMap
from .quantiles import clipped_range, distinct_values


class Polynomial(FunctionMap):
    """Powers of each column, ``(1, x, x^2, .., x^degree)``.

    Parameters
    ----------
    degree : int
    standardize : bool
        Whether to shift and scale each column first: to -1 and 1 if it has just two values, else to
        mean 0 and standard deviation 1.
    clip : float, default=0
        Share of the rows at either end whose values are taken as the quantile there, in training as
        in predictions. (A product of powers is huge at outliers.)
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

    def __init__(
        self,
        degree: int = 1,
        standardize: bool = False,
        clip: float = 0.0,
        order_scale: float = 1.0,
    ):
        super().__init__(order_scale)
        self.degree = degree
        self.standardize = standardize
        self.clip = clip

    @property
    def is_relative(self) -> bool:
        return self.standardize

    def check_parameters(self) -> None:
        super().check_parameters()
        self.check_count("degree", 1)
        self.check_flag("standardize")
        self.check_clip()

    def learn(self, x: np.ndarray, weights: np.ndarray, name: str) -> dict[str, Any]:
        limits = {}
        if self.clip > 0:
            low, high = clipped_range(*distinct_values(x, weights), self.clip)
            x, limits = np.clip(x, low, high), {"low": low, "high": high}
        if not self.standardize:
            return {"center": 0.0, "spread": 1.0} | limits
        low, high = x.min(), x.max()
        if ((x == low) | (x == high)).all():
            center, spread = low / 2 + high / 2, high / 2 - low / 2
        else:
            center = np.average(x, weights=weights)
            spread = np.sqrt(np.average((x - center) ** 2, weights=weights))
        spread = float(spread) if spread > 0 else 1.0
        return {"center": float(center), "spread": spread} | limits

    def evaluate(
        self, x: np.ndarray, name: str, center: float, spread: float, **limits: float
    ) -> np.ndarray:
        if limits:
            x = np.clip(x, limits["low"], limits["high"])
        return ((x - center) / spread)[:, None] ** np.arange(1, self.degree + 1)

    def function_names(self, name: str, **learned: Any) -> list[str]:
        return [name, *(f"{name}^{power}" for power in range(2, self.degree + 1))]

    def affine(self, center: float, spread: float, **limits: float) -> tuple[float, float] | None:
        return (center, spread) if self.degree == 1 and not limits else None

    def units(
        self, n: int, exponent: int, center: float, spread: float, **limits: float
    ) -> np.ndarray:
        # ((x - c) / b)^j = sum_i binomial(j, i) (-c / b)^(j - i) b^-i x^i, b in the units of x.
        units, spread_in_units = np.zeros((n, n + 1)), np.ldexp(spread, exponent)
        with np.errstate(over="ignore"):  # x^2 of a column of 1e200 has a weight of 0
            for j in range(1, n + 1):
                for i in range(j + 1):
                    power = (-center / spread) ** (j - i) / spread_in_units**i
                    units[j - 1, i] = math.comb(j, i) * power
        return units


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

    def check_parameters(self) -> None:
        super().check_parameters()
        self.check_flag("constant")
        is_list = isinstance(self.functions, Sequence) and not isinstance(self.functions, str)
        self.check_parameter("functions", is_list, "a list of functions", TypeError)
        self.check_parameter("functions", len(self.functions) > 0, "at least one function")
        for j, function in enumerate(self.functions):
            if not callable(function):
                raise TypeError(f"functions[{j}] of Basis must be a function, got {function!r}.")

    def learn(self, x: np.ndarray, weights: np.ndarray, name: str) -> dict[str, Any]:
        self.evaluate(x, name)
        return {}

    def evaluate(self, x: np.ndarray, name: str) -> np.ndarray:
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

    def function_names(self, name: str) -> list[str]:
        return [f"{_function_name(g, j)}({name})" for j, g in enumerate(self.functions)]

    def plain_parameters(self) -> dict[str, Any]:
        names = [_function_name(g, j) for j, g in enumerate(self.functions)]
        return super().plain_parameters() | {"functions": names}


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
    def is_relative(self) -> bool:
        return self.period is None

    def check_parameters(self) -> None:
        super().check_parameters()
        self.check_count("n_frequencies", 1)
        if self.period is not None:
            self.check_positive("period")

    def learn(self, x: np.ndarray, weights: np.ndarray, name: str) -> dict[str, Any]:
        period = (float(np.ptp(x)) or 1.0) if self.period is None else float(self.period)
        return {"period": period}

    def evaluate(self, x: np.ndarray, name: str, period: float) -> np.ndarray:
        # Whole periods are taken off first, which is exact: 1e300 has a phase, too.
        phases = 2 * np.pi * (np.fmod(x, period) / period)
        angles = np.outer(phases, np.arange(1, self.n_frequencies + 1))
        return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(x), -1)

    def function_names(self, name: str, **learned: Any) -> list[str]:
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

    def check_parameters(self) -> None:
        super().check_parameters()
        self.check_count("degree", 1)

    @property
    def is_relative(self) -> bool:
        return True

    def learn(self, x: np.ndarray, weights: np.ndarray, name: str) -> dict[str, Any]:
        return {"low": float(x.min()), "high": float(x.max())}

    def evaluate(self, x: np.ndarray, name: str, low: float, high: float) -> np.ndarray:
        spread = high / 2 - low / 2
        t = (np.clip(x, low, high) - low) / spread - 1 if spread > 0 else np.zeros_like(x)
        values = np.polynomial.legendre.legvander(t, self.degree)[:, 1:]
        return values * np.sqrt(2 * np.arange(1, self.degree + 1) + 1)

    def function_names(self, name: str, **learned: Any) -> list[str]:
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

    def check_parameters(self) -> None:
        super().check_parameters()
        self.check_count("degree", 0)
        # Two knots of degree 0 are one constant, which is in slot 0 already.
        self.check_count("n_knots", 2 if self.degree else 3)
        is_known = isinstance(self.knots, str) and self.knots in ("quantile", "uniform")
        self.check_parameter("knots", is_known, "'quantile' or 'uniform'")

    @property
    def is_relative(self) -> bool:
        return True

    def learn(self, x: np.ndarray, weights: np.ndarray, name: str) -> dict[str, Any]:
        low, high = float(x.min()), float(x.max())
        if low == high:  # any range that starts there will do
            x = np.array([low, low + max(1.0, abs(low))])
        spline = SplineTransformer(self.n_knots, self.degree, knots=self.knots)
        knots = spline.fit(x[:, None]).bsplines_[0].t
        return {"low": low, "high": high, "positions": knots.tolist()}

    def evaluate(
        self, x: np.ndarray, name: str, low: float, high: float, positions: list[float]
    ) -> np.ndarray:
        x, t = np.clip(x, low, high), np.array(positions)
        # The splines sum to 1, so that one of them is redundant next to the constant.
        return BSpline(t, np.eye(len(t) - self.degree - 1), self.degree)(x)[:, :-1]

    def function_names(self, name: str, positions: list[float], **learned: Any) -> list[str]:
        return [f"B{j + 1}({name})" for j in range(len(positions) - self.degree - 2)]
