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

from ttexm import RankOneBatch, device
from ttexm.kernels import samples as chunked
from ttexm.kernels import site, threads

TOLERANCE = {np.float64: 1e-11, np.float32: 1e-3}
MOST_SAMPLES = 60 if IS_SIMULATED else 500


def samples_of(batch, *ranks, seed=0):
    """Samples, with random partial products of some ranks, and these as tables (m, r).

    There is no way from the host to partial products but this: they are the vectors of further
    modes, which identity matrices take there.
    """
    rng, d = np.random.default_rng(seed), batch.ndim
    tables = [rng.standard_normal((len(batch), r)).astype(batch.dtype) for r in ranks]
    vectors = RankOneBatch.from_vectors(tables)
    batch = RankOneBatch.join([batch, vectors])
    samples = device.get(batch.device).Samples(batch._held, len(batch), batch.dtype)
    products = []
    for k, r in enumerate(ranks):
        P = samples.empty(r)
        samples.advance(samples.ones(), np.eye(r)[:, None, :], d + k, P)
        assert_array_equal(samples.rows(P, r), tables[k])
        products.append((P, tables[k].astype(np.float64)))
    return samples, *products


def jacobian(phi, left, right):
    """Row s is the gradient of f_s in the core, (n, r0, r1) flattened."""
    size = phi.shape[1] * left.shape[1] * right.shape[1]
    return np.einsum("si,sa,sb->siab", phi, left, right).reshape(len(phi), size)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data(), shape=st.tuples(*[st.integers(1, 4)] * 2), seed=seeds)
def test_values_and_products_are_those_of_the_jacobian(data, shape, dtype, seed):
    batch = data.draw(batches(shape, MOST_SAMPLES, dtype))
    r0, r1, rng = (
        data.draw(st.integers(1, 9)),
        data.draw(st.integers(1, 9)),
        np.random.default_rng(seed),
    )
    samples, (L, left), (R, right) = samples_of(batch, r0, r1, seed=seed)
    for k, (n, phi) in enumerate(zip(shape, feature_vectors(batch), strict=True)):
        J, C = jacobian(phi, left, right), rng.standard_normal((n, r0, r1))
        g, h = rng.standard_normal(len(batch)), rng.random(len(batch))
        tolerance = TOLERANCE[dtype] * max(1, len(batch)) * r0 * r1
        assert_allclose(samples.values(C, k, L, R), J @ C.ravel(), atol=tolerance)
        gradient = samples.gradient(g, C.shape, k, L, R)
        assert_allclose(gradient.ravel(), J.T @ g, atol=tolerance)
        product = samples.product(C, h, k, L, R)
        assert_allclose(product.ravel(), J.T @ (h * (J @ C.ravel())), atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data(), shape=st.tuples(*[st.integers(1, 4)] * 2), seed=seeds)
def test_partial_products_advance_and_expand(data, shape, dtype, seed):
    batch = data.draw(batches(shape, MOST_SAMPLES, dtype))
    r0, r1, rng = (
        data.draw(st.integers(1, 9)),
        data.draw(st.integers(1, 9)),
        np.random.default_rng(seed),
    )
    samples, (P, rows) = samples_of(batch, r0, seed=seed)
    assert_allclose(samples.squares(P, r0), np.sum(rows**2, axis=1), rtol=TOLERANCE[dtype])
    assert samples.squares(P, r0).dtype == np.float64
    for k, (n, phi) in enumerate(zip(shape, feature_vectors(batch), strict=True)):
        G, tolerance = rng.standard_normal((n, r0, r1)), TOLERANCE[dtype] * n * r0
        out = samples.empty(r1)
        samples.advance(P, G, k, out)
        wanted = np.einsum("si,sa,iab->sb", phi, rows, G)
        assert_allclose(samples.rows(out, r1), wanted, atol=tolerance)
        out = samples.empty(n * r0)
        samples.expand(P, n, r0, k, out)
        wanted = np.einsum("si,sa->sia", phi, rows).reshape(len(batch), n * r0)
        assert_allclose(samples.rows(out, n * r0), wanted, atol=tolerance)


@pytest.mark.cpu
def test_results_do_not_depend_on_the_number_of_threads():
    rng, seen, before = np.random.default_rng(0), [], threads.get_num_threads()
    batch = RankOneBatch.from_columns(rng.standard_normal((20_000, 2)))
    samples, (L, _), (R, _) = samples_of(batch, 8, 8)
    C, h = rng.standard_normal((2, 8, 8)), rng.random(20_000)
    for n in (1, 2, 3):
        threads.set_num_threads(n)
        seen.append([samples.values(C, 1, L, R), samples.product(C, h, 1, L, R)])
    threads.set_num_threads(before)
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
    samples, (L, left), (R, right) = samples_of(batch, r, r)
    C, g = rng.standard_normal((levels, r, r)), rng.standard_normal(m)
    zeros = np.zeros

    def recorded(shape, dtype):
        seen.append(zeros(shape, dtype))
        return seen[-1]

    monkeypatch.setattr(chunked.np, "zeros", recorded)
    gradient, product = samples.gradient(g, C.shape, 0, L, R), samples.product(C, g, 0, L, R)
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
def test_the_exact_step_ends_in_the_minimum(m, shape, alpha, scale, is_sparse, seed):
    rng = np.random.default_rng(seed)
    n = shape[0]
    phi, left, right = (rng.standard_normal((m, size)) for size in shape)
    if is_sparse:
        phi = np.eye(n)[rng.integers(0, n, m)]
    # Scales of the predictions and the core that go together: the same problem in other units.
    phi, C, alpha = phi * scale, rng.standard_normal(shape) / scale, alpha * scale**2
    g, h = rng.standard_normal(m), rng.random(m) + 0.1
    step, along = np.empty(shape), np.empty(m)
    slope, squared = site.exact_step(phi, left, right, C, g, h, alpha, step, along)
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
def test_an_exact_step_that_overflows_is_none():
    ones = np.ones((3, 1))
    step, along = np.empty((1, 1, 1)), np.empty(3)
    C, g, h = np.ones((1, 1, 1)), np.ones(3), np.ones(3)
    for huge in (1e200, np.inf, np.nan):
        assert not site.exact_step(huge * ones, ones, ones, C, g, h, 0.0, step, along)[0] < 0


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
