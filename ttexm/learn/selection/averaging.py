"""Averages instead of choices: weights of models that are about equally good."""

import numpy as np
from scipy import optimize

from ..losses import Loss
from .candidate import Candidate
from .plan import PLAN, SearchPlan


def best_of_levels(candidates: list[Candidate], plan: SearchPlan = PLAN) -> list[Candidate]:
    """Return the best candidate of each level that is not clearly worse than the best of all.

    It must be within the plan's number of standard errors, see `is_within`. Where ranks add up to
    more than the plan allows, the worse ones are left out. All candidates were tried on the same
    folds. The best of all is first.
    """
    levels: dict[tuple, Candidate] = {}
    for candidate in candidates:
        known = levels.get(candidate.level)
        if known is None or candidate.score < known.score:
            levels[candidate.level] = candidate
    best, *others = sorted(levels.values(), key=lambda candidate: candidate.score)
    members, rank = [best], best.rank
    for candidate in others:
        fits = candidate.rank == 0 or rank + candidate.rank <= plan.most_rank
        if fits and is_within(candidate, best, plan.as_good):
            members.append(candidate)
            rank += candidate.rank
    return members


def is_within(candidate: Candidate, best: Candidate, n_errors: float) -> bool:
    """Return whether a loss is larger by at most some standard errors of the paired difference."""
    mean, error = paired_difference(candidate, best)
    return mean <= n_errors * error


def paired_difference(candidate: Candidate, other: Candidate) -> tuple[float, float]:
    """Return by how much the loss of a candidate is larger, and the standard error of that."""
    weights = np.concatenate(candidate.weights)
    n = weights.sum()
    weights = weights / n
    with np.errstate(invalid="ignore"):
        worse = np.concatenate(candidate.losses) - np.concatenate(other.losses)
        mean = float(weights @ worse)
        return mean, float(np.sqrt(weights @ (worse - mean) ** 2 / n))


def average_weights(
    members: list[Candidate], y: np.ndarray, loss: Loss, plan: SearchPlan = PLAN
) -> np.ndarray:
    """Return the weights, at least 0 and of sum 1, of an average of raw predictions.

    They minimise the loss on rows that the members were not trained on, plus a penalty that draws
    them towards equal weights.

    Parameters
    ----------
    members : list of Candidate
    y : array
        Targets of the rows of all folds that the members were tried on, fold by fold.
    loss : Loss
    plan : SearchPlan
    """
    n_members = len(members)
    equal = np.full(n_members, 1 / n_members)
    F = np.stack([np.concatenate(member.predictions) for member in members])
    if n_members == 1 or not np.isfinite(F).all():
        return np.eye(n_members)[0]
    weights = np.concatenate(members[0].weights)
    shares = (weights / weights.sum()).reshape(-1, *[1] * (y.ndim - 1))
    # In units of the loss itself: how exact the minimum is depends on the size of numbers.
    size = abs(np.mean([member.score for member in members])) or 1.0
    shares, ridge = shares / size, plan.shrinkage / float(weights.sum())

    def value(a):
        f = np.tensordot(a, F, 1)
        g = shares * loss.derivative(y, f)
        losses = loss.value(y, f)
        losses = losses if losses.ndim == 1 else losses.sum(axis=1)
        slope = np.array([np.sum(g * one) for one in F]) + ridge * (a - equal)
        total = shares.reshape(-1) @ losses + 0.5 * ridge * np.sum((a - equal) ** 2)
        return float(total), slope

    sums_to_one = {"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like}
    found = optimize.minimize(
        value, equal, jac=True, method="SLSQP", bounds=[(0, 1)] * n_members,
        constraints=sums_to_one,
    )  # fmt: skip
    a = np.where(found.x > plan.least_weight, found.x, 0)
    return a / a.sum() if np.isfinite(a).all() and a.any() else np.eye(n_members)[0]
