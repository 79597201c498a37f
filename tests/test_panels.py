"""Products of rows in panels: those of numpy, and nothing is written beside the results."""

import inner_kernels
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inner_kernels import LANES
from numpy.testing import assert_allclose, assert_array_equal
from strategies import DTYPES, seeds

TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}
# Rows, and numbers of columns, come in whole groups.
groups = st.integers(1, 9).map(lambda n: n * LANES)
columns = st.integers(1, 7).map(lambda n: n * LANES)
gaps = st.sampled_from([0, LANES, 24])  # between the rows


def rows_of(rng, m, n, gap, dtype):
    """Rows (m, n) that are n + gap apart; what lies between is NaN."""
    whole = np.full((m, n + gap), np.nan, dtype)
    whole[:, :n] = rng.standard_normal((m, n))
    return whole, whole[:, :n].astype(np.float64)


def panels_of(A, depth=None):
    """Rows (m, n) as panels of a depth, n by default; the rest is NaN."""
    m, n = A.shape
    out = np.full((m // LANES, depth or n, LANES), np.nan, A.dtype)
    out[:, :n] = A.reshape(-1, LANES, n).transpose(0, 2, 1)
    return out


def empty(shape, dtype):
    return np.full(shape, np.nan, dtype)


def assert_near(found, expected, terms=1):
    dtype = found.dtype.type
    assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * (terms + 10) * 10)


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=groups, n=columns, gap=gaps, seed=seeds)
def test_panels_are_the_rows_transposed_in_groups(dtype, m, n, gap, seed):
    rng = np.random.default_rng(seed)
    whole, rows = rows_of(rng, m, n, gap, dtype)
    out = empty((m // LANES, n, LANES), dtype)
    inner_kernels.make_panels(whole, n, out)
    assert_array_equal(out, panels_of(rows))


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=groups, n=columns, gap=gaps, more=st.sampled_from([0, 8, 16]), seed=seeds)
def test_rows_are_gathered_by_their_numbers(dtype, m, n, gap, more, seed):
    rng = np.random.default_rng(seed)
    whole, rows = rows_of(rng, 20, n, gap, dtype)
    samples = rng.integers(0, 20, m).astype(np.int32)
    out = empty((m, n), dtype)
    inner_kernels.gather_rows(whole, samples, out)
    assert_array_equal(out, rows[samples])
    out = empty((m // LANES, n + more, LANES), dtype)
    inner_kernels.gather_panels(whole, samples, n, out, n + more)
    assert_array_equal(out, panels_of(rows[samples], n + more))


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=groups, n=columns, gap=gaps, seed=seeds)
def test_rows_are_scattered_to_their_numbers(dtype, m, n, gap, seed):
    rng = np.random.default_rng(seed)
    _, block = rows_of(rng, m, n, 0, dtype)
    samples = rng.permutation(m + 3)[:m].astype(np.int32)
    whole = empty((m + 3, n + gap), dtype)
    inner_kernels.scatter_rows(block.astype(dtype), samples, whole)
    expected = empty((m + 3, n + gap), np.float64)
    expected[samples, :n] = block
    assert_array_equal(whole, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=groups, depth=columns, n=columns, gap=gaps, seed=seeds)
def test_products_with_a_matrix(dtype, m, depth, n, gap, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((m, depth)).astype(dtype), rng.standard_normal((depth, n))
    out = empty((m, n + gap), dtype)
    inner_kernels.panel_product(panels_of(A), depth, B.astype(dtype), out)
    assert_near(out[:, :n], A @ B.astype(dtype).astype(np.float64), depth)
    assert np.isnan(out[:, n:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=groups, depth=columns, n=columns, gap=gaps, seed=seeds)
def test_sums_of_outer_products_are_added(dtype, m, depth, n, gap, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, depth)).astype(dtype)
    whole, rows = rows_of(rng, m, n, gap, dtype)
    before = rng.standard_normal((depth, n)).astype(dtype)
    out = before.copy()
    inner_kernels.panel_outer(panels_of(A), depth, whole, out)
    assert_near(out, before + A.T.astype(np.float64) @ rows, m)


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=groups, n=columns, a_gap=gaps, b_gap=gaps, seed=seeds)
def test_inner_products_and_squares_of_rows(dtype, m, n, a_gap, b_gap, seed):
    rng = np.random.default_rng(seed)
    a, left = rows_of(rng, m, n, a_gap, dtype)
    b, right = rows_of(rng, m, n, b_gap, dtype)
    out = empty(m, dtype)
    inner_kernels.row_products(a, b, n, out)
    assert_near(out, np.sum(left * right, axis=1), n)
    out = empty(m, dtype)
    inner_kernels.panel_squares(panels_of(left.astype(dtype), n + a_gap), n + a_gap, n, out)
    assert_near(out, np.sum(left**2, axis=1), n)


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=groups, n=columns, gap=gaps, seed=seeds)
def test_rows_and_panels_are_weighed(dtype, m, n, gap, seed):
    rng = np.random.default_rng(seed)
    whole, rows = rows_of(rng, m, n, gap, dtype)
    w = rng.standard_normal(m).astype(dtype)
    out = empty((m, n), dtype)
    inner_kernels.weigh_rows(whole, w, out)
    expected = w[:, None] * rows
    assert_near(out, expected)
    depth = n + gap
    out = empty((m // LANES, depth, LANES), dtype)
    inner_kernels.weigh_panels(panels_of(rows.astype(dtype), depth), depth, w, n, out)
    assert_near(out[:, :n], panels_of(expected))
    assert np.isnan(out[:, n:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=groups, n=columns, n_outputs=st.integers(1, 5), seed=seeds)
def test_rows_of_several_outputs_are_multiplied_and_summed(dtype, m, n, n_outputs, seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((m, n)).astype(dtype)
    outputs = rng.standard_normal((n_outputs, m, n)).astype(dtype)
    panels = np.stack([panels_of(rows_of_output) for rows_of_output in outputs])
    out = empty((n_outputs, m), dtype)
    inner_kernels.products_by_output(rows, panels, out)
    assert_near(out, np.einsum("in,jin->ji", rows, outputs.astype(np.float64)), n)
    w, out = rng.standard_normal((n_outputs, m)).astype(dtype), empty((m, n), dtype)
    inner_kernels.sum_over_outputs(panels, w, out)
    assert_near(out, np.einsum("ji,jin->in", w, outputs.astype(np.float64)), n_outputs)
