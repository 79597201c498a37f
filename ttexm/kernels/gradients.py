"""Gradients of a batch on the CPU: partial products from the right, then sums of outer products.

The right partial products of all samples are kept until their g is known, or those of a few samples
at a time if g is known from the start.
"""

import numpy as np

from .backend import Derivatives
from .contraction import contract
from .host import identity_gauge, reverse
from .identity_gauge import finish_deltas_in_gauge
from .layout import NUMERIC, VECTOR, Batch, Train
from .projection import accumulate_deltas, finish_deltas, right_partials, sum_deltas
from .schedule import Chunks, acquire, block_size, release, scratch

CACHED_BYTES = 1024 * 1024  # right partial products that are kept at once if g is known: L2
KEPT_BYTES = 128 * 1024 * 1024  # .. and if g depends on the predictions of all samples
NO_POWERS = np.empty(0, np.int64)


def gradient(
    left: Train, right: Train, held: Batch, m: int, g: Derivatives, period: int
) -> np.ndarray:
    """Deltas of the projection of sum_s g_s X_s; see `backend.Device.gradient`."""
    job = _Job(left, right, held, m, period, in_tangent=True)
    job.accumulate(g)
    return job.tangent_deltas()


def core_gradient(train: Train, held: Batch, m: int, g: Derivatives, period: int) -> np.ndarray:
    """Derivatives of sum_s g_s <W, X_s> in the cores; see `backend.Device.core_gradient`."""
    job = _Job(train, reverse(train), held, m, period, in_tangent=False)
    job.accumulate(g)
    return job.plain_deltas()


class _Job:
    """One gradient: its trains, the chunks of its samples, and the sums of each chunk so far.

    in_tangent: the trains are the orthogonal gauges of a point, which identity gauges may replace.
    """

    def __init__(self, left, right, batch, m, period, in_tangent):
        self.left, self.batch, self.m, self.period = left, batch, m, period
        self.train, self.arrays = tuple(left), tuple(batch)
        d, r, self.dtype = len(left.sizes), left.rank, left.data.dtype
        self.is_checked = period <= d
        self.per_sample = sum(left.ranks.tolist())  # right partial products on all bonds
        self.block = block_size(m, r * self.dtype.itemsize)
        # The identity gauge saves up to 6 r^2 of 12 r^2 operations per sample and core, and costs
        # about 100 r^3 per core. Its sums have no room for powers of two.
        self.in_gauge = in_tangent and not self.is_checked and r >= 8 and m >= 48 * r
        if self.in_gauge:
            self.gauges = [
                (tuple(gauge.train), gauge.identity, gauge.T)
                for gauge in (identity_gauge(left), identity_gauge(right))
            ]
            numeric = (batch.kinds == NUMERIC) | (batch.kinds == VECTOR)
            self.skip = self.gauges[1][1][::-1] & numeric
        else:
            self.skip = np.zeros(d, np.bool_)
            self.gauges = (self.train, self.skip), (tuple(right), self.skip)
        self.n_scratch = 4 * r * self.block
        self.chunks = Chunks.cut(m, self.block, left.data.nbytes)
        self.parts = np.zeros((self.chunks.count, len(left.data)), self.dtype)
        self.f = np.empty(m, self.dtype)
        self.f_powers = np.empty(m, np.int64) if self.is_checked else NO_POWERS

    # -- sums over the samples ------------------------------------------------------------------

    def accumulate(self, g):
        """Fill the parts; g is an array, or a function of the predictions."""
        if callable(g) and self.m * self.per_sample * self.dtype.itemsize > KEPT_BYTES:
            dense = np.zeros(len(self.skip), np.bool_)
            g = g(*contract(self.left, dense, self.batch, self.m, self.period))
        if self.chunks.count == 1:
            self.run_single_chunk(g)
        elif callable(g):
            self.run_keeping_partials(g)
        else:
            self.run_in_cache(g)

    def run_single_chunk(self, g):
        """A small batch, for which the number of Python calls matters."""
        Q_room, power_room = self.room(self.m)
        powers = np.empty(power_room, np.int64) if power_room else NO_POWERS
        with (
            scratch("partials", Q_room, self.dtype) as Q,
            scratch("rows", self.n_scratch, self.dtype) as work,
        ):
            self.fill_partials(0, self.m, (Q, powers), work)
            g = self.derivatives(g) if callable(g) else g
            self.add_deltas(g, 0, self.m, (Q, powers), self.parts[0], work)

    def run_keeping_partials(self, g):
        """Keep the right partial products of all samples: g depends on all predictions."""
        Q_room, power_room = self.room(self.chunks.size)
        Q = acquire("partials", self.chunks.count * Q_room, self.dtype)
        powers = np.empty(self.chunks.count * power_room, np.int64)

        def first_pass(c, start, stop, work):
            kept = Q[c * Q_room :], powers[c * power_room :]
            self.fill_partials(start, stop, kept, work)

        def second_pass(c, start, stop, work):
            kept = Q[c * Q_room :], powers[c * power_room :]
            self.add_deltas(g, start, stop, kept, self.parts[c], work)

        self.run(first_pass)
        g = self.derivatives(g)
        self.run(second_pass)
        release("partials", Q)

    def run_in_cache(self, g):
        """Keep the right partial products of a few samples at a time: g is known."""
        few = CACHED_BYTES // (self.per_sample * self.dtype.itemsize)
        few = max(self.block, few // self.block * self.block)
        Q_room, power_room = self.room(min(few, self.chunks.size))

        def only_pass(c, start, stop, work):
            powers = np.empty(power_room, np.int64)
            with scratch("partials", Q_room, self.dtype) as Q:
                for first in range(start, stop, few):
                    last = min(first + few, stop)
                    self.fill_partials(first, last, (Q, powers), work)
                    self.add_deltas(g, first, last, (Q, powers), self.parts[c], work)

        self.run(only_pass)

    def run(self, task):
        flops = 6 * self.m * len(self.left.data)
        self.chunks.run(task, flops, self.n_scratch, self.dtype)

    def room(self, n):
        """Elements that the right partial products of n samples take, and their powers of two."""
        n = -(-n // self.block) * self.block
        powers = n * (len(self.skip) // self.period + 2) if self.is_checked else 0
        return n * self.per_sample, powers

    def fill_partials(self, start, stop, partials, work):
        """Right partial products and predictions of the samples start .. stop - 1."""
        (train, identity), span = self.gauges[1][:2], (start, stop, self.block)
        predictions = self.f, self.f_powers
        right_partials(train, identity, self.arrays, span, self.period, partials, predictions, work)

    def add_deltas(self, g, start, stop, partials, part, work):
        """Add the samples' outer products to the sums of their chunk."""
        (train, identity), span = self.gauges[0][:2], (start, stop, self.block)
        accumulate_deltas(
            train, identity, self.skip, self.arrays, g, span, self.period, partials, part, work
        )

    def derivatives(self, g):
        """g(f), from the predictions of all samples."""
        return g(self.f, self.f_powers if self.is_checked else 0)

    # -- results --------------------------------------------------------------------------------

    def tangent_deltas(self):
        """The sum of the parts, made orthogonal to U."""
        out = np.empty(self.parts.shape[1], self.dtype)
        kinds, scales, r = self.batch.kinds, self.batch.scales, self.left.rank
        with scratch("sweep", r * (r + self.left.rows), self.dtype) as work:
            if self.in_gauge:
                finish_deltas_in_gauge(
                    self.parts, kinds, scales, self.train, *self.gauges, self.skip, out, work
                )
            else:
                finish_deltas(self.parts, kinds, scales, self.train, out, work)
        return out

    def plain_deltas(self):
        """The sum of the parts as it is."""
        out = np.empty(self.parts.shape[1], self.dtype)
        sum_deltas(self.parts, self.batch.kinds, self.batch.scales, self.train, out)
        return out
