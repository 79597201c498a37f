"""Derivatives in the cores, and descent along them."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import batches, cores_of, dtypes, feature_vectors, shapes

from ttexm import RankOneBatch, TTTensor


@given(data=st.data(), shape=shapes(), dtype=dtypes)
def test_core_gradient_is_the_derivative_in_each_entry(data, shape, dtype):
    cores = data.draw(cores_of(shape, dtype=dtype))
    batch = data.draw(batches(shape, dtype=dtype))
    g = np.random.default_rng(0).standard_normal(len(batch))
    Z = (g @ naive.rank_ones(feature_vectors(batch))).reshape(shape)
    expected = naive.core_gradient([core.astype(np.float64) for core in cores], Z)
    W, seen = TTTensor(cores), {}
    for given_g in (g, lambda f: seen.setdefault("f", f) * 0 + g):
        for found, wanted in zip(W.core_gradient(batch, given_g), expected, strict=True):
            tolerance = 1e4 * np.finfo(dtype).eps * (1 + np.abs(wanted).max(initial=0))
            assert_allclose(found, wanted, rtol=0, atol=tolerance)
            assert found.dtype == dtype
    assert_allclose(seen["f"], W.contract(batch), rtol=1e-3, atol=1e-3)


def test_core_gradient_of_many_samples_and_of_products_out_of_range():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_columns(rng.standard_normal((2000, 20)))
    W = TTTensor.random(batch.shape, 3, seed=0)
    g = rng.standard_normal(2000)
    whole = W.core_gradient(batch, g)
    parts = [W.core_gradient(batch[i::4], g[i::4]) for i in range(4)]
    for k, found in enumerate(whole):
        assert_allclose(found, sum(part[k] for part in parts), atol=1e-10 * np.abs(found).max())
    # 2^3000 from the left, 2^-3000 from the right: no derivative is, but partial products are.
    powers = np.repeat([300, -300], 10)
    cores = [np.ldexp(core, e) for core, e in zip(W.to_cores(), powers, strict=True)]
    for found, wanted, e in zip(
        TTTensor(cores).core_gradient(batch, g), whole, powers, strict=True
    ):
        assert_allclose(np.ldexp(found, e), wanted, atol=1e-10 * np.abs(wanted).max())


def test_core_gradient_checks_g_and_the_batch():
    W, batch = TTTensor.ones((2, 2)), RankOneBatch.from_columns(np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"one number a sample, shape \(3,\), got \(2,\)"):
        W.core_gradient(batch, np.ones(2))
    with pytest.raises(ValueError, match="must have 3 modes, got 2"):
        TTTensor.ones((2, 2, 2)).core_gradient(batch, np.ones(3))
