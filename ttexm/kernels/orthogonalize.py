"""Sweeps that bring a train into orthogonal form, and rounding by TT-SVD.

All sweeps run left to right; the other direction is the same sweep on the reversed train. Slots
are stacked: core k is an (n r0, r1) matrix. Results are written one core after the other to `data`,
with their ranks in `ranks`, which can only have shrunk. Powers of two are taken out on the way, so
that no product of cores leaves the range of floating-point numbers: kernels return the exponent.
"""

import numpy as np

from .compile import inner, kernel
from .dense import (
    copy,
    householder,
    householder_scratch,
    largest,
    normalize,
    product,
    transpose,
    triangularize,
)
from .tiles import element, pointer, shift


@kernel
def reverse(train, data):
    """The train of the reversed tensor: modes in reverse order, each slot transposed."""
    to = pointer(data)
    for k in range(len(train.sizes) - 1, -1, -1):
        r0, r1 = train.ranks[k], train.ranks[k + 1]
        for i in range(train.sizes[k]):
            transpose(shift(pointer(train.data), train.offsets[k] + i * r0 * r1), r0, r1, to)
            to = shift(to, r0 * r1)


@inner
def _absorb_carry(carry, c, G, n, r0, r1, out):
    """out[i] = carry G[i] for a carry (c, r0)."""
    for i in range(n):
        product(carry, shift(G, i * r0 * r1), c, r0, r1, shift(out, i * c * r1))


@kernel
def orthogonalize(train, stop, data, ranks, work):
    """Make cores 0 .. stop - 1 left-orthogonal; W = 2^exponent times the result. O(d n r^3).

    Scratch: work, of `sweep_scratch(train)` elements.
    """
    carry = pointer(work)
    room = largest(train.ranks) ** 2
    R, scratch = shift(carry, room), shift(carry, 2 * room)
    carry[0] = element(carry, 1)
    ranks[0] = 1
    exponent = 0
    to = pointer(data)
    for k in range(len(train.sizes)):
        G, n = shift(pointer(train.data), train.offsets[k]), train.sizes[k]
        r0, r1 = train.ranks[k], train.ranks[k + 1]
        c = ranks[k]
        if k > stop:
            copy(G, n * r0 * r1, to)
        else:
            _absorb_carry(carry, c, G, n, r0, r1, to)
        exponent += normalize(to, n * c * r1)
        ranks[k + 1] = r1
        if k < stop:
            householder(to, n * c, r1, R, scratch)
            ranks[k + 1] = min(n * c, r1)
            carry, R = R, carry
        to = shift(to, n * c * ranks[k + 1])
    return exponent


def sweep_scratch(train):
    """Elements of scratch that the sweeps need."""
    r = int(train.ranks.max())
    return 2 * r * r + householder_scratch(int((train.sizes * train.ranks[:-1]).max()), r)


@kernel
def norm(train, work):
    """|W| = mantissa 2^exponent, accurate to rounding also for a difference of near tensors.

    By orthogonalisation, as sqrt(<W, W>) would lose half the digits there. O(d n r^3).
    Scratch: work, of `sweep_scratch(train)` + max(n r r) elements.
    """
    room = largest(train.ranks) ** 2
    carry = pointer(work)
    R, core = shift(carry, room), shift(carry, 2 * room)
    carry[0] = element(carry, 1)
    exponent, c = 0, 1
    for k in range(len(train.sizes)):
        G, n = shift(pointer(train.data), train.offsets[k]), train.sizes[k]
        r0, r1 = train.ranks[k], train.ranks[k + 1]
        _absorb_carry(carry, c, G, n, r0, r1, core)
        exponent += normalize(core, n * c * r1)
        triangularize(core, n * c, r1, R, shift(core, n * c * r1))
        c = min(n * c, r1)
        carry, R = R, carry
    return abs(carry[0]), exponent


@kernel
def truncate(train, most, tolerance, data, ranks, work):
    """TT-SVD of a train whose cores 1 .. d - 1 are right-orthogonal (so core 0 holds its norm).

    Bond k keeps the fewest singular values whose rest has a norm of at most `tolerance`, at most
    most[k], at least one. The result is left-orthogonal up to the last core. O(d n r^3).
    Scratch: work, of `sweep_scratch(train)` elements.
    """
    d = len(train.sizes)
    carry, room = pointer(work), largest(train.ranks) ** 2
    R, scratch = shift(carry, room), shift(carry, 2 * room)
    carry[0] = element(carry, 1)
    ranks[0] = 1
    to = pointer(data)
    for k in range(d):
        G, n = shift(pointer(train.data), train.offsets[k]), train.sizes[k]
        r0, r1 = train.ranks[k], train.ranks[k + 1]
        c = ranks[k]
        _absorb_carry(carry, c, G, n, r0, r1, to)
        ranks[k + 1] = r1
        if k + 1 < d:
            # First QR: the SVD then is of a matrix of at most (r1, r1), however tall the core.
            p = min(n * c, r1)
            householder(to, n * c, r1, R, scratch)
            small = np.empty((p, r1), train.data.dtype)
            copy(R, p * r1, pointer(small))
            u, sigma, vt = np.linalg.svd(small, False)
            kept = _rank_for(sigma, tolerance, most[k + 1])
            ranks[k + 1] = kept
            for i in range(kept):
                for j in range(r1):
                    carry[i * r1 + j] = sigma[i] * vt[i, j]
            Q, columns = scratch, shift(scratch, n * c * p)
            copy(to, n * c * p, Q)
            for i in range(p):
                for j in range(kept):
                    columns[i * kept + j] = u[i, j]
            product(Q, columns, n * c, p, kept, to)
        to = shift(to, n * c * ranks[k + 1])


@inner
def _rank_for(sigma, tolerance, most):
    rest = 0.0
    kept = len(sigma)
    while kept > 1:
        rest += sigma[kept - 1] ** 2
        if rest > tolerance * tolerance and kept <= most:
            break
        kept -= 1
    return kept
