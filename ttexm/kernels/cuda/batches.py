"""Batches on the device: copies of samples, partial products along a train, and gradients.

A batch is copied to the device as a whole. Where memory is short, its parts are copied whenever
they are needed, on two streams in turn: one part is copied while the kernels work on another. The
partial products of a gradient take more memory, so a gradient goes through the samples in as many
passes as it must. Neither changes any bit of a result: outer products are summed by SEGMENT samples
and then by chunk, whatever the parts and passes.
"""

import itertools
import math
from contextlib import ExitStack
from functools import cached_property

import numpy as np
from numba import cuda

from ..layout import CATEGORY, INDEX, Batch, Train, stride_for
from ..schedule import Chunks
from . import sample_kernels, tile_kernels
from .runtime import THREADS, DeviceTrain, empty, free_bytes, send, send_train
from .tile_kernels import SEGMENT, Geometry, padded

MOST_BLOCKS = 4096  # of a kernel that allows any number


def zeros(n, dtype):
    """Return memory on the device, all zero."""
    a = empty(n, dtype)
    sample_kernels.make_kernels(str(a.dtype)).clear.launch(
        min(MOST_BLOCKS, -(-a.size // THREADS)), a
    )
    return a


class DeviceBatch:
    """m samples on the device, all of them."""

    def __init__(self, modes: tuple, values, codes, stride: int, batch: Batch, m: int, stream=0):
        self.stream = stream  # of the copy, and of the kernels that use it
        self.batch, self.m, self.dtype = batch, m, batch.values.dtype
        self.columns = values, codes, stride, batch.n_values, batch.n_codes
        self.arguments = *modes, *self.columns  # `layout.Batch`, as kernels take it
        self._groups, self._modes = {}, {}

    def mode(self, k: int) -> tuple:
        """Return the arguments for mode k alone."""
        if k not in self._modes:
            only = (array[k : k + 1] for array in self.arguments[:3])
            self._modes[k] = *only, *self.columns
        return self._modes[k]

    def groups(self, sizes: np.ndarray, first_mode: int = 0) -> tuple:
        """Return what `sample_kernels.group` lists, for some neighbouring modes; made once."""
        key = first_mode, tuple(sizes.tolist())
        if key not in self._groups:
            modes = slice(first_mode, first_mode + len(sizes))
            is_coded = np.isin(self.batch.kinds[modes], (CATEGORY, INDEX))
            coded, n_segments = np.flatnonzero(is_coded), -(-self.m // SEGMENT)
            room, lengths = n_segments * SEGMENT, np.where(is_coded, sizes + 1, 0)
            n_bounds = int(lengths.sum())
            groups = (
                empty(len(coded) * room, np.int32),
                send((np.cumsum(is_coded) - is_coded) * room, np.int64),
                empty(n_segments * n_bounds, np.int32),
                send(np.cumsum(lengths) - lengths, np.int64),
                n_bounds,
            )
            _, numbers, stride, _, n_codes = self.columns
            codes = self.arguments[1][modes], numbers, stride, n_codes
            sample_kernels.make_group().launch(
                (n_segments, len(coded)), codes, send(coded, np.int64), send(sizes, np.int64),
                self.m, groups,
            )  # fmt: skip
            self._groups[key] = groups
        return self._groups[key]


class Held:
    """A batch for the device: there as a whole, or on the host and copied part by part."""

    def __init__(self, batch: Batch, m: int, resident: DeviceBatch | None = None):
        self.batch, self.m, self.dtype = batch, m, batch.values.dtype
        self.kinds, self.scales = batch.kinds, batch.scales
        self.sample_bytes = batch.n_values * self.dtype.itemsize + 8 * batch.n_codes
        self.n_parts = 1
        if resident is None:
            # Three parts are on the device at a time; half of the memory is for partial products.
            self.part = self._part_size(free_bytes())
            self.n_parts = max(1, -(-m // self.part))
            resident = self._send(0, m) if self.n_parts == 1 else None
        self.resident = resident

    def _part_size(self, n_bytes):
        if self.m * self.sample_bytes <= n_bytes / 2:
            return max(1, self.m)
        step = math.lcm(SEGMENT, self.batch.stride)
        return max(step, int(n_bytes / 6 / self.sample_bytes) // step * step)

    @cached_property
    def modes(self) -> tuple:
        """Kinds, columns and scales on the device."""
        kinds, columns = (send(a, np.int64) for a in (self.kinds, self.batch.columns))
        return kinds, columns, send(self.scales, self.dtype)

    def _send(self, start, stop, stream=0):
        """Copy samples start .. stop - 1; `start` begins a block."""
        batch = self.batch
        first, last = (batch.stride * (s // batch.stride) for s in (start, stop + batch.stride - 1))
        columns = (batch.values, batch.n_values), (batch.codes, batch.n_codes)
        values, codes = (
            send(array[first * n : last * n] if n else np.zeros(1, array.dtype), stream=stream)
            for array, n in columns
        )
        return DeviceBatch(self.modes, values, codes, batch.stride, batch, stop - start, stream)

    def parts(self):
        """Yield (start, part) for each part of the samples, while the next part is being copied.

        The memory of a part is reused for the part after the next one.
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

    def gather(self, rows: np.ndarray) -> "Held":
        """Return some rows of a batch that is on the device, gathered there."""
        m, stride, batch = len(rows), stride_for(len(rows)), self.batch
        n_blocks, n_columns = max(1, -(-m // stride)), batch.n_values + batch.n_codes
        values = empty(n_blocks * stride * batch.n_values, self.dtype)
        codes = empty(n_blocks * stride * batch.n_codes, np.int32)
        sample_kernels.make_kernels(str(self.dtype)).gather.launch(
            n_columns, send(rows, np.int64), m, self.resident.columns, (values, codes, stride)
        )
        modes = self.resident.arguments[:3]
        return Held(batch, m, DeviceBatch(modes, values, codes, stride, batch, m))


# -- partial products ----------------------------------------------------------------------------


class PaddedTrain:
    """A train for kernels over samples: padded cores, in the precision of the model.

    An open train is given without its last matrix, which is `outputs` (r, K).
    """

    def __init__(self, train: DeviceTrain, identity, R: int, dtype, outputs=((1.0,),)):
        self.R, self.d = R, train.d
        rows, self.n_outputs = np.shape(outputs)
        self.outputs = send(np.ravel(outputs), dtype), rows, self.n_outputs
        cores = empty(train.n_slots * R * R, dtype)
        given = train.data, train.ranks, train.offsets, train.first_slots, train.slot_cores
        sample_kernels.make_kernels(str(dtype)).pad.launch(train.n_slots, given, R, cores)
        self.arguments = cores, train.first_slots, train.sizes, identity


class Partials:
    """Partial products of some samples along a train: on all bonds, or on the last one alone."""

    def __init__(self, train: PaddedTrain, batch: DeviceBatch, period: int):
        self.train, self.batch, self.period = train, batch, period

    def run(self, start, stop, reverse=False, is_kept=False):
        """Compute those of samples start .. stop - 1, and f; all bonds are kept if asked for."""
        train, dtype = self.train, str(self.batch.dtype)
        samples = Geometry.for_rank(train.R).samples(train.R)
        n_blocks, rows = -(-(stop - start) // samples), train.R if is_kept else 0
        self.room = n_blocks * samples
        n_checks = train.d // self.period + 1 if is_kept and self.period <= train.d else 0
        P = empty((train.d + 1) * rows * self.room, dtype)
        powers = empty(n_checks * self.room, np.int32)
        f = empty((stop - start) * train.n_outputs, dtype)
        f_powers = empty(stop - start, np.int32)
        tile_kernels.make_partials(train.R, dtype).launch(
            n_blocks, train.arguments, self.batch.arguments,
            (start, stop, self.period, reverse), (f, 0), (P, rows, self.room, powers),
            (f, f_powers), train.outputs, stream=self.batch.stream,
        )  # fmt: skip
        self.bonds, self.results = (P, train.R, powers), (f, f_powers)
        return self

    def values(self):
        """Return f and its powers of two on the host; waits for them."""
        stream = self.batch.stream
        f, powers = (array.copy_to_host(stream=stream) for array in self.results)
        if stream:
            stream.synchronize()
        return f, powers.astype(np.int64)


def predictions(train: PaddedTrain, held: Held, period, reverse=False):
    """<W, X_s> = mantissas 2^exponents of all samples; mantissas (m, n_outputs), flat.

    The numbers of a part are fetched while the next part is computed.
    """
    mantissas = np.empty((held.m, train.n_outputs), held.dtype)
    exponents = np.empty(held.m, np.int64)

    def collect(start, found):
        span = slice(start, start + found.batch.m)
        f, exponents[span] = found.values()
        mantissas[span] = f.reshape(-1, train.n_outputs)

    last = None
    for start, part in held.parts():
        found = Partials(train, part, period).run(0, part.m, reverse)
        if last:
            collect(*last)
        last = start, found
    collect(*last)
    return mantissas.reshape(-1), exponents


# -- gradients -----------------------------------------------------------------------------------


class Gradient:
    """Sums over the samples of outer products of partial products from both ends of a train."""

    def __init__(self, left: Train, right: Train, held: Held, m: int, period: int):
        self.sizes, self.held, self.m, self.period = left.sizes, held, m, period
        self.R, self.dtype = padded(left.rank), held.dtype
        self.left, dense = send_train(left), send(np.zeros(len(left.sizes)), np.bool_)
        self.trains = [
            PaddedTrain(train, dense, self.R, self.dtype)
            for train in (self.left, send_train(right))
        ]
        part_size = self.left.n_slots * self.R**2
        self.chunks = Chunks.cut(m, SEGMENT, part_size * self.dtype.itemsize)
        self.parts = zeros(self.chunks.count * part_size, self.dtype), part_size

    def accumulate(self, g):
        """Fill the parts; g is an array, or a function of all predictions and their powers."""
        if self.m == 0:
            if callable(g):
                g(np.empty(0, self.dtype), np.empty(0, np.int64))
            return
        bonds = 2 * (len(self.sizes) + 2) * self.R * self.dtype.itemsize
        fits = max(SEGMENT, int(min(free_bytes(), 2**62) // bonds) // SEGMENT * SEGMENT)
        is_single = self.held.resident is not None and self.m <= fits
        if callable(g) and not is_single:
            # From the right, as in a single pass: the bits are the same.
            g = g(*predictions(self.trains[1], self.held, self.period, reverse=True))
        for start, part in self.held.parts():
            chosen = g if callable(g) else send(g[start : start + part.m], self.dtype)
            for first in range(0, part.m, fits):
                self._add(part, start, first, min(first + fits, part.m), chosen)
            if part.stream:
                part.stream.synchronize()  # the next part adds to the same sums on another stream

    def _add(self, part, offset, start, stop, g):
        """Add samples start .. stop - 1 of a part that begins with sample `offset` of all."""
        left, right = (Partials(train, part, self.period) for train in self.trains)
        right.run(start, stop, reverse=True, is_kept=True)
        if callable(g):
            g = send(g(*right.values()), self.dtype)
        left.run(start, stop, is_kept=True)
        train, span = self.left, (start, stop, offset, self.chunks.size, left.room, self.period)
        tile_kernels.make_deltas(self.R, str(self.dtype)).launch(
            (train.n_slots, self.chunks.count), (train.slot_cores, train.first_slots, train.d),
            part.arguments, part.groups(self.sizes), g, span, left.bonds, right.bonds, self.parts,
            stream=part.stream,
        )  # fmt: skip

    def deltas(self):
        """Return the sum of the parts, on the device, in float64."""
        train = self.left
        out = empty(train.data.size, np.float64)
        kinds, _, scales = self.held.modes
        sample_kernels.make_kernels(str(self.dtype)).finish.launch(
            train.d, self.parts[0], self.R, (train.ranks, train.offsets, train.first_slots), kinds,
            scales, out,
        )  # fmt: skip
        return out
