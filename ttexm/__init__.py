"""Exponential Machines in tensor-train format: all interactions of every order."""

from .batch import RankOneBatch
from .compiled import CompiledTensor
from .kernels.threads import get_num_threads, set_num_threads
from .manifold import Manifold
from .tangent import TangentVector
from .tensor import TTTensor, allclose

__all__ = [
    "CompiledTensor",
    "Manifold",
    "RankOneBatch",
    "TTTensor",
    "TangentVector",
    "allclose",
    "get_num_threads",
    "set_num_threads",
]
__version__ = "0.1.0"
