"""A learning problem: samples, targets, weights and a loss, as solvers and selection take them."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from . import initialize, rows
from .batch import RankOneBatch
from .losses import Loss
from .objective import Objective
from .tensor import TTTensor

MOST_CLASSES = 50  # different numbers that are taken for classes


@dataclass(frozen=True, eq=False)
class Problem:
    """Samples with targets.

    Several outputs are one more mode of the tensor: each sample then counts once for each output.

    Parameters
    ----------
    batch : RankOneBatch
        Features of the samples, at order scale 1; predictions are computed on its device.
    y : array (m,) or (m, n_outputs)
        As the loss takes them.
    weights : array (m,)
        For how many samples each one counts.
    loss : Loss
    keys : array (m,) of unsigned integers
        Hashes of the features, equal for equal ones.
    n_values : array (d,), optional
        How many different values each column of the table has.
    """

    batch: RankOneBatch
    y: np.ndarray
    weights: np.ndarray
    loss: Loss
    keys: np.ndarray
    n_values: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def size(self) -> float:
        """The sum of the weights: the effective number of samples."""
        return float(self.weights.sum())

    @property
    def n_outputs(self) -> int:
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @cached_property
    def n_groups(self) -> int:
        """The number of samples that differ in their features."""
        return len(np.unique(self.keys))

    @cached_property
    def classes(self) -> np.ndarray:
        """A class for each sample, (m,), to be spread over folds; numbers may be of one class."""
        y = self.y.argmax(axis=1) if self.y.ndim == 2 else self.y
        values, classes = np.unique(y, return_inverse=True)
        is_number = self.loss.targets == "numbers"
        is_one = is_number and (self.y.ndim == 2 or len(values) > MOST_CLASSES)
        return np.zeros(len(self), int) if is_one else classes

    def take(self, rows) -> "Problem":
        """The problem of some of the samples."""
        # By the host: all of the samples may not be wanted on the device, or only for a while.
        batch = self.batch.to("cpu")[rows].to(self.batch.device)
        parts = (self.y[rows], self.weights[rows], self.loss, self.keys[rows], self.n_values)
        return Problem(batch, *parts)

    def merged(self) -> "Problem":
        """The problem of the samples that differ, see `rows.merge`."""
        chosen, counts = rows.merge(self.keys, self.y, self.weights)
        return replace(self.take(chosen), weights=counts)

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

    def linear(self, alpha: float) -> initialize.Additive:
        """The linear model, at order scale 1."""
        return initialize.fit_additive(self.batch, self.objective(alpha))

    def rescaled(self, W: TTTensor, order_scale: float) -> TTTensor:
        """A model of order scale 1, as it is for the features at another one."""
        cores = W.to_cores()
        for k, core in enumerate(cores[: self.batch.ndim]):
            if self.batch.has_constant(k):
                core[:, 1:] /= order_scale
        return TTTensor(cores)


def with_outputs(batch: RankOneBatch, y: np.ndarray) -> RankOneBatch:
    """Each sample once for each output of y, which is the index of a last mode."""
    if y.ndim == 1:
        return batch
    m, n_outputs = y.shape
    outputs = np.tile(np.arange(n_outputs), m)[:, None]
    indices = RankOneBatch.from_indices(outputs, (n_outputs,), batch.dtype).to(batch.device)
    return RankOneBatch.join([batch[np.repeat(np.arange(m), n_outputs)], indices])
