"""The strongest interactions of a model, as objects that can be read and printed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.table import Table
from ..model import Model
from ..tt.scaled_numbers import ldexp
from .decomposition import Squares
from .effects import Term
from .shares import check_constants, deviation_on_rows, ratio_of_variances, variances_of
from .strongest import find_strongest


@dataclass(frozen=True)
class Interaction:
    """What some columns do together: a term of the decomposition, or a weight.

    Attributes
    ----------
    columns : tuple of str
    share : float
        Of the variance under independent columns; of the sum of all squared weights.
    effect : float
        The standard deviation of the term, in units of the raw prediction; the size of the weight.
    share_on_rows : float
        ``Cov(f_S, f) / Var f`` on the rows that were given, else NaN. Over all terms it sums to 1;
        it is negative for a term that others cancel.
    slots : tuple of str
        For a weight: one function of each column, by name; see `Model.coefficient`.
    """

    columns: tuple[str, ...]
    share: float
    effect: float
    share_on_rows: float = np.nan
    slots: tuple[str, ...] = ()

    @property
    def order(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def name(self) -> str:
        """The columns, or their functions, as one string."""
        return " x ".join(self.slots or self.columns)


class TopInteractions(list):
    """The strongest interactions, from the first one on: a list that says how sure it is.

    Attributes
    ----------
    is_proved : bool
        Whether it is proved that no other set of columns is stronger.
    most_missed : float
        No set of columns that is not in the list has a larger share.
    ratio : float
        The variance under independent columns divided by that on the training rows.
    """

    def __init__(
        self, found: Sequence[Interaction], is_proved: bool, most_missed: float, ratio: float
    ):
        super().__init__(found)
        self.is_proved, self.most_missed, self.ratio = is_proved, most_missed, ratio

    @property
    def statement(self) -> str:
        """What is known of all other sets."""
        if self.is_proved:
            return "proved: no other set is stronger"
        return f"no other set has a share above {self.most_missed:.2g}"

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per interaction."""
        import pandas as pd

        names = ["name", "order", "share", "effect", "share_on_rows"]
        return pd.DataFrame({name: [getattr(one, name) for one in self] for name in names})

    def __repr__(self) -> str:
        width = max((len(one.name) for one in self), default=0)
        has_rows = not all(np.isnan(one.share_on_rows) for one in self)
        lines = [f"{'':{width}}  order   share  effect" + "  on rows" * has_rows]
        for one in self:
            line = f"{one.name:{width}}  {one.order:5}  {one.share:6.4f}  {one.effect:6.3g}"
            lines.append(line + (f"  {one.share_on_rows:7.4f}" if has_rows else ""))
        lines.append(self.statement)
        if not np.isnan(self.ratio):
            lines.append(
                f"variance under independent columns / on the training rows: {self.ratio:.2f}"
            )
        return "\n".join(lines)


def top_terms(
    model: Model,
    k: int,
    orders: tuple[int, int] | None = None,
    output: int | None = None,
    table: Table | None = None,
) -> TopInteractions:
    """Return the k strongest terms by their variance under independent columns.

    Parameters
    ----------
    model : Model
    k : int
    orders : (least, most), optional
        Numbers of columns.
    output : int, optional
        One of several outputs; by default variances are summed over them.
    table : Table, optional
        Rows for `Interaction.share_on_rows`.
    """
    squares = variances_of(model, output)
    total = squares.total()
    unit = total if total > 0 else 1.0
    found = find_strongest(squares.cores, k, orders)
    sets = [tuple(column for column, _ in one) for one in found.sets]
    on_rows = _shares_on_rows(model, sets, output, table)
    effects = ldexp(np.sqrt(found.values), squares.exponent)
    terms = [
        Interaction(_names(model, columns), float(value / unit), float(effect), share)
        for columns, value, effect, share in zip(sets, found.values, effects, on_rows, strict=True)
    ]
    deviation = float(ldexp(np.sqrt(total), squares.exponent))
    ratio = ratio_of_variances(deviation, deviation_on_rows(model, output))
    return TopInteractions(terms, found.is_proved, found.most_missed / unit, ratio)


def top_weights(
    model: Model,
    k: int,
    orders: tuple[int, int] | None = None,
    output: int | None = None,
) -> TopInteractions:
    """Return the k largest weights of products of functions; parameters as of `top_terms`.

    The weights are those of the model's own functions, which have a spread of about 1, not in the
    units of the table. They depend on where a function is 0 and on how levels are coded.
    """
    check_constants(model)
    squares = Squares(model.raw_weights_of(output).scaled_train, len(model.columns))
    total = squares.total()
    unit = total if total > 0 else 1.0
    found = find_strongest(squares.cores, k, orders, is_joint=False)
    effects = ldexp(np.sqrt(found.values), squares.exponent)
    terms = [
        Interaction(
            _names(model, [j for j, _ in one]), float(value / unit), float(effect),
            slots=tuple(model.columns[j].slot_names[i] for j, i in one),
        )
        for one, value, effect in zip(found.sets, found.values, effects, strict=True)
    ]  # fmt: skip
    return TopInteractions(terms, found.is_proved, found.most_missed / unit, np.nan)


def _names(model, columns):
    return tuple(model.columns[j].name for j in columns)


def _shares_on_rows(model, sets, output, table):
    """``Cov(f_S, f) / Var f`` of each set, summed over the outputs."""
    if table is None:
        return [np.nan] * len(sets)
    f = _centred(model.raw_weights.contract(model.columns.encode(table, "cpu")), output)
    variance = np.sum(f**2)
    return [
        float(np.sum(_centred(Term(model, columns).on_rows(table), output) * f) / variance)
        if variance > 0
        else 0.0
        for columns in sets
    ]


def _centred(f, output):
    f = f.reshape(len(f), -1)
    f = f if output is None else f[:, [output]]
    return f - f.mean(axis=0)
