"""Means and covariances of feature vectors, column by column, over weighted rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .batch import RankOneBatch

NEGLIGIBLE = 1e-14  # share of the largest eigenvalue of a covariance that is rounding


class ColumnMoments(ABC):
    """The mean m and the covariance C = L L^T of the feature vectors phi of one column."""

    mean: np.ndarray

    def whiten(self, core: np.ndarray) -> np.ndarray:
        """Return `average` and `deviations` of a core as one core (1 + q, r0, r1).

        That is the core for functions of mean 0 and variance 1 in the place of phi.
        """
        return np.concatenate([self.average(core)[None], self.deviations(core)])

    @abstractmethod
    def deviations(self, core: np.ndarray) -> np.ndarray:
        """Return ``sum_i L[i, q] G[i]`` (q, r0, r1), of a core (n, r0, r1)."""

    @abstractmethod
    def merge(self, other: "ColumnMoments", share: float) -> "ColumnMoments":
        """Return the moments of these rows and others, which are a share of all."""

    def average(self, core: np.ndarray) -> np.ndarray:
        """Return ``sum_i m[i] G[i]`` (r0, r1), of a core (n, r0, r1)."""
        return np.tensordot(self.mean, core, 1)


class VectorMoments(ColumnMoments):
    """Of any functions; `mean` is of shape (n,), `covariance` (n, n)."""

    def __init__(self, mean: np.ndarray, covariance: np.ndarray):
        self.mean, self.covariance = mean, covariance

    @classmethod
    def of_vectors(cls, vectors: np.ndarray, shares: np.ndarray) -> "VectorMoments":
        """Moments of rows (m, n), whose shares of the weight sum to 1."""
        mean = shares @ vectors
        centred = vectors - mean
        # A second pass removes the error of the mean, which matters far from zero.
        error = shares @ centred
        centred -= error
        return cls(mean + error, centred.T @ (shares[:, None] * centred))

    @classmethod
    def of_curve(
        cls, knots: np.ndarray, next_shares: np.ndarray, table: np.ndarray, shares: np.ndarray
    ) -> "VectorMoments":
        """Moments of functions that are linear between knots, in O(1) per row.

        Parameters
        ----------
        knots, next_shares : arrays (m,)
            The knot before each row, and the share t of the next one.
        table : array (K, n)
            The functions at the knots.
        shares : array (m,)
        """
        K, t = len(table), next_shares
        following = np.minimum(knots + 1, K - 1)
        products = np.zeros((K, K))
        for a, b, factor in (
            (knots, knots, (1 - t) ** 2),
            (knots, following, t * (1 - t)),
            (following, knots, t * (1 - t)),
            (following, following, t**2),
        ):
            products += np.bincount(a * K + b, factor * shares, K * K).reshape(K, K)
        # Hat functions sum to 1, so that the sums of a row are the mean of its hat function.
        mean = products.sum(axis=1) @ table
        centred = table - mean
        return cls(mean, centred.T @ products @ centred)

    def deviations(self, core: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(self.covariance)
        kept = values > NEGLIGIBLE * max(values[-1], 0)
        root = vectors[:, kept] * np.sqrt(values[kept])
        return np.tensordot(root.T, core, 1)

    def merge(self, other: "VectorMoments", share: float) -> "VectorMoments":
        difference = other.mean - self.mean
        covariance = (1 - share) * self.covariance + share * other.covariance
        covariance += share * (1 - share) * np.outer(difference, difference)
        return VectorMoments(self.mean + share * difference, covariance)


class CodeMoments(ColumnMoments):
    """Of a column of codes: the feature vector of code c has a row of its own.

    Parameters
    ----------
    shares : array (n,)
        Of the codes; code 0 is the constant alone, for a category.
    scale : float
        What the slot of the code has.
    has_constant : bool
        Whether slot 0 is 1 for all codes.
    """

    def __init__(self, shares: np.ndarray, scale: float, has_constant: bool):
        self.shares, self.scale, self.has_constant = shares, scale, has_constant
        self.mean = scale * shares
        if has_constant:
            self.mean[0] = 1

    def deviations(self, core: np.ndarray) -> np.ndarray:
        # L = sqrt(p_c) (phi_c - m), one column per code: no eigenvectors.
        values = self.scale * core
        if self.has_constant:
            values[0] = 0
            values += core[0]
        values -= self.average(core)
        kept = self.shares > 0
        return np.sqrt(self.shares[kept])[:, None, None] * values[kept]

    def merge(self, other: "CodeMoments", share: float) -> "CodeMoments":
        shares = (1 - share) * self.shares + share * other.shares
        return CodeMoments(shares, self.scale, self.has_constant)


class Moments:
    """Those of all columns of a batch.

    Parameters
    ----------
    columns : sequence of ColumnMoments
    total : float
        The weight of all rows.
    """

    def __init__(self, columns: Sequence[ColumnMoments], total: float):
        self.columns, self.total = tuple(columns), total

    @classmethod
    def of_batch(cls, batch: RankOneBatch, weights: np.ndarray) -> "Moments":
        """Moments of the rows of a batch, in O(d) per row; O(d n^2) for functions that are stored.

        Parameters
        ----------
        batch : RankOneBatch
        weights : array (m,)
        """
        total = float(weights.sum())
        shares = weights / total
        return cls([_of_column(batch, k, shares) for k in range(batch.ndim)], total)

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of these rows and others."""
        total = self.total + other.total
        share = other.total / total
        columns = [
            mine.merge(theirs, share)
            for mine, theirs in zip(self.columns, other.columns, strict=True)
        ]
        return Moments(columns, total)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, k: int) -> ColumnMoments:
        return self.columns[k]


def _of_column(batch, k, shares):
    modes, m = batch.modes, len(batch)
    if modes.is_coded[k]:
        codes = modes.stored(batch.arrays, m, k)[:, 0]
        counts = np.bincount(codes, shares, modes.shape[k])
        return CodeMoments(counts, float(modes.scales[k]), bool(modes.has_constant[k]))
    if modes.is_curve[k]:
        place = modes.stored(batch.arrays, m, k)[:, 0]
        knots = place.astype(np.int64)
        table = modes.tables[k] if modes.tables[k] is not None else np.eye(modes.shape[k])
        return VectorMoments.of_curve(knots, place - knots, table, shares)
    return VectorMoments.of_vectors(batch.vectors(k).astype(np.float64), shares)
