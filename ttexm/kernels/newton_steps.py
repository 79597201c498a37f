"""The steps of a sweep between its passes, which see the cores alone (see `newton_sweep`)."""

from typing import NamedTuple

from .compilation import inner
from .dense import copy, energy, fill, inner_product, product, transpose
from .layout import CATEGORY, INDEX
from .newton_passes import is_in_order, places_of_chunk, runs_of_chunk
from .newton_state import (
    ADVANCE,
    CENTER,
    CG,
    CURRENT,
    CURVATURE,
    FIRST_RZ,
    GRADIENT,
    HALVINGS,
    IS_STARTED,
    LAST_PASS,
    LINE,
    N_SOLVED,
    NEWTON,
    READY,
    RZ,
    SLOPE,
    SQUARED_GRADIENTS,
    START,
    STEP_SIZE,
    TO_LEFT,
    VALUE,
    VALUES,
    core_at,
)
from .panels import pad
from .runs import block_at, collapse, expand, load_core
from .tall_qr import tall_qr
from .tiles import element, shift

MOST_HALVINGS, LEAST_DECREASE = 30, 1e-4  # of a step; share of its slope (Armijo's rule)


@inner
def _load(p, core, out):
    """out (n, R0, R1) = the core, padded with zeros."""
    load_core(shift(p.cores, p.offsets[core.k]), core.n, core.r0, core.r1, out)


@inner
def _store(p, core, C):
    data = shift(p.cores, p.offsets[core.k])
    for i in range(core.n):
        for a in range(core.r0):
            here = shift(C, (i * core.R0 + a) * core.R1)
            copy(here, core.r1, shift(data, (i * core.r0 + a) * core.r1))


@inner
def _set_matrices(p, core, C, is_transposed):
    """The matrices of all runs for a padded core, in the precision of the samples."""
    n, R0, R1 = core.n, core.R0, core.R1
    if is_transposed:  # slot by slot
        for i in range(n):
            for a in range(R0):
                for b in range(R1):
                    at = i * core.slot + b * R0 + a
                    p.padded[at] = element(p.padded, C[i * core.slot + a * R1 + b])
    else:
        for i in range(core.length):
            p.padded[i] = element(p.padded, C[i])
    fill(shift(p.padded, core.length), (pad(n) - n) * core.slot, 0)
    expand(p.runs, core.k, n, core.slot, p.padded, p.matrices)


@inner
def sum_parts(p, core):
    """Add the sums of the chunks in order, and leave J^T .. as a padded core in `padded`."""
    k, slot, parts = core.k, core.slot, p.parts
    if p.n_chunks > 1:
        n_runs, n_matrices = p.runs.n_runs[k], p.runs.n_matrices[k]
        parts, sums = p.matrices, shift(p.energies, n_runs + p.n_chunks)
        fill(parts, n_matrices * slot, 0)
        fill(sums, n_runs, 0)
        for chunk in range(p.n_chunks):
            place, stop = places_of_chunk(p, k, chunk)
            first, last = runs_of_chunk(p, k, place, stop)
            here = shift(p.parts, (first + chunk * core.n_terms) * slot)
            to = shift(parts, first * slot)
            for i in range(min(n_matrices - first, last - first + core.n_terms) * slot):
                to[i] += here[i]
            for run in range(first, last + 1):
                sums[run] += p.energies[run + chunk]
        copy(sums, n_runs, p.energies)
    collapse(p.runs, k, core.n, slot, parts, p.padded)


@inner
def _precondition(p, core, out):
    """out (n): the mean curvature of each slot for codes; for other modes that of all slots."""
    kind, n = p.runs.kinds[core.k], core.n
    total, highest, size = 0.0, 0.0, core.r0 * core.r1
    for run in range(p.runs.n_runs[core.k]):
        total += p.energies[run] / size
    if kind not in (CATEGORY, INDEX):
        fill(out, n, max(total, 1e-300) + p.alpha)
        return
    for i in range(n):
        out[i] = p.runs.scales[core.k] ** 2 * p.energies[i] / size
    if kind == CATEGORY:
        out[0] = total
    for i in range(n):
        highest = max(highest, out[i])
    for i in range(n):
        out[i] = max(out[i], 1e-6 * max(highest, 1e-300)) + p.alpha


class Vectors(NamedTuple):
    """Padded cores of a local problem: C, the gradient, x, the residual, the direction."""

    C: object
    gradient: object
    x: object
    residual: object
    direction: object
    scale: object  # the preconditioner, (n,)


@inner
def _vectors(p, core):
    v, S = p.vectors, core.length
    return Vectors(
        v, shift(v, S), shift(v, 2 * S), shift(v, 3 * S), shift(v, 4 * S), shift(v, 5 * S)
    )


@inner
def _after_gradient(p, core):
    """Start conjugate gradients; whether there is a direction."""
    v = _vectors(p, core)
    _precondition(p, core, v.scale)
    rz, squared = 0.0, 0.0
    for i in range(core.n):
        for e in range(i * core.slot, (i + 1) * core.slot):
            v.gradient[e] = p.padded[e] + p.alpha * v.C[e]
            v.residual[e] = -v.gradient[e]
            v.direction[e] = v.residual[e] / v.scale[i]
            rz += v.residual[e] * v.direction[e]
            squared += v.gradient[e] * v.gradient[e]
    fill(v.x, core.length, 0)
    fill(shift(p.ordered, 2 * p.n_ordered), _n_ordered(p, core), 0)
    p.numbers[RZ] = p.numbers[FIRST_RZ] = rz
    p.numbers[SQUARED_GRADIENTS] += squared
    p.counters[N_SOLVED] += 1
    p.counters[CG] = 0
    return rz > 0


@inner
def _after_curvature(p, core):
    """One step of conjugate gradients; whether another one follows."""
    v, D = _vectors(p, core), p.padded
    along = shift(p.ordered, 2 * p.n_ordered)
    step = shift(along, p.n_ordered)
    bent = 0.0
    for e in range(core.length):
        bent += v.direction[e] * (D[e] + p.alpha * v.direction[e])
    p.counters[CG] += 1
    if not bent > 0 and p.counters[CG] > 1:
        return False
    # Without any curvature the first direction is taken as it is.
    a = p.numbers[RZ] / bent if bent > 0 else 1.0
    factor = element(along, a)
    for e in range(core.length):
        v.x[e] += a * v.direction[e]
        v.residual[e] -= a * (D[e] + p.alpha * v.direction[e])
    for i in range(_n_ordered(p, core)):
        along[i] += factor * step[i]
    last, rz = p.numbers[RZ], 0.0
    for i in range(core.n):
        rz += energy(shift(v.residual, i * core.slot), core.slot) / v.scale[i]
    p.numbers[RZ] = rz
    is_small = not rz > p.cg_tolerance**2 * p.numbers[FIRST_RZ]
    if not bent > 0 or is_small or p.counters[CG] >= p.cg_steps:
        return False
    for i in range(core.n):
        for e in range(i * core.slot, (i + 1) * core.slot):
            v.direction[e] = v.residual[e] / v.scale[i] + rz / last * v.direction[e]
    return True


@inner
def _n_ordered(p, core):
    """Numbers, one for each place and output, in the order of the runs of a core."""
    return (p.runs.first_place[core.k + 1] - p.runs.first_place[core.k]) * p.K


@inner
def _unsort_along(p, core):
    """Bring J x from the order of the runs to that of the samples."""
    k, K, to = core.k, p.K, shift(p.state, 6 * p.size)
    in_order = is_in_order(p, k)
    for chunk in range(p.n_chunks):
        place, stop = places_of_chunk(p, k, chunk)
        run, _ = runs_of_chunk(p, k, place, stop)
        while place < stop:
            block = block_at(p.runs, k, place, stop, run)
            run, along = block.run, shift(p.ordered, 2 * p.n_ordered + place * K)
            for j in range(K):
                row, numbers = shift(to, j * (p.m + 1)), shift(along, j * block.count)
                if in_order:
                    here = shift(row, place)
                    for i in range(min(block.count, p.m - place)):
                        here[i] = numbers[i]
                else:
                    for i in range(block.count):
                        row[block.samples[i]] = numbers[i]
            place += block.count


@inner
def _sum_of_values(p):
    total = 0.0
    for chunk in range(p.n_chunks):
        total += p.values[chunk]
    return total


@inner
def _after_line(p, core):
    """Take the step, or halve it; whether it has to be tried again."""
    v, t, squared = _vectors(p, core), p.numbers[STEP_SIZE], 0.0
    for e in range(core.length):
        squared += (v.C[e] + t * v.x[e]) ** 2
    value = _sum_of_values(p) + 0.5 * p.alpha * squared
    if value <= p.numbers[VALUE] + LEAST_DECREASE * t * p.numbers[SLOPE]:
        for e in range(core.length):
            v.C[e] += t * v.x[e]
        _store(p, core, v.C)
        p.numbers[VALUE] = value
        p.counters[CURRENT] = 1 - p.counters[CURRENT]
        return False
    p.numbers[STEP_SIZE] = 0.5 * t
    p.counters[HALVINGS] += 1
    if p.counters[HALVINGS] < MOST_HALVINGS:
        return True
    p.counters[NEWTON] = p.newton_steps
    return False


@inner
def _move_center(p, core, to_left):
    """Make the core orthogonal and multiply a neighbour by what is left of it.

    To the right C = Q S, and the next core is multiplied by S; to the left C = S^T Q, and the one
    before by S^T.
    """
    n, r0, r1, k = core.n, core.r0, core.r1, core.k
    r, rows, slot = (r0, n * r1, r0 * r1) if to_left else (r1, n * r0, r0 * r1)
    C, S = shift(p.cores, p.offsets[k]), p.qr
    A = shift(S, r * r)
    scratch = shift(A, n * slot)
    for i in range(n):
        if to_left:
            transpose(shift(C, i * slot), r0, r1, shift(A, i * slot))
        else:
            copy(shift(C, i * slot), slot, shift(A, i * slot))
    tall_qr(A, rows, r, S, scratch)
    for i in range(n):
        if to_left:
            transpose(shift(A, i * slot), r1, r0, shift(C, i * slot))
        else:
            copy(shift(A, i * slot), slot, shift(C, i * slot))
    if to_left:
        before = shift(p.cores, p.offsets[k - 1])
        for row in range(p.sizes[k - 1] * p.ranks[k - 1]):
            G = shift(before, row * r0)
            for b in range(r0):  # S is triangular: what is overwritten is not needed any more
                G[b] = inner_product(shift(G, b), shift(S, b * r0 + b), r0 - b)
    else:
        r2 = p.ranks[k + 2]
        for i in range(p.sizes[k + 1]):
            G = shift(p.cores, p.offsets[k + 1] + i * r1 * r2)
            product(S, G, r1, r1, r2, scratch)
            copy(scratch, r1 * r2, G)


@inner
def _start(p, core):
    """The first passes: partial products from the right, then the predictions and their loss."""
    last = p.counters[LAST_PASS]
    if last in (READY, START):
        p.counters[CENTER] -= 1
        return START if p.counters[CENTER] > 0 else VALUES
    if last == VALUES:
        p.numbers[STEP_SIZE] = 0.0
        return LINE
    p.counters[CURRENT], p.counters[IS_STARTED] = 1 - p.counters[CURRENT], 1
    p.numbers[VALUE] = _sum_of_values(p) + 0.5 * p.alpha * energy(p.vectors, core.length)
    return READY


@inner
def _after_newton_step(p, core):
    """Another step, or on to the next core."""
    p.counters[NEWTON] += 1
    if p.counters[NEWTON] < p.newton_steps:
        return GRADIENT
    return READY if p.counters[TO_LEFT] == 1 and core.k == 0 else ADVANCE


@inner
def next_pass(p, core):
    """What follows the last pass."""
    last = p.counters[LAST_PASS]
    if p.counters[IS_STARTED] == 0:
        return _start(p, core)
    if last in (READY, ADVANCE):
        if last == READY:
            p.counters[TO_LEFT] = int(p.n_cores == 1)
            p.counters[N_SOLVED], p.numbers[SQUARED_GRADIENTS] = 0, 0.0
        else:
            p.counters[CENTER] += -1 if p.counters[TO_LEFT] else 1
            if p.counters[CENTER] == p.n_cores - 1:
                p.counters[TO_LEFT] = 1
        p.counters[NEWTON] = 0
        _load(p, core_at(p, p.counters[CENTER]), p.vectors)
        return GRADIENT
    if last == LINE:
        return LINE if _after_line(p, core) else _after_newton_step(p, core)
    if _after_gradient(p, core) if last == GRADIENT else _after_curvature(p, core):
        return CURVATURE
    v = _vectors(p, core)
    p.numbers[SLOPE] = inner_product(v.gradient, v.x, core.length)
    if p.numbers[SLOPE] < 0:
        _unsort_along(p, core)
        p.numbers[STEP_SIZE], p.counters[HALVINGS] = 1.0, 0
        return LINE
    p.counters[NEWTON] = p.newton_steps
    return _after_newton_step(p, core)


@inner
def prepare(p, following, core):
    """Compute the matrices that the next pass needs; make the center orthogonal before it moves."""
    is_transposed = following == START or p.counters[TO_LEFT] == 1
    v = _vectors(p, core)
    C = v.direction if following == CURVATURE else v.C
    if following in (START, ADVANCE):
        _move_center(p, core, is_transposed)
    if following != CURVATURE:
        _load(p, core, C)
    _set_matrices(p, core, C, is_transposed and following in (START, ADVANCE))
