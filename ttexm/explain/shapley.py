"""Shapley values and interactions of single predictions."""

from collections.abc import Sequence

import numpy as np

from ..data.table import Table
from ..model import Model
from .background import Background
from .games import Game

AGREEMENT = 1e-6  # relative difference to the prediction that is more than rounding


def shap_values(
    model: Model, table: Table, background: Background | None = None, output: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return Shapley values (m, d, outputs) of raw predictions, and the base value (outputs,).

    Parameters
    ----------
    model : Model
    table : Table
    background : Background, optional
        By default, columns are independent and distributed as in training.
    output : int, optional
        One of several outputs.

    Notes
    -----
    O(d^2 r^2) per row and output, times the clusters of the background.
    """
    weights, batch = model.raw_weights_of(output), model.columns.encode(table, "cpu")
    game = Game(weights, len(model.columns))
    values, base = 0.0, 0.0
    for share, vectors in _bases(model, background):
        values = values + share * game.values(batch, vectors)
        base = base + share * game.value_at(vectors)
    _check_sum(values.sum(axis=1) + base, weights.contract(batch))
    return values, base + _center(model, output)


def interaction_values(
    model: Model,
    table: Table,
    is_taylor: bool = False,
    background: Background | None = None,
    output: int | None = None,
) -> np.ndarray:
    """Return interactions (m, d, d, outputs) of raw predictions; each sums to f minus the base.

    Half of the index of a pair is at each of its two places. The diagonal has what is left to a
    column: its Shapley value without its halves, of the Shapley interaction index; or the effect of
    the column alone, of that of Shapley and Taylor. Parameters as of `shap_values`.
    """
    weights, batch = model.raw_weights_of(output), model.columns.encode(table, "cpu")
    game, d = Game(weights, len(model.columns)), len(model.columns)
    found = 0.0
    for share, vectors in _bases(model, background):
        pairs = game.pairs(batch, vectors, is_taylor) / 2
        alone = game.alone(batch, vectors) if is_taylor else game.values(batch, vectors)
        diagonal = alone if is_taylor else alone - pairs.sum(axis=2)
        pairs[:, range(d), range(d)] = diagonal
        found = found + share * pairs
    return found


def moebius_values(
    model: Model,
    table: Table,
    sets: Sequence[Sequence[int]],
    background: Background | None = None,
    output: int | None = None,
) -> np.ndarray:
    """Return the Moebius terms (m, sets, outputs): what columns do together beyond their subsets.

    Without a background these are the terms of the decomposition, see `effects.Term`.
    """
    weights, batch = model.raw_weights_of(output), model.columns.encode(table, "cpu")
    game, found = Game(weights, len(model.columns)), 0.0
    for share, vectors in _bases(model, background):
        terms = [game.differences(batch, vectors, columns) for columns in sets]
        found = found + share * np.stack(terms, axis=1)
    return found


def _bases(model, background):
    if background is None:
        return [(1.0, [column.mean for column in model.training.moments.columns])]
    return background.bases(model)


def _center(model, output):
    center = np.atleast_1d(model.center)
    return center if output is None or len(center) == 1 else center[[output]]


def _check_sum(found, f):
    """Shapley values sum to the prediction: a guard against errors of the program, no test."""
    f = f.reshape(found.shape)
    size = max(np.abs(f).max(initial=0), 1e-300)
    if not np.abs(found - f).max(initial=0) <= AGREEMENT * size:
        raise FloatingPointError(
            "Shapley values do not sum to the predictions; the numbers leave the range of floats."
        )
