"""The choice of settings: what the search tries and chooses, by losses written for it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from problems import data_of
from strategies import seeds

from ttexm.learn.losses import Softmax
from ttexm.learn.selection.candidate import Candidate
from ttexm.learn.selection.plan import PLAN
from ttexm.learn.selection.screening import screen
from ttexm.learn.selection.search import Search, possible_ranks
from ttexm.learn.selection.validation import Validation

ROWS = 50  # of each fold
NOISE = np.random.default_rng(0).standard_normal((4, ROWS))
NOISE -= NOISE.mean(axis=1, keepdims=True)


class ScriptedTensor:
    rank = 7


class ScriptedTrial:
    def __init__(self, script, candidate, n_folds):
        self.script, self.candidate, self.n_folds, self.n_iter = script, candidate, n_folds, 0
        self.tensors = [ScriptedTensor()] * n_folds

    def advance(self):
        self.n_iter += 1

    def losses(self):
        return self.script.spread(replace(self.candidate, n_iter=self.n_iter), self.n_folds)


class Script:
    """Stands in for `Validation`: losses come from a function of the settings, not from fits.

    `loss(candidate)` is the mean loss, or one mean for each fold; `noise(candidate)` the deviation
    of the rows' losses. `finds` says whether screening finds anything.
    """

    def __init__(self, loss, n_folds=4, noise=lambda candidate: 0.0, finds=False):
        self.loss, self.n_folds, self.noise, self.finds = loss, n_folds, noise, finds
        self.trials = []

    @property
    def weights(self):
        return [np.ones(ROWS)] * self.n_folds

    def spread(self, candidate, n_folds):
        means = np.broadcast_to(self.loss(candidate), self.n_folds)[:n_folds]
        deviation = self.noise(candidate)
        return [mean + deviation * part for mean, part in zip(means, NOISE[:n_folds], strict=True)]

    def linear(self, ridge):
        candidate = Candidate(ridge, 1.0, 2, 0, is_linear=True)
        self.trials.append((candidate, self.n_folds))
        return self.spread(candidate, self.n_folds)

    def trial(self, candidate, n_folds, starts=None):
        self.trials.append((candidate, n_folds))
        return ScriptedTrial(self, candidate, n_folds)

    def screened(self, ridge, rank):
        return [ScriptedTensor()] * self.n_folds if self.finds else None

    def rescaled(self, tensors, order_scale):
        return tensors

    def tried(self, **settings):
        """Settings of the trials that have some values, in the order of the trials."""
        return [
            candidate
            for candidate, _ in self.trials
            if all(getattr(candidate, name) == value for name, value in settings.items())
        ]


def away(value, best):
    """Distance on a logarithmic scale."""
    return abs(np.log10(value / best))


def bowl(c=0.1, s=0.2, rank=8, n_iter=4, linear=2.0, linear_c=0.1):
    """Losses with one minimum, 1, at some settings; the linear model has one of its own."""

    def loss(candidate):
        if candidate.is_linear:
            return linear + away(candidate.ridge, linear_c)
        worse = away(candidate.ridge, c) + away(candidate.order_scale, s)
        worse += away(candidate.rank, rank) + 0.1 * abs(candidate.n_iter - n_iter)
        return 1 + worse

    return loss


@given(
    st.sampled_from(PLAN.ridges[2:-2]),
    st.sampled_from(PLAN.order_scales),
    st.sampled_from(PLAN.ranks),
    st.integers(2, 9),
    st.integers(-1, 2),
)
def test_the_minimum_is_found(c, s, rank, n_iter, shift):
    # The linear model's penalty is a neighbour of the best one: one higher, or up to two lower.
    linear_c = PLAN.ridges[PLAN.ridges.index(c) - shift]
    script = Script(bowl(c, s, rank, n_iter, linear_c=linear_c))
    found = Search(script).run()
    assert (found.ridge, found.order_scale, found.rank) == (c, s, rank)
    assert found.n_iter == n_iter
    assert_allclose(found.score, 1)


def test_neighbouring_penalties_are_explored_one_higher_and_two_lower():
    at = PLAN.ridges.index(0.3)
    # Losses that fall with the penalty, so that no path is cut short.
    script = Script(lambda c: 2 + away(c.ridge, 0.3) if c.is_linear else 1 + 0.01 * c.ridge)
    Search(script).run()
    for s in PLAN.order_scales:
        explored = script.tried(order_scale=s, rank=4, n_iter=2)
        assert [candidate.ridge for candidate in explored] == list(PLAN.ridges[at - 1 : at + 3])
    # .. and a path ends where it gets worse.
    script = Script(lambda c: 2 + away(c.ridge, 0.3) if c.is_linear else 1 - 0.01 * c.ridge)
    Search(script).run()
    explored = script.tried(order_scale=0.2, rank=4, n_iter=2)
    assert [candidate.ridge for candidate in explored] == list(PLAN.ridges[at - 1 : at + 1])


def test_the_path_of_linear_models_ends_where_it_gets_worse_twice():
    script = Script(lambda c: away(c.ridge, 1.0) if c.is_linear else 9.0)
    assert Search(script).run().ridge == 1.0
    assert [candidate.ridge for candidate in script.tried(is_linear=True)] == [10, 3, 1, 0.3, 0.1]


@pytest.mark.parametrize(("n_folds", "explored"), [(4, 4), (3, 1), (1, 1), (2, 1)])
def test_few_rows_are_explored_on_all_folds_and_many_on_one(n_folds, explored):
    script = Script(bowl(), n_folds)
    Search(script).run()
    for candidate, used in script.trials:
        is_exploring = not candidate.is_linear and candidate.n_iter == PLAN.exploring_sweeps
        assert used == (explored if is_exploring else n_folds)


@pytest.mark.parametrize("n_folds", [1, 3, 4])
def test_wide_tables_are_explored_by_one_sweep_on_one_fold_and_judged_on_all(n_folds):
    script = Script(bowl(n_iter=2), n_folds, finds=True)
    found = Search(script, n_columns=PLAN.many_columns).run()
    assert (found.ridge, found.order_scale, found.rank, found.n_iter) == (0.1, 0.2, 8, 2)
    exploring = [used for candidate, used in script.trials if candidate.n_iter == 1]
    assert len(exploring) >= 5
    assert set(exploring) == {1}
    assert {used for candidate, used in script.trials if candidate.n_iter > 2} == {n_folds}
    # The last of the screened is judged on all folds.
    assert [used for candidate, used in script.trials if candidate.is_screened][-1] == n_folds
    narrow = Script(bowl(n_iter=2), n_folds, finds=True)
    Search(narrow, n_columns=PLAN.many_columns - 1).run()
    assert not narrow.tried(n_iter=1)


def test_a_fold_that_is_not_explored_can_turn_the_choice():
    def loss(candidate):
        """The first fold is for small order scales, the others are against them."""
        if candidate.is_linear:
            return 3.0
        others = 2 - candidate.order_scale
        return [candidate.order_scale, others, others, others]

    script = Script(loss, n_folds=4)
    assert Search(script).run().order_scale == 1.0


@pytest.mark.parametrize("best", PLAN.ranks)
def test_the_three_best_are_judged_at_the_middle_rank_and_the_winner_at_others(best):
    script = Script(bowl(rank=best, n_iter=6))
    assert Search(script).run().rank == best
    judged = script.tried(n_iter=PLAN.judging_sweeps)
    assert [candidate.rank for candidate in judged] == [8, 8, 8]
    assert {(candidate.ridge, candidate.order_scale) for candidate in judged} >= {(0.1, 0.2)}
    last = [candidate.rank for candidate in script.tried(n_iter=PLAN.most_sweeps)]
    # Upwards first; where more rank helps, less is not tried.
    assert last == ([16] if best == 16 else [16, 8, 4])


def test_nothing_is_tried_twice():
    for n_columns in (5, PLAN.many_columns):
        for ranks in (PLAN.ranks, (4,), (4, 5)):
            script = Script(bowl(rank=ranks[-1], n_iter=8))
            Search(script, ranks=ranks, n_columns=n_columns).run()
            settings = [candidate for candidate, _ in script.trials if not candidate.is_linear]
            assert len(set(settings)) == len(settings)


def test_sweeps_go_on_while_they_help():
    script = Script(bowl(rank=8, n_iter=13))
    found = Search(script).run()
    assert found.n_iter == 13
    assert Search(Script(bowl(n_iter=13)), max_iter=5).run().n_iter == 5


def test_two_sweeps_without_a_better_loss_are_waited_for():
    def loss(candidate):
        """Better after one sweep, worse after two and three, and best after some later one."""
        if candidate.is_linear:
            return 9.0
        return {0: 3.0, 1: 2.0, best: 1.0}.get(candidate.n_iter, 2.5)

    best = 4
    assert Search(Script(loss)).run().n_iter == 4
    best = 5
    assert Search(Script(loss)).run().n_iter == 1


def test_what_is_given_is_not_searched_for():
    script = Script(bowl())
    found = Search(script, total_alpha=2.0, order_scales=(0.4,), ranks=(3,)).run()
    assert {candidate.rank for candidate, _ in script.trials if not candidate.is_linear} == {3}
    for candidate, _ in script.trials:
        assert candidate.ridge * 0.4**2 == pytest.approx(2.0)
    assert (found.rank, found.order_scale) == (3, 0.4)


@pytest.mark.parametrize("sign", [1, -1])
def test_screened_products_must_be_clearly_better(sign):
    """By five in a hundred of the loss of the best without them, also if losses are negative."""

    def script(screened):
        def loss(candidate):
            if candidate.is_screened:
                return screened
            return sign * 10 + (0 if candidate.is_linear else 1)

        return Script(loss, finds=True)

    assert Search(script(sign * 10 - 0.52)).run().is_screened
    assert not Search(script(sign * 10 - 0.48)).run().is_screened
    assert not Search(script(sign * 10 + 1)).run().is_screened


def test_screened_products_are_judged_on_all_folds():
    def loss(candidate):
        if candidate.is_screened:
            return [0.1, 2.0, 2.0, 2.0]  # the first fold alone is for them
        return 1.0

    script = Script(loss, finds=True)
    assert not Search(script).run().is_screened
    assert {used for candidate, used in script.trials if candidate.is_screened} == {4}
    # At the two largest order scales, for the penalties beside that of the linear model.
    assert {candidate.order_scale for candidate in script.tried(is_screened=True)} == {0.4, 1.0}


def test_the_linear_model_is_chosen_if_it_may_be():
    script = Script(lambda candidate: 1.0 if candidate.is_linear else 1.5)
    assert Search(script).run().is_linear
    assert not Search(script).run(may_be_linear=False).is_linear


def test_the_simplest_of_equals_is_chosen():
    def search(*candidates):
        """The place of the chosen one of settings with mean losses and their deviations."""
        script = Script(lambda candidate: 0.0)
        search = Search(script)
        judged = []
        for mean, deviation, settings in candidates:
            losses = [mean + deviation * part for part in NOISE]
            judged.append(search._judged(Candidate(order_scale=1.0, n_iter=3, **settings), losses))
        return judged.index(search._simplest(judged))

    linear = {"ridge": 1.0, "rank": 2, "is_linear": True}
    # Standard error of the mean difference: about 0.1 / sqrt(200) = 0.007, of which half counts.
    assert search((1.0, 0.1, linear), (0.999, 0.0, {"ridge": 0.1, "rank": 8})) == 0
    assert search((1.0, 0.1, linear), (0.99, 0.0, {"ridge": 0.1, "rank": 8})) == 1
    more_penalty, lower_rank = {"ridge": 0.3, "rank": 16}, {"ridge": 0.1, "rank": 4}
    best = (0.99, 0.0, {"ridge": 0.1, "rank": 8})
    assert search((1.0, 0.1, linear), best, (0.991, 0.1, more_penalty)) == 2
    assert search((1.0, 0.1, linear), best, (0.991, 0.1, lower_rank)) == 2


def test_folds_count_by_their_weight():
    class Uneven(Script):
        @property
        def weights(self):
            return [np.ones(ROWS), np.full(ROWS, 3.0)]

    search = Search(Uneven(bowl(), n_folds=2))
    judged = search._judged(Candidate(1.0, 1.0, 4, 1), [np.full(ROWS, 2.0), np.full(ROWS, 6.0)])
    assert judged.scores == (2.0, 6.0)
    assert judged.score == 5.0


def test_losses_that_are_not_finite_are_never_chosen():
    def loss(candidate):
        return (
            np.inf
            if candidate.order_scale > 0.1 and not candidate.is_linear
            else 1.0 * candidate.rank
        )

    found = Search(Script(loss)).run(may_be_linear=False)
    assert found.order_scale <= 0.1


def test_an_interrupted_search_has_the_best_so_far():
    class Interrupted(Script):
        left = 0

        def trial(self, candidate, n_folds, starts=None):
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            return super().trial(candidate, n_folds, starts)

    script = Interrupted(bowl())
    search = Search(script)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert search.best_so_far().is_linear
    assert search.best_so_far(may_be_linear=False) is None
    script.left = 6
    search = Search(script)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    best = search.best_so_far()
    assert not best.is_linear
    assert best.score == min(candidate.score for candidate in search.tried)


# -- with fits ------------------------------------------------------------------------------------


def test_ranks_are_those_that_rows_and_shape_allow():
    x = np.random.default_rng(0).standard_normal((450, 4))
    assert possible_ranks(data_of(x, x[:, 0]), PLAN.ranks) == [4]  # 2^2 slots beside the middle
    x = np.random.default_rng(0).standard_normal((450, 12))
    assert possible_ranks(data_of(x, x[:, 0]), PLAN.ranks) == [4, 8, 9]
    assert possible_ranks(data_of(x, x[:, 0]), (30,)) == [30]
    weights = np.full(450, 1 / 450)
    assert possible_ranks(data_of(x, x[:, 0], weights=weights).merged(), PLAN.ranks) == [4, 8, 9]


def test_losses_of_samples_average_to_the_score():
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((30, 3)), rng.random(30)
    y = np.eye(3)[rng.integers(0, 3, 30)]
    data = data_of(x, y, Softmax(), weights)
    W = data.linear(1e-2).tensor()
    f = data.predict(W, 1.0)
    expected = np.average(np.log(np.exp(f).sum(axis=1)) - f[y > 0], weights=weights)
    assert_allclose(data.score(W, 1.0), expected)


@pytest.mark.parametrize("given", [{"total_alpha": 3.0}, {"order_scales": (0.3,)}, {"ranks": (3,)}])
def test_a_product_is_found_with_some_settings_given(given):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    data = data_of(x, x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(300))
    ranks = given.pop("ranks", possible_ranks(data, PLAN.ranks))
    search = Search(Validation(data, np.random.default_rng(0), 0), ranks=ranks, **given)
    candidate = search.run()
    assert not candidate.is_linear
    assert candidate.score < 0.2


@given(seeds)
def test_screening_adds_what_is_there(seed):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (2000, 8))
    y = x[:, 1] * x[:, 4] * x[:, 7] + 0.3 * rng.standard_normal(2000)
    data = data_of(x, y)
    found = screen(data, data.linear(1e-2), 1e-2 * len(y), max_order=4)
    index = tuple(int(k in (1, 4, 7)) for k in range(8))
    assert_allclose(found[index], 1, atol=0.1)


def test_screening_adds_nothing_to_noise():
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1.0, 1.0], (1000, 8))
        noise = data_of(x, rng.standard_normal(1000))
        found.append(screen(noise, noise.linear(1e-2), 10.0, max_order=4) is not None)
    assert sum(found) <= 3


@given(seeds, st.floats(0.7, 0.99))
def test_screened_products_lower_the_objective_in_correlated_columns(seed, correlation):
    """Marginal coefficients, as if columns were orthogonal, add the same effect many times."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((1000, 1))
    x = correlation * common + np.sqrt(1 - correlation**2) * rng.standard_normal((1000, 6))
    y = x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(1000)
    data = data_of(x, y)
    linear = data.linear(1e-3)
    found = screen(data, linear, 1.0, max_order=6)
    assert found is not None
    objective = data.objective(1e-3)
    values = [
        objective.value(data.predict(W, 1.0), W.norm() ** 2) for W in (found, linear.tensor())
    ]
    assert values[0] < values[1]


def test_screened_products_are_not_tried_where_their_objective_is_above_the_linear_models():
    """A small order scale makes products of four cost more than they are worth."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (1000, 6))
    data = data_of(x, x[:, :4].prod(axis=1) + 0.1 * rng.standard_normal(1000))
    validation = Validation(data, np.random.default_rng(0), max_order=4)
    starts = validation.screened(1.0, rank=4)
    for s, is_allowed in [(1.0, True), (0.1, False)]:
        candidate = Candidate(1.0, s, 4, 2, is_screened=True)
        trial = validation.trial(candidate, 4, validation.rescaled(starts, s))
        assert all(np.isfinite(part).all() == is_allowed for part in trial.losses())
    # The same start without that name is judged as it is.
    trial = validation.trial(replace(candidate, is_screened=False), 4, trial.tensors)
    assert np.mean(trial.losses()[0]) < 0.1


def test_the_scale_of_screened_products_is_that_they_were_fitted_at_if_none_is_better():
    script = Script(lambda candidate: 0.5 if candidate.is_screened else 1.0, finds=True)
    found = Search(script).run()
    assert (found.is_screened, found.order_scale) == (True, 1.0)
