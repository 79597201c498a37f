"""The partial products of a batch on the CPU, for sweeps over the cores."""

import numpy as np

from . import local_problem
from .layout import CATEGORY, INDEX, Batch, aligned
from .schedule import SUMS_BYTES, Chunks, block_size

SAMPLE_BYTES = 128  # of a sample's partial products at typical ranks: sets the size of a block


class HostPartialProducts:
    """`backend.PartialProducts` for batches in the host's memory; partial products are arrays."""

    m: int
    dtype: np.dtype
    kinds: np.ndarray
    scales: np.ndarray

    def __init__(self, held: Batch, m: int, dtype):
        self.m, self.dtype = m, np.dtype(dtype)
        self.kinds, self.scales = held.kinds, held.scales
        self._batch, self._block = tuple(held), block_size(m, SAMPLE_BYTES)
        self._chunks = Chunks.cut(m, self._block)

    def empty(self, r):
        n_blocks = max(1, -(-self.m // self._block))
        return aligned(n_blocks * self._block * r, self.dtype)

    def ones(self):
        P = self.empty(1)
        P[:] = 1
        return P

    def rows(self, P, r):
        return P.reshape(-1, r, self._block).transpose(0, 2, 1).reshape(-1, r)[: self.m]

    def squares(self, P, r):
        rows = P.reshape(-1, r, self._block)
        return np.einsum("bas,bas->bs", rows, rows).reshape(-1)[: self.m].astype(np.float64)

    def advance(self, P, G, k, out):
        G, batch, block = self._contiguous(G), self._batch, self._block

        def task(_, start, stop, work):
            local_problem.absorb_core(G, batch, k, (start, stop, block), P, out)

        self._run(self._chunks, task, 2 * G.size)

    def expand(self, R, n, r, k, out):
        batch, block = self._batch, self._block

        def task(_, start, stop, work):
            local_problem.expand_products(n, r, batch, k, (start, stop, block), R, out)

        self._run(self._chunks, task, 2 * n * r)

    def values(self, C, k, L, R):
        C, f = self._contiguous(C), np.empty(self.m, self.dtype)
        batch, block = self._batch, self._block

        def task(_, start, stop, work):
            local_problem.apply_jacobian(C, batch, k, (start, stop, block), L, R, f, work)

        self._run(self._chunks, task, 2 * C.size, C.shape[2] + 1)
        return f

    def gradient(self, g, shape, k, L, R):
        n, r0, r1 = shape
        chunks = self._chunks_for(n, r0 * r1, k)
        parts, g = np.zeros((chunks.count, n, r0, r1), self.dtype), self._contiguous(g)
        batch, block = self._batch, self._block

        def task(c, start, stop, work):
            local_problem.add_gradient(g, batch, k, (start, stop, block), L, R, parts[c], work)

        self._run(chunks, task, 2 * n * r0 * r1, 2 * r0 + 1)
        return self._finish(parts, k)

    def product(self, C, h, k, L, R):
        n, r0, r1 = C.shape
        chunks = self._chunks_for(n, r0 * r1, k)
        parts = np.zeros((chunks.count, n, r0, r1), self.dtype)
        C, h = self._contiguous(C), self._contiguous(h)
        batch, block = self._batch, self._block

        def task(c, start, stop, work):
            span = start, stop, block
            local_problem.add_curvature_product(C, h, batch, k, span, L, R, parts[c], work)

        self._run(chunks, task, 4 * C.size, 2 * r0 + r1 + 1)
        return self._finish(parts, k)

    def _run(self, chunks, task, flops, n_scratch=0):
        """Run a task over chunks; flops per sample, scratch in numbers per sample of a block."""
        chunks.run(task, flops * self.m, n_scratch * self._block, self.dtype)

    def _chunks_for(self, n, slot, k):
        """Chunks for sums of n slots: fewer, larger ones if the sums are large.

        A category may have as many levels as there are samples. Its sums take at most as much
        memory, and time, as m slots.
        """
        most = SUMS_BYTES // (n * slot * self.dtype.itemsize)
        if self.kinds[k] in (CATEGORY, INDEX):
            most = min(most, self.m // n)
        return self._chunks.merged(most)

    def _contiguous(self, a):
        return np.ascontiguousarray(a, self.dtype)

    def _finish(self, parts, k):
        out = np.empty(parts.shape[1:], self.dtype)
        local_problem.finish_gradient(parts, self.kinds[k], self.scales[k], out)
        return out
