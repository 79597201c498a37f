"""The choice of settings: what the search tries and takes, by losses written for it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from ttexm.learn import progress
from ttexm.learn.bases import FEW, LINEAR, ROUGH, SEARCHED, SMOOTH
from ttexm.learn.losses import Squared
from ttexm.learn.selection.candidate import Candidate
from ttexm.learn.selection.grid import Given, largest_rank
from ttexm.learn.selection.plan import PLAN
from ttexm.learn.selection.search import Search, spread_starts

ROWS = 50  # of each fold
NOISE = np.random.default_rng(0).standard_normal((4, ROWS))
NOISE -= NOISE.mean(axis=1, keepdims=True)


class Script:
    """Stands in for `Validation`: losses come from a function of the settings, not from fits.

    `loss(candidate)` is the mean loss, or one mean for each fold; `noise(candidate)` the deviation
    of the rows' losses. `finds` is the rank of what screening finds. Targets are 0, so that a loss
    l is that of the prediction sqrt(2 l), or of the opposite one: the models of two bases are wrong
    in different rows.
    """

    is_part = False

    def __init__(self, loss, n_folds=4, noise=lambda candidate: 0.0, finds=0):
        self.loss, self.n_folds, self.noise, self.finds = loss, n_folds, noise, finds
        self.trials, self.screened = [], []
        test = SimpleNamespace(y=np.zeros(ROWS), loss=Squared())
        self.folds = [SimpleNamespace(test=test)] * n_folds

    def try_all(self, requests):
        return [self.trained(r.candidate, r.n_folds, r.fewest) for r in requests]

    def trained(self, candidate, n_folds, fewest):
        numbers = [replace(candidate, n_iter=n) for n in range(fewest, candidate.n_iter + 1)]
        best = min(numbers, key=lambda candidate: np.mean(self.loss(candidate)))
        return self.tried(best, n_folds)

    def tried(self, candidate, n_folds):
        means = np.broadcast_to(self.loss(candidate), self.n_folds)[:n_folds]
        deviation = self.noise(candidate)
        losses = [mean + deviation * part for mean, part in zip(means, NOISE, strict=False)]
        signs = np.random.default_rng(SEARCHED.index(candidate.basis)).choice([-1, 1], ROWS)
        found = replace(
            candidate,
            losses=tuple(losses),
            predictions=tuple(signs * np.sqrt(2 * np.maximum(part, 0)) for part in losses),
            weights=(np.ones(ROWS),) * n_folds,
        )
        self.trials.append(found)
        return found

    def screen(self, ridge, rank, n_folds):
        self.screened.append((ridge, rank, n_folds))
        return min(self.finds, rank)

    def of(self, **values):
        """The trials of some settings, in order."""
        return [
            trial
            for trial in self.trials
            if all(getattr(trial, name) == value for name, value in values.items())
        ]


def explored(script, **values):
    """Places that were explored: they come before those that are judged, and take one sweep."""
    bases = {}
    for trial in script.of(**values):
        if not trial.is_additive:
            place = trial.ridge, trial.order_scale
            known = bases.setdefault(trial.basis, [])
            if place in known:
                break
            known.append(place)
    return bases


def search(script, **arguments):
    found = Search(script, **arguments)
    found.members = found.run()
    found.best = found.members[0][1]
    return found


def away(value, best):
    """Distance on a logarithmic scale."""
    return abs(np.log10(value / best))


def bowl(c=0.3, s=0.2, rank=8, n_iter=4, additive=20.0, additive_c=0.3, bases=(), slope=1.0):
    """Losses with one minimum, 1, at some settings; additive models have one of their own.

    Each basis adds a loss. The slope is that of the loss over the logarithm of each setting.
    """
    bases = dict(bases)

    def loss(candidate):
        worse = bases.get(candidate.basis, 0.0)
        if candidate.is_additive:
            return additive + worse + away(candidate.ridge, additive_c)
        distance = away(candidate.ridge, c) + away(candidate.order_scale, s)
        distance += away(candidate.rank, rank) + 0.1 * abs(candidate.n_iter - n_iter)
        return 1 + worse + slope * distance

    return loss


MANY = {"n_rows": 10_000}  # so that all ranks are possible
SCALES, RIDGES = PLAN.order_scales, PLAN.ridges


# -- what is found ----------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.sampled_from(RIDGES[4:-1]),
    st.sampled_from(SCALES),
    st.sampled_from(PLAN.ranks),
    st.integers(1, 6),
    st.integers(-1, 1),
)
def test_the_minimum_is_found(c, s, rank, n_iter, shift):
    # The penalty of the additive model is the best one, or a neighbour of it.
    script = Script(bowl(c, s, rank, n_iter, additive_c=RIDGES[RIDGES.index(c) + shift]))
    found = search(script, **MANY).best
    assert (found.ridge, found.order_scale, found.rank, found.n_iter) == (c, s, rank, n_iter)
    assert_allclose(found.score, 1)


@settings(max_examples=40)
@given(
    st.sampled_from(SEARCHED),
    st.sampled_from(RIDGES[6:-2]),
    st.sampled_from(SCALES[1:-1]),
    st.sampled_from((8, 16, 32)),
)
def test_the_best_basis_is_found(best, c, s, rank):
    # The additive model of curves is the better one, by little; others are near the best one.
    bases = [(basis, 0.02 * (basis != best)) for basis in SEARCHED]
    script = Script(bowl(c, s, rank, n_iter=2, additive_c=c, bases=bases), n_folds=3)
    found = search(script, has_curves=True, n_rows=4000).best
    assert found.basis == best
    assert (found.ridge, found.order_scale, found.rank) == (c, s, rank)


def test_an_additive_model_is_chosen_where_nothing_interacts():
    found = search(Script(bowl(additive=0.5)))
    assert found.members == [(1.0, found.best)]
    assert found.best.is_linear
    curves = [(basis, 0.02 * (basis != ROUGH)) for basis in SEARCHED]
    found = search(Script(bowl(additive=0.5, bases=curves)), has_curves=True).best
    assert (found.is_additive, found.basis) == (True, ROUGH)
    # .. unless the solver trains interactions.
    found = Search(Script(bowl(additive=0.5))).run(may_be_additive=False)
    assert [(weight, member.is_additive) for weight, member in found] == [(1.0, False)]


def test_losses_that_are_not_finite_are_never_chosen():
    def loss(candidate):
        is_wild = candidate.order_scale > 0.1 and not candidate.is_additive
        return np.inf if is_wild else 1.0 + candidate.rank

    members = Search(Script(loss)).run(may_be_additive=False)
    assert members[0][1].order_scale <= 0.1


# -- additive models --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("best", "tried"),
    [
        (100.0, [10, 30, 100, 300]),
        (10.0, [10, 30, 3]),
        (1.0, [10, 30, 3, 1, 0.3]),
        (3000.0, [10, 30, 100, 300, 1000, 3000]),
        (0.003, [10, 30, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003]),
    ],
)
def test_penalties_are_raised_while_that_helps_and_else_lowered(best, tried):
    script = Script(bowl(additive_c=best))
    search(script)
    assert [trial.ridge for trial in script.of(rank=0)] == tried


def test_additive_models_are_of_straight_lines_and_of_rough_and_smooth_curves():
    script = Script(bowl())
    search(script, has_curves=True)
    assert {trial.basis for trial in script.of(rank=0)} == {LINEAR, ROUGH, SMOOTH}
    script = Script(bowl())
    search(script)
    assert {trial.basis for trial in script.of(rank=0)} == {LINEAR}


# -- exploration ------------------------------------------------------------------------------


def test_a_table_without_curves_is_explored_along_the_scale_first_and_then_around_the_best():
    script = Script(bowl(c=0.3, s=0.2, n_iter=1))
    search(script)
    at = explored(script)[LINEAR]
    assert at[:5] == [(0.3, s) for s in PLAN.level_scales]
    # Around (.3, .2): wider, narrower, more and less penalty, and both at once.
    assert at[5:] == [(1.0, 0.2), (0.1, 0.2), (1.0, 0.35), (0.1, 0.1)]


def test_the_penalty_of_a_start_is_not_tiny():
    script = Script(bowl(additive_c=0.003))
    search(script)
    assert explored(script)[LINEAR][0][0] == PLAN.least_ridge


def test_curves_are_explored_with_a_larger_penalty_than_their_additive_model_has():
    bases = [(LINEAR, 0.5)]
    for additive_c, first in [(1.0, 3.0), (10.0, 30.0), (1000.0, 100.0)]:
        script = Script(bowl(additive_c=additive_c, bases=bases))
        search(script, has_curves=True)
        assert explored(script)[ROUGH][0] == (first, PLAN.first_scale)


def test_straight_lines_are_explored_where_curves_help_little_and_first_where_they_hurt():
    for gain, order in [(3.0, [ROUGH, SMOOTH, FEW]), (0.1, [ROUGH, SMOOTH, FEW, LINEAR])]:
        script = Script(bowl(bases=[(LINEAR, gain)]))
        search(script, has_curves=True)
        assert list(explored(script)) == order
    script = Script(bowl(bases=[(ROUGH, 0.1)]))
    search(script, has_curves=True)
    at = explored(script)
    assert list(at) == [LINEAR, SMOOTH, FEW, ROUGH]
    assert at[LINEAR][0] == (0.3, PLAN.linear_scale)


def test_other_bases_start_where_the_first_one_ended_and_far_ones_go_no_further():
    bases = [(LINEAR, 3.0), (FEW, 2.0)]
    script = Script(bowl(c=30.0, s=0.5, additive_c=10.0, n_iter=1, bases=bases, slope=0.1))
    search(script, has_curves=True)
    at = explored(script)
    assert at[SMOOTH][0] == (10.0, 0.5)  # which needs less
    assert at[FEW] == [(30.0, 0.5)]
    assert 1 < len(at[SMOOTH]) <= PLAN.fewer_explored
    assert len(at[ROUGH]) <= PLAN.most_explored


@pytest.mark.parametrize(
    ("n_rows", "n_explored", "n_judged", "n_wide"),
    [(1000, 4, 4, 2), (2000, 2, 4, 2), (4000, 1, 2, 1), (9000, 1, 1, 1)],
)
def test_the_more_rows_there_are_the_fewer_folds_are_tried(n_rows, n_explored, n_judged, n_wide):
    script = Script(bowl(bases=[(LINEAR, 3.0)]))
    search(script, has_curves=True, n_rows=n_rows)
    trials = [trial.n_folds for trial in script.trials if not trial.is_additive]
    assert trials[0] == n_explored
    assert n_judged in trials
    # Tables without curves cost less, and need all folds unless there are many rows.
    script = Script(bowl())
    search(script, n_rows=n_rows)
    trials = [trial.n_folds for trial in script.trials if not trial.is_additive]
    assert trials[0] == (1 if n_rows == 9000 else 4)
    # Wide ones cost more, but one fold of few rows says nothing.
    script = Script(bowl())
    wide = {"n_columns": 8 * PLAN.usual_columns, "has_curves": True, "n_rows": n_rows}
    search(script, **wide)
    trials = [trial.n_folds for trial in script.trials if not trial.is_additive]
    assert trials[0] == n_wide
    assert max(trials[:-7]) <= 2


# -- judging ----------------------------------------------------------------------------------


def judged(script, basis):
    """The places of a basis that were judged: after it was explored."""
    trials = [trial for trial in script.of(basis=basis) if not trial.is_additive]
    places = [(trial.ridge, trial.order_scale) for trial in trials]
    n_explored = next(
        i for i in range(1, len(places) + 1) if i == len(places) or places[i] in places[:i]
    )
    return trials[n_explored:]


def test_the_two_best_places_are_judged_and_the_best_of_each_basis_that_is_near():
    bases = [(LINEAR, 9.0), (SMOOTH, 0.5 * PLAN.near), (FEW, 2 * PLAN.near)]
    script = Script(bowl(c=30.0, s=0.35, additive_c=10.0, bases=bases, slope=0.05))
    search(script, has_curves=True, n_rows=4000)
    places = [(trial.ridge, trial.order_scale) for trial in judged(script, ROUGH)]
    best = sorted(explored(script)[ROUGH], key=lambda at: away(at[0], 30.0) + away(at[1], 0.35))
    assert PLAN.n_judged == 2
    assert set(places[:2]) == set(best[:2])
    assert judged(script, SMOOTH)
    assert not judged(script, FEW)


@pytest.mark.parametrize(("n_errors", "is_judged"), [(0.9, True), (1.1, False)])
def test_a_basis_that_is_worse_by_chance_is_judged(n_errors, is_judged):
    """It is far behind, but the losses of the rows vary so much that this says little."""
    deviation = 1.0

    def loss(candidate):
        if candidate.is_additive:
            return 2.0 + away(candidate.ridge, 10.0)
        error = deviation * NOISE[0].std() / ROWS**0.5
        return 1.0 + n_errors * error * (candidate.basis == SMOOTH) + 9 * (candidate.basis == FEW)

    noise = {SMOOTH: deviation}
    script = Script(loss, noise=lambda c: noise.get(c.basis, 0.0))
    search(script, has_curves=True, n_rows=4000)
    assert loss(Candidate(SMOOTH, 1.0, rank=1)) > 1 + PLAN.near
    assert bool(judged(script, SMOOTH)) == is_judged


@pytest.mark.parametrize(("best", "tried"), [
    (2, [8, 4, 2]), (4, [8, 4, 2]), (8, [8, 4]), (16, [8, 4, 32]), (32, [8, 4, 32, 64]),
    (64, [8, 4, 32, 64]),
])  # fmt: skip
def test_ranks_are_lowered_while_that_helps_and_else_raised(best, tried):
    script = Script(bowl(rank=best))
    search(script, **MANY)
    ranks = [trial.rank for trial in script.trials if trial.rank not in (0, 16)]
    assert list(dict.fromkeys(ranks)) == tried


def test_a_lower_rank_is_followed_by_a_climb_and_a_higher_one_by_one_step():
    def loss(candidate):
        # Low ranks want a larger scale, high ones a smaller scale and penalty.
        s, c = {8: (0.5, 0.3), 16: (0.35, 0.3)}.get(candidate.rank, (0.2, 0.1))
        if candidate.is_additive:
            return 20.0
        best = 1 if is_low == (candidate.rank == 8) else 2
        return best + 0.1 * away(candidate.order_scale, s) + 0.1 * away(candidate.ridge, c)

    is_low = True
    found = search(Script(loss), **MANY).best
    assert (found.rank, found.order_scale) == (8, 0.5)
    is_low = False
    found = search(Script(lambda c: loss(c) - 0.1 * (c.rank > 16)), **MANY).best
    assert found.rank == 32
    assert (found.ridge, found.order_scale) == (0.1, 0.2)


def test_other_bases_are_judged_where_the_winner_ended():
    bases = [(LINEAR, 9.0), (SMOOTH, 0.01), (FEW, 0.01)]
    script = Script(bowl(c=30.0, s=0.35, rank=32, additive_c=10.0, bases=bases))
    search(script, has_curves=True, n_rows=4000)
    assert {trial.basis for trial in script.of(rank=32)} == {ROUGH, SMOOTH, FEW}


def test_ranks_are_those_that_rows_outputs_and_shape_allow():
    assert max(trial.rank for trial in ranks_of(n_rows=450)) == 9
    assert max(trial.rank for trial in ranks_of(n_rows=20)) == PLAN.least_rank
    assert min(trial.rank for trial in ranks_of(n_rows=450, n_outputs=5)) == 7
    assert max(trial.rank for trial in ranks_of(n_rows=10_000, largest_ranks={LINEAR: 3})) == 3
    assert {trial.rank for trial in ranks_of(n_rows=100, given=Given(rank=30))} == {30}
    assert largest_rank((2, 2, 2, 2, 2)) == 4
    assert largest_rank((2, 9, 3)) == 3
    assert largest_rank((7,)) == 1


def ranks_of(**arguments):
    script = Script(bowl(rank=64))
    search(script, **arguments)
    return [trial for trial in script.trials if not trial.is_additive]


def test_what_is_given_is_not_searched_for():
    script = Script(bowl())
    search(script, given=Given(total_alpha=2.0), **MANY)
    assert all(np.isclose(t.ridge * t.order_scale**2, 2.0) for t in script.trials if t.rank)
    script = Script(bowl())
    search(script, given=Given(order_scale=0.33), **MANY)
    assert {trial.order_scale for trial in script.trials if trial.rank} == {0.33}


@pytest.mark.parametrize("arguments", [{}, {"has_curves": True, "n_rows": 4000}])
def test_nothing_is_tried_twice(arguments):
    script = Script(bowl(), finds=5)
    search(script, **arguments)
    keys = [(trial, trial.n_folds, trial.n_iter) for trial in script.trials if trial.is_additive]
    assert len(set(keys)) == len(keys)
    found = Search(Script(bowl(n_iter=1)))
    found.run()
    assert len(found.tried) == len(found.validation.trials)


# -- products ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("gain", "is_taken"), [(0.04, False), (0.06, True)])
def test_screened_products_must_be_clearly_better(gain, is_taken):
    best = bowl()
    script = Script(lambda c: 1 - gain if c.is_screened else best(c), finds=7)
    found = search(script, **MANY)
    assert found.best.is_screened == is_taken
    assert any(trial.is_screened for trial in script.trials)
    # .. which holds for losses below zero, too
    script = Script(lambda c: -9 - 9 * gain if c.is_screened else best(c) - 10, finds=7)
    assert search(script, **MANY).best.is_screened == is_taken


def test_screened_products_are_tried_along_the_penalty_at_the_scale_they_were_fitted_at():
    best = bowl(additive_c=3000.0)
    script = Script(lambda c: 0.1 + away(c.ridge, 0.3) if c.is_screened else best(c), finds=7)
    found = search(script, **MANY).best
    assert (found.is_screened, found.ridge, found.order_scale, found.rank) == (True, 0.3, 1.0, 7)
    # The penalty of a linear model that finds nothing is no guide.
    ridges = [trial.ridge for trial in script.of(is_screened=True)]
    assert ridges == [10, 30, 3, 1, 0.3, 0.1]
    assert script.screened == [(3000.0, PLAN.screening.most_rank, 1)]  # the folds that are judged


def test_without_products_nothing_is_tried():
    script = Script(bowl(), finds=0)
    search(script)
    assert script.screened
    assert not script.of(is_screened=True)
    script = Script(bowl(), finds=9)
    search(script, given=Given(rank=5))
    assert {trial.rank for trial in script.of(is_screened=True)} == {5}


# -- averages ---------------------------------------------------------------------------------


def test_levels_that_are_about_as_good_are_averaged():
    # Losses differ by 1 % between bases, and by chance from row to row.
    bases = [(LINEAR, 0.03), (SMOOTH, 0.01), (FEW, 0.02)]
    noise = {LINEAR: 0.1, SMOOTH: 0.2, ROUGH: 0.3, FEW: 0.25}
    script = Script(bowl(additive=1.0, bases=bases), noise=lambda c: noise[c.basis])
    found = search(script, has_curves=True, n_rows=1000)
    weights = [weight for weight, _ in found.members]
    assert len(weights) > 3
    assert weights == sorted(weights, reverse=True)
    assert_allclose(sum(weights), 1)
    assert len({member.level for _, member in found.members}) == len(weights)
    # Without noise the best one alone is as good as itself.
    assert len(search(Script(bowl(additive=1.5, bases=bases)), has_curves=True).members) == 1


def test_members_are_compared_on_all_folds():
    def loss(candidate):
        first, rest = (0.9, 2.0) if candidate.basis == ROUGH else (1.0, 1.0)
        return [first, first, rest, rest] if candidate.is_additive else [5.0] * 4

    script = Script(loss, noise=lambda candidate: 1.0 if candidate.basis == ROUGH else 0.5)
    found = search(script, has_curves=True, n_rows=4000)  # additive models are tried on two folds
    assert found.best.basis != ROUGH
    assert found.best.n_folds == 4
    assert all(member.n_folds == 4 for _, member in found.members)


def test_additive_models_are_no_members_if_only_a_part_of_the_rows_is_looked_at():
    """More rows show more of what interacts, so that their weights would be too large."""
    for is_part, additive, expected in [(False, 1.02, 2), (True, 1.02, 1), (True, 0.98, 2)]:
        losses = bowl(rank=4, additive=additive, slope=0.1)
        script = Script(losses, noise=lambda c: 0.5 + c.is_additive)
        script.is_part = is_part
        members = search(script).members
        assert len(members) == expected
        assert any(member.is_additive for _, member in members) == (expected == 2)


def test_members_of_larger_weight_have_more_starts():
    large, small = Candidate(ROUGH, 1.0, rank=8), Candidate(FEW, 1.0, rank=8)
    wide, additive = Candidate(SMOOTH, 1.0, rank=64), Candidate(LINEAR, 1.0)
    parts = list(spread_starts([(0.75, large), (0.25, small)]))
    assert [(member, number) for _, member, number in parts] == [
        (large, 0), (large, 1), (large, 2), (small, 0),
    ]  # fmt: skip
    assert_allclose(sum(weight for weight, *_ in parts), 1)
    assert_allclose([weight for weight, *_ in parts], 0.25)
    # One start of additive models, which have no random part, and of large ranks, which cost much.
    assert len(list(spread_starts([(1.0, wide)]))) == 1
    assert len(list(spread_starts([(1.0, additive)]))) == 1
    screened = replace(large, is_screened=True)
    assert len(list(spread_starts([(1.0, screened)]))) == 1


# -- on the way -------------------------------------------------------------------------------


def test_an_interrupted_search_has_the_best_so_far():
    class Interrupted(Script):
        left = 0

        def trained(self, candidate, *arguments):
            if not candidate.is_additive:
                if self.left == 0:
                    raise KeyboardInterrupt
                self.left -= 1
            return super().trained(candidate, *arguments)

    script = Interrupted(bowl())
    found = Search(script)
    with pytest.raises(KeyboardInterrupt):
        found.run()
    ((weight, best),) = found.best_so_far()
    assert (weight, best.is_linear) == (1.0, True)
    assert found.best_so_far(may_be_additive=False) is None
    script.left = 6
    found = Search(script)
    with pytest.raises(KeyboardInterrupt):
        found.run()
    ((_, best),) = found.best_so_far()
    assert not best.is_linear
    assert best.score == min(candidate.score for candidate in found.tried)


class Bar:
    def __init__(self):
        self.n, self.total, self.texts = 0, None, []

    def expect(self, total):
        assert self.total is None or total <= self.total
        self.total = total

    def update(self, text):
        self.n += 1
        assert self.n <= self.total
        self.texts.append(text)

    def close(self):
        self.is_closed = True


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([100, 4000, 20_000]), st.booleans())
def test_the_progress_bar_knows_its_length(seed, has_curves, n_rows, is_given):
    """Whatever the losses are: here there is no rhyme or reason to them."""
    rng, losses, shown = np.random.default_rng(seed), {}, Bar()

    def loss(candidate):
        return losses.setdefault(replace(candidate, n_iter=0), rng.uniform(0.5, 2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "bar", lambda *arguments: shown)
        given = Given(total_alpha=2.0) if is_given else Given()
        script = Script(loss, noise=lambda candidate: 1.0, finds=9)
        found = search(script, given=given, has_curves=has_curves, n_rows=n_rows)
    assert shown.n == len(found.tried)
    assert shown.is_closed
    assert "additive, linear, ridge" in shown.texts[0]
    assert f"loss {found.tried[0].score:.4g}" in shown.texts[0]
