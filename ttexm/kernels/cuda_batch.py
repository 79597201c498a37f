"""Batches on the device: what of them fits there, contraction, and gradients.

A batch is held on the device as a whole, or, where memory is short, its parts are copied whenever
they are needed, on two streams in turns: one part is copied while another is computed with. Partial
products take more: a gradient goes through the samples in as many passes as memory asks for.
Neither changes any bits of the results, as sums have an order of their own: SEGMENT samples, then
chunks, whose size depends on the number of samples and the shape alone.
"""

import itertools
import math
from contextlib import ExitStack
from functools import cached_property

import numpy as np
from numba import cuda

from . import cuda_tiles
from .cuda_launch import (
    IS_SIMULATED,
    DeviceTrain,
    empty,
    free_bytes,
    launch,
    pad,
    padded,
    send,
    send_train,
    zeros,
)
from .cuda_tiles import SEGMENT, Geometry
from .layout import CATEGORY, INDEX, Batch, Train, stride_of

MOST_CHUNKS = 32
KEPT_BYTES = 256 * 1024 * 1024  # sums of chunks


class DeviceBatch:
    """m samples on the device, all of them."""

    def __init__(self, indices: tuple, values, codes, stride: int, batch: Batch, m: int, stream=0):
        self.stream = stream  # on which it is copied, and on which to launch what needs it
        self.kinds, self.columns, self.scales = indices
        self.values, self.codes, self.stride = values, codes, stride
        self.batch, self.m, self.dtype = batch, m, batch.values.dtype
        self._groups = {}

    @property
    def arrays(self):
        """What `partials` takes of a batch."""
        return (
            self.kinds, self.columns, self.scales, self.values, self.codes, self.stride,
            self.batch.n_values, self.batch.n_codes,
        )  # fmt: skip

    def groups(self, sizes: np.ndarray, first_mode: int = 0):
        """The samples of each code, for some modes next to each other, as `deltas` takes them.

        order, order_at, starts, first_start, n_starts: made once.
        """
        key = first_mode, tuple(sizes.tolist())
        if key not in self._groups:
            modes = slice(first_mode, first_mode + len(sizes))
            is_coded = np.isin(self.batch.kinds[modes], (CATEGORY, INDEX))
            coded, n_segments = np.flatnonzero(is_coded), -(-self.m // SEGMENT)
            room, lengths = n_segments * SEGMENT, np.where(is_coded, sizes + 1, 0)
            n_starts = int(lengths.sum())
            order = empty(len(coded) * room, np.int32)
            starts = empty(n_segments * n_starts, np.int32)
            order_at = send((np.cumsum(is_coded) - is_coded) * room, np.int64)
            first_start = send(np.cumsum(lengths) - lengths, np.int64)
            launch(
                cuda_tiles.group, (n_segments, len(coded)), self.codes, self.stride,
                self.batch.n_codes, send(coded, np.int64), self.columns[modes],
                send(sizes, np.int64), first_start, n_starts, self.m, order, order_at, starts,
            )  # fmt: skip
            self._groups[key] = order, order_at, starts, first_start, n_starts
        return self._groups[key]


class Held:
    """A batch for the device: there as a whole, or on the host and copied part by part."""

    def __init__(self, batch: Batch, m: int, device: DeviceBatch | None = None):
        self.batch, self.m, self.dtype = batch, m, batch.values.dtype
        self.kinds, self.scales = batch.kinds, batch.scales
        self.sample_bytes = batch.n_values * self.dtype.itemsize + 8 * batch.n_codes
        self.n_parts = 1
        if device is None:
            # Three parts are on the device at a time; half of the memory is for partial products.
            self.part = self._part_size(free_bytes())
            self.n_parts = max(1, -(-m // self.part))
            device = self._send(0, m) if self.n_parts == 1 else None
        self.resident = device

    def _part_size(self, n_bytes):
        if self.m * self.sample_bytes <= n_bytes / 2:
            return max(1, self.m)
        step = math.lcm(SEGMENT, self.batch.stride)
        return max(step, int(n_bytes / 6 / self.sample_bytes) // step * step)

    @cached_property
    def _indices(self):
        batch = self.batch
        kinds, columns = send(batch.kinds, np.int64), send(batch.columns, np.int64)
        return kinds, columns, send(batch.scales, self.dtype)

    def _send(self, start, stop, stream=0):
        """Samples start .. stop - 1 on the device; `start` begins a block."""
        batch = self.batch
        first, last = (batch.stride * (s // batch.stride) for s in (start, stop + batch.stride - 1))
        columns = (batch.values, batch.n_values), (batch.codes, batch.n_codes)
        values, codes = (
            send(array[first * n : last * n] if n else np.zeros(1, array.dtype), stream=stream)
            for array, n in columns
        )
        m = stop - start
        return DeviceBatch(self._indices, values, codes, batch.stride, batch, m, stream)

    def parts(self):
        """(start, part) for each part of the samples, the next one on its way already.

        A part's memory is free again when the part after the next one comes.
        """
        if self.resident is not None:
            yield 0, self.resident
            return
        streams = itertools.cycle([cuda.stream(), cuda.stream()])
        with ExitStack() as pinned:
            for array in (self.batch.values, self.batch.codes):
                if len(array):
                    pinned.enter_context(cuda.pinned(array))
            spans = [(s, min(s + self.part, self.m)) for s in range(0, self.m, self.part)]
            now = self._send(*spans[0], next(streams))
            for (start, _), after in itertools.zip_longest(spans, spans[1:]):
                ahead = self._send(*after, next(streams)) if after else None
                yield start, now
                now = ahead

    def take(self, rows: np.ndarray) -> "Held":
        """Some samples of a batch that is on the device, gathered there."""
        m, stride = len(rows), stride_of(len(rows))
        old, batch = self.resident, self.batch
        n_blocks = max(1, -(-m // stride))
        values = empty(n_blocks * stride * batch.n_values, self.dtype)
        codes = empty(n_blocks * stride * batch.n_codes, np.int32)
        launch(
            cuda_tiles.take, batch.n_values + batch.n_codes, send(rows, np.int64), m, old.values,
            old.codes, old.stride, batch.n_values, batch.n_codes, values, codes, stride,
        )  # fmt: skip
        device = DeviceBatch((old.kinds, old.columns, old.scales), values, codes, stride, batch, m)
        return Held(batch, m, device)


# -- kernels over samples ------------------------------------------------------------------------


class Partials:
    """Partial products of some samples on all bonds, or their last element alone."""

    def __init__(self, train: DeviceTrain, cores, R, identity, batch: DeviceBatch, period):
        self.train, self.cores, self.R, self.identity = train, cores, R, identity
        self.batch, self.period = batch, period

    def run(self, start, stop, reverse=False, kept_rows=0):
        """For samples start .. stop - 1; keeps the bonds, if asked to, f and f_powers."""
        R, dtype, d = self.R, str(self.batch.dtype), self.train.d
        threads = Geometry.of(R, IS_SIMULATED).threads
        samples = 16 * threads // R
        n_blocks = -(-(stop - start) // samples)
        self.room = n_blocks * samples
        checked = self.period <= d and kept_rows > 0
        self.P = empty((d + 1) * kept_rows * self.room, dtype)
        self.powers = empty((d // self.period + 1) * self.room if checked else 1, np.int32)
        self.f, self.f_powers = empty(stop - start, dtype), empty(stop - start, np.int32)
        launch(
            cuda_tiles.make_partials(R, dtype, threads), n_blocks, self.cores, self.train.first,
            self.train.sizes, self.identity, *self.batch.arrays, d, reverse, start, stop,
            self.period, self.f, 0, self.P, kept_rows, self.room, self.powers, self.f,
            self.f_powers, threads=threads, stream=self.batch.stream,
        )  # fmt: skip
        return self

    @property
    def bonds(self):
        """Partial products, their rows and their powers, as `deltas` takes them."""
        return self.P, self.R, self.powers

    def values(self):
        """f and its powers of two, on the host; waits for them."""
        stream = self.batch.stream
        f, powers = (a.copy_to_host(stream=stream) for a in (self.f, self.f_powers))
        if stream:
            stream.synchronize()
        return f, powers.astype(np.int64)


def predictions(train: DeviceTrain, cores, R, identity, held: Held, period, reverse=False):
    """<W, X_s> = mantissas 2^exponents of all samples.

    The numbers of a part are waited for when the next part's kernel runs.
    """
    mantissas, exponents = np.empty(held.m, held.dtype), np.empty(held.m, np.int64)

    def collect(start, found):
        span = slice(start, start + found.batch.m)
        mantissas[span], exponents[span] = found.values()

    last = None
    for start, part in held.parts():
        found = Partials(train, cores, R, identity, part, period).run(0, part.m, reverse)
        if last:
            collect(*last)
        last = start, found
    collect(*last)
    return mantissas, exponents


def contract(train: Train, identity, held: Held, m, period):
    """<W, X_s> = mantissas 2^exponents, for m samples, in O(d n r^2) a sample."""
    if m == 0:
        return np.empty(0, held.dtype), np.empty(0, np.int64)
    device, R = send_train(train), padded(train.rank)
    cores, flags = pad(device, R, held.dtype), send(identity, np.bool_)
    return predictions(device, cores, R, flags, held, period)


def chunk_size(m: int, part_bytes: int) -> int:
    """Samples whose sums are kept apart; it depends on m and the shape alone, as do the bits."""
    n_chunks = max(1, min(MOST_CHUNKS, KEPT_BYTES // part_bytes))
    return SEGMENT * max(1, -(-m // (SEGMENT * n_chunks)))


class Gradient:
    """Sums over the samples of outer products of partial products from both ends of a train."""

    def __init__(self, left: Train, right: Train, held: Held, m: int, period: int):
        self.left, self.held, self.m, self.period = left, held, m, period
        self.trains = send_train(left), send_train(right)
        self.R, self.dtype = padded(left.rank), held.dtype
        self.cores = [pad(train, self.R, self.dtype) for train in self.trains]
        self.dense = send(np.zeros(len(left.sizes)), np.bool_)
        self.part_size = self.trains[0].n_slots * self.R**2
        self.chunk = chunk_size(m, self.part_size * self.dtype.itemsize)
        self.n_chunks = max(1, -(-m // self.chunk))
        self.parts = zeros(self.n_chunks * self.part_size, self.dtype)

    def accumulate(self, g):
        """Fill the parts; g is an array, or a function of all predictions and their powers."""
        if self.m == 0:
            if callable(g):
                g(np.empty(0, self.dtype), np.empty(0, np.int64))
            return
        bonds = 2 * (len(self.left.sizes) + 2) * self.R * self.dtype.itemsize
        fits = max(SEGMENT, int(min(free_bytes(), 2**62) // bonds) // SEGMENT * SEGMENT)
        is_single = self.held.resident is not None and self.m <= fits
        if callable(g) and not is_single:
            # From the right, as a single pass has them: the same bits.
            right = self.trains[1], self.cores[1], self.R, self.dense
            g = g(*predictions(*right, self.held, self.period, reverse=True))
        for start, part in self.held.parts():
            chosen = g if callable(g) else send(g[start : start + part.m], self.dtype)
            for first in range(0, part.m, fits):
                self._add(part, start, first, min(first + fits, part.m), chosen)
            if part.stream:
                part.stream.synchronize()  # the next part adds to the same sums, on another stream

    def _add(self, part, offset, start, stop, g):
        """Samples start .. stop - 1 of a part that begins with sample `offset` of all."""
        left, right = (
            Partials(train, cores, self.R, self.dense, part, self.period)
            for train, cores in zip(self.trains, self.cores, strict=True)
        )
        right.run(start, stop, reverse=True, kept_rows=self.R)
        if callable(g):
            g = send(g(*right.values()), self.dtype)
        left.run(start, stop, kept_rows=self.R)
        add_outer(
            self.trains[0], part, part.groups(self.left.sizes), g, (start, stop, offset),
            (self.chunk, self.n_chunks), left.bonds, right.bonds, left.room, self.period,
            self.R, self.parts,
        )  # fmt: skip

    def finish(self):
        """The parts' sum, as the deltas of a train on the device, in float64."""
        train = self.trains[0]
        out = empty(self.left.offsets[-1], np.float64)
        kinds, scales = send(self.held.kinds, np.int64), send(self.held.scales, self.dtype)
        launch(
            cuda_tiles.finish, train.d, self.parts, self.n_chunks, self.part_size, self.R,
            train.ranks, train.sizes, train.offsets, train.first, kinds, scales, out,
        )  # fmt: skip
        return out


def add_outer(train, part, groups, g, span, chunks, left, right, room, period, R, parts):
    """Launch `deltas`; left and right are partial products, their rows and their powers.

    train: core_of, first, d and n_slots; span: start, stop and offset; chunks: size and number.
    """
    dtype, lanes = str(part.dtype), Geometry.of(R, IS_SIMULATED).lanes
    chunk, n_chunks = chunks
    launch(
        cuda_tiles.make_deltas(R, dtype, lanes), (train.n_slots, n_chunks), train.core_of,
        train.first, part.kinds, part.columns, part.values, part.stride, part.batch.n_values,
        *groups, train.d, g, *span, chunk, *left, *right, room, period, parts,
        train.n_slots * R * R, threads=(R // 4) ** 2 * lanes, stream=part.stream,
    )  # fmt: skip
