"""Folds: rows to train on, and rows to validate with.

Rows with equal features are in the same fold, so that no row is validated by a copy of itself. The
fold of a row depends on its values and a seed, not on its position in the table.
"""

import numpy as np

from ...data.rows import mixed
from ..data import Data
from ..initialize import Additive
from .plan import PLAN, SearchPlan


class Fold:
    """Rows to train on and rows to test on, and the linear models of the former.

    Parameters
    ----------
    train, test : Data
    """

    def __init__(self, train: Data, test: Data):
        self.train, self.test = train, test
        self._linear: dict[float, Additive] = {}

    def linear(self, ridge: float) -> Additive:
        """Return the linear model of the training part, fitted once for each penalty."""
        if ridge not in self._linear:
            self._linear[ridge] = self.train.linear(ridge / self.train.size)
        return self._linear[ridge]


def make_folds(data: Data, rng: np.random.Generator, plan: SearchPlan = PLAN) -> list[Fold]:
    """Return all folds if there are few rows, one if there are many; classes are spread evenly.

    Parameters
    ----------
    data : Data
        At least two rows with different features.
    rng : numpy.random.Generator
    plan : SearchPlan
    """
    groups = _Groups(data, rng)
    chosen = np.argsort(groups.keys)[: plan.most_rows]
    n_folds = plan.n_folds if len(data) <= plan.few_rows else plan.n_folds - 1
    n_folds = min(len(chosen), n_folds)
    folds = []
    for part in groups.deal(chosen, n_folds)[: n_folds if len(chosen) == len(groups) else 1]:
        rest = np.setdiff1d(chosen, part)
        folds.append(Fold(groups.take(rest), groups.take(part)))
    return folds


def hold_out(data: Data, share: float, rng: np.random.Generator) -> tuple[Data, Data]:
    """Return rows to train on, and about this share of all rows to validate with."""
    groups = _Groups(data, rng)
    if len(groups) < 2:
        raise ValueError(
            "early_stopping needs rows to hold out, with other features than the rest, but all "
            "rows have the same ones; use early_stopping=False."
        )
    hands = groups.deal(np.arange(len(groups)), len(groups))
    n_test = min(len(groups) - 1, max(1, round(share * len(groups))))
    test = np.concatenate([hands[len(groups) * j // n_test] for j in range(n_test)])
    return groups.take(np.setdiff1d(np.arange(len(groups)), test)), groups.take(test)


class _Groups:
    """Groups of rows with equal features, each with the class that has most of its weight."""

    def __init__(self, data: Data, rng):
        self.data = data
        keys, self.group_of = np.unique(data.keys, return_inverse=True)
        self.keys = mixed(keys ^ rng.integers(0, 2**63, dtype=np.uint64))
        n_classes = data.classes.max() + 1
        weights = np.zeros((len(keys), n_classes))
        np.add.at(weights, (self.group_of, data.classes), data.weights)
        # Classes in the order of their size, not of their names; those of equal size in the order
        # of their smallest key.
        smallest = [self.keys[weights[:, j] > 0].min() for j in range(n_classes)]
        sizes = [float(f"{size:.9g}") for size in weights.sum(axis=0)]
        order = np.lexsort((smallest, sizes))
        self.classes = weights[:, order].argmax(axis=1)

    def __len__(self):
        return len(self.keys)

    def deal(self, chosen: np.ndarray, n_hands: int) -> list[np.ndarray]:
        """Deal groups out in turn, one class after the other."""
        order = chosen[np.lexsort((self.keys[chosen], self.classes[chosen]))]
        return [order[j::n_hands] for j in range(n_hands)]

    def take(self, groups: np.ndarray) -> Data:
        """Return the rows of some groups."""
        is_taken = np.zeros(len(self), bool)
        is_taken[groups] = True
        return self.data.take(np.flatnonzero(is_taken[self.group_of]))
