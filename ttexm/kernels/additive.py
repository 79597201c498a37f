"""Additive models of categories and curves: sums over the columns, gradients, normal equations.

The hat functions of the knots of a column, and the indicators of the levels of a category, are zero
but for one or two of them:

    codes, t    (m, d)  the knot or level of each sample and column, and the share of the next one
    first       (d + 1,)  the first knot of each column, if those of all are numbered
    tables      (knots, K)  for each knot and output, what it adds to the prediction

Functions of a column become tables before these kernels, and sums over knots become sums over
functions after them.
"""

from .compilation import inner, kernel


@inner
def _next(a, last):
    """The knot after a, if there is one."""
    return min(a + 1, last - 1)


@kernel
def add_values(codes, t, first, tables, f):
    """f (m, K) += the sum over all columns of their tables. O(d K) per sample."""
    m, d = codes.shape
    for s in range(m):
        for k in range(d):
            a, share = first[k] + codes[s, k], t[s, k]
            b = _next(a, first[k + 1]) if share > 0 else a
            if f.shape[1] == 1:
                f[s, 0] += tables[a, 0] + share * (tables[b, 0] - tables[a, 0])
                continue
            for j in range(f.shape[1]):
                f[s, j] += tables[a, j] + share * (tables[b, j] - tables[a, j])


@kernel
def add_gradient(codes, t, first, g, sums):
    """sums (knots, K) += sum_s g_s psi_s, the transpose of `add_values`. O(d K) per sample."""
    m, d = codes.shape
    for s in range(m):
        for k in range(d):
            a, share = first[k] + codes[s, k], t[s, k]
            for j in range(g.shape[1]):
                sums[a, j] += (1 - share) * g[s, j]
            if share > 0:
                b = _next(a, first[k + 1])
                for j in range(g.shape[1]):
                    sums[b, j] += share * g[s, j]


@kernel
def add_products(codes, t, first, h, out):
    """out (knots, knots) += sum_s h_s psi_s psi_s^T, its upper triangle. O(d^2) per sample."""
    m, d = codes.shape
    for s in range(m):
        for k in range(d):
            a, x = first[k] + codes[s, k], t[s, k]
            left, right = h[s] * (1 - x), h[s] * x
            lower, upper = out[a], out[_next(a, first[k + 1])]
            for j in range(k, d):
                b, y = first[j] + codes[s, j], t[s, j]
                c = _next(b, first[j + 1])
                lower[b] += left * (1 - y)
                lower[c] += left * y
                upper[b] += right * (1 - y)
                upper[c] += right * y
