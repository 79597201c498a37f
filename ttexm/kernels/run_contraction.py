"""Contraction of a train with samples in runs (see `runs`): one sweep from the left."""

import numpy as np

from .compilation import inner, kernel
from .dense import fill
from .layout import aligned
from .panels import LANES, gather_panels, pad, panel_product, scatter_rows
from .runs import (
    BLOCK,
    Runs,
    block_at,
    expand,
    load_core,
    point_to_runs,
    weigh_terms,
    with_outputs,
)
from .tiles import element, pointer, shift


@kernel
def _contract(runs, data, ranks, sizes, m, width, work, room, out):
    """out (m, K) = the products of m samples with a train of last rank K. O(terms r0 r1)."""
    runs, core = point_to_runs(Runs(*runs)), pointer(data)
    v = pointer(work)
    following = shift(v, (m + 1) * width)
    Y = shift(following, (m + 1) * width)
    panels = shift(Y, BLOCK * width)
    padded = shift(panels, room[0])
    matrices = shift(padded, room[1])
    fill(v, (m + 1) * LANES, 0)
    for s in range(m):
        v[s * LANES] = element(v, 1)
    fill(following, (m + 1) * width, 0)
    for k in range(len(sizes)):
        n, r0, r1 = sizes[k], ranks[k], ranks[k + 1]
        R0, R1 = pad(r0), pad(r1)
        load_core(core, n, r0, r1, padded)
        fill(shift(padded, n * R0 * R1), (pad(n) - n) * R0 * R1, 0)
        expand(runs, k, n, R0 * R1, padded, matrices)
        _absorb(runs, k, R0, R1, v, panels, matrices, Y, following)
        v, following = following, v
        core = shift(core, n * r0 * r1)
    R, K = pad(ranks[len(sizes)]), ranks[len(sizes)]
    for s in range(m):
        for j in range(K):
            out[s, j] = v[s * R + j]


@inner
def _absorb(runs, k, R0, R1, v, panels, matrices, Y, out):
    """out_s = v_s times the matrix of sample s at core k."""
    place, stop, run = 0, runs.first_place[k + 1] - runs.first_place[k], 0
    depth = runs.n_terms[k] * R0
    while place < stop:
        block = block_at(runs, k, place, stop, run)
        run = block.run
        gather_panels(v, R0, block.samples, R0, block.groups, panels, depth)
        weigh_terms(block, R0, panels)
        panel_product(panels, depth, shift(matrices, run * R0 * R1), R1, block.groups, Y, R1)
        scatter_rows(Y, block.samples, R1, block.groups, out, R1)
        place += block.count


def contract(runs: Runs, cores: list[np.ndarray], m: int) -> np.ndarray:
    """Return the products (m, K) of m samples with a train, K its last rank.

    Parameters
    ----------
    runs : Runs
        Of the d modes of the samples.
    cores : list of arrays (n, r0, r1)
        d of them; or d + 1, of which the last, (1, r, K), is that of the outputs.
    m : int
    """
    if len(cores) > len(runs.kinds):
        runs = with_outputs(runs, m)
    sizes = np.array([len(core) for core in cores])
    ranks = np.array([core.shape[1] for core in cores] + [cores[-1].shape[2]])
    padded = -(-ranks // LANES) * LANES
    slots, width = padded[:-1] * padded[1:], int(padded.max())
    room = (
        BLOCK * int((runs.n_terms * padded[:-1]).max()),
        int((-(-sizes // LANES) * LANES * slots).max()),
    )
    size = (2 * (m + 1) + BLOCK) * width + sum(room) + int((runs.n_matrices * slots).max())
    out = np.empty((m, int(ranks[-1])))
    data = np.concatenate([core.reshape(-1) for core in cores])
    work = aligned(size, runs.weights.dtype)
    _contract(tuple(runs), data, ranks, sizes, m, width, work, room, out)
    return out
