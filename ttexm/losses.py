"""Losses: what a prediction costs, with derivatives; numpy only, no kernel.

f is the raw prediction <W, X(x)>, y the target, one number a sample; for several outputs both are
of shape (m, n_outputs). A loss of your own is a subclass with four methods:

>>> import numpy as np
>>> from ttexm.losses import Loss
>>> class Quartic(Loss):
...     def value(self, y, f):
...         return (f - y) ** 4
...
...     def derivative(self, y, f):
...         return 4 * (f - y) ** 3
...
...     def curvature(self, y, f):
...         return 12 * (f - y) ** 2
>>> float(Quartic().mean(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
8.0
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, log_softmax, softmax


class Loss(ABC):
    """A loss, by its value and derivatives in the prediction f.

    `value`, `derivative` and `curvature` work sample by sample, on arrays of any shape; `mean` is
    what training minimises. Losses are convex in f unless they say otherwise.

    Attributes
    ----------
    has_probabilities : bool
        Whether `predict` gives the probability of a class.
    """

    has_probabilities = False

    @abstractmethod
    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return the loss of each sample."""

    @abstractmethod
    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return d loss / d f, of the shape of f."""

    @abstractmethod
    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return the second derivative (or a generalised one >= 0), of the shape of f.

        Where f has several outputs that depend on each other, an upper bound of the diagonal part.
        """

    def mean(self, y: np.ndarray, f: np.ndarray, weights: np.ndarray | None = None) -> float:
        """Return the weighted mean of the loss over the samples."""
        return float(np.average(self.value(y, f), weights=weights, axis=0).sum())

    def predict(self, f: np.ndarray) -> np.ndarray:
        """Return the prediction in the units of y: the mean of y that f stands for."""
        return f

    def check(self, y: np.ndarray) -> None:  # noqa: B027, most losses take any number
        """Raise if this loss is not defined for some targets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Squared(Loss):
    """``(f - y)^2 / 2``, for regression."""

    def value(self, y, f):
        return 0.5 * (f - y) ** 2

    def derivative(self, y, f):
        return f - y

    def curvature(self, y, f):
        return np.ones_like(f)


class Logistic(Loss):
    """``log(1 + exp(-y f))`` for labels y of -1 and 1; predicts the probability of 1."""

    has_probabilities = True

    def value(self, y, f):
        return np.logaddexp(0, -y * f)

    def derivative(self, y, f):
        return -y * expit(-y * f)

    def curvature(self, y, f):
        return expit(f) * expit(-f)

    def predict(self, f):
        return expit(f)

    def check(self, y):
        _check_signs(y)


class Hinge(Loss):
    """``max(0, 1 - y f)`` for labels y of -1 and 1; its curvature is zero: for gradient methods."""

    def value(self, y, f):
        return np.maximum(0, 1 - y * f)

    def derivative(self, y, f):
        return np.where(y * f < 1, -y, 0.0)

    def curvature(self, y, f):
        return np.zeros_like(f)

    def check(self, y):
        _check_signs(y)


class SquaredHinge(Loss):
    """``max(0, 1 - y f)^2 / 2`` for labels y of -1 and 1."""

    def value(self, y, f):
        return 0.5 * np.maximum(0, 1 - y * f) ** 2

    def derivative(self, y, f):
        return -y * np.maximum(0, 1 - y * f)

    def curvature(self, y, f):
        return np.where(y * f < 1, 1.0, 0.0)

    def check(self, y):
        _check_signs(y)


class Softmax(Loss):
    """Cross-entropy for several classes: y one-hot (m, n_classes), f the logits."""

    has_probabilities = True

    def value(self, y, f):
        return -y * log_softmax(f, axis=-1)

    def derivative(self, y, f):
        return softmax(f, axis=-1) * y.sum(axis=-1, keepdims=True) - y

    def curvature(self, y, f):
        p = softmax(f, axis=-1)
        return p * (1 - p)

    def predict(self, f):
        return softmax(f, axis=-1)


class Poisson(Loss):
    """``exp(f) - y f`` for counts y >= 0; predicts the rate exp(f)."""

    LARGEST = 500.0  # exp of more would overflow the sums of many samples

    def value(self, y, f):
        f_safe = np.minimum(f, self.LARGEST)
        # Beyond LARGEST the line that continues exp: large, growing, and finite.
        return np.exp(f_safe) * (1 + (f - f_safe)) - y * f

    def derivative(self, y, f):
        return np.exp(np.minimum(f, self.LARGEST)) - y

    def curvature(self, y, f):
        return np.exp(np.minimum(f, self.LARGEST))

    def predict(self, f):
        return np.exp(np.minimum(f, self.LARGEST))

    def check(self, y):
        if (y < 0).any():
            raise ValueError(
                f"The Poisson loss is for counts of at least 0, got {y.min():g} in y[{y.argmin()}]."
            )


def _check_signs(y):
    strange = np.flatnonzero(np.abs(y) != 1)
    if len(strange):
        raise ValueError(f"Labels must be -1 or 1, got {y[strange[0]]:g} in y[{strange[0]}].")


LOSSES = {
    "squared": Squared,
    "logistic": Logistic,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "softmax": Softmax,
    "poisson": Poisson,
}


def get(loss: str | Loss) -> Loss:
    """Return a loss by its name, or the loss itself.

    Examples
    --------
    >>> from ttexm import losses
    >>> losses.get("squared_hinge")
    SquaredHinge()
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    known = ", ".join(map(repr, LOSSES))
    raise ValueError(f"loss must be one of {known}, or a Loss, got {loss!r}.")
