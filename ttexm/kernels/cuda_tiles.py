"""CUDA kernels over samples: partial products along a train, and sums of their outer products.

Cores are padded: slot i of core k is the matrix (R, R) number ``first[k] + i`` in `cores`, with R
of 4, 8, 16, 32 or 64 and zeros beyond the ranks, so that a partial product starts as (1, 0, .., 0)
and <W, X_s> is its first element in the end. Partial products on a bond are (R, room), samples
next to each other.

Each thread holds a 4 x 4 tile of the result in registers: 4 samples by 4 columns in `partials`,
4 rows by 4 columns in `deltas`. Elements of a tile lie R / 4 columns (or a quarter of the block's
samples) apart, so that neighbouring threads touch neighbouring memory. Sums have a fixed order, on
any device and however samples are split over launches: there are no atomics.

A kernel exists for each R and dtype; `threads` makes small ones for the simulator.
"""

import functools
import math
from typing import NamedTuple

import numba
from numba import cuda, int32, int64, uint32

from . import formulas
from .layout import CATEGORY, INDEX, NUMERIC, VECTOR

RANKS = (4, 8, 16, 32, 64)
SEGMENT = 1024  # samples whose outer products are summed by one block before they are added up
PANEL = 16  # rows of a slot that are in shared memory at a time

_excess_power = cuda.jit(device=True)(formulas.excess_power)


class Geometry(NamedTuple):
    """How a block of `partials` and one of `deltas` is laid out, for a padded rank."""

    threads: int  # of `partials`: R / 4 tiles of columns by samples / 4
    lanes: int  # of `deltas`: threads that share a tile, each with its own samples

    @staticmethod
    def of(rank: int, is_simulated: bool) -> "Geometry":
        tiles = (rank // 4) ** 2
        if is_simulated:
            return Geometry(rank // 2, max(1, 4 // tiles))
        return Geometry(128, max(1, 128 // tiles))


@functools.cache
def make_partials(R: int, dtype: str, threads: int):
    """Partial products of 16 threads / R samples a block, through all cores in one launch."""
    number = getattr(numba, dtype)
    tiles = R // 4  # threads next to each other, one for each tile of columns
    S = 4 * threads // tiles
    quarter, rows, all_numbers = S // 4, min(R, PANEL), R * S
    panel_numbers = rows * R
    limit = formulas.middle_range(8 if dtype == "float64" else 4)
    low, high = 2.0**-limit, 2.0**limit

    def partials(
        cores, first, sizes, identity, kinds, columns, scales, values, codes, stride, n_values,
        n_codes, d, reverse, start, m, period, initial, initial_rows, P, kept_rows, room, powers,
        f, f_powers,
    ):  # fmt: skip
        """Absorb d cores into the partial products of the samples start .. m - 1.

        Core j belongs to mode j, or to mode d - 1 - j if `reverse`. They start from `initial`
        (initial_rows, room), or from ones if that has no rows. Of each bond, kept_rows rows are
        written to P: bonds 0 to d, or 1 to d after `initial`; with the powers of two of bond j in
        row j // period of `powers` if period <= d.
        <W, X_s> = f[s - start] 2^f_powers[s - start].
        """
        v = cuda.shared.array(all_numbers, number)
        panel = cuda.shared.array(panel_numbers, number)
        exponents = cuda.shared.array(S, int32)
        acc = cuda.local.array(16, number)
        weights = cuda.local.array(4, number)
        t, s0 = uint32(cuda.threadIdx.x), uint32(cuda.blockIdx.x) * S
        column, own = t % tiles, t // tiles
        for e in range(t, all_numbers, threads):
            a, at = e // S, e // S * room + s0 + e % S
            if initial_rows > 0:
                v[e] = initial[at] if a < initial_rows else number(0)
            else:
                v[e] = number(1 if e < S else 0)
                if a < kept_rows:
                    P[at] = v[e]
        for s in range(t, S, threads):
            exponents[s] = 0
            if kept_rows > 0 and period <= d:
                powers[s0 + s] = 0
        cuda.syncthreads()
        for j in range(d):
            mode = d - 1 - j if reverse else j
            kind, n, slots = kinds[mode], sizes[j], first[j]
            is_coded = kind in (CATEGORY, INDEX)
            for e in range(16):
                acc[e] = number(0)
            n_dense = n
            if is_coded:
                n_dense = 1 if kind == CATEGORY else 0
            for i in range(n_dense):
                is_constant = i == 0 and kind != VECTOR
                if is_constant and identity[j]:
                    for q in range(4):
                        for c in range(4):
                            acc[4 * q + c] += v[(column + c * tiles) * S + own + q * quarter]
                    continue
                for q in range(4):
                    weights[q] = number(1)
                    if not is_constant:
                        s = min(start + s0 + own + q * quarter, m - 1)
                        place = columns[mode] + i - (1 if kind == NUMERIC else 0)
                        weights[q] = values[(s // stride * n_values + place) * stride + s % stride]
                for a0 in range(0, R, rows):
                    cuda.syncthreads()  # others may still read the panel
                    for e in range(t, panel_numbers, threads):
                        panel[e] = cores[((slots + i) * R + a0) * R + e]
                    cuda.syncthreads()
                    for a in range(rows):
                        g0, g1 = panel[a * R + column], panel[a * R + column + tiles]
                        g2 = panel[a * R + column + 2 * tiles]
                        g3 = panel[a * R + column + 3 * tiles]
                        for q in range(4):
                            x = weights[q] * v[(a0 + a) * S + own + q * quarter]
                            acc[4 * q] += x * g0
                            acc[4 * q + 1] += x * g1
                            acc[4 * q + 2] += x * g2
                            acc[4 * q + 3] += x * g3
            if is_coded:
                # Each sample has a slot of its own: neighbouring threads read neighbouring columns.
                for q in range(4):
                    s = min(start + s0 + own + q * quarter, m - 1)
                    code = codes[(s // stride * n_codes + columns[mode]) * stride + s % stride]
                    if code > 0 or kind == INDEX:
                        G = (slots + code) * R * R + column
                        for a in range(R):
                            x = scales[mode] * v[a * S + own + q * quarter]
                            acc[4 * q] += x * cores[G + a * R]
                            acc[4 * q + 1] += x * cores[G + a * R + tiles]
                            acc[4 * q + 2] += x * cores[G + a * R + 2 * tiles]
                            acc[4 * q + 3] += x * cores[G + a * R + 3 * tiles]
            cuda.syncthreads()
            for q in range(4):
                for c in range(4):
                    v[(column + c * tiles) * S + own + q * quarter] = acc[4 * q + c]
            cuda.syncthreads()
            if (j + 1) % period == 0:
                for s in range(t, S, threads):
                    peak = number(0)
                    for a in range(R):
                        peak = max(peak, abs(v[a * S + s]))
                    exponent = _excess_power(peak, low, high)
                    exponents[s] += exponent
                    if exponent != 0:
                        for a in range(R):
                            v[a * S + s] = number(math.ldexp(v[a * S + s], -exponent))
                    if kept_rows > 0:
                        powers[(j + 1) // period * room + s0 + s] = exponents[s]
                cuda.syncthreads()
            bond = j if initial_rows > 0 else j + 1
            for e in range(t, min(kept_rows, R) * S, threads):
                P[(bond * kept_rows + e // S) * room + s0 + e % S] = v[e]
        for s in range(t, S, threads):
            if start + s0 + s < m:
                f[s0 + s] = v[s]
                f_powers[s0 + s] = exponents[s]

    partials.launch_bounds = threads, 3  # blocks a multiprocessor that do without spills
    return partials


@functools.cache
def make_deltas(R: int, dtype: str, lanes: int):
    """Sums over samples of outer products of partial products: a block for a slot and a chunk."""
    number = getattr(numba, dtype)
    tiles = R // 4
    threads, steps = tiles * tiles * lanes, min(R // 2, 16)
    staged = steps * lanes  # samples in shared memory at a time
    row = staged + min(lanes, 8)  # padded, against conflicts of banks
    half, square = R * row, R * R
    shared_numbers = max(2 * half, lanes * square if lanes > 1 else 0)

    def deltas(
        core_of, first, kinds, columns, values, stride, n_values, order, order_at, starts,
        first_start, n_starts, d, g, start, stop, offset, chunk, P, P_rows, P_powers, Q, Q_rows,
        Q_powers, room, period, parts, part_size,
    ):  # fmt: skip
        """parts[chunk, slot] += sum_s g_s phi_s[i] P_s^T Q_s over the samples start .. stop - 1.

        P and Q hold the bonds of `partials` from both ends, from sample `start` on, which begins a
        segment, as do chunks; those are counted from `offset` samples before the first one here.
        For coded modes the sum is over the samples of one code, listed by `group`.
        """
        shared = cuda.shared.array(shared_numbers, number)
        weights = cuda.shared.array(staged, number)
        places = cuda.shared.array(staged, int64)
        powers = cuda.shared.array(staged, int32)
        acc = cuda.local.array(16, number)
        t, slot, c = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.y
        k = core_of[slot]
        i, kind = slot - first[k], kinds[k]
        is_coded = kind in (CATEGORY, INDEX)
        is_weighted = kind == VECTOR or (kind == NUMERIC and i > 0)
        lane, tile = t % lanes, t // lanes
        column, line = tile % tiles, tile // tiles
        left, right = k * P_rows * room, (d - 1 - k) * Q_rows * room
        to, end = c * part_size + slot * square, min(stop, (c + 1) * chunk - offset)
        for base in range(max(start, c * chunk - offset), end, SEGMENT):
            begin, count = 0, min(SEGMENT, end - base)
            if is_coded:
                at = base // SEGMENT * n_starts + first_start[k] + i
                begin = starts[at]
                count = starts[at + 1] - begin
            for e in range(16):
                acc[e] = number(0)
            for u0 in range(0, count, staged):
                for u in range(t, staged, threads):
                    weights[u], places[u], powers[u] = number(0), 0, 0
                    if u0 + u < count:
                        s = base + u0 + u
                        if is_coded:
                            s = base + order[order_at[k] + base + begin + u0 + u]
                        x = g[s]
                        if is_weighted:
                            place = columns[k] + i - (1 if kind == NUMERIC else 0)
                            x *= values[(s // stride * n_values + place) * stride + s % stride]
                        weights[u], places[u] = x, s - start
                        if period <= d:
                            power = P_powers[k // period * room + s - start]
                            powers[u] = power + Q_powers[(d - 1 - k) // period * room + s - start]
                cuda.syncthreads()
                for e in range(t, R * staged, threads):
                    a, u = e // staged, e % staged
                    p, q = number(0), number(0)
                    if u0 + u < count and a < P_rows:
                        p = weights[u] * P[left + a * room + places[u]]
                        if powers[u] != 0:
                            p = number(math.ldexp(p, int(powers[u])))
                    if u0 + u < count and a < Q_rows:
                        q = Q[right + a * room + places[u]]
                    shared[a * row + u], shared[half + a * row + u] = p, q
                cuda.syncthreads()
                for step in range(steps):
                    u = lane + step * lanes
                    q0 = shared[half + column * row + u]
                    q1 = shared[half + (column + tiles) * row + u]
                    q2 = shared[half + (column + 2 * tiles) * row + u]
                    q3 = shared[half + (column + 3 * tiles) * row + u]
                    for a in range(4):
                        p = shared[(line + a * tiles) * row + u]
                        acc[4 * a] += p * q0
                        acc[4 * a + 1] += p * q1
                        acc[4 * a + 2] += p * q2
                        acc[4 * a + 3] += p * q3
            if lanes > 1:
                cuda.syncthreads()
                for a in range(4):
                    for b in range(4):
                        at = (line + a * tiles) * R + column + b * tiles
                        shared[lane * square + at] = acc[4 * a + b]
                cuda.syncthreads()
                for e in range(t, square, threads):
                    total = number(0)
                    for other in range(lanes):
                        total += shared[other * square + e]
                    parts[to + e] += total
            else:
                for a in range(4):
                    for b in range(4):
                        at = (line + a * tiles) * R + column + b * tiles
                        parts[to + at] += acc[4 * a + b]

    if R > 4:  # with bounds, the NVVM of 10.0 would keep the tile of R = 4 in memory
        deltas.launch_bounds = threads, {8: 4, 16: 4, 32: 3, 64: 2}[R]
    return deltas


# -- kernels of any rank -------------------------------------------------------------------------


def group(
    codes, stride, n_codes, coded, columns, sizes, first_start, n_starts, m, order, order_at, starts
):  # fmt: skip
    """The samples of each code, in order, by segments: a block for a segment and a coded mode.

    `order` has a list of all samples for each mode; a segment's part of it names those of a code
    between starts[code] and starts[code + 1], counted from the segment's first.
    O(SEGMENT n) steps of the block, once a batch.
    """
    held = cuda.shared.array(SEGMENT, int32)
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    base, k = cuda.blockIdx.x * SEGMENT, coded[cuda.blockIdx.y]
    n, count = sizes[k], min(SEGMENT, m - base)
    for u in range(t, count, threads):
        s = base + u
        held[u] = codes[(s // stride * n_codes + columns[k]) * stride + s % stride]
    cuda.syncthreads()
    at = cuda.blockIdx.x * n_starts + first_start[k]
    for code in range(t, n, threads):
        total = 0
        for u in range(count):
            if held[u] == code:
                total += 1
        starts[at + code + 1] = total
    cuda.syncthreads()
    if t == 0:
        starts[at] = 0
        for code in range(n):
            starts[at + code + 1] += starts[at + code]
    cuda.syncthreads()
    for code in range(t, n, threads):
        to = order_at[k] + base + starts[at + code]
        for u in range(count):
            if held[u] == code:
                order[to] = u
                to += 1


def clear(a):
    """a = 0, by any number of blocks."""
    for i in range(cuda.grid(1), len(a), cuda.gridDim.x * cuda.blockDim.x):
        a[i] = 0


def pad(data, ranks, offsets, first, core_of, R, cores):
    """Cores as `partials` wants them: a block for a slot."""
    slot = cuda.blockIdx.x
    k = core_of[slot]
    r0, r1 = ranks[k], ranks[k + 1]
    here = offsets[k] + (slot - first[k]) * r0 * r1
    for e in range(cuda.threadIdx.x, R * R, cuda.blockDim.x):
        a, b = e // R, e % R
        is_inside = a < r0 and b < r1
        cores[slot * R * R + e] = data[here + a * r1 + b] if is_inside else 0.0


def finish(parts, n_chunks, part_size, R, ranks, sizes, offsets, first, kinds, scales, out):
    """Deltas from the parts of `deltas`, added in order, with each code's weight: a block a core.

    See `project.weigh_codes`: the constant slot sees every sample, slot c only those of code c.
    """
    k = cuda.blockIdx.x
    n, r0, r1, kind = sizes[k], ranks[k], ranks[k + 1], kinds[k]
    for e in range(cuda.threadIdx.x, r0 * r1, cuda.blockDim.x):
        constant = 0.0
        for i in range(n):
            at, total = ((first[k] + i) * R + e // r1) * R + e % r1, 0.0
            for c in range(n_chunks):
                total += parts[c * part_size + at]
            constant += total
            if kind in (CATEGORY, INDEX):
                total *= scales[k]
            out[offsets[k] + i * r0 * r1 + e] = total
        if kind == CATEGORY:
            out[offsets[k] + e] = constant


def dot(T, T_rows, P, P_rows, room, m, h, is_weighted, f):
    """f_s = sum_b T[b, s] P[b, s], times h_s: a thread for a sample."""
    s = cuda.grid(1)
    if s < m:
        total = T[s] * P[s]
        for b in range(1, min(T_rows, P_rows)):
            total += T[b * room + s] * P[b * room + s]
        f[s] = h[s] * total if is_weighted else total


def expand(
    P, r, n, kind, column, scale, values, codes, stride, n_values, n_codes, m, room, rows, out
):  # fmt: skip
    """out[i r + b, s] = phi_s[i] P[b, s], zeros in further rows: a thread for a sample."""
    s = cuda.grid(1)
    if s < m:
        block, lane = s // stride, s % stride
        for row in range(rows):
            i, b = row // r, row % r
            x, is_zero = P[b * room + s], i >= n
            if kind in (NUMERIC, VECTOR):
                ahead = 1 if kind == NUMERIC else 0
                if i >= ahead and i < n:
                    x *= values[(block * n_values + column + i - ahead) * stride + lane]
            elif kind == INDEX or i > 0:
                x *= scale
                is_zero = is_zero or codes[(block * n_codes + column) * stride + lane] != i
            out[row * room + s] = 0
            if not is_zero:
                out[row * room + s] = x


def squares(P, rows, room, m, out):
    """out_s = |P_s|^2: a thread for a sample."""
    s = cuda.grid(1)
    if s < m:
        total = P[s] * P[s]
        for b in range(1, rows):
            total += P[b * room + s] * P[b * room + s]
        out[s] = total


def take(
    rows, m, values, codes, stride, n_values, n_codes, new_values, new_codes, new_stride
):  # fmt: skip
    """Some samples of a batch as a batch: a block for a column, its threads for samples."""
    column = cuda.blockIdx.x
    for s in range(cuda.threadIdx.x, m, cuda.blockDim.x):
        old = rows[s]
        if column < n_values:
            to = (s // new_stride * n_values + column) * new_stride + s % new_stride
            new_values[to] = values[(old // stride * n_values + column) * stride + old % stride]
        else:
            c = column - n_values
            to = (s // new_stride * n_codes + c) * new_stride + s % new_stride
            new_codes[to] = codes[(old // stride * n_codes + c) * stride + old % stride]
