"""Batches on the CPU for sweeps over the cores: partial products, and one core's local problem."""

import numpy as np

from . import site, threads, workspace
from .layout import CATEGORY, INDEX, PADDING

BLOCK = 192  # samples that are taken at once: a divisor of a batch's blocks
MOST_CHUNKS = 32
SAMPLES_PER_CHUNK = 480
PARALLEL_FLOPS = 2_000_000
PARTS_BYTES = 128 * 1024 * 1024  # sums of chunks that are kept at once


class Samples:
    """m samples, cut into chunks whose sums are added in order: the same bits on any threads.

    A core, or a pair of them, is an array C (n, r0, r1), slot-major. Partial products of rank r are
    what `ones` or `empty` made, for the methods here alone: they may be on another device. All
    else is on the host, also the kinds and scales (d,) of the modes.
    """

    def __init__(self, batch, m, dtype):
        self.batch, self.m, self.dtype = tuple(batch), m, np.dtype(dtype)
        self.kinds, self.scales = batch.kinds, batch.scales
        self.block = min(BLOCK, max(1, -(-m // PADDING)) * PADDING)
        n_chunks = max(1, min(MOST_CHUNKS, m // SAMPLES_PER_CHUNK))
        blocks = -(-m // self.block)
        self.chunk = max(1, -(-blocks // n_chunks)) * self.block
        self.n_chunks = max(1, -(-m // self.chunk))

    def empty(self, r):
        """Room for the partial products of rank r."""
        blocks = max(1, -(-self.m // self.block))
        return workspace.aligned(blocks * self.block * r, self.dtype)

    def ones(self):
        """The partial product outside of the train."""
        P = self.empty(1)
        P[:] = 1
        return P

    def rows(self, P, r):
        """Partial products as a table (m, r)."""
        return P.reshape(-1, r, self.block).transpose(0, 2, 1).reshape(-1, r)[: self.m]

    def squares(self, P, r):
        """|P_s|^2, (m,), in double precision."""
        rows = P.reshape(-1, r, self.block)
        return np.einsum("bas,bas->bs", rows, rows).reshape(-1)[: self.m].astype(np.float64)

    def _run(self, task, flops, scratch=0, n_parts=None):
        """Call task(c, start, stop, work) for every chunk c of samples, or fewer, larger parts."""
        n_parts = n_parts or self.n_chunks
        size = -(-self.n_chunks // n_parts) * self.chunk

        def chunks(first, last):
            with workspace.lend("rows", scratch * self.block, self.dtype) as work:
                for c in range(first, last):
                    task(c, c * size, min((c + 1) * size, self.m), work)

        threads.run(chunks, max(1, -(-self.m // size)), flops * self.m > PARALLEL_FLOPS)

    def _parts(self, n, slot, k):
        """Zeros for the sums of all chunks, (parts, n slot): fewer than chunks if they are large.

        A category may have as many levels as there are samples: its sums take no more memory, and
        no more time, than one number for each sample and element of a slot.
        """
        n_parts = min(self.n_chunks, PARTS_BYTES // (n * slot * self.dtype.itemsize))
        if self.kinds[k] in (CATEGORY, INDEX):
            n_parts = min(n_parts, self.m // n)
        return np.zeros((max(1, n_parts), n * slot), self.dtype)

    def advance(self, P, G, k, out):
        """out_s = sum_i phi_{s,k}[i] P_s G[i]; G (n, r1, r0) transposed from the right."""
        n, r0, r1 = G.shape
        G = self._flat(G)

        def task(_, start, stop, work):
            site.advance(G, n, r0, r1, self.batch, k, start, stop, self.block, P, out)

        self._run(task, 2 * len(G))

    def expand(self, R, n, r, k, out):
        """out_s = (phi_{s,k}[0] R_s, .., phi_{s,k}[n - 1] R_s), of n r rows."""

        def task(_, start, stop, work):
            site.expand(n, r, self.batch, k, start, stop, self.block, R, out)

        self._run(task, 2 * n * r)

    def values(self, C, k, L, R):
        """f_s = sum_i phi_{s,k}[i] L_s C[i] R_s^T."""
        n, r0, r1 = C.shape
        C, f = self._flat(C), np.empty(self.m, self.dtype)

        def task(_, start, stop, work):
            site.values(C, n, r0, r1, self.batch, k, start, stop, self.block, L, R, f, work)

        self._run(task, 2 * len(C), r1 + 1)
        return f

    def gradient(self, g, shape, k, L, R):
        """The transpose of `values`, at g: of shape (n, r0, r1)."""
        n, r0, r1 = shape
        parts = self._parts(n, r0 * r1, k)
        g = self._flat(g)

        def task(c, start, stop, work):
            site.gradient(
                g, n, r0, r1, self.batch, k, start, stop, self.block, L, R, parts[c], work
            )

        self._run(task, 2 * n * r0 * r1, 2 * r0 + 1, len(parts))
        return self._finish(parts, shape, k)

    def product(self, C, h, k, L, R):
        """The transpose of `values` at h times `values` of C: a product with the curvature."""
        n, r0, r1 = C.shape
        parts = self._parts(n, r0 * r1, k)
        flat, h = self._flat(C), self._flat(h)

        def task(c, start, stop, work):
            site.product(
                flat, h, n, r0, r1, self.batch, k, start, stop, self.block, L, R, parts[c], work
            )

        self._run(task, 4 * C.size, 2 * r0 + r1 + 1, len(parts))
        return self._finish(parts, C.shape, k)

    def _flat(self, a):
        return np.ascontiguousarray(a, self.dtype).reshape(-1)

    def _finish(self, parts, shape, k):
        n, r0, r1 = shape
        out = np.empty(n * r0 * r1, self.dtype)
        site.finish(parts, self.kinds[k], self.scales[k], n, r0 * r1, out)
        return out.reshape(shape)
