"""What launches need: kernels compiled for a signature, memory on the device, trains in it."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numba import config, cuda

from ..layout import Train

IS_SIMULATED = bool(config.ENABLE_CUDASIM)
THREADS = 4 if IS_SIMULATED else 128  # of a block, in kernels that allow any number
SHARE = 0.8  # of the free memory, at most, is used

# Types in the signatures of kernels.
INTEGER, FLAG = numba.int64, numba.boolean
INTEGERS, CODES, FLAGS, DOUBLES = (
    numba.int64[::1], numba.int32[::1], numba.boolean[::1], numba.float64[::1]
)  # fmt: skip


def tuple_of(*types):
    """The type of a tuple argument."""
    return numba.types.Tuple(types)


def batch_type(array):
    """The type of a batch: the fields of `layout.Batch`, for an array type of its numbers."""
    return tuple_of(INTEGERS, INTEGERS, array, array, CODES, INTEGER, INTEGER, INTEGER)


TRAIN = tuple_of(DOUBLES, INTEGERS, INTEGERS, INTEGERS, INTEGER, INTEGER)  # `layout.Train`
GROUPS = tuple_of(CODES, INTEGERS, CODES, INTEGERS, INTEGER)  # see `sample_kernels.group`


@dataclass(frozen=True, eq=False)
class Kernel:
    """A CUDA kernel, with the one signature that it is compiled for.

    Related arguments are passed as a tuple. The kernel is compiled for its signature, not by the
    types of a call: for the tuples of `partials`, numba would need 64 us per launch to find these.
    """

    function: Callable
    signature: tuple
    dtype: str  # of what it computes
    rank: int | None = None  # padded; None if the kernel takes any
    threads: int = THREADS
    dynamic_shared: int = 0  # bytes of a block
    launch_bounds: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return self.function.__name__

    @functools.cached_property
    def _compiled(self):
        if IS_SIMULATED:
            return cuda.jit(self.function)
        # Without optimisation at link time, like the builds that the tests check.
        options = {"launch_bounds": self.launch_bounds, "lto": False}
        return cuda.jit(self.signature, **options)(self.function)

    def launch(self, grid, *arguments, stream=0) -> None:
        """Run the kernel; a grid without blocks is none."""
        if (grid if isinstance(grid, int) else math.prod(grid)) > 0:
            self._compiled[grid, self.threads, stream, self.dynamic_shared](*arguments)

    def launch_per(self, n: int, *arguments) -> None:
        """Run the kernel with at least one thread for each of n items."""
        self.launch(-(-n // self.threads), *arguments)


def send(array, dtype=None, stream=0):
    """Return a copy on the device."""
    return cuda.to_device(np.ascontiguousarray(array, dtype), stream=stream)


def empty(n, dtype):
    """Return memory on the device, uninitialised."""
    return cuda.device_array(max(1, int(n)), dtype)


def free_bytes() -> float:
    """Return how much memory of the device may be used now."""
    return SHARE * cuda.current_context().get_memory_info().free


class DeviceTrain(NamedTuple):
    """A train on the device, in float64 whatever the model's precision, and its index arrays."""

    data: object
    ranks: object
    sizes: object
    offsets: object
    first_slots: object  # (d + 1,) the number of slots before core k
    slot_cores: object  # (slots,) the core of a slot
    d: int
    rank: int
    rows: int
    n_slots: int

    @property
    def arguments(self) -> tuple:
        """The train as kernels of one block take it: the fields of `layout.Train`."""
        return self.data, self.ranks, self.sizes, self.offsets, self.rank, self.rows


def send_train(train: Train) -> DeviceTrain:
    """Copy a train: one transfer of its numbers, one of its indices."""
    d = len(train.sizes)
    first_slots = np.concatenate([[0], np.cumsum(train.sizes)])
    slot_cores = np.repeat(np.arange(d), train.sizes)
    parts = [train.ranks, train.sizes, train.offsets, first_slots, slot_cores]
    indices, ends = send(np.concatenate(parts), np.int64), np.cumsum([len(part) for part in parts])
    views = [indices[end - len(part) : end] for part, end in zip(parts, ends, strict=True)]
    data = send(train.data, np.float64)
    return DeviceTrain(data, *views, d, train.rank, train.rows, int(first_slots[-1]))
