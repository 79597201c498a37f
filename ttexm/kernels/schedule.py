"""How work on many samples is cut up: blocks, chunks, threads, and scratch memory.

Samples are taken in blocks, whose partial products stay in cache. Sums over samples are formed by
chunk, a number of whole blocks, and the sums of the chunks are added in order. Blocks and chunks
depend on the number of samples and the shape of the tensor alone, so results have the same bits on
any number of threads.

Kernels are serial and release the GIL, and plain Python threads run them. numba's own threads would
abort the process when two Python threads enter them at once (workqueue) or after a fork (OpenMP).
"""

import contextlib
import functools
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np

from .layout import BLOCK, PADDING, aligned

BLOCK_SIZES = [n for n in range(PADDING, BLOCK + 1, PADDING) if BLOCK % n == 0]
BLOCK_BYTES = 24 * 1024  # partial products of a block: they stay in L1
MOST_CHUNKS = 32
SAMPLES_PER_CHUNK = 480
SUMS_BYTES = 128 * 1024 * 1024  # sums of all chunks
PARALLEL_FLOPS = 2_000_000  # below this, waking a thread costs more than it saves
PARTS_PER_THREAD = 16  # small parts, so that a core that is busy otherwise gets fewer of them
LARGEST_KEPT = 128 * 1024 * 1024  # bytes of one scratch array that is kept for the next call


# -- blocks and chunks ----------------------------------------------------------------------------


def block_size(m: int, sample_bytes: int) -> int:
    """Return how many of m samples are taken at once: a divisor of BLOCK, or all, padded.

    The partial products of a sample take `sample_bytes`, those of a block fit into L1.
    """
    return min(_largest_block(sample_bytes), -(-max(m, 1) // PADDING) * PADDING)


@functools.cache
def _largest_block(sample_bytes):
    return max(n for n in BLOCK_SIZES if n * sample_bytes <= BLOCK_BYTES or n == PADDING)


class Chunks(NamedTuple):
    """m samples in `count` chunks of `size` samples, a multiple of the block.

    The last chunk may be shorter.
    """

    m: int
    size: int
    count: int

    @classmethod
    def cut(cls, m: int, block: int, sum_bytes: int = 1) -> "Chunks":
        """Cut m samples; the sums of one chunk take `sum_bytes`."""
        most = max(1, min(MOST_CHUNKS, m // SAMPLES_PER_CHUNK, SUMS_BYTES // sum_bytes))
        size = max(1, -(-m // (most * block))) * block
        return cls(m, size, max(1, -(-m // size)))

    def merged(self, most: int) -> "Chunks":
        """Return at most `most` chunks, each made of whole ones of these."""
        if self.count <= most:
            return self
        size = -(-self.count // max(1, most)) * self.size
        return Chunks(self.m, size, max(1, -(-self.m // size)))

    def run(self, task, flops: float, n_scratch: int, dtype) -> None:
        """Call task(c, start, stop, work) for every chunk c, on several threads if that pays off.

        A chunk holds the samples start .. stop - 1; `work` is scratch memory of n_scratch elements.
        """
        m, size, count = self

        def run_some(first, last):
            with scratch("rows", n_scratch, dtype) as work:
                for c in range(first, last):
                    task(c, c * size, min((c + 1) * size, m), work)

        run(run_some, count, flops)


# -- threads --------------------------------------------------------------------------------------

_n_threads = numba.config.NUMBA_NUM_THREADS
_pool = None


def get_num_threads() -> int:
    """Return how many threads a large computation may use.

    Examples
    --------
    >>> import ttexm
    >>> ttexm.get_num_threads() >= 1
    True
    """
    return _n_threads


def set_num_threads(n: int) -> None:
    """Set how many threads a large computation may use; results do not depend on it.

    Parameters
    ----------
    n : int
        At least 1. The default is ``NUMBA_NUM_THREADS``, or the number of cores.

    Examples
    --------
    >>> import ttexm
    >>> before = ttexm.get_num_threads()
    >>> ttexm.set_num_threads(1)
    >>> ttexm.set_num_threads(before)
    """
    global _n_threads
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"The number of threads must be an int, got {n!r}.")
    if n < 1:
        raise ValueError(f"The number of threads must be at least 1, got {n}.")
    _n_threads = n


def _make_pool(n):
    """Return a pool with all of its n threads running; None if the system refuses a thread.

    The interpreter refuses threads while it shuts down. `submit` would start them one by one, and
    would fail only after it has queued the work.
    """
    pool, is_complete = ThreadPoolExecutor(n, thread_name_prefix="ttexm"), threading.Event()
    try:
        for _ in range(n):
            pool.submit(is_complete.wait)
    except RuntimeError:
        return None
    finally:
        is_complete.set()
    pool.n_workers = n
    return pool


def useful_threads(n_items: int, flops: float) -> int:
    """Return how many threads should share work: one if it is little, or one of several tasks."""
    if flops <= PARALLEL_FLOPS or _kept.is_beside:
        return 1
    return min(_n_threads, n_items)


def run(task, n_items: int, flops: float) -> None:
    """Call task(first, last) on consecutive parts of range(n_items), on several threads.

    Each thread fetches the next part when it has finished one. If there are fewer than
    PARALLEL_FLOPS in all, or if no thread can be had (in an atexit handler), the calling thread
    does everything.
    """
    n = useful_threads(n_items, flops)
    if n <= 1:
        task(0, n_items)
        return
    n_parts = min(n_items, n * PARTS_PER_THREAD)
    edges = [n_items * i // n_parts for i in range(n_parts + 1)]
    parts = deque(itertools.pairwise(edges))

    def work():
        while True:
            try:
                first, last = parts.popleft()
            except IndexError:
                return
            task(first, last)

    run_with_helpers(work, work, parts.clear, n)


def run_with_helpers(work: Callable, help_out: Callable, stop: Callable, n: int) -> Any:
    """Call work() here and help_out() on n - 1 other threads, as far as they can be had.

    Returns the result of work(). Helpers must return soon after that, or after stop().
    """
    global _pool
    pool, helpers = _pool, []
    if n > 1 and (pool is None or pool.n_workers < n - 1):
        pool = _pool = _make_pool(n - 1)
    try:
        # The pool accepts no more work once the interpreter has begun to shut down.
        with contextlib.suppress(RuntimeError):
            for _ in range(n - 1 if pool is not None else 0):
                helpers.append(pool.submit(help_out))
        result = work()
    finally:
        # Also after an error or Ctrl-C: no thread may go on writing after the caller has returned.
        stop()
        started = [helper for helper in helpers if not helper.cancel()]
        for helper in started:
            helper.exception()
    for helper in started:
        helper.result()
    return result


def run_side_by_side(tasks: list[Callable], n_shares: int = 1) -> list:
    """Return the results of independent tasks, each on one thread of its own.

    What a task computes in parallel it computes alone then: the other threads have tasks as well.
    The tasks that are left over, when every thread has had the same number of them, are done one
    after the other by all threads, if that is faster: a task keeps up to `n_shares` threads busy.
    """
    results = [None] * len(tasks)

    def run_some(first, last):
        was_beside, _kept.is_beside = _kept.is_beside, True
        try:
            for j in range(first, last):
                results[j] = tasks[j]()
        finally:
            _kept.is_beside = was_beside

    n_threads = useful_threads(_n_threads, np.inf)
    n_left = len(tasks) % n_threads
    if len(tasks) > 1 and n_left >= min(n_threads, n_shares):
        n_left = 0
    run(run_some, len(tasks) - n_left, np.inf)
    for j in range(len(tasks) - n_left, len(tasks)):
        results[j] = tasks[j]()
    return results


def _after_fork_in_child():
    """Forget the pool: of all threads, only the one that forked exists in the child."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# -- scratch memory: a fresh array of megabytes costs more than a pass over it --------------------


class _Kept(threading.local):
    def __init__(self):
        self.arrays = {}
        self.is_beside = False  # whether the thread runs one of several tasks side by side


_kept = _Kept()


def acquire(role: str, n: int, dtype) -> np.ndarray:
    """Return an aligned, uninitialised array of at least n elements; the thread's own if it fits.

    Nobody else gets this array before `release`: a computation within another gets a second one.
    """
    # np.float64 and its dtype are equal, but have different hashes.
    array = _kept.arrays.pop((role, np.dtype(dtype)), None)
    return array if array is not None and len(array) >= n else aligned(n, dtype)


def release(role: str, array: np.ndarray) -> None:
    """Keep an array for the next `acquire` of its role."""
    if array.nbytes <= LARGEST_KEPT:
        _kept.arrays[role, array.dtype] = array


class scratch:  # noqa: N801, used like a function
    """``with scratch(role, n, dtype) as array``: `acquire`, then `release`."""

    __slots__ = ("array", "role")

    def __init__(self, role: str, n: int, dtype):
        self.role, self.array = role, acquire(role, n, dtype)

    def __enter__(self) -> np.ndarray:
        return self.array

    def __exit__(self, *_) -> None:
        release(self.role, self.array)
