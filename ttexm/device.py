"""Which kernels run: the only place that knows about devices.

A kernel set is a module with the names of `kernels.cpu.__all__`. Trains and results are arrays of
the host in every set. A batch is what the set's own `hold` or `take` gave, and what Samples has of
partial products is Samples' own affair: functions of these are never those of another set.
"""

import functools
import importlib
import importlib.util
import os
import warnings
from types import ModuleType

from .kernels import cpu

DEFAULT = "TTEXM_DEVICE"  # environment variable: the device of whoever names none
KNOWN = ("auto", "cpu", "cuda")

_sets = {"cpu": cpu}  # those that have been used; importing ttexm imports no CUDA


def get(name: str | None = None) -> ModuleType:
    """Return the kernel set of a device; `name` is as for `resolve`.

    Examples
    --------
    >>> from ttexm import device
    >>> device.get("cpu").__name__
    'ttexm.kernels.cpu'
    """
    return _sets[resolve(name)]


def resolve(name: str | None = None) -> str:
    """Return "cpu" or "cuda", whichever a name stands for; raises if it cannot be used here.

    Parameters
    ----------
    name : {"cpu", "cuda", "auto"}, optional
        "auto" is "cuda" if there is a GPU that can be used, else "cpu"; it never raises. None is
        what the environment variable ``TTEXM_DEVICE`` says, else "cpu".

    Examples
    --------
    >>> from ttexm import device
    >>> device.resolve("cpu")
    'cpu'
    """
    called = "device"
    if name is None:
        called, name = DEFAULT, os.environ.get(DEFAULT) or "cpu"
    if not isinstance(name, str) or name not in KNOWN:
        raise ValueError(f"{called} must be 'auto', 'cpu' or 'cuda', got {name!r}.")
    if name == "auto":
        name = "cuda" if _has_gpu() else "cpu"
    elif name not in _sets and (trouble := _trouble()):
        raise RuntimeError(trouble)
    if name not in _sets:
        _sets[name] = importlib.import_module(".kernels.cuda", __package__)
    return name


@functools.cache
def _has_gpu() -> bool:
    """Whether there is a GPU to use; a simulated one is none, as nobody wants it unasked."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if _trouble():
                return False
            from numba import config

            return not config.ENABLE_CUDASIM
    except Exception:  # of a broken installation or driver, which "auto" is to survive
        return False


def _trouble() -> str:
    """Why CUDA cannot be used, and what to do; empty if it can."""
    if importlib.util.find_spec("numba_cuda") is None:
        return (
            "device='cuda' needs numba-cuda, which is not installed: "
            'pip install "ttexm[cuda12]" or "ttexm[cuda13]", by the version of CUDA that the '
            "driver has (nvidia-smi shows it)."
        )
    from numba import cuda

    if cuda.is_available():
        return ""
    reported = cuda.cuda_error()
    if reported is None:
        return (
            "device='cuda' finds a driver, but not CUDA's compiler (NVVM): "
            'pip install "ttexm[cuda12]" or "ttexm[cuda13]", by the version of CUDA that the '
            "driver has (nvidia-smi shows it)."
        )
    return (
        "device='cuda' finds no GPU that can be used. numba.cuda reports: "
        f"{' '.join(str(reported).split())} Install NVIDIA's driver, or a newer one; or use "
        "device='cpu'; or set NUMBA_ENABLE_CUDASIM=1 before Python starts, to simulate a GPU."
    )
