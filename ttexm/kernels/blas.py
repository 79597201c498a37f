"""BLAS on one thread: for results that do not depend on the machine, and for small matrices."""

import contextlib
import functools
import os
import threading

from threadpoolctl import ThreadpoolController


class _Limit:
    """One thread for some libraries, from the first block that is entered to the last one left."""

    def __init__(self):
        self.depth, self.before = 0, []

    def enter(self, libraries):
        if self.depth == 0:
            self.before = [(library, library.num_threads) for library in libraries]
            for library in libraries:
                _set_threads(library, 1)
        self.depth += 1

    def leave(self):
        self.depth -= 1
        if self.depth == 0:
            self.restore()

    def restore(self):
        for library, n in self.before:
            _set_threads(library, n)


class _LocalLimit(_Limit, threading.local):
    """The same, kept apart for each Python thread."""


# A BLAS has one number of threads per process; built with OpenMP, it has one per Python thread.
_process_limit, _local_limit, _lock = _Limit(), _LocalLimit(), threading.Lock()


def _set_threads(library, n):
    # threadpoolctl 3.8 obeys only the Python thread that was the first to set a number, until that
    # thread leaves its block; here another thread may come first or leave last.
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
    library.set_num_threads(n)
    if clear is not None:
        clear()


@functools.cache
def _libraries():
    """Libraries with one number of threads per process, and those with one per Python thread."""
    # numpy and scipy each bring a BLAS, and numba's linear algebra calls scipy's.
    import scipy.linalg  # noqa: F401

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    local = [library for library in libraries if library.info().get("threading_layer") == "openmp"]
    return [library for library in libraries if library not in local], local


@contextlib.contextmanager
def single_threaded_blas():
    """Run a block, or as a decorator a function, with one thread in every BLAS.

    BLAS splits sums by its number of threads, so the bits of a result depend on that number; and
    on a busy machine, threads that wait for each other make small factorisations many times slower.
    Blocks may be nested and may run in several Python threads at once: the number of threads is
    restored when the last block ends, also after an error. The outermost block costs about 40 us, a
    block within another 3 us.

    A BLAS that threadpoolctl does not know (Apple's Accelerate) is left alone.
    """
    with _lock:
        shared, local = _libraries()
        _process_limit.enter(shared)
        _local_limit.enter(local)
    try:
        yield
    finally:
        with _lock:
            _local_limit.leave()
            _process_limit.leave()


def _after_fork_in_child():
    """Keep the blocks of the thread that forked; the other threads do not exist in the child."""
    _lock.release()
    if _process_limit.depth and not _local_limit.depth:
        _process_limit.restore()
    _process_limit.depth = _local_limit.depth


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_after_fork_in_child,
    )
