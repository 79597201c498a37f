"""The search for settings: what to try next, and what to take."""

import math
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from .. import progress
from ..bases import FEW, LINEAR, ROUGH, SEARCHED, SMOOTH, Basis
from .averaging import average_weights, best_of_levels, is_within
from .candidate import Candidate, Request
from .grid import NOTHING, Given, Grid
from .plan import PLAN, SearchPlan
from .validation import Validation, is_better

# A path or a climb: it asks for a candidate, is sent it, and so on, and returns what it has found.
Asking = Generator[Request, Candidate, Any]


class OutOfTimeError(Exception):
    """The search has used up its time."""


class Search:
    """Tries additive models, then models with interactions, and averages the best of them.

    1. *Additive models* of straight lines and of curves, along the penalties.
    2. *Explore*: one sweep at a low rank, climbing over penalty and order scale, for each basis.
    3. *Judge* the best of each basis with more sweeps at a higher rank, and climb from the winner
       over rank, order scale and penalty.
    4. *Screen* for products, and judge models that start from them.
    5. *Average* the best of each level that is not clearly worse than the best of all.

    Parameters
    ----------
    validation : Validation
    given : Given
    has_curves : bool
        Whether there are columns with several functions, so that bases differ.
    n_rows : int
        Of all rows.
    n_outputs : int
    n_columns : int
    largest_ranks : dict of Basis to float, optional
        The largest rank that tensors of a basis can have, see `largest_rank`.
    max_iter : int, optional
        Most sweeps.
    time_limit : float, optional
        Seconds after which the search ends with the best so far.
    verbose : bool
    plan : SearchPlan

    Attributes
    ----------
    tried : list of Candidate
        All candidates, in the order in which they were tried.
    """

    def __init__(
        self,
        validation: Validation,
        given: Given = NOTHING,
        has_curves: bool = False,
        n_rows: int = 0,
        n_outputs: int = 1,
        n_columns: int = 1,
        largest_ranks: dict[Basis, float] | None = None,
        max_iter: int | None = None,
        time_limit: float | None = None,
        verbose: bool = False,
        plan: SearchPlan = PLAN,
    ):
        self.validation, self.given, self.plan = validation, given, plan
        self.has_curves = has_curves
        self.max_iter = max_iter or plan.most_sweeps
        self.verbose, self.n_rows = verbose, n_rows
        # How much a row costs, next to one of a table as wide as the plan's numbers are for.
        self.effort = max(1.0, n_columns * (1 + n_outputs) / (2 * plan.usual_columns))
        self.grid = Grid(given, n_rows, n_outputs, largest_ranks, plan)
        self.tried: list[Candidate] = []
        self._known: dict = {}
        self._end = math.inf if time_limit is None else time.monotonic() + time_limit

    # -- the steps -----------------------------------------------------------------------------

    def run(self, may_be_additive: bool = True) -> list[tuple[float, Candidate]]:
        """Return the models to average, with their weights, the best one first.

        Models with interactions only, and just one, unless `may_be_additive`.
        """
        self._may_be_additive = may_be_additive
        self._bar = progress.bar(0, "choosing settings", self.verbose)
        try:
            found = self._search(may_be_additive)
        except OutOfTimeError:
            found = self.best_so_far(may_be_additive)
        finally:
            self._bar.close()
        return found

    def best_so_far(self, may_be_additive: bool = True) -> list[tuple[float, Candidate]] | None:
        """Return the best candidate of those tried on most folds, if the search was interrupted."""
        tried = [c for c in self.tried if may_be_additive or not c.is_additive]
        most = max((c.n_folds for c in tried), default=0)
        tried = [c for c in tried if c.n_folds == most]
        return [(1.0, min(tried, key=_score))] if tried else None

    def _search(self, may_be_additive):
        self._begin("additive")
        linear, *curved = additive = self._additive_models()
        self._begin("explore")
        explored = self._explore(linear, *curved[:1])
        self._begin("judge")
        judged = self._judge(explored)
        best = min(judged, key=_score)
        self._begin("screen")
        screened = self._try_screened(linear)
        if screened is not None and is_better(screened, best, self.plan.screening.gain):
            judged.append(screened)
        if not may_be_additive:
            return [(1.0, min(judged, key=_score))]
        self._begin("average")
        members = best_of_levels([*additive, *judged], self.plan)
        if len(members) == 1:
            return [(1.0, members[0])]
        members = best_of_levels(self._on_all_folds(members), self.plan)
        if self.validation.is_part and not members[0].is_additive:
            # More rows show more of what interacts: additive models gain least from them.
            members = [member for member in members if not member.is_additive]
        folds = self.validation.folds[: members[0].n_folds]
        y = np.concatenate([fold.test.y for fold in folds])
        weights = average_weights(members, y, folds[0].test.loss, self.plan)
        found = [(float(a), member) for a, member in zip(weights, members, strict=True) if a > 0]
        return sorted(found, key=lambda pair: -pair[0])

    def _additive_models(self) -> list[Candidate]:
        """Return the best additive models: of straight lines, and of rough and smooth curves."""
        bases = [LINEAR, ROUGH, SMOOTH] if self.has_curves else [LINEAR]
        return self._side_by_side([self._additive_path(basis) for basis in bases])

    def _additive_path(self, basis: Basis) -> Asking:
        if self.given.total_alpha is not None:
            found = []
            for s in self.grid.scales:
                found.append((yield self._additive(basis, self.grid.ridge(0, s))))
            return min(found, key=_score)
        at = self.grid.ridges.index(self.plan.first_ridge)
        return (yield from self._follow(at, lambda at: self._additive(basis, self.grid.ridges[at])))

    def _follow(self, at: int, ask: Callable[[int], Request]) -> Asking:
        """Return the best candidate on a path of larger penalties, or of smaller ones if none is.

        From the given place on, while the loss falls.
        """
        best = yield ask(at)
        for step in (1, -1):
            start = best
            while self.grid.is_place(at + step, 0):
                following = yield ask(at + step)
                if not following.score < best.score:
                    break
                best, at = following, at + step
            if best is not start:
                break
        return best

    def _explore(self, linear: Candidate, curved: Candidate | None = None) -> list[list[Candidate]]:
        """Return the candidates of each basis after one sweep, from the best one on."""
        plan = self.plan
        if curved is None:
            at = self.grid.nearest_ridge(max(linear.ridge, plan.least_ridge))
            places = [(at, self.grid.nearest_scale(s)) for s in plan.level_scales]
            tried = self._try_all([self._explored(LINEAR, *place) for place in places])
            first = places[int(np.argmin([candidate.score for candidate in tried]))]
            return self._side_by_side([self._climb(LINEAR, *first, plan.most_explored)])
        # The basis of the better additive model first; the others start where that one ended.
        others = [SMOOTH, FEW]
        if curved.score < linear.score:
            low, high = plan.first_ridges
            first, s = ROUGH, plan.first_scale
            at = min(max(self.grid.ridge_above(curved.ridge), low), high)
            if curved.score > linear.score - plan.curve_gain * abs(linear.score):
                others.append(LINEAR)
        else:
            first, at, s = LINEAR, linear.ridge, plan.linear_scale
            others.append(ROUGH)
        start = self.grid.nearest_ridge(at), self.grid.nearest_scale(s)
        found = self._side_by_side([self._climb(first, *start, plan.most_explored)])
        best = found[0][0]
        at, scale = self.grid.nearest(best)
        lower = max(0, at - 1) if first == ROUGH else at
        starts = [(basis, lower if basis == SMOOTH else at, scale) for basis in others]
        near = self._try_all([self._explored(*start) for start in starts])
        most = [1 if is_better(best, c, plan.far) else plan.fewer_explored for c in near]
        climbs = [self._climb(*start, n) for start, n in zip(starts, most, strict=True)]
        return found + self._side_by_side(climbs)

    def _climb(self, basis, ridge, scale, most) -> Asking:
        """Step from neighbour to neighbour while the loss falls; both are places in the grid.

        Returns all candidates, the best one first.
        """
        best = yield self._explored(basis, ridge, scale)
        tried, n_new = [best], 1
        moves, n_failed = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1)], 0
        while n_failed < len(moves) and n_new < most:
            up, wider = moves[0]
            if self.grid.is_place(ridge + up, scale + wider):
                request = self._explored(basis, ridge + up, scale + wider)
                n_new += request not in self._known
                following = yield request
                tried.append(following)
                if is_better(following, best, self.plan.gain):
                    best, ridge, scale, n_failed = following, ridge + up, scale + wider, 0
                    continue
            moves, n_failed = [*moves[1:], moves[0]], n_failed + 1
        return sorted(set(tried), key=_score)

    def _judge(self, explored: list[list[Candidate]]) -> list[Candidate]:
        """Return candidates with more sweeps on more folds: the best explored ones and others.

        The best few of the best basis, and the best one of each other basis that is near it; then
        other ranks for the winner; then the other bases at its rank.
        """
        plan, rank = self.plan, self.grid.nearest_rank(self.plan.judging_rank)
        explored = sorted(explored, key=lambda found: found[0].score)
        lowest = explored[0][0]
        chosen = [*explored[0][: plan.n_judged], *(found[0] for found in explored[1:])]
        chosen = [
            c
            for c in chosen
            if not is_better(lowest, c, plan.near) or is_within(c, lowest, plan.near_errors)
        ]
        starts = [(*self.grid.nearest(c), rank) for c in chosen]
        judged = self._try_all(
            [self._judged(c.basis, *place) for c, place in zip(chosen, starts, strict=True)]
        )
        places = dict(zip(judged, starts, strict=True))
        best = min(judged, key=_score)
        found, end = self._change_rank(best, places[best])
        steps, others = np.subtract(end, places[best]), []
        for c in {c.basis: c for c in judged}.values():
            place = tuple(np.add(places[c], steps).tolist())
            is_moved = c.basis != best.basis and steps.any() and self.grid.is_place(*place)
            if is_moved and not is_better(best, c, plan.near):
                others.append(self._judged(c.basis, *place))
        return [*judged, *found, *self._try_all(others)]

    def _change_rank(self, best: Candidate, place: tuple[int, int, int]):
        """Step down in rank while that helps, then over order scale and penalty; else step up.

        Low ranks cost little, high ones much. Returns all candidates that were tried, and the place
        of the best one.
        """
        tried = [best]

        def step(move, gain):
            nonlocal best, place
            following = tuple(np.add(place, move).tolist())
            if not self.grid.is_place(*following):
                return False
            candidate = self._try(self._judged(best.basis, *following))
            tried.append(candidate)
            is_taken = is_better(candidate, best, gain)
            if is_taken:
                best, place = candidate, following
            return is_taken

        plan = self.plan
        if step((0, 0, -1), plan.judged_gain) or step((0, 0, -2), plan.judged_gain):
            while step((0, 0, -1), plan.judged_gain):
                pass
            moves, n_failed = [(0, -1, 0), (0, 1, 0), (1, 0, 0), (-1, 0, 0)], 0
            while n_failed < len(moves) and len(tried) < plan.most_judged:
                if step(moves[0], plan.judged_gain):
                    n_failed = 0
                else:
                    moves, n_failed = [*moves[1:], moves[0]], n_failed + 1
        elif step((0, 0, 1), plan.rank_gain):
            step((-1, -1, 0), plan.judged_gain)
            while step((0, 0, 1), plan.rank_gain):
                pass
        return tried, place

    def _try_screened(self, linear: Candidate) -> Candidate | None:
        """Return the best model that starts from screened products, if there are any."""
        plan = self.plan.screening
        self._check_time()
        most = self.given.rank or plan.most_rank
        rank = self.validation.screen(linear.ridge, most, self._n_judging)
        if rank == 0:
            return None

        # At order scale 1, at which the products were fitted.
        s = self.grid.scales[self.grid.nearest_scale(1.0)]

        def ask(at):
            n_iter = self._sweeps(rank)
            candidate = Candidate(LINEAR, self.grid.ridge(at, s), s, rank, n_iter, is_screened=True)
            return Request(candidate, self._n_judging)

        start = self.grid.nearest_ridge(min(linear.ridge, plan.most_ridge))
        return self._side_by_side([self._follow(start, ask)])[0]

    # -- candidates ----------------------------------------------------------------------------

    def _additive(self, basis, ridge) -> Request:
        return Request(Candidate(basis, ridge), self._n_judging)

    def _explored(self, basis, ridge, scale) -> Request:
        s = self.grid.scales[scale]
        rank = self.grid.rank(basis, self.grid.nearest_rank(self.plan.exploring_rank))
        candidate = Candidate(basis, self.grid.ridge(ridge, s), s, rank, 1)
        return Request(candidate, self._n_exploring, 1)

    def _judged(self, basis, ridge, scale, rank) -> Request:
        s, rank = self.grid.scales[scale], self.grid.rank(basis, rank)
        candidate = Candidate(basis, self.grid.ridge(ridge, s), s, rank, self._sweeps(rank))
        return Request(candidate, self._n_judging, min(self.plan.fewest_sweeps, candidate.n_iter))

    def _sweeps(self, rank):
        is_quick = not self.has_curves or rank <= self.plan.quick_rank
        most = self.plan.most_sweeps if is_quick else self.plan.judging_sweeps
        return min(most, self.max_iter)

    def _on_all_folds(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return candidates that were tried on all folds, with the same numbers of sweeps."""
        n_folds = self.validation.n_folds
        others = [candidate for candidate in candidates if candidate.n_folds < n_folds]
        found = self._try_all([Request(c, n_folds, c.n_iter) for c in others])
        return [c for c in candidates if c.n_folds == n_folds] + found

    def _side_by_side(self, askings: list[Asking]) -> list:
        """Return the results of some paths or climbs, which ask for one candidate after another.

        All go on at once, so that threads can share what they ask for.
        """
        results: list = [None] * len(askings)
        requests = {j: next(asking) for j, asking in enumerate(askings)}
        while requests:
            for j, candidate in zip(
                list(requests), self._try_all(list(requests.values())), strict=True
            ):
                try:
                    requests[j] = askings[j].send(candidate)
                except StopIteration as end:
                    results[j] = end.value
                    del requests[j]
        return results

    def _try(self, request: Request) -> Candidate:
        return self._try_all([request])[0]

    def _try_all(self, requests: list[Request]) -> list[Candidate]:
        """Return what was tried before, and try the others now."""
        new = [request for request in dict.fromkeys(requests) if request not in self._known]
        while new:
            self._check_time()
            n = 1
            while n < len(new) and not self._is_late():
                n += 1
            for request, found in zip(new[:n], self.validation.try_all(new[:n]), strict=True):
                self._known[request] = found
                self.tried.append(found)
                self._bar.update(f"{describe(found)}: loss {found.score:.4g}")
            new = new[n:]
        return [self._known[request] for request in requests]

    def _is_late(self):
        return time.monotonic() > self._end

    def _check_time(self):
        """Raise if the time is over, and there is a model to return."""
        if self._is_late() and self.best_so_far(self._may_be_additive):
            raise OutOfTimeError

    # -- how much to try -----------------------------------------------------------------------

    def _n_of(self, limits, n_rows):
        n, (few, some) = self.validation.n_folds, limits
        return n if n_rows < few else min(n, 2 if n_rows < some else 1)

    @property
    def _n_exploring(self):
        if not self.has_curves:
            few = self.plan.judging_rows[1]
            return self._n_of((few, few), self.n_rows)
        n = self._n_of(self.plan.exploring_rows, self.n_rows * self.effort)
        rows_of_fold = max(1, self.n_rows / self.validation.n_folds)
        enough = math.ceil(self.plan.fewest_explored_rows / rows_of_fold)
        return max(n, min(enough, self._n_judging))

    @property
    def _n_judging(self):
        n_folds = self._n_of(self.plan.judging_rows, self.n_rows)
        return n_folds if self.effort < self.plan.large_effort else min(n_folds, 2)

    def _begin(self, stage: str):
        """Tell the progress bar how many candidates there can still be."""
        plan, n_bases = self.plan, len(SEARCHED) if self.has_curves else 1
        n_paths, n_places = min(3, n_bases), max(len(self.grid.ridges), len(self.grid.scales))
        n_first = 0 if self.has_curves else len(plan.level_scales)
        n_moved = max(plan.most_judged, len(self.grid.ranks) + 3)
        most = {
            "additive": n_paths * n_places,
            "explore": n_first + plan.most_explored + (n_bases - 1) * plan.fewer_explored,
            "judge": plan.n_judged + 2 * (n_bases - 1) + n_moved,
            "screen": len(self.grid.ridges),
            "average": n_paths + n_bases + 1,
        }
        left = list(most.values())[list(most).index(stage) :]
        self._bar.expect(len(self.tried) + sum(left))


def describe(candidate: Candidate) -> str:
    """Return a few words on what was tried."""
    if candidate.is_additive:
        return f"additive, {candidate.basis.name}, ridge {candidate.ridge:.3g}"
    kind = "screened" if candidate.is_screened else candidate.basis.name
    return (
        f"{kind}, rank {candidate.rank}, ridge {candidate.ridge:.3g}, "
        f"order scale {candidate.order_scale:.3g}"
    )


def _score(candidate):
    return candidate.score


def spread_starts(
    members: list[tuple[float, Candidate]], plan: SearchPlan = PLAN
) -> Iterator[tuple[float, Candidate, int]]:
    """Yield (weight, member, number of the start) for all fits of an average.

    Members of larger weight get more of the plan's number of starts; additive models have none.
    """
    for weight, member in members:
        n = 1
        if not (member.is_additive or member.is_screened):
            n = round(min(plan.n_starts, plan.most_rank / member.rank) * weight)
        for seed in range(max(1, n)):
            yield weight / max(1, n), member, seed
