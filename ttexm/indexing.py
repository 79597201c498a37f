"""What ``W[..]`` means: one integer or slice per mode, an ellipsis, or an array of index rows."""

import numpy as np

from .shapes import is_integer, plain_array


def parse_key(key, shape: tuple[int, ...]) -> list[int | slice]:
    """One non-negative integer or slice for each mode."""
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


def parse_rows(indices, shape: tuple[int, ...]) -> np.ndarray:
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


def collapse(parts: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """Multiply matrices (r0, r1) among `parts` into their neighbours, slots (n, r0, r1).

    Returns the remaining parts, of the form (n, r0, r1), and the power of two to multiply them by.
    If all are matrices, one part of shape (1, 1, 1) remains.
    """
    cores, carry, exponent = [], None, 0
    for part in parts:
        product = part
        if carry is not None:
            product, power = scaled_product(carry, part)
            exponent += power
        elif part.ndim == 2:
            product, power = without_power(part)
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


def scaled_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, int]:
    """a @ b by a power of two, near 1, and the exponent; for an array `a` that is near 1 itself.

    A small b is scaled up first, as its product with small entries of `a` would be lost; a large
    one is not scaled down, as its own small entries would be.
    """
    scaled, power = without_power(b)
    if power > 0:
        scaled, power = b, 0
    product, rest = without_power(a @ scaled)
    return product, power + rest


def without_power(a: np.ndarray) -> tuple[np.ndarray, int]:
    """The array by the power of two that brings its largest entry near 1, and the exponent.

    NaN, inf and zeros are left as they are.
    """
    peak = float(np.abs(a).max())
    if not 0 < peak < np.inf:
        return a, 0
    power = int(np.frexp(peak)[1])
    return np.ldexp(a, -power), power
