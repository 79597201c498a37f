"""CUDA kernels over samples: partial products along a train, and sums of their outer products.

Cores are padded: slot i of core k is the matrix (R, R) number ``first_slots[k] + i`` in `cores`,
with R of 4, 8, 16, 32 or 64 and zeros beyond the ranks. A partial product therefore starts as
(1, 0, .., 0), and <W, X_s> is its first element in the end. The matrix (r, K) at the end of an open
train is not padded: K may be larger than R. The partial products on a bond are (R, room), with the
samples next to each other.

Each thread holds a 4 x 4 tile of the result in registers: 4 samples by 4 columns in `partials`,
4 rows by 4 columns in `deltas`. The elements of a tile lie R / 4 columns (or a quarter of the
block's samples) apart, so that neighbouring threads touch neighbouring memory. Sums have a fixed
order, on any device and however the samples are split over launches: there are no atomics.

A batch is passed as the fields of `layout.Batch`, with its arrays on the device.
"""

import functools
import math
from typing import NamedTuple

import numba
from numba import cuda, int32, int64, uint32

from .. import formulas
from ..layout import CATEGORY, INDEX, NUMERIC, VECTOR
from .runtime import (
    CODES,
    FLAG,
    FLAGS,
    GROUPS,
    INTEGER,
    INTEGERS,
    IS_SIMULATED,
    Kernel,
    batch_type,
    tuple_of,
)

RANKS = (4, 8, 16, 32, 64)
SEGMENT = 1024  # samples whose outer products are summed by one block before they are added up
PANEL = 16  # rows of a slot that are in shared memory at a time

_excess_power = cuda.jit(device=True)(formulas.excess_power)


def padded(rank: int) -> int:
    """Return the rank that kernels over samples are compiled for."""
    for R in RANKS:
        if rank <= R:
            return R
    raise ValueError(
        f"On a GPU ranks (for two-site sweeps, times the size of a mode) can be at most "
        f"{RANKS[-1]}, got {rank}; use device='cpu'."
    )


class Geometry(NamedTuple):
    """The blocks of `partials` and `deltas` for a padded rank; small ones in the simulator."""

    threads: int  # of `partials`: R / 4 tiles of columns by samples / 4
    lanes: int  # of `deltas`: threads that share a tile, each with its own samples

    @classmethod
    def for_rank(cls, R: int) -> "Geometry":
        tiles = (R // 4) ** 2
        if IS_SIMULATED:
            return cls(R // 2, max(1, 4 // tiles))
        return cls(128, max(1, 128 // tiles))

    def samples(self, R: int) -> int:
        """Return how many samples a block of `partials` works on."""
        return 16 * self.threads // R


@functools.cache
def make_partials(R: int, dtype: str) -> Kernel:
    """Return the kernel of partial products through all cores, by blocks of samples."""
    number, threads = getattr(numba, dtype), Geometry.for_rank(R).threads
    tiles = R // 4  # threads next to each other, one for each tile of columns
    S = 4 * threads // tiles
    quarter, rows, all_numbers = S // 4, min(R, PANEL), R * S
    panel_numbers = rows * R
    limit = formulas.middle_range(8 if dtype == "float64" else 4)
    low, high = 2.0**-limit, 2.0**limit

    def partials(train, batch, sweep, initial, kept, results, outputs):
        """Absorb d cores into the partial products of the samples start .. stop - 1.

        train     (cores, first_slots, sizes, identity); core j belongs to mode j, or to mode
                  d - 1 - j if `reverse`
        sweep     (start, stop, period, reverse)
        initial   (products, rows): the partial products (rows, room) to start from; ones if rows
                  is 0
        kept      (P, rows, room, powers): so many rows of each bond are written to P, of bonds 0 to
                  d, or 1 to d after `initial`; if period <= d, row j // period of `powers` has the
                  powers of two of bond j
        results   (f, f_powers); <W, X_s> 2^-f_powers[s - start] is the row s - start of f
                  (samples, n_outputs)
        outputs   (last, rows, n_outputs), the matrix (rows, n_outputs) after the d cores; that of
                  one output is (1)
        """
        cores, first_slots, sizes, identity = train
        kinds, columns, scales, values, codes, stride, n_values, n_codes = batch
        start, stop, period, reverse = sweep
        products, initial_rows = initial
        P, kept_rows, room, powers = kept
        (f, f_powers), (last, last_rows, n_outputs) = results, outputs
        d = len(sizes)
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
                v[e] = products[at] if a < initial_rows else number(0)
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
            kind, n, slots = kinds[mode], sizes[j], first_slots[j]
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
                        s = min(start + s0 + own + q * quarter, stop - 1)
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
                # Each sample looks up its own slot: neighbouring threads read neighbouring columns.
                for q in range(4):
                    s = min(start + s0 + own + q * quarter, stop - 1)
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
        size = uint32(S)  # in 64 bits, the indices would take more registers
        for e in range(t, uint32(n_outputs) * size, threads):
            s, j = e % size, e // size
            if start + s0 + s < stop:
                total = v[s] * last[j]
                for a in range(1, last_rows):
                    total += v[a * S + s] * last[a * n_outputs + j]
                f[(s0 + s) * n_outputs + j] = total
                if j == 0:
                    f_powers[s0 + s] = exponents[s]

    array = number[::1]
    signature = (
        tuple_of(array, INTEGERS, INTEGERS, FLAGS), batch_type(array),
        tuple_of(INTEGER, INTEGER, INTEGER, FLAG), tuple_of(array, INTEGER),
        tuple_of(array, INTEGER, INTEGER, CODES), tuple_of(array, CODES),
        tuple_of(array, INTEGER, INTEGER),
    )  # fmt: skip
    # Three blocks per multiprocessor: with more of them, registers would spill.
    return Kernel(partials, signature, dtype, R, threads, launch_bounds=(threads, 3))


@functools.cache
def make_deltas(R: int, dtype: str) -> Kernel:
    """Return the kernel that sums outer products over samples: a block per slot and chunk."""
    number, lanes = getattr(numba, dtype), Geometry.for_rank(R).lanes
    tiles = R // 4
    threads, steps = tiles * tiles * lanes, min(R // 2, 16)
    staged = steps * lanes  # samples in shared memory at a time
    row = staged + min(lanes, 8)  # padded against bank conflicts
    half, square = R * row, R * R
    shared_numbers = max(2 * half, lanes * square if lanes > 1 else 0)

    def deltas(train, batch, groups, g, span, left, right, parts):
        """sums[chunk, slot] += sum_s g_s phi_s[i] P_s^T Q_s over the samples start .. stop - 1.

        train        (slot_cores, first_slots, d)
        groups       what `group` made: for coded modes the sum is over the samples of one code
        span         (start, stop, offset, chunk, room, period); chunks of `chunk` samples are
                     counted from `offset` samples before sample 0 of this batch. `start` and the
                     chunks begin segments
        left, right  (P, rows, powers) on all bonds, by `partials` from both ends, from sample
                     `start` on
        parts        (sums, elements per chunk)
        """
        slot_cores, first_slots, d = train
        kinds, columns, _, values, _, stride, n_values, _ = batch
        order, order_offsets, bounds, first_bounds, n_bounds = groups
        start, stop, offset, chunk, room, period = span
        (P, P_rows, P_powers), (Q, Q_rows, Q_powers) = left, right
        sums, part_size = parts
        shared = cuda.shared.array(shared_numbers, number)
        weights = cuda.shared.array(staged, number)
        places = cuda.shared.array(staged, int64)
        powers = cuda.shared.array(staged, int32)
        acc = cuda.local.array(16, number)
        t, slot, c = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.y
        k = slot_cores[slot]
        i, kind = slot - first_slots[k], kinds[k]
        is_coded = kind in (CATEGORY, INDEX)
        is_weighted = kind == VECTOR or (kind == NUMERIC and i > 0)
        lane, tile = t % lanes, t // lanes
        column, line = tile % tiles, tile // tiles
        left, right = k * P_rows * room, (d - 1 - k) * Q_rows * room
        to, end = c * part_size + slot * square, min(stop, (c + 1) * chunk - offset)
        for base in range(max(start, c * chunk - offset), end, SEGMENT):
            begin, count = 0, min(SEGMENT, end - base)
            if is_coded:
                at = base // SEGMENT * n_bounds + first_bounds[k] + i
                begin = bounds[at]
                count = bounds[at + 1] - begin
            for e in range(16):
                acc[e] = number(0)
            for u0 in range(0, count, staged):
                for u in range(t, staged, threads):
                    weights[u], places[u], powers[u] = number(0), 0, 0
                    if u0 + u < count:
                        s = base + u0 + u
                        if is_coded:
                            s = base + order[order_offsets[k] + base + begin + u0 + u]
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
                    sums[to + e] += total
            else:
                for a in range(4):
                    for b in range(4):
                        at = (line + a * tiles) * R + column + b * tiles
                        sums[to + at] += acc[4 * a + b]

    array = number[::1]
    side = tuple_of(array, INTEGER, CODES)
    signature = (
        tuple_of(INTEGERS, INTEGERS, INTEGER), batch_type(array), GROUPS, array,
        tuple_of(*[INTEGER] * 6), side, side, tuple_of(array, INTEGER),
    )  # fmt: skip
    # Without bounds at R = 4: with them, the NVVM for 10.0 keeps the tile in memory.
    least_blocks = {4: None, 8: 4, 16: 4, 32: 3, 64: 2}[R]
    launch_bounds = (threads, least_blocks) if least_blocks else None
    return Kernel(deltas, signature, dtype, R, threads, launch_bounds=launch_bounds)


def all_kernels():
    """Every kernel here, at every padded rank and precision."""
    for dtype in ("float32", "float64"):
        for R in RANKS:
            yield make_partials(R, dtype)
            yield make_deltas(R, dtype)
