"""What kernels are given: a tensor train and a batch of rank-1 tensors, as flat arrays.

Each kernel so has exactly two specialisations, float64 and float32, whatever the number of modes,
their sizes and their kinds. Kernels take these tuples as plain ones, ``tuple(train)``, and put the
names back, ``Train(*train)``: numba takes twice as long to dispatch on named tuples.
"""

from typing import NamedTuple

import numpy as np

# Kinds of modes: what the feature vector phi_k of a sample looks like.
NUMERIC = 0  # (1, v_1, .., v_{n-1}), v from `values`
VECTOR = 1  # (v_0, .., v_{n-1}), v from `values`
CATEGORY = 2  # e_0 + scale e_c, c from `codes`; c = 0 is e_0 alone
INDEX = 3  # e_c, c from `codes`

# Samples are padded to a multiple of this, the widest register tile (float32 at 512 bits).
PADDING = 48
# Samples in a block of a large batch: a multiple of the numbers that kernels take at once.
BLOCK = 384


def stride_of(m: int) -> int:
    """Samples in a block of a batch of m."""
    return min(BLOCK, max(PADDING, -(-m // PADDING) * PADDING))


class Train(NamedTuple):
    """A tensor train in one buffer.

    Core k is ``data[offsets[k]:offsets[k + 1]]``, slot-major: ``(n, r0, r1)`` in C order, so that
    the matrix ``G_k[i]`` of one slot is contiguous. (A category of 1682 levels is looked up there.)
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
