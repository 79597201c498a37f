"""Threads that share the chunks of one pass after another, without leaving the kernel.

Waking a Python thread takes longer than a pass over some thousand samples. So all threads of a
sweep stay in the kernel. The main thread offers the chunks of a pass; it and the helpers claim them
one by one, by an atomic counter. The main thread waits only for chunks that somebody has claimed:
where helpers start late, or not at all, it does the work alone.
"""

import sys

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from .compilation import inner
from .tiles import INTP, shift

COUNTERS_PER_LINE = 8  # of a cache: each counter has a line of its own
NEXT = 0  # the next chunk to claim; there is none from the number of chunks on
DONE = COUNTERS_PER_LINE  # chunks that are done
ENDED = 2 * COUNTERS_PER_LINE  # 1: helpers return
PATIENCE = 100  # looks at a counter before a thread lets others run
HAS_YIELD = sys.platform != "win32"


def make_counters() -> np.ndarray:
    """Return counters that offer nothing yet."""
    counters = np.zeros(3 * COUNTERS_PER_LINE, np.int64)
    counters[NEXT] = np.iinfo(np.int64).max // 2
    return counters


# -- atomic operations -----------------------------------------------------------------------------


@intrinsic
def _read(typing, p):
    """p[0]. What the thread that wrote it had written before is there, too."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(args[0], "acquire", 8, typ=ir.IntType(64))

    return INTP(p), codegen


@intrinsic
def _write(typing, p, x):
    """p[0] = x, after all that this thread has written before."""

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[1], args[0], "release", 8)
        return context.get_dummy_value()

    return numba.types.void(p, INTP), codegen


@intrinsic
def _increase(typing, p):
    """p[0] += 1; returns what it was before."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", args[0], ir.IntType(64)(1), "acq_rel")

    return INTP(p), codegen


@intrinsic
def _let_others_run(typing):
    """Give up the rest of the time slice, if another thread waits for this core."""

    def codegen(context, builder, signature, args):
        if HAS_YIELD:
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return numba.types.void(), codegen


# -- chunks ----------------------------------------------------------------------------------------


@inner
def offer(counters):
    """Let chunks be claimed, from the first one on."""
    _write(shift(counters, DONE), 0)
    _write(shift(counters, NEXT), 0)


@inner
def claim(counters, n_chunks):
    """The number of a chunk that nobody else has; n_chunks or more if there is none."""
    # Only to look costs less than to write, and keeps the counter small.
    if _read(shift(counters, NEXT)) >= n_chunks:
        return n_chunks
    return _increase(shift(counters, NEXT))


@inner
def finish(counters):
    """Say that a chunk which was claimed is done."""
    _increase(shift(counters, DONE))


@inner
def wait_until_done(counters, n_chunks):
    """Wait for the chunks that others have claimed, once there are no more to claim."""
    looks = 0
    while _read(shift(counters, DONE)) < n_chunks:
        looks += 1
        if looks > PATIENCE:
            _let_others_run()


@inner
def wait_for_offer(counters, n_chunks):
    """Wait until there are chunks to claim; False if there will be none any more."""
    looks = 0
    while _read(shift(counters, NEXT)) >= n_chunks:
        if _read(shift(counters, ENDED)) != 0:
            return False
        looks += 1
        if looks > PATIENCE:
            _let_others_run()
    return True


@inner
def dismiss(counters):
    """Let all helpers return."""
    _write(shift(counters, ENDED), 1)
