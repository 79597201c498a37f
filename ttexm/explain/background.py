"""What stands for the columns that are not in a set: means, rows, or clusters of rows."""

import numbers
from collections.abc import Iterator

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from ..data.batch import RankOneBatch
from ..data.columns import NumberColumn
from ..data.moments import Moments
from ..data.rows import row_keys
from ..data.table import Table, TableLike, read_table
from ..model import Model


class Background:
    """Rows in the place of the columns that are not in a set: shap's interventional game.

    Parameters
    ----------
    table : Table
    groups : integer array (m,), optional
        A cluster for each row. Within a cluster columns are taken as independent, each distributed
        as in the cluster. By default each different row is a cluster.
    """

    def __init__(self, table: Table, groups: np.ndarray | None = None):
        self.table = table
        if groups is None:
            ones = np.ones(len(table))
            groups = np.unique(row_keys(table, ones, ones).keys, return_inverse=True)[1]
        self.groups = groups

    def __len__(self) -> int:
        return int(self.groups.max()) + 1

    def bases(self, model: Model) -> Iterator[tuple[float, list[np.ndarray]]]:
        """Yield the share of each cluster, and the means of its feature vectors."""
        batch = model.columns.encode(self.table, "cpu")
        order = np.argsort(self.groups, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(self.groups[order])) + 1):
            yield len(rows) / len(self.table), _means(batch[rows])


def _means(batch: RankOneBatch) -> list[np.ndarray]:
    return [column.mean for column in Moments.of_batch(batch, np.ones(len(batch))).columns]


def summarize(X: TableLike, k: int) -> Background:
    """Return k clusters of rows, in the place of all rows, as a background.

    Shapley values cost as much for each cluster as for a row. They are exact for the mixture of the
    clusters, each with independent columns; clusters of equal rows stand for these exactly.

    Parameters
    ----------
    X : array or data frame
    k : int
        Number of clusters, of k-means on standardised numbers and indicators of levels.
    """
    table = read_table(X)
    if isinstance(k, bool) or not isinstance(k, numbers.Integral) or not 1 <= k <= len(table):
        raise ValueError(
            f"k must be an integer between 1 and the number of rows, {len(table)}, got {k!r}."
        )
    values = np.hstack([_plain(column) for column in table])
    clusters = KMeans(k, n_init=1, random_state=0).fit_predict(values)
    return Background(table, np.unique(clusters, return_inverse=True)[1])


def _plain(column):
    """Standardised numbers, the mean where they are missing, or indicators of levels."""
    if isinstance(column, NumberColumn):
        x = column.numbers()[:, None]
        x = np.where(np.isnan(x), np.nanmean(x) if not np.isnan(x).all() else 0.0, x)
        return StandardScaler().fit_transform(x)
    levels = column.levels()
    codes = column.slots({level: slot for slot, level in enumerate(levels, start=1)})
    return np.eye(len(levels) + 1)[codes]
