"""A CUDA simulator that sees what numba's does not: races, diverging barriers, bounds, garbage.

    with Simulator(order="shuffled", seed=3):
        kernel[grid, block](a, b)

Where numba's simulator is on (NUMBA_ENABLE_CUDASIM=1), kernels launched within run here instead. A
`RaceError`, `DivergenceError`, `BoundsError` or `UnwrittenError` names the kernel, the array, the
threads and the source lines. CUDA threads are greenlets: each runs to its next barrier, then the
next one does. Their order, and that of the blocks, must not matter, so that a test can choose it.
With `recorded=False` kernels work on numpy arrays: fast, but then only diverging barriers are seen.

Kernels may use what ours do: flat contiguous arrays, slices of step 1, scalars, tuples of these
(their elements are named like `train[0]`), device functions, `shared.array` and `local.array` of
one dimension, `syncthreads`, the indices, `math`. Host arrays are worked on in place, so that two
of them can share memory; a GPU would get a copy of each.
"""

import functools
import math
import random
import sys
import threading
from contextlib import ExitStack, suppress
from operator import index
from types import SimpleNamespace
from unittest import mock

import numpy as np

# Python threads could hand over by locks, but that takes several times as long.
from greenlet import getcurrent, greenlet
from simulator_arrays import (
    Arguments,
    BoundsError,
    Conflict,
    DivergenceError,
    PlainArrays,
    RaceError,
    RecordedArrays,
    SimulatorError,
    UnwrittenError,
    block_index,
    block_size,
    grid_size,
    lines,
    place,
    running_thread,
    state,
    thread_index,
    unwritten,
)

__all__ = [
    "BoundsError",
    "DivergenceError",
    "RaceError",
    "Simulator",
    "SimulatorError",
    "UnwrittenError",
]

ORDERS = {
    "ascending": lambda items, rng: items,
    "descending": lambda items, rng: items[::-1],
    "shuffled": lambda items, rng: rng.sample(items, len(items)),
}


class Simulator:
    """Kernels launched within a `with`, or between `install` and `uninstall`, run simulated.

    Parameters
    ----------
    recorded : bool
        Whether uses of elements are checked.
    order : {"ascending", "descending", "shuffled"}
        Order of the blocks, and of the threads from barrier to barrier.
    seed : int
        Seed of the shuffles, the same ones in each launch.
    """

    def __init__(self, recorded=True, order="ascending", seed=0):
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}.")
        self.recorded, self.order, self.seed = recorded, order, seed
        self._patches = ExitStack()

    def __enter__(self):
        self.install()
        return self

    def __exit__(self, *error):
        self.uninstall()

    def uninstall(self):
        self._patches.close()

    def install(self):
        # numba is imported here, as tests without a simulator import this module as well.
        from numba import config, cuda

        if not config.ENABLE_CUDASIM:
            raise RuntimeError(
                "there is nothing to simulate: set NUMBA_ENABLE_CUDASIM=1 before numba is imported."
            )

        from numba.cuda.simulator.cudadrv import devicearray
        from numba.cuda.simulator.kernel import FakeCUDAKernel

        def call(jitted, *args):
            if state.launch is not None:
                return jitted.fn(*args)
            return self._launch(jitted, args)

        make, device = devicearray.device_array, devicearray.FakeCUDAArray
        copy, put = device.copy_to_device, device.__setitem__

        def device_array(*args, **kwargs):
            array = make(*args, **kwargs)
            unwritten.add(array._ary)
            return array

        def copy_to_device(array, *args, **kwargs):
            copy(array, *args, **kwargs)
            unwritten.discard(array._ary)

        def setitem(array, where, value):
            put(array, where, value)
            unwritten.discard(array._ary, where)

        # numba sets `cuda` in the globals of each function; but a function may have it elsewhere.
        patches = [(cuda, name, value) for name, value in CUDA.items()]
        patches += [(module, "device_array", device_array) for module in (cuda, devicearray)]
        patches += [(device, "copy_to_device", copy_to_device), (device, "__setitem__", setitem)]
        for patch in [*patches, (FakeCUDAKernel, "__call__", call)]:
            self._patches.enter_context(mock.patch.object(*patch, create=True))

    def _launch(self, kernel, args):
        from numba.cuda.errors import normalize_kernel_dimensions
        from numba.cuda.simulator.args import ArgHint
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

        def prepared(arg):
            if isinstance(arg, ArgHint):
                arg = arg.to_device(hints)
            if isinstance(arg, FakeCUDAArray):
                return arg._ary
            # As a GPU takes it; Python's would stay float32 when multiplied with float32.
            return np.float64(arg) if arg.__class__ is float else arg

        hints = []
        args = Arguments.given(kernel.fn, args).changed(prepared)
        sizes = normalize_kernel_dimensions(kernel.grid_dim, kernel.block_dim)
        dynamic = kernel.dynshared_size
        make_launch = functools.partial(Launch, kernel.fn, *sizes, dynamic, self.order, self.seed)
        if self.recorded:
            run_recorded(make_launch, args)
        else:
            make_launch(PlainArrays()).run(args)
        for copy_back in hints:
            copy_back()


def run_recorded(make_launch, args):
    before = [(array, array.copy()) for array in args.arrays]
    try:
        make_launch(RecordedArrays()).run(args)
    except Conflict as conflict:
        # Lines are not recorded, as that slows down every use: they are seen in a second run.
        for array, values in before:
            if array.flags.writeable:
                array[:] = values
        arrays = RecordedArrays(watched=conflict.element)
        launch = make_launch(arrays)
        with suppress(Conflict):
            launch.run(args)
        *_, former = (use for *when, use in arrays.uses if when == conflict.former)
        raise RaceError(f"kernel {launch}: race\n  {former}\n  {arrays.uses[-1][-1]}") from None


def points(sizes):
    """All (x, y, z), x first, as a GPU counts."""
    return [(x, y, z) for z in range(sizes[2]) for y in range(sizes[1]) for x in range(sizes[0])]


class Launch:
    """One run of a kernel."""

    def __init__(self, fn, grid, block, dynamic, order, seed, arrays):
        self.fn, self.grid, self.block, self.arrays = fn, grid, block, arrays
        self.dynamic = dynamic  # bytes of shared memory, one array in all functions
        self.order = functools.partial(ORDERS[order], rng=random.Random(seed))
        self.shared = {}

    def __str__(self):
        return repr(self.fn.__name__)

    def run(self, args):
        recorded = self.arrays.recorded(args)
        self.args = recorded.nested()
        state.launch, state.now = self, 0
        grid_size.set(self.grid)
        block_size.set(self.block)
        try:
            set_math(GPU_MATH)
            for block in self.order(points(self.grid)):
                self.run_block(block)
        finally:
            set_math(HOST_MATH)
            state.launch = None
        self.arrays.note_written(args, recorded)

    def run_block(self, block):
        block_index.set(block)
        state.block = state.now + 1
        self.shared.clear()
        idle = pool.__dict__.setdefault("idle", [])
        indices = points(self.block)
        threads = [idle.pop() if idle else greenlet(run_kernels) for _ in indices]
        try:
            self.run_threads(list(zip(indices, threads, strict=True)))
        except BaseException as error:
            if not isinstance(error, SimulatorError | Conflict):
                error.add_note(f"kernel {self}: {running_thread()}")
            for thread in threads:
                thread.throw()
            raise
        idle += threads

    def run_threads(self, threads):
        reached = ()
        while reached is not None:
            state.epoch = state.now + 1
            ordered, places = self.order(threads), []
            for point, thread in ordered:
                state.now += 1
                thread_index.set(point)
                places.append(thread.switch())
            reached = places[0]
            if places.count(reached) < len(places):
                self.diverge(ordered, places)

    def diverge(self, threads, places):
        others = []
        for other in (places[0], next(other for other in places if other != places[0])):
            thread_index.set(threads[places.index(other)][0])
            waits = "has ended" if other is None else f"waits at{lines(other)}"
            others.append(f"\n  {running_thread()} {waits}")
        raise DivergenceError(f"kernel {self}: diverging barriers{''.join(others)}")


# Greenlets that wait for a kernel, as making one takes longer than many kernels run. A greenlet
# belongs to a Python thread.
pool = threading.local()


def run_kernels():
    """A greenlet: it hands over to its parent a barrier's place, or None when its kernel ends."""
    with np.errstate(all="ignore"):
        while True:
            state.launch.fn(*state.launch.args)
            getcurrent().parent.switch(None)


# What kernels find in `numba.cuda`.


def syncthreads():
    getcurrent().parent.switch(place(sys._getframe(1)))


def grid(ndim):
    x = block_index.x * block_size.x + thread_index.x
    if ndim == 1:
        return x
    y = block_index.y * block_size.y + thread_index.y
    return (x, y) if ndim == 2 else (x, y, block_index.z * block_size.z + thread_index.z)


@functools.cache
def as_dtype(dtype):
    from numba.cuda import types
    from numba.cuda.np import numpy_support

    return np.dtype(numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype)


def shared_array(shape, dtype):
    frame, arrays = sys._getframe(1), state.launch.shared
    # A call in the source makes one array; but functions that a factory made share their source.
    jitted = frame.f_back.f_locals.get("jitted")
    key, n = (jitted, id(frame.f_code), frame.f_lasti), index(shape)
    if n == 0:
        key, n = "dynamic", state.launch.dynamic // as_dtype(dtype).itemsize
    if key not in arrays:
        made = frame.f_code, frame.f_lasti
        arrays[key] = state.launch.arrays.shared(n, as_dtype(dtype), made)
    return arrays[key]


def local_array(shape, dtype):
    made = sys._getframe(1).f_code, sys._getframe(1).f_lasti
    return state.launch.arrays.local(index(shape), as_dtype(dtype), made)


CUDA = {
    "threadIdx": thread_index,
    "blockIdx": block_index,
    "blockDim": block_size,
    "gridDim": grid_size,
    "grid": grid,
    "syncthreads": syncthreads,
    "shared": SimpleNamespace(array=shared_array),
    "local": SimpleNamespace(array=local_array),
}


# `math` as on a GPU: float32 stays float32, and there is inf or NaN instead of an exception.


def as_on_gpu(function, twin):
    def compute(*args):
        try:
            value = function(*args)
        except (ValueError, OverflowError):
            value = twin(*args)
        is_single = args[0].__class__ is np.float32 and not isinstance(args[-1], float)
        return np.float32(value) if is_single else np.float64(value)

    return compute


def frexp_on_gpu(x):
    mantissa, exponent = HOST_MATH["frexp"](x)
    return np.float32(mantissa) if x.__class__ is np.float32 else np.float64(mantissa), exponent


TWINS = [np.sqrt, np.exp, np.expm1, np.log, np.log1p, np.log2, np.log10, np.sin, np.cos, np.tanh]
TWINS += [np.fabs, np.copysign, np.ldexp, np.fmod, np.hypot]
GPU_MATH = {twin.__name__: as_on_gpu(getattr(math, twin.__name__), twin) for twin in TWINS}
GPU_MATH |= {"pow": as_on_gpu(math.pow, np.power), "frexp": frexp_on_gpu}
HOST_MATH = {name: getattr(math, name) for name in GPU_MATH}


def set_math(functions):
    for name, function in functions.items():
        setattr(math, name, function)
