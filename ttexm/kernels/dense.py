"""Small dense linear algebra on row-major matrices, given by pointers: products, QR, inverse.

The matrices have a few to a few hundred rows: calling BLAS or LAPACK would cost more than the work
itself. No result depends on the number of BLAS threads.

Orthogonalisation, projection of trains and retraction touch elements through these functions alone.
`cuda.block_kernels` has a version of each that a block of threads executes together, and compiles
the same bodies with those.
"""

import math

from . import formulas
from .compilation import inner
from .tiles import GROUP, absorb_tiles, element, itemsize, shift

PANEL = 8  # reflections that are applied together

_reflection = inner(formulas.reflection)

_tiles_4x2 = absorb_tiles(4, vectors=2, lanes=GROUP, weighted=False)
_tiles_4x1 = absorb_tiles(4, vectors=1, lanes=GROUP, weighted=False)
_tiles_1x2 = absorb_tiles(1, vectors=2, lanes=GROUP, weighted=False)
_tiles_1x1 = absorb_tiles(1, vectors=1, lanes=GROUP, weighted=False)


@inner
def fill(a, n, value):
    value = element(a, value)
    for i in range(n):
        a[i] = value


@inner
def copy(a, n, out):
    for i in range(n):
        out[i] = a[i]


@inner
def put(a, i, value):
    """a[i] = value."""
    a[i] = element(a, value)


@inner
def set_identity(a, n):
    fill(a, n * n, 0)
    for i in range(n):
        a[i * n + i] = element(a, 1)


@inner
def copy_columns(a, lda, p, q, out, ldo):
    """out = a for p rows of q columns, lda and ldo elements apart."""
    for i in range(p):
        for j in range(q):
            out[i * ldo + j] = a[i * lda + j]


@inner
def add_scaled(a, lda, p, q, factor, out, ldo):
    """out += factor a for p rows of q columns, lda and ldo elements apart."""
    factor = element(a, factor)
    for i in range(p):
        for j in range(q):
            out[i * ldo + j] += factor * a[i * lda + j]


@inner
def transpose_to(a, p, q, out, ldo):
    """out = a^T for a (p, q), the rows of out ldo elements apart."""
    for i in range(p):
        for j in range(q):
            out[j * ldo + i] = a[i * q + j]


@inner
def transpose(a, p, q, out):
    """out = a^T for a (p, q)."""
    transpose_to(a, p, q, out, p)


@inner
def scale(a, n, factor):
    """a <- factor a."""
    factor = element(a, factor)
    for i in range(n):
        a[i] *= factor


@inner
def peak(a, n):
    """The largest magnitude in a."""
    largest = element(a, 0)
    for i in range(n):
        largest = max(largest, abs(a[i]))
    return largest


@inner
def energy(a, n):
    """The sum of squares."""
    total = 0.0
    for i in range(n):
        total += a[i] * a[i]
    return total


@inner
def inner_product(a, b, n):
    """<a, b>."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@inner
def scale_by_power(a, n, exponent):
    """a <- a 2^exponent, in steps, as the power itself may overflow."""
    exponent = max(-5000, min(5000, exponent))  # either bound is beyond the range of any number
    while exponent != 0:
        step = max(-100, min(100, exponent))
        scale(a, n, math.ldexp(1.0, step))
        exponent -= step


@inner
def fold_power(a, n, exponent):
    """a <- a 2^e, e as much of the exponent as entries near 1 can take; returns the rest of it."""
    reach = 900 if itemsize(a) == 8 else 100
    step = max(-reach, min(reach, exponent))
    scale_by_power(a, n, step)
    return exponent - step


@inner
def normalize(a, n):
    """Divide by a power of two if the largest entry is far from 1; returns its exponent.

    If there is a NaN or inf, a is left as it is.
    """
    largest = peak(a, n)
    if not (largest > 0 and math.isfinite(largest)):
        return 0
    exponent = math.frexp(largest)[1]
    if abs(exponent) <= 16:
        return 0
    scale_by_power(a, n, -exponent)
    return exponent


@inner
def add_strided_product(out, ldo, a, row, step, b, ldb, p, depth, q):
    """out[i ldo + j] += sum_l a[i row + l step] b[l ldb + j], in O(p depth q)."""
    if depth == 0:
        return  # tiles need at least one step
    fours, rest = p // 4, p % 4
    last, last_a = shift(out, (p - rest) * ldo), shift(a, (p - rest) * row)
    _tiles_4x2(out, out, ldo, b, ldb, depth, a, step, row, 0, b, fours, q)
    _tiles_1x2(last, last, ldo, b, ldb, depth, last_a, step, row, 0, b, rest, q)
    if q % (2 * GROUP) >= GROUP:
        j = q - q % (2 * GROUP)
        here, below, column = shift(out, j), shift(last, j), shift(b, j)
        _tiles_4x1(here, here, ldo, column, ldb, depth, a, step, row, 0, b, fours, GROUP)
        _tiles_1x1(below, below, ldo, column, ldb, depth, last_a, step, row, 0, b, rest, GROUP)
    for j in range(q - q % GROUP, q):
        for i in range(p):
            total = out[i * ldo + j]
            for k in range(depth):
                total += a[i * row + k * step] * b[k * ldb + j]
            out[i * ldo + j] = total


@inner
def add_product(a, b, p, depth, q, out):
    """out += a b for a (p, depth), b (depth, q)."""
    add_strided_product(out, q, a, depth, 1, b, q, p, depth, q)


@inner
def product(a, b, p, depth, q, out):
    """out = a b for a (p, depth), b (depth, q)."""
    fill(out, p * q, 0)
    add_strided_product(out, q, a, depth, 1, b, q, p, depth, q)


@inner
def add_transposed_product(a, b, p, depth, q, out):
    """out += a^T b for a (depth, p), b (depth, q)."""
    add_strided_product(out, q, a, 1, p, b, q, p, depth, q)


@inner
def householder_scratch(p, q):
    """Elements of scratch that `householder` needs."""
    return min(p, q) * (p + PANEL) + (2 * PANEL + p) * _padded(q)


@inner
def _padded(q):
    return (q + GROUP - 1) // GROUP * GROUP


@inner
def householder(a, p, q, r, work):
    """QR of a (p, q): a becomes Q (p, k), r becomes R (k, q) with diagonal >= 0, k = min(p, q).

    Q is orthonormal to rounding whatever the rank of a. O(p q k). Scratch: work, of
    `householder_scratch(p, q)` elements.
    """
    k = min(p, q)
    if q <= PANEL:
        Q, row, column = shift(work, q * p), 1, p
        _factorize_columns(a, p, q, r, work, Q)
    else:
        Q, row, column = shift(work, k * (p + PANEL) + 2 * PANEL * _padded(q)), _padded(k), 1
        triangularize(a, p, q, r, work)
        _form_q(work, p, k, shift(work, k * (p + PANEL)), Q)
    for j in range(k):
        sign = element(a, math.copysign(1.0, r[j * q + j]))
        for i in range(j, q):
            r[j * q + i] *= sign
        for i in range(p):
            a[i * k + j] = sign * Q[i * row + j * column]


@inner
def _factorize_columns(a, p, q, r, C, Q):
    """R and Q^T (k, p), up to signs, by one reflection after the other: fastest for few columns."""
    k = min(p, q)
    transpose(a, p, q, C)
    fill(r, k * q, 0)
    for j in range(k):
        v = shift(C, j * (p + 1))
        r[j * q + j] = _reflector(v, 1, p - j, v)
        for c in range(j + 1, q):
            _reflect_column(v, p - j, shift(C, c * p + j))
            r[j * q + c] = C[c * p + j]
    fill(Q, k * p, 0)
    for j in range(k - 1, -1, -1):
        Q[j * (p + 1)] = element(Q, 1)
        for c in range(j, k):
            _reflect_column(shift(C, j * (p + 1)), p - j, shift(Q, c * p + j))


@inner
def _reflect_column(v, p, u):
    """u <- u - v v^T u."""
    dot = element(v, 0)
    for i in range(p):
        dot += u[i] * v[i]
    for i in range(p):
        u[i] -= dot * v[i]


@inner
def _form_q(V, p, k, w, Q):
    """Q (p, k), in rows of _padded(k): apply the reflections of `triangularize` to the identity."""
    T, width = shift(V, k * p), _padded(k)
    fill(Q, p * width, 0)
    for j in range(k):
        Q[j * (width + 1)] = element(Q, 1)
    for start in range((k - 1) // PANEL * PANEL, -1, -PANEL):
        v, t, n = shift(V, start * (p + 1)), shift(T, start * PANEL), min(PANEL, k - start)
        rest = shift(Q, start * (width + 1))
        _reflect(v, p, p - start, t, n, False, rest, width, width - start, w)


@inner
def triangularize(a, p, q, r, work):
    """Blocked Householder QR of a (p, q): r becomes R (k, q), up to the signs of its rows.

    Panels of reflections are applied together, in compact WY form; they stay in work.
    """
    k, width = min(p, q), _padded(q)
    V, T = work, shift(work, k * p)
    w, A = shift(T, k * PANEL), shift(T, (k + 2 * width) * PANEL)
    fill(V, k * p, 0)
    fill(A, p * width, 0)
    for i in range(p):
        copy(shift(a, i * q), q, shift(A, i * width))
    for start in range(0, k, PANEL):
        stop = min(start + PANEL, k)
        for j in range(start, stop):
            v = shift(V, j * (p + 1))
            r[j * q + j] = _reflector(shift(A, j * (width + 1)), width, p - j, v)
            # Begin at a whole group of columns: those of them that are finished are not read again.
            first = (j + 1) // GROUP * GROUP
            last = min(start + PANEL, width)
            if first < last:
                _reflect_once(v, p - j, shift(A, j * width + first), width, last - first, w)
        v, t = shift(V, start * (p + 1)), shift(T, start * PANEL)
        _join_reflectors(v, p, p - start, stop - start, t)
        last = start + PANEL
        if last < width:
            rest = shift(A, start * width + last)
            _reflect(v, p, p - start, t, stop - start, True, rest, width, width - last, w)
    for j in range(k):
        fill(shift(r, j * q), j, 0)
        copy(shift(A, j * (width + 1) + 1), q - j - 1, shift(r, j * (q + 1) + 1))


@inner
def _reflector(column, stride, p, v):
    """Write v such that 1 - v v^T maps the column to (beta, 0, .., 0), and return beta.

    v = 0 if the column has this form already.
    """
    square = element(v, 0)
    for i in range(1, p):
        v[i] = column[i * stride]
        square += v[i] * v[i]
    head = column[0]
    if not square > 0:
        fill(v, p, 0)
        return head
    beta, first, factor = _reflection(head, square)
    v[0] = element(v, first)
    factor = element(v, factor)
    for i in range(1, p):
        v[i] *= factor
    return element(v, beta)


@inner
def _reflect_once(v, p, A, lda, q, w):
    """A <- A - v v^T A for p rows and q columns of A."""
    fill(w, q, 0)
    add_strided_product(w, q, v, p, 1, A, lda, 1, p, q)
    for i in range(q):
        w[i] = -w[i]
    add_strided_product(A, lda, v, 1, 1, w, q, p, 1, q)


@inner
def _join_reflectors(V, ldv, p, k, T):
    """T (k, k), upper triangular, with H_1 .. H_k = 1 + V T V^T (compact WY form)."""
    for j in range(k):
        fill(shift(T, j * PANEL), k, 0)
    for j in range(k):
        for i in range(j):
            v, u = shift(V, i * ldv), shift(V, j * ldv)
            dot = element(T, 0)
            for s in range(p):
                dot += v[s] * u[s]
            for s in range(i + 1):
                T[s * PANEL + j] -= T[s * PANEL + i] * dot
        T[j * PANEL + j] = element(T, -1)


@inner
def _reflect(V, ldv, p, T, k, transposed, A, lda, q, w):
    """A <- A + V T V^T A (T^T if transposed) for p rows and q columns of A, k reflectors."""
    products, mixed = w, shift(w, k * q)
    fill(w, 2 * k * q, 0)
    add_strided_product(products, q, V, ldv, 1, A, lda, k, p, q)
    row, step = (1, PANEL) if transposed else (PANEL, 1)
    add_strided_product(mixed, q, T, row, step, products, q, k, k, q)
    add_strided_product(A, lda, V, 1, ldv, mixed, q, p, k, q)


@inner
def inverse(a, n, out, work):
    """out = a^-1 for a (n, n) by Gauss-Jordan with row pivoting; False if a pivot vanishes. O(n^3).

    Scratch: work (n (2 n + 3)).
    """
    width = 2 * n
    rows, factors, pivot_row = work, shift(work, n * width), shift(work, n * (width + 1))
    for i in range(n):
        copy(shift(a, i * n), n, shift(rows, i * width))
        fill(shift(rows, i * width + n), n, 0)
        rows[i * width + n + i] = element(rows, 1)
    for j in range(n):
        best = j
        for i in range(j + 1, n):
            if abs(rows[i * width + j]) > abs(rows[best * width + j]):
                best = i
        pivot = rows[best * width + j]
        if not abs(pivot) > 0:
            return False
        for c in range(width):
            pivot_row[c] = rows[best * width + c] / pivot
            rows[best * width + c] = rows[j * width + c]
            rows[j * width + c] = pivot_row[c]
        for i in range(n):
            factors[i] = -rows[i * width + j]
        factors[j] = element(factors, 0)
        add_strided_product(rows, width, factors, 1, 1, pivot_row, width, n, 1, width)
    for i in range(n):
        copy(shift(rows, i * width + n), n, shift(out, i * n))
    return True
