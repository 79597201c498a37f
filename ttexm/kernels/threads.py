"""Serial kernels on several threads: plain Python threads, as kernels release the GIL.

Not numba's own threads: those abort the process when two Python threads enter them at once
(workqueue) or after a fork (OpenMP), and neither may happen to a library in a server.
"""

import itertools
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numba

PARTS_PER_THREAD = 16  # small ones even out cores that others use as well

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


def _forget_pool():
    """In a forked child the threads of the pool do not exist."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def run(task, n_items: int, parallel: bool) -> None:
    """Call task(first, last) on consecutive parts of range(n_items), on several threads.

    Each thread takes the next part as it finishes one: a core that is busy otherwise gets fewer.
    """
    global _pool
    n = min(_n_threads, n_items) if parallel else 1
    if n <= 1:
        task(0, n_items)
        return
    pool = _pool
    if pool is None or pool.n_workers < n - 1:
        pool = _pool = ThreadPoolExecutor(n - 1, thread_name_prefix="ttexm")
        pool.n_workers = n - 1
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

    others = [pool.submit(work) for _ in range(n - 1)]
    try:
        work()
    finally:
        # Also after an error or Ctrl-C: nothing may go on writing behind the caller's back.
        parts.clear()
        for other in others:
            other.exception()
    for other in others:
        other.result()
