"""The partial products of a batch on a GPU, for sweeps over the cores."""

import numpy as np

from ..schedule import Chunks
from . import sample_kernels, tile_kernels
from .batches import Held, zeros
from .runtime import empty, send
from .tile_kernels import SEGMENT, Geometry, padded

UNCHECKED = 2  # a period that one core does not reach


class DevicePartialProducts:
    """`backend.PartialProducts` for samples that are all on the device.

    Partial products are (R, room) for a padded rank R, flat. Cores and results travel between host
    and device in every call.
    """

    m: int
    dtype: np.dtype
    kinds: np.ndarray
    scales: np.ndarray

    def __init__(self, held: Held, m: int, dtype):
        if held.resident is None:
            raise MemoryError(
                f"Sweeps need all samples on the GPU, which has no room for {m} of them; use "
                f"solver='riemannian' with a batch_size, or device='cpu'."
            )
        self.m, self.dtype = m, np.dtype(dtype)
        self.kinds, self.scales = held.kinds, held.scales
        self._batch, self._kernels = held.resident, sample_kernels.make_kernels(str(self.dtype))
        largest = Geometry.for_rank(4).samples(4)  # samples of the largest block
        self._room = max(1, -(-m // largest)) * largest
        self._zero, self._no_powers = send([0], np.int64), send([0], np.int32)
        self._dense, self._unused = send([False], np.bool_), send([0], self.dtype)
        self._results = empty(m, self.dtype), empty(m, np.int32)
        self._outputs = send([1], self.dtype), 1, 1
        self._sent = None, None

    def empty(self, r):
        return empty(padded(r) * self._room, self.dtype)

    def ones(self):
        P = np.zeros((padded(1), self._room), self.dtype)
        P[0] = 1
        return send(P.reshape(-1))

    def rows(self, P, r):
        return P.copy_to_host().reshape(-1, self._room)[:r, : self.m].T

    def squares(self, P, r):
        out = empty(self.m, self.dtype)
        self._kernels.squares.launch_per(self.m, P, r, self._room, self.m, out)
        return out.copy_to_host()[: self.m].astype(np.float64)

    def advance(self, P, G, k, out):
        n, r0, r1 = G.shape
        R = padded(max(r0, r1))
        cores = np.zeros((n, R, R), self.dtype)
        cores[:, :r0, :r1] = G
        train = send(cores.reshape(-1)), self._zero, send([n], np.int64), self._dense
        tile_kernels.make_partials(R, str(self.dtype)).launch(
            -(-self.m // Geometry.for_rank(R).samples(R)), train, self._batch.mode(k),
            (0, self.m, UNCHECKED, False), (P, self._n_rows(P)),
            (out, self._n_rows(out), self._room, self._no_powers), self._results, self._outputs,
        )  # fmt: skip

    def expand(self, R, n, r, k, out):
        self._kernels.expand.launch_per(
            self.m, self._batch.mode(k), R, r, n, self.m, self._room, self._n_rows(out), out
        )

    def values(self, C, k, L, R):
        return self._values(C, k, L, R).copy_to_host()[: self.m]

    def gradient(self, g, shape, k, L, R):
        return self._gradient(send(g, self.dtype), shape, k, L, R)

    def product(self, C, h, k, L, R):
        if self._sent[0] is not h:  # the same array in all steps of a local problem
            self._sent = h, send(h, self.dtype)
        return self._gradient(self._values(C, k, L, R, self._sent[1]), C.shape, k, L, R)

    def _n_rows(self, P):
        return P.size // self._room

    def _values(self, C, k, L, R, h=None):
        """J C on the device, times h if given."""
        T, f = self.empty(C.shape[2]), empty(self.m, self.dtype)
        self.advance(L, C, k, T)
        weights = self._unused if h is None else h
        self._kernels.dot.launch_per(
            self.m, T, self._n_rows(T), R, self._n_rows(R), self._room, self.m, weights,
            h is not None, f,
        )  # fmt: skip
        return f

    def _gradient(self, g, shape, k, L, R):
        """J^T g for g on the device."""
        n, r0, r1 = shape
        rank, batch = padded(max(r0, r1)), self._batch.mode(k)
        chunks = Chunks.cut(self.m, SEGMENT, n * rank**2 * self.dtype.itemsize)
        parts = zeros(chunks.count * n * rank**2, self.dtype), n * rank**2
        first_slots = send([0, n], np.int64)
        if self.m > 0:
            span = 0, self.m, 0, chunks.size, self._room, UNCHECKED
            left, right = ((P, self._n_rows(P), self._no_powers) for P in (L, R))
            groups = self._batch.groups(np.array([n]), k)
            tile_kernels.make_deltas(rank, str(self.dtype)).launch(
                (n, chunks.count), (send(np.zeros(n), np.int64), first_slots, 1), batch, groups, g,
                span, left, right, parts,
            )  # fmt: skip
        out = empty(n * r0 * r1, np.float64)
        train = send([r0, r1], np.int64), self._zero, first_slots
        self._kernels.finish.launch(1, parts[0], rank, train, batch[0], batch[2], out)
        return out.copy_to_host().astype(self.dtype).reshape(shape)
