"""Contraction: <W, X_s> for a batch of rank-1 tensors, its partial products, and <W, Z>.

v         (r, row) partial products of a block of samples; lanes run over samples
identity  (d,) whether core k is in the identity gauge, G_k[0] = 1
period    cores between two checks of the range of v: powers of two are taken out, exactly
"""

import math
from typing import NamedTuple

import numpy as np

from . import formulas, schedule
from .compilation import inner, kernel
from .dense import add_transposed_product, copy, fill, normalize, product
from .layout import CURVE, INDEX, NUMERIC, VECTOR, Batch, Train
from .tiles import GROUP, TILE_BYTES, absorb_tiles, element, itemsize, lookup_tile, pointer, shift

_pair_2, _pair_1 = absorb_tiles(2, slots=2), absorb_tiles(1, slots=2)
_plain_4, _plain_1 = (
    absorb_tiles(4, weighted=False, based=False),
    absorb_tiles(1, weighted=False, based=False),
)
_add_4, _add_1 = absorb_tiles(4), absorb_tiles(1)
_lookup_8, _lookup_4 = lookup_tile(2), lookup_tile(1)
_excess_power, _middle_range = inner(formulas.excess_power), inner(formulas.middle_range)


class Features(NamedTuple):
    """The feature vectors of one mode for a block of samples, by pointers to its first sample."""

    kind: int
    scale: float
    x: object
    codes: object
    stride: int


@inner
def pointers(batch):
    """The batch with pointers for arrays: they cost nothing to pass on, but keep nothing alive."""
    return Batch(
        pointer(batch.kinds),
        pointer(batch.columns),
        pointer(batch.scales),
        pointer(batch.values),
        pointer(batch.codes),
        batch.stride,
        batch.n_values,
        batch.n_codes,
    )


@inner
def features(batch, k, s0):
    """The feature vectors of mode k in the block that begins with sample s0."""
    kind, stride = batch.kinds[k], batch.stride
    is_numeric = kind in (NUMERIC, VECTOR, CURVE)
    n_columns = batch.n_values if is_numeric else batch.n_codes
    here = (s0 // stride * n_columns + batch.columns[k]) * stride + s0 % stride
    x, codes = shift(batch.values, here * is_numeric), shift(batch.codes, here * (not is_numeric))
    return Features(kind, batch.scales[k], x, codes, stride)


@inner
def _absorb_pair(G, r0, r1, x, v, row, width, out):
    """out = v G[0] + x v G[1]."""
    _pair_2(out, out, row, v, row, r0, G, r1, 1, r0 * r1, x, r1 // 2, width)
    if r1 % 2:
        to = shift(out, (r1 - 1) * row)
        _pair_1(to, to, row, v, row, r0, shift(G, r1 - 1), r1, 1, r0 * r1, x, 1, width)


@inner
def _absorb_constant(G, r0, r1, v, row, width, out):
    """out = v G, G the matrix of one slot."""
    _plain_4(out, out, row, v, row, r0, G, r1, 1, 0, v, r1 // 4, width)
    b = r1 - r1 % 4
    if b < r1:
        to = shift(out, b * row)
        _plain_1(to, to, row, v, row, r0, shift(G, b), r1, 1, 0, v, r1 - b, width)


@inner
def _absorb_slot(G, r0, r1, x, v, base, row, width, out):
    """out = base + x v G, G the matrix of one slot."""
    _add_4(out, base, row, v, row, r0, G, r1, 1, 0, x, r1 // 4, width)
    b = r1 - r1 % 4
    if b < r1:
        to, based = shift(out, b * row), shift(base, b * row)
        _add_1(to, based, row, v, row, r0, shift(G, b), r1, 1, 0, x, r1 - b, width)


@inner
def _absorb_codes(G, r0, r1, codes, at_zero, elsewhere, v, row, width, out):
    """out_s += w_s v_s G[c_s], w_s = at_zero for c_s = 0."""
    slot, whole = r0 * r1, r1 - r1 % GROUP
    for s in range(0, width, GROUP):
        here, c = shift(v, s), shift(codes, s)
        b = 0
        while b + 2 * GROUP <= r1:
            to = shift(out, b * row + s)
            _lookup_8(to, here, row, r0, shift(G, b), r1, slot, c, at_zero, elsewhere)
            b += 2 * GROUP
        if b < whole:
            to = shift(out, b * row + s)
            _lookup_4(to, here, row, r0, shift(G, b), r1, slot, c, at_zero, elsewhere)
        for b in range(whole, r1):
            for i in range(s, s + GROUP):
                g = shift(G, codes[i] * slot + b)
                total = element(v, 0)
                for a in range(r0):
                    total += v[a * row + i] * g[a * r1]
                out[b * row + i] += (elsewhere if codes[i] > 0 else at_zero) * total


@inner
def absorb(G, n, r0, r1, identity, phi, v, row, width, out):
    """out_s = sum_i phi_s[i] v_s G[i] for `width` samples.

    G (n, r0, r1) is a core, or its transpose in a sweep from the right. Costs O(n r0 r1) per sample
    for numeric modes, O(r0 r1) for categories whatever n, one slot less in the identity gauge.
    """
    slot = r0 * r1
    if phi.kind in (NUMERIC, VECTOR):
        done, ahead = 1, 1
        if phi.kind == VECTOR:
            done, ahead = 0, 0
            fill(out, r1 * row, 0)
        elif n == 1:
            _absorb_constant(G, r0, r1, v, row, width, out)
        elif identity:
            done = 2
            _absorb_slot(shift(G, slot), r0, r1, phi.x, v, v, row, width, out)
        else:
            done = 2
            _absorb_pair(G, r0, r1, phi.x, v, row, width, out)
        for i in range(done, n):
            x = shift(phi.x, (i - ahead) * phi.stride)
            _absorb_slot(shift(G, i * slot), r0, r1, x, v, out, row, width, out)
    else:
        at_zero = element(v, 0)
        if phi.kind == INDEX:
            at_zero = phi.scale
            fill(out, r1 * row, 0)
        elif identity:
            copy(v, r1 * row, out)
        else:
            _absorb_constant(G, r0, r1, v, row, width, out)
        _absorb_codes(G, r0, r1, phi.codes, at_zero, phi.scale, v, row, width, out)


@inner
def _absorb_curve(G, n, r0, r1, x, v, row, count, out, scratch, codes):
    """out_s = v_s ((1 - t_s) G[c_s] + t_s G[c_s + 1]) for the places x_s = c_s + t_s on n knots.

    O(r0 r1) per sample. Scratch: (r0 + 1) row elements, and `count` codes, rounded up to GROUP.
    """
    width = (count + GROUP - 1) // GROUP * GROUP
    t, weighted, one = scratch, shift(scratch, row), element(v, 1)
    for s in range(width):
        codes[s] = min(max(np.int32(x[s]), 0), n - 1)
        t[s] = x[s] - codes[s]
    fill(out, r1 * row, 0)
    for a in range(r0):
        for s in range(width):
            weighted[a * row + s] = (one - t[s]) * v[a * row + s]
    _absorb_codes(G, r0, r1, codes, one, one, weighted, row, width, out)
    for s in range(width):
        codes[s] = min(codes[s] + 1, n - 1)
    for a in range(r0):
        for s in range(width):
            weighted[a * row + s] = t[s] * v[a * row + s]
    _absorb_codes(G, r0, r1, codes, one, one, weighted, row, width, out)


@inner
def rescale(v, r, row, count, exponents, peaks):
    """Move powers of two from partial products that left the middle range to their exponents.

    Scratch: peaks (count).
    """
    limit = _middle_range(itemsize(v))
    low, high = element(v, 2.0**-limit), element(v, 2.0**limit)
    fill(peaks, count, 0)
    for a in range(r):
        line = shift(v, a * row)
        for s in range(count):
            peaks[s] = max(peaks[s], abs(line[s]))
    outside = 0
    for s in range(count):
        outside += peaks[s] > high or 0 < peaks[s] < low
    if outside == 0:
        return
    for s in range(count):
        exponent = _excess_power(peaks[s], low, high)
        if exponent != 0:
            exponents[s] += exponent
            for a in range(r):
                v[a * row + s] = element(v, math.ldexp(v[a * row + s], -exponent))


@inner
def round_to_tiles(count, size):
    """The count of samples, of `size` bytes each, rounded up to whole register tiles."""
    tile = TILE_BYTES // size
    return (count + tile - 1) // tile * tile


@inner
def _store_rows(v, r, row, count, out):
    """out[s, a] = v[a, s]: partial products as one row per sample."""
    if r == 1:
        copy(v, count, out)
    else:
        for a in range(r):
            line, to = shift(v, a * row), shift(out, a)
            for s in range(count):
                to[s * r] = line[s]


@kernel
def left_sweep(train, identity, batch, span, period, mantissas, exponents, work):
    """<W, X_s> = mantissas[s] 2^exponents[s] for the samples of a span.

    An open train leaves its last rank K open: mantissas is (m, K), flat, with one exponent per
    sample.
    O(d n r^2 + r K) per sample. Scratch: work, of (3 max(r) + 1) block elements.
    """
    train, batch = Train(*train), Batch(*batch)
    start, stop, block = span
    n_modes, n_outputs = len(batch.kinds), train.ranks[len(train.sizes)]
    room = train.rank * block
    v, columns = pointer(work), pointers(batch)
    out, peaks, codes = shift(v, room), shift(v, 2 * room), np.empty(block, np.int32)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, work.itemsize)
        powers = shift(pointer(exponents), s0)
        fill(v, width, 1)
        fill(powers, count, 0)
        for k in range(len(train.sizes)):
            G, n = shift(pointer(train.data), train.offsets[k]), train.sizes[k]
            r0, r1 = train.ranks[k], train.ranks[k + 1]
            phi = features(columns, min(k, n_modes - 1), s0)
            if k < n_modes and phi.kind == CURVE:
                _absorb_curve(G, n, r0, r1, phi.x, v, block, count, out, peaks, pointer(codes))
            elif k < n_modes:
                absorb(G, n, r0, r1, identity[k], phi, v, block, width, out)
            else:
                _absorb_constant(G, r0, r1, v, block, width, out)
            v, out = out, v
            if (k + 1) % period == 0:
                rescale(v, r1, block, count, powers, peaks)
        _store_rows(v, n_outputs, block, count, shift(pointer(mantissas), s0 * n_outputs))


def contract(
    train: Train, identity: np.ndarray, held: Batch, m: int, period: int
) -> tuple[np.ndarray, np.ndarray]:
    """<W, X_s> = mantissas 2^exponents; see `backend.Device.contract`."""
    dtype, r, is_open = train.data.dtype, train.rank, len(train.sizes) > len(held.kinds)
    mantissas = np.empty(m * int(train.ranks[-1]) if is_open else m, dtype)
    exponents = np.empty(m, np.int64)
    block = schedule.block_size(m, r * dtype.itemsize)
    arrays, batch = tuple(train), tuple(held)

    def task(first, last):
        span = first * block, min(last * block, m), block
        with schedule.scratch("rows", (3 * r + 1) * block, dtype) as work:
            left_sweep(arrays, identity, batch, span, period, mantissas, exponents, work)

    schedule.run(task, -(-m // block), 2 * m * len(train.data))
    return (mantissas.reshape(m, train.ranks[-1]) if is_open else mantissas), exponents


@kernel
def argmax_rows(f, out):
    """out[s] = argmax of f[s], the first of several, or the first NaN: as numpy has it."""
    for s in range(f.shape[0]):
        best, highest = 0, f[s, 0]
        for j in range(1, f.shape[1]):
            # Selections, not branches, which no processor could predict.
            is_higher = not (f[s, j] <= highest or highest != highest)
            best = j if is_higher else best
            highest = f[s, j] if is_higher else highest
        out[s] = best


@kernel
def inner_product(left, right, work):
    """<W, Z> = mantissa 2^exponent for two trains of one shape, in O(d n r^3).

    Scratch: work, of 3 max(r) max(r') elements.
    """
    left, right = Train(*left), Train(*right)
    room = left.rank * right.rank
    E = pointer(work)
    new, half = shift(E, room), shift(E, 2 * room)
    fill(E, 1, 1)
    exponent = 0
    for k in range(len(left.sizes)):
        p0, p1, q0, q1 = left.ranks[k], left.ranks[k + 1], right.ranks[k], right.ranks[k + 1]
        fill(new, p1 * q1, 0)
        for i in range(left.sizes[k]):
            A = shift(pointer(left.data), left.offsets[k] + i * p0 * p1)
            B = shift(pointer(right.data), right.offsets[k] + i * q0 * q1)
            product(E, B, p0, q0, q1, half)
            add_transposed_product(A, half, p1, p0, q1, new)
        E, new = new, E
        exponent += normalize(E, p1 * q1)
    return E[0], exponent
