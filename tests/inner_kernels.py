"""Functions that only kernels can call, as kernels on arrays: for tests of their own."""

import contextlib
from pathlib import Path

import numpy as np

from ttexm.kernels import loss_formulas, panels
from ttexm.kernels.compilation import kernel
from ttexm.kernels.tall_qr import tall_qr, tall_qr_scratch
from ttexm.kernels.tiles import pointer

LANES = panels.LANES


def _kernel(function):
    """A kernel that is compiled anew also when this file changes."""
    dispatcher = kernel(function)
    with contextlib.suppress(AttributeError):  # nothing is cached where nothing can be written
        dispatcher._cache._cache_file._source_stamp += Path(__file__).read_bytes()
    return dispatcher


# -- factors and losses ----------------------------------------------------------------------------


@_kernel
def _tall_qr(A, R, work):
    tall_qr(pointer(A), A.shape[0], A.shape[1], pointer(R), pointer(work))


@_kernel
def _tall_qr_scratch(p, q):
    return tall_qr_scratch(p, q)


def orthogonal_factors(A):
    """Q and R of A, and whether the scratch memory was enough."""
    (p, q), Q = A.shape, A.copy()
    n_scratch = _tall_qr_scratch(p, q)
    R, work = np.full((q, q), np.nan, A.dtype), np.full(n_scratch + 64, np.nan, A.dtype)
    _tall_qr(Q, R, work)
    return Q, R, bool(np.isnan(work[n_scratch:]).all())


@_kernel
def _evaluate(loss, m, step, y, w, f, g, h):
    return loss_formulas.evaluate(
        loss, m, y.shape[0], step, pointer(y), pointer(w), pointer(f), pointer(g), pointer(h)
    )


def evaluate(loss, y, w, f):
    """The weighted sum of the losses, and g and h like f: arrays (K, m), rows of m + 1 numbers."""
    n_outputs, m = y.shape
    padded = np.zeros((4, n_outputs, m + 1))
    padded[0, :, :m], padded[1, :, :m] = y, f
    padded[:, :, m] = np.nan
    value = _evaluate(loss, m, m + 1, padded[0], np.append(w, np.nan), *padded[1:])
    assert np.isnan(padded[:, :, m]).all()
    return value, padded[2, :, :m], padded[3, :, :m]


# -- panels ---------------------------------------------------------------------------------------


@_kernel
def make_panels(rows, n_columns, out):
    groups = rows.shape[0] // LANES
    panels.make_panels(pointer(rows), rows.shape[1], n_columns, groups, pointer(out))


@_kernel
def gather_panels(rows, samples, n_columns, out, depth):
    groups = len(samples) // LANES
    panels.gather_panels(
        pointer(rows), rows.shape[1], pointer(samples), n_columns, groups, pointer(out), depth
    )


@_kernel
def panel_product(A, depth, b, out):
    groups = out.shape[0] // LANES
    panels.panel_product(
        pointer(A), depth, pointer(b), b.shape[1], groups, pointer(out), out.shape[1]
    )


@_kernel
def panel_outer(A, depth, rows, out):
    groups = rows.shape[0] // LANES
    panels.panel_outer(
        pointer(A), depth, pointer(rows), rows.shape[1], out.shape[1], groups, pointer(out)
    )


@_kernel
def panel_squares(A, depth, n_columns, out):
    panels.panel_squares(pointer(A), depth, n_columns, len(out) // LANES, pointer(out))


@_kernel
def weigh_panels(A, depth, w, n_columns, out):
    panels.weigh_panels(pointer(A), depth, pointer(w), n_columns, len(w) // LANES, pointer(out))


@_kernel
def row_products(a, b, n_columns, out):
    groups = len(out) // LANES
    panels.row_products(
        pointer(a), a.shape[1], pointer(b), b.shape[1], n_columns, groups, pointer(out)
    )


@_kernel
def weigh_rows(rows, w, out):
    groups, n_columns = len(w) // LANES, out.shape[1]
    panels.weigh_rows(pointer(rows), rows.shape[1], pointer(w), n_columns, groups, pointer(out))


@_kernel
def products_by_output(rows, A, out):
    """Rows (m, n) and panels (K, groups, n, LANES); out (K, m)."""
    groups = rows.shape[0] // LANES
    panels.products_by_output(
        pointer(rows), pointer(A), A.shape[0], rows.shape[1], groups, pointer(out)
    )


@_kernel
def sum_over_outputs(A, w, out):
    """Panels (K, groups, n, LANES) and weights (K, m); out (m, n)."""
    groups = out.shape[0] // LANES
    panels.sum_over_outputs(pointer(A), pointer(w), A.shape[0], out.shape[1], groups, pointer(out))


@_kernel
def gather_rows(rows, samples, out):
    groups, n_columns = len(samples) // LANES, out.shape[1]
    panels.gather_rows(
        pointer(rows), rows.shape[1], pointer(samples), n_columns, groups, pointer(out)
    )


@_kernel
def scatter_rows(block, samples, rows):
    groups, n_columns = len(samples) // LANES, block.shape[1]
    panels.scatter_rows(
        pointer(block), pointer(samples), n_columns, groups, pointer(rows), rows.shape[1]
    )
