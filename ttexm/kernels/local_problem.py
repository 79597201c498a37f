"""One core at a time: what a sweep over the cores of a train computes for a batch.

With the partial products L_s left and R_s right of core k, the prediction is linear in that core C:

    f_s = sum_i phi_s[i] L_s C[i] R_s^T  =  (J C)_s

Cores are slot-major, (n, r0, r1). The partial products of m samples are stored by blocks:
(blocks, r, block), flat. Two neighbouring cores are treated as one of shape (n, r0, n' r1), with R
expanded by the feature vectors of the second mode.
"""

import math

import numpy as np

from .compilation import inner, kernel
from .contraction import absorb, features, pointers, round_to_tiles
from .dense import fill
from .layout import CATEGORY, NUMERIC, VECTOR, Batch
from .projection import add_outer, sum_parts, weigh_codes
from .tiles import element, pointer, shift


@kernel
def absorb_core(G, batch, k, span, P, out):
    """out_s = sum_i phi_s[i] P_s G[i] for the samples of a span. O(n r0 r1) per sample."""
    start, stop, block = span
    n, r0, r1 = G.shape
    columns = pointers(Batch(*batch))
    for s0 in range(start, stop, block):
        width = round_to_tiles(min(block, stop - s0), P.itemsize)
        v, to = shift(pointer(P), s0 * r0), shift(pointer(out), s0 * r1)
        absorb(pointer(G), n, r0, r1, False, features(columns, k, s0), v, block, width, to)


@kernel
def expand_products(n, r, batch, k, span, R, out):
    """out_s = (phi_s[0] R_s, .., phi_s[n - 1] R_s), of n r rows. O(n r) per sample."""
    start, stop, block = span
    columns = pointers(Batch(*batch))
    for s0 in range(start, stop, block):
        width = round_to_tiles(min(block, stop - s0), R.itemsize)
        phi = features(columns, k, s0)
        v, to = shift(pointer(R), s0 * r), shift(pointer(out), s0 * n * r)
        ahead = 1 if phi.kind == NUMERIC else 0
        for i in range(n):
            x = shift(phi.x, (i - ahead) * phi.stride)
            for b in range(r):
                here, there = shift(v, b * block), shift(to, (i * r + b) * block)
                if phi.kind in (NUMERIC, VECTOR) and i >= ahead:
                    for s in range(width):
                        there[s] = x[s] * here[s]
                elif phi.kind in (NUMERIC, CATEGORY) and i == 0:
                    for s in range(width):
                        there[s] = here[s]
                else:
                    for s in range(width):
                        there[s] = here[s] * (phi.scale if phi.codes[s] == i else element(v, 0))


@inner
def _dot(T, R, r, block, width, f):
    """f_s = sum_b T[b, s] R[b, s]."""
    fill(f, width, 0)
    for b in range(r):
        t, q = shift(T, b * block), shift(R, b * block)
        for s in range(width):
            f[s] += t[s] * q[s]


@inner
def _weigh(g, L, r, block, width, out):
    """out[a, s] = g_s L[a, s]."""
    for a in range(r):
        v, to = shift(L, a * block), shift(out, a * block)
        for s in range(width):
            to[s] = g[s] * v[s]


@kernel
def apply_jacobian(C, batch, k, span, L, R, f, work):
    """f_s = (J C)_s for the samples of a span. O(n r0 r1) per sample.

    Scratch: work, of (r1 + 1) block elements.
    """
    start, stop, block = span
    n, r0, r1 = C.shape
    columns = pointers(Batch(*batch))
    T, z = shift(pointer(work), block), pointer(work)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        phi, v = features(columns, k, s0), shift(pointer(L), s0 * r0)
        absorb(pointer(C), n, r0, r1, False, phi, v, block, width, T)
        _dot(T, shift(pointer(R), s0 * r1), r1, block, width, z)
        for s in range(count):
            f[s0 + s] = z[s]


@kernel
def add_gradient(g, batch, k, span, L, R, D, work):
    """D += J^T g over the samples of a span, codes as in `add_outer`. O(n r0 r1) per sample.

    Scratch: work, of (2 r0 + 1) block elements.
    """
    start, stop, block = span
    n, r0, r1 = D.shape
    columns = pointers(Batch(*batch))
    z, weighted = pointer(work), shift(pointer(work), block)
    scaled = shift(weighted, r0 * block)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        phi, v = features(columns, k, s0), shift(pointer(L), s0 * r0)
        fill(z, width, 0)
        for s in range(count):
            z[s] = g[s0 + s]
        _weigh(z, v, r0, block, width, weighted)
        q = shift(pointer(R), s0 * r1)
        add_outer(weighted, r0, q, r1, n, False, phi, block, width, scaled, pointer(D))


@kernel
def add_curvature_product(C, h, batch, k, span, L, R, D, work):
    """D += J^T diag(h) J C over the samples of a span, codes as in `add_outer`.

    O(n r0 r1) per sample. Scratch: work, of (2 r0 + r1 + 1) block elements.
    """
    start, stop, block = span
    n, r0, r1 = C.shape
    columns = pointers(Batch(*batch))
    z, weighted = pointer(work), shift(pointer(work), block)
    scaled = shift(weighted, r0 * block)
    T = shift(scaled, r0 * block)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        phi, v = features(columns, k, s0), shift(pointer(L), s0 * r0)
        q = shift(pointer(R), s0 * r1)
        absorb(pointer(C), n, r0, r1, False, phi, v, block, width, T)
        _dot(T, q, r1, block, width, z)
        for s in range(count):
            z[s] *= h[s0 + s]
        for s in range(count, width):
            z[s] = element(z, 0)
        _weigh(z, v, r0, block, width, weighted)
        add_outer(weighted, r0, q, r1, n, False, phi, block, width, scaled, pointer(D))


@kernel
def finish_gradient(parts, kind, scale, out):
    """Add the parts (chunks, n, r0, r1) in order, then `weigh_codes`."""
    n, r0, r1 = out.shape
    sum_parts(pointer(parts), len(parts), out.size, pointer(out))
    weigh_codes(kind, scale, n, r0 * r1, pointer(out))


@inner
def _inner_product(a, b, n):
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@inner
def _apply(phi, left, right, C):
    """(J C)_s of one sample, given its feature vector and partial products."""
    total = 0.0
    for i in range(len(phi)):
        if phi[i] != 0:
            for a in range(len(left)):
                total += phi[i] * left[a] * _inner_product(C[i, a], right, len(right))
    return total


@inner
def _add_transposed(weight, phi, left, right, D):
    """D += J^T weight, for one sample."""
    for i in range(len(phi)):
        if phi[i] != 0:
            for a in range(len(left)):
                c, to = weight * phi[i] * left[a], D[i, a]
                for b in range(len(right)):
                    to[b] += c * right[b]


@inner
def _solve_positive(K, b):
    """b <- K^-1 b by Cholesky, in the lower half of K; False if K is not positive definite."""
    n = len(b)
    for i in range(n):
        row = K[i]
        for j in range(i):
            row[j] = (row[j] - _inner_product(row, K[j], j)) / K[j, j]
        pivot = row[i] - _inner_product(row, row, i)
        if not pivot > 0:
            return False
        row[i] = math.sqrt(pivot)
        b[i] = (b[i] - _inner_product(row, b, i)) / row[i]
    for i in range(n - 1, -1, -1):
        b[i] /= K[i, i]
        for j in range(i):
            b[j] -= b[i] * K[i, j]
    return True


@kernel
def newton_step(phi, left, right, C, g, h, alpha, step, along):
    """The Newton step from C for a loss of slopes g and curvatures h, plus alpha / 2 |C|^2.

    C + step minimises sum_s h_s ((J C')_s - z_s)^2 + alpha |C'|^2 over C', with z = J C - g / h. J
    is given by the tables phi (m, n), left (m, r0) and right (m, r1), in float64. Writes `step` and
    along = J step; returns <gradient, step> and |gradient|^2 for the gradient J^T g + alpha C. The
    first of them is NaN if numbers overflow and there is no solution. Solves the normal equations
    in the p entries of C or, if m < p, in the samples: O(m k^2 + k^3) with k = min(m, p).
    """
    m, p = len(g), C.size
    gradient, root, b = alpha * C, np.empty(m), np.empty(m)
    least, squares = 1e-8 * h.sum() / m, 0.0
    for s in range(m):
        x, v, w = phi[s], left[s], right[s]
        root[s] = math.sqrt(max(h[s], least, 1e-300))
        b[s] = root[s] * _apply(x, v, w, C) - g[s] / root[s]
        _add_transposed(g[s], x, v, w, gradient)
        size = _inner_product(x, x, len(x)) * _inner_product(v, v, len(v))
        squares += root[s] ** 2 * size * _inner_product(w, w, len(w))
    # Large enough that the factorisation succeeds where J^T J is singular.
    alpha = max(alpha, 1e-12 * squares / p, 1e-300)
    if m < p:
        # Rows of J are rank-1 tensors: their inner products are products of three inner products.
        K = np.empty((m, m))
        for s in range(m):
            for t in range(s + 1):
                K[s, t] = root[s] * root[t] * _inner_product(phi[s], phi[t], phi.shape[1])
                K[s, t] *= _inner_product(left[s], left[t], left.shape[1])
                K[s, t] *= _inner_product(right[s], right[t], right.shape[1])
            K[s, s] += alpha
        is_solved = _solve_positive(K, b)
        step[:] = 0
        for s in range(m):
            _add_transposed(root[s] * b[s], phi[s], left[s], right[s], step)
    else:
        A = np.zeros((m, *C.shape))
        for s in range(m):
            _add_transposed(root[s], phi[s], left[s], right[s], A[s])
        A = A.reshape(m, p)
        H, solution = np.dot(A.T, A), step.reshape(-1)
        for j in range(p):
            H[j, j] += alpha
        solution[:] = np.dot(A.T, b)
        is_solved = _solve_positive(H, solution)
    step -= C
    for s in range(m):
        along[s] = _apply(phi[s], left[s], right[s], step)
    squared = _inner_product(gradient.reshape(-1), gradient.reshape(-1), p)
    slope = _inner_product(gradient.reshape(-1), step.reshape(-1), p)
    return (slope if is_solved else math.nan), squared
