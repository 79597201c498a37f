"""Losses and their derivatives, in numpy.

f is the raw prediction <W, X(x)> and y the target, one number per sample; with several outputs both
have the shape (m, n_outputs). A loss of your own is a subclass of `Loss` with three methods. This
one is for positive numbers, whose mean is exp(f):

>>> import numpy as np
>>> from ttexm.losses import Loss
>>> class Gamma(Loss):
...     targets = "numbers"
...
...     def value(self, y, f):
...         return y * np.exp(-f) + f
...
...     def derivative(self, y, f):
...         return 1 - y * np.exp(-f)
...
...     def curvature(self, y, f):
...         return y * np.exp(-f)
...
...     def predict(self, f):
...         return np.exp(f)
...
...     def check(self, y):
...         if (y <= 0).any():
...             raise ValueError(f"The Gamma loss is for positive numbers, got {y.min():g}.")
>>> float(Gamma().mean(np.array([1.0, 3.0]), np.array([0.0, 0.0])))
2.0
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, log_softmax, softmax

# The estimator that takes each kind of targets.
ESTIMATORS = {"numbers": "ExMRegressor", "signs": "ExMClassifier", "one_hot": "ExMClassifier"}


class Loss(ABC):
    """A loss, by its value and derivatives in the prediction f, and by what it needs.

    `value`, `derivative` and `curvature` work sample by sample, on arrays of any shape; `mean` is
    what training minimises. Losses are convex in f, and finite at f = 0, where training starts.

    Attributes
    ----------
    targets : {"numbers", "signs", "one_hot"}
        What y holds, and so which estimator the loss is for. "numbers" (the default) are those of
        `ExMRegressor`. The others are the classes of `ExMClassifier`: "signs" are -1 and 1, for two
        classes, or for each of several against the rest, a column each; "one_hot" is one column
        for each of two or more classes, 1 for the class of the sample and 0 for the others.
    allows_rescaling : bool
        Whether training may shift and scale the targets, and predictions with them: True if the
        loss of a + b y and a + b f, with b > 0, is that of y and f up to a factor. False by
        default: the loss then gets y as the user has given it.
    couples_outputs : bool
        Whether the outputs of a sample depend on each other, as those of the softmax do. False by
        default: each output then has a loss of its own.
    compares_outputs : bool
        Whether only differences between the outputs of a sample count, as for the softmax. False
        by default.
    has_probabilities : bool
        Whether `predict` gives probabilities: of class 1, for "signs", or of each class, for
        "one_hot". False by default.
    """

    targets = "numbers"
    allows_rescaling = False
    couples_outputs = False
    compares_outputs = False
    has_probabilities = False

    @abstractmethod
    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return the loss of each sample and output, of the shape of f; or of each sample, (m,)."""

    @abstractmethod
    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return d loss / d f, of the shape of f."""

    @abstractmethod
    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return the second derivative (or a generalised one >= 0), of the shape of f.

        Where outputs depend on each other, the diagonal of the second derivatives, or an upper
        bound of it. Zeros will do for a loss of straight lines.
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

    allows_rescaling = True

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return 0.5 * (f - y) ** 2

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return f - y

    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.ones_like(f)


class Logistic(Loss):
    """``log(1 + exp(-y f))`` for labels y of -1 and 1; predicts the probability of 1."""

    targets = "signs"
    has_probabilities = True

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.logaddexp(0, -y * f)

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return -y * expit(-y * f)

    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return expit(f) * expit(-f)

    def predict(self, f: np.ndarray) -> np.ndarray:
        return expit(f)

    def check(self, y: np.ndarray) -> None:
        _check_signs(y)


class Hinge(Loss):
    """``max(0, 1 - y f)`` for labels y of -1 and 1; its curvature is zero: for gradient methods."""

    targets = "signs"

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.maximum(0, 1 - y * f)

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.where(y * f < 1, -y, 0.0)

    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.zeros_like(f)

    def check(self, y: np.ndarray) -> None:
        _check_signs(y)


class SquaredHinge(Loss):
    """``max(0, 1 - y f)^2 / 2`` for labels y of -1 and 1."""

    targets = "signs"

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return 0.5 * np.maximum(0, 1 - y * f) ** 2

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return -y * np.maximum(0, 1 - y * f)

    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.where(y * f < 1, 1.0, 0.0)

    def check(self, y: np.ndarray) -> None:
        _check_signs(y)


class Softmax(Loss):
    """Cross-entropy for two or more classes: y one-hot (m, n_classes), f the logits."""

    targets = "one_hot"
    couples_outputs = True
    compares_outputs = True
    has_probabilities = True

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return -y * log_softmax(f, axis=-1)

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return softmax(f, axis=-1) * y.sum(axis=-1, keepdims=True) - y

    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        p = softmax(f, axis=-1)
        return p * (1 - p)

    def predict(self, f: np.ndarray) -> np.ndarray:
        return softmax(f, axis=-1)


class Poisson(Loss):
    """``exp(f) - y f`` for counts y >= 0; predicts the rate exp(f)."""

    LARGEST = 500.0  # exp of more would overflow the sums of many samples

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        f_safe = np.minimum(f, self.LARGEST)
        # Beyond LARGEST the line that continues exp: large, growing, and finite.
        return np.exp(f_safe) * (1 + (f - f_safe)) - y * f

    def derivative(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(f, self.LARGEST)) - y

    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(f, self.LARGEST))

    def predict(self, f: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(f, self.LARGEST))

    def check(self, y: np.ndarray) -> None:
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


def get_for(estimator: str, loss: str | Loss) -> Loss:
    """Return a loss by its name, or the loss itself; raise unless it is one for an estimator.

    Examples
    --------
    >>> from ttexm import losses
    >>> losses.get_for("ExMRegressor", "hinge")
    Traceback (most recent call last):
    ValueError: loss='hinge' takes 'signs', ... use 'squared' or 'poisson', or a Loss ...
    """
    found = get(loss)
    if found.targets not in ESTIMATORS:
        raise ValueError(
            f"The targets of a loss must be one of {', '.join(map(repr, ESTIMATORS))}, got "
            f"{found.targets!r} from {found!r}."
        )
    if ESTIMATORS[found.targets] == estimator:
        return found
    fitting = [name for name, kind in LOSSES.items() if ESTIMATORS[kind.targets] == estimator]
    kinds = [repr(kind) for kind, taker in ESTIMATORS.items() if taker == estimator]
    raise ValueError(
        f"loss={loss!r} takes {found.targets!r}, the targets of {ESTIMATORS[found.targets]}, and "
        f"does not fit {estimator}; use {_either(map(repr, fitting))}, or a Loss whose targets are "
        f"{_either(kinds)}."
    )


def check_targets(loss: Loss, y: np.ndarray) -> None:
    """Raise unless a loss is defined for targets y, and gives what training needs at f = 0."""
    loss.check(y)
    y = y[:2]
    f = np.zeros_like(y)
    for name in ("value", "derivative", "curvature"):
        given = np.asarray(getattr(loss, name)(y, f))
        fits = given.shape == y.shape or (name == "value" and given.shape == y.shape[:1])
        if not fits or given.dtype.kind != "f":
            raise ValueError(
                f"{loss!r}.{name}(y, f) must give floats of the shape of f, {f.shape} here, got "
                f"{given.dtype} of shape {given.shape}."
            )
        if not np.isfinite(given).all():
            raise ValueError(f"{loss!r}.{name}(y, f) must be finite at f = 0, got {given} at {y}.")
        if name == "curvature" and (given < 0).any():
            raise ValueError(f"{loss!r}.curvature(y, f) must be at least 0, got {given} at f = 0.")


def _either(names):
    *names, last = names
    return f"{', '.join(names)} or {last}" if names else last
