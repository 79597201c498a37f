"""The passes of a sweep over the samples, each for a chunk of them (see `newton_sweep`).

Samples are taken in blocks, in the order of the runs of the core. What there is for each sample and
output of a block is output after output: z[j count + i].
"""

from .compilation import inner
from .dense import copy, fill
from .loss_formulas import SOFTMAX, evaluate
from .newton_state import CURRENT, CURVATURE, GRADIENT, STEP_SIZE, VALUES
from .panels import (
    LANES,
    gather_panels,
    gather_rows,
    panel_outer,
    panel_product,
    panel_squares,
    products_by_output,
    row_products,
    scatter_rows,
    sum_over_outputs,
    weigh_rows,
)
from .runs import BLOCK, block_at, weigh_terms
from .tiles import element, shift

# -- chunks ----------------------------------------------------------------------------------------


@inner
def places_of_chunk(p, k, chunk):
    """The first place of a chunk and its end, in whole groups."""
    groups = (p.runs.first_place[k + 1] - p.runs.first_place[k]) // LANES
    step = (groups + p.n_chunks - 1) // p.n_chunks
    return min(chunk * step, groups) * LANES, min((chunk + 1) * step, groups) * LANES


@inner
def _run_at(starts, n_runs, place):
    """The run that holds a place: the last one that begins there or before."""
    low, high = 0, n_runs - 1
    while low < high:
        middle = (low + high + 1) // 2
        if starts[middle] <= place:
            low = middle
        else:
            high = middle - 1
    return low


@inner
def runs_of_chunk(p, k, place, stop):
    """The first and the last run of a chunk; a single chunk has all of them, also empty ones."""
    if p.n_chunks == 1:
        return 0, p.runs.n_runs[k] - 1
    starts, n_runs = shift(p.runs.starts, p.runs.first_start[k]), p.runs.n_runs[k]
    return _run_at(starts, n_runs, place), _run_at(starts, n_runs, max(place, stop - 1))


# -- passes ----------------------------------------------------------------------------------------


@inner
def output_of(p, k, R, j):
    """The partial products of one output at bond k, right of the center: rows of R numbers."""
    return shift(p.bonds, p.first_bond[k] + j * (p.m + 1) * R)


@inner
def is_in_order(p, k):
    """Whether the places of a core are the samples themselves."""
    return p.runs.n_runs[k] == 1


@inner
def _gather(p, k, block, numbers, out):
    """out[i] = numbers[sample i of the block]."""
    count, samples = block.count, block.samples
    if is_in_order(p, k):
        n = min(count, p.m - block.place)
        here = shift(numbers, block.place)
        for i in range(n):
            out[i] = element(out, here[i])
        fill(shift(out, n), count - n, 0)
    else:
        for i in range(count):
            out[i] = element(out, numbers[samples[i]])


@inner
def _sort_derivatives(p, k, block, now, z, h, w):
    """Bring g (as z), h and the weights of the samples of a block side by side."""
    for j in range(p.K):
        row, to = shift(now, p.size + j * (p.m + 1)), j * block.count
        _gather(p, k, block, row, shift(z, to))
        _gather(p, k, block, shift(row, p.size), shift(h, to))
    if p.loss == SOFTMAX:
        _gather(p, k, block, p.w, w)


@inner
def _apply_hessian(p, block, h, w, z, mean):
    """z_s <- H_s z_s, H_s the second derivatives of the loss in the outputs of sample s."""
    K, count = p.K, block.count
    if p.loss != SOFTMAX:
        for i in range(K * count):
            z[i] *= h[i]
        return
    fill(mean, count, 0)
    for j in range(K):
        for i in range(count):
            mean[i] += h[j * count + i] * z[j * count + i]
    for j in range(K):
        for i in range(count):
            z[j * count + i] = w[i] * h[j * count + i] * (z[j * count + i] - mean[i])


@inner
def _gather_right(p, block, core, R):
    """The partial products right of the core: rows, or panels of several outputs."""
    R1, groups = core.R1, block.groups
    for j in range(p.K):
        source, to = output_of(p, core.k + 1, R1, j), shift(R, j * block.count * R1)
        if p.K == 1:
            gather_rows(source, R1, block.samples, R1, groups, to)
        else:
            gather_panels(source, R1, block.samples, R1, groups, to, R1)


@inner
def _energy(p, block, core, h, w, R, left, right):
    """The sum of |L_s|^2 H_s,jj |R_s,j|^2 over samples and outputs, left = |L_s|^2."""
    K, count, R1, total = p.K, block.count, core.R1, 0.0
    for j in range(K):
        row = shift(R, j * count * R1)
        if core.is_open:
            fill(right, count, 1)
        elif K == 1:
            row_products(row, R1, row, R1, R1, block.groups, right)
        else:
            panel_squares(row, R1, R1, block.groups, right)
        bending = shift(h, j * count)
        if p.loss == SOFTMAX:
            for i in range(count):
                right[i] *= w[i] * (1 - bending[i])
        for i in range(count):
            total += left[i] * bending[i] * right[i]
    return total


@inner
def _project(p, block, core, Y, R, z):
    """z_s,j = <Y_s, R_s,j>; R_s is the identity for the core of the outputs."""
    K, R1 = p.K, core.R1
    if core.is_open:
        for j in range(K):
            for i in range(block.count):
                z[j * block.count + i] = Y[i * R1 + j]
    elif K == 1:
        row_products(Y, R1, R, R1, R1, block.groups, z)
    else:
        products_by_output(Y, R, K, R1, block.groups, z)


@inner
def _combine(p, block, core, z, R, V):
    """V_s = sum_j z_s,j R_s,j, the transpose of `_project`."""
    K, R1, count = p.K, core.R1, block.count
    if core.is_open:
        fill(V, count * R1, 0)
        for j in range(K):
            for i in range(count):
                V[i * R1 + j] = z[j * count + i]
    elif K == 1:
        weigh_rows(R, R1, z, R1, block.groups, V)
    else:
        sum_over_outputs(R, z, K, R1, block.groups, V)


@inner
def pass_over_core(p, kind, chunk, core):
    """One chunk of VALUES: f += J C; of GRADIENT: J^T g; or of CURVATURE: J p and J^T H J p.

    The sums J^T .. are left in parts[run + chunk terms]. O(terms r0 r1) per sample.
    """
    K, k, R0, R1, slot = p.K, core.k, core.R0, core.R1, core.slot
    now, depth = shift(p.state, 3 * p.counters[CURRENT] * p.size), core.n_terms * R0
    Y = shift(p.blocks, chunk * p.room)
    V = shift(Y, BLOCK * p.width)
    z = shift(V, BLOCK * p.width)
    left, right = shift(z, BLOCK * K), shift(z, BLOCK * (K + 1))
    place, stop = places_of_chunk(p, k, chunk)
    run, last = runs_of_chunk(p, k, place, stop)
    if kind != VALUES:
        n_parts = min(p.runs.n_matrices[k] - run, last - run + core.n_terms)
        if p.n_chunks == 1:
            n_parts = p.runs.n_matrices[k]
        fill(shift(p.parts, (run + chunk * core.n_terms) * slot), n_parts * slot, 0)
        fill(shift(p.energies, run + chunk), last + 1 - run, 0)
    while place < stop:
        block = block_at(p.runs, k, place, stop, run)
        run, count, groups, samples = block.run, block.count, block.groups, block.samples
        A, R = shift(p.left, place * depth), shift(p.right, place * K * R1)
        h = shift(p.ordered, place * K)
        w, along = shift(h, p.n_ordered), shift(h, 3 * p.n_ordered)
        if kind != CURVATURE:  # which follows GRADIENT, at the same core
            bond = shift(p.bonds, p.first_bond[k])
            gather_panels(bond, R0, samples, R0, groups, A, depth)
            panel_squares(A, depth, R0, groups, left)
            weigh_terms(block, R0, A)
            if not core.is_open:
                _gather_right(p, block, core, R)
        if kind == GRADIENT:
            _sort_derivatives(p, k, block, now, z, h, w)
            p.energies[run + chunk] += _energy(p, block, core, h, w, R, left, right)
        else:
            panel_product(A, depth, shift(p.matrices, run * slot), R1, groups, Y, R1)
            _project(p, block, core, Y, R, z)
        if kind == VALUES:
            for j in range(K):
                for i in range(count):
                    now[j * (p.m + 1) + samples[i]] += z[j * count + i]
        else:
            if kind == CURVATURE:
                copy(z, count * K, along)
                _apply_hessian(p, block, h, w, z, left)
            _combine(p, block, core, z, R, V)
            part = shift(p.parts, (run + chunk * core.n_terms) * slot)
            panel_outer(A, depth, V, R1, R1, groups, part)
        place += count


@inner
def pass_to_bond(p, chunk, core, to_left):
    """One chunk of the partial products that take a core in: those right of it, or left of it.

    The matrices are transposed in the former case. O(terms r0 r1) per sample, and output there.
    """
    k, K = core.k, p.K
    place, stop = places_of_chunk(p, k, chunk)
    run, _ = runs_of_chunk(p, k, place, stop)
    Y = shift(p.blocks, chunk * p.room)
    panels = shift(Y, BLOCK * (2 * p.width + K + 2))
    if to_left and core.is_open:  # R_(s, j) is column j of the core for every sample
        for j in range(K):
            row, target = shift(p.matrices, j * core.R0), output_of(p, k, core.R0, j)
            for s in range(place, min(stop, p.m)):
                copy(row, core.R0, shift(target, s * core.R0))
        return
    while place < stop:
        block = block_at(p.runs, k, place, stop, run)
        run, groups = block.run, block.groups
        depth = core.n_terms * (core.R1 if to_left else core.R0)
        M = shift(p.matrices, run * core.slot)
        if to_left:
            for j in range(K):
                source, target = output_of(p, k + 1, core.R1, j), output_of(p, k, core.R0, j)
                gather_panels(source, core.R1, block.samples, core.R1, groups, panels, depth)
                weigh_terms(block, core.R1, panels)
                panel_product(panels, depth, M, core.R0, groups, Y, core.R0)
                scatter_rows(Y, block.samples, core.R0, groups, target, core.R0)
        else:  # the panels are those of the last GRADIENT
            A, target = shift(p.left, place * depth), shift(p.bonds, p.first_bond[k + 1])
            panel_product(A, depth, M, core.R1, groups, Y, core.R1)
            scatter_rows(Y, block.samples, core.R1, groups, target, core.R1)
        place += block.count


@inner
def pass_along_line(p, chunk):
    """One chunk of the loss after a trial step, and its derivatives there. O(K) per sample."""
    step, row = (p.m + p.n_chunks - 1) // p.n_chunks, p.m + 1
    start, stop = min(chunk * step, p.m), min((chunk + 1) * step, p.m)
    state, current, t = shift(p.state, start), p.counters[CURRENT], p.numbers[STEP_SIZE]
    f, along = shift(state, 3 * current * p.size), shift(state, 6 * p.size)
    trial = shift(state, 3 * (1 - current) * p.size)
    for j in range(p.K):
        for i in range(j * row, j * row + stop - start):
            trial[i] = f[i] + t * along[i]
    p.values[chunk] = evaluate(
        p.loss, stop - start, p.K, row, shift(p.y, start), shift(p.w, start), trial,
        shift(trial, p.size), shift(trial, 2 * p.size),
    )  # fmt: skip
