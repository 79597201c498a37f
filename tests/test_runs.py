"""Samples in runs: sorted by code, and contracted with trains as their definition says."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import curve_batch
from strategies import DTYPES, batches, cores_of, feature_vectors, seeds, shapes

from ttexm import RankOneBatch
from ttexm.kernels.core_sweep import trim_ranks
from ttexm.kernels.panels import LANES
from ttexm.kernels.run_contraction import contract
from ttexm.kernels.runs import sort_codes


@given(st.lists(st.integers(0, 9), max_size=100), st.integers(10, 30))
def test_codes_are_sorted_in_groups(codes, n_codes):
    m = len(codes)
    order, starts = np.empty(m + LANES * n_codes, np.int32), np.empty(n_codes + 1, np.int64)
    sort_codes(np.array(codes, np.int32), n_codes, order, starts)
    assert (starts % LANES == 0).all()
    for c in range(n_codes):
        run = order[starts[c] : starts[c + 1]]
        # In the order of the samples, filled up with the number of one that does not exist.
        expected = [s for s in range(m) if codes[s] == c]
        assert run[: len(expected)].tolist() == expected
        assert (run[len(expected) :] == m).all()
        assert len(run) - len(expected) < LANES


def slots_first(cores):
    return [np.ascontiguousarray(core.transpose(1, 0, 2)) for core in cores]


def assert_is_contraction(batch, cores, dtype, n_outputs=None):
    """`contract` against the dense sum, up to the rounding of the terms."""
    phis = feature_vectors(batch)
    given_cores = slots_first(cores)
    if n_outputs is not None:
        given_cores[-1] = cores[-1].transpose(2, 0, 1)
    f = contract(batch.runs(dtype), given_cores, len(batch))
    assert f.shape == (len(batch), n_outputs or 1)
    dense = naive.contract if n_outputs is None else naive.open_contract
    expected = dense(naive.full(cores), phis).reshape(f.shape)
    terms = dense(naive.full([np.abs(G) for G in cores]), [np.abs(phi) for phi in phis])
    assert_allclose(f, expected, rtol=0, atol=200 * np.finfo(dtype).eps * terms.max(initial=1e-300))


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_contraction_is_the_full_sum(data, dtype):
    shape = data.draw(shapes(4, 4, 100))
    assert_is_contraction(data.draw(batches(shape)), data.draw(cores_of(shape, 10)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data(), n_outputs=st.integers(2, 10))
def test_contraction_with_several_outputs_leaves_the_last_mode_open(data, dtype, n_outputs):
    shape = data.draw(shapes(3, 4, 60))
    cores = data.draw(cores_of((*shape, n_outputs), 10))
    assert_is_contraction(data.draw(batches(shape)), cores, dtype, n_outputs)


def test_runs_of_many_samples_and_levels_are_cut_into_blocks():
    rng, m = np.random.default_rng(0), 2000
    codes = np.minimum(rng.integers(0, 60, (m, 1)) ** 2 // 20, 150)
    batch = RankOneBatch.join(
        [
            RankOneBatch.from_codes(codes, (200,), 0.5),
            RankOneBatch.from_indices(codes[::-1] // 50, (4,)),
            curve_batch(rng, m, 3, 40),
            RankOneBatch.from_columns([rng.standard_normal((m, 2))]),
        ]
    )
    ranks = (1, 9, 17, 5, 1)
    cores = [rng.standard_normal((ranks[k], n, ranks[k + 1])) for k, n in enumerate(batch.shape)]
    f, phis = contract(batch.runs(np.float64), slots_first(cores), m)[:, 0], feature_vectors(batch)
    v = np.ones((m, 1))
    for core, phi in zip(cores, phis, strict=True):
        v = np.einsum("sa,si,aib->sb", v, phi, core)
    assert_allclose(f, v[:, 0], rtol=0, atol=1e-12 * np.abs(f).max())


@given(batches((3, 2, 4), least_samples=1), st.floats(0.1, 3), seeds)
def test_runs_are_sorted_once_for_all_scales(batch, factor, seed):
    cores = [np.random.default_rng(seed).standard_normal((1, n, 1)) for n in batch.shape]
    one = contract(batch.runs(np.float64), slots_first(cores), len(batch))
    scaled = batch.scaled(factor)
    other = contract(scaled.runs(np.float64), slots_first(cores), len(batch))
    W = naive.full(cores)
    assert_allclose(one[:, 0], naive.contract(W, feature_vectors(batch)), atol=1e-11)
    size = max(1, np.abs(other).max())
    assert_allclose(other[:, 0], naive.contract(W, feature_vectors(scaled)), atol=1e-11 * size)


@given(shapes(5, 3).flatmap(lambda shape: cores_of(shape, 9)))
def test_trimmed_ranks_are_possible_and_the_tensor_is_the_same(cores):
    trimmed = trim_ranks(slots_first(cores))
    W, expected = naive.full([core.transpose(1, 0, 2) for core in trimmed]), naive.full(cores)
    scale = np.abs(naive.full([np.abs(core) for core in cores])).max()
    assert_allclose(W, expected, rtol=0, atol=1e-13 * scale + 1e-300)
    assert all(map(has_possible_ranks, trimmed))
    if all(map(has_possible_ranks, slots_first(cores))):
        for core, given_core in zip(trimmed, slots_first(cores), strict=True):
            assert_array_equal(core, given_core)


def has_possible_ranks(core):
    n, r0, r1 = core.shape
    return r1 <= n * r0 and r0 <= n * r1
