"""QR of tall matrices by Cholesky factors of their Gram matrix: CholeskyQR, twice if need be.

With A^T A = R^T R the columns of Q = A R^-1 are orthonormal up to the rounding unit times
cond(A)^2. A second pass repairs that while cond(A) is below 1e8; beyond it, Householder reflections
take over. The products are several times faster than reflections.
"""

import math

from .compilation import inner
from .dense import copy, fill, householder, householder_scratch, product
from .panels import LANES, make_panels, pad, panel_outer, panel_product
from .tiles import element, shift

TALL = 8  # so many times as tall as wide: where this is faster than reflections
GROUPS = 8  # groups of rows that are in cache at once
# The ratio of the diagonal entries of R bounds cond(A) from below, hence the margins.
ONE_PASS, TWO_PASSES = 1e2, 1e5


@inner
def tall_qr_scratch(p, q):
    """Elements of scratch that `tall_qr` needs for a (p, q)."""
    return max(householder_scratch(p, q), 2 * pad(p) * pad(q) + 3 * pad(q) ** 2)


@inner
def tall_qr(a, p, q, r, work):
    """QR of a (p, q), p >= q: a becomes Q (p, q), r becomes R (q, q) with diagonal >= 0. O(p q^2).

    Scratch: work, of `tall_qr_scratch(p, q)` elements.
    """
    P, Q = pad(p), pad(q)
    A, panels = work, shift(work, P * Q)
    square = shift(work, 2 * P * Q)
    ratio = math.inf
    if p >= TALL * q:
        fill(A, P * Q, 0)
        for i in range(p):
            copy(shift(a, i * q), q, shift(A, i * Q))
        ratio = _factorize(A, P // LANES, q, r, panels, square)
    if not ratio < TWO_PASSES:
        householder(a, p, q, r, work)
        return
    _divide(A, P // LANES, q, r, panels, square)
    if not ratio < ONE_PASS:
        first, second = shift(square, Q * Q), shift(square, 2 * Q * Q)
        copy(r, q * q, first)
        _factorize(A, P // LANES, q, second, panels, square)
        _divide(A, P // LANES, q, second, panels, square)
        product(second, first, q, q, q, r)
    for i in range(p):
        copy(shift(A, i * Q), q, shift(a, i * q))


@inner
def _factorize(A, groups, q, r, panels, gram):
    """r = the Cholesky factor of A^T A; returns the ratio of its diagonal entries, inf if none."""
    Q = pad(q)
    fill(gram, Q * Q, 0)
    for start in range(0, groups, GROUPS):
        count, here = min(GROUPS, groups - start), start * LANES * Q
        rows, block = shift(A, here), shift(panels, here)
        make_panels(rows, Q, Q, count, block)
        panel_outer(block, Q, rows, Q, Q, count, gram)
    fill(r, q * q, 0)
    least, most = math.inf, 0.0
    for i in range(q):
        row = shift(r, i * q)
        for j in range(i, q):
            row[j] = gram[i * Q + j]
        for k in range(i):
            factor = r[k * q + i]
            for j in range(i, q):
                row[j] -= factor * r[k * q + j]
        if not row[i] > 0:
            return math.inf
        pivot = math.sqrt(row[i])
        least, most = min(least, pivot), max(most, pivot)
        scale = element(r, 1 / pivot)
        for j in range(i, q):
            row[j] *= scale
    return most / least


@inner
def _divide(A, groups, q, r, panels, inverse):
    """A <- A r^-1, r upper triangular; the panels are those of A."""
    Q = pad(q)
    fill(inverse, Q * Q, 0)
    for i in range(q - 1, -1, -1):
        row = shift(inverse, i * Q)
        row[i] = element(inverse, 1)
        for k in range(i + 1, q):
            factor = r[i * q + k]
            for j in range(k, q):
                row[j] -= factor * inverse[k * Q + j]
        scale = element(inverse, 1 / r[i * q + i])
        for j in range(i, q):
            row[j] *= scale
    for start in range(0, groups, GROUPS):
        count, here = min(GROUPS, groups - start), start * LANES * Q
        panel_product(shift(panels, here), Q, inverse, Q, count, shift(A, here), Q)
