"""Candidates of the search: settings of a fit, with the validation losses that they had."""

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Candidate:
    """Settings, and the validation losses they had.

    Parameters
    ----------
    ridge : float
        The penalty as the linear model has it, ``alpha = ridge s^2 / N`` for N rows and the order
        scale s. A weight of order j is penalised by ``ridge s^(2 - 2 j) / N``: for j = 1 the same
        at all order scales.
    order_scale : float
    rank : int
    n_iter : int
        Sweeps.
    is_linear : bool
        Whether it is the linear model, without any training.
    is_screened : bool
        Whether training starts from screened products.
    losses : tuple of arrays
        Of the rows of each fold that the settings were tried on.
    scores : tuple of float
        Their weighted means.
    shares : tuple of float
        Weights of these folds.
    """

    ridge: float
    order_scale: float
    rank: int
    n_iter: int
    is_linear: bool = False
    is_screened: bool = False
    scores: tuple[float, ...] = ()
    shares: tuple[float, ...] = field(default=(), repr=False)
    losses: tuple[np.ndarray, ...] = field(default=(), repr=False, compare=False)

    def alpha(self, n_rows: float) -> float:
        return self.ridge * self.order_scale**2 / n_rows

    @property
    def score(self) -> float:
        """The mean loss of all rows that the settings were tried on; infinite if there are none."""
        return float(np.average(self.scores, weights=self.shares)) if self.scores else np.inf

    def record(self, n_rows: float) -> "Selected":
        """Return the settings for N rows as users see them."""
        return Selected(
            self.rank, self.alpha(n_rows), self.order_scale, self.n_iter, self.is_linear,
            self.is_screened, self.score if self.scores else math.nan, self.scores,
        )  # fmt: skip


@dataclass(frozen=True)
class Selected:
    """Settings of a fit as users see them, in `selected_` and `search_results_`.

    Attributes
    ----------
    rank : int
    alpha : float
        Weight of the penalty, for all rows of the fit.
    order_scale : float
    n_iter : int
        Sweeps that were best in validation, or the most there could be.
    is_linear : bool
        Whether it is the linear model.
    is_screened : bool
        Whether training started from products that screening had found.
    loss : float
        Mean validation loss; NaN if nothing was validated.
    losses : tuple of float
        The same for each fold.
    """

    rank: int
    alpha: float
    order_scale: float
    n_iter: int
    is_linear: bool
    is_screened: bool
    loss: float = math.nan
    losses: tuple[float, ...] = ()
