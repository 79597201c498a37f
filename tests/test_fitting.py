"""A fit from end to end: members of an average are trained, and averaged as one tensor."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import data_of, data_with_curves
from sklearn.exceptions import ConvergenceWarning

from ttexm import ExMClassifier, ExMRegressor, TTTensor
from ttexm.kernels import core_sweep, schedule
from ttexm.learn import fitting
from ttexm.learn.bases import ALL_FUNCTIONS, LINEAR, ROUGH, SMOOTH
from ttexm.learn.data import Data
from ttexm.learn.fitting import FitOptions
from ttexm.learn.initialize import Additive
from ttexm.learn.losses import Logistic, Softmax, Squared
from ttexm.learn.selection.candidate import Candidate
from ttexm.learn.selection.plan import PLAN
from ttexm.learn.selection.search import spread_starts
from ttexm.learn.trainer import Trainer
from ttexm.solvers import Sweeps

LOSSES = Squared(), Logistic(), Softmax()
VALIDATED = {"losses": (np.ones(3),), "weights": (np.ones(3),)}
CURVED = Candidate(ROUGH, 3.0, 0.35, 5, 2, **VALIDATED)
SMOOTHER = Candidate(SMOOTH, 10.0, 0.2, 16, 3, **VALIDATED)
ADDITIVE = Candidate(LINEAR, 1.0, **VALIDATED)
MEMBERS = [(0.5, CURVED), (0.3, SMOOTHER), (0.2, ADDITIVE)]


@pytest.fixture
def averaged(monkeypatch):
    """The arguments of the last call of `_average`: data, parts (weight, member, W), plan."""
    last, average = [], fitting._average

    def spy(*arguments):
        last[:] = arguments
        return average(*arguments)

    monkeypatch.setattr(fitting, "_average", spy)
    return last


def fit_members(monkeypatch, data, members, plan=PLAN, **options):
    """Fit members of given weights, without a search."""
    monkeypatch.setattr(fitting, "_choose", lambda *_: fitting.Chosen(members))
    options = FitOptions(plan=plan, **options)
    return fitting.fit(data, options, np.random.default_rng(0))


def sum_of(data, parts):
    """The weighted sum of the predictions of the members."""
    return sum(
        weight * data.predict(W, member.basis, member.order_scale) for weight, member, W in parts
    )


def mean_loss(data, f):
    return np.average(data.losses_of(f), weights=data.weights)


# -- members --------------------------------------------------------------------------------------


def test_members_of_larger_weight_get_more_starts():
    fits = list(spread_starts(MEMBERS))
    assert [(member, seed) for _, member, seed in fits] == [
        (CURVED, 0), (CURVED, 1), (SMOOTHER, 0), (ADDITIVE, 0)
    ]  # fmt: skip
    assert_allclose([weight for weight, *_ in fits], [0.25, 0.25, 0.3, 0.2])
    for rank, n in [(2, 4), (16, 4), (32, 2), (64, 1), (200, 1)]:
        fits = list(spread_starts([(1.0, replace(CURVED, rank=rank))]))
        assert len(fits) == n
        assert_allclose(sum(weight for weight, *_ in fits), 1)
    screened = replace(CURVED, is_screened=True)
    assert list(spread_starts([(0.9, screened), (0.1, CURVED)])) == [
        (0.9, screened, 0), (0.1, CURVED, 0)
    ]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_members_are_trained_as_they_were_validated(monkeypatch, averaged, threads, loss):
    """From starts beside the additive model, with all rows, for the validated number of sweeps."""
    threads(1)  # so that starts come in order
    data, starts, start = data_with_curves(loss), [], Additive.start

    def spy(model, *arguments):
        starts.append(start(model, *arguments))
        return starts[-1]

    monkeypatch.setattr(Additive, "start", spy)
    fitted = fit_members(monkeypatch, data, MEMBERS)
    _, parts, _ = averaged
    assert [member for _, member, _ in parts] == [CURVED, CURVED, SMOOTHER, ADDITIVE]
    assert_allclose([weight for weight, *_ in parts], [0.25, 0.25, 0.3, 0.2])
    for (_, member, W), cores in zip(parts, starts, strict=False):
        s, n_rows = member.order_scale, data.weights.sum()
        objective = data.objective(member.ridge * s**2 / n_rows)
        run = Sweeps(dtype=np.float32).start(
            TTTensor(cores), data.features(member.basis, s), objective
        )
        for _ in range(member.n_iter):
            run.iterate()
        f = data.predict(run.tensor(), member.basis, s)
        found = data.predict(W, member.basis, s)
        assert_allclose(found, f, atol=2e-4 * np.abs(f).max())
    assert np.abs(starts[0][0] - starts[1][0]).max() > 1e-4  # two starts of one member
    linear = data.additive(LINEAR, 1.0 / data.weights.sum())
    assert_allclose(
        data.predict(parts[-1][2], LINEAR, 1.0), data.predict_additive(linear, LINEAR), atol=1e-8
    )
    assert len(fitted.history) == CURVED.n_iter


def test_the_settings_of_an_average_say_what_is_averaged(monkeypatch, averaged):
    data = data_with_curves()
    fitted = fit_members(monkeypatch, data, MEMBERS[::-1])
    assert [one.basis for one in fitted.averaged] == ["rough", "smooth", "linear"]
    assert_allclose([one.weight for one in fitted.averaged], [0.5, 0.3, 0.2])
    assert fitted.selected is fitted.averaged[0]
    assert [one.is_additive for one in fitted.averaged] == [False, False, True]
    assert [one.n_iter for one in fitted.averaged] == [2, 3, 0]
    assert_allclose(fitted.selected.alpha, 3.0 * 0.35**2 / data.weights.sum())
    assert fitted.selected.loss == 1.0


# -- one tensor -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_average_is_the_weighted_sum_of_its_members(monkeypatch, averaged, loss):
    data = data_with_curves(loss)
    exact = replace(PLAN, roundings=(1e-12,))
    fitted = fit_members(monkeypatch, data, MEMBERS, exact)
    f = sum_of(data, averaged[1])
    assert fitted.weights.shape == data.shape
    found = data.predict(fitted.weights, ALL_FUNCTIONS, 1.0)
    assert_allclose(found, f, atol=1e-8 * np.abs(f).max())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("cost", [1e-1, 1e-3, 1e-6, -1.0])
def test_the_average_is_rounded_as_coarsely_as_the_predictions_allow(
    monkeypatch, averaged, loss, cost
):
    data = data_with_curves(loss)
    plan = replace(PLAN, roundings=(0.5, 0.2, 0.1, 0.03, 1e-2, 1e-3, 1e-6), rounding_cost=cost)
    W = fit_members(monkeypatch, data, MEMBERS, plan).weights
    _, parts, _ = averaged
    f = sum_of(data, parts)

    def change(V):
        return weighted_norm(V.contract(data.batch) - f, data)

    limit = cost * weighted_norm(f - np.average(f, axis=0, weights=data.weights), data)
    exact = sum(
        (weight * data.to_plain(V, m.basis, m.order_scale) for weight, m, V in parts),
        start=0 * TTTensor.ones(data.shape),
    )
    if cost < 0:  # no rounding does that
        assert W.rank == sum(V.rank for _, _, V in parts)
        assert change(W) < 1e-9 * weighted_norm(f, data)
        return
    assert change(W) <= limit
    coarser = [exact.round(eps=eps) for eps in plan.roundings]
    coarser = [V for V in coarser if V.rank < W.rank]
    assert len(coarser) < len(plan.roundings)
    for V in coarser:
        assert change(V) > limit


def weighted_norm(f, data):
    rows = (f.reshape(len(f), -1) ** 2).sum(axis=1)
    return np.sqrt(np.average(rows, weights=data.weights))


def test_a_single_model_is_not_rounded(monkeypatch, averaged):
    data = data_with_curves()
    fitted = fit_members(monkeypatch, data, [(1.0, replace(CURVED, rank=64))])
    _, [(weight, member, W)], _ = averaged
    assert weight == 1.0
    f = data.predict(W, member.basis, member.order_scale)
    assert_allclose(data.predict(fitted.weights, ALL_FUNCTIONS, 1.0), f, atol=1e-9)


@pytest.mark.parametrize("make", [ExMRegressor, ExMClassifier])
def test_an_estimator_predicts_the_average(averaged, make):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 4))
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.3 * rng.standard_normal(400)
    y = y if make is ExMRegressor else np.digitize(y, [-0.5, 0.5])
    model = make(random_state=0).fit(X, y)
    data, parts, plan = averaged
    weights = [one.weight for one in model.averaged_]
    assert_allclose(sum(weights), 1)
    assert weights == sorted(weights, reverse=True)
    assert model.selected_ == model.averaged_[0]
    rows = Data(model.feature_map_.transform(X), np.resize(data.y, (400, *data.y.shape[1:])),
                np.ones(400), data.loss)  # fmt: skip
    f = sum_of(rows, parts)
    found = model.decision_function(X) if make is ExMClassifier else model.predict(X)
    assert_allclose(found, model.model_.center + model.model_.spread * f, atol=0.03 * np.ptp(f))
    f = sum_of(data, parts)
    change = weighted_norm(model.weights_.contract(data.batch) - f, data)
    assert change <= plan.rounding_cost * weighted_norm(f, data)


@pytest.mark.parametrize(("rows_side_by_side", "n_chunks"), [(0, 1), (10**6, 1), (10**6, 5)])
def test_a_fit_has_the_same_bits_for_any_number_of_threads(
    threads, monkeypatch, rows_side_by_side, n_chunks
):
    """Folds, candidates, starts and chunks of rows are shared by threads, whichever there are."""
    data, found = data_with_curves(Logistic()), []
    monkeypatch.setattr(core_sweep, "SAMPLES_PER_CHUNK", len(data) // n_chunks)
    monkeypatch.setattr(schedule, "PARALLEL_FLOPS", 0)
    plan = replace(
        PLAN, rows_side_by_side=rows_side_by_side, exploring_rows=(0, 0), judging_rows=(0, 0)
    )
    for n in (1, 2, 5):
        threads(n)
        found.append(fitting.fit(data, FitOptions(plan=plan), np.random.default_rng(0)))
    for other in found[1:]:
        assert other.averaged == found[0].averaged
        assert other.tried == found[0].tried
        for one, another in zip(found[0].weights.cores, other.weights.cores, strict=True):
            assert_array_equal(one, another)


# -- guards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_no_member_has_a_higher_objective_than_the_additive_model(averaged, seed):
    """Of its basis, at its penalty; in correlated columns with outliers in the target."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((200, 1))
    X = 0.95 * common + 0.3 * rng.standard_normal((200, 6))
    y = X[:, 0] * X[:, 1] + rng.standard_t(2, 200)
    ExMRegressor(random_state=seed).fit(X, y)
    data, parts, _ = averaged
    for _, member, W in parts:
        basis, s, alpha = member.basis, member.order_scale, member.alpha(data.size)
        additive = data.additive(basis, member.ridge / data.size).tensor(s)
        limit = data.value(additive, basis, s, alpha)
        assert data.value(W, basis, s, alpha) <= limit + 1e-9 * abs(limit)


def test_members_that_diverge_are_replaced_by_additive_models(monkeypatch, averaged):
    monkeypatch.setattr(Trainer, "run", lambda trainer, W, *_: 1e3 * W)
    data = data_with_curves()
    fitted = fit_members(monkeypatch, data, MEMBERS)
    assert all(one.is_additive for one in fitted.averaged)
    assert [one.basis for one in fitted.averaged] == ["rough", "smooth", "linear"]
    assert np.isnan(fitted.averaged[0].loss)  # that of other settings
    assert_allclose(sum(one.weight for one in fitted.averaged), 1)
    limit = mean_loss(data, np.zeros(len(data)))
    assert mean_loss(data, fitted.weights.contract(data.batch)) < limit


@pytest.mark.parametrize(("s", "is_kept"), [(1.0, True), (0.1, False)])
def test_a_screened_start_above_the_additive_model_is_not_returned(monkeypatch, s, is_kept):
    """A small order scale makes products of four cost more than they are worth."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (1000, 6))
    data = data_of(x, x[:, :4].prod(axis=1) + 0.1 * rng.standard_normal(1000))
    screened = Candidate(LINEAR, 1.0, s, 4, 0, is_screened=True, **VALIDATED)
    fitted = fit_members(monkeypatch, data, [(1.0, screened)])
    assert fitted.selected.is_screened == is_kept
    assert fitted.selected.is_additive != is_kept


def test_an_interrupted_average_is_one_of_what_there_is(monkeypatch, averaged, threads):
    """Training stops in the second of four fits, which is the last one to take part."""
    threads(1)  # with more, others may have begun
    run, n_runs = Trainer.run, []

    def interrupted(trainer, *arguments):
        W = run(trainer, *arguments)
        n_runs.append(1)
        trainer.is_interrupted = len(n_runs) == 2
        return W

    monkeypatch.setattr(Trainer, "run", interrupted)
    data = data_with_curves()
    with pytest.warns(ConvergenceWarning, match="Training was interrupted"):
        fitted = fit_members(monkeypatch, data, MEMBERS)
    _, parts, _ = averaged
    assert_allclose([weight for weight, *_ in parts], [0.5, 0.5])
    assert [(one.basis, one.weight) for one in fitted.averaged] == [("rough", 1.0)]


def test_a_start_that_has_to_be_screened_has_settings_that_were_validated_for_it():
    """Where products lower the loss by so little that the search would not take them."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (4000, 8))
    y = X[:, 0] + X[:, 1] + 0.2 * X[:, 2:6].prod(axis=1) + rng.standard_normal(4000)
    model = ExMRegressor(init="screened", random_state=0).fit(X, y)
    assert model.selected_.is_screened
    screened = [one for one in model.search_results_ if one.is_screened]
    best = min(screened, key=lambda one: one.loss)
    assert (model.selected_.loss, model.selected_.losses) == (best.loss, best.losses)
    assert (model.selected_.alpha, model.selected_.n_iter) == (best.alpha, best.n_iter)
