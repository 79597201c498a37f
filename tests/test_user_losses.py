"""Losses of users, written from the docstring of `ttexm.losses` alone, and what does not fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import QuantileRegressor

from ttexm import ExMClassifier, ExMRegressor
from ttexm.features import Polynomial
from ttexm.learn.losses import LOSSES, Loss

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
SIGNAL = 0.5 * X[:, 0] * X[:, 1] + 0.3 * X[:, 2]


class Gamma(Loss):
    """For positive numbers, with the mean exp(f)."""

    def value(self, y, f):
        return y * np.exp(-f) + f

    def derivative(self, y, f):
        return 1 - y * np.exp(-f)

    def curvature(self, y, f):
        return y * np.exp(-f)

    def predict(self, f):
        return np.exp(f)

    def check(self, y):
        if (y <= 0).any():
            raise ValueError(f"Gamma is for positive numbers, got {y.min():g}.")


class Huber(Loss):
    """Squared up to 1, in the units of y, then straight."""

    def value(self, y, f):
        r = np.abs(f - y)
        return np.where(r < 1, r**2 / 2, r - 0.5)

    def derivative(self, y, f):
        return np.clip(f - y, -1, 1)

    def curvature(self, y, f):
        return np.where(np.abs(f - y) < 1, 1.0, 0.0)


class Quantile(Loss):
    """The pinball loss, in any units; it has no curvature."""

    allows_rescaling = True

    def __init__(self, q):
        self.q = q

    def value(self, y, f):
        return np.maximum(self.q * (y - f), (self.q - 1) * (y - f))

    def derivative(self, y, f):
        return np.where(y > f, -self.q, 1 - self.q)

    def curvature(self, y, f):
        return np.zeros_like(f)


class CrossEntropy(Loss):
    """A softmax of one's own, with one value per sample."""

    targets = "one_hot"
    couples_outputs = True
    has_probabilities = True

    def value(self, y, f):
        return -np.sum(y * log_softmax(f, axis=1), axis=1)

    def derivative(self, y, f):
        return softmax(f, axis=1) - y

    def curvature(self, y, f):
        p = softmax(f, axis=1)
        return p * (1 - p)

    def predict(self, f):
        return softmax(f, axis=1)


class Probit(Loss):
    """Another loss of signs, here a scaled logistic one."""

    targets = "signs"
    has_probabilities = True

    def value(self, y, f):
        return np.logaddexp(0, -1.7 * y * f)

    def derivative(self, y, f):
        return -1.7 * y * expit(-1.7 * y * f)

    def curvature(self, y, f):
        return 1.7**2 * expit(1.7 * f) * expit(-1.7 * f)

    def predict(self, f):
        return expit(1.7 * f)


def test_a_gamma_loss_gets_positive_targets_and_predicts_the_mean():
    mean = np.exp(SIGNAL + 2)
    y = np.random.default_rng(1).gamma(20.0, mean / 20)
    # (Straight lines: clipped columns have no part in a tail that grows exponentially.)
    numbers = Polynomial(standardize=True)
    model = ExMRegressor(loss=Gamma(), features=numbers, random_state=0).fit(X, y)
    assert (model.predict(X) > 0).all()
    error = np.linalg.norm(model.predict(X) - mean) / np.linalg.norm(mean - mean.mean())
    assert error < 0.2
    with pytest.raises(ValueError, match="Gamma is for positive numbers, got -1"):
        ExMRegressor(loss=Gamma()).fit(X[:20], np.r_[-1.0, np.ones(19)])


def test_a_huber_loss_is_not_drawn_by_outliers():
    y = 10 * SIGNAL
    dirty = np.where(np.arange(400) % 20 == 0, y + 300, y)
    plain = ExMRegressor(random_state=0).fit(X, dirty)
    robust = ExMRegressor(loss=Huber(), random_state=0).fit(X, dirty)
    assert np.mean(np.abs(robust.predict(X) - y)) < 0.5
    assert np.mean(np.abs(plain.predict(X) - y)) > 5


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_quantile_loss_predicts_quantiles_in_any_units(scale):
    noise = np.random.default_rng(2).standard_normal(400)
    y = scale * (X[:, 2] + noise)
    for q in (0.2, 0.8):
        model = ExMRegressor(loss=Quantile(q), random_state=0).fit(X, y)
        assert abs(np.mean(y < model.predict(X)) - q) < 0.05
        rival = QuantileRegressor(quantile=q, alpha=0).fit(X, y)
        loss = Quantile(q)
        assert loss.mean(y, model.predict(X)) < 1.02 * loss.mean(y, rival.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_coupled_loss_gets_one_hot_targets_and_is_the_softmax(n_classes):
    y = np.digitize(SIGNAL, [0.0] if n_classes == 2 else [-0.2, 0.2])
    assert ExMClassifier(loss=CrossEntropy(), random_state=0).fit(X, y).score(X, y) > 0.9
    # The built-in loss takes other steps, as it knows all second derivatives, to the same minimum.
    settings = {"rank": 3, "alpha": 1e-2, "order_scale": 0.5, "tol": 1e-8, "random_state": 0}
    mine = ExMClassifier(loss=CrossEntropy(), **settings).fit(X, y)
    builtin = ExMClassifier(loss="softmax", **settings).fit(X, y)
    assert_allclose(mine.predict_proba(X), builtin.predict_proba(X), atol=1e-5)


def test_a_loss_of_signs_takes_each_class_against_the_rest():
    y = np.digitize(SIGNAL, [-0.2, 0.2])
    model = ExMClassifier(loss=Probit(), random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    pair = ExMClassifier(loss=Probit(), random_state=0).fit(X, y > 0)
    assert pair.decision_function(X).shape == (400,)
    assert_allclose(pair.predict_proba(X)[:, 1], expit(1.7 * pair.decision_function(X)))


def test_probabilities_of_hopeless_rows_are_no_nan():
    class Stuck(Probit):
        def predict(self, f):
            return np.zeros_like(f)

    y = np.digitize(SIGNAL, [-0.2, 0.2])
    settings = {"rank": 2, "alpha": 1e-2, "order_scale": 0.5, "tol": 1e-2}
    p = ExMClassifier(loss=Stuck(), random_state=0, **settings).fit(X, y).predict_proba(X)
    assert_allclose(p.sum(axis=1), 1)


# -- built-in losses ------------------------------------------------------------------------------


def test_softmax_of_two_classes_is_a_distribution_for_each_row():
    y = np.where(SIGNAL > 0, "yes", "no")
    model = ExMClassifier(loss="softmax", random_state=0).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (400, 2)
    assert_allclose(p.sum(axis=1), 1)
    assert model.score(X, y) > 0.95
    f = model.decision_function(X)
    assert f.shape == (400,)
    assert_allclose(expit(f), p[:, 1])
    assert_array_equal(model.predict(X), model.classes_[(f > 0).astype(int)])
    # One row at a time says the same as all at once.
    assert_allclose(model.predict_proba(X[:1]), p[:1])


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_works_in_the_task_that_it_declares_and_in_no_other(name):
    takes_numbers = LOSSES[name].targets == "numbers"
    settings = {"rank": 3, "alpha": 1e-4, "order_scale": 0.5, "tol": 1e-2, "random_state": 0}
    classifier = ExMClassifier(loss=name, **settings)
    regressor = ExMRegressor(loss=name, **settings)
    counts = np.round(np.exp(SIGNAL + 1))
    if takes_numbers:
        for y in (counts, np.stack([counts, counts[::-1]], axis=1)):
            assert regressor.fit(X, y).predict(X).shape == y.shape
        assert np.corrcoef(regressor.fit(X, counts).predict(X), counts)[0, 1] > 0.8
        match = f"loss='{name}' takes 'numbers', the targets of ExMRegressor, and does not fit ExMC"
        with pytest.raises(ValueError, match=match):
            classifier.fit(X, SIGNAL > 0)
    else:
        for cuts in ([0.0], [-0.2, 0.2]):
            y = np.digitize(SIGNAL, cuts)
            assert classifier.fit(X, y).score(X, y) > 0.85
        kind = LOSSES[name].targets
        match = f"loss='{name}' takes '{kind}', the targets of ExMClassifier, and does not fit ExMR"
        for y in (SIGNAL, np.stack([SIGNAL, SIGNAL], axis=1)):
            with pytest.raises(ValueError, match=match):
                regressor.fit(X, y)


class Strange(Huber):
    targets = "labels"


class Scalar(Huber):
    def curvature(self, y, f):
        return 1.0


class Endless(Huber):
    def value(self, y, f):
        with np.errstate(divide="ignore"):
            return -np.log(f)


class Hollow(Huber):
    def curvature(self, y, f):
        return -np.ones_like(f)


class Backwards(Huber):
    """Nonsense that never gets better: training still ends."""

    def derivative(self, y, f):
        return np.full_like(f, np.nan) if np.any(f) else f - y


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Strange(), "targets of a loss must be one of 'numbers', 'signs', 'one_hot', got 'labels'"),
        (Scalar(), r"Scalar\(\).curvature\(y, f\) must give floats of the shape of f, \(2,\) here"),
        (Endless(), r"Endless\(\).value\(y, f\) must be finite at f = 0, got"),
        (Hollow(), r"Hollow\(\).curvature\(y, f\) must be at least 0, got"),
    ],
)
def test_a_loss_that_cannot_be_trained_with_is_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        ExMRegressor(loss=loss).fit(X[:50], SIGNAL[:50])


@pytest.mark.filterwarnings("ignore")
def test_a_loss_of_nonsense_ends():
    model = ExMRegressor(loss=Backwards(), random_state=0).fit(X[:50], SIGNAL[:50])
    assert np.isfinite(model.predict(X)).all()


def test_probabilities_are_offered_by_what_the_loss_declares():
    assert hasattr(ExMClassifier(loss=CrossEntropy()), "predict_proba")
    assert not hasattr(ExMClassifier(loss=Huber()), "predict_proba")
    assert not hasattr(ExMClassifier(loss="hinge"), "predict_proba")
    assert hasattr(ExMClassifier(loss="no such loss"), "fit")
