"""Parts of the rows: to train on, and to validate with.

Rows with equal features stay together, so that no part knows the answers of another. Which part
they are in depends on their contents and a seed, not on their order.
"""

from dataclasses import dataclass, field

import numpy as np

from .initialize import Additive
from .problem import Problem
from .rows import mixed

MOST_ROWS, FEW_ROWS = 20_000, 5_000
N_FOLDS = 4  # of few rows


@dataclass
class Fold:
    """A split of the rows, with the linear models of its training part."""

    train: Problem
    test: Problem
    _linear: dict = field(default_factory=dict)

    def linear(self, penalty: float) -> Additive:
        if penalty not in self._linear:
            self._linear[penalty] = self.train.linear(penalty / self.train.size)
        return self._linear[penalty]


def make_folds(problem: Problem, rng: np.random.Generator) -> list[Fold]:
    """Few rows in several folds, many in one; each class is spread over them.

    Parameters
    ----------
    problem : Problem
        Of at least two rows with different features.
    """
    groups = _Groups(problem, rng)
    chosen = np.argsort(groups.keys)[:MOST_ROWS]
    n_folds = min(len(chosen), N_FOLDS if len(problem) <= FEW_ROWS else N_FOLDS - 1)
    folds = []
    for part in groups.deal(chosen, n_folds)[: n_folds if len(chosen) == len(groups) else 1]:
        rest = np.setdiff1d(chosen, part)
        folds.append(Fold(groups.take(rest), groups.take(part)))
    return folds


def hold_out(problem: Problem, share: float, rng: np.random.Generator) -> tuple[Problem, Problem]:
    """Return a part to train on, and one of about this share of the rows to validate with."""
    groups = _Groups(problem, rng)
    if len(groups) < 2:
        raise ValueError(
            "early_stopping needs rows to hold out, and all rows have the same features: there is "
            "but one; use early_stopping=False."
        )
    hands = groups.deal(np.arange(len(groups)), len(groups))
    n_test = min(len(groups) - 1, max(1, round(share * len(groups))))
    test = np.concatenate([hands[len(groups) * j // n_test] for j in range(n_test)])
    return groups.take(np.setdiff1d(np.arange(len(groups)), test)), groups.take(test)


class _Groups:
    """Rows with equal features, and the class that most of each group's weight is in."""

    def __init__(self, problem: Problem, rng):
        self.problem = problem
        keys, self.group_of = np.unique(problem.keys, return_inverse=True)
        self.keys = mixed(keys ^ rng.integers(0, 2**63, dtype=np.uint64))
        n_classes = problem.classes.max() + 1
        weights = np.zeros((len(keys), n_classes))
        np.add.at(weights, (self.group_of, problem.classes), problem.weights)
        # Classes by their size, not by their names: of equal ones, by the smallest key of theirs.
        smallest = [self.keys[weights[:, j] > 0].min() for j in range(n_classes)]
        sizes = [float(f"{size:.9g}") for size in weights.sum(axis=0)]
        order = np.lexsort((smallest, sizes))
        self.classes = weights[:, order].argmax(axis=1)

    def __len__(self):
        return len(self.keys)

    def deal(self, chosen: np.ndarray, n_hands: int) -> list[np.ndarray]:
        """Deal groups out, class after class, like cards."""
        order = chosen[np.lexsort((self.keys[chosen], self.classes[chosen]))]
        return [order[j::n_hands] for j in range(n_hands)]

    def take(self, groups: np.ndarray) -> Problem:
        """The problem of the rows of some groups."""
        is_taken = np.zeros(len(self), bool)
        is_taken[groups] = True
        return self.problem.take(np.flatnonzero(is_taken[self.group_of]))
