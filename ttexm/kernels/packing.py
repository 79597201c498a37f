"""Samples in blocks: how the numbers of a batch lie in memory (see `layout.Batch`)."""

from collections.abc import Iterable

import numpy as np

from .layout import Batch, aligned, stride_for


def pack(tables: Iterable[np.ndarray], m: int, n_columns: int, dtype) -> np.ndarray:
    """Put tables (m, columns) side by side, as aligned blocks (blocks, n_columns, stride).

    Tables may be made one by one, so that only one of them is in memory at a time.
    """
    stride = stride_for(m)
    n_blocks = max(1, -(-m // stride))
    packed = aligned(n_blocks * n_columns * stride, dtype)
    packed = packed.reshape(n_blocks, n_columns, stride)
    whole, last = m // stride, 0
    for table in tables:
        first, last = last, last + table.shape[1]
        blocks = table[: whole * stride].reshape(whole, stride, table.shape[1])
        packed[:whole, first:last] = blocks.transpose(0, 2, 1)
        packed[whole:, first:last, : m - whole * stride] = table[whole * stride :].T
    packed[whole:, :, m - whole * stride :] = 0
    return packed


def unpack(blocks: np.ndarray, m: int) -> np.ndarray:
    """Return the first m samples of blocks (blocks, columns, stride) as a table (m, columns)."""
    n_blocks, n_columns, stride = blocks.shape
    return blocks.transpose(0, 2, 1).reshape(n_blocks * stride, n_columns)[:m]


def side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    """Join the columns of several batches, given as blocks, in one aligned array of blocks."""
    joined = np.concatenate(parts, axis=1)
    out = aligned(joined.size, joined.dtype)
    out[:] = joined.reshape(-1)
    return out.reshape(joined.shape)


def views(batch: Batch, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the values and the codes of m samples as arrays (blocks, columns, stride)."""
    n_blocks = max(1, -(-m // batch.stride))
    return (
        batch.values.reshape(n_blocks, batch.n_values, batch.stride),
        batch.codes.reshape(n_blocks, batch.n_codes, batch.stride),
    )


def select(batch: Batch, m: int, rows: np.ndarray) -> Batch:
    """Return the given rows of a batch of m samples, in their order."""
    block, place = np.divmod(rows, batch.stride)
    values, codes = (
        pack([part[block, :, place]], len(rows), part.shape[1], part.dtype)
        for part in views(batch, m)
    )
    return batch._replace(
        values=values.reshape(-1), codes=codes.reshape(-1), stride=values.shape[2]
    )
