"""Projection on the tangent space of the manifold of fixed TT-rank.

A point W is given by two trains:

    left    W = U_0 .. U_{d-2} S, U left-orthogonal
    right   W = S' V_1 .. V_{d-1}, V right-orthogonal; reversed: core j is mode d-1-j, transposed

Bond k lies left of core k. A tangent vector is given by its deltas dG_k: it is the sum over k of
the trains U_0 .. U_{k-1} dG_k V_{k+1} .. V_{d-1}, and U_k^T dG_k = 0 for k < d - 1 makes the deltas
unique (Steinlechner 2016). With the left partial products P_{s,k} of sample s in U and the right
ones Q_{s,k} in V, both on bond k, the projection of sum_s g_s X_s has the deltas

    dG_k[i] = sum_s g_s phi_{s,k}[i] P_{s,k}^T Q_{s,k+1},    made orthogonal to U_k for k < d - 1.
"""

import math

from .compilation import inner, kernel
from .contraction import absorb, features, pointers, rescale, round_to_tiles
from .dense import (
    add_product,
    add_transposed_product,
    copy,
    fill,
    normalize,
    product,
    put,
    scale,
    scale_by_power,
)
from .layout import CATEGORY, INDEX, NUMERIC, VECTOR, Batch, Train
from .tiles import GROUP, element, outer_tile, pointer, scatter_tile, shift

_outer_3x4, _outer_2x4, _outer_1x4 = outer_tile(3, 4), outer_tile(2, 4), outer_tile(1, 4)
_outer_4x1, _outer_1x1 = outer_tile(4, 1), outer_tile(1, 1)


@inner
def _bonds(ranks, block):
    """Elements that the partial products of a block of samples take on all bonds."""
    total = 0
    for k in range(len(ranks)):
        total += ranks[k] * block
    return total


@kernel
def right_partials(right, identity, batch, span, period, partials, predictions, work):
    """Q_{s,k} on all bonds, and <W, X_s> = f[s] 2^f_powers[s], for the samples of a span.

    partials = (Q, powers), predictions = (f, f_powers). In Q, a block of samples takes r `block`
    elements for a bond of rank r, bond d first; in `powers` it takes d // period + 2 rows: Q_{s,k}
    carries the factor 2^powers of row (d - k) // period. If period > d the range is never checked,
    and powers and f_powers are left alone. O(d n r^2) per sample. Scratch: work, of block elements.
    """
    right = Train(*right)
    d, columns = len(right.sizes), pointers(Batch(*batch))
    (start, stop, block), (Q, powers), (f, f_powers) = span, partials, predictions
    checked = period <= d
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, Q.itemsize)
        q = shift(pointer(Q), (s0 - start) // block * _bonds(right.ranks, block))
        e = shift(pointer(powers), (s0 - start) * (d // period + 2))
        fill(q, width, 1)
        fill(e, block * checked, 0)
        for j in range(d):
            G, n = shift(pointer(right.data), right.offsets[j]), right.sizes[j]
            r0, r1 = right.ranks[j], right.ranks[j + 1]
            following = shift(q, r0 * block)
            phi = features(columns, d - 1 - j, s0)
            absorb(G, n, r0, r1, identity[j], phi, q, block, width, following)
            q = following
            if (j + 1) % period == 0:
                copy(e, block, shift(e, block))
                e = shift(e, block)
                rescale(q, r1, block, count, e, pointer(work))
        copy(q, count, shift(pointer(f), s0))
        copy(e, count * checked, shift(pointer(f_powers), s0))


@kernel
def accumulate_deltas(left, identity, skip, batch, g, span, period, partials, deltas, work):
    """deltas_k[i] += sum_s g_s phi_{s,k}[i] P_{s,k}^T Q_{s,k+1}, over the samples of a span.

    partials = (Q, powers) is what `right_partials` made. Where skip[k], slot 0 of a numeric mode is
    left out. For coded modes deltas_k[c] is the plain sum over the samples of code c, which
    `weigh_codes` turns into the sum with phi. O(d n r^2) per sample.
    Scratch: work, of 4 max(r) block elements.
    """
    left = Train(*left)
    d, columns = len(left.sizes), pointers(Batch(*batch))
    (start, stop, block), (Q, powers) = span, partials
    checked = period <= d
    room = left.rank * block
    P = pointer(work)
    following, weighted, scaled = shift(P, room), shift(P, 2 * room), shift(P, 3 * room)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, work.itemsize)
        bonds = _bonds(left.ranks, block)
        q = shift(pointer(Q), (s0 - start) // block * bonds + bonds - block)
        e = shift(pointer(powers), (s0 - start) * (d // period + 2))
        own = shift(e, (d // period + 1) * block)
        fill(own, block * checked, 0)
        fill(P, width, 0)
        copy(shift(pointer(g), s0), count, P)
        for k in range(d):
            at, n = left.offsets[k], left.sizes[k]
            r0, r1 = left.ranks[k], left.ranks[k + 1]
            phi = features(columns, k, s0)
            q = shift(q, -r1 * block)
            there = shift(e, (d - k - 1) // period * block)
            shifted = checked and _apply_powers(P, r0, block, count, own, there, weighted)
            p = weighted if shifted else P
            add_outer(
                p, r0, q, r1, n, skip[k], phi, block, width, scaled, shift(pointer(deltas), at)
            )
            if k + 1 < d:
                G = shift(pointer(left.data), at)
                absorb(G, n, r0, r1, identity[k], phi, P, block, width, following)
                P, following = following, P
                if (k + 1) % period == 0:
                    rescale(P, r1, block, count, own, scaled)


@inner
def _apply_powers(P, r, row, count, own, other, out):
    """out = P 2^(own + other), sample by sample; False if all powers are zero."""
    any_power = False
    for s in range(count):
        any_power |= own[s] + other[s] != 0
    if any_power:
        for a in range(r):
            for s in range(count):
                power = max(-5000, min(5000, own[s] + other[s]))
                out[a * row + s] = element(P, math.ldexp(P[a * row + s], power))
            for s in range(a * row + count, (a + 1) * row):
                out[s] = element(P, 0)
    return any_power


@inner
def add_outer(p, r0, q, r1, n, skip_constant, phi, row, width, scaled, D):
    """D[i] += sum_s phi_s[i] p_s^T q_s; for coded modes, D[c] += sum over the samples of code c."""
    slot = r0 * r1
    if phi.kind in (NUMERIC, VECTOR):
        ahead = 1 if phi.kind == NUMERIC else 0
        for i in range(1 if skip_constant else 0, n):
            if i < ahead:
                _outer(p, r0, q, r1, row, width, D)
            else:
                x = shift(phi.x, (i - ahead) * phi.stride)
                for a in range(r0):
                    here, to = shift(p, a * row), shift(scaled, a * row)
                    for s in range(width):
                        to[s] = here[s] * x[s]
                _outer(scaled, r0, q, r1, row, width, shift(D, i * slot))
    else:
        whole = r1 - r1 % GROUP
        for s in range(0, width, GROUP):
            codes = shift(phi.codes, s)
            for b in range(0, whole, GROUP):
                here = shift(q, b * row + s)
                scatter_tile(shift(D, b), r1, slot, codes, shift(p, s), here, row, r0)
            for b in range(whole, r1):
                for i in range(s, s + GROUP):
                    to = shift(D, phi.codes[i] * slot + b)
                    for a in range(r0):
                        to[a * r1] += p[a * row + i] * q[b * row + i]


@inner
def _outer(p, r0, q, r1, row, width, D):
    """D (r0, r1) += sum_s p_s^T q_s."""
    for b in range(0, r1 - 3, 4):
        here = shift(q, b * row)
        a = 0
        while a < r0:
            to, left = shift(D, a * r1 + b), shift(p, a * row)
            # Four rows as two and two, not three and one: a tile of one row stalls on its own sums.
            if r0 - a >= 3 and r0 - a != 4:
                _outer_3x4(to, r1, left, here, row, width)
                a += 3
            elif r0 - a >= 2:
                _outer_2x4(to, r1, left, here, row, width)
                a += 2
            else:
                _outer_1x4(to, r1, left, here, row, width)
                a += 1
    for b in range(r1 - r1 % 4, r1):
        here = shift(q, b * row)
        for a in range(0, r0 - 3, 4):
            _outer_4x1(shift(D, a * r1 + b), r1, shift(p, a * row), here, row, width)
        for a in range(r0 - r0 % 4, r0):
            _outer_1x1(shift(D, a * r1 + b), r1, shift(p, a * row), here, row, width)


@kernel
def finish_deltas(parts, kinds, scales, left, out, work):
    """Deltas of a batch, from what `accumulate_deltas` gave per chunk: parts (chunks, elements).

    Scratch: work, of max(r)^2 elements.
    """
    left = Train(*left)
    add_parts(parts, kinds, scales, left, out)
    fix_gauge(left, pointer(out), pointer(work))


@kernel
def sum_deltas(parts, kinds, scales, train, out):
    """Derivatives of sum_s g_s <W, X_s> in the cores of any train: deltas without a gauge."""
    add_parts(parts, kinds, scales, Train(*train), out)


@inner
def sum_parts(parts, n_parts, n, out):
    """out = the sum of parts (n_parts, n), added in order."""
    fill(out, n, 0)
    for c in range(n_parts):
        part = shift(parts, c * n)
        for i in range(n):
            out[i] += part[i]


@inner
def add_parts(parts, kinds, scales, left, out):
    """Add the parts in order, then `weigh_codes` of each mode."""
    sum_parts(pointer(parts), len(parts), len(out), pointer(out))
    for k in range(len(left.sizes)):
        slot = left.ranks[k] * left.ranks[k + 1]
        D, n = shift(pointer(out), left.offsets[k]), left.sizes[k]
        weigh_codes(kinds[k], scales[k], n, slot, D)


@inner
def weigh_codes(kind, scale, n, slot, D):
    """Turn the sums D[c] over the samples of code c into sums over all samples, times phi."""
    if kind == CATEGORY:
        # phi = e_0 + scale e_c: every sample counts in slot 0, those of code c also in slot c.
        for c in range(1, n):
            for i in range(slot):
                D[i] += D[c * slot + i]
                D[c * slot + i] *= scale
    elif kind == INDEX:
        for i in range(n * slot):
            D[i] *= scale


@inner
def fix_gauge(left, deltas, work):
    """Impose the gauge condition U_k^T dG_k = 0 for k < d - 1: dG_k <- (1 - U_k U_k^T) dG_k."""
    for k in range(len(left.sizes) - 1):
        U, D = shift(pointer(left.data), left.offsets[k]), shift(deltas, left.offsets[k])
        # Slots are stacked: U_k and dG_k are (n r0, r1) matrices.
        make_orthogonal(U, D, left.sizes[k] * left.ranks[k], left.ranks[k + 1], work)


@inner
def make_orthogonal(U, D, rows, r1, work):
    """D <- (1 - U U^T) D for matrices (rows, r1)."""
    fill(work, r1 * r1, 0)
    add_transposed_product(U, D, r1, rows, r1, work)
    scale(work, r1 * r1, -1)
    add_product(U, work, rows, r1, r1, D)


@kernel
def project_train(left, right, Z, exponent, out, work, powers):
    """Deltas of the projection of 2^exponent Z, another train of the same shape.

    O(d n r r' (r + r')). Scratch: work, of (d + 4) max(r) max(r') + max(r)^2 elements; powers, of
    d + 1.
    """
    train_deltas(Train(*left), Train(*right), Train(*Z), exponent, out, work, powers)


@inner
def train_deltas(left, right, Z, exponent, out, work, powers):
    """The body of `project_train`, which CUDA compiles as well."""
    d = len(left.sizes)
    room = left.rank * Z.rank
    R = pointer(work)
    half, L, new = shift(R, (d + 1) * room), shift(R, (d + 2) * room), shift(R, (d + 3) * room)
    fill(shift(R, d * room), 1, 1)
    put(powers, d, 0)
    for k in range(d - 1, 0, -1):
        z0, z1, r0, r1 = Z.ranks[k], Z.ranks[k + 1], left.ranks[k], left.ranks[k + 1]
        to = shift(R, k * room)
        fill(to, z0 * r0, 0)
        for i in range(Z.sizes[k]):
            G = shift(pointer(Z.data), Z.offsets[k] + i * z0 * z1)
            V = shift(pointer(right.data), right.offsets[d - 1 - k] + i * r0 * r1)
            product(G, shift(R, (k + 1) * room), z0, z1, r1, half)
            add_product(half, V, z0, r1, r0, to)
        put(powers, k, powers[k + 1] + normalize(to, z0 * r0))
    fill(L, 1, 1)
    for k in range(d):
        z0, z1, r0, r1 = Z.ranks[k], Z.ranks[k + 1], left.ranks[k], left.ranks[k + 1]
        fill(new, r1 * z1, 0)
        for i in range(Z.sizes[k]):
            G = shift(pointer(Z.data), Z.offsets[k] + i * z0 * z1)
            U = shift(pointer(left.data), left.offsets[k] + i * r0 * r1)
            D = shift(pointer(out), left.offsets[k] + i * r0 * r1)
            product(L, G, r0, z0, z1, half)
            product(half, shift(R, (k + 1) * room), r0, z1, r1, D)
            scale_by_power(D, r0 * r1, exponent + int(powers[k + 1]))
            if k + 1 < d:
                add_transposed_product(U, half, r1, r0, z1, new)
        exponent += normalize(new, r1 * z1)
        L, new = new, L
    fix_gauge(left, pointer(out), shift(R, (d + 4) * room))


@kernel
def assemble_tangent(left, right, deltas, data):
    """Cores [[U dG] [0 V]] of a tangent vector as a train of ranks 2 r."""
    left, right = Train(*left), Train(*right)
    d = len(left.sizes)
    to = pointer(data)
    for k in range(d):
        r0, r1 = left.ranks[k], left.ranks[k + 1]
        rows, columns = r0 if k == 0 else 2 * r0, r1 if k == d - 1 else 2 * r1
        below, beside = rows - r0, columns - r1
        for i in range(left.sizes[k]):
            fill(to, rows * columns, 0)
            at = i * r0 * r1
            U, D = (
                shift(pointer(left.data), left.offsets[k] + at),
                shift(pointer(deltas), left.offsets[k] + at),
            )
            V = shift(pointer(right.data), right.offsets[d - 1 - k] + at)
            for a in range(r0):
                for b in range(r1):
                    if k < d - 1:
                        to[a * columns + b] = U[a * r1 + b]
                    if k > 0:
                        to[(below + a) * columns + beside + b] = V[b * r0 + a]
                    to[a * columns + beside + b] = D[a * r1 + b]
            to = shift(to, rows * columns)
