"""Batches on the CPU: how samples are split, what memory they take, on which threads they run.

Samples are cut into chunks, whose deltas are added in order, and those into blocks, whose partial
products stay in cache. Chunks depend on the number of samples and the shape alone, so that results
have the same bits for any number of threads.
"""

import functools
from typing import NamedTuple

import numpy as np

from . import contract as contraction
from . import gauge, project, threads, workspace
from .layout import BLOCK, NUMERIC, PADDING, VECTOR, Train

BLOCK_SIZES = [n for n in range(PADDING, BLOCK + 1, PADDING) if BLOCK % n == 0]
BLOCK_BYTES = 24 * 1024  # partial products of a block of samples: L1, as a tile reads a part
PARTIALS_BYTES = 1024 * 1024  # right partial products that are kept at once, if g is known: L2
KEPT_BYTES = 128 * 1024 * 1024  # .. and if g has to wait for the predictions of the whole batch
MOST_CHUNKS = 32
SAMPLES_PER_CHUNK = 480
PARALLEL_FLOPS = 2_000_000  # below this, waking a thread costs more than it saves
# Of the changes to the identity gauge, in the maximum norm, by itemsize and times the rank: keeps
# 12 digits of float64 and 4 of float32, measured on random trains.
WORST_CONDITION = {8: 150.0, 4: 15.0}
NO_POWERS = np.empty(0, np.int64)


class Gauge(NamedTuple):
    """A train in the identity gauge: which cores have it, and the change of gauge T, by bond."""

    train: Train
    identity: np.ndarray
    T: np.ndarray


def identity_gauge(train) -> Gauge:
    """The train in the identity gauge, in O(d n r^3)."""
    dtype, r = train.data.dtype, train.rank
    data, T = np.empty_like(train.data), np.empty(int((train.ranks**2).sum()), dtype)
    identity = np.empty(len(train.sizes), np.bool_)
    worst = WORST_CONDITION[dtype.itemsize] * r
    with workspace.lend("sweep", r * (3 * r + 3), dtype) as work:
        gauge.identity_gauge(tuple(train), worst, data, T, identity, work)
    return Gauge(train._replace(data=data), identity, T)


def _round_up(n, step):
    return -(-n // step) * step


def block_size(r, itemsize, m):
    """Samples that are taken at once: a divisor of BLOCK, whose partial products stay in L1."""
    return min(_largest_block(r * itemsize), _round_up(max(m, 1), PADDING))


@functools.cache
def _largest_block(sample_bytes):
    return max(n for n in BLOCK_SIZES if n * sample_bytes <= BLOCK_BYTES or n == PADDING)


def contract(train, identity, batch, m, period):
    """<W, X_s> = mantissas 2^exponents, for m samples, in O(d n r^2) a sample."""
    dtype, r = train.data.dtype, train.rank
    mantissas, exponents = np.empty(m, dtype), np.empty(m, np.int64)
    block = block_size(r, dtype.itemsize, m)

    def task(first, last):
        start, stop = first * block, min(last * block, m)
        with workspace.lend("rows", (2 * r + 1) * block, dtype) as work:
            contraction.contract(
                tuple(train), identity, tuple(batch), start, stop, block, period,
                mantissas, exponents, work,
            )  # fmt: skip

    threads.run(task, -(-m // block), 2 * m * len(train.data) > PARALLEL_FLOPS)
    return mantissas, exponents


def gradient(left, right, batch, m, g, period):
    """Deltas of the projection of sum_s g_s X_s, in O(d n r^2 (m + r)).

    `g` is an array, or a function that is called once, with the predictions f 2^powers of all
    samples as (f, powers), and gives the array.
    """
    job = _Job(left, right, batch, m, period, in_tangent=True)
    job.accumulate(g)
    return job.finish()


def core_gradient(train, mirrored, batch, m, g, period):
    """Derivatives of sum_s g_s <W, X_s> in the cores, in O(d n r^2) a sample.

    `mirrored` is the reversed train; `g` is as for `gradient`.
    """
    job = _Job(train, mirrored, batch, m, period, in_tangent=False)
    job.accumulate(g)
    return job.add_up()


class _Job:
    """One gradient: its trains, the split of its samples, and what has been computed so far.

    in_tangent: the trains are a point's orthogonal gauges, which the identity gauge may replace.
    """

    def __init__(self, left, right, batch, m, period, in_tangent):
        self.train, self.batch, self.m, self.period = tuple(left), tuple(batch), m, period
        d, r, self.dtype = len(left.sizes), left.rank, left.data.dtype
        self.is_checked = period <= d
        self.per_sample = sum(left.ranks.tolist())
        self.block = block_size(r, self.dtype.itemsize, m)
        # The identity gauge saves up to 6 r^2 of 12 r^2 operations a sample and core, and costs
        # about 100 r^3 a core. It has no place for powers of two.
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
        self.rows = 4 * r * self.block
        most = KEPT_BYTES // left.data.nbytes
        n_chunks = max(1, min(MOST_CHUNKS, m // SAMPLES_PER_CHUNK, most))
        self.chunk = max(PADDING, _round_up(-(-m // n_chunks), self.block))
        self.n_chunks = max(1, -(-m // self.chunk))
        self.is_large = 6 * m * len(left.data) > PARALLEL_FLOPS
        self.parts = np.zeros((self.n_chunks, len(left.data)), self.dtype)
        self.f = np.empty(m, self.dtype)
        self.f_powers = np.empty(m, np.int64) if self.is_checked else NO_POWERS

    def accumulate(self, g):
        """Fill the parts, in the way that suits the size of the batch."""
        if callable(g) and self.m * self.per_sample * self.dtype.itemsize > KEPT_BYTES:
            train, dense = Train(*self.train), np.zeros(len(self.skip), np.bool_)
            g = g(*contract(train, dense, self.batch, self.m, self.period))
        if self.n_chunks == 1:
            self.take_one_chunk(g)
        elif callable(g):
            self.keep_partials(g)
        else:
            self.hold_few_partials(g)

    def room(self, n):
        """Elements that the partial products of n samples take, and their powers of two."""
        n = _round_up(n, self.block)
        powers = n * (len(self.skip) // self.period + 2) if self.is_checked else 0
        return n * self.per_sample, powers

    def run(self, task):
        """Call task(c, start, stop, work) for every chunk c of samples."""

        def chunks(first, last):
            with workspace.lend("rows", self.rows, self.dtype) as work:
                for c in range(first, last):
                    task(c, c * self.chunk, min((c + 1) * self.chunk, self.m), work)

        threads.run(chunks, self.n_chunks, self.is_large)

    def partials(self, start, stop, Q, powers, work):
        train, identity = self.gauges[1][:2]
        project.right_partials(
            train, identity, self.batch, start, stop, self.block, self.period,
            Q, powers, self.f, self.f_powers, work,
        )  # fmt: skip

    def deltas(self, g, start, stop, Q, powers, part, work):
        train, identity = self.gauges[0][:2]
        project.accumulate_deltas(
            train, identity, self.skip, self.batch, g, start, stop, self.block, self.period,
            Q, powers, part, work,
        )  # fmt: skip

    def derivatives(self, g):
        """g(f), from the predictions of all samples."""
        return g(self.f, self.f_powers if self.is_checked else 0)

    def take_one_chunk(self, g):
        """A small batch, in which each call of a function counts."""
        Q_room, power_room = self.room(self.m)
        powers = np.empty(power_room, np.int64) if power_room else NO_POWERS
        with (
            workspace.lend("partials", Q_room, self.dtype) as Q,
            workspace.lend("rows", self.rows, self.dtype) as work,
        ):
            self.partials(0, self.m, Q, powers, work)
            g = self.derivatives(g) if callable(g) else g
            self.deltas(g, 0, self.m, Q, powers, self.parts[0], work)

    def keep_partials(self, g):
        """Right partial products of all samples are kept: g depends on all predictions."""
        Q_room, power_room = self.room(self.chunk)
        Q = workspace.take("partials", self.n_chunks * Q_room, self.dtype)
        powers = np.empty(self.n_chunks * power_room, np.int64)

        def first_pass(c, start, stop, work):
            self.partials(start, stop, Q[c * Q_room :], powers[c * power_room :], work)

        def second_pass(c, start, stop, work):
            kept = Q[c * Q_room :], powers[c * power_room :]
            self.deltas(g, start, stop, *kept, self.parts[c], work)

        self.run(first_pass)
        g = self.derivatives(g)
        self.run(second_pass)
        workspace.give("partials", Q)

    def hold_few_partials(self, g):
        """Only a few samples' partial products are held at a time, in cache: g must be known."""
        few = PARTIALS_BYTES // (self.per_sample * self.dtype.itemsize)
        few = max(self.block, few // self.block * self.block)
        Q_room, power_room = self.room(min(few, self.chunk))

        def only_pass(c, start, stop, work):
            powers = np.empty(power_room, np.int64)
            with workspace.lend("partials", Q_room, self.dtype) as Q:
                for first in range(start, stop, few):
                    last = min(first + few, stop)
                    self.partials(first, last, Q, powers, work)
                    self.deltas(g, first, last, Q, powers, self.parts[c], work)

        self.run(only_pass)

    def finish(self):
        """The parts' sum, in the gauge of tangent vectors."""
        out = np.empty(self.parts.shape[1], self.dtype)
        kinds, _, scales, *_, r, rows = *self.batch, *self.train[4:]
        with workspace.lend("sweep", r * (r + rows), self.dtype) as work:
            if self.in_gauge:
                gauge.finish_deltas_in_gauge(
                    self.parts, kinds, scales, self.train, *self.gauges, self.skip, out, work
                )
            else:
                project.finish_deltas(self.parts, kinds, scales, self.train, out, work)
        return out

    def add_up(self):
        """The parts' sum, as it is."""
        out = np.empty(self.parts.shape[1], self.dtype)
        kinds, _, scales = self.batch[:3]
        project.sum_deltas(self.parts, kinds, scales, self.train, out)
        return out
