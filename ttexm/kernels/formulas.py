"""Arithmetic on single numbers that the CPU and CUDA share: plain functions, compiled by both."""

import math


def reflection(head, square):
    """(beta, first, factor): 1 - v v^T with v = (first, factor x) maps (head, x) to (beta, 0).

    `square` is |x|^2, which must be positive.
    """
    norm = math.sqrt(head * head + square)
    pivot = head + math.copysign(norm, head)
    factor = 1 / math.sqrt(norm * abs(pivot))
    return -math.copysign(norm, head), pivot * factor, factor


def excess_power(peak, low, high):
    """The exponent to take out of numbers of this magnitude: 0 within low .. high.

    NaN, inf and 0 are left as they are.
    """
    if (peak > high or 0 < peak < low) and math.isfinite(peak):
        return math.frexp(peak)[1]
    return 0


def exponent_of(magnitude):
    """Its exponent; far below that of any number for zero."""
    return math.frexp(magnitude)[1] if magnitude > 0 else -(10**6)


def middle_range(itemsize):
    """Numbers between 2^-this and 2^this can be multiplied for a while before they overflow."""
    return 256 if itemsize == 8 else 32
