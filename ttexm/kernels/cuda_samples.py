"""Batches on the device for sweeps over the cores: the CUDA twin of `samples`."""

from types import SimpleNamespace

import numpy as np

from . import cuda_tiles
from .cuda_batch import Held, add_outer, chunk_size
from .cuda_launch import IS_SIMULATED, THREADS, empty, launch, padded, send, zeros
from .cuda_tiles import Geometry

UNCHECKED = 2  # a period that one core does not reach


class Samples:
    """m samples, all on the device, with their partial products; cores come from the host and go.

    Partial products are (R, room) for a padded rank R, flat.
    """

    def __init__(self, held: Held, m, dtype):
        if held.resident is None:
            raise MemoryError(
                f"Sweeps need all samples on the GPU, which has no room for {m} of them; use "
                f"solver='riemannian' with a batch_size, or device='cpu'."
            )
        self.batch, self.m, self.dtype = held.resident, m, np.dtype(dtype)
        self.kinds, self.scales = held.kinds, held.scales
        widest = 16 * Geometry.of(4, IS_SIMULATED).threads // 4  # samples of the largest block
        self.room = max(1, -(-m // widest)) * widest
        self.zero, self.no_powers = send([0], np.int64), send([0], np.int32)
        self.dense, self.unused = send([False], np.bool_), send([0], self.dtype)
        self.f, self.f_powers = empty(m, self.dtype), empty(m, np.int32)
        self._sent = None, None

    def empty(self, r):
        """Room for the partial products of rank r."""
        return empty(padded(r) * self.room, self.dtype)

    def ones(self):
        """The partial product outside of the train."""
        P = np.zeros((padded(1), self.room), self.dtype)
        P[0] = 1
        return send(P.reshape(-1))

    def rows(self, P, r):
        """Partial products as a table (m, r)."""
        return P.copy_to_host().reshape(-1, self.room)[:r, : self.m].T

    def squares(self, P, r):
        """|P_s|^2, (m,), in double precision."""
        out = empty(self.m, self.dtype)
        self._by_sample(cuda_tiles.squares, P, r, self.room, self.m, out)
        return out.copy_to_host()[: self.m].astype(np.float64)

    def _by_sample(self, function, *arguments):
        launch(function, -(-self.m // THREADS), *arguments)

    def _rows_of(self, P):
        return P.size // self.room

    def advance(self, P, G, k, out):
        """out_s = sum_i phi_{s,k}[i] P_s G[i]; G (n, r1, r0) transposed from the right."""
        n, r0, r1 = G.shape
        R = padded(max(r0, r1))
        cores = np.zeros((n, R, R), self.dtype)
        cores[:, :r0, :r1] = G
        threads, batch, one = Geometry.of(R, IS_SIMULATED).threads, self.batch, slice(k, k + 1)
        launch(
            cuda_tiles.make_partials(R, str(self.dtype), threads),
            -(-self.m // (16 * threads // R)), send(cores.reshape(-1)), self.zero,
            send([n], np.int64), self.dense, batch.kinds[one], batch.columns[one],
            batch.scales[one], *batch.arrays[3:], 1, False, 0, self.m, UNCHECKED,
            P, self._rows_of(P), out, self._rows_of(out), self.room, self.no_powers,
            self.f, self.f_powers, threads=threads,
        )  # fmt: skip

    def expand(self, R, n, r, k, out):
        """out_s = (phi_{s,k}[0] R_s, .., phi_{s,k}[n - 1] R_s), of n r rows."""
        batch = self.batch
        self._by_sample(
            cuda_tiles.expand, R, r, n, int(self.kinds[k]), int(batch.batch.columns[k]),
            self.dtype.type(self.scales[k]), *batch.arrays[3:], self.m, self.room,
            self._rows_of(out), out,
        )  # fmt: skip

    def values(self, C, k, L, R):
        """f_s = sum_i phi_{s,k}[i] L_s C[i] R_s^T."""
        return self._values(C, k, L, R).copy_to_host()[: self.m]

    def _values(self, C, k, L, R, h=None):
        T, f = self.empty(C.shape[2]), empty(self.m, self.dtype)
        self.advance(L, C, k, T)
        self._by_sample(
            cuda_tiles.dot, T, self._rows_of(T), R, self._rows_of(R), self.room, self.m,
            self.unused if h is None else h, h is not None, f,
        )  # fmt: skip
        return f

    def gradient(self, g, shape, k, L, R):
        """The transpose of `values`, at g: of shape (n, r0, r1)."""
        return self._gradient(send(g, self.dtype), shape, k, L, R)

    def _gradient(self, g, shape, k, L, R):
        n, r0, r1 = shape
        rank, batch, one = padded(max(r0, r1)), self.batch, slice(k, k + 1)
        slots = send(np.zeros(max(1, n)), np.int64)
        train = SimpleNamespace(core_of=slots, first=self.zero, d=1, n_slots=n)
        part = SimpleNamespace(
            dtype=batch.dtype, kinds=batch.kinds[one], columns=batch.columns[one],
            values=batch.values, stride=batch.stride, batch=batch.batch, stream=0,
        )  # fmt: skip
        chunk = chunk_size(self.m, n * rank**2 * self.dtype.itemsize)
        n_chunks = max(1, -(-self.m // chunk))
        parts = zeros(n_chunks * n * rank**2, self.dtype)
        sides = ((P, self._rows_of(P), self.no_powers) for P in (L, R))
        if self.m > 0:
            add_outer(
                train, part, batch.groups(np.array([n]), k), g, (0, self.m, 0),
                (chunk, n_chunks), *sides, self.room, UNCHECKED, rank, parts,
            )  # fmt: skip
        out = empty(n * r0 * r1, np.float64)
        launch(
            cuda_tiles.finish, 1, parts, n_chunks, n * rank**2, rank, send([r0, r1], np.int64),
            send([n], np.int64), self.zero, self.zero, batch.kinds[one], batch.scales[one], out,
        )  # fmt: skip
        return out.copy_to_host().astype(self.dtype).reshape(shape)

    def product(self, C, h, k, L, R):
        """The transpose of `values` at h times `values` of C: a product with the curvature."""
        if self._sent[0] is not h:  # the same for all steps of a local problem
            self._sent = h, send(h, self.dtype)
        return self._gradient(self._values(C, k, L, R, self._sent[1]), C.shape, k, L, R)
