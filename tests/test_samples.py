"""The local problem of one core, or a pair of them: linear in that core, and so checked densely."""

import numpy as np
import pytest
from devices import IS_SIMULATED
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import DTYPES, batches, feature_vectors, seeds

from ttexm import RankOneBatch, device
from ttexm.kernels import threads

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
