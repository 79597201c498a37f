"""Rows with their targets and weights, and the parts that training takes of them."""

from functools import cached_property

import numpy as np

from ..data.batch import RankOneBatch
from ..kernels.layout import NUMERIC
from ..tt.tensor import TTTensor
from .bases import ROUGH, Basis
from .designs import AdditiveDesign
from .initialize import Additive, fit_additive
from .linear import EXACT
from .losses import Loss
from .objective import Objective

MOST_CLASSES = 50  # distinct numbers that are taken for classes
ALL = slice(None)


class Data:
    """Rows to learn from: features, targets, weights and the loss that is to be low. Immutable.

    Parameters
    ----------
    batch : RankOneBatch
        Features of the rows, all functions at order scale 1.
    y : array (m,) or (m, n_outputs)
        Targets, as the loss takes them.
    weights : array (m,)
        For how many rows each one counts.
    loss : Loss
    keys : array (m,) of unsigned integers, optional
        Hashes of the features, equal for equal ones; by default all rows differ.
    n_values : array (d,), optional
        How many distinct values each column of the table has.
    device : {"cpu", "cuda"}
        Where training and predictions are computed.
    """

    def __init__(
        self,
        batch: RankOneBatch,
        y: np.ndarray,
        weights: np.ndarray,
        loss: Loss,
        keys: np.ndarray | None = None,
        n_values: np.ndarray | None = None,
        device: str = "cpu",
    ):
        self.batch, self.y, self.weights, self.loss = batch.to("cpu"), y, weights, loss
        self.keys = np.arange(len(batch), dtype=np.uint64) if keys is None else keys
        self.n_values, self.device = n_values, device
        self._modes: dict = {}  # of the batches of each basis and order scale
        self._features: tuple = None, None  # the batch that was last asked for
        self._designs: dict = {}  # of the additive models of each basis

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
        taken = Data(
            self.batch[chosen], self.y[chosen],
            self.weights[chosen] if weights is None else weights,
            self.loss, self.keys[chosen], self.n_values, self.device,
        )  # fmt: skip
        taken._modes = self._modes  # the same for all rows, and large
        return taken

    def objective(self, alpha: float) -> Objective:
        return Objective(self.loss, self.y, self.weights, alpha)

    def features(self, basis: Basis = ROUGH, order_scale: float = 1.0) -> RankOneBatch:
        """Return the features of a basis at an order scale, each row once, on the device.

        The last one is kept: it may have been copied to a device, and is mostly asked for again.
        """
        key = basis, order_scale
        known, batch = self._features  # read once: threads may ask for different ones
        if known == key:
            return batch
        batch = self.batch
        if (batch.modes.kinds == NUMERIC).any():  # whose numbers are scaled themselves
            batch = batch.with_modes(basis.modes(batch.modes)).scaled(order_scale)
        else:
            if key not in self._modes:
                self._modes[key] = basis.modes(batch.modes, order_scale)
            batch = batch.with_modes(self._modes[key])
        batch = batch.to(self.device)
        self._features = key, batch
        return batch

    # -- models --------------------------------------------------------------------------------

    def predict(self, W: TTTensor, basis: Basis, order_scale: float) -> np.ndarray:
        """Return the raw predictions of a weight tensor, of the shape of y."""
        return W.contract(self.features(basis, order_scale))

    def losses_of(self, f: np.ndarray) -> np.ndarray:
        """Return the loss of each row for raw predictions, (m,); infinite where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.loss.value(self.y, f).reshape(len(self), -1).sum(axis=1)
        return np.where(np.isfinite(losses), losses, np.inf)

    def score(self, W: TTTensor, basis: Basis, order_scale: float) -> float:
        """Return the weighted mean of the loss, without the penalty."""
        losses = self.losses_of(self.predict(W, basis, order_scale))
        return float(np.average(losses, weights=self.weights))

    def value(self, W: TTTensor, basis: Basis, order_scale: float, alpha: float) -> float:
        """Return the objective: the mean loss and the penalty."""
        f = self.predict(W, basis, order_scale)
        return self.objective(alpha).value(f, W.norm() ** 2)

    def additive(
        self,
        basis: Basis,
        alpha: float,
        start: Additive | None = None,
        tolerance: float = EXACT,
    ) -> Additive:
        """Return the additive model of a basis, at order scale 1."""
        return fit_additive(self._design(basis), self.objective(alpha), start, tolerance)

    def predict_additive(self, model: Additive, basis: Basis) -> np.ndarray:
        """Return the raw predictions of an additive model, of the shape of y."""
        return self._design(basis).predict(model.weights, model.intercept)

    def _design(self, basis) -> AdditiveDesign:
        if basis not in self._designs:
            self._designs[basis] = AdditiveDesign(self.features(basis).to("cpu"))
        return self._designs[basis]

    def to_plain(self, W: TTTensor, basis: Basis, order_scale: float) -> TTTensor:
        """Return the same model as weights of all functions, at order scale 1."""
        cores = W.to_cores()
        for k, factors in enumerate(self._factors(basis, order_scale)):
            core = cores[k] * factors[:, None]
            n = self.batch.shape[k]
            cores[k] = np.pad(core, ((0, 0), (0, n - core.shape[1]), (0, 0)))
        return TTTensor(cores)

    def from_plain(self, W: TTTensor, basis: Basis, order_scale: float) -> TTTensor:
        """Return weights of a basis at an order scale; functions it does not have are dropped."""
        cores = W.to_cores()
        for k, factors in enumerate(self._factors(basis, order_scale)):
            cores[k] = cores[k][:, : len(factors)] / factors[:, None]
        return TTTensor(cores)

    def _factors(self, basis, order_scale):
        """Yield for each mode the factors of its slots."""
        modes = self.batch.modes
        scales = basis.scales(modes)
        for k, n in enumerate(modes.shape):
            functions = np.ones(n - 1) if scales[k] is None else scales[k]
            if modes.has_constant[k]:
                yield np.append(1.0, order_scale * functions)
            else:
                yield np.ones(n)


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
    """Return each row once for each output of y, which is the index of a last mode.

    A batch that has them already, or a single output, is returned as it is.
    """
    if y.ndim == 1 or len(batch) != len(y):
        return batch
    m, n_outputs = y.shape
    outputs = np.tile(np.arange(n_outputs), m)[:, None]
    indices = RankOneBatch.from_indices(outputs, (n_outputs,), batch.dtype).to(batch.device)
    rows = batch.written_out()[np.repeat(np.arange(m), n_outputs)]
    return RankOneBatch.join([rows, indices])
