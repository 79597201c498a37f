"""Orthogonal factors of tall matrices, by whichever way they are computed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inner_kernels import orthogonal_factors
from numpy.testing import assert_allclose
from strategies import seeds

from ttexm.kernels import tall_qr
from ttexm.learn.solvers import product_sweep

FLAWS = ["none", "repeated", "nearly repeated", "zero column", "zero", "tiny", "graded", "huge"]


def matrix(p, q, flaw, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((p, q))
    if flaw == "repeated":
        A[:, -1] = A[:, 0]
    elif flaw == "nearly repeated":
        A[:, -1] = A[:, 0] + 1e-9 * A[:, -1]
    elif flaw == "zero column":
        A[:, 0] = 0
    elif flaw == "zero":
        A[:] = 0
    elif flaw == "tiny":
        A[:, q // 2] *= 1e-9
    elif flaw == "graded":
        A *= 10.0 ** -rng.uniform(0, 6, q)
    elif flaw == "huge":
        A *= 1e120
    return A


def assert_factors(A, Q, R, tolerance=1e-12):
    assert_allclose(Q.T @ Q, np.eye(A.shape[1]), atol=tolerance)
    assert_allclose(Q @ R, A, rtol=0, atol=1e-13 * len(A) ** 0.5 * (1e-300 + np.abs(A).max()))


@given(st.integers(1, 9), st.integers(0, 150), st.sampled_from(FLAWS), seeds)
def test_any_tall_matrix_is_an_orthogonal_one_times_a_triangle(q, more, flaw, seed):
    A = matrix(q + more, q, flaw, seed)
    Q, R, is_scratch_enough = orthogonal_factors(A)
    assert_factors(A, Q, R)
    assert_allclose(np.tril(R, -1), 0)
    assert (R.diagonal() >= 0).all()
    assert is_scratch_enough


@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("q", [1, 8, 17, 40])
def test_long_matrices_too(q, flaw):
    A = matrix(4000, q, flaw)
    Q, R, is_scratch_enough = orthogonal_factors(A)
    assert_factors(A, Q, R)
    assert is_scratch_enough


@pytest.mark.parametrize("condition", [1e1, 1e3, 1e4, 1e6, 1e7, 1e8, 3e8, 1e9, 1e14])
@pytest.mark.parametrize("seed", range(5))
def test_the_condition_number_does_not_spoil_orthogonality(condition, seed):
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.standard_normal((500, 12)))
    V, _ = np.linalg.qr(rng.standard_normal((12, 12)))
    A = U * np.geomspace(1, 1 / condition, 12) @ V
    # A single pass, which loses the square of the condition number, is taken up to about 1e3.
    tolerance = 1e-10 if 1e1 < condition < 1e4 else 1e-12
    assert_factors(A, *orthogonal_factors(A)[:2], tolerance)


@pytest.mark.parametrize("rows", [6, 96, 4000])
@pytest.mark.parametrize("flaw", FLAWS)
def test_the_one_of_sweeps_on_partial_products(rows, flaw):
    A = matrix(rows, 6, flaw)
    assert_factors(A, *product_sweep.tall_qr(A))


def test_matrices_as_wide_as_a_square_and_just_tall_enough():
    for p in (5, 5 * tall_qr.TALL - 1, 5 * tall_qr.TALL):
        A = matrix(p, 5, "none")
        assert_factors(A, *orthogonal_factors(A)[:2])
