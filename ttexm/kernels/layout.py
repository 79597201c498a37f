"""What kernels are given: a tensor train and a batch of rank-1 tensors, as flat arrays.

Flat arrays give each kernel exactly two specialisations, float64 and float32, whatever the number
of modes, their sizes and their kinds. Callers pass these structures as plain tuples,
``tuple(train)``, and kernels put the names back, ``Train(*train)``: numba takes twice as long to
dispatch on named tuples.

A kernel over samples is given a ``span = (start, stop, block)``: it works on the samples
start .. stop - 1 in blocks of `block` samples, and `start` is the first sample of a block.
"""

from typing import NamedTuple

import numpy as np

# Kinds of modes: the form of a sample's feature vector phi_k.
NUMERIC = 0  # (1, v_1, .., v_{n-1}), v from `values`
VECTOR = 1  # (v_0, .., v_{n-1}), v from `values`
CATEGORY = 2  # e_0 + scale e_c, c from `codes`; c = 0 gives e_0 alone
INDEX = 3  # scale e_c, c from `codes`
CURVE = 4  # (1 - t) e_c + t e_{c + 1}, c + t from `values`; only `contract` and `runs` know it

# Samples are padded to a multiple of this, the widest register tile (float32 at 512 bits).
PADDING = 48
# Samples per block of a large batch: a multiple of what kernels take at once.
BLOCK = 384


class Train(NamedTuple):
    """A tensor train in one buffer.

    Core k is ``data[offsets[k]:offsets[k + 1]]``, slot-major: ``(n, r0, r1)`` in C order, so that
    the matrix ``G_k[i]`` of one slot is contiguous. (A category of 1682 levels is looked up there.)

    The last rank is 1, except in an open train, which `contract` accepts: there one more core of
    one slot, a matrix (r, K), follows the cores of the modes, and the train stands for K tensors.
    """

    data: np.ndarray
    ranks: np.ndarray  # (d + 1,) int64
    sizes: np.ndarray  # (d,) int64
    offsets: np.ndarray  # (d + 1,) int64
    rank: int  # the largest rank
    rows: int  # the largest n r0 or n r1: rows of an unfolded core


class Batch(NamedTuple):
    """m rank-1 tensors: numbers in `values` and `codes`, each (blocks, columns, stride), flat.

    A block holds `stride` samples, column after column, so that kernels read memory in order; the
    samples beyond m are zero. There is one block of m samples, rounded up to a multiple of PADDING,
    or there are several of BLOCK samples.
    """

    kinds: np.ndarray  # (d,) int64
    columns: np.ndarray  # (d,) int64, the mode's first column in `values` or `codes`
    scales: np.ndarray  # (d,) float, of the one-hot part of CATEGORY and INDEX modes
    values: np.ndarray
    codes: np.ndarray  # int32
    stride: int
    n_values: int  # columns of `values`
    n_codes: int  # columns of `codes`


def stride_for(m: int) -> int:
    """Return how many samples a block of a batch of m samples holds."""
    return min(BLOCK, max(PADDING, -(-m // PADDING) * PADDING))


def aligned(n: int, dtype) -> np.ndarray:
    """Return an uninitialised array that starts at a cache line.

    Kernels take a third longer on rows of samples that do not.
    """
    dtype = np.dtype(dtype)
    raw = np.empty(n * dtype.itemsize + 64, np.uint8)
    skipped = -raw.ctypes.data % 64
    return raw[skipped : skipped + n * dtype.itemsize].view(dtype)
