"""Which functions of a column a model uses: from a straight line to rough curves."""

from dataclasses import dataclass

import numpy as np

from ..data.modes import Modes


@dataclass(frozen=True)
class Basis:
    """Some functions of each curve, the smooth ones first, and their scales.

    Function j = 1, 2, .. of a curve is multiplied by ``j^-power``, so that the penalty |W|^2 weighs
    it by ``j^(2 power)``: the larger the power, the smoother the curves. Other modes stay as they
    are.

    Parameters
    ----------
    name : str
    power : float
    n_functions : int, optional
        How many functions each curve has; by default all.
    """

    name: str
    power: float
    n_functions: int | None = None

    def scales(self, modes: Modes) -> list[np.ndarray | None]:
        """Return the scales of the functions of each curve, None for other modes."""
        most = max(modes.shape) if self.n_functions is None else self.n_functions
        return [
            np.arange(1.0, min(n - 1, most) + 1) ** -self.power if is_curve else None
            for n, is_curve in zip(modes.shape, modes.is_curve, strict=True)
        ]

    def modes(self, modes: Modes, order_scale: float = 1.0) -> Modes:
        """Return the modes of batches with these functions at an order scale."""
        if modes.is_curve.any():
            modes = modes.with_functions(self.scales(modes))
        return modes if order_scale == 1 else modes.scaled(order_scale)


LINEAR = Basis("linear", 0.0, 1)  # each column itself
SMOOTH = Basis("smooth", 1.0)
ROUGH = Basis("rough", 0.5)
FEW = Basis("few", 0.5, 8)  # few functions: smoother than any power of all
SEARCHED = LINEAR, SMOOTH, ROUGH, FEW
ALL_FUNCTIONS = Basis("all", 0.0)  # as they are


def has_curves(modes: Modes) -> bool:
    """Return whether there are curves with more than one function, so that bases differ."""
    return bool((modes.is_curve & (np.array(modes.shape) > 2)).any())
