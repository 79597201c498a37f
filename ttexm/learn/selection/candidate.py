"""Candidates of the search: settings of a fit, with the validation losses that they had."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..bases import LINEAR, Basis


@dataclass(frozen=True)
class Candidate:
    """Settings, and what models of them predicted for rows that they were not trained on.

    Parameters
    ----------
    basis : Basis
        Functions of the columns.
    ridge : float
        The penalty as the linear model has it, ``alpha = ridge s^2 / N`` for N rows and the order
        scale s. A weight of order j is penalised by ``ridge s^(2 - 2 j) / N``: for j = 1 the same
        at all order scales.
    order_scale : float
    rank : int
        0 for an additive model, which has no interactions.
    n_iter : int
        Sweeps.
    is_screened : bool
        Whether training starts from screened products.
    predictions, losses, weights : tuples of arrays
        Raw predictions, losses and weights of the rows of each fold that was tried.
    """

    basis: Basis
    ridge: float
    order_scale: float = 1.0
    rank: int = 0
    n_iter: int = 0
    is_screened: bool = False
    predictions: tuple[np.ndarray, ...] = field(default=(), repr=False, compare=False)
    losses: tuple[np.ndarray, ...] = field(default=(), repr=False, compare=False)
    weights: tuple[np.ndarray, ...] = field(default=(), repr=False, compare=False)

    @property
    def is_additive(self) -> bool:
        return self.rank == 0

    @property
    def is_linear(self) -> bool:
        return self.is_additive and self.basis == LINEAR

    @property
    def level(self) -> tuple:
        """What kind of model it is: an average takes the best one of each."""
        return self.is_additive, self.basis, self.is_screened

    @property
    def n_folds(self) -> int:
        return len(self.losses)

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """The mean loss of each fold."""
        with np.errstate(over="ignore"):
            return tuple(
                float(np.average(part, weights=weights))
                for part, weights in zip(self.losses, self.weights, strict=True)
            )

    @cached_property
    def score(self) -> float:
        """The mean loss of all rows that it was tried on; infinite if there are none.

        To nine digits, so that rounding errors do not decide between equals.
        """
        if not self.losses:
            return np.inf
        totals = [float(weights.sum()) for weights in self.weights]
        return float(f"{np.average(self.scores, weights=totals):.9g}")

    def alpha(self, n_rows: float) -> float:
        return self.ridge * self.order_scale**2 / n_rows

    def record(self, n_rows: float, weight: float = 1.0) -> "Selected":
        """Return the settings for N rows as users see them."""
        return Selected(
            self.basis.name, max(self.rank, 2 if self.is_additive else 1), self.alpha(n_rows),
            self.order_scale, self.n_iter, self.is_linear, self.is_additive, self.is_screened,
            weight, self.score if self.losses else math.nan, self.scores,
        )  # fmt: skip


@dataclass(frozen=True)
class Request:
    """A candidate to try.

    Parameters
    ----------
    candidate : Candidate
        Its number of sweeps is the largest that is tried.
    n_folds : int
        It is tried on the first folds.
    fewest : int
        The smallest number of sweeps.
    """

    candidate: Candidate
    n_folds: int
    fewest: int = 0


@dataclass(frozen=True)
class Selected:
    """Settings of a model as users see them, in `selected_`, `averaged_` and `search_results_`.

    Attributes
    ----------
    basis : {"linear", "smooth", "rough", "few"}
        Which functions of numeric columns it uses, see `ttexm.learn.bases`.
    rank : int
    alpha : float
        Weight of the penalty, for all rows of the fit.
    order_scale : float
    n_iter : int
        Sweeps that were best in validation, or the most there could be.
    is_linear : bool
        Whether it is the linear model.
    is_additive : bool
        Whether it has no interactions: a sum of functions of single columns.
    is_screened : bool
        Whether training started from products that screening had found.
    weight : float
        Its share of the average that is the fitted model.
    loss : float
        Mean validation loss; NaN if nothing was validated.
    losses : tuple of float
        The same for each fold.
    """

    basis: str
    rank: int
    alpha: float
    order_scale: float
    n_iter: int
    is_linear: bool
    is_additive: bool
    is_screened: bool
    weight: float = 1.0
    loss: float = math.nan
    losses: tuple[float, ...] = ()
