"""What training minimises: the weighted mean of a loss, and the penalty alpha/2 |W|^2."""

import numpy as np

from .losses import Loss


class Objective:
    """``sum_s w_s loss(y_s, f_s) + alpha/2 |W|^2`` with weights w of sum 1. Immutable.

    The paper sums the loss and calls the penalty lambda: ``alpha = lambda / N``.

    Parameters
    ----------
    loss : Loss
    y : array (m,) or (m, n_outputs)
        Targets.
    weights : array (m,)
        Of any positive scale. They are divided by their sum.
    alpha : float
        Penalty.
    offset : float or array of the shape of y, optional
        Predictions of a model that is kept fixed, to which <W, X_s> is added.

    Notes
    -----
    With several outputs, predictions may come as (m, n_outputs) or flat, with the outputs of a row
    side by side. Derivatives are returned flat, (m * n_outputs,).
    """

    def __init__(
        self,
        loss: Loss,
        y: np.ndarray,
        weights: np.ndarray,
        alpha: float,
        offset: np.ndarray | float | None = None,
    ):
        offset = None if offset is None else np.broadcast_to(offset, y.shape)
        weights = (weights / weights.sum()).reshape(-1, *[1] * (y.ndim - 1))
        self._set(loss, y, weights, alpha, offset)

    def _set(self, loss, y, weights, alpha, offset):
        self.loss, self.y, self.weights, self.alpha, self.offset = loss, y, weights, alpha, offset

    def _like(self, y, weights, offset):
        """Return the objective of other targets, with weights that are used as they are."""
        made = Objective.__new__(Objective)
        made._set(self.loss, y, weights, self.alpha, offset)
        return made

    def _predictions(self, f):
        f = f.reshape(self.y.shape)
        return f if self.offset is None else f + self.offset

    def value(self, f: np.ndarray, squared_norm: float) -> float:
        """Return the objective at predictions f of a tensor with ``|W|^2 = squared_norm``."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.loss.value(self.y, self._predictions(f))
            # A loss of coupled outputs may have one value a row instead of one an output.
            losses = losses if losses.ndim == 1 else losses.sum(axis=1)
            loss = self.weights.reshape(-1) @ losses
        return float(loss + 0.5 * self.alpha * squared_norm)

    def derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the derivative of the loss term in each prediction."""
        return (self.weights * self.loss.derivative(self.y, self._predictions(f))).reshape(-1)

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return the second derivative of the loss term in each prediction."""
        return (self.weights * self.loss.curvature(self.y, self._predictions(f))).reshape(-1)

    def curvature_or_slope(self, f: np.ndarray) -> np.ndarray:
        """Return the curvature, or the size of the slope if there is no curvature anywhere.

        The hinge is such a loss. With its slope for a curvature, a Newton step moves predictions by
        about 1.
        """
        h = self.curvature(f)
        return h if h.any() else np.abs(self.derivative(f))

    def with_offset(self, f: np.ndarray) -> "Objective":
        """Return the objective of a tensor that is added to one with predictions f.

        Its penalty is on the added tensor alone.
        """
        return self._like(self.y, self.weights, self._predictions(f))

    def take(self, chosen: np.ndarray) -> "Objective":
        """Return the objective of some rows, as an estimate of that of all.

        Its loss term is scaled by the share of rows, not of weights, so that the mean over a
        partition, by number of rows, is the objective itself.
        """
        y = self.y[chosen]
        weights = self.weights[chosen] * (len(self.y) / len(y))
        return self._like(y, weights, None if self.offset is None else self.offset[chosen])

    def of_output(self, j: int) -> "Objective":
        """Return the objective of one of several outputs that do not depend on each other."""
        offset = None if self.offset is None else self.offset[:, j]
        return self._like(self.y[:, j], self.weights[:, 0], offset)
