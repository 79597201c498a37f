"""Rows with their targets and weights, and the parts that training takes of them."""

from functools import cached_property

import numpy as np

from ..data import rows
from ..data.batch import RankOneBatch
from ..tt.tensor import TTTensor
from .initialize import Additive, fit_additive
from .losses import Loss
from .objective import Objective

MOST_CLASSES = 50  # distinct numbers that are taken for classes
ALL = slice(None)


class Data:
    """Rows to learn from: features, targets, weights and the loss that is to be low. Immutable.

    Parameters
    ----------
    batch : RankOneBatch
        Features of the rows, at order scale 1; predictions are computed on its device.
    y : array (m,) or (m, n_outputs)
        Targets, as the loss takes them.
    weights : array (m,)
        For how many rows each one counts.
    loss : Loss
    keys : array (m,) of unsigned integers, optional
        Hashes of the features, equal for equal ones; by default all rows differ.
    n_values : array (d,), optional
        How many distinct values each column of the table has.
    """

    def __init__(
        self,
        batch: RankOneBatch,
        y: np.ndarray,
        weights: np.ndarray,
        loss: Loss,
        keys: np.ndarray | None = None,
        n_values: np.ndarray | None = None,
    ):
        self.batch, self.y, self.weights, self.loss = batch, y, weights, loss
        self.keys = np.arange(len(batch), dtype=np.uint64) if keys is None else keys
        self.n_values = n_values
        self._scaled: tuple[float, RankOneBatch] | None = None  # the batch that was last asked for

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def size(self) -> float:
        """The sum of the weights: the effective number of rows."""
        return float(self.weights.sum())

    @property
    def n_outputs(self) -> int:
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a weight tensor: the slots of each column, and the outputs if several."""
        return self.batch.shape + self.y.shape[1:]

    @cached_property
    def n_groups(self) -> int:
        """The number of rows that differ in their features."""
        return len(np.unique(self.keys))

    @cached_property
    def classes(self) -> np.ndarray:
        """A class for each row, (m,), to be spread over folds; numbers may be of one class."""
        y = self.y.argmax(axis=1) if self.y.ndim == 2 else self.y
        values, classes = np.unique(y, return_inverse=True)
        is_number = self.loss.targets == "numbers"
        is_one = is_number and (self.y.ndim == 2 or len(values) > MOST_CLASSES)
        return np.zeros(len(self), int) if is_one else classes

    # -- parts ---------------------------------------------------------------------------------

    def take(self, chosen: np.ndarray, weights: np.ndarray | None = None) -> "Data":
        """Return some of the rows, with other weights if they are given."""
        # By the host: all of the rows may not be wanted on the device, or only for a while.
        batch = self.batch.to("cpu")[chosen].to(self.batch.device)
        weights = self.weights[chosen] if weights is None else weights
        return Data(batch, self.y[chosen], weights, self.loss, self.keys[chosen], self.n_values)

    def merged(self) -> "Data":
        """Return the distinct rows (of features and target), see `data.rows.merge`."""
        return self.take(*rows.merge(self.keys, self.y, self.weights))

    def training_set(self, order_scale: float, alpha: float) -> "TrainingSet":
        """Return the rows as solvers take them."""
        return TrainingSet(self.features(order_scale), self.objective(alpha))

    def objective(self, alpha: float) -> Objective:
        return Objective(self.loss, self.y, self.weights, alpha)

    def features(self, order_scale: float) -> RankOneBatch:
        """Return the batch at an order scale; several outputs are its last mode.

        The batch of the last order scale is kept, as it is large and mostly asked for again.
        """
        if self._scaled is None or self._scaled[0] != order_scale:
            self._scaled = None
            scaled = self.batch.scaled(order_scale) if order_scale != 1 else self.batch
            self._scaled = order_scale, with_outputs(scaled, self.y)
        return self._scaled[1]

    # -- models --------------------------------------------------------------------------------

    def predict(self, W: TTTensor, order_scale: float) -> np.ndarray:
        """Return the raw predictions of a weight tensor, of the shape of y."""
        return W.contract(self.features(order_scale)).reshape(self.y.shape)

    def losses(self, W: TTTensor, order_scale: float) -> np.ndarray:
        """Return the loss of each row, (m,); infinite where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.loss.value(self.y, self.predict(W, order_scale))
            losses = losses.reshape(len(self), -1).sum(axis=1)
        return np.where(np.isfinite(losses), losses, np.inf)

    def score(self, W: TTTensor, order_scale: float) -> float:
        """Return the weighted mean of the loss, without the penalty."""
        return float(np.average(self.losses(W, order_scale), weights=self.weights))

    def value(self, W: TTTensor, order_scale: float, alpha: float) -> float:
        """Return the objective: the mean loss and the penalty."""
        return self.objective(alpha).value(self.predict(W, order_scale), W.norm() ** 2)

    def linear(self, alpha: float) -> Additive:
        """Return the linear model, at order scale 1."""
        return fit_additive(self.batch, self.objective(alpha))

    def rescaled(self, W: TTTensor, factor: float) -> TTTensor:
        """Return the weights of the same model for functions that are multiplied by a factor."""
        if factor == 1:
            return W
        cores = W.to_cores()
        for k, core in enumerate(cores[: self.batch.ndim]):
            if self.batch.has_constant(k):
                core[:, 1:] /= factor
        return TTTensor(cores)


class TrainingSet:
    """A batch and the objective of its samples. Immutable.

    Parameters
    ----------
    batch : RankOneBatch
        With several outputs, each row of the objective is n_outputs samples of the batch.
    objective : Objective
    """

    def __init__(self, batch: RankOneBatch, objective: Objective):
        self.batch, self.objective = batch, objective

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.objective.y)

    def mini_batches(self, size: int | None, rng: np.random.Generator) -> list:
        """Return the rows of mini-batches, in random order, the rest last; or all rows at once."""
        if size is None or size >= len(self):
            return [ALL]
        order = rng.permutation(len(self))
        return [order[first : first + size] for first in range(0, len(self), size)]

    def take(self, chosen: np.ndarray | slice) -> "TrainingSet":
        """Return some of the rows; their objective estimates that of all."""
        if chosen is ALL:
            return self
        n_outputs = len(self.batch) // len(self)
        samples = (chosen[:, None] * n_outputs + np.arange(n_outputs)).reshape(-1)
        return TrainingSet(self.batch[samples], self.objective.take(chosen))


def with_outputs(batch: RankOneBatch, y: np.ndarray) -> RankOneBatch:
    """Return each sample once for each output of y, which is the index of a last mode."""
    if y.ndim == 1:
        return batch
    m, n_outputs = y.shape
    outputs = np.tile(np.arange(n_outputs), m)[:, None]
    indices = RankOneBatch.from_indices(outputs, (n_outputs,), batch.dtype).to(batch.device)
    return RankOneBatch.join([batch[np.repeat(np.arange(m), n_outputs)], indices])
