"""Serial kernels on several threads, and BLAS on one.

Kernels run on plain Python threads, as they release the GIL. Not numba's own threads: those abort
the process when two Python threads enter them at once (workqueue) or after a fork (OpenMP), and
neither may happen to a library in a server.
"""

import contextlib
import functools
import itertools
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numba
from threadpoolctl import ThreadpoolController

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


def _make_pool(n):
    """A pool with all of its n threads running; None if the system refuses a thread.

    At the end of the interpreter it always does. `submit` would start threads one by one, and fail
    after it has queued the work.
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


def run(task, n_items: int, parallel: bool) -> None:
    """Call task(first, last) on consecutive parts of range(n_items), on several threads.

    Each thread takes the next part as it finishes one: a core that is busy otherwise gets fewer.
    Where no thread can be had, as in an atexit handler, the caller's takes them all.
    """
    global _pool
    n = min(_n_threads, n_items) if parallel else 1
    pool = _pool
    if n > 1 and (pool is None or pool.n_workers < n - 1):
        pool = _pool = _make_pool(n - 1)
    if n <= 1 or pool is None:
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

    others = []
    try:
        # The pool takes no more work once the interpreter has begun to shut down.
        with contextlib.suppress(RuntimeError):
            for _ in range(n - 1):
                others.append(pool.submit(work))
        work()
    finally:
        # Also after an error or Ctrl-C: nothing may go on writing behind the caller's back.
        parts.clear()
        for other in others:
            other.exception()
    for other in others:
        other.result()


# -- threads of BLAS ------------------------------------------------------------------------------


class _Limit:
    """One thread for some libraries, from the first to enter to the last to leave."""

    def __init__(self):
        self.inside, self.before = 0, []

    def enter(self, libraries):
        if self.inside == 0:
            self.before = [(library, library.num_threads) for library in libraries]
            for library in libraries:
                _set_blas_threads(library, 1)
        self.inside += 1

    def leave(self):
        self.inside -= 1
        if self.inside == 0:
            self.restore()

    def restore(self):
        for library, n in self.before:
            _set_blas_threads(library, n)


class _OwnLimit(_Limit, threading.local):
    """The same for each Python thread."""


# The number of threads is one for the process; but with OpenMP each Python thread has its own.
_limit, _own_limit, _limit_lock = _Limit(), _OwnLimit(), threading.Lock()


def _set_blas_threads(library, n):
    # threadpoolctl 3.8 ignores all threads but the one that has set a number first, and
    # has not left its block: that may be another than the one that comes first, or goes last, here.
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
    library.set_num_threads(n)
    if clear is not None:
        clear()


@functools.cache
def _blas_libraries():
    """Those with one number of threads for the process, and those with one for a Python thread."""
    # numpy and scipy bring a BLAS each, and numba's linear algebra calls scipy's.
    import scipy.linalg  # noqa: F401

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [library for library in libraries if library.info().get("threading_layer") == "openmp"]
    return [library for library in libraries if library not in own], own


@contextlib.contextmanager
def single_threaded_blas():
    """Run a block, or as a decorator a function, with one thread in every BLAS.

    BLAS splits sums by its number of threads, so that bits depend on it; and threads that wait for
    each other make small factorisations many times slower on a busy machine. Blocks may be nested,
    and run in several Python threads at once: the number is restored when the last one ends, also
    after an error. About 40 us for the outermost block, 3 us within another.

    A BLAS that threadpoolctl does not know (Apple's Accelerate) is left alone.
    """
    with _limit_lock:
        shared, own = _blas_libraries()
        _limit.enter(shared)
        _own_limit.enter(own)
    try:
        yield
    finally:
        with _limit_lock:
            _own_limit.leave()
            _limit.leave()


# -- forks ----------------------------------------------------------------------------------------


def _after_fork_in_child():
    """Of all threads only the one that forked is there; it may be within `single_threaded_blas`."""
    global _pool
    _pool = None
    _limit_lock.release()
    if _limit.inside and not _own_limit.inside:
        _limit.restore()
    _limit.inside = _own_limit.inside


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_limit_lock.acquire,
        after_in_parent=_limit_lock.release,
        after_in_child=_after_fork_in_child,
    )
