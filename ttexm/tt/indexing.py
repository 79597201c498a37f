"""Indices and sums: which entries ``W[..]`` and ``W.sum(..)`` ask for, and the train of those."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..checks import is_integer, plain_array
from .core_arrays import from_slots, to_slots
from .scaled_numbers import extract_power, ldexp, scaled_product
from .scaled_train import ScaledTrain


def parse_key(key: object, shape: tuple[int, ...]) -> list[int | slice]:
    """One non-negative integer or slice per mode, for a key of these and at most one ellipsis."""
    key = key if isinstance(key, tuple) else (key,)
    d = len(shape)
    ellipses = sum(item is Ellipsis for item in key)
    if ellipses > 1:
        raise IndexError("An index can only have one ellipsis (...), got more.")
    if len(key) - ellipses > d:
        raise IndexError(f"Too many indices: the tensor has {d} modes, got {len(key) - ellipses}.")
    fill = [slice(None)] * (d - len(key) + ellipses)
    at = next((i for i, item in enumerate(key) if item is Ellipsis), len(key))
    items = [*key[:at], *fill, *key[at + 1 :]]
    for k, item in enumerate(items):
        if isinstance(item, slice):
            if not range(shape[k])[item]:
                raise IndexError(
                    f"The slice of mode {k}, of size {shape[k]}, must not be empty, got {item}."
                )
        elif is_integer(item):
            if not -shape[k] <= item < shape[k]:
                raise IndexError(f"Index {item} is out of range for mode {k} of size {shape[k]}.")
            items[k] = int(item) % shape[k]
        else:
            raise IndexError(
                f"Mode {k} can be indexed by an integer, a slice or an ellipsis, got {item!r}; "
                f"for many entries at once give one integer array of shape (m, {d})."
            )
    return items


def parse_rows(indices: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Index rows as a non-negative integer array of shape (m, d)."""
    indices, d = plain_array(indices, "indices"), len(shape)
    if indices.ndim != 2 or indices.shape[1] != d:
        raise IndexError(
            f"An array of indices must be of shape (m, {d}), one row per entry, "
            f"got {indices.shape}."
        )
    if indices.dtype.kind not in "iu":
        raise IndexError(f"An array of indices must hold integers, got {indices.dtype}.")
    sizes = np.array(shape)
    outside = (indices < -sizes) | (indices >= sizes)
    if outside.any():
        row, k = (int(i) for i in np.argwhere(outside)[0])
        raise IndexError(
            f"indices[{row}, {k}] = {indices[row, k]} is out of range for mode {k} of size "
            f"{shape[k]}."
        )
    return np.where(indices < 0, indices + sizes, indices)


def parse_axes(axis: int | Sequence[int] | None, d: int) -> set[int]:
    """The modes that ``W.sum(axis)`` sums over, as non-negative integers."""
    if axis is None:
        return set(range(d))
    is_several = isinstance(axis, Sequence) or (isinstance(axis, np.ndarray) and axis.ndim)
    axes = set()
    for k in axis if is_several else [axis]:
        if not is_integer(k) or not -d <= k < d:
            raise ValueError(f"axis must be among the {d} modes, got {k!r}.")
        if k % d in axes:
            raise ValueError(f"axis must have each mode once, got mode {k % d} twice.")
        axes.add(int(k) % d)
    return axes


def map_slots(
    function: Callable[[np.ndarray, int], np.ndarray], scaled: ScaledTrain
) -> ScaledTrain | np.floating:
    """The tensor with cores ``function(slots, k)``, or its only entry if it has no modes left.

    The slots of core k are an array (n, r0, r1). The function may return another one, or a matrix
    (r0, r1): that mode is then gone, and the matrix is multiplied into a neighbouring core.
    """
    parts = [function(slots, k) for k, slots in enumerate(to_slots(scaled.train))]
    cores, power = _absorb_matrices(parts)
    exponent = scaled.exponent + power
    if all(part.ndim == 2 for part in parts):
        return ldexp(cores[0], exponent)[0, 0, 0]
    return ScaledTrain(from_slots(cores), exponent)


def _absorb_matrices(parts):
    """Multiply matrices (r0, r1) among the parts into the cores (n, r0, r1) next to them.

    Returns the cores, and the exponent of a power of two to multiply them by. If all parts are
    matrices, one core of shape (1, 1, 1) remains.
    """
    cores, carry, exponent = [], None, 0
    for part in parts:
        product = part
        if carry is not None:
            product, power = scaled_product(carry, part)
            exponent += power
        elif part.ndim == 2:
            product, power = extract_power(part)
            exponent += power
        if part.ndim == 2:
            carry = product
        else:
            cores.append(product)
            carry = None
    if carry is not None and cores:
        cores[-1] = cores[-1] @ carry
    elif carry is not None:
        cores.append(carry[None])
    return cores, exponent
