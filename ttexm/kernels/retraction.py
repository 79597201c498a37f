"""Retraction: W + xi, of ranks up to 2 r, rounded back to the ranks r of W.

With the gauges U and V of `projection`, W + xi = W + sum_k U_0 .. U_{k-1} dG_k V_{k+1} .. V_{d-1}.
Let A_k be the part of W + xi to the right of bond k, contracted with U_0 .. U_{k-1} on the left.
Its rows are spanned by the r orthonormal rows of V_k .. V_{d-1} and by at most r further ones, Z_k:

    A_k = X_k (V_k .. V_{d-1}) + Y_k Z_k,      X_k and Y_k of size r x r

A sweep from the right thus carries two r x r factors and factorises (2 n r, r) matrices, where
generic TT-rounding factorises (2 n r, 2 r) ones; V is orthonormal as it is. A sweep from the left
then truncates each bond, from at most 2 r directions to the dominant r.
"""

import math

import numpy as np

from . import formulas
from .compilation import inner, kernel
from .dense import (
    add_product,
    add_scaled,
    add_transposed_product,
    copy,
    copy_columns,
    energy,
    fill,
    fold_power,
    householder,
    householder_scratch,
    inverse,
    peak,
    product,
    put,
    scale,
    set_identity,
    transpose,
    transpose_to,
)
from .layout import Train
from .tiles import epsilon, pointer, shift

# A truncation may discard this share more energy (squared norm) than the optimal one does.
EXCESS = 1e-4
ITERATIONS = 3

binary_exponent = inner(formulas.binary_exponent)


def retract_scratch(train):
    """Elements of scratch that `retract` needs."""
    r, rows = train.rank, 2 * train.rows
    return 20 * r * r + 3 * rows * r + householder_scratch(rows, 2 * r)


@kernel
def retract(left, exponent, right, deltas, Z, extra, data, work):
    """Write the cores of 2^exponent W + xi, rounded to the ranks of W, to `data`. O(d n r^3).

    All of them but the last are left-orthogonal. The result is 2^e times these cores; e is
    returned, and is 0 unless the norm is close to overflow or underflow, or beyond.
    Scratch: Z, twice the elements of the train; extra, d + 1; work, `retract_scratch(left)`.
    """
    left, right = Train(*left), Train(*right)
    total = expand_from_right(left, exponent, right, deltas, Z, extra, work)
    return truncate_from_left(left, total, right, deltas, Z, extra, data, work)


@inner
def expand_from_right(left, exponent, right, deltas, Z, extra, work):
    """Z_k with its ranks `extra`, and [X Y] of bond 1 in work, for 2^-total (2^exponent W + xi).

    Returns the total, which brings the numbers near 1.
    """
    d, r = len(left.sizes), left.rank
    XY = pointer(work)
    XY_new, small, scratch = shift(XY, 2 * r * r), shift(XY, 4 * r * r), shift(XY, 20 * r * r)
    S, size = shift(pointer(left.data), left.offsets[d - 1]), left.offsets[d]
    total = max(
        binary_exponent(peak(S, size - left.offsets[d - 1])) + exponent,
        binary_exponent(peak(pointer(deltas), size)),
    )
    if total < -5000:
        total = 0  # W and xi are zero
    factor = math.ldexp(1.0, -total)
    # Core d - 1 of the left train is S, not a U; the power of two of W enters with it.
    put(XY, 0, math.ldexp(1.0, exponent - total))
    put(extra, d, 0)
    for k in range(d - 1, 0, -1):
        n, r0, r1, q1 = left.sizes[k], left.ranks[k], left.ranks[k + 1], extra[k + 1]
        V = shift(pointer(right.data), right.offsets[d - 1 - k])
        to = shift(pointer(Z), 2 * left.offsets[k])
        _expand(left, k, deltas, factor, XY, q1, True, to, small)
        put(extra, k, _split(to, V, n, r0, r1, q1, XY_new, small, scratch))
        XY, XY_new = XY_new, XY
    if d % 2 == 0:
        copy(XY, left.ranks[1] * (left.ranks[1] + extra[1]), XY_new)
    return total


@inner
def truncate_from_left(left, total, right, deltas, Z, extra, data, work):
    """Truncate bond after bond and write the cores; returns the exponent that they lack."""
    d, r = len(left.sizes), left.rank
    XY = pointer(work)
    carry, small, M = shift(XY, 2 * r * r), shift(XY, 4 * r * r), shift(XY, 20 * r * r)
    factor = math.ldexp(1.0, -total)
    for k in range(d):
        n, r0, r1, q1 = left.sizes[k], left.ranks[k], left.ranks[k + 1], extra[k + 1]
        to = shift(pointer(data), left.offsets[k])
        w = r1 + q1
        if k == 0:
            _expand(left, k, deltas, factor, XY, q1, False, M, small)
        else:
            V = shift(pointer(right.data), right.offsets[d - 1 - k])
            Z_k = shift(pointer(Z), 2 * left.offsets[k])
            for i in range(n):
                # (carry [V_k 0; Z_k])^T, slot i
                product(shift(Z_k, i * w * extra[k]), shift(carry, r0 * r0), w, extra[k], r0, small)
                add_product(shift(V, i * r1 * r0), carry, r1, r0, r0, small)
                transpose(small, w, r0, shift(M, i * r0 * w))
        if k == d - 1:
            copy(M, n * r0, to)
            total = fold_power(to, n * r0, total)
        else:
            free = shift(M, n * r0 * w)
            _dominant(M, n * r0, w, r1, to, deltas, small, free)
            fill(small, r1 * w, 0)
            add_transposed_product(to, M, r1, n * r0, w, small)
            transpose(small, r1, w, carry)
    return total


@inner
def _expand(left, k, deltas, factor, XY, q1, transposed, out, small):
    """out[i] = [factor dG_k[i] 0] + U_k[i] [X Y], (r0, r1 + q1), or its transpose."""
    n, r0, r1 = left.sizes[k], left.ranks[k], left.ranks[k + 1]
    w = r1 + q1
    for i in range(n):
        at = left.offsets[k] + i * r0 * r1
        to = small if transposed else shift(out, i * r0 * w)
        product(shift(pointer(left.data), at), XY, r0, r1, w, to)
        add_scaled(shift(pointer(deltas), at), r1, r0, r1, factor, to, w)
        if transposed:
            transpose(small, r0, w, shift(out, i * w * r0))


@inner
def _overlap(V, A, n, r0, r1, w, out):
    """out = V^T A for V (n, r1, r0) and the first r1 rows of each slot of A (n, w, r0)."""
    fill(out, r0 * r0, 0)
    for i in range(n):
        add_transposed_product(shift(V, i * r1 * r0), shift(A, i * w * r0), r0, r1, r0, out)


@inner
def _split(A, V, n, r0, r1, q1, XY, small, scratch):
    """A^T = X [V 0] + Y Z: overwrites A by Z^T, writes [X Y] and returns the width of Y.

    A (n, r1 + q1, r0) and V (n, r1, r0) have their slots stacked. The rows of Z are orthonormal,
    and orthogonal to those of V.
    """
    w = r1 + q1
    rows = n * w
    X, R, rest, work = small, shift(small, r0 * r0), scratch, shift(scratch, rows * r0)
    _overlap(V, A, n, r0, r1, w, X)
    copy(X, r0 * r0, R)
    scale(R, r0 * r0, -1)
    for i in range(n):
        add_product(shift(V, i * r1 * r0), R, r1, r0, r0, shift(A, i * w * r0))
    copy(A, rows * r0, rest)
    q0 = min(r0, rows - r0)
    orthogonal = False
    if q0 == r0:
        householder(A, rows, r0, R, work)
        overlap = shift(R, r0 * r0)
        _overlap(V, A, n, r0, r1, w, overlap)
        R_peak = peak(R, r0 * r0)
        error = peak(overlap, r0 * r0) * R_peak
        orthogonal = error <= 16 * epsilon(A) * max(R_peak, peak(X, r0 * r0))
    if not orthogonal:
        # Either there are fewer than r0 directions orthogonal to V, or the rest of A is rank
        # deficient and Q has arbitrary directions, not orthogonal to V: take those that a QR of
        # [V rest] adds to V.
        F, k, both = work, min(rows, 2 * r0), 2 * r0
        fill(F, rows * both, 0)
        for i in range(n):
            copy_columns(shift(V, i * r1 * r0), r0, r1, r0, shift(F, i * w * both), both)
        copy_columns(rest, r0, rows, r0, shift(F, r0), both)
        householder(F, rows, both, R, shift(F, rows * both))
        copy_columns(shift(F, r0), k, rows, q0, A, q0)
        add_scaled(shift(R, r0), both, r0, r0, 1, X, r0)
        copy_columns(shift(R, r0 * both + r0), both, q0, r0, R, r0)
    transpose_to(X, r0, r0, XY, r0 + q0)
    transpose_to(R, q0, r0, shift(XY, r0), r0 + q0)
    return q0


@inner
def _dominant(M, p, w, r, U, like, small, free):
    """Orthonormal U (p, r) that spans almost the leading r left singular vectors of M (p, w).

    `like` is any array of the dtype, as pointers have none that LAPACK's matrices could be made of.
    Subspace iteration starts from the first r columns of M, the part along V. It stops when a bound
    shows that U discards at most EXCESS more energy than the optimum does: with M = U B + E, by
    |E B^T|^2 / (lambda_min(B B^T) - lambda_max(E E^T)) (Li and Li 2005). If that takes more than
    ITERATIONS steps, M is decomposed.
    """
    if p == r:
        set_identity(U, p)
        return
    B, B_t, gram = small, shift(small, r * w), shift(small, 2 * r * w)
    E, K, work = free, shift(free, p * w), shift(free, p * (w + r))
    copy_columns(M, w, p, r, U, r)
    total = energy(M, p * w)
    discarded = total
    for _ in range(ITERATIONS):
        householder(U, p, r, gram, work)
        fill(B, r * w, 0)
        add_transposed_product(U, M, r, p, w, B)
        scale(B, r * w, -1)
        copy(M, p * w, E)
        add_product(U, B, p, r, w, E)
        discarded = energy(E, p * w)
        if discarded <= (4 * epsilon(M)) ** 2 * total:
            return
        transpose(B, r, w, B_t)
        product(E, B_t, p, w, r, K)
        fill(gram, r * r, 0)
        add_transposed_product(B_t, B_t, r, w, r, gram)
        inverted = shift(gram, r * r)
        if not inverse(gram, r, inverted, shift(inverted, r * r)):
            break
        # The Frobenius norm bounds the largest eigenvalue: |E|_F^2 that of E^T E, or the sharper
        # |E^T E|_F where |E|_F^2 is too coarse.
        smallest, largest = 1 / math.sqrt(energy(inverted, r * r)), discarded
        if largest >= smallest:
            fill(work, w * w, 0)
            add_transposed_product(E, E, w, p, w, work)
            largest = math.sqrt(energy(work, w * w))
        if largest >= smallest:
            break
        if energy(K, p * r) <= EXCESS * (smallest - largest) * discarded:
            return
        product(M, B_t, p, w, r, U)
    singular_vectors(M, p, w, r, discarded / total, U, like, gram, work)


@inner
def singular_vectors(M, p, w, r, share, U, like, small, work):
    """`_dominant` by the eigenvectors of M^T M, or by an SVD of M where those are too inaccurate.

    The rounding of M^T M costs a few eps of the whole energy. It must be small against EXCESS of
    the discarded energy, which is `share` of the whole.
    """
    if w <= p and EXCESS * share > 16 * w * epsilon(M):
        matrix = np.zeros((w, w), like.dtype)
        add_transposed_product(M, M, w, p, w, pointer(matrix))
        vectors = np.linalg.eigh(matrix)[1]
        for i in range(w):
            for j in range(r):
                work[i * r + j] = vectors[i, w - 1 - j]
        product(M, work, p, w, r, U)
        householder(U, p, r, small, work)
    else:
        matrix = np.empty((p, w), like.dtype)
        copy(M, p * w, pointer(matrix))
        u = np.linalg.svd(matrix, False)[0]
        for i in range(p):
            for j in range(r):
                U[i * r + j] = u[i, j]
