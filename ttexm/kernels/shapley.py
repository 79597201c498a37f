"""Integrals of a tensor train along the line from a base to a sample: Shapley values and indices.

On the line all matrices are M_k + t D_k, M_k of the base and D_k the difference to the sample. With
the products L_k(t) before column k and R_k(t) from it on,

    shapley_k     = int_0^1 L_k(t) D_k R_{k+1}(t) dt
    index_{k, l}  = int_0^1 w(t) L_k(t) D_k (product between them) D_l R_{l+1}(t) dt

are polynomials in t, so that a quadrature is exact. Vectors of all nodes lie side by side, in rows
of Q numbers, and a sample takes O(d r^2 Q).

Products leave the range of floats at many columns: a power of two is kept apart, one for all nodes.
(Where those differ by as much, the small ones do not count.)
"""

import math
from typing import NamedTuple

import numpy as np

from .compilation import inner, kernel

PERIOD = 16  # columns between two looks at the range of products


class Lines(NamedTuple):
    """Matrices along lines, as flat arrays, for d columns of ranks (d + 1,).

    The difference D_k of a sample is ``(1 - share) A[code] + share A[code + 1]`` for a column with
    places, and ``sum_j number[j] A[j]`` for others, of matrices A of the column.
    """

    ranks: np.ndarray
    base: np.ndarray  # all M_k
    first_base: np.ndarray  # (d,) where M_k begins
    matrices: np.ndarray  # all A
    first_matrix: np.ndarray  # (d,) where those of a column begin
    n_numbers: np.ndarray  # (d,) of a sample; 0 for a column with places
    codes: np.ndarray  # (m, d) int64
    shares: np.ndarray  # (m, d)
    numbers: np.ndarray  # (m, columns)
    first_number: np.ndarray  # (d,) the first column of numbers


@inner
def _load(lines, s, out):
    """out = all D_k of sample s."""
    at = 0
    for k in range(len(lines.n_numbers)):
        size = lines.ranks[k] * lines.ranks[k + 1]
        a, n = lines.first_matrix[k], lines.n_numbers[k]
        if n == 0:
            a += lines.codes[s, k] * size
            share = lines.shares[s, k]
            b = a + size if share > 0 else a
            for e in range(size):
                out[at + e] = (1 - share) * lines.matrices[a + e] + share * lines.matrices[b + e]
        else:
            number = lines.first_number[k]
            x = lines.numbers[s, number]
            for e in range(size):
                out[at + e] = x * lines.matrices[a + e]
            for j in range(1, n):
                x, a = lines.numbers[s, number + j], a + size
                for e in range(size):
                    out[at + e] += x * lines.matrices[a + e]
        at += size


@inner
def _take_power(v, n, Q):
    """Scale v (n, Q) to a largest entry near 1; returns the exponent."""
    largest = 0.0
    for i in range(n):
        for q in range(Q):
            largest = max(largest, abs(v[i, q]))
    if not 0 < largest < math.inf:
        return 0
    power = math.frexp(largest)[1]
    factor = math.ldexp(1.0, -power)
    for i in range(n):
        for q in range(Q):
            v[i, q] *= factor
    return power


@inner
def _step_right(M, D, r0, r1, t, right, out, slopes):
    """slopes = D right, out = (M + t D) right."""
    Q = len(t)
    for i in range(r0):
        a, b = out[i], slopes[i]
        for q in range(Q):
            a[q] = 0
            b[q] = 0
        for j in range(r1):
            m, d, v = M[i * r1 + j], D[i * r1 + j], right[j]
            for q in range(Q):
                a[q] += m * v[q]
                b[q] += d * v[q]
        for q in range(Q):
            a[q] += t[q] * b[q]


@inner
def _step_left(M, D, r0, r1, t, left, out):
    """out = left (M + t D)."""
    Q = len(t)
    for j in range(r1):
        for q in range(Q):
            out[j, q] = 0
    for i in range(r0):
        v = left[i]
        for j in range(r1):
            m, d, a = M[i * r1 + j], D[i * r1 + j], out[j]
            for q in range(Q):
                a[q] += v[q] * (m + t[q] * d)


@inner
def _inner(left, right, r, weights):
    total = 0.0
    for i in range(r):
        for q in range(len(weights)):
            total += weights[q] * left[i, q] * right[i, q]
    return total


@inner
def _sweep_right(lines, D, t, tail, right, slopes, powers):
    """All slopes D_k R_{k+1}, each with the power of two that R_{k+1} lacks."""
    d = len(lines.n_numbers)
    now, following, power = right[0], right[1], 0
    for i in range(lines.ranks[d]):
        for q in range(len(t)):
            now[i, q] = tail[i]
    at = len(D)
    for k in range(d - 1, -1, -1):
        r0, r1 = lines.ranks[k], lines.ranks[k + 1]
        at -= r0 * r1
        if k % PERIOD == 0:
            power += _take_power(now, r1, len(t))
        powers[k] = power
        M = lines.base[lines.first_base[k] :]
        _step_right(M, D[at:], r0, r1, t, now, following, slopes[k])
        now, following = following, now


@kernel
def shapley_values(lines, t, weights, tails, work, powers, D, out, first, last):
    """out[s, k, o] = the Shapley value of column k, for samples first .. last - 1 and outputs o.

    work : array (d + 4, r, Q), powers : array (d,), D : array, the entries of all M_k.
    """
    lines = Lines(*lines)
    d, Q = len(lines.n_numbers), len(t)
    right, left, slopes = work[:2], work[2:4], work[4:]
    for s in range(first, last):
        _load(lines, s, D)
        for o in range(tails.shape[1]):
            _sweep_right(lines, D, t, tails[:, o], right, slopes, powers)
            now, following, power, at = left[0], left[1], 0, 0
            for q in range(Q):
                now[0, q] = 1
            for k in range(d):
                r0, r1 = lines.ranks[k], lines.ranks[k + 1]
                value = _inner(now, slopes[k], r0, weights)
                out[s, k, o] = math.ldexp(value, power + powers[k])
                M = lines.base[lines.first_base[k] :]
                _step_left(M, D[at:], r0, r1, t, now, following)
                now, following = following, now
                if k % PERIOD == PERIOD - 1:
                    power += _take_power(now, r1, Q)
                at += r0 * r1


@kernel
def shapley_pairs(lines, t, weights, tails, work, powers, D, out, first, last):
    """out[s, k, l, o] = the index of columns k and l, see the module. O(d^2 r^2 Q) per sample.

    work : array (d + 6, r, Q).
    """
    lines = Lines(*lines)
    d, Q = len(lines.n_numbers), len(t)
    right, left, between, slopes = work[:2], work[2:4], work[4:6], work[6:]
    zeros = np.zeros(Q)
    for s in range(first, last):
        _load(lines, s, D)
        for o in range(tails.shape[1]):
            _sweep_right(lines, D, t, tails[:, o], right, slopes, powers)
            now, following, power, at = left[0], left[1], 0, 0
            for q in range(Q):
                now[0, q] = 1
            for k in range(d):
                r0, r1 = lines.ranks[k], lines.ranks[k + 1]
                # L_k D_k, and the columns after it.
                u, v, inside = between[0], between[1], at + r0 * r1
                _step_left(D[at:], D[at:], r0, r1, zeros, now, u)
                own = power
                for j in range(k + 1, d):
                    q0, q1 = lines.ranks[j], lines.ranks[j + 1]
                    value = math.ldexp(_inner(u, slopes[j], q0, weights), own + powers[j])
                    out[s, k, j, o] = value
                    out[s, j, k, o] = value
                    if j < d - 1:
                        M = lines.base[lines.first_base[j] :]
                        _step_left(M, D[inside:], q0, q1, t, u, v)
                        u, v = v, u
                        if j % PERIOD == PERIOD - 1:
                            own += _take_power(u, q1, Q)
                    inside += q0 * q1
                M = lines.base[lines.first_base[k] :]
                _step_left(M, D[at:], r0, r1, t, now, following)
                now, following = following, now
                if k % PERIOD == PERIOD - 1:
                    power += _take_power(now, r1, Q)
                at += r0 * r1
