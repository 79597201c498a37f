"""The built-in losses inside kernels: values and derivatives of many predictions at once.

exp and log are polynomials here: LLVM makes vector instructions of those, but not of calls to the
C library.
"""

import math

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from .compilation import inner
from .dense import copy
from .tiles import shift

SQUARED, LOGISTIC, SOFTMAX, POISSON, HINGE, SQUARED_HINGE = range(6)
OTHER = -1  # a loss that is evaluated outside of kernels

LARGEST_RATE = 500.0  # where the Poisson loss goes on as a straight line
_INTEGERS = 2.0**52 + 2.0**51  # the last bits of a sum with it are the bits of an integer
SAMPLES = 256  # of the softmax, which are in cache at once
_HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_EXP = tuple(1 / math.factorial(j) for j in range(13))  # coefficients of series
_ATANH = tuple(1 / (2 * j + 1) for j in range(15))


@intrinsic
def _bits_of(typing, x):
    """The bits of a float, as an integer."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return numba.types.int64(numba.types.float64), codegen


@intrinsic
def _from_bits(typing, bits):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return numba.types.float64(numba.types.int64), codegen


@inner
def exponential(x):
    """exp(x) to 13 digits; beyond -700 and 700, and for NaN, that of one of these ends."""
    x = min(max(x, -700.0), 700.0)
    n = np.floor(x * 1.4426950408889634 + 0.5)  # exp(x) = 2^n exp(r), |r| <= log(2) / 2
    r = x - n * 0.6931471805599453
    power = _from_bits(_bits_of(n + 1023.0 + _INTEGERS) << 52)
    c = _EXP  # written out, as LLVM makes no vectors of a loop in a loop
    high = c[8] + r * (c[9] + r * (c[10] + r * (c[11] + r * c[12])))
    low = c[3] + r * (c[4] + r * (c[5] + r * (c[6] + r * (c[7] + r * high))))
    return power * (c[0] + r * (c[1] + r * (c[2] + r * low)))


@inner
def logarithm(x):
    """log(x) for finite x >= 1: x = 2^n y with y between sqrt(1/2) and sqrt(2)."""
    bits = _bits_of(x)
    n = (bits - _HALF_ROOT) >> 52
    y = _from_bits(bits - (n << 52))
    return float(n) * 0.6931471805599453 + log_one_plus(y - 1)


@inner
def log_one_plus(x):
    """log(1 + x) for -0.3 <= x <= 1: 2 atanh(z), z = x / (2 + x), by its series in z."""
    z = x / (2.0 + x)
    q, c = z * z, _ATANH
    high = c[10] + q * (c[11] + q * (c[12] + q * (c[13] + q * c[14])))
    middle = c[5] + q * (c[6] + q * (c[7] + q * (c[8] + q * (c[9] + q * high))))
    return 2 * z * (c[0] + q * (c[1] + q * (c[2] + q * (c[3] + q * (c[4] + q * middle)))))


@inner
def evaluate(loss, m, n_outputs, step, y, w, f, g, h):
    """The weighted sum of the losses of m samples; g, h: its derivatives in f.

    y, f, g, h are pointers to rows of samples, one row for each output, `step` apart; w has the
    weights of the samples. For the softmax h holds the probabilities p instead: the second
    derivatives are w (diag(p) - p p^T). Where a loss has no curvature, h is |g|. Many short loops
    over samples: LLVM makes vectors of those.
    """
    total = 0.0
    if loss == SOFTMAX:
        for start in range(0, m, SAMPLES):
            count = min(SAMPLES, m - start)
            total += _softmax(
                count, n_outputs, step, shift(y, start), shift(w, start), shift(f, start),
                shift(g, start), shift(h, start),
            )  # fmt: skip
        return total
    for j in range(n_outputs):
        at = j * step
        total += _evaluate_output(
            loss, m, shift(y, at), w, shift(f, at), shift(g, at), shift(h, at)
        )
    return total


@inner
def _evaluate_output(loss, m, y, w, f, g, h):
    if loss == SQUARED:
        return _squared(m, y, w, f, g, h)
    if loss == LOGISTIC:
        return _logistic(m, y, w, f, g, h)
    if loss == POISSON:
        return _poisson(m, y, w, f, g, h)
    return _hinge(loss == HINGE, m, y, w, f, g, h)


@inner
def _squared(n, y, w, f, g, h):
    total = 0.0
    for i in range(n):
        g[i] = f[i] - y[i]
    for i in range(n):
        total += 0.5 * w[i] * g[i] * g[i]
    for i in range(n):
        g[i] *= w[i]
        h[i] = w[i]
    return total


@inner
def _logistic(n, y, w, f, g, h):
    total = 0.0
    for i in range(n):
        g[i] = y[i] * f[i]
    for i in range(n):
        h[i] = exponential(-abs(g[i]))
    for i in range(n):
        total += w[i] * (max(-g[i], 0.0) + log_one_plus(h[i]))
    for i in range(n):
        e = h[i]
        p = 1.0 / (1.0 + e)
        g[i] = e * p if g[i] > 0 else p  # the probability of the other label
        h[i] = e * p * p
    for i in range(n):
        g[i] *= -y[i] * w[i]
        h[i] *= w[i]
    return total


@inner
def _poisson(n, y, w, f, g, h):
    total = 0.0
    for i in range(n):
        h[i] = exponential(min(f[i], LARGEST_RATE))
    for i in range(n):
        total += w[i] * (h[i] * (1 + max(f[i] - LARGEST_RATE, 0.0)) - y[i] * f[i])
    for i in range(n):
        g[i] = w[i] * (h[i] - y[i])
    for i in range(n):
        h[i] *= w[i]
    return total


@inner
def _hinge(is_straight, n, y, w, f, g, h):
    """The hinge and its square: g is the shortfall of the margin first."""
    total = 0.0
    for i in range(n):
        g[i] = max(1 - y[i] * f[i], 0.0)
    for i in range(n):
        h[i] = w[i] if g[i] > 0 else 0.0
    for i in range(n):
        total += w[i] * (g[i] if is_straight else 0.5 * g[i] * g[i])
    for i in range(n):
        g[i] = -y[i] * (h[i] if is_straight else w[i] * g[i])
    return total


@inner
def _softmax(m, n_outputs, step, y, w, f, g, h):
    """One output after the other. The first two rows of g are scratch until the end."""
    sums, logs, total = g, shift(g, step), 0.0
    for i in range(m):
        sums[i] = f[i]
    for j in range(1, n_outputs):
        row = shift(f, j * step)
        for i in range(m):
            sums[i] = max(sums[i], row[i])
    for j in range(n_outputs):
        row, wanted, to = shift(f, j * step), shift(y, j * step), shift(h, j * step)
        for i in range(m):
            total -= w[i] * wanted[i] * (row[i] - sums[i])
        for i in range(m):
            to[i] = exponential(row[i] - sums[i])
    _add_rows(m, n_outputs, step, h, sums)
    for i in range(m):
        logs[i] = logarithm(sums[i])
    for j in range(n_outputs):
        row, wanted = shift(h, j * step), shift(y, j * step)
        for i in range(m):
            row[i] /= sums[i]
        for i in range(m):
            total += w[i] * wanted[i] * logs[i]
    _add_rows(m, n_outputs, step, y, sums)
    for j in range(n_outputs - 1, -1, -1):  # the sums are overwritten last
        row, wanted, to = shift(h, j * step), shift(y, j * step), shift(g, j * step)
        for i in range(m):
            to[i] = w[i] * (sums[i] * row[i] - wanted[i])
    return total


@inner
def _add_rows(m, n_outputs, step, rows, out):
    copy(rows, m, out)
    for j in range(1, n_outputs):
        row = shift(rows, j * step)
        for i in range(m):
            out[i] += row[i]
