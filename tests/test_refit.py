"""A fit sets all that it has learned, or nothing; Ctrl-C keeps the best model so far."""

import _thread
import itertools
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from ttexm import ExMClassifier, ExMRegressor, TTTensor
from ttexm.features import Basis
from ttexm.learn import initialize
from ttexm.learn.bases import ROUGH, SMOOTH
from ttexm.learn.data import Data
from ttexm.learn.selection.search import Search
from ttexm.learn.selection.validation import Validation
from ttexm.learn.solvers.sweeps import CompiledSweep
from ttexm.learn.trainer import Trainer

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2]
LABELS = np.where(Y > 0, "high", "low")
GIVEN = {"rank": 2, "alpha": 1e-3, "order_scale": 0.5, "tol": 1e-2, "random_state": 0}


def fail(*args, **kwargs):
    raise MemoryError("no memory left")


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


PLACES = [(Trainer, "run"), (Validation, "__init__"), (Search, "run"), (Data, "additive")]


@pytest.mark.parametrize("broken", PLACES, ids=lambda place: place[1])
@pytest.mark.parametrize("error", [fail, interrupt])
@pytest.mark.parametrize("make", [ExMClassifier, ExMRegressor])
def test_a_fit_that_fails_leaves_the_old_model(monkeypatch, broken, error, make):
    y = LABELS if make is ExMClassifier else Y
    model = make(random_state=0).fit(X, y)
    expected, before = model.predict(X), dict(vars(model))
    # Other columns, other classes, other units: a mixture of both fits would show.
    other_X = np.column_stack([5 + 9 * X, X[:, 0]])
    other_y = np.digitize(Y, [-1, 0, 1]) if make is ExMClassifier else 1e3 * Y + 7
    monkeypatch.setattr(*broken, error)
    with pytest.raises((MemoryError, KeyboardInterrupt)):
        model.fit(other_X, other_y)
    assert vars(model) == before
    assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("make", [ExMClassifier, ExMRegressor])
def test_further_fits_that_fail_leave_the_old_model(monkeypatch, make):
    y = LABELS if make is ExMClassifier else Y
    model = make(warm_start=True, **GIVEN).fit(X, y)
    expected, before = model.predict(X), dict(vars(model))
    monkeypatch.setattr(Trainer, "run", fail)
    for go_on in (model.fit, model.partial_fit):
        with pytest.raises(MemoryError):
            go_on(X[:50], y[:50])
        assert vars(model) == before
    assert_array_equal(model.predict(X), expected)


def test_a_first_fit_that_fails_leaves_nothing(monkeypatch):
    model, fresh = ExMClassifier(**GIVEN), vars(ExMClassifier(**GIVEN))
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X, np.zeros(300))
    assert vars(model) == fresh
    monkeypatch.setattr(Trainer, "run", fail)
    for go_on in (model.fit, model.partial_fit):
        with pytest.raises(MemoryError):
            go_on(X, LABELS)
        assert vars(model) == fresh
        with pytest.raises(NotFittedError):
            model.predict(X)


def test_a_refit_forgets_what_it_does_not_learn_anew():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    model = ExMClassifier(**GIVEN).fit(frame, LABELS)
    assert hasattr(model, "feature_names_in_")
    assert not hasattr(model.fit(X, LABELS), "feature_names_in_")


# -- Ctrl-C ---------------------------------------------------------------------------------------


def interrupt_call(monkeypatch, owner, name, n):
    """Interrupt the n-th call of a method."""
    calls, method = itertools.count(1), getattr(owner, name)

    def call(self):
        if next(calls) == n:
            raise KeyboardInterrupt
        method(self)

    monkeypatch.setattr(owner, name, call)


def test_an_interrupted_search_trains_with_the_best_settings_so_far(monkeypatch):
    interrupt_call(monkeypatch, CompiledSweep, "iterate", 30)
    with pytest.warns(ConvergenceWarning, match="search for settings was interrupted; the best"):
        model = ExMRegressor(random_state=0, max_order=0).fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert not model.selected_.is_additive
    assert [one.weight for one in model.averaged_] == [1.0]
    assert 5 < len(model.search_results_) < 30


def test_a_search_interrupted_at_once_has_an_additive_model_or_none(monkeypatch):
    monkeypatch.setattr(Validation, "trained", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = ExMRegressor(random_state=0, max_order=0).fit(X, Y)
    assert model.selected_.is_additive
    assert 0.2 < model.score(X, Y) < 0.8
    monkeypatch.setattr(Validation, "additive", interrupt)
    model = ExMRegressor(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_interrupted_training_keeps_the_best_model(monkeypatch):
    interrupt_call(monkeypatch, CompiledSweep, "iterate", 3)
    with pytest.warns(ConvergenceWarning, match="interrupted after 2 iterations; the best model"):
        model = ExMRegressor(**GIVEN | {"tol": 0.0}).fit(X, Y)
    assert model.n_iter_ == 2
    assert model.score(X, Y) > 0.5


@pytest.mark.filterwarnings("ignore:.*interrupted")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_a_real_interrupt_at_any_time_leaves_a_model_or_none():
    """Signals that come after 0.02 to 0.6 s, in whatever is going on then.

    Not while kernels are compiled or loaded, which numba does not survive. Python drops an
    interrupt that comes in the callback of a weak reference, with a warning: the fit goes on.
    """
    ExMClassifier(random_state=0).fit(X, LABELS)
    for delay in np.linspace(0.02, 0.6, 8):
        model = ExMClassifier(random_state=0)
        timer = threading.Timer(delay, _thread.interrupt_main)
        timer.start()
        try:
            model.fit(X, LABELS)
            time.sleep(1)  # for a signal that comes after the fit
        except KeyboardInterrupt:
            pass
        timer.join()
        try:
            assert model.predict(X).shape == (300,)
        except NotFittedError:
            assert not hasattr(model, "weights_")


# -- what a fit returns ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_no_fit_has_a_higher_objective_than_the_additive_model(seed):
    """Of its functions, at its penalty; in correlated columns with outliers in the target."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((200, 1))
    A = 0.95 * common + 0.3 * rng.standard_normal((200, 6))
    y = A[:, 0] * A[:, 1] + rng.standard_t(2, 200)
    alpha, s = 0.01, 0.3
    model = ExMRegressor(rank=3, alpha=alpha, order_scale=s, tol=1e-2, random_state=seed).fit(A, y)
    targets = (y - model.center_) / model.spread_
    data = Data(model.feature_map_.transform(A), targets, np.ones(200), model.loss_)
    basis = {"rough": ROUGH, "smooth": SMOOTH}[model.selected_.basis]
    batch = data.features(basis)
    design = np.hstack([np.ones((200, 1)), *(batch.vectors(k)[:, 1:] for k in range(6))])
    ridge = Ridge(200 * alpha / s**2, fit_intercept=False).fit(design, targets)
    parts = np.split(ridge.coef_[1:], np.cumsum(np.array(batch.shape) - 1)[:-1])
    weights = [np.append(0.0, part / s) for part in parts]
    ones = [np.eye(n)[0] for n in batch.shape]
    additive = TTTensor(initialize.additive_cores(weights, ridge.coef_[0], ones))
    assert_allclose(data.predict(additive, basis, s), ridge.predict(design), atol=1e-9)
    reached = data.value(data.from_plain(model.weights_, basis, s), basis, s, alpha)
    assert reached <= data.value(additive, basis, s, alpha) + 1e-9


def test_a_start_that_diverges_is_replaced_by_the_additive_model(monkeypatch):
    def explode(trainer, W, *args):
        return 1e3 * W

    monkeypatch.setattr(Trainer, "run", explode)
    model = ExMRegressor(**GIVEN).fit(X, Y)
    assert model.selected_.is_additive
    assert not model.selected_.is_linear  # it has curves
    assert model.weights_.rank == 2
    assert 0.2 < model.score(X, Y) < 0.8


def test_a_warm_start_says_what_it_has_trained():
    """An additive model becomes one with interactions, of all functions."""
    noise = np.random.default_rng(1).standard_normal(len(X))
    model = ExMRegressor(random_state=0, warm_start=True, tol=1e-2).fit(X, X[:, 2] + noise)
    assert model.selected_.is_linear
    model.set_params(rank=4, alpha=1e-4).fit(X, Y)
    assert not model.selected_.is_additive
    assert not model.selected_.is_linear
    assert model.selected_.basis != "linear"
    assert model.selected_.rank == 4
    assert_allclose(model.selected_.alpha, 1e-4)
    assert np.isnan(model.selected_.loss)  # nothing was validated for it
    assert model.averaged_ == [model.selected_]
    assert model.score(X, Y) > 0.9


def test_concrete_is_not_worse_than_a_linear_model():
    pandas = pytest.importorskip("pandas")
    path = Path(os.environ.get("TTEXM_DATA", "")) / "tables" / "concrete.csv"
    if not path.is_file():
        pytest.skip("needs concrete.csv in the folder tables of TTEXM_DATA")
    table = pandas.read_csv(path)
    y = table.pop("target").to_numpy()
    train, test, y_train, y_test = train_test_split(table, y, test_size=0.25, random_state=2)
    model = ExMRegressor(random_state=2).fit(train, y_train)
    linear = Ridge().fit((train - train.mean()) / train.std(), y_train)
    assert model.score(test, y_test) > linear.score((test - train.mean()) / train.std(), y_test)


def test_a_basis_without_constants_keeps_its_linear_model():
    """The order scale multiplies nothing there, in features as in weights."""
    hats = Basis([lambda x: np.clip(x, 0, 1), lambda x: 1 - np.clip(x, 0, 1)], constant=False)
    x = RNG.random((200, 2))
    y = x @ [1.0, -2.0] + 0.01 * RNG.standard_normal(200)
    model = ExMRegressor(features=hats, order_scale=0.2, random_state=0).fit(x, y)
    assert model.score(x, y) > 0.99
