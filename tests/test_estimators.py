"""The estimators: what they find, and what they refuse."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from devices import unavailable
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import log_loss

from ttexm import ExMClassifier, ExMRegressor, TTTensor
from ttexm.features import Polynomial, Trigonometric
from ttexm.kernels import backend as device
from ttexm.learn.losses import Logistic
from ttexm.learn.solvers import registry as named
from ttexm.learn.solvers.riemannian import Riemannian

RNG = np.random.default_rng(0)
X = RNG.choice([-1.0, 1.0], (1200, 8))
PRODUCT = X[:, 0] * X[:, 3] * X[:, 6]


def test_a_pure_product_is_found():
    model = ExMClassifier(random_state=0).fit(X[:600], np.where(PRODUCT > 0, "yes", "no")[:600])
    assert model.score(X[600:], np.where(PRODUCT > 0, "yes", "no")[600:]) == 1
    assert model.is_screened_
    # max_order=0 turns the search for products off.
    plain = ExMClassifier(max_order=0, random_state=0).fit(X[:600], PRODUCT[:600])
    assert not plain.is_screened_


def test_few_different_rows_are_enough():
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    assert ExMClassifier(random_state=0).fit(X[:, :2], y).score(X[:, :2], y) == 1
    # .. and one will do, if there is nothing else.
    model = ExMRegressor(random_state=0).fit(np.ones((60, 2)), np.arange(60.0))
    assert_allclose(model.predict(np.ones((1, 2))), 29.5)


def test_weights_have_names():
    y = 2 * X[:, 1] - 3 * X[:, 2] * X[:, 5]
    model = ExMRegressor(random_state=0).fit(X, y)
    assert model.feature_map_.name((0, 0, 1, 0, 0, 1, 0, 0)) == "x2 * x5"
    assert_allclose(model.coefficient("x2", "x5"), -3, atol=0.05)


def test_what_was_tried_is_a_table_and_what_was_taken_is_in_it():
    y = PRODUCT[:300] + 0.5 * X[:300, 1]
    model = ExMRegressor(random_state=0).fit(X[:300], y)
    table = pd.DataFrame(model.search_results_)
    assert list(table) == [
        "basis", "rank", "alpha", "order_scale", "n_iter", "is_linear", "is_additive",
        "is_screened", "weight", "loss", "losses",
    ]  # fmt: skip
    assert table["is_linear"].sum() >= 3
    assert len(table) > 10
    chosen = model.selected_
    assert chosen == model.averaged_[0]
    # (The tensor that is trained on all rows may have a lower rank than there could be.)
    assert replace(chosen, weight=1.0, rank=3) in model.search_results_
    assert_allclose(sum(member.weight for member in model.averaged_), 1)
    assert_allclose(chosen.loss, np.mean(chosen.losses), rtol=0.2)
    old = (model.alpha_, model.order_scale_, model.is_linear_, model.is_screened_)
    assert old == (chosen.alpha, chosen.order_scale, chosen.is_linear, chosen.is_screened)
    assert model.rank_ == model.weights_.rank
    given_all = ExMRegressor(rank=2, alpha=1e-3, order_scale=0.5, tol=0.1, random_state=0)
    given_all.fit(X[:300], y)
    assert given_all.search_results_ == []
    assert (given_all.selected_.rank, given_all.selected_.losses) == (2, ())
    assert np.isnan(given_all.selected_.loss)


def test_an_init_is_in_the_units_of_the_weights():
    y = PRODUCT[:300] + 0.5 * X[:300, 1]
    settings = {"rank": 3, "alpha": 1e-6, "order_scale": 0.3, "random_state": 0}
    model = ExMRegressor(**settings, tol=1e-6).fit(X[:300], y)
    again = ExMRegressor(**settings, init=model.weights_, max_iter=1, tol=0.5)
    with pytest.warns(ConvergenceWarning):
        again.fit(X[:300], y)
    assert_allclose(again.predict(X), model.predict(X), atol=1e-3)


def test_several_classes():
    A, b = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(b))
    model = ExMClassifier(random_state=0).fit(A[rows[:100]], b[rows[:100]])
    probabilities = model.predict_proba(A)
    assert_allclose(probabilities.sum(axis=1), 1)
    assert_array_equal(model.predict(A), model.classes_[probabilities.argmax(axis=1)])
    assert model.score(A[rows[100:]], b[rows[100:]]) > 0.9


def test_several_targets():
    y = np.stack([PRODUCT, X[:, 1] + 5], axis=1)
    model = ExMRegressor(random_state=0).fit(X[:600], y[:600])
    assert model.predict(X).shape == (1200, 2)
    assert_allclose(model.predict(X)[600:, 1], y[600:, 1], atol=0.1)


def test_where_nothing_interacts_the_linear_model_may_win():
    y = X @ np.arange(8.0) + RNG.standard_normal(1200)
    model = ExMRegressor(random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.98


def test_frames_with_categories_and_missing_values():
    frame = pd.DataFrame({"x": X[:, 0], "color": np.where(X[:, 1] > 0, "red", "blue")})
    frame.loc[::7, "x"] = np.nan
    y = np.where(frame["x"].fillna(0) * X[:, 1] > 0, 1, 0)
    model = ExMClassifier(random_state=0).fit(frame[:800], y[:800])
    assert model.score(frame[800:], y[800:]) > 0.95
    assert list(model.feature_names_in_) == ["x", "color"]


def test_the_same_seed_gives_the_same_bits():
    one, other = (ExMRegressor(random_state=3).fit(X[:300], PRODUCT[:300]) for _ in range(2))
    assert_array_equal(one.predict(X), other.predict(X))


def test_weights_count_as_repetitions():
    weights = np.random.default_rng(1).integers(0, 4, 150)
    rows = np.repeat(np.arange(150), weights)
    y = np.where(PRODUCT[:150] + 0.5 * X[:150, 1] > 0, 1, 0)
    weighted = ExMClassifier(random_state=0).fit(X[:150], y, sample_weight=weights)
    repeated = ExMClassifier(random_state=0).fit(X[rows], y[rows])
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6, atol=1e-8)


def test_given_settings_are_taken():
    settings = {"rank": 3, "alpha": 1e-4, "order_scale": 0.5, "features": Polynomial(2)}
    model = ExMRegressor(**settings, max_iter=7, tol=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=7, while it still improved"):
        model.fit(X[:200], PRODUCT[:200])
    assert (model.rank_, model.order_scale_, model.n_iter_) == (3, 0.5, 7)
    assert model.alpha_ == pytest.approx(1e-4)
    assert model.weights_.shape == (3,) * 8
    losses = [record.loss for record in model.history_]
    assert np.all(np.diff(losses) <= 1e-12)


@pytest.mark.parametrize("init", ["linear", "random_linear", "gaussian", TTTensor.ones((2,) * 8)])
@pytest.mark.parametrize("solver", ["sweeps", "two_site"])
def test_starts_and_solvers(init, solver):
    model = ExMRegressor(
        rank=4, alpha=1e-6, order_scale=1.0, init=init, solver=solver, max_iter=60, random_state=0
    )
    model.fit(X[:, :8], X[:, 0] * X[:, 1] + X[:, 2])
    assert model.score(X, X[:, 0] * X[:, 1] + X[:, 2]) > 0.99


def test_early_stopping_keeps_the_best_on_the_held_out_rows():
    y = np.where(X[:, 0] + RNG.standard_normal(1200) > 0, 1, 0)
    settings = {"rank": 8, "alpha": 0.0, "order_scale": 1.0, "max_iter": 30, "random_state": 0}
    stopped = ExMClassifier(early_stopping=True, n_iter_no_change=3, **settings).fit(
        X[:300], y[:300]
    )
    assert stopped.n_iter_ < 30
    assert all(np.isfinite(record.metric) for record in stopped.history_)


GIVEN = {"rank": 4, "alpha": 1e-5, "order_scale": 1.0, "random_state": 0}


@pytest.mark.parametrize("solver", [*named.NAMED, Riemannian("cg", line_search="armijo")])
@pytest.mark.filterwarnings("ignore:Training stopped at max_iter")  # descent on cores is slow
def test_every_solver_learns(solver):
    y = X[:, 0] * X[:, 1] + X[:, 2]
    # Descent on cores stays at the saddle of the additive model from most starts.
    start = {"init": "random_linear"} if str(solver).startswith("cores") else {}
    model = ExMRegressor(solver=solver, tol=1e-3, **start, **GIVEN).fit(X, y)
    assert model.score(X, y) > 0.95
    # .. also columns of categories, and several classes
    frame = pd.DataFrame({"a": pd.Categorical(X[:, 0]), "b": X[:, 1]})
    labels = np.where(X[:, 0] * X[:, 1] > 0, "same", np.where(X[:, 0] > 0, "a", "b"))
    model = ExMClassifier(solver=solver, tol=1e-2, **GIVEN)
    assert model.fit(frame, labels).score(frame, labels) > 0.95


def test_what_is_given_is_fixed_and_the_rest_is_searched_for():
    y = PRODUCT + 0.1 * RNG.standard_normal(1200)
    model = ExMRegressor(alpha=1e-3, random_state=0).fit(X, y)
    assert model.alpha_ == pytest.approx(1e-3)
    model = ExMRegressor(order_scale=0.5, max_order=0, random_state=0).fit(X, y)
    assert model.order_scale_ == 0.5
    model = ExMRegressor(rank=3, random_state=0).fit(X, y)
    assert model.rank_ == model.weights_.rank == 3
    assert ExMRegressor(rank=1, random_state=0).fit(X, y).rank_ == 1


def test_products_of_a_given_rank_can_be_looked_for():
    plain = ExMRegressor(init="linear", tol=1e-2, **GIVEN).fit(X[:600], PRODUCT[:600])
    assert not plain.is_screened_
    model = ExMRegressor(init="screened", tol=1e-2, **GIVEN).fit(X[:600], PRODUCT[:600])
    assert model.is_screened_
    assert model.score(X[600:], PRODUCT[600:]) > 0.99
    assert model.n_iter_ < 10


def test_an_eval_set_stops_training():
    y = np.where(X[:, 0] + RNG.standard_normal(1200) > 0, "yes", "no")
    settings = GIVEN | {"rank": 8, "alpha": 0.0}
    model = ExMClassifier(n_iter_no_change=3, **settings)
    model.fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    metrics = [record.metric for record in model.history_]
    assert len(metrics) < model.max_iter
    # The best model is kept, not the last; the start counts.
    reached = log_loss(y[300:], model.predict_proba(X[300:]), labels=model.classes_)
    assert reached <= min(metrics) + 1e-12
    with pytest.raises(ValueError, match=r"y of eval_set must have classes of .* got 'perhaps'"):
        model.fit(X, y, eval_set=(X[:2], ["yes", "perhaps"]))
    with pytest.raises(ValueError, match=r"eval_set must be a pair \(X, y\), got ndarray"):
        model.fit(X, y, eval_set=X)
    regressor = ExMRegressor(n_iter_no_change=3, **settings)
    regressor.fit(X[:300], PRODUCT[:300], eval_set=[(X[300:], PRODUCT[300:])])
    assert np.isfinite(regressor.history_[0].metric)


def test_a_warm_start_goes_on():
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 4]
    model = ExMRegressor(max_iter=1, warm_start=True, init="random_linear", **GIVEN)
    losses = []
    for _ in range(8):
        with pytest.warns(ConvergenceWarning):
            model.fit(X, y)
        losses.append(model.history_[-1].loss)
    assert np.all(np.diff(losses) <= 1e-12)
    assert losses[-1] < 0.5 * losses[0]
    # A given alpha comes before that of the last fit.
    with pytest.warns(ConvergenceWarning):
        assert model.set_params(alpha=1e-2).fit(X, y).alpha_ == pytest.approx(1e-2)
    # .. and so does a given rank, higher or lower than that of the last fit.
    for rank in (6, 2):
        with pytest.warns(ConvergenceWarning):
            model.set_params(rank=rank).fit(X, y)
        assert (model.rank_, model.weights_.rank) == (rank, rank)


def test_partial_fits_learn_from_all_parts():
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] > 0, "yes", "no")
    settings = GIVEN | {"alpha": 1e-2, "tol": 1e-3}
    model = ExMClassifier(batch_size=20, **settings)
    assert model.partial_fit(X[:60], y[:60], classes=["no", "yes"]).n_iter_ >= 1
    early = log_loss(y[600:], model.predict_proba(X[600:]))
    for start in range(60, 600, 60):
        model.partial_fit(X[start : start + 60], y[start : start + 60])
    assert log_loss(y[600:], model.predict_proba(X[600:])) < early
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X[:60], y[:60], classes=["a", "b"])
    with pytest.raises(ValueError, match="give all of them as `classes`"):
        ExMClassifier().partial_fit(X[:3], ["yes"] * 3)
    regressor = ExMRegressor(**settings)
    for start in range(0, 600, 100):
        regressor.partial_fit(X[start : start + 100], PRODUCT[start : start + 100])
    assert regressor.predict(X).shape == (1200,)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", Logistic()])
def test_losses_of_classes(loss):
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", np.where(X[:, 0] > 0, "a", "b"))
    model = ExMClassifier(loss=loss, tol=1e-2, **GIVEN)
    for labels in (y, y == "same"):
        model.fit(X, labels)
        assert model.score(X, labels) > 0.99
        if hasattr(model, "predict_proba"):
            assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_counts():
    rate = np.exp(0.5 * X[:, 0] * X[:, 1] + 1)
    counts = np.random.default_rng(0).poisson(rate)
    model = ExMRegressor(loss="poisson", random_state=0).fit(X, counts)
    # What is left, of noise in the counts, is small beside what a constant would miss.
    error, constant = model.predict(X) / rate - 1, counts.mean() / rate - 1
    assert np.linalg.norm(error) < 0.25 * np.linalg.norm(constant)


def test_an_overflow_keeps_the_model_finite():
    model = ExMRegressor(solver="riemannian", learning_rate=1e200, batch_size=None, **GIVEN)
    with pytest.warns(ConvergenceWarning, match="overflowed in iteration"):
        model.fit(X, PRODUCT)
    assert np.isfinite(model.predict(X)).all()


def test_a_progress_bar_is_shown(capsys):
    ExMClassifier(verbose=1, random_state=0).fit(X[:100], PRODUCT[:100])
    shown = capsys.readouterr().err
    assert "choosing settings" in shown
    assert "loss" in shown


def test_columns_can_have_maps():
    hour = RNG.uniform(0, 24, 600)
    y = np.sin(2 * np.pi * hour / 24) * X[:600, 0]
    A = np.stack([hour, X[:600, 0]], axis=1)
    model = ExMRegressor(features={0: Trigonometric(1, period=24.0)}, random_state=0).fit(A, y)
    assert model.score(A, y) > 0.99


# -- devices --------------------------------------------------------------------------------------


def both_ways(make, X, y, tolerance=1e-9, **arguments):
    """The model as it is fitted on the CPU, and on the device.

    Kernels differ: curves are written out on the device, and sweeps are not one kernel there.
    """
    here = make(device="cpu").fit(X, y, **arguments)
    there = make(device="cuda").fit(X, y, **arguments)
    assert (here.device_, there.device_) == ("cpu", "cuda")
    assert_same_predictions(there, here, X, tolerance)
    return here, there


def assert_same_predictions(one, other, X, tolerance=1e-9):
    predict = "predict" if isinstance(one, ExMRegressor) else "predict_proba"
    found, expected = (getattr(model, predict)(X) for model in (one, other))
    assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_settings_are_chosen_and_predictions_made_on_the_device(stand_in):
    y = np.where(PRODUCT + X[:, 1] > 0, "yes", "no")
    here, there = both_ways(
        lambda **where: ExMClassifier(random_state=0, **where), X[:200], y[:200]
    )
    assert stand_in.calls["partial_products"] > 10
    assert stand_in.calls["take"] == 0  # folds have their own rows there, not all of them
    stand_in.calls.clear()
    assert_same_predictions(there, here, X)
    assert stand_in.calls == {"hold": 1, "contract": 1}


@pytest.mark.parametrize("solver", named.NAMED)
@pytest.mark.filterwarnings("ignore:Training stopped at max_iter")
def test_every_solver_runs_on_the_device(stand_in, solver):
    y = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)[:300]
    tolerance = 1e-2 if solver in named.SWEEPS else 1e-9
    for targets in (y[:, 0], y):
        here, there = both_ways(
            lambda **where: ExMRegressor(solver=solver, max_iter=2, **GIVEN, **where),
            X[:300], targets, tolerance,
        )  # fmt: skip
        stand_in.calls.clear()
        assert_same_predictions(there, here, X, tolerance)
        assert stand_in.calls == {"hold": 1, "contract": 1}  # several outputs by one sweep


def test_validation_and_further_fits_are_on_the_device(stand_in):
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0, 1, 0)
    settings = GIVEN | {"max_iter": 3, "tol": 0.0, "n_iter_no_change": 3, "warm_start": True}

    def make(**where):
        return ExMClassifier(**settings, **where)

    for arguments in ({}, {"eval_set": (X[300:600], y[300:600])}):
        with pytest.warns(ConvergenceWarning):
            models = both_ways(make, X[:300], y[:300], tolerance=1e-2, **arguments)
        # Two for a comparison with the additive model, one for the predictions, the others of
        # validation rows: the objective comes from the sweeps.
        assert stand_in.calls["contract"] >= 3
        assert (stand_in.calls["contract"] > 3) == bool(arguments)
        stand_in.calls.clear()
    for model in models:
        with pytest.warns(ConvergenceWarning):
            model.fit(X[:600], y[:600])
    here, there = models
    assert_same_predictions(there, here, X[:600], tolerance=1e-2)
    # Descent from one and the same model.
    there = copy.deepcopy(here).set_params(device="cuda")
    for model in (here, there):
        model.partial_fit(X[600:], y[600:])
    assert stand_in.calls["gradient"] > 0
    assert_same_predictions(there, here, X)
    # The device can be changed between two fits.
    here.set_params(device="cuda").partial_fit(X[:300], y[:300])
    there.set_params(device="cpu").partial_fit(X[:300], y[:300])
    assert (here.device_, there.device_) == ("cuda", "cpu")
    assert_same_predictions(there, here, X)


def test_a_fitted_model_is_bound_to_no_device(stand_in):
    model = ExMRegressor(device="cuda", tol=1e-2, **GIVEN).fit(X[:300], PRODUCT[:300])
    expected, stored = model.predict(X), pickle.dumps(model)
    assert b"devices" not in stored  # where the stand-in's data are defined
    device.register("cuda", unavailable)
    again = pickle.loads(stored)
    with pytest.raises(RuntimeError, match="there is no GPU here"):
        again.predict(X)
    assert_allclose(again.set_params(device="cpu").predict(X), expected, atol=1e-12)
    assert again.device_ == "cuda"


def test_the_device_may_be_left_open(stand_in, monkeypatch):
    for has_gpu in (False, True):
        monkeypatch.setattr(device, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        model = ExMRegressor(device="auto", tol=1e-2, **GIVEN).fit(X[:200], PRODUCT[:200])
        assert model.device_ == ("cuda" if has_gpu else "cpu")
        assert model.device == "auto"
    model = ExMRegressor(device=None, tol=1e-2, **GIVEN)
    assert model.fit(X[:200], PRODUCT[:200]).device_ == "cpu"
    monkeypatch.setenv("TTEXM_DEVICE", "cuda")
    assert model.fit(X[:200], PRODUCT[:200]).device_ == "cuda"
    stand_in.calls.clear()
    assert model.set_params(device="cpu").fit(X[:200], PRODUCT[:200]).device_ == "cpu"
    model.predict(X)
    assert not stand_in.calls


CASES = [
    ({"rank": 0}, "rank must be 'auto' or an integer of at least 1, got 0."),
    ({"alpha": -1.0}, "alpha must be 'auto' or at least 0, got -1.0."),
    ({"order_scale": 0.0}, "order_scale must be 'auto' or positive, got 0.0."),
    ({"max_iter": 0}, "max_iter must be an integer of at least 1, got 0."),
    (
        {"solver": "newton"},
        "solver must be one of 'auto', 'sweeps', 'two_site', 'boosting', 'riemannian', ",
    ),
    ({"batch_size": 0}, "batch_size must be 'auto', an integer of at least 1, or None for all"),
    ({"learning_rate": 0.0}, "learning_rate must be 'auto' or positive, got 0.0."),
    ({"validation_fraction": 1.0}, "validation_fraction must be in (0, 1), got 1.0."),
    ({"n_iter_no_change": 0}, "n_iter_no_change must be an integer of at least 1, got 0."),
    ({"max_order": -1}, "max_order must be an integer of at least 0, got -1."),
    ({"tol": -1.0}, "tol must be at least 0, got -1.0."),
    ({"loss": "huber"}, "loss must be one of 'squared', 'logistic'"),
    (
        {"init": "zeros"},
        "init must be one of auto, linear, screened, random_linear, gaussian, or a",
    ),
    ({"features": 3}, "features must be 'auto', a FeatureMap, or a dict of them by column, got 3."),
    ({"device": "tpu"}, "device must be 'auto', 'cpu' or 'cuda', got 'tpu'."),
]


@pytest.mark.parametrize(("parameters", "message"), CASES, ids=[text for _, text in CASES])
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the text is compared below
        ExMClassifier(**parameters).fit(X[:20], PRODUCT[:20])
    assert message in str(caught.value)


def test_bad_data():
    y = PRODUCT[:20]
    with pytest.raises(ValueError, match=r"at least two classes, got one class only: .*1\.0"):
        ExMClassifier().fit(X[:20], np.ones(20))
    with pytest.raises(ValueError, match="Input y contains infinity"):
        ExMClassifier().fit(X[:20], np.where(np.arange(20) == 3, np.inf, y))
    with pytest.raises(ValueError, match="NaN"):
        ExMRegressor().fit(X[:20], np.where(np.arange(20) == 3, np.nan, y))
    with pytest.raises(ValueError, match="Column 'x2' must be finite, got inf in row 1"):
        ExMRegressor().fit(
            np.where((np.indices((20, 8)) == [[[1]], [[2]]]).all(0), np.inf, X[:20]), y
        )
    with pytest.raises(ValueError, match=r"must not be negative, got -1\.0 in row 4"):
        ExMRegressor().fit(X[:20], y, sample_weight=np.where(np.arange(20) == 4, -1.0, 1.0))
    with pytest.raises(ValueError, match=r"X has 7 features, but .* expecting 8"):
        ExMClassifier(random_state=0).fit(X[:20], y).predict(X[:, :7])
    with pytest.raises(ValueError, match=r"counts of at least 0, got -1 in y\[1\]"):
        ExMRegressor(loss="poisson").fit(X[:3], np.array([1.0, -1.0, 2.0]))
    with pytest.raises(NotFittedError):
        ExMClassifier().predict_proba(X)
