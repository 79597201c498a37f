"""One core at a time: what a sweep over the cores of a train computes for a batch.

With the partial products L_s left and R_s right of core k, f is linear in that core C:

    f_s = sum_i phi_s[i] L_s C[i] R_s^T  =  (J C)_s

Partial products of m samples are stored by blocks: (blocks, r, block), flat. Two neighbouring cores
are one, with slots as columns: C[i] of shape (r0, n' r1), where R is expanded by the second mode.
"""

import math

import numpy as np

from .compile import inner, kernel
from .contract import absorb, mode_of, pointers, round_to_tiles
from .dense import fill, householder
from .layout import CATEGORY, NUMERIC, VECTOR, Batch
from .project import add_outer, weigh_codes
from .tiles import element, pointer, shift


@kernel
def advance(G, n, r0, r1, batch, k, start, stop, block, P, out):
    """out_s = sum_i phi_s[i] P_s G[i], for start <= s < stop; `start` begins a block. O(n r^2)."""
    columns = pointers(Batch(*batch))
    for s0 in range(start, stop, block):
        width = round_to_tiles(min(block, stop - s0), P.itemsize)
        v, to = shift(pointer(P), s0 * r0), shift(pointer(out), s0 * r1)
        absorb(pointer(G), n, r0, r1, False, mode_of(columns, k, s0), v, block, width, to)


@kernel
def expand(n, r, batch, k, start, stop, block, R, out):
    """out_s = (phi_s[0] R_s, .., phi_s[n - 1] R_s), of n r rows. O(n r) a sample."""
    columns = pointers(Batch(*batch))
    for s0 in range(start, stop, block):
        width = round_to_tiles(min(block, stop - s0), R.itemsize)
        mode = mode_of(columns, k, s0)
        v, to = shift(pointer(R), s0 * r), shift(pointer(out), s0 * n * r)
        ahead = 1 if mode.kind == NUMERIC else 0
        for i in range(n):
            x = shift(mode.x, (i - ahead) * mode.stride)
            for b in range(r):
                here, there = shift(v, b * block), shift(to, (i * r + b) * block)
                if mode.kind in (NUMERIC, VECTOR) and i >= ahead:
                    for s in range(width):
                        there[s] = x[s] * here[s]
                elif mode.kind in (NUMERIC, CATEGORY) and i == 0:
                    for s in range(width):
                        there[s] = here[s]
                else:
                    for s in range(width):
                        there[s] = here[s] * (mode.scale if mode.codes[s] == i else element(v, 0))


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
    for a in range(r):
        v, to = shift(L, a * block), shift(out, a * block)
        for s in range(width):
            to[s] = g[s] * v[s]


@kernel
def values(C, n, r0, r1, batch, k, start, stop, block, L, R, f, work):
    """f_s = (J C)_s for start <= s < stop, in O(n r0 r1) a sample.

    Scratch: work, of (r1 + 1) block elements.
    """
    columns = pointers(Batch(*batch))
    T, z = shift(pointer(work), block), pointer(work)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        mode, v = mode_of(columns, k, s0), shift(pointer(L), s0 * r0)
        absorb(pointer(C), n, r0, r1, False, mode, v, block, width, T)
        _dot(T, shift(pointer(R), s0 * r1), r1, block, width, z)
        for s in range(count):
            f[s0 + s] = z[s]


@kernel
def gradient(g, n, r0, r1, batch, k, start, stop, block, L, R, D, work):
    """D += J^T g, over start <= s < stop, codes by `finish`. O(n r0 r1) a sample.

    Scratch: work, of (2 r0 + 1) block elements.
    """
    columns = pointers(Batch(*batch))
    z, weighted = pointer(work), shift(pointer(work), block)
    scaled = shift(weighted, r0 * block)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        mode, v = mode_of(columns, k, s0), shift(pointer(L), s0 * r0)
        fill(z, width, 0)
        for s in range(count):
            z[s] = g[s0 + s]
        _weigh(z, v, r0, block, width, weighted)
        q = shift(pointer(R), s0 * r1)
        add_outer(weighted, r0, q, r1, n, False, mode, block, width, scaled, pointer(D))


@kernel
def product(C, h, n, r0, r1, batch, k, start, stop, block, L, R, D, work):
    """D += J^T diag(h) J C, over start <= s < stop, codes by `finish`: `values`, then `gradient`.

    Scratch: work, of (2 r0 + r1 + 1) block elements.
    """
    columns = pointers(Batch(*batch))
    z, weighted = pointer(work), shift(pointer(work), block)
    scaled = shift(weighted, r0 * block)
    T = shift(scaled, r0 * block)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        mode, v = mode_of(columns, k, s0), shift(pointer(L), s0 * r0)
        q = shift(pointer(R), s0 * r1)
        absorb(pointer(C), n, r0, r1, False, mode, v, block, width, T)
        _dot(T, q, r1, block, width, z)
        for s in range(count):
            z[s] *= h[s0 + s]
        for s in range(count, width):
            z[s] = element(z, 0)
        _weigh(z, v, r0, block, width, weighted)
        add_outer(weighted, r0, q, r1, n, False, mode, block, width, scaled, pointer(D))


@kernel
def finish(parts, kind, scale, n, slot, out):
    """Add the parts (chunks, elements) in order, and give each code its weight."""
    fill(pointer(out), len(out), 0)
    for c in range(len(parts)):
        for i in range(len(out)):
            out[i] += parts[c, i]
    weigh_codes(kind, scale, n, slot, pointer(out))


@inner
def _inner_product(a, b, n):
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@inner
def _apply(phi, left, right, C):
    """(J C)_s of one sample, given by its vectors."""
    total = 0.0
    for i in range(len(phi)):
        if phi[i] != 0:
            for a in range(len(left)):
                total += phi[i] * left[a] * _inner_product(C[i, a], right, len(right))
    return total


@inner
def _add_transposed(weight, phi, left, right, D):
    """D += J^T weight, of one sample."""
    for i in range(len(phi)):
        if phi[i] != 0:
            for a in range(len(left)):
                c, to = weight * phi[i] * left[a], D[i, a]
                for b in range(len(right)):
                    to[b] += c * right[b]


@inner
def _solve_positive(K, b):
    """b <- K^-1 b, by a Cholesky factor in the lower half of K; False if K is not positive."""
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
def exact_step(phi, left, right, C, g, h, alpha, step, along):
    """From C to the minimum of ``sum_s h_s (J C - z)_s^2 + alpha |C|^2``, z = J C - g / h.

    J is given by the tables phi (m, n), left (m, r0) and right (m, r1), in double precision. Gives
    the step and J times it, and returns <gradient, step> and |gradient|^2, with the gradient
    J^T g + alpha C; the first is NaN if there is no solution, as numbers overflow. By the normal
    equations of the unknowns, or of the samples if they are fewer: O(m k^2 + k^3), k the number of
    equations.
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
    # Enough to factorise a matrix that is singular but for it.
    alpha = max(alpha, 1e-12 * squares / p, 1e-300)
    if m < p:
        # Rows of J are products, and so are their inner products.
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


@kernel
def qr(A, p, q, R, work):
    """A (p, q) = Q R, flat: A becomes Q (p, k), k = min(p, q). O(p q k).

    Scratch: work, of `householder_scratch(p, q)` elements.
    """
    householder(pointer(A), p, q, pointer(R), pointer(work))
