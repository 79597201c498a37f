"""Devices: what one must do, and which one a name stands for.

`Device` and `PartialProducts` are the protocol of a device. The modules `cpu` and `cuda.device`
implement it, and `register` adds other devices. Trains and results are arrays of the host on every
device. A batch is whatever the device's own `hold` or `take` returned, and only functions of the
same device accept it.
"""

import functools
import importlib
import importlib.util
import inspect
import os
import typing
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .layout import Batch, Train

VARIABLE = "TTEXM_DEVICE"  # environment variable: the device to use where none is named

# The numbers mantissas 2^exponents.
Scaled = tuple[np.ndarray, np.ndarray]
# One number g_s per sample, or a function that returns these numbers: it is called once, with the
# predictions f 2^powers of all samples as (f, powers).
Derivatives = np.ndarray | Callable[[np.ndarray, np.ndarray | int], np.ndarray]


class PartialProducts(Protocol):
    """The partial products of m samples with a train, for sweeps over its cores.

    The left partial product L_s of sample s at core k is the product of sum_i phi_{s,j}[i] G_j[i]
    over j < k, and the right one R_s that over j > k. Given both, f_s is linear in core k:

        f_s = sum_i phi_{s,k}[i] L_s C[i] R_s^T  =  (J C)_s

    for a core C (n, r0, r1), slot-major. Two neighbouring cores are treated as one of shape
    (n, r0, n' r1), with R expanded by the feature vectors of the second mode.

    Partial products are whatever `empty` and `ones` return, in the device's memory, and are passed
    back to these methods alone. Cores, numbers per sample and results are arrays of the host.

    Exact Shapley values can be computed with the same methods. With a constant in slot 0 and a
    baseline m, the path t phi + (1 - t) m is the same batch under the cores
    G[0] + (1 - t) sum_i m_i G[i] and t G[i], i > 0.
    """

    m: int
    dtype: np.dtype
    kinds: np.ndarray  # (d,), see `layout`
    scales: np.ndarray  # (d,), of the one-hot part of coded modes

    def empty(self, r: int) -> Any:
        """Return room for the partial products of a bond of rank r, uninitialised."""
        ...

    def ones(self) -> Any:
        """Return the partial product of no cores: 1 for every sample, of rank 1."""
        ...

    def rows(self, P: Any, r: int) -> np.ndarray:
        """Return partial products of rank r as a table (m, r) on the host."""
        ...

    def squares(self, P: Any, r: int) -> np.ndarray:
        """Return ``|P_s|^2``, (m,), in float64."""
        ...

    def advance(self, P: Any, G: np.ndarray, k: int, out: Any) -> None:
        """out_s = sum_i phi_{s,k}[i] P_s G[i], one step of a sweep, in O(n r0 r1) per sample.

        G is core k, (n, r0, r1), in a sweep to the right, and core k with transposed slots,
        (n, r1, r0), in a sweep to the left.
        """
        ...

    def expand(self, R: Any, n: int, r: int, k: int, out: Any) -> None:
        """out_s = (phi_{s,k}[0] R_s, .., phi_{s,k}[n - 1] R_s), of rank n r."""
        ...

    def values(self, C: np.ndarray, k: int, L: Any, R: Any) -> np.ndarray:
        """Return f = J C, (m,), in O(n r0 r1) per sample."""
        ...

    def gradient(
        self, g: np.ndarray, shape: tuple[int, int, int], k: int, L: Any, R: Any
    ) -> np.ndarray:
        """Return J^T g of shape (n, r0, r1), in O(n r0 r1) per sample."""
        ...

    def product(self, C: np.ndarray, h: np.ndarray, k: int, L: Any, R: Any) -> np.ndarray:
        """Return J^T diag(h) J C, a product with the curvature, in O(n r0 r1) per sample."""
        ...


class Device(Protocol):
    """What a device does. A module with these functions is a device, and so is an object.

    Trains are `layout.Train`, of the host. A point of the manifold is given by its left- and its
    right-orthogonal train, the right one reversed, and a tangent vector by its deltas (see
    `projection`). Costs are for modes of size n and ranks r.
    """

    def hold(self, batch: Batch, m: int) -> Any:
        """Return m samples in the form that the device's functions take, as `held`."""
        ...

    def take(self, held: Any, m: int, rows: np.ndarray) -> Any:
        """Return the given rows of m samples, in their order, again as `held`."""
        ...

    def contract(
        self, train: Train, identity: np.ndarray, held: Any, m: int, period: int
    ) -> Scaled:
        """Return <W, X_s> = mantissas 2^exponents, both (m,), in O(d n r^2) per sample.

        identity (d,) says which cores have G[0] = 1. Powers of two are taken out of the partial
        products after every `period` cores.

        The train may be open: after the cores of the d modes comes one more of one slot, a matrix
        (r, K), so that W stands for K tensors and `identity` has d + 1 flags. One left sweep then
        gives mantissas (m, K), in C order, with one exponent per sample, in O(d n r^2 + r K) per
        sample.
        """
        ...

    def gradient(
        self, left: Train, right: Train, held: Any, m: int, g: Derivatives, period: int
    ) -> np.ndarray:
        """Return the deltas of the projection of sum_s g_s X_s, in O(d n r^2 (m + r))."""
        ...

    def core_gradient(
        self, train: Train, held: Any, m: int, g: Derivatives, period: int
    ) -> np.ndarray:
        """Return the derivatives of sum_s g_s <W, X_s> in the cores of any train, flat.

        In O(d n r^2) per sample.
        """
        ...

    def gauges(self, train: Train, is_left_orthogonal: bool) -> tuple[Train, Train, int]:
        """Return (left, right, exponent): the orthogonal trains of W, up to 2^exponent.

        The ranks must be feasible for the shape. is_left_orthogonal: the given train already is. In
        O(d n r^3).
        """
        ...

    def project(self, left: Train, right: Train, Z: Train, exponent: int) -> np.ndarray:
        """Return the deltas of the projection of 2^exponent Z, in O(d n r r' (r + r'))."""
        ...

    def retract(
        self, left: Train, exponent: int, right: Train, deltas: np.ndarray
    ) -> tuple[Train, int]:
        """Return (train, exponent): 2^exponent W + xi, rounded to the ranks of W, in O(d n r^3).

        All cores of the train but the last are left-orthogonal.
        """
        ...

    def partial_products(self, held: Any, m: int, dtype: np.dtype) -> PartialProducts:
        """Return what sweeps compute with, for all m samples, in the precision `dtype`.

        The return annotation must be the class: it is checked like the device.
        """
        ...


# -- which device a name stands for ---------------------------------------------------------------

_loaders: dict[str, Callable[[], Device]] = {}
_loaded: dict[str, Device] = {}


def register(name: str, load: Callable[[], Device]) -> None:
    """Make a device known by a name; a device of the same name is replaced.

    Parameters
    ----------
    name : str
        What users pass as ``device``.
    load : callable
        Called without arguments when the device is first used. Returns the device, a module or an
        object that implements `Device`, or raises a RuntimeError that says why it cannot be used
        here and what to do.

    Examples
    --------
    >>> from ttexm.kernels import backend, cpu
    >>> backend.register("host", lambda: cpu)
    >>> backend.get("host") is cpu
    True
    >>> backend.unregister("host")
    """
    if not isinstance(name, str) or not name or name == "auto":
        raise ValueError(f"The name of a device must be a string other than 'auto', got {name!r}.")
    _loaded.pop(name, None)
    _loaders[name] = load


def unregister(name: str) -> None:
    """Forget a device."""
    _loaded.pop(name, None)
    del _loaders[name]


def get(name: str | None = None) -> Device:
    """Return a device; `name` is as for `resolve`.

    Examples
    --------
    >>> from ttexm.kernels import backend
    >>> backend.get("cpu").__name__
    'ttexm.kernels.cpu'
    """
    return _loaded[resolve(name)]


def resolve(name: str | None = None) -> str:
    """Return the name of a device that can be used here; raises if the one asked for cannot.

    Parameters
    ----------
    name : str, optional
        "cpu", "cuda", or another name that was registered. "auto" is "cuda" if there is a GPU that
        can be used, else "cpu"; it neither raises nor warns. The default is the value of the
        environment variable ``TTEXM_DEVICE``, or "cpu" if it is not set.

    Examples
    --------
    >>> from ttexm.kernels import backend
    >>> backend.resolve("cpu")
    'cpu'
    """
    if isinstance(name, str) and name in _loaded:
        return name
    called = "device"
    if name is None:
        called, name = VARIABLE, os.environ.get(VARIABLE) or "cpu"
    is_automatic = name == "auto"
    if is_automatic:
        name = "cuda" if has_gpu() else "cpu"
    if not isinstance(name, str) or name not in _loaders:
        *others, last = map(repr, ("auto", *_loaders))
        raise ValueError(f"{called} must be {', '.join(others)} or {last}, got {name!r}.")
    if name not in _loaded:
        with warnings.catch_warnings():
            if is_automatic:
                warnings.simplefilter("ignore")
            device = _loaders[name]()
        check(name, device)
        _loaded[name] = device
    return name


# -- whether an object is a device ----------------------------------------------------------------


def check(name: str, device: Any) -> None:
    """Raise a TypeError unless a device has the functions of the protocol, with their signatures.

    Signatures are compared by the names, kinds and defaults of their parameters.
    """
    faults = _differences(Device, device)
    made = getattr(device, "partial_products", None)
    returned = typing.get_type_hints(made).get("return") if inspect.isroutine(made) else None
    if isinstance(returned, type):
        found = _differences(PartialProducts, returned, is_class=True)
        faults += [f"{returned.__name__}.{fault}" for fault in found]
    elif made is not None:
        faults.append("partial_products must be annotated with the class that it returns")
    if faults:
        raise TypeError(f"device {name!r} does not fit the protocol: {'; '.join(faults)}.")


def _differences(protocol, found, is_class=False) -> list[str]:
    """Return in words how the functions and attributes of an object differ from a protocol's."""
    faults = []
    for name, method in vars(protocol).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            wanted, own = _parameters(method, True), getattr(found, name, None)
            if not callable(own):
                faults.append(f"{name}{wanted} is missing")
            elif _parameters(own, is_class) != wanted:
                faults.append(f"{name}{_parameters(own, is_class)} should be {name}{wanted}")
    for name in protocol.__annotations__:
        if not hasattr(found, name) and name not in typing.get_type_hints(found):
            faults.append(f"{name} is not declared")
    return faults


def _parameters(function, has_self: bool) -> inspect.Signature:
    """Return a signature without annotations, and without `self`."""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
    return inspect.Signature(plain[1:] if has_self else plain)


# -- the devices that come with the package -------------------------------------------------------


def load_cpu() -> Device:
    """Return the CPU."""
    return importlib.import_module(".cpu", __package__)


def load_cuda() -> Device:
    """Return CUDA; raises a RuntimeError with advice where it cannot be used."""
    reason = _why_not_cuda()
    if reason:
        raise RuntimeError(reason)
    return importlib.import_module(".cuda.device", __package__)


@functools.cache
def has_gpu() -> bool:
    """Return whether there is a GPU that can be used; a simulated one does not count."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if _why_not_cuda():
                return False
            from numba import config

            return not config.ENABLE_CUDASIM
    except Exception:  # "auto" must survive any broken installation or driver
        return False


def _why_not_cuda() -> str:
    """Return why CUDA cannot be used, and what to do; empty if it can."""
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


register("cpu", load_cpu)
register("cuda", load_cuda)
