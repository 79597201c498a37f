"""Sums and entrywise products of trains, core by core, and the range of their numbers."""

import numpy as np

from .compilation import kernel
from .dense import copy, fill, normalize, scale_by_power
from .layout import Train
from .tiles import pointer, shift


@kernel
def add(left, a, right, b, data):
    """Cores of a W + b Z: block matrices [[G 0] [0 G']], the factors in the first core."""
    left, right = Train(*left), Train(*right)
    d = len(left.sizes)
    to = pointer(data)
    for k in range(d):
        p0, p1, q0, q1 = left.ranks[k], left.ranks[k + 1], right.ranks[k], right.ranks[k + 1]
        # The first core is a row of two blocks, the last one a column, and a single core their sum.
        rows = p0 if k == 0 else p0 + q0
        columns = p1 if k == d - 1 else p1 + q1
        below, beside = rows - q0, columns - q1
        for i in range(left.sizes[k]):
            fill(to, rows * columns, 0)
            G = shift(pointer(left.data), left.offsets[k] + i * p0 * p1)
            H = shift(pointer(right.data), right.offsets[k] + i * q0 * q1)
            for r in range(p0):
                for c in range(p1):
                    to[r * columns + c] += (a if k == 0 else 1) * G[r * p1 + c]
            for r in range(q0):
                for c in range(q1):
                    to[(below + r) * columns + beside + c] += (b if k == 0 else 1) * H[r * q1 + c]
            to = shift(to, rows * columns)


@kernel
def hadamard(left, right, data):
    """Cores of the entrywise product: Kronecker products of the slots."""
    left, right = Train(*left), Train(*right)
    to = pointer(data)
    for k in range(len(left.sizes)):
        p0, p1, q0, q1 = left.ranks[k], left.ranks[k + 1], right.ranks[k], right.ranks[k + 1]
        for i in range(left.sizes[k]):
            G = shift(pointer(left.data), left.offsets[k] + i * p0 * p1)
            H = shift(pointer(right.data), right.offsets[k] + i * q0 * q1)
            for a in range(p0):
                for b in range(q0):
                    for c in range(p1):
                        for e in range(q1):
                            to[e] = G[a * p1 + c] * H[b * q1 + e]
                        to = shift(to, q1)


@kernel
def normalize_cores(train, data):
    """Copy the cores without their powers of two; returns (sum of exponents, cores changed)."""
    train = Train(*train)
    total, changed = 0, 0
    for k in range(len(train.sizes)):
        n = train.offsets[k + 1] - train.offsets[k]
        to = shift(pointer(data), train.offsets[k])
        copy(shift(pointer(train.data), train.offsets[k]), n, to)
        exponent = normalize(to, n)
        total += exponent
        changed += exponent != 0
    return total, changed


@kernel
def spread_power(train, exponent, data):
    """Copy the cores, each times an even share of 2^exponent."""
    train = Train(*train)
    d = len(train.sizes)
    for k in range(d):
        n = train.offsets[k + 1] - train.offsets[k]
        to = shift(pointer(data), train.offsets[k])
        copy(shift(pointer(train.data), train.offsets[k]), n, to)
        scale_by_power(to, n, exponent * (k + 1) // d - exponent * k // d)


@kernel
def extent(bits):
    """Largest and smallest non-zero magnitude of floating-point numbers, as bits both ways.

    Without their sign bit, floats compare like integers, with inf and NaN above all others; LLVM
    vectorises the comparison of integers. If all numbers are zero, the smallest non-zero magnitude
    is the largest integer.
    """
    sign = ~np.int64(-1 << (8 * bits.itemsize - 1))
    highest, lowest = np.int64(0), sign
    for i in range(len(bits)):
        magnitude = bits[i] & sign
        highest = max(highest, magnitude)
        lowest = min(lowest, (magnitude - 1) & sign)
    return highest, lowest + 1
