"""Folds: rows to train on, and rows to validate with.

If the features of most rows occur once and some rows are repeated, the table is a sample of rows
that may come again: a copy of a row may then be validated by another one, as a new row would be.
Otherwise, where features are mostly repeated, or rows have weights of their own, rows with equal
features are in the same fold. The fold of a row depends on its values and a seed, not on its
position in the table.
"""

import numpy as np

from ...data.rows import mixed
from ..bases import Basis
from ..data import Data
from ..initialize import Additive
from .plan import PLAN, SearchPlan

MOSTLY = 0.5  # share of rows whose features occur once, in a sample of rows that may come again
WHOLE = 1e-6  # how far a number of copies may be from a whole one


class Fold:
    """Rows to train on and rows to test on, and the additive models of the former.

    Parameters
    ----------
    train, test : Data
    tolerance : float
        How exact additive models are, see `linear.fit_linear`.
    """

    def __init__(self, train: Data, test: Data, tolerance: float = PLAN.additive_tolerance):
        self.train, self.test, self.tolerance = train, test, tolerance
        self._additive: dict[tuple[Basis, float], Additive] = {}
        self._last: dict[Basis, Additive] = {}

    def additive(self, basis: Basis, ridge: float) -> Additive:
        """Return an additive model of the training part, fitted once for each penalty.

        It starts from the last one of the same basis.
        """
        if (basis, ridge) not in self._additive:
            alpha = ridge / self.train.size
            found = self.train.additive(basis, alpha, self._last.get(basis), self.tolerance)
            self._additive[basis, ridge] = self._last[basis] = found
        return self._additive[basis, ridge]

    def predict(self, model: Additive, basis: Basis) -> np.ndarray:
        """Return what an additive model predicts for the rows to test on."""
        return self.test.predict_additive(model, basis)


def make_folds(data: Data, rng: np.random.Generator, plan: SearchPlan = PLAN) -> list[Fold]:
    """Return the folds of all rows, or of some of them if there are many; classes spread evenly.

    Parameters
    ----------
    data : Data
        At least two rows with different features.
    rng : numpy.random.Generator
    plan : SearchPlan
    """
    cards = _copies(data, rng) or _groups(data, rng)
    chosen = np.argsort(cards.keys)[: rows_to_search(data, plan)]
    n_folds = plan.n_folds if len(data) <= plan.few_rows else plan.n_folds - 1
    n_folds = min(len(chosen), n_folds)
    folds = []
    for part in cards.deal(chosen, n_folds):
        rest = np.setdiff1d(chosen, part)
        folds.append(Fold(cards.take(rest), cards.take(part), plan.additive_tolerance))
    return folds


def rows_to_search(data: Data, plan: SearchPlan = PLAN) -> int:
    """Return how many rows the search looks at, at most: more of them if there are many levels.

    Settings that are best for a part of the rows are so for all, if the part has each level often.
    """
    modes = data.batch.modes
    n_levels = int(np.array(modes.shape)[modes.is_coded].sum())
    return max(plan.most_rows, min(plan.most_rows_of_levels, plan.rows_per_level * n_levels))


def hold_out(data: Data, share: float, rng: np.random.Generator) -> tuple[Data, Data]:
    """Return rows to train on, and about this share of all rows to validate with."""
    groups = _groups(data, rng)
    if len(groups) < 2:
        raise ValueError(
            "early_stopping needs rows to hold out, with other features than the rest, but all "
            "rows have the same ones; use early_stopping=False."
        )
    hands = groups.deal(np.arange(len(groups)), len(groups))
    n_test = min(len(groups) - 1, max(1, round(share * len(groups))))
    test = np.concatenate([hands[len(groups) * j // n_test] for j in range(n_test)])
    return groups.take(np.setdiff1d(np.arange(len(groups)), test)), groups.take(test)


class _Cards:
    """What is dealt out to the folds, each card with a hash and a class.

    A card stands for one or more rows, and for a part of the weight of each.
    """

    def __init__(self, data: Data, rows, card_of, weights, keys, classes):
        self.data, self.rows, self.card_of, self.weights = data, rows, card_of, weights
        self.keys, self.classes = keys, classes

    def __len__(self):
        return len(self.keys)

    def deal(self, chosen: np.ndarray, n_hands: int) -> list[np.ndarray]:
        """Deal cards out in turn, one class after the other."""
        order = chosen[np.lexsort((self.keys[chosen], self.classes[chosen]))]
        return [order[j::n_hands] for j in range(n_hands)]

    def take(self, cards: np.ndarray) -> Data:
        """Return the rows of some cards."""
        is_taken = np.zeros(len(self), bool)
        is_taken[cards] = True
        chosen = is_taken[self.card_of]
        weights = np.bincount(self.rows[chosen], self.weights[chosen], len(self.data))
        rows = np.flatnonzero(weights)
        return self.data.take(rows, weights[rows])


def _groups(data: Data, rng) -> _Cards:
    """Return a card for each group of rows with equal features, of the class it has most of."""
    keys, group_of = np.unique(data.keys, return_inverse=True)
    keys = mixed(keys ^ rng.integers(0, 2**63, dtype=np.uint64))
    weights = np.zeros((len(keys), data.classes.max() + 1))
    np.add.at(weights, (group_of, data.classes), data.weights)
    classes = weights[:, _order_of_classes(keys, weights)].argmax(axis=1)
    return _Cards(data, np.arange(len(data)), group_of, data.weights, keys, classes)


def _copies(data: Data, rng) -> _Cards | None:
    """Return a card for each copy of a row, if most features occur once and some rows are repeated.

    Weights that are no whole numbers of copies, within each class, count as weights of one row.
    """
    units = np.full(data.classes.max() + 1, np.inf)
    np.minimum.at(units, data.classes, data.weights)
    copies = data.weights / units[data.classes]
    is_whole = np.abs(copies - np.round(copies)) < WHOLE
    _, group_of = np.unique(data.keys, return_inverse=True)
    is_alone = np.bincount(group_of, copies)[group_of] < 1.5
    if not is_whole.all() or (copies < 1.5).all() or is_alone.mean() < MOSTLY:
        return None
    copies = np.round(copies).astype(int)
    rows = np.repeat(np.arange(len(data)), copies)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    # Rows of equal features may have different targets, and are sorted by these.
    order = np.argsort(data.keys, kind="stable")
    place = np.empty(len(data), int)
    place[order] = np.arange(len(data)) - np.searchsorted(data.keys[order], data.keys[order])
    salt = rng.integers(0, 2**63, dtype=np.uint64)
    salted = mixed(data.keys ^ salt) + place.astype(np.uint64)
    keys = mixed(mixed(salted)[rows] + number.astype(np.uint64))
    weights = np.zeros((len(keys), data.classes.max() + 1))
    weights[np.arange(len(keys)), data.classes[rows]] = 1
    classes = np.argsort(_order_of_classes(keys, weights))[data.classes[rows]]
    return _Cards(data, rows, np.arange(len(rows)), units[data.classes[rows]], keys, classes)


def _order_of_classes(keys, weights):
    """Return the classes in the order of their size, not of their names.

    Those of equal size are in the order of their smallest key.
    """
    n_classes = weights.shape[1]
    smallest = [keys[weights[:, j] > 0].min() for j in range(n_classes)]
    sizes = [float(f"{size:.9g}") for size in weights.sum(axis=0)]
    return np.lexsort((smallest, sizes))
