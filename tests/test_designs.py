"""Designs of additive models: those of knots and levels act like the matrix that they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import curve_batch
from scipy import optimize, sparse
from strategies import feature_vectors, seeds

from ttexm import RankOneBatch
from ttexm.learn import designs
from ttexm.learn.designs import AdditiveDesign, KnotDesign
from ttexm.learn.initialize import fit_additive, linear
from ttexm.learn.losses import Logistic, Poisson, Softmax, Squared
from ttexm.learn.objective import Objective


def written_out(batch):
    """A column of ones, and all slots but the constants."""
    ones = np.ones((len(batch), 1))
    return np.hstack([ones, *(vectors[:, 1:] for vectors in feature_vectors(batch))])


def knots_and_levels(rng, m, sizes):
    """A batch of curves, n functions on n + 2 knots, and of categories of n levels (n < 0)."""
    modes = []
    for n in sizes:
        if n > 0:
            modes.append(curve_batch(rng, m, n, n + 2))
        else:
            codes = rng.integers(0, -n, (m, 1))
            modes.append(RankOneBatch.from_codes(codes, (-n,), rng.uniform(0.5, 2)))
    return RankOneBatch.join(modes)


# Few columns are written out; many levels are kept sparse.
sizes = st.lists(st.sampled_from([1, 2, 5, 30, -1, -2, -6, -40, -150]), min_size=1, max_size=4)


@given(m=st.integers(1, 60), sizes=sizes, seed=seeds, n_outputs=st.integers(1, 3))
def test_products_are_those_of_the_matrix(m, sizes, seed, n_outputs):
    rng = np.random.default_rng(seed)
    batch = knots_and_levels(rng, m, sizes)
    design, X = AdditiveDesign(batch).matrix, written_out(batch)
    assert isinstance(design, KnotDesign)
    assert design.shape == X.shape
    v, g = rng.standard_normal((X.shape[1], n_outputs)), rng.standard_normal((m, n_outputs))
    h = rng.random(m)
    assert_allclose(design @ v, X @ v, atol=1e-12 * X.shape[1])
    assert_allclose(design.T @ g, X.T @ g, atol=1e-12 * m)
    assert_allclose(design @ v[:, 0], X @ v[:, 0], atol=1e-12 * X.shape[1])
    assert_allclose(design.T @ g[:, 0], X.T @ g[:, 0], atol=1e-12 * m)
    assert_allclose(design.row_gram, X @ X.T, atol=1e-12 * X.shape[1])
    for weights in (h, h, np.ones(m)):  # the last one is kept
        gram = X.T @ (weights[:, None] * X)
        assert_allclose(design.gram(weights), gram, atol=1e-12 * m)
        found = design.gram(weights)
        found += 1  # a copy, which the caller may change
    # As if places between two knots were at both of them, each with its share.
    on_knots = [_diagonal_on_knots(batch, k, h) for k in range(batch.ndim)]
    assert_allclose(design.diagonal(h), [h.sum(), *np.concatenate(on_knots)], atol=1e-12 * m)


def _diagonal_on_knots(batch, k, h):
    table = batch.modes.tables[k]
    if table is None:
        return h @ batch.vectors(k)[:, 1:] ** 2
    place = batch.modes.stored(batch.arrays, len(batch), k)[:, 0]
    c = place.astype(int)
    t = (place - c)[:, None]
    squares = np.vstack([table, table[-1]])[:, 1:] ** 2
    return h @ ((1 - t) * squares[c] + t * squares[c + 1])


@given(m=st.integers(1, 60), sizes=sizes, seed=seeds)
def test_weights_of_columns_and_of_modes(m, sizes, seed):
    rng = np.random.default_rng(seed)
    batch = knots_and_levels(rng, m, sizes)
    design = AdditiveDesign(batch)
    w = rng.standard_normal((design.matrix.shape[1], 2))
    weights = design.split(w)
    assert_array_equal(design.join(weights, w[0]), w)
    modes = zip(feature_vectors(batch), weights, strict=True)
    expected = w[0] + sum(phi @ part for phi, part in modes)
    assert_allclose(design.predict(weights, w[0]), expected, atol=1e-11)


def test_a_category_of_many_levels_is_never_written_out():
    rng, n = np.random.default_rng(0), 200_000
    batch = RankOneBatch.from_codes(rng.integers(0, n, (5000, 1)), (n,), 0.5)
    design = KnotDesign(batch)
    v, g = rng.standard_normal(n), rng.standard_normal(5000)
    X = sparse.hstack([np.ones((5000, 1)), batch.matrix(0)[:, 1:]], format="csr")
    assert_allclose(design @ v, X @ v)
    assert_allclose(design.T @ g, X.T @ g, atol=1e-12)
    assert_allclose(design.diagonal(g**2), (X * X).T @ g**2, atol=1e-12)


# -- additive models ------------------------------------------------------------------------------


def targets(loss, f, rng):
    if isinstance(loss, Squared):
        return f + rng.standard_normal(f.shape)
    if isinstance(loss, Poisson):
        return rng.poisson(np.exp(np.clip(f, -3, 2))).astype(float)
    if isinstance(loss, Softmax):
        return np.eye(f.shape[1])[(f + rng.gumbel(size=f.shape)).argmax(axis=1)]
    return np.where(f + rng.logistic(size=f.shape) > 0, 1.0, -1.0)


def best_weights(X, objective):
    """Newton's method, or ridge regression, with the matrix written out."""
    shape = (X.shape[1], *objective.y.shape[1:])

    def value_and_gradient(w):
        f = X @ w.reshape(shape)
        g = X.T @ objective.derivative(f).reshape(f.shape)
        return objective.value(f, w @ w), g.reshape(-1) + objective.alpha * w

    def hessian(w):
        h = objective.curvature(X @ w)
        return X.T @ (h[:, None] * X) + objective.alpha * np.eye(len(w))

    start = np.zeros(int(np.prod(shape)))
    if len(shape) == 2:
        return optimize.minimize(
            value_and_gradient, start, jac=True, tol=1e-10, options={"maxiter": 5000}
        ).x.reshape(shape)
    w = start
    for _ in range(15):
        w = w - np.linalg.solve(hessian(w), value_and_gradient(w)[1])
    return w


# Systems of the columns, of the rows, and solved iteratively: see `linear`.
CASES = {
    "columns": (300, [5, -6, 2, -2]),
    "many columns": (400, [30, 30, -40, 30]),
    "rows": (60, [30, -40, 5]),
    "rows and levels": (80, [5, -150, -2]),
    "iterative": (700, [5, -610, 2]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Poisson()], ids=repr)
def test_additive_models_are_the_best_ones(case, loss):
    m, sizes = CASES[case]
    rng = np.random.default_rng(0)
    batch = knots_and_levels(rng, m, sizes)
    X = written_out(batch)
    f = X @ rng.standard_normal(X.shape[1]) / X.shape[1] ** 0.5
    objective = Objective(loss, targets(loss, f, rng), rng.uniform(0.5, 2, m), 0.01)
    design = AdditiveDesign(batch)
    found = fit_additive(design, objective)
    w = best_weights(X, objective)
    assert_allclose(design.join(found.weights, found.intercept), w, atol=1e-6 * np.abs(w).max())
    assert_allclose(found.tensor().contract(batch), X @ w, atol=1e-5)
    # From the solution itself there is nothing to do.
    again = fit_additive(design, objective, found)
    assert_allclose(again.intercept, found.intercept, rtol=1e-8)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax()], ids=repr)
def test_additive_models_of_several_outputs(loss):
    rng = np.random.default_rng(0)
    batch = knots_and_levels(rng, 300, [5, -6, 2])
    X = written_out(batch)
    f = X @ rng.standard_normal((X.shape[1], 3)) / X.shape[1] ** 0.5
    objective = Objective(loss, targets(loss, f, rng), rng.uniform(0.5, 2, 300), 0.01)
    found = fit_additive(AdditiveDesign(batch), objective)
    w = best_weights(X, objective)
    assert_allclose(found.tensor().contract(batch), X @ w, atol=2e-3 * np.abs(X @ w).max())
    squares = np.sum(found.intercept**2) + sum(np.sum(part**2) for part in found.weights)
    value = objective.value(X @ w, np.sum(w**2))
    assert_allclose(objective.value(found.tensor().contract(batch), squares), value, rtol=1e-6)


def test_a_design_of_knots_has_the_model_of_its_functions_as_numbers():
    rng = np.random.default_rng(0)
    batch = knots_and_levels(rng, 200, [4, -5, 30])
    objective = Objective(Logistic(), rng.choice([-1.0, 1.0], 200), np.ones(200), 0.01)
    numbers = batch.written_out()
    assert not isinstance(AdditiveDesign(numbers).matrix, KnotDesign)
    one, other = linear(batch, objective), linear(numbers, objective)
    assert_allclose(one.contract(batch), other.contract(batch), atol=1e-6)


def test_modes_of_other_kinds_have_a_matrix():
    rng = np.random.default_rng(0)
    curve, codes = (
        curve_batch(rng, 50, 3),
        RankOneBatch.from_codes(rng.integers(0, 4, (50, 1)), (4,)),
    )
    numbers = RankOneBatch.from_columns(rng.standard_normal((50, 1)))
    many = RankOneBatch.from_codes(rng.integers(0, 400, (50, 1)), (400,))
    for batch, is_sparse in (([curve, numbers, codes], False), ([numbers, many], True)):
        batch = RankOneBatch.join(batch)
        matrix = AdditiveDesign(batch).matrix
        assert sparse.issparse(matrix) == is_sparse
        matrix = matrix.toarray() if is_sparse else matrix
        assert_allclose(matrix, written_out(batch))


def test_a_curve_whose_functions_have_no_constant_is_a_mode_of_vectors():
    rng = np.random.default_rng(0)
    hats = rng.dirichlet(np.ones(4), 50)
    c = designs.constant_of(RankOneBatch.from_vectors([hats]), 0)
    assert_allclose(hats @ c, 1)
