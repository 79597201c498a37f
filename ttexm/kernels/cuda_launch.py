"""Launching CUDA kernels: compiled once, memory on the device, trains as the kernels want them."""

import functools
from typing import NamedTuple

import numpy as np
from numba import config, cuda

from . import cuda_dense, cuda_tiles
from .layout import Train

IS_SIMULATED = bool(config.ENABLE_CUDASIM)
THREADS = 4 if IS_SIMULATED else cuda_dense.THREADS  # of blocks that may have any number of them
MOST_BLOCKS = 4096  # of kernels that may have any number of them
SHARE = 0.8  # of the free memory that is used at most


@functools.cache
def compiled(function):
    """The kernel of a plain function."""
    # Without optimisation at link time: compiled as the tests compile it.
    options = {"launch_bounds": getattr(function, "launch_bounds", None), "lto": False}
    return cuda.jit(**({} if IS_SIMULATED else options))(function)


def launch(function, grid, *arguments, threads=THREADS, stream=0, shared=0):
    """Run a kernel; a grid without blocks is none."""
    if np.prod(grid) > 0:
        compiled(function)[grid, threads, stream, shared](*arguments)


def launch_block(function, grid, *arguments):
    """Run a kernel of `cuda_dense`."""
    shared = cuda_dense.SHARED_NUMBERS * THREADS * 8
    launch(function, grid, *arguments, shared=shared)


def send(array, dtype=None, stream=0):
    """A copy on the device."""
    return cuda.to_device(np.ascontiguousarray(array, dtype), stream=stream)


def empty(n, dtype):
    """Memory on the device, uninitialised."""
    return cuda.device_array(max(1, int(n)), dtype)


def zeros(n, dtype):
    """Memory on the device, all zero."""
    a = empty(n, dtype)
    launch(cuda_tiles.clear, min(MOST_BLOCKS, -(-a.size // THREADS)), a)
    return a


def free_bytes() -> float:
    """Memory of the device that may be used now."""
    return SHARE * cuda.current_context().get_memory_info().free


def padded(rank: int) -> int:
    """The rank that kernels over samples are compiled for."""
    for R in cuda_tiles.RANKS:
        if rank <= R:
            return R
    raise ValueError(
        f"On a GPU ranks (for two-site sweeps, times the size of a mode) can be at most "
        f"{cuda_tiles.RANKS[-1]}, got {rank}; use device='cpu'."
    )


class DeviceTrain(NamedTuple):
    """A train on the device, in float64 whatever the model's precision, and its index arrays."""

    data: object
    ranks: object
    sizes: object
    offsets: object
    first: object  # (d + 1,) the number of slots before core k
    core_of: object  # (slots,) the core of a slot
    d: int
    rank: int
    rows: int
    n_slots: int

    @property
    def shape(self):
        """Arrays and numbers in the order that kernels of one block take them."""
        return self.ranks, self.sizes, self.offsets


def send_train(train: Train) -> DeviceTrain:
    """Copy a train: one transfer of its numbers, one of its indices."""
    d = len(train.sizes)
    first = np.concatenate([[0], np.cumsum(train.sizes)])
    core_of = np.repeat(np.arange(d), train.sizes)
    parts = [train.ranks, train.sizes, train.offsets, first, core_of]
    indices, ends = send(np.concatenate(parts), np.int64), np.cumsum([len(part) for part in parts])
    views = [indices[end - len(part) : end] for part, end in zip(parts, ends, strict=True)]
    return DeviceTrain(
        send(train.data, np.float64), *views, d, train.rank, train.rows, int(first[-1])
    )


def pad(train: DeviceTrain, R: int, dtype):
    """The cores as kernels over samples take them, in the model's precision."""
    cores = empty(train.n_slots * R * R, dtype)
    launch(
        cuda_tiles.pad, train.n_slots, train.data, train.ranks, train.offsets, train.first,
        train.core_of, R, cores,
    )  # fmt: skip
    return cores
