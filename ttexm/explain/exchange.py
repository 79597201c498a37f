"""Explanations as objects of the packages shap and shapiq, for their plots."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.columns import LevelColumn
from ..data.table import Table

ADVICE = 'needs the package {name}: python -m pip install "ttexm[explain]"'


def to_shap(
    values: np.ndarray,
    base: np.ndarray,
    table: Table,
    output_names: Sequence[str] | None,
) -> Any:
    """Return a ``shap.Explanation`` of Shapley values, or of interactions.

    Parameters
    ----------
    values : array (m, d), (m, d, d), or either with outputs
    base : array (outputs,)
    table : Table
        The rows that are explained. Levels are shown as they are, and coloured by their number.
    output_names : sequence of str, optional
        Of several outputs.
    """
    shap = _find("shap")
    data, shown = _plain(table)
    m = len(table)
    several = output_names is not None
    return shap.Explanation(
        values,
        base_values=np.tile(base, (m, 1)) if several else np.full(m, base[0]),
        data=data,
        display_data=shown,
        feature_names=[column.name for column in table],
        output_names=list(output_names) if several else None,
    )


def to_shapiq(values: np.ndarray, base: float, index: str) -> list:
    """Return a ``shapiq.InteractionValues`` for each row of symmetric interactions (m, d, d)."""
    shapiq = _find("shapiq")
    d = values.shape[1]
    pairs = list(itertools.combinations(range(d), 2))
    sets = [(), *((k,) for k in range(d)), *pairs]
    lookup = {S: place for place, S in enumerate(sets)}
    rows = []
    for matrix in values:
        both = [2 * matrix[j, k] for j, k in pairs]
        rows.append(
            shapiq.InteractionValues(
                np.array([base, *np.diag(matrix), *both]),
                index=index,
                min_order=0,
                max_order=2,
                n_players=d,
                interaction_lookup=lookup,
                estimated=False,
                baseline_value=base,
            )
        )
    return rows


def _find(name):
    try:
        return __import__(name)
    except ImportError:
        raise ImportError("This " + ADVICE.format(name=name)) from None


def _plain(table):
    """The values as numbers, levels as codes; and as they are."""
    numbers, objects = [], []
    for column in table:
        if isinstance(column, LevelColumn):
            entries = np.array([*column.entries, None], object)
            objects.append(entries[column.codes])
            numbers.append(np.where(column.codes < 0, np.nan, column.codes))
        else:
            numbers.append(column.numbers())
            objects.append(numbers[-1].astype(object))
    return np.stack(numbers, axis=1), np.stack(objects, axis=1)
