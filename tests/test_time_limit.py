"""The time limit of a search: it ends with the best so far, on any clock, and needs one model."""

import inspect
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ttexm import ExMClassifier, ExMRegressor
from ttexm.learn.selection import search

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (200, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * RNG.standard_normal(200)
LABELS = np.where(Y > 0, "high", "low")


@pytest.fixture
def clock(monkeypatch):
    """A clock of the search that is one second later whenever it is looked at."""
    seconds = itertools.count()
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: next(seconds)))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("n", [1, 2, 12, 25])
def test_a_search_tries_what_fits_into_the_limit_and_takes_the_best(n):
    model = ExMRegressor(random_state=0, max_order=0, time_limit=n).fit(X, Y)
    tried = model.search_results_
    assert len(tried) == n
    most = max(len(one.losses) for one in tried)
    best = min((one for one in tried if len(one.losses) == most), key=lambda one: one.loss)
    assert model.selected_ == best
    assert [one.weight for one in model.averaged_] == [1.0]
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize(("make", "y"), [(ExMRegressor, Y), (ExMClassifier, LABELS)])
def test_a_tiny_limit_gives_an_additive_model(make, y):
    model = make(random_state=0, time_limit=1e-9).fit(X, y)
    assert len(model.search_results_) == 1
    assert model.selected_.is_additive
    assert model.score(X, y) > 0.5


def test_a_tiny_limit_gives_another_solver_its_first_settings():
    """It trains models with interactions only, so that the first one of these is needed."""
    settings = {"solver": "riemannian", "max_iter": 5, "tol": 1.0, "random_state": 0}
    model = ExMRegressor(time_limit=1e-9, **settings).fit(X, Y)
    assert sum(not one.is_additive for one in model.search_results_) == 1


def test_without_a_limit_the_clock_makes_no_difference(monkeypatch):
    expected = ExMRegressor(random_state=0).fit(X, Y)
    seconds = itertools.count(step=10**9)
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    model = ExMRegressor(random_state=0).fit(X, Y)
    assert_array_equal(model.predict(X), expected.predict(X))
    # .. nor does it with a limit that is not reached.
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: 7.0))
    model = ExMRegressor(random_state=0, time_limit=1e-3).fit(X, Y)
    assert_array_equal(model.predict(X), expected.predict(X))


def test_settings_that_are_given_need_no_time():
    settings = {"rank": 2, "alpha": 1e-2, "order_scale": 0.5, "tol": 1e-2, "random_state": 0}
    model = ExMRegressor(time_limit=1e-9, **settings).fit(X, Y)
    assert not model.selected_.is_additive


@pytest.mark.parametrize("make", [ExMRegressor, ExMClassifier])
@pytest.mark.parametrize("limit", [0, -1.0, np.nan, np.inf, "auto", "10", True, [1]], ids=repr)
def test_a_limit_that_is_no_number_of_seconds_is_refused(make, limit):
    with pytest.raises(ValueError, match="time_limit must be a positive number of seconds, or Non"):
        make(time_limit=limit).fit(X, LABELS if make is ExMClassifier else Y)


@pytest.mark.parametrize("make", [ExMRegressor, ExMClassifier])
def test_all_parameters_and_attributes_are_documented(make):
    model = make(rank=2, alpha=1e-2, order_scale=0.5, tol=1e-1, random_state=0)
    model.fit(X, LABELS if make is ExMClassifier else Y)
    parameters, attributes = inspect.getdoc(make).split("Attributes\n")
    for name in model.get_params():
        assert f"\n{name} : " in parameters, name
    learned = [name for name in vars(model) if name.endswith("_")]
    described = attributes.split("See Also")[0]
    for name in (*learned, "weights_", "loss_"):
        assert name in described, name
