"""A sweep over the cores as one compiled call: a Newton step at each core, then the next one.

All cores but one, the center C, are orthogonal. With the partial products L_s left and R_s right of
it, predictions are linear in the center, and |W| = |C|:

    f_s = sum_i phi_s[i] L_s C[i] R_s  =  (J C)_s

The objective is then as convex as the loss. Truncated Newton-CG lowers it, with backtracking; QR
moves the center on. Several outputs are one more core, the last, with one slot and the matrix
(r, K); then R_s has a row for each output.

A sweep alternates between *passes* over all samples and *steps* that see the cores alone. One call
does all of them, up to the next evaluation of a loss that is not built in. Threads share the chunks
of a pass (see `sharing`). Sums over samples are formed by chunk and added in order, so that the
bits do not depend on the number of threads.

Partial products are rows of numbers, padded with zeros to a multiple of LANES: row s of a bond left
of the center, row (j, s) for output j right of it. C, gradients and directions are padded alike.
"""

from .compilation import kernel
from .loss_formulas import OTHER
from .newton_passes import pass_along_line, pass_over_core, pass_to_bond
from .newton_state import (
    ADVANCE,
    CENTER,
    CURVATURE,
    GRADIENT,
    LAST_PASS,
    LINE,
    READY,
    START,
    TO_LEFT,
    VALUES,
    Cores,
    Rows,
    Settings,
    Work,
    core_at,
    point_to,
)
from .newton_steps import next_pass, prepare, sum_parts
from .runs import Runs
from .sharing import claim, dismiss, finish, offer, wait_for_offer, wait_until_done


@kernel
def newton_sweep(runs, cores, rows, work, settings, is_helper):
    """Do a whole sweep, or go on to the next pass that the caller has to do.

    Returns the pass that comes next: READY after a sweep; LINE if the loss is not built in. That
    pass is the caller's, who evaluates the loss after a trial step. The first sweep only evaluates.
    O(terms r^2) per sample and core, O(n r^3) per core.

    A helper does chunks of passes, until the call that it helps returns.
    """
    # All that is long is called from here once: numba optimises a function again in each caller.
    p = point_to(Runs(*runs), Cores(*cores), Rows(*rows), Work(*work), Settings(*settings))
    counters, following = p.counters, READY
    while True:
        if is_helper:
            if not wait_for_offer(p.sharing, p.n_chunks):
                return following
        else:
            core = core_at(p, min(counters[CENTER], p.n_cores - 1))
            if counters[LAST_PASS] in (GRADIENT, CURVATURE):
                sum_parts(p, core)
            following = next_pass(p, core)
            counters[LAST_PASS] = following
            if following in (START, VALUES, CURVATURE, ADVANCE):
                prepare(p, following, core_at(p, counters[CENTER]))
            if following == READY or (following == LINE and p.loss == OTHER):
                dismiss(p.sharing)
                return following
            offer(p.sharing)
        while True:
            chunk = claim(p.sharing, p.n_chunks)
            if chunk >= p.n_chunks:
                break
            kind, core = counters[LAST_PASS], core_at(p, counters[CENTER])
            if kind == LINE:
                pass_along_line(p, chunk)
            elif kind in (START, ADVANCE):
                pass_to_bond(p, chunk, core, kind == START or counters[TO_LEFT] == 1)
            else:
                pass_over_core(p, kind, chunk, core)
            finish(p.sharing)
        if not is_helper:
            wait_until_done(p.sharing, p.n_chunks)
