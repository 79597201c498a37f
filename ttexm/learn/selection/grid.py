"""The places that the search can go to: penalties, order scales and ranks."""

import math
from dataclasses import dataclass

import numpy as np

from ..bases import Basis
from .candidate import Candidate
from .plan import PLAN, SearchPlan


@dataclass(frozen=True)
class Given:
    """Settings that are not searched for; None for those that are.

    Parameters
    ----------
    rank : int, optional
    total_alpha : float, optional
        alpha times the number of rows.
    order_scale : float, optional
    """

    rank: int | None = None
    total_alpha: float | None = None
    order_scale: float | None = None


NOTHING = Given()


class Grid:
    """Penalties, order scales and ranks, each from small to large; a place is a position in each.

    Parameters
    ----------
    given : Given
    n_rows : int
        Of all rows.
    n_outputs : int
    largest_ranks : dict of Basis to float, optional
        The largest rank that tensors of a basis can have, see `largest_rank`.
    plan : SearchPlan
    """

    def __init__(
        self,
        given: Given,
        n_rows: int,
        n_outputs: int,
        largest_ranks: dict[Basis, float] | None = None,
        plan: SearchPlan = PLAN,
    ):
        self.given = given
        # With a given alpha the ridge follows from the order scale.
        self.ridges = plan.ridges if given.total_alpha is None else (None,)
        self.scales = plan.order_scales if given.order_scale is None else (given.order_scale,)
        self.ranks = possible_ranks(given, n_rows, n_outputs, plan)
        self._largest_ranks = {} if given.rank or not largest_ranks else largest_ranks

    def is_place(self, ridge: int, scale: int, rank: int = 0) -> bool:
        sizes = len(self.ridges), len(self.scales), len(self.ranks)
        return all(0 <= at < n for at, n in zip((ridge, scale, rank), sizes, strict=True))

    def ridge(self, at: int, order_scale: float) -> float:
        """Return the penalty at a position, for an order scale."""
        total = self.given.total_alpha
        return self.ridges[at] if total is None else total / order_scale**2

    def rank(self, basis: Basis, at: int) -> int:
        """Return the rank at a position, or the largest one that a basis has."""
        return int(min(self.ranks[at], self._largest_ranks.get(basis, math.inf)))

    def nearest(self, candidate: Candidate) -> tuple[int, int]:
        """Return the positions of the penalty and the order scale of a candidate."""
        return self.nearest_ridge(candidate.ridge), self.nearest_scale(candidate.order_scale)

    def nearest_ridge(self, ridge: float) -> int:
        return 0 if self.given.total_alpha is not None else _nearest(self.ridges, ridge)

    def nearest_scale(self, order_scale: float) -> int:
        return _nearest(self.scales, order_scale)

    def nearest_rank(self, rank: int) -> int:
        return _nearest(self.ranks, rank)

    def ridge_above(self, ridge: float) -> float:
        """Return the next larger penalty, or the largest one."""
        if self.given.total_alpha is not None:
            return ridge
        return self.ridges[min(self.nearest_ridge(ridge) + 1, len(self.ridges) - 1)]


def _nearest(values, wanted):
    """The position of the value that is nearest on a logarithmic scale."""
    return int(np.argmin(np.abs(np.log(np.array(values) / wanted))))


def possible_ranks(
    given: Given, n_rows: int, n_outputs: int, plan: SearchPlan = PLAN
) -> tuple[int, ...]:
    """Return the ranks to try: the given one, or those that the rows and outputs allow."""
    if given.rank is not None:
        return (given.rank,)
    # Additive models of several outputs have one more, and are saddles: training has to leave them.
    least = n_outputs + 2 if n_outputs > 1 else 2
    highest = max(plan.least_rank, n_rows // plan.rows_per_rank)
    return tuple(sorted({max(least, min(rank, highest)) for rank in plan.ranks}))


def largest_rank(shape: tuple[int, ...]) -> float:
    """Return the largest TT-rank of all tensors of a shape: that of the best bond.

    A bond has at most as many as there are entries on either side of it.
    """
    sizes = np.array(shape, float)
    left, right = np.cumprod(sizes)[:-1], np.cumprod(sizes[::-1])[-2::-1]
    return float(np.minimum(left, right).max(initial=1))
