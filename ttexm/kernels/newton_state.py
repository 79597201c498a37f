"""What a sweep over the cores works on, and the order of its passes (see `newton_sweep`)."""

from typing import NamedTuple

import numpy as np

from .compilation import inner
from .panels import pad
from .runs import Runs, point_to_runs
from .tiles import pointer

# Passes over the samples. READY stands for the end of a sweep.
START, VALUES, LINE, GRADIENT, CURVATURE, ADVANCE, READY = range(7)

# Places in Settings.counters and Settings.numbers.
LAST_PASS, CENTER, TO_LEFT, NEWTON, CG, HALVINGS, CURRENT, IS_STARTED, N_SOLVED = range(9)
VALUE, STEP_SIZE, SLOPE, RZ, FIRST_RZ, SQUARED_GRADIENTS = range(6)
N_COUNTERS, N_NUMBERS = 9, 6


class Cores(NamedTuple):
    """Cores as `layout.Train` has them; with several outputs the last rank is their number."""

    data: np.ndarray  # float64
    ranks: np.ndarray
    sizes: np.ndarray
    offsets: np.ndarray


class Rows(NamedTuple):
    """What there is for each sample and output, flat; sample m is one of zeros."""

    y: np.ndarray  # (K, m + 1)
    w: np.ndarray  # (m + 1,)
    state: np.ndarray  # (7, K, m + 1): f, g, h twice (now, and after a trial step), and J x
    bonds: np.ndarray  # partial products of all samples, bond after bond
    first_bond: np.ndarray  # (d + 1,) int64
    m: int
    n_outputs: int
    n_chunks: int


class Work(NamedTuple):
    """Scratch memory; `core_sweep` has the sizes. The first four are in the order of the runs."""

    left: np.ndarray  # partial products times the weights of their terms, in panels
    right: np.ndarray  # partial products
    ordered: np.ndarray  # (4, n_ordered): h, weights, J x and J p, by block, output and sample
    n_ordered: int
    matrices: np.ndarray  # of all runs
    parts: np.ndarray  # the sums of J^T .., by chunk and matrix
    padded: np.ndarray  # a core, in the precision of the samples
    blocks: np.ndarray  # for each chunk, several blocks of rows
    width: int  # numbers of the longest row of a block
    room: int  # elements of the blocks of a chunk
    vectors: np.ndarray  # C, its gradient, x, r, p and a preconditioner; float64
    energies: np.ndarray  # by run and chunk, and sums over chunks
    values: np.ndarray  # of the loss, by chunk
    qr: np.ndarray
    sharing: np.ndarray  # int64, see `sharing`


class Settings(NamedTuple):
    """What is solved, how far, and where a sweep is."""

    loss: int  # see `loss_formulas`
    alpha: float
    newton_steps: int
    cg_steps: int
    cg_tolerance: float
    counters: np.ndarray  # int64
    numbers: np.ndarray  # float64


class Sweep(NamedTuple):
    """All of these, with pointers for arrays: numba takes minutes to compile calls with arrays."""

    runs: Runs
    cores: object
    ranks: object
    sizes: object
    offsets: object
    n_cores: int
    y: object
    w: object
    state: object
    bonds: object
    first_bond: object
    m: int
    K: int
    size: int  # of an array of `state`
    n_chunks: int
    left: object
    right: object
    ordered: object
    n_ordered: int
    matrices: object
    parts: object
    padded: object
    blocks: object
    width: int
    room: int
    vectors: object
    energies: object
    values: object
    qr: object
    sharing: object
    loss: int
    alpha: float
    newton_steps: int
    cg_steps: int
    cg_tolerance: float
    counters: object
    numbers: object


@inner
def point_to(runs, cores, rows, work, settings):
    """The pointers to all arrays."""
    return Sweep(
        point_to_runs(runs),
        pointer(cores.data), pointer(cores.ranks), pointer(cores.sizes), pointer(cores.offsets),
        len(cores.sizes),
        pointer(rows.y), pointer(rows.w), pointer(rows.state), pointer(rows.bonds),
        pointer(rows.first_bond), rows.m, rows.n_outputs, (rows.m + 1) * rows.n_outputs,
        rows.n_chunks,
        pointer(work.left), pointer(work.right), pointer(work.ordered), work.n_ordered,
        pointer(work.matrices), pointer(work.parts), pointer(work.padded), pointer(work.blocks),
        work.width, work.room, pointer(work.vectors), pointer(work.energies), pointer(work.values),
        pointer(work.qr), pointer(work.sharing),
        settings.loss, settings.alpha, settings.newton_steps, settings.cg_steps,
        settings.cg_tolerance, pointer(settings.counters), pointer(settings.numbers),
    )  # fmt: skip


class Core(NamedTuple):
    """Sizes of one core: ranks, padded ranks, elements of a padded slot and of all slots."""

    k: int
    n: int
    r0: int
    r1: int
    R0: int
    R1: int
    slot: int
    length: int
    n_terms: int
    is_open: bool  # whether it is that of the outputs


@inner
def core_at(p, k):
    n, r0, r1 = p.sizes[k], p.ranks[k], p.ranks[k + 1]
    slot, is_open = pad(r0) * pad(r1), p.K > 1 and k == p.n_cores - 1
    return Core(k, n, r0, r1, pad(r0), pad(r1), slot, n * slot, p.runs.n_terms[k], is_open)
