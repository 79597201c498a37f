"""Models of smaller rank, and what they cost."""

from dataclasses import dataclass

import numpy as np

from ..data.table import Table
from ..model import Model
from ..tt.core_arrays import from_slots, to_slots
from ..tt.scaled_numbers import ldexp
from ..tt.scaled_train import ScaledTrain
from ..tt.tensor import TTTensor
from .decomposition import carry, carry_back, variances
from .shares import variances_of

NEGLIGIBLE = 1e-12  # singular value relative to the largest one that is rounding


@dataclass(frozen=True)
class Compression:
    """What a model of smaller rank loses.

    Attributes
    ----------
    rank : int
    n_params : int
        Entries of the cores.
    lost : float
        The variance of the difference to the model, as a share of the variance of the model, both
        under independent columns.
    lost_on_rows : float
        The mean squared difference of the raw predictions on the given rows, as a share of their
        variance; NaN without rows.
    """

    rank: int
    n_params: int
    lost: float
    lost_on_rows: float = np.nan


def compress(model: Model, rank: int, table: Table | None = None) -> tuple[Model, Compression]:
    """Return the model with weights rounded to a rank, and what that costs. O(d n r^3).

    Weights are rounded as functions: the sum of the squared errors of all terms is about the least
    that a train of this rank can have.
    """
    small = model
    if rank < model.weights.rank:
        small = _with_weights(model, _rounded(model, rank))
    difference = variances(model.raw_weights - small.raw_weights, model.training.moments)
    lost = ldexp(difference.total() + difference.of_set(()), 2 * difference.exponent)
    whole = variances_of(model)
    variance = ldexp(whole.total(), 2 * whole.exponent)
    on_rows = np.nan if table is None else _lost_on_rows(model, small, table)
    cost = Compression(
        small.weights.rank, small.weights.n_params, float(_share(lost, variance)), on_rows
    )
    return small, cost


def _share(part, whole):
    return part / whole if whole > 0 else 0.0


def _lost_on_rows(model, small, table):
    batch = model.columns.encode(table, "cpu")
    f, g = model.raw_weights.contract(batch), small.raw_weights.contract(batch)
    variance = np.mean((f - f.mean(axis=0)) ** 2)
    return float(_share(np.mean((f - g) ** 2), variance))


def _with_weights(model, weights):
    return Model(model.columns, weights, model.loss, model.center, model.spread, model.training)


def _rounded(model, rank):
    """Truncate bond after bond, so that the mean square of f under independent columns is kept.

    With the Grams L L^T and R R^T of all that is left and right of a bond, and L^T R = U S V^T,
    inserting ``(R V S^-1/2) (S^-1/2 U^T L^T)`` there keeps the largest singular values.
    """
    scaled, moments = model.weights.scaled_train.normalized, model.training.moments
    cores, d = [np.asarray(core, np.float64) for core in to_slots(scaled.train)], len(moments)

    def weighted(k):
        return moments[k].whiten(cores[k]) if k < d else cores[k]  # or the outputs

    rights = [np.ones((1, 1))]
    for k in range(len(cores) - 1, 0, -1):
        rights.append(carry_back(weighted(k), rights[-1]))
    left = np.ones((1, 1))
    for k, right in zip(range(len(cores) - 1), reversed(rights[1:]), strict=True):
        left = carry(weighted(k), left)
        if len(left) > rank:
            L, R = _root(left), _root(right)
            U, S, Vt = np.linalg.svd(L.T @ R)
            kept = min(rank, int(np.sum(NEGLIGIBLE * S[0] < S)))
            roots = 1 / np.sqrt(S[:kept])
            P, Q = R @ Vt[:kept].T * roots, (L @ U[:, :kept] * roots).T
            cores[k], cores[k + 1] = cores[k] @ P, Q @ cores[k + 1]
            left = P.T @ left @ P
    return TTTensor.from_train(ScaledTrain(from_slots(cores), scaled.exponent))


def _root(gram):
    values, vectors = np.linalg.eigh(gram)
    return vectors * np.sqrt(np.maximum(values, 0))
