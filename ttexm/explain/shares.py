"""Variance shares: how much of a model's variance is due to each column and each order."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.table import Table
from ..model import Model
from ..tt.scaled_numbers import ldexp
from .decomposition import Squares, variances
from .shapley import shap_values


@dataclass(frozen=True, eq=False, repr=False)
class VarianceShares:
    """Shares of the variance of the raw prediction under independent columns.

    Columns are taken as independent, each distributed as in training. Correlated columns have
    another variance together: see `ratio`.

    Attributes
    ----------
    columns : list of str
    first : array (d,)
        Of the column alone, the first-order Sobol indices. They sum to 1 without interactions.
    total : array (d,)
        Of the column and all its interactions. These sum to more than 1, the mean order.
    shapley : array (d,)
        Shapley effects: each interaction divided equally among its columns. They sum to 1.
    by_order : array (d + 1,)
        Of all interactions of j columns, by j; ``by_order[0]`` is 0.
    deviation : float
        The standard deviation under independent columns; of several outputs, the root of the sum of
        the variances.
    deviation_on_rows : float
        That of the raw predictions for the training rows.
    on_rows : array (d,) or None
        ``Cov(s_k, f) / Var f`` on the rows that were given, with the Shapley values s_k: what
        `shapley` is for the rows as they are. They sum to 1; columns that others cancel have
        negative ones.
    """

    columns: list[str]
    first: np.ndarray
    total: np.ndarray
    shapley: np.ndarray
    by_order: np.ndarray
    deviation: float
    deviation_on_rows: float
    on_rows: np.ndarray | None = None

    @property
    def variance(self) -> float:
        """The variance under independent columns."""
        return self.deviation**2

    @property
    def variance_on_rows(self) -> float:
        """The variance of the raw predictions for the training rows."""
        return self.deviation_on_rows**2

    @property
    def mean_order(self) -> float:
        """The mean number of columns of a term, weighted by variance: 1 without interactions."""
        return float(np.arange(len(self.by_order)) @ self.by_order)

    @property
    def ratio(self) -> float:
        """The variance under independent columns divided by that on the training rows.

        Near 1, the shares describe the training rows well. Otherwise columns that occur together
        cancel or amplify each other there, and shares answer another question: what the model does
        where columns vary on their own.
        """
        return ratio_of_variances(self.deviation, self.deviation_on_rows)

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per column, the largest total first."""
        import pandas as pd

        shares = {"first": self.first, "total": self.total, "shapley": self.shapley}
        if self.on_rows is not None:
            shares["on_rows"] = self.on_rows
        frame = pd.DataFrame(shares, index=pd.Index(self.columns, name="column"))
        return frame.sort_values("total", ascending=False, kind="stable")

    def __repr__(self) -> str:
        width = max([len("column"), *map(len, self.columns)])
        has_rows = self.on_rows is not None
        lines = [f"{'column':{width}}  first  total  shapley" + "  on rows" * has_rows]
        for k in np.argsort(-self.total, kind="stable"):
            numbers = f"{self.first[k]:5.3f}  {self.total[k]:5.3f}  {self.shapley[k]:7.3f}"
            numbers += f"  {self.on_rows[k]:7.3f}" if has_rows else ""
            lines.append(f"{self.columns[k]:{width}}  {numbers}")
        lines.append(f"mean order {self.mean_order:.2f}; {describe_ratio(self)}")
        return "\n".join(lines)


def describe_ratio(shares: VarianceShares) -> str:
    return (
        f"variance {shares.variance:.3g} under independent columns, {shares.variance_on_rows:.3g} "
        "on the training rows"
    )


def variance_shares(
    model: Model, output: int | None = None, table: Table | None = None
) -> VarianceShares:
    """Return the shares of a model, or of one of its outputs, in O(d^2 n r^3).

    With a table also those on its rows, in O(d^2 r^2) per row.
    """
    found = variances_of(model, output)
    total = found.total()
    unit = total if total > 0 else 1.0
    by_order = found.by_order()
    by_order[0] = 0  # the square of the mean
    return VarianceShares(
        [column.name for column in model.columns],
        found.first() / unit,
        found.totals() / unit,
        found.shapley() / unit,
        by_order / unit,
        float(ldexp(np.sqrt(total), found.exponent)),
        deviation_on_rows(model, output),
        None if table is None else _shares_of_rows(model, output, table),
    )


def _shares_of_rows(model, output, table):
    values = shap_values(model, table, output=output)[0]
    values = values - values.mean(axis=0)
    f = values.sum(axis=1)
    variance = np.sum(f**2)
    return np.einsum("sko,so->k", values, f) / (variance if variance > 0 else 1.0)


def variances_of(model: Model, output: int | None = None) -> Squares:
    """Return the variances of the terms of a model, or of one of its outputs."""
    return variances(model.raw_weights_of(output), model.training.moments)


def deviation_on_rows(model: Model, output: int | None = None) -> float:
    """Return the standard deviation of the raw predictions on the training rows."""
    deviation = np.atleast_1d(model.training.deviation)
    return float(np.linalg.norm(deviation) if output is None else deviation[output])


def ratio_of_variances(deviation: float, on_rows: float) -> float:
    return (deviation / on_rows) ** 2 if on_rows > 0 else np.nan


def check_constants(model: Model) -> None:
    """Raise if some column is in every product, so that weights have no order."""
    for column in model.columns:
        if not column.has_constant:
            raise ValueError(
                f"Column {column.name!r} has no constant, so that there are no weights without it; "
                "use by='variance'."
            )


def order_spectrum(model: Model, by: str = "variance", output: int | None = None) -> np.ndarray:
    """Return the shares of all sets of j columns, by j (d + 1,), in O(d^2 n r^3).

    Parameters
    ----------
    model : Model
    by : {"variance", "weight"}
        Of the variance under independent columns; of the squared weights of the model's own
        functions, the constant included.
    output : int, optional
        One of several outputs; by default all are summed.
    """
    if by == "variance":
        return variance_shares(model, output).by_order
    check_constants(model)
    found = Squares(model.raw_weights_of(output).scaled_train, len(model.columns)).by_order()
    return found / found.sum() if found.any() else found
