"""Maps that apply functions to columns of numbers, and what they leave of a column."""

from abc import abstractmethod
from typing import Any

import numpy as np

from ..data.columns import Column
from ..data.modes import Numeric, Vector
from .columns import FittedColumn
from .feature_map import ColumnMap

N_POINTS = 65  # at which functions are shown
TINY, HUGE = 1e-130, 1e130  # between them squares are normal floats, also of last digits


class FunctionMap(ColumnMap):
    """Base of maps that apply functions to columns of numbers.

    A map of your own has to say what it learns of a column (`learn`, if anything), what its
    functions are (`evaluate`) and what they are called (`function_names`).
    """

    constant = True

    @property
    def is_relative(self) -> bool:
        """Whether the functions do not change if the column is multiplied by a number.

        Columns of extreme size are then divided by a power of two first.
        """
        return False

    def learn(self, x: np.ndarray, weights: np.ndarray, name: str) -> dict[str, Any]:
        """Return what has to be known of a column, in plain numbers and lists: its range, say.

        Parameters
        ----------
        x : array (m,)
            The known values, at least one.
        weights : array (m,)
            Weights of their rows.
        name : str
            Of the column, for messages.

        Returns
        -------
        dict
            Given to the other methods as keyword arguments.
        """
        return {}

    @abstractmethod
    def evaluate(self, x: np.ndarray, name: str, **learned: Any) -> np.ndarray:
        """Return the functions at x, of shape (m, number of functions), without the constant."""

    @abstractmethod
    def function_names(self, name: str, **learned: Any) -> list[str]:
        """Return the names of the functions of a column, without the constant."""

    def affine(self, **learned: Any) -> tuple[float, float] | None:
        """Return (a, b) if the only function is ``(x - a) / b``, else None."""
        return None

    def units(self, n: int, exponent: int, **learned: Any) -> np.ndarray:
        """Return the functions as combinations of those that they are named after.

        Parameters
        ----------
        n : int
            The number of functions.
        exponent : int
            They are those of ``2^-exponent x``.

        Returns
        -------
        array (n, n + 1)
            Row j holds the coefficients of function j in the constant and the named functions. By
            default, functions are what their names say.
        """
        return np.eye(n, n + 1, 1)

    def plain_parameters(self) -> dict[str, Any]:
        """Return the constructor's parameters, in plain numbers and strings, without the scale."""
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params(deep=False).items()
            if name != "order_scale"
        }

    def fit_column(self, column: Column, weights: np.ndarray, scale: float) -> "FunctionColumn":
        x = column.numbers()
        known = ~np.isnan(x)
        x, weights = (x[known], weights[known]) if known.any() else (np.zeros(1), np.ones(1))
        exponent = _exponent(x) if self.is_relative else 0
        learned = self.learn(np.ldexp(x, -exponent), weights, column.name)
        span = float(x.min()), float(x.max())
        return FunctionColumn(column.name, self, learned, scale, exponent, span)


def _exponent(x):
    """The power of two to divide by, lest squares overflow or vanish; 0 for most columns."""
    size = np.abs(x).max()
    return 0 if size == 0 or TINY < size < HUGE else int(np.frexp(size)[1])


class FunctionColumn(FittedColumn):
    """A column of numbers under some functions, with or without the constant in front.

    Parameters
    ----------
    name : str
    basis : FunctionMap
        The functions.
    learned : dict of str to numbers or lists of them
        What the basis has learned of the column.
    scale : float
        Multiplies every function but the constant.
    exponent : int
        The functions are those of ``2^-exponent x``.
    span : (float, float)
        The smallest and the largest value in training.
    """

    def __init__(
        self,
        name: str,
        basis: "FunctionMap",
        learned: dict,
        scale: float,
        exponent: int,
        span: tuple[float, float],
    ):
        names = ["1"] if basis.constant else []
        # Without a constant slot there is no order of interaction to scale.
        super().__init__(
            name, [*names, *basis.function_names(name, **learned)], scale if basis.constant else 1.0
        )
        self.kind = Numeric() if basis.constant else Vector()
        self.basis, self.learned, self.exponent, self.span = basis, learned, exponent, span

    def stored(self, column: Column) -> np.ndarray:
        x = column.numbers()
        missing = np.isnan(x)
        out = np.zeros((len(x), len(self.slot_names) - self.has_constant))
        if missing.any() and not self.has_constant:
            raise ValueError(
                f"Column {column.name!r} has a missing value in row {missing.argmax()}, and its "
                f"basis has no constant to fall back on; use constant=True, or fill it in."
            )
        if not missing.all():
            known = x[~missing]
            if self.exponent:
                known = np.ldexp(known, -self.exponent)
            out[~missing] = self.basis.evaluate(known, column.name, **self.learned)
        out = out * self.scale
        if not np.isfinite(out).all():
            row, j = np.argwhere(~np.isfinite(out))[0]
            raise ValueError(
                f"Column {column.name!r} must have finite features, but "
                f"{self.slot_names[self.has_constant + j]} is {out[row, j]} at {x[row]:g} in row "
                f"{row}. Scale the column, or use another feature map than "
                f"{type(self.basis).__name__}."
            )
        return out

    def affine(self) -> tuple[float, float] | None:
        if self.exponent or self.scale != 1 or not self.has_constant:
            return None
        return self.basis.affine(**self.learned)

    def to_user_units(self, core: np.ndarray) -> np.ndarray:
        if not self.has_constant:
            return core
        units = self.basis.units(len(self.slot_names) - 1, self.exponent, **self.learned)
        units = np.vstack([np.eye(1, len(self.slot_names)), self.scale * units])
        return np.einsum("aib,ij->ajb", core, units)

    def points(self) -> list:
        low, high = self.span
        return [low] if low == high else np.linspace(low, high, N_POINTS).tolist()

    def state(self) -> dict[str, Any]:
        return {
            "kind": "functions",
            "name": self.name,
            "map": type(self.basis).__name__,
            "parameters": self.basis.plain_parameters(),
            "learned": self.learned,
            "scale": self.scale,
            "exponent": self.exponent,
            "span": list(self.span),
        }
