"""CUDA kernels around those of `tile_kernels`, for any rank: they prepare, gather and add up.

A batch is passed as the fields of `layout.Batch`, with its arrays on the device.
"""

import functools
from types import SimpleNamespace

import numba
from numba import cuda, int32

from ..layout import CATEGORY, INDEX, NUMERIC, VECTOR
from .runtime import CODES, DOUBLES, FLAG, GROUPS, INTEGER, INTEGERS, Kernel, batch_type, tuple_of
from .tile_kernels import SEGMENT


def group(codes, coded, sizes, m, groups):
    """List the samples of each code, in order, by segment: a block per segment and coded mode.

    codes = (columns, codes, stride, n_codes), and coded[y] is the mode of a block's second index.
    `order` has a list of all samples for each coded mode. In a segment's part of the list, those of
    a code stand from bounds[code] to bounds[code + 1], numbered from the segment's first sample.
    Takes O(SEGMENT n) steps of a block, once per batch.
    """
    columns, numbers, stride, n_codes = codes
    order, order_offsets, bounds, first_bounds, n_bounds = groups
    held = cuda.shared.array(SEGMENT, int32)
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    base, k = cuda.blockIdx.x * SEGMENT, coded[cuda.blockIdx.y]
    n, count = sizes[k], min(SEGMENT, m - base)
    for u in range(t, count, threads):
        s = base + u
        held[u] = numbers[(s // stride * n_codes + columns[k]) * stride + s % stride]
    cuda.syncthreads()
    at = cuda.blockIdx.x * n_bounds + first_bounds[k]
    for code in range(t, n, threads):
        total = 0
        for u in range(count):
            if held[u] == code:
                total += 1
        bounds[at + code + 1] = total
    cuda.syncthreads()
    if t == 0:
        bounds[at] = 0
        for code in range(n):
            bounds[at + code + 1] += bounds[at + code]
    cuda.syncthreads()
    for code in range(t, n, threads):
        to = order_offsets[k] + base + bounds[at + code]
        for u in range(count):
            if held[u] == code:
                order[to] = u
                to += 1


def clear(a):
    """a = 0, by any number of blocks."""
    for i in range(cuda.grid(1), len(a), cuda.gridDim.x * cuda.blockDim.x):
        a[i] = 0


def pad(train, R, cores):
    """Pad cores for `partials`: a block per slot.

    train = (data, ranks, offsets, first_slots, slot_cores)
    """
    data, ranks, offsets, first_slots, slot_cores = train
    slot = cuda.blockIdx.x
    k = slot_cores[slot]
    r0, r1 = ranks[k], ranks[k + 1]
    here = offsets[k] + (slot - first_slots[k]) * r0 * r1
    for e in range(cuda.threadIdx.x, R * R, cuda.blockDim.x):
        a, b = e // R, e % R
        is_inside = a < r0 and b < r1
        cores[slot * R * R + e] = data[here + a * r1 + b] if is_inside else 0.0


def finish(parts, R, train, kinds, scales, out):
    """Add the parts of `deltas` in order, and weigh codes: a block per core.

    train = (ranks, offsets, first_slots). See `projection.weigh_codes`: every sample counts in slot
    0 of a category, those of code c also in slot c.
    """
    ranks, offsets, first_slots = train
    k = cuda.blockIdx.x
    r0, r1, slots, kind = ranks[k], ranks[k + 1], first_slots[k], kinds[k]
    n, part_size = first_slots[k + 1] - slots, first_slots[len(first_slots) - 1] * R * R
    for e in range(cuda.threadIdx.x, r0 * r1, cuda.blockDim.x):
        constant = 0.0
        for i in range(n):
            at, total = ((slots + i) * R + e // r1) * R + e % r1, 0.0
            for c in range(len(parts) // part_size):
                total += parts[c * part_size + at]
            constant += total
            if kind in (CATEGORY, INDEX):
                total *= scales[k]
            out[offsets[k] + i * r0 * r1 + e] = total
        if kind == CATEGORY:
            out[offsets[k] + e] = constant


def dot(T, T_rows, P, P_rows, room, m, h, is_weighted, f):
    """f_s = sum_b T[b, s] P[b, s], times h_s if weighted: a thread per sample."""
    s = cuda.grid(1)
    if s < m:
        total = T[s] * P[s]
        for b in range(1, min(T_rows, P_rows)):
            total += T[b * room + s] * P[b * room + s]
        f[s] = h[s] * total if is_weighted else total


def expand(batch, P, r, n, m, room, rows, out):
    """out[i r + b, s] = phi_s[i] P[b, s], zeros in further rows: a thread per sample.

    The batch begins with the mode of phi.
    """
    kinds, columns, scales, values, codes, stride, n_values, n_codes = batch
    s = cuda.grid(1)
    if s < m:
        block, lane, kind, column = s // stride, s % stride, kinds[0], columns[0]
        for row in range(rows):
            i, b = row // r, row % r
            x, is_zero = P[b * room + s], i >= n
            if kind in (NUMERIC, VECTOR):
                ahead = 1 if kind == NUMERIC else 0
                if i >= ahead and i < n:
                    x *= values[(block * n_values + column + i - ahead) * stride + lane]
            elif kind == INDEX or i > 0:
                x *= scales[0]
                is_zero = is_zero or codes[(block * n_codes + column) * stride + lane] != i
            out[row * room + s] = 0
            if not is_zero:
                out[row * room + s] = x


def squares(P, rows, room, m, out):
    """out_s = |P_s|^2: a thread per sample."""
    s = cuda.grid(1)
    if s < m:
        total = P[s] * P[s]
        for b in range(1, rows):
            total += P[b * room + s] * P[b * room + s]
        out[s] = total


def gather(rows, m, old, new):
    """Copy some rows of a batch to a new one: a block per column, whose threads take samples.

    old = (values, codes, stride, n_values, n_codes), new = (values, codes, stride)
    """
    values, codes, stride, n_values, n_codes = old
    new_values, new_codes, new_stride = new
    column = cuda.blockIdx.x
    for s in range(cuda.threadIdx.x, m, cuda.blockDim.x):
        row = rows[s]
        if column < n_values:
            to = (s // new_stride * n_values + column) * new_stride + s % new_stride
            new_values[to] = values[(row // stride * n_values + column) * stride + row % stride]
        else:
            c = column - n_values
            to = (s // new_stride * n_codes + c) * new_stride + s % new_stride
            new_codes[to] = codes[(row // stride * n_codes + c) * stride + row % stride]


@functools.cache
def make_kernels(dtype: str) -> SimpleNamespace:
    """Return the kernels of a precision, by name; `group` works on integers alone."""
    number = getattr(numba, dtype)
    array, i = number[::1], INTEGER
    signatures = {
        clear: (array,),
        pad: (tuple_of(DOUBLES, INTEGERS, INTEGERS, INTEGERS, INTEGERS), i, array),
        finish: (array, i, tuple_of(INTEGERS, INTEGERS, INTEGERS), INTEGERS, array, DOUBLES),
        dot: (array, i, array, i, i, i, array, FLAG, array),
        expand: (batch_type(array), array, i, i, i, i, i, array),
        squares: (array, i, i, i, array),
        gather: (INTEGERS, i, tuple_of(array, CODES, i, i, i), tuple_of(array, CODES, i)),
    }
    kernels = {f.__name__: Kernel(f, types, dtype) for f, types in signatures.items()}
    return SimpleNamespace(**kernels)


@functools.cache
def make_group() -> Kernel:
    """Return the kernel that lists the samples of each code."""
    codes = tuple_of(INTEGERS, CODES, INTEGER, INTEGER)
    return Kernel(group, (codes, INTEGERS, INTEGERS, INTEGER, GROUPS), "int32")


def all_kernels():
    """Every kernel here, in every precision."""
    for dtype in ("float32", "float64"):
        yield from vars(make_kernels(dtype)).values()
    yield make_group()
