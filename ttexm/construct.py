"""Ways to make a TTTensor: its class methods (`cls` is the class)."""

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from . import decompose, trains
from .shapes import (
    check_at_least,
    check_count,
    check_dtype,
    check_ranks,
    check_seed,
    check_shape,
    float_array,
)


def random(cls, shape, rank, seed=None, dtype=np.float64):
    """Make a tensor of Gaussian cores, scaled such that entries have mean 0 and variance 1.

    Parameters
    ----------
    shape : sequence of int
    rank : int or sequence of d + 1 int
        Trimmed to what the shape allows.
    seed : None, int or numpy.random.Generator
    dtype : float64 or float32

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
    return cls._of(trains.from_slots(slots))


def zeros(cls, shape, dtype=np.float64):
    """Make the zero tensor, of rank 1."""
    return _constant(cls, 0.0, shape, dtype)


def ones(cls, shape, dtype=np.float64):
    """Make the tensor whose entries are all 1, of rank 1."""
    return _constant(cls, 1.0, shape, dtype)


def _constant(cls, value, shape, dtype):
    shape, dtype = check_shape(shape), check_dtype(dtype)
    return cls._of(trains.from_slots([np.full((n, 1, 1), value, dtype) for n in shape]))


def rank_one(cls, vectors: Sequence[np.ndarray]):
    """Make the tensor product of d vectors.

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


def from_dense(cls, array, rank=None, eps: float = 0.0):
    """Decompose a full array by TT-SVD, at the cost of SVDs of its d - 1 unfoldings.

    Parameters
    ----------
    array : array of at least one dimension
    rank : int or sequence of d + 1 int, optional
        Ranks that are not to be exceeded.
    eps : float
        Relative error in the Frobenius norm that may be made to lower the ranks.

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
    # A power of two, taken out, keeps squares of entries within range.
    exponent = math.frexp(float(np.abs(array).max()))[1]
    scaled = trains.ldexp(array, -exponent).astype(array.dtype, copy=False)
    cores = decompose.tt_svd(scaled, most, trains.relative_eps(eps, array.dtype, array.ndim))
    return cls._of(cls(cores)._train, exponent)


def cross(cls, f: Callable, shape, rank, seed=None, *, eps: float = 1e-9, max_sweeps: int = 10):
    """Approximate a function of the indices by TT-cross, from few of its values.

    Parameters
    ----------
    f : callable
        Gets an integer array of shape (m, d), a row an entry; returns the m entries.
    shape : sequence of int
    rank : int or sequence of d + 1 int
        Ranks that are not to be exceeded; lower ones are found where they suffice.
    seed : None, int or numpy.random.Generator
        For the indices to start with.
    eps : float
        Sweeps end when one changes the tensor by no more than this, relative to its norm.
    max_sweeps : int
        Each costs about ``2 d n r^2`` evaluations. A ConvergenceWarning says if they were too
        few.

    Notes
    -----
    Exact for functions of at most these ranks, unless they vanish at nearly all indices: what
    no sample shows cannot be found.

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
    approximations = (cls(cores) for cores in decompose.tt_cross(f, shape, ranks, rng))
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
