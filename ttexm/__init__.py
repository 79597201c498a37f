"""Exponential Machines in tensor-train format: all interactions of every order."""

from .data.batch import RankOneBatch
from .kernels.schedule import get_num_threads, set_num_threads
from .tt.compiled import CompiledTensor
from .tt.manifold import Manifold
from .tt.tangent import TangentVector
from .tt.tensor import TTTensor, allclose

__all__ = [
    "CompiledTensor",
    "ExMClassifier",
    "ExMRegressor",
    "Manifold",
    "RankOneBatch",
    "TTTensor",
    "TangentVector",
    "allclose",
    "get_num_threads",
    "set_num_threads",
]
__version__ = "0.1.0"


def __getattr__(name):
    # scikit-learn takes a second to import: only who uses an estimator waits for it.
    if name in ("ExMClassifier", "ExMRegressor"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
