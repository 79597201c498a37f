"""How kernels are compiled, and what makes a compiled kernel stale.

Numba keys its disk cache by the file of the function alone: after a change to a function that it
calls in another file, the old machine code would still be served. Here the key covers every source
file of this package, so kernels may share code freely.
"""

import functools
import hashlib
import os
from pathlib import Path

import llvmlite.binding
import numba
from numba.extending import register_jitable

if numba.config.DISABLE_JIT:
    # Kernels are made of intrinsics and pointers, for which Python has no counterpart.
    raise ImportError(
        "ttexm cannot run with NUMBA_DISABLE_JIT=1: its kernels exist as machine code alone. Unset "
        "it; to look for indices out of bounds, set NUMBA_BOUNDSCHECK=1 instead."
    )

# Fast-math without `nnan` and `ninf`: NaN and inf in the data must stay visible.
FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}


def _vector_bytes():
    """Width of the machine's vector registers; TTEXM_VECTOR_BYTES overrides it (32 or 64)."""
    override = os.environ.get("TTEXM_VECTOR_BYTES")
    if override is not None:
        if override not in ("32", "64"):
            raise ValueError(f"TTEXM_VECTOR_BYTES must be 32 or 64, got {override!r}.")
        return int(override)
    return 64 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 32


VECTOR_BYTES = _vector_bytes()


@functools.cache
def _source_stamp():
    """Hash of all that decides the machine code of any kernel, next to numba's own key."""
    stamp = hashlib.sha256(str(VECTOR_BYTES).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):  # not those of cuda/
        stamp.update(path.read_bytes())
    return stamp.digest()


_njit = functools.partial(numba.njit, nogil=True, error_model="numpy", fastmath=FASTMATH)


def kernel(function):
    """Compile an entry point: releases the GIL, and is cached on disk where that is possible.

    Without a writable cache directory, or if numba's cache has changed its insides so that its key
    cannot be extended, the kernel is compiled anew in each process: slower to start, never stale.
    """
    try:
        dispatcher = _njit(cache=True)(function)
        cache_file = dispatcher._cache._cache_file
        if not isinstance(cache_file._source_stamp, bytes):
            raise AttributeError("numba's source stamp is no longer a hash")
        cache_file._source_stamp = _source_stamp()
    except (AttributeError, RuntimeError):
        dispatcher = _njit(cache=False)(function)
    return dispatcher


def inner(function):
    """Make a function one that kernels can call: its code is cached within theirs.

    An overload, not a dispatcher: a dispatcher would be compiled anew for each literal integer or
    boolean among its arguments.
    """
    return register_jitable(error_model="numpy", fastmath=FASTMATH)(function)
