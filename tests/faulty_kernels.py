"""CUDA kernels, each with a fault that test_cuda_compile.py must see."""

from types import SimpleNamespace


def all_kernels():
    # Here, as pytest imports all modules to look for doctests, also where there is no CUDA.
    from numba import cuda, float64, int64

    def atomic(a, i):
        cuda.atomic.add(a, 0, a[i])

    def exchanged(a, i):
        a[i] = cuda.shfl_sync(-1, a[cuda.threadIdx.x], i)

    def on_the_stack(a, i):
        kept = cuda.local.array(64, float64)
        for k in range(64):
            kept[k] = a[k]
        cuda.syncthreads()
        a[cuda.threadIdx.x] = kept[i]

    def sound(a, i):
        held = cuda.shared.array(64, float64)
        held[cuda.threadIdx.x] = a[i]
        cuda.syncthreads()
        a[i] = held[i]

    for function in (atomic, exchanged, on_the_stack, sound):
        yield SimpleNamespace(
            name=function.__name__,
            rank=None,
            dtype="float64",
            function=function,
            signature=(float64[::1], int64),
            threads=64,
            dynamic_shared=1024,
            launch_bounds=None,
        )
