"""A learning problem: samples, targets, weights and a loss, as solvers and selection take them."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from . import initialize
from .batch import RankOneBatch
from .losses import Loss
from .objective import Objective
from .tensor import TTTensor

MOST_COPIES = 16


@dataclass(frozen=True, eq=False)
class Problem:
    """Samples with targets.

    Several outputs are one more mode of the tensor: each sample then counts once for each output.

    Parameters
    ----------
    batch : RankOneBatch
        Features of the samples, at order scale 1; predictions are computed on its device.
    y : array (m,) or (m, n_outputs)
    weights : array (m,)
    loss : Loss
    keys : array (m,) of unsigned integers
        Hashes, equal for equal samples.
    """

    batch: RankOneBatch
    y: np.ndarray
    weights: np.ndarray
    loss: Loss
    keys: np.ndarray

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def size(self) -> float:
        """The sum of the weights: the number of samples, where weights are repetitions."""
        return float(self.weights.sum())

    @property
    def copies(self) -> np.ndarray:
        """How often each sample is there: its weight, if all are small whole numbers; else once."""
        is_count = (self.weights == np.round(self.weights)).all()
        if is_count and self.weights.max() <= MOST_COPIES:
            return self.weights.astype(int)
        return np.ones(len(self), int)

    @property
    def n_outputs(self) -> int:
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    def take(self, rows) -> "Problem":
        """The problem of some of the samples."""
        # By the host: all of the samples may not be wanted on the device, or only for a while.
        batch = self.batch.to("cpu")[rows].to(self.batch.device)
        return Problem(batch, self.y[rows], self.weights[rows], self.loss, self.keys[rows])

    def weighted(self, weights) -> "Problem":
        """The problem with other weights; samples of weight zero are left out."""
        return replace(self, weights=weights).take(np.flatnonzero(weights > 0))

    def objective(self, alpha: float) -> Objective:
        return Objective(self.loss, self.y, self.weights, alpha)

    def features(self, order_scale: float) -> RankOneBatch:
        """The samples for a solver, at an order scale; the outputs are their last mode."""
        if order_scale not in self._features:
            self._features.clear()  # one scale at a time: batches are large
            scaled = self.batch.scaled(order_scale) if order_scale != 1 else self.batch
            self._features[order_scale] = with_outputs(scaled, self.y)
        return self._features[order_scale]

    @cached_property
    def _features(self) -> dict:
        return {}

    def predict(self, W: TTTensor, order_scale: float) -> np.ndarray:
        return W.contract(self.features(order_scale)).reshape(self.y.shape)

    def losses(self, W: TTTensor, order_scale: float) -> np.ndarray:
        """The loss of each sample, (m,); infinite where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.loss.value(self.y, self.predict(W, order_scale))
            losses = losses.reshape(len(self), -1).sum(axis=1)
        return np.where(np.isfinite(losses), losses, np.inf)

    def score(self, W: TTTensor, order_scale: float) -> float:
        """The weighted mean of the loss, without the penalty."""
        return float(np.average(self.losses(W, order_scale), weights=self.weights))

    def linear(self, alpha: float) -> TTTensor:
        """The linear model, at order scale 1."""
        return initialize.linear(self.batch, self.objective(alpha))


def with_outputs(batch: RankOneBatch, y: np.ndarray) -> RankOneBatch:
    """Each sample once for each output of y, which is the index of a last mode."""
    if y.ndim == 1:
        return batch
    m, n_outputs = y.shape
    outputs = np.tile(np.arange(n_outputs), m)[:, None]
    indices = RankOneBatch.from_indices(outputs, (n_outputs,), batch.dtype).to(batch.device)
    return RankOneBatch.join([batch[np.repeat(np.arange(m), n_outputs)], indices])


def rescaled(W: TTTensor, factor: float, n_features: int) -> TTTensor:
    """The same model for features at `factor` times the order scale."""
    cores = W.to_cores()
    for core in cores[:n_features]:
        core[:, 1:] /= factor
    return TTTensor(cores)
