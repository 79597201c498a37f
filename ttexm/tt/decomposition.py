"""Cores of a tensor train from a full array (TT-SVD) or a function of the indices (TT-cross)."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ..checks import float_array
from ..kernels.blas import single_threaded_blas

# Singular values below this share of the largest come from the rounding errors of f.
NOISE = 1e-13


@single_threaded_blas()
def tt_svd(array: np.ndarray, most: tuple[int, ...], eps: float) -> list[np.ndarray]:
    """Cores (r0, n, r1) of ranks at most `most`, within eps |array| where those allow it.

    The truncation of each of the d - 1 unfoldings may drop eps / sqrt(d - 1) of the norm
    (Oseledets, "Tensor-train decomposition", 2011). The squares of the entries must be in range.
    """
    shape = array.shape
    tolerance = eps * float(np.linalg.norm(array)) / math.sqrt(max(1, len(shape) - 1))
    cores, rest = [], array.reshape(1, -1)
    for k, n in enumerate(shape[:-1]):
        r0 = len(rest)
        u, sigma, vt = np.linalg.svd(rest.reshape(r0 * n, -1), full_matrices=False)
        tails = np.sqrt(np.cumsum(sigma[::-1] ** 2))[::-1]  # norm of sigma[j:]
        r1 = max(1, min(int((tails > tolerance).sum()), most[k + 1]))
        cores.append(u[:, :r1].reshape(r0, n, r1))
        rest = sigma[:r1, None] * vt[:r1]
    return [*cores, rest.reshape(-1, shape[-1], 1)]


def tt_cross(
    f: Callable[[np.ndarray], ArrayLike],
    shape: tuple[int, ...],
    ranks: tuple[int, ...],
    rng: np.random.Generator,
) -> Iterator[list[np.ndarray]]:
    """Yield cores (r0, n, r1) that approximate f, better after each half sweep.

    Each bond has a set of rows (indices of the modes left of it) and one of columns (right of it).
    Sweeps improve one from the other by the maximum-volume principle (Oseledets and Tyrtyshnikov,
    "TT-cross approximation for multidimensional arrays", 2010). A half sweep evaluates f at
    sum r0 n r1 indices.
    """
    d = len(shape)
    rows: list = [np.empty((1, 0), np.int64)] + [None] * d
    columns: list = [None] * d + [np.empty((1, 0), np.int64)]
    for k in range(d - 1, 0, -1):
        candidates = _product(np.arange(shape[k])[:, None], columns[k + 1])
        columns[k] = candidates[rng.choice(len(candidates), ranks[k], replace=False)]
    while True:
        cores = []
        for k in range(d):
            left = _product(rows[k], np.arange(shape[k])[:, None])
            A = _evaluate(f, left, columns[k + 1])
            if k == d - 1:
                core = A
            else:
                chosen, core = _interpolate(A)
                rows[k + 1] = left[_extend(chosen, len(left), ranks[k + 1], rng)]
            r0 = 1 if k == 0 else cores[-1].shape[2]
            # The rows that `_extend` has added at random do not interpolate.
            core = core.reshape(len(rows[k]), shape[k], -1)[:r0]
            cores.append(core)
        yield cores
        if d == 1:
            continue
        cores = []
        for k in range(d - 1, -1, -1):
            right = _product(np.arange(shape[k])[:, None], columns[k + 1])
            A = _evaluate(f, rows[k], right)
            if k == 0:
                core = A
            else:
                chosen, core = _interpolate(A.T)
                core = core.T
                columns[k] = right[_extend(chosen, len(right), ranks[k], rng)]
            r1 = 1 if k == d - 1 else cores[0].shape[0]
            core = core.reshape(-1, shape[k], len(columns[k + 1]))[:, :, :r1]
            cores.insert(0, core)
        yield cores


def _product(left, right):
    """Each row of `left` joined with each row of `right`, the right one running fastest."""
    m, n = len(left), len(right)
    return np.hstack([np.repeat(left, n, axis=0), np.tile(right, (m, 1))])


def _evaluate(f, left, right):
    indices = _product(left, right)
    values = float_array(f(indices), "f(indices)").astype(np.float64, copy=False)
    if values.shape != (len(indices),):
        raise ValueError(
            f"f must give one number for each row of indices: shape ({len(indices)},) was wanted "
            f"for indices of shape {indices.shape}, got {values.shape}."
        )
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"f must be finite, got {values[bad]} at index {tuple(indices[bad].tolist())}."
        )
    return values.reshape(len(left), len(right))


@single_threaded_blas()
def _interpolate(A):
    """Rows of A (p, q) and a matrix C with A ~ C A[chosen]: an interpolative decomposition."""
    A = np.ldexp(A, -math.frexp(float(np.abs(A).max()))[1])  # keeps sums in range
    Q, R, _ = scipy.linalg.qr(A, mode="economic", pivoting=True)
    size = np.abs(np.diag(R))
    rank = max(1, int((size > NOISE * size[0]).sum()))
    Q = Q[:, :rank]
    chosen = _maximum_volume(Q)
    return chosen, np.linalg.solve(Q[chosen].T, Q.T).T


def _maximum_volume(Q, worst=1.05, most_swaps=200):
    """Rows of Q (p, r) whose volume no swap of one row can raise by more than a factor `worst`."""
    r = Q.shape[1]
    chosen = _pivot_rows(Q)
    C = np.linalg.solve(Q[chosen].T, Q.T).T
    for _ in range(most_swaps):
        i, j = np.unravel_index(np.abs(C).argmax(), C.shape)
        if abs(C[i, j]) <= worst:
            break
        C -= np.outer(C[:, j] / C[i, j], C[i] - (np.arange(r) == j))
        chosen[j] = i
    return chosen


def _pivot_rows(Q):
    """The r rows of Q (p, r) that LU factorization with partial pivoting takes."""
    order = np.arange(len(Q))
    for k, p in enumerate(scipy.linalg.lu_factor(Q)[1]):
        order[[k, p]] = order[[p, k]]
    return order[: Q.shape[1]]


def _extend(chosen, available, wanted, rng):
    """The chosen rows and random others, `wanted` in all, so that a rank can grow again."""
    others = np.setdiff1d(np.arange(available), chosen)
    return np.concatenate([chosen, rng.permutation(others)[: wanted - len(chosen)]])
