"""Averages: who takes part, and weights that are as good as any on a fine grid of the simplex."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import seeds

from ttexm.learn.bases import FEW, LINEAR, ROUGH, SMOOTH
from ttexm.learn.losses import Logistic, Poisson, Softmax, Squared
from ttexm.learn.selection.averaging import average_weights, best_of_levels, paired_difference
from ttexm.learn.selection.candidate import Candidate
from ttexm.learn.selection.plan import PLAN

LOSSES = Squared(), Logistic(), Softmax(), Poisson()
FREE = replace(PLAN, shrinkage=0.0, least_weight=0.0)


def judged(losses, basis=LINEAR, rank=0, weights=None, is_screened=False, ridge=1.0):
    """A candidate with some losses, in two folds."""
    weights = np.ones(len(losses)) if weights is None else weights
    cut = len(losses) // 3
    return Candidate(
        basis, ridge, rank=rank, is_screened=is_screened,
        losses=(losses[:cut], losses[cut:]), weights=(weights[:cut], weights[cut:]),
    )  # fmt: skip


def member(f, y, loss, weights):
    """A candidate that predicts f, in two folds."""
    losses = loss.value(y, f).reshape(len(y), -1).sum(axis=1)
    cut = len(y) // 3
    halves = [(part[:cut], part[cut:]) for part in (f, losses, weights)]
    return Candidate(LINEAR, 1.0, 1.0, 2, 1, False, *halves)


# -- who takes part -------------------------------------------------------------------------------


def test_the_best_of_each_level_takes_part_the_best_of_all_first():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(100)
    levels = [(LINEAR, 0, False), (ROUGH, 0, False), (ROUGH, 4, False), (SMOOTH, 4, False),
              (LINEAR, 4, True), (LINEAR, 4, False)]  # fmt: skip
    candidates = [
        judged(1 + worse + 0.01 * j + np.roll(noise, j), *level[:2], is_screened=level[2])
        for worse in (0.02, 0.0)
        for j, level in enumerate(levels)
    ]
    members = best_of_levels([*candidates[::-1], judged(1.5 + noise, ROUGH, 8)])
    assert members[0] is min(candidates, key=lambda c: c.score)
    assert len(members) == len(levels)
    assert {m.level for m in members} == {c.level for c in candidates}
    for m in members:
        assert m.score == min(c.score for c in candidates if c.level == m.level)


@pytest.mark.parametrize("as_good", [2.0, 3.5])
def test_levels_within_some_standard_errors_take_part(as_good):
    rng = np.random.default_rng(0)
    noise, difference = rng.standard_normal((2, 400))
    difference = (difference - difference.mean()) / difference.std()
    best, plan = judged(5 + 10 * noise), replace(PLAN, as_good=as_good)
    # The standard error of the mean difference is 1 / sqrt(400), whatever the noise of both.
    for n_errors, takes_part in [(as_good - 0.1, True), (as_good + 0.1, False)]:
        other = judged(5 + 10 * noise + n_errors / 20 + difference, ROUGH)
        assert best_of_levels([other, best], plan) == ([best, other] if takes_part else [best])


@pytest.mark.parametrize(
    ("ranks", "chosen"),
    [([64, 4, 4], [64]), ([32, 16, 16], [32, 16, 16]), ([32, 48, 16, 4], [32, 16, 4]),
     ([16, 64, 0], [16, 0]), ([64, 0, 8], [64, 0]), ([80, 0], [80, 0])],
)  # fmt: skip
def test_ranks_of_members_add_up_to_so_much_at_most(ranks, chosen):
    """The better candidates come first; additive models cost nothing."""
    bases, noise = [LINEAR, ROUGH, SMOOTH, FEW], np.random.default_rng(0).standard_normal((4, 60))
    candidates = [
        judged(0.01 * j + noise[j] - noise[j].mean(), bases[j], rank)
        for j, rank in enumerate(ranks)
    ]
    members = best_of_levels(candidates[::-1], replace(PLAN, most_rank=64))
    assert [member.rank for member in members] == chosen


def test_a_level_that_is_worse_by_little_but_surely_does_not_take_part():
    losses = np.random.default_rng(0).standard_normal(60)
    assert len(best_of_levels([judged(losses), judged(losses + 1e-3, ROUGH)])) == 1
    assert len(best_of_levels([judged(losses), judged(losses, ROUGH)])) == 2


def test_infinite_losses_take_no_part():
    finite = judged(np.arange(30.0))
    broken = np.where(np.arange(30) == 7, np.inf, 0.0)
    for other in (judged(broken, ROUGH), judged(np.full(30, np.inf), ROUGH)):
        assert best_of_levels([other, finite]) == [finite]
        assert best_of_levels([other]) == [other]
        assert len(best_of_levels([other, judged(np.full(30, np.inf))])) == 1


@given(seeds, st.integers(3, 40))
def test_the_paired_difference_of_weighted_rows_is_that_of_repeated_ones(seed, m):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, m))
    counts = rng.integers(1, 6, m)
    mean, error = paired_difference(judged(a, weights=1.0 * counts), judged(b))
    difference = np.repeat(a - b, counts)
    assert_allclose(mean, difference.mean(), atol=1e-12)
    assert_allclose(error, difference.std() / np.sqrt(len(difference)), atol=1e-12)


# -- weights --------------------------------------------------------------------------------------


def problem(loss, n_members, m, rng):
    """Targets, weights, and predictions that are the truth with noise of different sizes."""
    f = rng.standard_normal((m, 3)) if isinstance(loss, Softmax) else rng.standard_normal(m)
    if isinstance(loss, Softmax):
        y = np.eye(3)[np.argmax(f + rng.gumbel(size=f.shape), axis=1)]
    elif isinstance(loss, Logistic):
        y = np.where(f + rng.logistic(size=m) > 0, 1.0, -1.0)
    elif isinstance(loss, Poisson):
        y = rng.poisson(np.exp(f)).astype(float)
    else:
        y = f + 0.3 * rng.standard_normal(m)
    noise = rng.uniform(0.2, 1.5, n_members)
    F = [f + size * rng.standard_normal(f.shape) for size in noise]
    weights = rng.uniform(0.2, 2, m)
    return y, weights, [member(one, y, loss, weights) for one in F]


def simplex(n, steps):
    """All weights of n members that are multiples of 1 / steps."""
    places = itertools.product(range(steps + 1), repeat=n - 1)
    return np.array([(*a, steps - sum(a)) for a in places if sum(a) <= steps]) / steps


def penalised_loss(a, members, y, loss, weights, plan):
    """What the weights minimise, from its definition."""
    f = sum(share * np.concatenate(one.predictions) for share, one in zip(a, members, strict=True))
    losses = loss.value(y, f).reshape(len(y), -1).sum(axis=1)
    size = abs(np.mean([one.score for one in members]))
    pull = plan.shrinkage * size / weights.sum()
    return np.average(losses, weights=weights) + pull / 2 * np.sum((np.array(a) - 1 / len(a)) ** 2)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("n_members", [2, 3])
@pytest.mark.parametrize("shrinkage", [0.0, 100.0, 1000.0])
def test_no_weights_on_a_fine_grid_are_better(loss, n_members, shrinkage):
    plan = replace(FREE, shrinkage=shrinkage)
    steps = 200 if n_members == 2 else 40
    for seed in range(4):
        y, weights, members = problem(loss, n_members, 150, np.random.default_rng(seed))
        found = average_weights(members, y, loss, plan)
        assert_allclose(found.sum(), 1)
        assert (found >= 0).all()
        rest = members, y, loss, weights, plan
        grid = simplex(n_members, steps)
        values = [penalised_loss(a, *rest) for a in grid]
        value = penalised_loss(found, *rest)
        assert value <= min(values) + 1e-7 * abs(value)
        assert np.abs(found - grid[np.argmin(values)]).max() <= 1.5 / steps


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_unit_of_the_loss_makes_no_difference(factor):
    class Scaled(Squared):
        def value(self, y, f):
            return factor * super().value(y, f)

        def derivative(self, y, f):
            return factor * super().derivative(y, f)

    rng = np.random.default_rng(0)
    y, weights, members = problem(Squared(), 3, 150, rng)
    expected = average_weights(members, y, Squared())
    assert np.abs(expected - 1 / 3).max() > 0.05
    F = [np.concatenate(one.predictions) for one in members]
    scaled = [member(f, y, Scaled(), weights) for f in F]
    assert_allclose(average_weights(scaled, y, Scaled()), expected, atol=1e-5)


def test_equal_members_have_equal_weights():
    rng = np.random.default_rng(0)
    y, _, (one, other) = problem(Squared(), 2, 150, rng)
    assert_allclose(average_weights([one] * 4, y, Squared()), 0.25)
    a = average_weights([one, other, one], y, Squared())
    assert_allclose(a[0], a[2], atol=1e-6)
    assert_allclose(average_weights([one], y, Squared()), [1.0])


def test_small_weights_are_zero_and_the_others_sum_to_one():
    rng = np.random.default_rng(0)
    f = rng.standard_normal(4000)
    y = f + 0.1 * rng.standard_normal(4000)
    good, bad = (f + size * rng.standard_normal(4000) for size in (0.05, 3.0))
    members = [member(one, y, Squared(), np.ones(4000)) for one in (good, bad)]
    free = average_weights(members, y, Squared(), replace(PLAN, least_weight=0.0))
    assert 0 < free[1] < PLAN.least_weight
    assert_array_equal(average_weights(members, y, Squared()), [1.0, 0.0])
    fine = replace(PLAN, least_weight=free[1] / 2)
    assert_array_equal(average_weights(members, y, Squared(), fine), free)


def test_shrinkage_draws_weights_to_equal_ones_the_less_the_more_rows_there_are():
    rng = np.random.default_rng(0)
    y, weights, members = problem(Squared(), 2, 150, rng)
    pulls = [0.0, 100.0, 1000.0, 1e7]
    first = [average_weights(members, y, Squared(), replace(FREE, shrinkage=p))[0] for p in pulls]
    distances = np.abs(np.array(first) - 0.5)
    assert (np.diff(distances) < 0).all()
    assert distances[0] > 0.1
    assert distances[-1] < 1e-3
    # Twice as many rows do what half of the shrinkage does.
    f = [np.concatenate(one.predictions) for one in members]
    twice = [member(np.tile(one, 2), np.tile(y, 2), Squared(), np.tile(weights, 2)) for one in f]
    found = average_weights(twice, np.tile(y, 2), Squared(), replace(FREE, shrinkage=2000.0))
    assert_allclose(found[0], first[2], atol=1e-4)


def test_predictions_that_are_not_finite_leave_the_first_member():
    y, _, (one, other) = problem(Squared(), 2, 150, np.random.default_rng(0))
    broken = replace(other, predictions=tuple(np.full_like(f, np.inf) for f in other.predictions))
    assert_array_equal(average_weights([one, broken], y, Squared()), [1.0, 0.0])
