"""Sweeps that make the cores of a train orthogonal, and rounding by TT-SVD.

All sweeps run from left to right; the other direction is the same sweep on the reversed train.
Slots are stacked: core k is an (n r0, r1) matrix. The new cores are written to `data`, one after
the other, and their ranks, which are never larger than before, to `ranks`. Powers of two are taken
out on the way, so that no product of cores overflows or underflows; kernels return the exponent.
"""

import numpy as np

from .compilation import inner, kernel
from .dense import (
    copy,
    fold_power,
    householder,
    householder_scratch,
    normalize,
    product,
    put,
    transpose,
    triangularize,
)
from .layout import Train
from .tiles import element, pointer, shift


@kernel
def factorize(A, p, q, R, work):
    """Householder QR of A (p, q), flat: A becomes Q (p, k), k = min(p, q). O(p q k).

    Scratch: work, of `householder_scratch(p, q)` elements.
    """
    householder(pointer(A), p, q, pointer(R), pointer(work))


@kernel
def reverse(train, mirrored):
    """Fill `mirrored` with the reversed tensor: modes in reverse order, each slot transposed."""
    train, mirrored = Train(*train), Train(*mirrored)
    _reverse(train.data, train, mirrored)


@inner
def _reverse(data, train, mirrored):
    """`reverse` of the cores in `data`, which have the shape and ranks of `train`."""
    d = len(train.sizes)
    to = pointer(mirrored.data)
    mirrored.ranks[0] = train.ranks[d]
    mirrored.offsets[0] = 0
    for k in range(d - 1, -1, -1):
        n, r0, r1 = train.sizes[k], train.ranks[k], train.ranks[k + 1]
        for i in range(n):
            transpose(shift(pointer(data), train.offsets[k] + i * r0 * r1), r0, r1, to)
            to = shift(to, r0 * r1)
        j = d - 1 - k
        mirrored.sizes[j], mirrored.ranks[j + 1] = n, r0
        mirrored.offsets[j + 1] = mirrored.offsets[j] + n * r0 * r1


@kernel
def orthogonalize(train, stop, data, ranks, work):
    """Make cores 0 .. stop - 1 left-orthogonal; W = 2^exponent times the result. O(d n r^3).

    The exponent is 0 unless |W| is close to overflow or underflow, or beyond.
    Scratch: work, of `sweep_scratch(train)` elements.
    """
    return qr_sweep(Train(*train), stop, data, ranks, work)


@inner
def qr_sweep(train, stop, data, ranks, work):
    """The body of `orthogonalize`, which CUDA compiles as well."""
    carry = pointer(work)
    room = train.rank**2
    R, scratch = shift(carry, room), shift(carry, 2 * room)
    put(carry, 0, 1)
    put(ranks, 0, 1)
    exponent = 0
    G, to = pointer(train.data), pointer(data)
    center, center_size = to, 0
    for k in range(len(train.sizes)):
        n, r0, r1, c = train.sizes[k], train.ranks[k], train.ranks[k + 1], ranks[k]
        if k > stop:
            copy(G, n * r0 * r1, to)
        else:
            _absorb_carry(carry, c, G, n, r0, r1, to)
        exponent += normalize(to, n * c * r1)
        kept = r1
        if k < stop:
            householder(to, n * c, r1, R, scratch)
            kept = min(n * c, r1)
            carry, R = R, carry
        put(ranks, k + 1, kept)
        if k == stop:
            center, center_size = to, n * c * r1
        G, to = shift(G, n * r0 * r1), shift(to, n * c * kept)
    return fold_power(center, center_size, exponent)


@kernel
def both_gauges(train, is_left_orthogonal, left, right, work):
    """Fill the left- and the right-orthogonal train of a point, as in `projection`.

    The ranks must be feasible for the shape. W is 2^exponent times either train; the exponent is
    returned. is_left_orthogonal: the given train already is. Scratch: work, of
    `sweep_scratch(train)` elements and as many as the train has.
    """
    train, right = Train(*train), Train(*right)
    d, size = len(train.sizes), len(left)
    exponent = 0
    if is_left_orthogonal:
        copy(pointer(train.data), size, pointer(left))
    else:
        exponent = qr_sweep(train, d - 1, left, right.ranks, work)
    _reverse(left, train, right)
    mirrored = Train(
        work[:size], right.ranks.copy(), right.sizes, right.offsets, train.rank, train.rows
    )
    copy(pointer(right.data), size, pointer(work))
    qr_sweep(mirrored, d - 1, right.data, right.ranks, work[size:])
    return exponent


@inner
def _absorb_carry(carry, c, G, n, r0, r1, out):
    """out[i] = carry G[i] for a carry (c, r0)."""
    for i in range(n):
        product(carry, shift(G, i * r0 * r1), c, r0, r1, shift(out, i * c * r1))


def sweep_scratch(train):
    """Elements of scratch that a sweep over this train needs."""
    return 2 * train.rank**2 + householder_scratch(train.rows, train.rank)


@kernel
def norm(train, work):
    """|W| = mantissa 2^exponent, by orthogonalisation, in O(d n r^3).

    It is accurate to rounding even if W is a difference of almost equal tensors, where
    sqrt(<W, W>) would lose half of the digits.
    Scratch: work, of `sweep_scratch(train)` + max(n r r) elements.
    """
    train = Train(*train)
    room = train.rank**2
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
    """TT-SVD of a train whose cores 1 .. d - 1 are right-orthogonal, so that |G_0| = |W|.

    Bond k keeps as few singular values as leave out a norm of at most `tolerance`, at most most[k]
    and at least one. All cores of the result but the last are left-orthogonal. O(d n r^3).
    Scratch: work, of `sweep_scratch(train)` elements.
    """
    train = Train(*train)
    d = len(train.sizes)
    carry, room = pointer(work), train.rank**2
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
            # QR first: the SVD is then of a matrix (p, r1) with p <= r1, however tall the core.
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
    """How many singular values a bond keeps."""
    rest = 0.0
    kept = len(sigma)
    while kept > 1:
        rest += sigma[kept - 1] ** 2
        if rest > tolerance * tolerance and kept <= most:
            break
        kept -= 1
    return kept
