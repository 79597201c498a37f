"""The largest squared entries of a tensor train, with a proof that none is missed.

A set of columns is a path through the cores: at each one slot 0 (the column is not in the set) or
another slot (it is). In the right-orthogonal gauge the squared norm of a prefix, the product of the
cores so far, is the sum over all its completions; so it is a bound for each of them. Prefixes are
extended core by core, and the ones with the largest bounds are kept. At one core all prefixes share
the total, so at most total / tau of them have a bound above tau.

Where all slots but the first count together, as the functions of a column do, a prefix is a matrix,

    X -> sum_q B[q]^T X B[q]    with trace(X) in the place of the squared norm.
"""

from typing import NamedTuple

import numpy as np

FIRST_WIDTH = 64  # prefixes that are kept at each core in the first round
WIDER = 8  # times as many in each further round
MOST_NODES = 2**20  # prefixes in all rounds, at moderate rank
LARGEST_PACKED = 24  # rank up to which maps of symmetric matrices are written out
SAME = 1e-9  # relative difference of values that are the same up to rounding
NEGLIGIBLE = 1e-13  # share of the norm of a core that is rounding


class Strongest(NamedTuple):
    """The sets with the largest values, from the largest one on.

    Parameters
    ----------
    values : array (k,)
    sets : list of tuples of (column, slot)
        The slot is 1 where all slots of a column count together.
    most_missed : float
        No other set has a larger value.
    is_proved : bool
        Whether no other set is stronger than the last one here.
    """

    values: np.ndarray
    sets: list[tuple[tuple[int, int], ...]]
    most_missed: float
    is_proved: bool


def find_strongest(
    cores: list[np.ndarray], k: int, orders: tuple[int, int] | None = None, is_joint: bool = True
) -> Strongest:
    """Return the k sets with the largest sums of squared entries.

    Parameters
    ----------
    cores : list of arrays (n, r0, r1)
        All but the first right-orthogonal.
    k : int
    orders : (least, most), optional
        Numbers of columns that a set may have; by default from 1 on.
    is_joint : bool
        Whether all slots of a column but the first count together.

    Notes
    -----
    O(d n r^4) once, then O(r^4) per prefix; O(n r^2) per prefix if each column has one slot.
    """
    is_joint = is_joint and any(len(core) > 2 for core in cores)
    steps = [_Joint(core) if is_joint else _Single(core) for core in cores]
    limits = None if orders is None else _energies_by_order(cores, orders)
    width, least, n_nodes, most_nodes = FIRST_WIDTH, 0.0, 0, MOST_NODES
    if is_joint:  # a prefix costs as much as a matrix product
        rank = max(core.shape[1] for core in cores)
        most_nodes = int(MOST_NODES / max(1.0, rank / LARGEST_PACKED) ** 3)
    best: dict[tuple, float] = {}
    missed = np.inf
    while True:
        found, lost, n = _extend(steps, limits, orders, k, width, least)
        n_nodes += n
        best |= found
        best = dict(sorted(best.items(), key=lambda item: -item[1])[:k])
        missed = min(missed, lost)
        values = np.array(list(best.values()))
        last = values[-1] if len(best) == k else 0.0
        is_proved = missed <= last * (1 + SAME)
        wider = min(WIDER * width, (most_nodes - n_nodes) // len(cores))
        if is_proved or wider <= width:
            return Strongest(values, list(best), max(missed, last), is_proved)
        width, least = wider, last * (1 - SAME)


class _Single:
    """A core where each slot is a choice of its own; a prefix is a vector (r,)."""

    def __init__(self, core):
        self.n, self.r0, self.r1 = core.shape
        self.matrix = core.transpose(1, 0, 2).reshape(self.r0, -1)

    first = np.ones((1, 1))

    def extend(self, prefixes):
        return (prefixes @ self.matrix).reshape(len(prefixes), self.n, self.r1)

    def energy(self, prefixes, gram=None):
        left = prefixes if gram is None else prefixes @ gram
        return np.einsum("na,na->n", left, prefixes)


class _Joint:
    """A core where a column is in a set or not; a prefix is a symmetric matrix (r, r).

    Those of moderate rank are packed, see `_pack`, and a core is a matrix for each of both choices.
    """

    n = 2

    def __init__(self, core):
        _, self.r0, self.r1 = core.shape
        self.parts = [core[:1], _fewer_slots(core[1:])]
        self.is_packed = max(self.r0, self.r1) <= LARGEST_PACKED
        if self.is_packed:
            self.matrix = np.hstack([_map_of_packed(part) for part in self.parts])

    first = np.ones((1, 1, 1))

    def extend(self, prefixes):
        if self.is_packed:
            packed = _pack(prefixes) @ self.matrix
            size = self.r1 * (self.r1 + 1) // 2
            return _unpack(packed.reshape(len(prefixes), 2, size), self.r1)
        out = np.empty((len(prefixes), 2, self.r1, self.r1))
        for j, part in enumerate(self.parts):
            for s, X in enumerate(prefixes):
                out[s, j] = np.tensordot(part, X @ part, ((0, 1), (0, 1)))
        return out

    def energy(self, prefixes, gram=None):
        if gram is None:
            return np.trace(prefixes, axis1=1, axis2=2)
        return np.tensordot(prefixes, gram, 2)


def _fewer_slots(B):
    """Slots with the same sum ``sum_q B[q] x B[q]``, as few as there are independent ones."""
    q, r0, r1 = B.shape
    if q < 2:
        return B
    _, values, rows = np.linalg.svd(B.reshape(q, r0 * r1), full_matrices=False)
    kept = values > NEGLIGIBLE * values[0]
    return (values[kept, None] * rows[kept]).reshape(-1, r0, r1)


def _pairs(r):
    """Rows, columns and factors of the packed entries: the inner product stays the same."""
    i, j = np.tril_indices(r)
    return i, j, np.where(i == j, 1.0, np.sqrt(2.0))


def _pack(X):
    i, j, factors = _pairs(X.shape[-1])
    return X[..., i, j] * factors


def _unpack(packed, r):
    i, j, factors = _pairs(r)
    X = np.empty((*packed.shape[:-1], r, r))
    X[..., i, j] = X[..., j, i] = packed / factors
    return X


def _map_of_packed(B):
    """``X -> sum_q B[q]^T X B[q]`` as a matrix for packed X, in O(q r^4)."""
    q, r0, r1 = B.shape
    rows = B.reshape(q, r0 * r1)
    products = (rows.T @ rows).reshape(r0, r1, r0, r1).transpose(0, 2, 1, 3)
    i, j, factors = _pairs(r0)
    half = (products[i, j] + products[j, i]) * (factors / 2)[:, None, None]
    a, b, factors = _pairs(r1)
    return half[:, a, b] * factors


def _energies_by_order(cores, orders):
    """For each core and number of columns so far, the Gram of all completions that are allowed."""
    least, most = orders
    r = cores[-1].shape[2]
    exact = np.zeros((most + 1, r, r))  # of the completions of exactly j columns
    exact[0] = np.eye(r)
    found = []
    for core in reversed(cores):
        found.append(
            np.array([exact[max(0, least - j) : most - j + 1].sum(axis=0) for j in range(most + 1)])
        )
        out = core[0] @ exact @ core[0].T
        for B in core[1:]:
            out[1:] += B @ exact[:-1] @ B.T
        exact = out
    return found[::-1]


def _extend(steps, limits, orders, k, width, least):
    """Go through the cores once. Returns {set: value}, the largest bound left out, and a count.

    Prefixes whose bound is at most `least` are left out for good.
    """
    prefixes, counts = steps[0].first, np.zeros(1, int)
    history, lost, n_nodes = [], 0.0, 0
    for at, step in enumerate(steps):
        n_nodes += len(prefixes)
        children = step.extend(prefixes)
        children = children.reshape(-1, *children.shape[2:])
        parents, slots = np.divmod(np.arange(len(children)), step.n)
        n_columns = counts[parents] + (slots > 0)
        if limits is None:
            bounds = step.energy(children)
        else:
            bounds = np.zeros(len(children))
            for j in range(orders[1] + 1):
                here = n_columns == j
                if here.any():
                    bounds[here] = step.energy(children[here], limits[at][j])
        is_last = at == len(steps) - 1
        if is_last:
            bounds[n_columns == 0] = -1  # the mean
        kept = np.flatnonzero(bounds > least)
        most = k if is_last else width
        if len(kept) > most:
            kept = kept[np.argsort(-bounds[kept], kind="stable")]
            if not is_last:
                lost = max(lost, bounds[kept[most]])
            kept = np.sort(kept[:most]) if not is_last else kept[:most]
        history.append((parents[kept], slots[kept]))
        prefixes, counts, values = children[kept], n_columns[kept], bounds[kept]
    place, paths = np.arange(len(values)), np.zeros((len(values), len(steps)), int)
    for at in reversed(range(len(steps))):
        parents, slots = history[at]
        paths[:, at] = slots[place]
        place = parents[place]
    sets = [tuple((int(c), int(path[c])) for c in np.flatnonzero(path)) for path in paths]
    return dict(zip(sets, values.tolist(), strict=True)), lost, n_nodes
