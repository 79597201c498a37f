"""The local problem of one core, or a pair of them: linear in that core, and so checked densely."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from devices import IS_SIMULATED
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import DTYPES, batches, feature_vectors, seeds

from ttexm import RankOneBatch
from ttexm.kernels import backend, host, partial_products, schedule

TOLERANCE = {np.float64: 1e-11, np.float32: 1e-3}
MOST_SAMPLES = 60 if IS_SIMULATED else 500


def with_random_products(batch, *ranks, seed=0):
    """The device's partial products of a batch, and random ones of some ranks, with their tables.

    The protocol has no way from the host to partial products. So they are the vectors of further
    modes, which identity matrices take there.
    """
    rng, d = np.random.default_rng(seed), batch.ndim
    tables = [rng.standard_normal((len(batch), r)).astype(batch.dtype) for r in ranks]
    batch = RankOneBatch.join([batch, RankOneBatch.from_vectors(tables)])
    products = backend.get(batch.device).partial_products(batch.held(), len(batch), batch.dtype)
    made = []
    for k, r in enumerate(ranks):
        P = products.empty(r)
        products.advance(products.ones(), np.eye(r)[:, None, :], d + k, P)
        assert_array_equal(products.rows(P, r), tables[k])
        made.append((P, tables[k].astype(np.float64)))
    return products, *made


def jacobian(phi, left, right):
    """Row s is the gradient of f_s in the core, (n, r0, r1) flattened."""
    size = phi.shape[1] * left.shape[1] * right.shape[1]
    return np.einsum("si,sa,sb->siab", phi, left, right).reshape(len(phi), size)


@st.composite
def cases(draw, n_sides, dtype):
    """Random partial products of `n_sides` ranks, and all about each mode of the batch."""
    shape, seed = draw(st.tuples(*[st.integers(1, 4)] * 2)), draw(seeds)
    batch = draw(batches(shape, MOST_SAMPLES, dtype))
    ranks = draw(st.lists(st.integers(1, 9), min_size=n_sides, max_size=n_sides))
    modes = list(enumerate(feature_vectors(batch)))
    found = with_random_products(batch, *ranks, seed=seed)
    return *found, modes, np.random.default_rng(seed)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_values_and_products_are_those_of_the_jacobian(data, dtype):
    products, (L, left), (R, right), modes, rng = data.draw(cases(2, dtype))
    m, r0, r1 = products.m, left.shape[1], right.shape[1]
    for k, phi in modes:
        J, C = jacobian(phi, left, right), rng.standard_normal((phi.shape[1], r0, r1))
        g, h = rng.standard_normal(m), rng.random(m)
        tolerance = TOLERANCE[dtype] * max(1, m) * r0 * r1
        assert_allclose(products.values(C, k, L, R), J @ C.ravel(), atol=tolerance)
        gradient = products.gradient(g, C.shape, k, L, R)
        assert_allclose(gradient.ravel(), J.T @ g, atol=tolerance)
        product = products.product(C, h, k, L, R)
        assert_allclose(product.ravel(), J.T @ (h * (J @ C.ravel())), atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data(), r1=st.integers(1, 9))
def test_partial_products_advance_and_expand(data, r1, dtype):
    products, (P, rows), modes, rng = data.draw(cases(1, dtype))
    m, r0 = rows.shape
    assert_allclose(products.squares(P, r0), np.sum(rows**2, axis=1), rtol=TOLERANCE[dtype])
    assert products.squares(P, r0).dtype == np.float64
    for k, phi in modes:
        n = phi.shape[1]
        G, tolerance = rng.standard_normal((n, r0, r1)), TOLERANCE[dtype] * n * r0
        out = products.empty(r1)
        products.advance(P, G, k, out)
        wanted = np.einsum("si,sa,iab->sb", phi, rows, G)
        assert_allclose(products.rows(out, r1), wanted, atol=tolerance)
        out = products.empty(n * r0)
        products.expand(P, n, r0, k, out)
        wanted = np.einsum("si,sa->sia", phi, rows).reshape(m, n * r0)
        assert_allclose(products.rows(out, n * r0), wanted, atol=tolerance)


@pytest.mark.cpu
def test_results_do_not_depend_on_the_number_of_threads():
    rng, seen, before = np.random.default_rng(0), [], schedule.get_num_threads()
    batch = RankOneBatch.from_columns(rng.standard_normal((20_000, 2)))
    products, (L, _), (R, _) = with_random_products(batch, 8, 8)
    C, h = rng.standard_normal((2, 8, 8)), rng.random(20_000)
    for n in (1, 2, 3):
        schedule.set_num_threads(n)
        seen.append([products.values(C, 1, L, R), products.product(C, h, 1, L, R)])
    schedule.set_num_threads(before)
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            assert_array_equal(one, other)


@pytest.mark.cpu
@pytest.mark.parametrize("levels", [10, 1000, 20_000, 200_000])
@pytest.mark.parametrize("kind", ["codes", "indices"])
def test_sums_of_a_category_take_no_more_memory_than_its_samples(monkeypatch, levels, kind):
    rng, seen, (m, r) = np.random.default_rng(0), [], (20_000, 4)
    make = RankOneBatch.from_codes if kind == "codes" else RankOneBatch.from_indices
    codes = rng.integers(0, levels, m)
    batch = make(codes[:, None], (levels,))
    products, (L, left), (R, right) = with_random_products(batch, r, r)
    C, g = rng.standard_normal((levels, r, r)), rng.standard_normal(m)
    zeros = np.zeros

    def recorded(shape, dtype):
        seen.append(zeros(shape, dtype))
        return seen[-1]

    monkeypatch.setattr(partial_products.np, "zeros", recorded)
    gradient = products.gradient(g, C.shape, 0, L, R)
    product = products.product(C, g, 0, L, R)
    monkeypatch.undo()
    assert len(seen) == 2
    assert max(parts.size for parts in seen) <= max(m, levels) * r**2
    # The sums themselves, from the definition.
    outer = left[:, :, None] * right[:, None, :]
    values = np.einsum("sab,sab->s", outer, C[codes])
    if kind == "codes":
        values = np.einsum("sab,ab->s", outer, C[0]) + np.where(codes > 0, values, 0)
    for got, weights in ((gradient, g), (product, g * values)):
        wanted = np.zeros(C.shape)
        np.add.at(wanted, codes, weights[:, None, None] * outer)
        if kind == "codes":
            wanted[0] = np.einsum("s,sab->ab", weights, outer)
        assert_allclose(got, wanted, atol=1e-9)


@pytest.mark.cpu
@given(
    m=st.integers(1, 40), shape=st.tuples(*[st.integers(1, 4)] * 3),
    alpha=st.sampled_from([0.0, 1e-3, 10.0]), scale=st.sampled_from([1e-30, 1.0, 1e30]),
    is_sparse=st.booleans(), seed=seeds,
)  # fmt: skip
def test_a_newton_step_ends_in_the_minimum(m, shape, alpha, scale, is_sparse, seed):
    rng = np.random.default_rng(seed)
    n = shape[0]
    phi, left, right = (rng.standard_normal((m, size)) for size in shape)
    if is_sparse:
        phi = np.eye(n)[rng.integers(0, n, m)]
    # Scales of the predictions and the core that go together: the same problem in other units.
    phi, C, alpha = phi * scale, rng.standard_normal(shape) / scale, alpha * scale**2
    g, h = rng.standard_normal(m), rng.random(m) + 0.1
    step, along, slope, squared = host.newton_step(phi, left, right, C, g, h, alpha)
    J = jacobian(phi, left, right)
    gradient = J.T @ g + alpha * C.ravel()
    assert_allclose(squared, gradient @ gradient, rtol=1e-9)
    assert_allclose(slope, gradient @ step.ravel(), rtol=1e-9, atol=1e-12)
    assert_allclose(along, J @ step.ravel(), rtol=1e-9, atol=1e-9 * (1 + np.abs(along).max()))
    ridge = max(alpha, 1e-12 * np.sum(h[:, None] * J**2) / J.shape[1])
    A = np.vstack([np.sqrt(h)[:, None] * J, np.sqrt(ridge) * np.eye(J.shape[1])]) / scale
    z = np.concatenate([np.sqrt(h) * (J @ C.ravel() - g / h), np.zeros(J.shape[1])])
    best = np.linalg.lstsq(A, z)[0] / scale
    fitted = J @ (C + step).ravel()
    assert_allclose(fitted, J @ best, atol=1e-4 * (1 + np.abs(z).max()))
    if alpha > 0:
        assert_allclose((C + step).ravel() * scale, best * scale, atol=1e-7)


@pytest.mark.cpu
def test_a_newton_step_that_overflows_is_no_descent():
    ones = np.ones((3, 1))
    C, g, h = np.ones((1, 1, 1)), np.ones(3), np.ones(3)
    for huge in (1e200, np.inf, np.nan):
        _, _, slope, _ = host.newton_step(huge * ones, ones, ones, C, g, h, 0.0)
        assert not slope < 0


MANY_LEVELS = """
import resource
import numpy as np, pandas as pd
from ttexm import {estimator}

def fit(levels, m):
    rng = np.random.default_rng(0)
    codes, x = rng.integers(0, levels, m), rng.standard_normal((m, 4))
    X = pd.DataFrame(x).assign(id=pd.Categorical(codes.astype(str))).iloc[:, [0, 1, 4, 2, 3]]
    X.columns = X.columns.astype(str)
    y = rng.standard_normal(levels)[codes] * x[:, 0] + x[:, 1] * x[:, 2]
    {estimator}(max_iter=3, random_state=0).fit(X, y if {is_regressor} else y > 0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

print(fit(50, 8000), fit(20_000, 40_000))
"""


@pytest.mark.cpu
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux alone")
@pytest.mark.parametrize("estimator", ["ExMRegressor", "ExMClassifier"])
def test_a_category_of_many_levels_fits_in_little_memory(estimator):
    code = MANY_LEVELS.format(estimator=estimator, is_regressor=estimator == "ExMRegressor")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    few, many = map(float, done.stdout.split())
    # MB beyond those of libraries, kernels and a fit of few levels.
    assert many - few < 400
