"""CUDA kernels of one block: QR sweeps, the gauge of tangent vectors, projection, retraction.

The bodies are those of the CPU's kernels, compiled once more: `_twin` replaces the functions of
`dense` that they call by those of `block_algebra`.
"""

import functools
from types import FunctionType, SimpleNamespace

from numba import cuda

from .. import orthogonalization, projection, retraction
from ..layout import Train
from . import block_algebra
from .runtime import DOUBLES, INTEGER, INTEGERS, TRAIN, Kernel

_REPLACEMENTS = {
    name: getattr(block_algebra, name)
    for name in (
        "pointer", "shift", "element", "itemsize", "epsilon", "binary_exponent",
        "fill", "put", "copy", "scale", "set_identity", "copy_columns", "add_scaled",
        "transpose_to", "add_strided_product", "peak", "energy", "householder", "inverse",
        "singular_vectors",
    )
}  # fmt: skip
_CPU_PACKAGE = __package__.rpartition(".")[0]
_twins = {}


def _twin(function):
    """Return a function of the CPU's kernels, with all that it calls, as a CUDA device function."""
    if function not in _twins:
        names = dict(function.__globals__)
        for name in function.__code__.co_names:
            value = names.get(name)
            if name in _REPLACEMENTS:
                names[name] = _REPLACEMENTS[name]
            elif isinstance(value, FunctionType) and value.__module__.startswith(_CPU_PACKAGE):
                names[name] = _twin(value)
        body = FunctionType(function.__code__, names, function.__name__)
        _twins[function] = cuda.jit(device=True)(body)
    return _twins[function]


_qr_sweep = _twin(orthogonalization.qr_sweep)
_make_orthogonal, _train_deltas = _twin(projection.make_orthogonal), _twin(projection.train_deltas)
_expand_from_right = _twin(retraction.expand_from_right)
_truncate_from_left = _twin(retraction.truncate_from_left)


# -- kernels -------------------------------------------------------------------------------------


def orthogonalize(train, stop, data, ranks, work, power):
    """`orthogonalization.orthogonalize`; the exponent is written to power[0]."""
    exponent = _qr_sweep(Train(*train), stop, data, ranks, work)
    if cuda.threadIdx.x == 0:
        power[0] = exponent


def mirror(train, out):
    """Cores of the reversed train (see `orthogonalization.reverse`): a block per core."""
    data, ranks, sizes, offsets, _, _ = train
    k = cuda.blockIdx.x
    n, r0, r1 = sizes[k], ranks[k], ranks[k + 1]
    slot, total = r0 * r1, offsets[len(sizes)]
    for e in range(cuda.threadIdx.x, n * slot, cuda.blockDim.x):
        i, a, b = e // slot, e % slot // r1, e % r1
        out[total - offsets[k + 1] + i * slot + b * r0 + a] = data[offsets[k] + e]


def fix_gauge(left, deltas, work):
    """dG_k <- (1 - U_k U_k^T) dG_k: a block per core k < d - 1. Scratch: rank^2 per block."""
    U, ranks, sizes, offsets, rank, _ = left
    k = cuda.blockIdx.x
    at, rows = offsets[k], sizes[k] * ranks[k]
    _make_orthogonal(U[at:], deltas[at:], rows, ranks[k + 1], work[k * rank * rank :])


def project(left, right, Z, exponent, out, work, powers):
    """`projection.project_train`."""
    _train_deltas(Train(*left), Train(*right), Train(*Z), exponent, out, work, powers)


def retract_from_right(left, right, exponent, deltas, Z, extra, work, power):
    """The first half of `retraction.retract`; power[0] becomes its total."""
    total = _expand_from_right(Train(*left), exponent, Train(*right), deltas, Z, extra, work)
    if cuda.threadIdx.x == 0:
        power[0] = total


def retract_from_left(left, right, deltas, Z, extra, out, work, power):
    """The second half; the exponent that the result lacks is written to power[0]."""
    train, total = Train(*left), int(power[0])
    total = _truncate_from_left(train, total, Train(*right), deltas, Z, extra, out, work)
    if cuda.threadIdx.x == 0:
        power[0] = total


@functools.cache
def make_kernels() -> SimpleNamespace:
    """Return the kernels by name."""
    signatures = {
        orthogonalize: (TRAIN, INTEGER, DOUBLES, INTEGERS, DOUBLES, INTEGERS),
        mirror: (TRAIN, DOUBLES),
        fix_gauge: (TRAIN, DOUBLES, DOUBLES),
        project: (TRAIN, TRAIN, TRAIN, INTEGER, DOUBLES, DOUBLES, INTEGERS),
        retract_from_right: (
            TRAIN, TRAIN, INTEGER, DOUBLES, DOUBLES, INTEGERS, DOUBLES, INTEGERS,
        ),
        retract_from_left: (
            TRAIN, TRAIN, DOUBLES, DOUBLES, INTEGERS, DOUBLES, DOUBLES, INTEGERS,
        ),
    }  # fmt: skip
    shared = block_algebra.SHARED_BYTES
    kernels = {
        function.__name__: Kernel(function, signature, "float64", dynamic_shared=shared)
        for function, signature in signatures.items()
    }
    return SimpleNamespace(**kernels)


def all_kernels():
    """Every kernel here."""
    return vars(make_kernels()).values()
