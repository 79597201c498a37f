"""Linear models: the minimum of the objective, with as few Newton steps as the tolerance allows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import seeds

from ttexm.learn import linear
from ttexm.learn.linear import EXACT, fit_linear
from ttexm.learn.losses import Logistic, Poisson, Squared
from ttexm.learn.objective import Objective

TARGETS = {
    Squared: lambda f, rng: f + rng.standard_normal(len(f)),
    Logistic: lambda f, rng: np.where(f + rng.logistic(size=len(f)) > 0, 1.0, -1.0),
    Poisson: lambda f, rng: rng.poisson(np.exp(np.clip(f, -3, 2))).astype(float),
}


def problem(loss, rng, m=200, n=6, alpha=1e-2):
    design = np.hstack([np.ones((m, 1)), rng.standard_normal((m, n))])
    y = TARGETS[type(loss)](design @ rng.standard_normal(n + 1), rng)
    return design, Objective(loss, y, rng.uniform(0.5, 2, m), alpha)


@given(st.sampled_from([kind() for kind in TARGETS]), seeds, st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_the_objective_is_as_near_its_minimum_as_the_tolerance_says(loss, seed, tolerance):
    design, objective = problem(loss, np.random.default_rng(seed))

    def value(w):
        return objective.value(design @ w, w @ w)

    exact = fit_linear(design, objective)
    gradient = design.T @ objective.derivative(design @ exact) + objective.alpha * exact
    assert_allclose(gradient, 0, atol=1e-9)
    found = fit_linear(design, objective, tolerance=tolerance)
    assert value(exact) - 1e-12 <= value(found) <= value(exact) + tolerance * abs(value(exact))


@pytest.mark.parametrize(("tolerance", "n_steps"), [(1e-5, 1), (EXACT, 2)])
def test_one_newton_step_is_enough_for_the_squared_loss(monkeypatch, tolerance, n_steps):
    """A second one is for the last digits alone."""
    solved = []

    def spy(matrix, b):
        solved.append(b)
        return solve(matrix, b)

    solve = linear._solve_positive
    monkeypatch.setattr(linear, "_solve_positive", spy)
    design, objective = problem(Squared(), np.random.default_rng(0))
    fit_linear(design, objective, tolerance=tolerance)
    assert len(solved) == n_steps
