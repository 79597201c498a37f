"""Validation: models of the training part of a fold, judged on the rest; and searches by it."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import data_of, data_with_curves

from ttexm import TTTensor
from ttexm.learn.bases import FEW, LINEAR, ROUGH, SMOOTH
from ttexm.learn.initialize import Additive
from ttexm.learn.losses import Logistic, Softmax, Squared
from ttexm.learn.selection import validation as module
from ttexm.learn.selection.candidate import Candidate, Request
from ttexm.learn.selection.folds import Fold
from ttexm.learn.selection.grid import Given, possible_ranks
from ttexm.learn.selection.plan import PLAN
from ttexm.learn.selection.search import Search
from ttexm.learn.selection.validation import Validation, is_better
from ttexm.solvers import Sweeps

LOSSES = Squared(), Logistic(), Softmax()


def validation_of(data, max_order=0, plan=PLAN):
    return Validation(data, np.random.default_rng(0), max_order, plan)


def others(data, fold):
    """All rows but those that the fold is tested on."""
    return data.take(np.flatnonzero(~np.isin(data.keys, fold.test.keys)))


# -- models of a fold -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(("basis", "s"), [(LINEAR, 1.0), (SMOOTH, 0.35), (FEW, 0.2)])
def test_a_candidate_predicts_as_a_model_of_the_other_rows(monkeypatch, loss, basis, s):
    data, starts = data_with_curves(loss), []

    def spy(model, *arguments):
        starts.append(start(model, *arguments))
        return starts[-1]

    start = Additive.start
    monkeypatch.setattr(Additive, "start", spy)
    monkeypatch.setattr(module, "side_by_side", lambda f, items, _=1: list(map(f, items)))
    validation = validation_of(data)
    candidate = validation.trained(Candidate(basis, 3.0, s, 5, 3), n_folds=2, fewest=3)
    assert (candidate.n_iter, candidate.n_folds, len(starts)) == (3, 2, 2)
    for j, fold in enumerate(validation.folds[:2]):
        train = others(data, fold)
        objective = train.objective(3.0 * s**2 / train.size)
        run = Sweeps(dtype=np.float32).start(
            TTTensor(starts[j]), train.features(basis, s), objective
        )
        for _ in range(3):
            run.iterate()
        f = fold.test.predict(run.tensor(), basis, s)
        assert_allclose(candidate.predictions[j], f, atol=2e-4 * np.abs(f).max())
        assert_allclose(candidate.losses[j], fold.test.losses_of(candidate.predictions[j]))
        assert_array_equal(candidate.weights[j], fold.test.weights)
        # It starts near the additive model of these rows.
        linear = fold.additive(basis, 3.0).tensor(s)
        difference = (TTTensor(starts[j]) - linear).norm()
        assert_allclose(difference, PLAN.padding * linear.norm(), rtol=1e-2)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("basis", [LINEAR, ROUGH], ids=lambda basis: basis.name)
def test_an_additive_candidate_predicts_as_one_of_the_other_rows(loss, basis):
    data = data_with_curves(loss)
    validation = validation_of(data, plan=replace(PLAN, additive_tolerance=1e-13))
    candidate = validation.additive(Candidate(basis, 3.0), n_folds=3)
    assert (candidate.is_additive, candidate.n_folds) == (True, 3)
    for j, fold in enumerate(validation.folds[:3]):
        train = others(data, fold)
        model = train.additive(basis, 3.0 / train.size)
        f = fold.test.predict(model.tensor(), basis, 1.0)
        # The softmax is fitted by L-BFGS, to a gradient of 1e-6.
        tolerance = 1e-3 if isinstance(loss, Softmax) else 1e-6
        assert_allclose(candidate.predictions[j], f, atol=tolerance * np.abs(f).max())
        assert_allclose(candidate.losses[j], fold.test.losses_of(f), atol=tolerance)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_threads_change_no_bits(threads, loss):
    found = []
    for n_threads in (1, 2):
        threads(n_threads)
        validation = validation_of(data_with_curves(loss))
        found.append(validation.trained(Candidate(ROUGH, 3.0, 0.35, 6, 2), 4))
        found.append(validation.additive(Candidate(SMOOTH, 3.0), 4))
    for one, other in zip(found[:2], found[2:], strict=True):
        assert one == other
        for f, g in zip(one.predictions, other.predictions, strict=True):
            assert_array_equal(f, g)


@pytest.mark.parametrize("candidate", [Candidate(ROUGH, 3.0, 0.35, 6, 3), Candidate(SMOOTH, 3.0)])
def test_what_is_known_of_some_folds_is_not_computed_again(monkeypatch, candidate):
    data, fitted = data_with_curves(Logistic()), []
    expected = validation_of(data).try_all([Request(candidate, 4, candidate.n_iter)])[0]
    validation = validation_of(data)
    first = validation.try_all([Request(candidate, 1, candidate.n_iter)])[0]
    additive = Fold.additive
    monkeypatch.setattr(
        Fold, "additive", lambda fold, *rest: (fitted.append(fold), additive(fold, *rest))[1]
    )
    found = validation.try_all([Request(first, 4, 0)])[0]
    assert set(fitted) == set(validation.folds[1:])
    assert found.n_iter == candidate.n_iter
    for one, other in zip(found.predictions, expected.predictions, strict=True):
        assert_array_equal(one, other)
    assert found.scores == expected.scores


# -- the number of sweeps -------------------------------------------------------------------------


class ScriptedRun:
    """Predictions that have a given mean loss after each sweep, for targets of zero."""

    def __init__(self, losses, value=0.0):
        self.losses, self.value, self.n_iter = losses, value, 0

    def iterate(self):
        self.n_iter += 1

    def predict(self, batch):
        return np.full(len(batch), (2 * self.losses[self.n_iter]) ** 0.5)


def sweeps_for(monkeypatch, losses, most=None, fewest=1, **settings):
    """The number of sweeps that is chosen for mean losses after 0, 1, .. of them."""

    class Script:
        def start_at(self, cores, batch, objective):
            return ScriptedRun(losses)

    assert_allclose(Squared().value(np.zeros(1), np.full(1, 2.0**0.5)), 1)
    monkeypatch.setattr(module, "SOLVER", Script())
    x = np.random.default_rng(0).standard_normal((40, 2))
    validation = validation_of(data_of(x, np.zeros(40)))
    most = len(losses) - 1 if most is None else most
    found = validation.trained(Candidate(LINEAR, 1.0, 1.0, 4, most), 4, fewest, **settings)
    assert_allclose(found.score, losses[found.n_iter])
    return found.n_iter


def test_sweeps_go_on_while_they_help(monkeypatch):
    falling = [1 / (1 + n) for n in range(9)]
    assert sweeps_for(monkeypatch, falling) == 8
    assert sweeps_for(monkeypatch, falling, most=5) == 5
    assert sweeps_for(monkeypatch, falling[::-1]) == 1
    assert sweeps_for(monkeypatch, falling[::-1], fewest=0) == 0
    assert sweeps_for(monkeypatch, falling[::-1], fewest=4) == 4


def test_one_sweep_without_a_better_loss_is_waited_for(monkeypatch):
    assert sweeps_for(monkeypatch, [3.0, 2.0, 2.5, 1.0]) == 3
    assert sweeps_for(monkeypatch, [3.0, 2.0, 2.5, 2.5, 1.0]) == 1
    assert sweeps_for(monkeypatch, [3.0, 2.0, 2.5, 2.5, 1.0], patience=3) == 4


def test_a_sweep_more_has_to_be_better_by_a_share(monkeypatch):
    assert sweeps_for(monkeypatch, [3.0, 2.0, 2.0 * (1 - 0.9 * PLAN.improvement)]) == 1
    assert sweeps_for(monkeypatch, [3.0, 2.0, 2.0 * (1 - 1.1 * PLAN.improvement)]) == 2


def test_better_by_a_share_is_so_for_losses_of_either_sign():
    def judged(score):
        return Candidate(LINEAR, 1.0, losses=(np.full(3, score),), weights=(np.ones(3),))

    for limit in (2.0, -2.0):
        assert is_better(judged(limit - 0.3), judged(limit), 0.1)
        assert not is_better(judged(limit - 0.1), judged(limit), 0.1)
    assert is_better(judged(1e9), judged(np.inf), 0.1)
    assert not is_better(judged(np.inf), judged(np.inf), 0.1)


# -- screened starts ------------------------------------------------------------------------------


def test_screened_products_are_not_tried_where_their_objective_is_above_the_linear_models():
    """A small order scale makes products of four cost more than they are worth."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (1000, 6))
    data = data_of(x, x[:, :4].prod(axis=1) + 0.1 * rng.standard_normal(1000))
    validation = validation_of(data, max_order=4)
    rank = validation.screen(1.0, 4, validation.n_folds)
    assert rank >= 2
    for s, is_allowed in [(1.0, True), (0.1, False)]:
        candidate = Candidate(LINEAR, 1.0, s, rank, 0, is_screened=True)
        losses = validation.trained(candidate, 4, fewest=0).losses
        assert all(np.isfinite(part).all() == is_allowed for part in losses)
        assert not is_allowed or np.mean(losses[0]) < 0.1


@pytest.mark.parametrize("s", [1.0, 0.35])
def test_the_limit_of_screened_starts_is_the_objective_of_the_additive_model(monkeypatch, s):
    data, share = data_with_curves(), 1.0

    class Script:
        def start_at(self, cores, batch, objective):
            linear = fold.train.additive(LINEAR, 3.0 / fold.train.size).tensor(s)
            f, norm = fold.train.predict(linear, LINEAR, s), linear.norm()
            return ScriptedRun([1.0], share * objective.value(f, norm**2))

    monkeypatch.setattr(module, "SOLVER", Script())
    shape = LINEAR.modes(data.batch.modes).shape
    monkeypatch.setattr(module, "screen", lambda *_: TTTensor.ones(shape))
    validation = validation_of(data, max_order=4)
    fold = validation.folds[0]
    validation.screen(3.0, 4, 1)
    for share in (0.999, 1.001):
        candidate = Candidate(LINEAR, 3.0, s, 4, 0, is_screened=True)
        losses = validation.trained(candidate, 1, fewest=0).losses[0]
        assert np.isfinite(losses).all() == (share < 1)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_screening_looks_into_each_fold_and_stops_where_nothing_is_found(
    monkeypatch, threads, n_threads
):
    threads(n_threads)
    looked = []

    def screen(data, linear, ridge, max_order, plan):
        looked.append(len(looked))
        return TTTensor.ones((2,) * 3) if len(looked) < 3 else None

    monkeypatch.setattr(module, "screen", screen)
    data = data_of(np.random.default_rng(0).standard_normal((40, 3)), np.zeros(40))
    assert validation_of(data, max_order=4).screen(1.0, 4, 4) == 0
    assert len(looked) == 2 + n_threads  # each thread has a fold
    looked[:] = []
    assert validation_of(data, max_order=4).screen(1.0, 4, 2) == 1
    assert validation_of(data, max_order=1).screen(1.0, 4, 4) == 0
    assert len(looked) == 2


def test_folds_that_were_not_screened_are_so_when_they_are_asked_for():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (1000, 6))
    data = data_of(x, x[:, :4].prod(axis=1) + 0.1 * rng.standard_normal(1000))
    found = []
    for n_folds in (2, 4):
        validation = validation_of(data, max_order=4)
        rank = validation.screen(1.0, 4, n_folds)
        candidate = Candidate(LINEAR, 1.0, 1.0, rank, 1, is_screened=True)
        found.append(validation.trained(candidate, 4, fewest=0))
    assert found[0].losses[3].mean() < 0.1
    assert_array_equal(found[0].losses[3], found[1].losses[3])


def test_a_fold_without_products_has_infinite_losses(monkeypatch):
    data = data_with_curves()
    shape = LINEAR.modes(data.batch.modes).shape
    products = iter([0.01 * TTTensor.ones(shape), None])
    monkeypatch.setattr(module, "screen", lambda *_: next(products))
    validation = validation_of(data, max_order=4)
    assert validation.screen(1.0, 4, 1) == 1
    candidate = Candidate(LINEAR, 1.0, 1.0, 1, 0, is_screened=True)
    assert np.isinf(validation.trained(candidate, 2, fewest=0).losses[1]).all()


# -- searches with fits ---------------------------------------------------------------------------


def test_ranks_are_those_that_rows_and_outputs_allow():
    assert possible_ranks(Given(), 450, 1) == (2, 4, 8, 9)
    assert possible_ranks(Given(), 10**6, 1) == PLAN.ranks
    assert possible_ranks(Given(), 30, 1) == (2, 4)  # the least rank is allowed for few rows
    assert possible_ranks(Given(), 450, 6) == (8, 9)  # more than an additive model of 6 outputs
    assert possible_ranks(Given(), 30, 10) == (12,)
    assert possible_ranks(Given(rank=30), 450, 1) == (30,)


@pytest.mark.parametrize("given", [{"total_alpha": 3.0}, {"order_scale": 0.35}, {"rank": 3}])
def test_a_product_is_found_with_some_settings_given(given):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    data = data_of(x, x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(300))
    search = Search(validation_of(data), Given(**given), n_rows=300, n_columns=4)
    _, best = search.run()[0]
    assert not best.is_additive
    assert best.score < 0.2
    for c in search.tried:
        if not c.is_additive:
            assert c.order_scale == given.get("order_scale", c.order_scale)
            assert c.rank == given.get("rank", c.rank)
            total = c.ridge * c.order_scale**2
            assert total == pytest.approx(given.get("total_alpha", total))


def test_all_members_of_an_average_are_judged_on_the_same_folds():
    data = data_with_curves()
    search = Search(
        validation_of(data), has_curves=True, n_rows=len(data), n_columns=data.batch.ndim
    )
    members = search.run()
    weights = [weight for weight, _ in members]
    assert_allclose(sum(weights), 1)
    assert weights == sorted(weights, reverse=True)
    sizes = [len(fold.test) for fold in search.validation.folds]
    for _, member in members:
        assert [len(part) for part in member.predictions] == sizes
