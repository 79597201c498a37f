"""Ways to make a TTTensor, which are its class methods: `cls` is TTTensor."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..checks import (
    check_at_least,
    check_count,
    check_dtype,
    check_ranks,
    check_seed,
    check_shape,
    check_truncation,
    float_array,
)
from .core_arrays import from_slots
from .decomposition import tt_cross, tt_svd
from .scaled_numbers import ldexp
from .scaled_train import ScaledTrain

Tensor = TypeVar("Tensor")


def check_cores(cores: Sequence[ArrayLike]) -> list[np.ndarray]:
    """The cores of a train as arrays of one precision, slot-major, (n, r0, r1)."""
    if isinstance(cores, np.ndarray) or not isinstance(cores, Sequence):
        raise TypeError(f"cores must be a list of arrays, got {type(cores).__name__}.")
    if not cores:
        raise ValueError("A tensor train needs at least one core, got none.")
    arrays = [float_array(core, f"cores[{k}]") for k, core in enumerate(cores)]
    for k, core in enumerate(arrays):
        if core.ndim != 3 or 0 in core.shape:
            raise ValueError(
                f"cores[{k}] must be of shape (r0, n, r1), all at least 1, got {core.shape}."
            )
    for k in range(len(arrays) - 1):
        left, right = arrays[k].shape[2], arrays[k + 1].shape[0]
        if left != right:
            raise ValueError(
                f"cores[{k}] and cores[{k + 1}] do not fit together: "
                f"right rank {left} against left rank {right}."
            )
    for side, rank in (("left", arrays[0].shape[0]), ("right", arrays[-1].shape[2])):
        if rank != 1:
            raise ValueError(f"The {side}most rank must be 1, got {rank}.")
    dtype = np.result_type(*arrays)
    return [core.transpose(1, 0, 2).astype(dtype, copy=False) for core in arrays]


def random(
    cls: type[Tensor],
    shape: Sequence[int],
    rank: int | Sequence[int],
    seed: int | np.random.Generator | None = None,
    dtype: DTypeLike = np.float64,
) -> Tensor:
    """Make a tensor of Gaussian cores, scaled such that entries have mean 0 and variance 1.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the d modes.
    rank : int or sequence of d + 1 int
        Trimmed to what the shape allows.
    seed : None, int or numpy.random.Generator
    dtype : float64 or float32

    Returns
    -------
    TTTensor

    Examples
    --------
    >>> from ttexm import TTTensor
    >>> TTTensor.random(shape=(3, 4, 5), rank=100, seed=0).ranks
    (1, 3, 5, 1)
    """
    shape, dtype = check_shape(shape), check_dtype(dtype)
    ranks, rng = check_ranks(shape, rank), check_seed(seed)
    slots = [
        rng.standard_normal((n, ranks[k], ranks[k + 1]), dtype) / dtype.type(ranks[k] ** 0.5)
        for k, n in enumerate(shape)
    ]
    return cls.from_train(ScaledTrain(from_slots(slots)))


def zeros(cls: type[Tensor], shape: Sequence[int], dtype: DTypeLike = np.float64) -> Tensor:
    """Make the zero tensor, of rank 1.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the d modes.
    dtype : float64 or float32

    Returns
    -------
    TTTensor

    Examples
    --------
    >>> from ttexm import TTTensor
    >>> TTTensor.zeros((2, 3)).norm()
    0.0
    """
    return _constant(cls, 0.0, shape, dtype)


def ones(cls: type[Tensor], shape: Sequence[int], dtype: DTypeLike = np.float64) -> Tensor:
    """Make the tensor whose entries are all 1, of rank 1.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the d modes.
    dtype : float64 or float32

    Returns
    -------
    TTTensor

    Examples
    --------
    >>> from ttexm import TTTensor
    >>> float(TTTensor.ones((2, 3)).sum())
    6.0
    """
    return _constant(cls, 1.0, shape, dtype)


def _constant(cls, value, shape, dtype):
    shape, dtype = check_shape(shape), check_dtype(dtype)
    slots = [np.full((n, 1, 1), value, dtype) for n in shape]
    return cls.from_train(ScaledTrain(from_slots(slots)))


def rank_one(cls: type[Tensor], vectors: Sequence[ArrayLike]) -> Tensor:
    """Make the tensor product of d vectors.

    Parameters
    ----------
    vectors : sequence of d arrays of shape (n_k,)

    Returns
    -------
    TTTensor
        Of shape (n_1, .., n_d) and rank 1.

    Examples
    --------
    >>> from ttexm import TTTensor
    >>> TTTensor.rank_one([[1.0, 2.0], [3.0, 4.0, 5.0]]).full()
    array([[ 3.,  4.,  5.],
           [ 6.,  8., 10.]])
    """
    if not isinstance(vectors, Sequence) and np.ndim(vectors) == 0:
        raise TypeError(f"vectors must be a list of vectors, got {type(vectors).__name__}.")
    arrays = [float_array(vector, f"vectors[{k}]") for k, vector in enumerate(vectors)]
    if not arrays:
        raise ValueError("rank_one needs at least one vector, got none.")
    for k, vector in enumerate(arrays):
        if vector.ndim != 1:
            raise ValueError(f"vectors[{k}] must have one dimension, got shape {vector.shape}.")
        if not len(vector):
            raise ValueError(f"vectors[{k}] must have at least one entry, got none.")
    return cls([vector[None, :, None] for vector in arrays])


def from_dense(
    cls: type[Tensor],
    array: ArrayLike,
    rank: int | Sequence[int] | None = None,
    eps: float = 0.0,
) -> Tensor:
    """Decompose a full array by TT-SVD, at the cost of SVDs of its d - 1 unfoldings.

    Parameters
    ----------
    array : array of at least one dimension
    rank : int or sequence of d + 1 int, optional
        Ranks that are not to be exceeded.
    eps : float
        Relative error in the Frobenius norm that is allowed, to lower the ranks.

    Returns
    -------
    TTTensor
        With ``|array - W| <= eps |array|``, up to rounding, if `rank` leaves room for it; else
        within ``sqrt(d - 1)`` times the error of the best tensor of these ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import TTTensor
    >>> A = np.add.outer(np.arange(3), np.add.outer(np.arange(4), np.arange(5)))
    >>> TTTensor.from_dense(A).ranks
    (1, 2, 2, 1)
    """
    array = float_array(array, "array")
    shape = array.shape
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"array must have at least one mode and entry, got shape {shape}.")
    if not np.isfinite(array).all():
        at = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise ValueError(f"array must be finite, got {array[at]} at index {at}.")
    most = check_ranks(shape, array.size if rank is None else rank)
    eps = check_truncation(eps, array.dtype, array.ndim)
    # Scaled to entries of at most 1: the SVDs square them.
    exponent = math.frexp(float(np.abs(array).max()))[1]
    cores = tt_svd(ldexp(array, -exponent).astype(array.dtype, copy=False), most, eps)
    slots = [core.transpose(1, 0, 2) for core in cores]
    return cls.from_train(ScaledTrain(from_slots(slots), exponent))


def cross(
    cls: type[Tensor],
    f: Callable[[np.ndarray], ArrayLike],
    shape: Sequence[int],
    rank: int | Sequence[int],
    seed: int | np.random.Generator | None = None,
    *,
    eps: float = 1e-9,
    max_sweeps: int = 10,
) -> Tensor:
    """Approximate a function of the indices by TT-cross, from few of its values.

    Parameters
    ----------
    f : callable
        Gets an integer array of shape (m, d), one row per entry; returns the m entries.
    shape : sequence of int
        Sizes of the d modes.
    rank : int or sequence of d + 1 int
        Ranks that are not to be exceeded; lower ones are found where they suffice.
    seed : None, int or numpy.random.Generator
        For the first indices.
    eps : float
        Sweeps end when one changes the tensor by no more than this, relative to its norm.
    max_sweeps : int
        Each costs about ``2 d n r^2`` evaluations. A ConvergenceWarning says if they were too few.

    Returns
    -------
    TTTensor
        The approximation after the last sweep.

    Notes
    -----
    Exact for functions of at most these ranks, unless they vanish at nearly all indices: TT-cross
    cannot find what none of its samples shows.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import TTTensor
    >>> W = TTTensor.cross(lambda i: np.sin(i.sum(axis=1)), shape=(10,) * 20, rank=4, seed=0)
    >>> W.ranks == (1,) + (2,) * 19 + (1,)
    True
    >>> bool(np.isclose(W[(3,) * 20], np.sin(60)))
    True
    """
    shape = check_shape(shape)
    ranks, rng = check_ranks(shape, rank), check_seed(seed)
    if not callable(f):
        raise TypeError(f"f must be a function of index rows, got {type(f).__name__}.")
    check_at_least("eps", eps, 0)
    check_count("max_sweeps", max_sweeps)
    approximations = (cls(cores) for cores in tt_cross(f, shape, ranks, rng))
    W = next(approximations)
    for _ in range(2 * max_sweeps - 1):
        last, W = W, next(approximations)
        change = (W - last).log_norm() - W.log_norm()
        if not change > (math.log(eps) if eps > 0 else -math.inf):
            return W
    from sklearn.exceptions import ConvergenceWarning  # a slow import, rarely needed

    warnings.warn(
        f"TT-cross has not settled after max_sweeps={max_sweeps}: the last sweep still changed "
        f"the tensor by {math.exp(change):.1e} of its norm, more than eps={eps:g}. Raise rank or "
        f"max_sweeps, or eps if that is near enough.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return W
