"""Samples sorted by the matrices that they need: how a sweep over the cores sees a batch.

With a core C and the feature vector phi_s of its mode, the partial products of sample s are
multiplied by the matrix sum_i phi_s[i] C[i]. Samples of one level of a category share it. Samples
between two knots of a curve share the matrices of both, with weights of their own. So a mode has a
list of *matrices*, and its samples come in *runs*: those of a run take the same few matrices, one
after the other in the list, with one weight each (its *terms*).

    kind       matrices                          runs               terms and weights of a sample
    NUMERIC    C[0], C[1], ..                    one, all samples   1, v_1, ..
    VECTOR     C[0], C[1], ..                    one, all samples   v_0, v_1, ..
    CATEGORY   C[0] + scale C[c]  (c = 0: C[0])  one per level c    1
    INDEX      scale C[c]                        one per index c    1
    CURVE      P C                               one per knot c     1 - t, t of the knots c, c + 1

with the table P (knots, n) of the feature vectors at the knots; the last one is that of missing
values. Each run is filled up to whole groups with the number m, that of a sample of zeros.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .compilation import inner, kernel
from .dense import copy, fill
from .layout import CATEGORY, CURVE, INDEX, NUMERIC, VECTOR, Batch
from .packing import unpack, views
from .panels import LANES, pad, panel_outer, panel_product, weigh_panels
from .tiles import element, pointer, shift

BLOCK = 64  # samples whose products are in cache at once


class Runs(NamedTuple):
    """The samples of all modes, in runs, as flat arrays."""

    kinds: np.ndarray  # (d,) int64
    n_runs: np.ndarray  # (d,) int64
    n_terms: np.ndarray  # (d,) int64
    n_matrices: np.ndarray  # (d,) int64
    order: np.ndarray  # int32: for each mode its places, each with the number of a sample
    first_place: np.ndarray  # (d + 1,) int64, multiples of LANES
    starts: np.ndarray  # int64: for each mode the first place of each run, and the end
    first_start: np.ndarray  # (d,) int64
    weights: np.ndarray  # for each mode and weighted term, those of the places
    first_weight: np.ndarray  # (d,) int64
    scales: np.ndarray  # (d,) float64, of codes
    tables: np.ndarray  # for each curve its table, in panels
    first_table: np.ndarray  # (d,) int64


@kernel
def sort_codes(codes, n_codes, order, starts):
    """Counting sort by code: lists samples in `order`, each code from starts[c] on, in groups."""
    counts = np.zeros(n_codes, np.int64)
    for s in range(len(codes)):
        counts[codes[s]] += 1
    starts[0] = 0
    for c in range(n_codes):
        starts[c + 1] = starts[c] + pad(counts[c])
        counts[c] = starts[c]
    order[:] = len(codes)
    for s in range(len(codes)):
        order[counts[codes[s]]] = s
        counts[codes[s]] += 1


def make_runs(
    batch: Batch,
    m: int,
    sizes: Sequence[int],
    dtype: DTypeLike,
    tables: Sequence[np.ndarray | None],
) -> Runs:
    """Return the runs of a batch of m samples with modes of the given sizes.

    Parameters
    ----------
    batch : Batch
        Of any precision.
    m : int
    sizes : sequence of d int
        Numbers of slots.
    dtype : dtype
        Of weights and tables.
    tables : sequence of d arrays (knots, n), or None for modes that are no curves
    """
    d, (values, codes) = len(batch.kinds), views(batch, m)
    n_runs, n_terms = np.ones(d, np.int64), np.ones(d, np.int64)
    n_matrices = np.array(sizes, np.int64)
    orders, starts, weights = [], [], []
    for k, (kind, first) in enumerate(zip(batch.kinds, batch.columns, strict=True)):
        given, code = np.empty((0, m)), np.zeros(m, np.int32)
        if kind in (NUMERIC, VECTOR):
            n_weights = sizes[k] - (kind == NUMERIC)
            given = unpack(values[:, first : first + n_weights], m).T
            n_terms[k] = sizes[k]
        elif kind == CURVE:
            place = unpack(values[:, first : first + 1], m)[:, 0]
            code = place.astype(np.int32)
            given = np.stack([1 - (place - code), place - code])
            n_runs[k], n_terms[k] = len(tables[k]), 2
            n_matrices[k] = _rows_of_table(tables[k])
        else:
            code = np.ascontiguousarray(unpack(codes[:, first : first + 1], m)[:, 0])
            n_runs[k] = sizes[k]
        order = np.empty(m + LANES * int(n_runs[k]), np.int32)
        begins = np.empty(n_runs[k] + 1, np.int64)
        sort_codes(code, int(n_runs[k]), order, begins)
        orders.append(order[: begins[-1]])
        starts.append(begins)
        filled = np.zeros((len(given), m + 1), dtype)
        filled[:, :m] = given
        weights.append(filled[:, orders[-1]].reshape(-1))
    return Runs(
        batch.kinds, n_runs, n_terms, n_matrices, np.concatenate(orders),
        np.append(0, np.cumsum([len(order) for order in orders])),
        np.concatenate(starts), _firsts(starts), np.concatenate(weights), _firsts(weights),
        batch.scales.astype(np.float64), *make_table_panels(tables, dtype),
    )  # fmt: skip


def _rows_of_table(table):
    # The last knot has a second term, of weight 0.
    return -(-(len(table) + 1) // LANES) * LANES


class TablePanels(NamedTuple):
    """The tables of all curves, in panels; see `Runs`."""

    tables: np.ndarray
    first_table: np.ndarray


def make_table_panels(tables: Sequence[np.ndarray | None], dtype: DTypeLike) -> TablePanels:
    """Return tables P (knots, n) in panels; None for modes that are no curves."""
    panels = [np.empty(0)] * len(tables)
    for k, table in enumerate(tables):
        if table is not None:
            n = table.shape[1]
            rows = np.zeros((_rows_of_table(table), -(-n // LANES) * LANES))
            rows[: len(table), :n] = table
            panels[k] = rows.reshape(-1, LANES, rows.shape[1]).transpose(0, 2, 1).reshape(-1)
    return TablePanels(np.concatenate([*panels, np.zeros(LANES)]).astype(dtype), _firsts(panels))


def with_outputs(runs: Runs, m: int) -> Runs:
    """Return the runs with one more mode, that of the outputs: one term, and no weights."""
    order = np.full(-(-m // LANES) * LANES, m, np.int32)
    order[:m] = np.arange(m)
    ones = np.ones(1, np.int64)
    return runs._replace(
        kinds=np.append(runs.kinds, NUMERIC),
        n_runs=np.append(runs.n_runs, ones),
        n_terms=np.append(runs.n_terms, ones),
        n_matrices=np.append(runs.n_matrices, ones),
        order=np.concatenate([runs.order, order]),
        first_place=np.append(runs.first_place, runs.first_place[-1] + len(order)),
        starts=np.concatenate([runs.starts, [0, len(order)]]),
        first_start=np.append(runs.first_start, len(runs.starts)),
        first_weight=np.append(runs.first_weight, 0),
        scales=np.append(runs.scales, 1.0),
        first_table=np.append(runs.first_table, 0),
    )


def _firsts(arrays):
    """The first place of each array, if they are stored one after the other."""
    sizes = np.array([array.size for array in arrays], np.int64)
    return np.cumsum(sizes) - sizes


@inner
def point_to_runs(runs):
    """The runs, with pointers in the place of arrays."""
    return Runs(
        pointer(runs.kinds), pointer(runs.n_runs), pointer(runs.n_terms), pointer(runs.n_matrices),
        pointer(runs.order), pointer(runs.first_place), pointer(runs.starts),
        pointer(runs.first_start), pointer(runs.weights), pointer(runs.first_weight),
        pointer(runs.scales), pointer(runs.tables), pointer(runs.first_table),
    )  # fmt: skip


# -- blocks of samples that share their matrices ---------------------------------------------------


class Block(NamedTuple):
    """Some samples of one run, side by side in the order of the runs, in whole groups."""

    place: int  # of the first
    count: int
    groups: int
    run: int
    samples: object  # their numbers
    weights: object  # of their weighted terms, `stride` apart
    stride: int
    n_terms: int
    n_plain: int  # terms without weights, 0 or 1


@inner
def block_at(runs, k, place, stop, run):
    """The block that begins at a place: of one run, and before `stop`."""
    starts = shift(runs.starts, runs.first_start[k])
    while place >= starts[run + 1]:
        run += 1
    count = min(min(BLOCK, starts[run + 1] - place), stop - place)
    first, kind = runs.first_place[k], runs.kinds[k]
    return Block(
        place, count, count // LANES, run, shift(runs.order, first + place),
        shift(runs.weights, runs.first_weight[k] + place), runs.first_place[k + 1] - first,
        runs.n_terms[k], int(kind != VECTOR and kind != CURVE),
    )  # fmt: skip


@inner
def weigh_terms(block, R, A):
    """Panels A of the rows of a block, times the weights of each term: their depth is terms R."""
    for j in range(block.n_terms - 1, block.n_plain - 1, -1):  # the first one last: in its place
        w = shift(block.weights, (j - block.n_plain) * block.stride)
        weigh_panels(A, block.n_terms * R, w, R, block.groups, shift(A, j * R * LANES))


# -- from cores to matrices, and back --------------------------------------------------------------


@inner
def load_core(data, n, r0, r1, out):
    """out (n, R0, R1) = a core (n, r0, r1), padded with zeros."""
    R0, R1 = pad(r0), pad(r1)
    fill(out, n * R0 * R1, 0)
    for i in range(n):
        for a in range(r0):
            here, to = (i * r0 + a) * r1, (i * R0 + a) * R1
            for b in range(r1):
                out[to + b] = element(out, data[here + b])


@inner
def expand(runs, k, n, slot, C, M):
    """M (n_matrices, slot): the matrices of a core C (n, slot).

    C has zeros up to pad(n) slots.
    """
    kind, n_matrices = runs.kinds[k], runs.n_matrices[k]
    if kind in (NUMERIC, VECTOR):
        copy(C, n * slot, M)
    elif kind == CURVE:
        P = shift(runs.tables, runs.first_table[k])
        panel_product(P, pad(n), C, slot, n_matrices // LANES, M, slot)
    else:
        scale = element(M, runs.scales[k])
        for c in range(n_matrices):
            to, G = shift(M, c * slot), shift(C, c * slot)
            if kind == INDEX:
                for i in range(slot):
                    to[i] = scale * G[i]
            elif c == 0:
                copy(C, slot, M)
            else:
                for i in range(slot):
                    to[i] = C[i] + scale * G[i]


@inner
def collapse(runs, k, n, slot, M, D):
    """D (n, slot), with room for pad(n) slots: the transpose of `expand`."""
    kind, n_matrices = runs.kinds[k], runs.n_matrices[k]
    if kind in (NUMERIC, VECTOR):
        copy(M, n * slot, D)
    elif kind == CURVE:
        P = shift(runs.tables, runs.first_table[k])
        fill(D, pad(n) * slot, 0)
        panel_outer(P, pad(n), M, slot, slot, n_matrices // LANES, D)
    else:
        scale = element(M, runs.scales[k])
        if kind == CATEGORY:
            fill(D, slot, 0)
            for c in range(n_matrices):
                G = shift(M, c * slot)
                for i in range(slot):
                    D[i] += G[i]
        for c in range(kind == CATEGORY, n_matrices):
            to, G = shift(D, c * slot), shift(M, c * slot)
            for i in range(slot):
                to[i] = scale * G[i]
