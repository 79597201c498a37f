"""The factorization machine that the notebooks compare with: its kernels against all products."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

pytestmark = pytest.mark.slow
sys.path.append(str(Path(__file__).parent.parent / "notebooks"))
from factorization_machine import FactorizationMachine  # noqa: E402


def machine(order, rank, d, rng):
    """Random parameters, in float64."""
    fm = FactorizationMachine(order, rank, alpha=0.1)
    fm.intercept_, fm.coef_ = rng.standard_normal(1), rng.standard_normal(d)
    fm.factors_ = rng.standard_normal((order - 1, d, rank))
    return fm


def naive_values(fm, X):
    f = fm.intercept_ + X @ fm.coef_
    for t, P in enumerate(fm.factors_, 2):
        for columns in map(list, itertools.combinations(range(X.shape[1]), t)):
            f = f + X[:, columns].prod(axis=1) * P[columns].prod(axis=0).sum()
    return f


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 6), st.integers(0, 9), st.integers(0))
def test_values_and_gradients(order, rank, d, m, seed):
    rng = np.random.default_rng(seed)
    fm = machine(order, rank, d, rng)
    X = rng.standard_normal((m, d)) * (rng.random((m, d)) < 0.6)  # some rows may be empty
    assert_allclose(fm.decision_function(X), naive_values(fm, X), rtol=1e-9, atol=1e-9)
    if m == 0:
        return
    signs = rng.choice([-1.0, 1.0], m)
    found = fm.gradients(sparse.csr_array(X), signs)
    parameters = [fm.intercept_, fm.coef_, fm.factors_]

    def loss():
        penalty = sum((p**2).sum() for p in parameters[1:]) * fm.alpha / 2
        return np.logaddexp(0, -signs * naive_values(fm, X)).mean() + penalty

    for p, g in zip(parameters, found, strict=True):
        assert g.shape == p.shape
        if p.size == 0:  # order 1
            continue
        place = tuple(rng.integers(0, n) for n in p.shape)
        kept, step = p[place], 1e-5
        p[place] = kept + step
        above = loss()
        p[place] = kept - step
        below = loss()
        p[place] = kept
        assert_allclose(g[place], (above - below) / (2 * step), rtol=1e-4, atol=1e-6)


def test_it_learns_a_product_of_its_order_and_no_higher_one():
    X = np.random.default_rng(0).choice([-1.0, 1.0], (4000, 6))
    y = np.where(X[:, 0] * X[:, 2] * X[:, 5] > 0, "yes", "no")
    scores = {
        order: FactorizationMachine(order, rank=4, batch_size=200).fit(X[:3000], y[:3000])
        .score(X[3000:], y[3000:])
        for order in (2, 3)
    }  # fmt: skip
    assert scores[3] > 0.99
    assert scores[2] < 0.6


def test_two_classes_are_wanted():
    with pytest.raises(ValueError, match="y must have two classes, got 3"):
        FactorizationMachine().fit(np.eye(3), [0, 1, 2])
