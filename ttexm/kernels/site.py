"""One core at a time: what a sweep over the cores of a train computes for a batch.

With the partial products L_s left and R_s right of core k, f is linear in that core C:

    f_s = sum_i phi_s[i] L_s C[i] R_s^T  =  (J C)_s

Partial products of m samples are stored by blocks: (blocks, r, block), flat. Two neighbouring cores
are one, with slots as columns: C[i] of shape (r0, n' r1), where R is expanded by the second mode.
"""

from .compile import inner, kernel
from .contract import absorb, mode_of, pointers, round_to_tiles
from .dense import fill
from .layout import CATEGORY, NUMERIC, VECTOR, Batch
from .project import add_outer, weigh_codes
from .tiles import element, pointer, shift


@kernel
def advance(G, n, r0, r1, batch, k, start, stop, block, P, out):
    """out_s = sum_i phi_s[i] P_s G[i], for start <= s < stop; `start` begins a block. O(n r^2)."""
    columns = pointers(Batch(*batch))
    for s0 in range(start, stop, block):
        width = round_to_tiles(min(block, stop - s0), P.itemsize)
        v, to = shift(pointer(P), s0 * r0), shift(pointer(out), s0 * r1)
        absorb(pointer(G), n, r0, r1, False, mode_of(columns, k, s0), v, block, width, to)


@kernel
def expand(n, r, batch, k, start, stop, block, R, out):
    """out_s = (phi_s[0] R_s, .., phi_s[n - 1] R_s), of n r rows. O(n r) a sample."""
    columns = pointers(Batch(*batch))
    for s0 in range(start, stop, block):
        width = round_to_tiles(min(block, stop - s0), R.itemsize)
        mode = mode_of(columns, k, s0)
        v, to = shift(pointer(R), s0 * r), shift(pointer(out), s0 * n * r)
        ahead = 1 if mode.kind == NUMERIC else 0
        for i in range(n):
            x = shift(mode.x, (i - ahead) * mode.stride)
            for b in range(r):
                here, there = shift(v, b * block), shift(to, (i * r + b) * block)
                if mode.kind in (NUMERIC, VECTOR) and i >= ahead:
                    for s in range(width):
                        there[s] = x[s] * here[s]
                elif mode.kind in (NUMERIC, CATEGORY) and i == 0:
                    for s in range(width):
                        there[s] = here[s]
                else:
                    for s in range(width):
                        there[s] = here[s] * (mode.scale if mode.codes[s] == i else element(v, 0))


@inner
def _dot(T, R, r, block, width, f):
    """f_s = sum_b T[b, s] R[b, s]."""
    fill(f, width, 0)
    for b in range(r):
        t, q = shift(T, b * block), shift(R, b * block)
        for s in range(width):
            f[s] += t[s] * q[s]


@inner
def _weigh(g, L, r, block, width, out):
    for a in range(r):
        v, to = shift(L, a * block), shift(out, a * block)
        for s in range(width):
            to[s] = g[s] * v[s]


@kernel
def values(C, n, r0, r1, batch, k, start, stop, block, L, R, f, work):
    """f_s = (J C)_s for start <= s < stop, in O(n r0 r1) a sample.

    Scratch: work, of (r1 + 1) block elements.
    """
    columns = pointers(Batch(*batch))
    T, z = shift(pointer(work), block), pointer(work)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        mode, v = mode_of(columns, k, s0), shift(pointer(L), s0 * r0)
        absorb(pointer(C), n, r0, r1, False, mode, v, block, width, T)
        _dot(T, shift(pointer(R), s0 * r1), r1, block, width, z)
        for s in range(count):
            f[s0 + s] = z[s]


@kernel
def gradient(g, n, r0, r1, batch, k, start, stop, block, L, R, D, work):
    """D += J^T g, over start <= s < stop, codes by `finish`. O(n r0 r1) a sample.

    Scratch: work, of (2 r0 + 1) block elements.
    """
    columns = pointers(Batch(*batch))
    z, weighted = pointer(work), shift(pointer(work), block)
    scaled = shift(weighted, r0 * block)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        mode, v = mode_of(columns, k, s0), shift(pointer(L), s0 * r0)
        fill(z, width, 0)
        for s in range(count):
            z[s] = g[s0 + s]
        _weigh(z, v, r0, block, width, weighted)
        q = shift(pointer(R), s0 * r1)
        add_outer(weighted, r0, q, r1, n, False, mode, block, width, scaled, pointer(D))


@kernel
def product(C, h, n, r0, r1, batch, k, start, stop, block, L, R, D, work):
    """D += J^T diag(h) J C, over start <= s < stop, codes by `finish`: `values`, then `gradient`.

    Scratch: work, of (2 r0 + r1 + 1) block elements.
    """
    columns = pointers(Batch(*batch))
    z, weighted = pointer(work), shift(pointer(work), block)
    scaled = shift(weighted, r0 * block)
    T = shift(scaled, r0 * block)
    for s0 in range(start, stop, block):
        count = min(block, stop - s0)
        width = round_to_tiles(count, L.itemsize)
        mode, v = mode_of(columns, k, s0), shift(pointer(L), s0 * r0)
        q = shift(pointer(R), s0 * r1)
        absorb(pointer(C), n, r0, r1, False, mode, v, block, width, T)
        _dot(T, q, r1, block, width, z)
        for s in range(count):
            z[s] *= h[s0 + s]
        for s in range(count, width):
            z[s] = element(z, 0)
        _weigh(z, v, r0, block, width, weighted)
        add_outer(weighted, r0, q, r1, n, False, mode, block, width, scaled, pointer(D))


@kernel
def finish(parts, kind, scale, n, slot, out):
    """Add the parts (chunks, elements) in order, and give each code its weight."""
    fill(pointer(out), len(out), 0)
    for c in range(len(parts)):
        for i in range(len(out)):
            out[i] += parts[c, i]
    weigh_codes(kind, scale, n, slot, pointer(out))
