"""Arithmetic on single numbers: plain functions that both the CPU and CUDA compile."""

import math


def reflection(head, square):
    """The Householder reflection 1 - v v^T, v = (first, factor x), of (head, x) to (beta, 0).

    Returns (beta, first, factor). `square` is |x|^2, which must be positive.
    """
    norm = math.sqrt(head * head + square)
    pivot = head + math.copysign(norm, head)
    factor = 1 / math.sqrt(norm * abs(pivot))
    return -math.copysign(norm, head), pivot * factor, factor


def excess_power(peak, low, high):
    """The power of two to take out of numbers whose largest magnitude is `peak`.

    It is 0 for magnitudes from low to high, and for 0, NaN and inf.
    """
    if (peak > high or 0 < peak < low) and math.isfinite(peak):
        return math.frexp(peak)[1]
    return 0


def binary_exponent(magnitude):
    """The exponent of a magnitude as a power of two; for 0, one far below that of any number."""
    return math.frexp(magnitude)[1] if magnitude > 0 else -(10**6)


def middle_range(itemsize):
    """The limit e such that products of some numbers from 2^-e to 2^e stay in range."""
    return 256 if itemsize == 8 else 32
