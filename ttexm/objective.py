"""What training minimises: the weighted mean of a loss, and the penalty alpha/2 |W|^2."""

import copy
from dataclasses import dataclass

import numpy as np

from .losses import Loss

NO_OFFSET = 0.0


@dataclass(frozen=True, eq=False)
class Objective:
    """``sum_s w_s loss(y_s, f_s) + alpha/2 |W|^2`` with weights w of sum 1.

    The paper sums the loss and has lambda for the penalty: ``alpha = lambda / N``.

    Parameters
    ----------
    loss : Loss
    y : array (m,) or (m, n_outputs)
    weights : array (m,)
        Any positive scale; normalised here.
    alpha : float
    offset : float or array of the shape of y
        Predictions of a model that is kept fixed, to which <W, X_s> is added.
    """

    loss: Loss
    y: np.ndarray
    weights: np.ndarray
    alpha: float
    offset: np.ndarray | float = NO_OFFSET

    def __post_init__(self):
        weights = self.weights / self.weights.sum()
        object.__setattr__(self, "weights", weights.reshape(-1, *[1] * (self.y.ndim - 1)))

    def _outputs(self, f):
        """Predictions as the loss wants them; samples come with their outputs side by side."""
        f = f.reshape(self.y.shape)
        return f if self.offset is NO_OFFSET else f + self.offset

    def value(self, f, squared_norm) -> float:
        """The objective at predictions f and a tensor of some norm."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.loss.value(self.y, self._outputs(f))
            # A loss of coupled outputs may have one value per sample instead of one per output.
            losses = losses if losses.ndim == 1 else losses.sum(axis=1)
            loss = self.weights.reshape(-1) @ losses
        return float(loss + 0.5 * self.alpha * squared_norm)

    def derivative(self, f) -> np.ndarray:
        """Derivative of the loss term in each prediction, (m * n_outputs,)."""
        return (self.weights * self.loss.derivative(self.y, self._outputs(f))).reshape(-1)

    def curvature(self, f) -> np.ndarray:
        """Second derivative of the loss term in each prediction, (m * n_outputs,)."""
        return (self.weights * self.loss.curvature(self.y, self._outputs(f))).reshape(-1)

    def beyond(self, f) -> "Objective":
        """The objective of a tensor that is added to one of predictions f.

        Its penalty is on what is added alone.
        """
        rest = copy.copy(self)
        vars(rest).update(offset=self._outputs(f))
        return rest

    def take(self, rows) -> "Objective":
        """The objective of some of the samples, as an estimate of the whole.

        Its loss term is scaled by the share of samples, not of weights: the mean over a partition,
        by number of samples, is the objective itself.
        """
        part = copy.copy(self)
        weights, y = self.weights[rows], self.y[rows]
        offset = np.broadcast_to(self.offset, self.y.shape)[rows]
        vars(part).update(y=y, weights=weights * (len(self.y) / len(y)), offset=offset)
        return part

    def of_output(self, j: int) -> "Objective":
        """The objective of one of several outputs that do not depend on each other."""
        part = copy.copy(self)
        offset = np.broadcast_to(self.offset, self.y.shape)[:, j]
        vars(part).update(y=self.y[:, j], weights=self.weights[:, 0], offset=offset)
        return part
