"""Targets and weights of rows, as users give them: read, checked, and encoded for a loss."""

import contextlib

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import assert_all_finite, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    _num_samples,
    column_or_1d,
)

from ..checks import refuse_masked
from ..data.rows import DIGITS
from .losses import Loss, check_targets


def read_labels(estimator: str, y: ArrayLike) -> np.ndarray:
    """Return labels of any type as an array (m,)."""
    _require(estimator, y)
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    with np.errstate(invalid="ignore"):  # it casts y to integers, which may overflow
        check_classification_targets(y)
    return y


def read_numbers(estimator: str, y: ArrayLike) -> np.ndarray:
    """Return numeric targets as an array (m,) or (m, n_targets)."""
    _require(estimator, y)
    with np.errstate(invalid="ignore"), _named("y"):  # it sums y, which may be inf - inf
        y = np.asarray(_check_y(y, multi_output=True, y_numeric=True), np.float64)
    assert_all_finite(y, input_name="y")  # None in an array of objects has just become NaN
    return column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y


def read_weights(sample_weight: ArrayLike | None, m: int) -> np.ndarray:
    """Return the weights of m rows, at least 0 and at most 1; ones by default."""
    if sample_weight is None:
        return np.ones(m)
    refuse_masked(sample_weight, "sample_weight")
    with _named("sample_weight"):
        weights = _check_sample_weight(sample_weight, np.empty((m, 1)), dtype=np.float64)
    if (weights < 0).any():
        row = int(np.argmin(weights))
        raise ValueError(f"sample_weight must not be negative, got {weights[row]} in row {row}.")
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all samples.")
    return weights / weights.max()  # a sum of weights of 1e300 would overflow


def weigh_classes(
    weights: np.ndarray, class_weight: dict | str | None, labels: np.ndarray
) -> np.ndarray:
    """Return weights times those of the rows' classes."""
    if class_weight is None:
        return weights
    try:
        given = np.asarray(compute_sample_weight(class_weight, labels), np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "class_weight must be 'balanced', None, or a dict of class to a number, got "
            f"{class_weight!r}."
        ) from None
    strange = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if len(strange):
        row = strange[0]
        raise ValueError(
            f"class_weight must be finite and not negative, got {given[row]:g} for class "
            f"{labels[row : row + 1].tolist()[0]!r}."
        )
    if not (weights * given).any():
        raise ValueError(f"class_weight={class_weight!r} leaves no row with a weight above 0.")
    return weights * (given / given.max())


def read_eval_set(eval_set: object) -> tuple:
    """Return rows and targets of an eval_set; it may be a list of one pair, as in LightGBM."""
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if not isinstance(eval_set, tuple) or len(eval_set) != 2:
        raise ValueError(f"eval_set must be a pair (X, y), got {type(eval_set).__name__}.")
    if _num_samples(eval_set[0]) == 0:
        raise ValueError("eval_set must have at least one row, got none.")
    return eval_set


def check_classes(classes: np.ndarray, what: str, hint: str = "") -> None:
    """Raise unless there are at least two classes."""
    if len(classes) < 2:
        raise ValueError(f"{what} at least two classes, got one class only: {classes[0]!r}{hint}.")


def encode_labels(classes: np.ndarray, loss: Loss, labels: np.ndarray, name: str) -> np.ndarray:
    """Return labels as a loss takes them: signs, or one column per class."""
    strange = np.setdiff1d(labels, classes)
    if len(strange):
        raise ValueError(
            f"{name} must have classes of {classes.tolist()} only, got {strange.tolist()[0]!r}."
        )
    codes, n_classes = np.searchsorted(classes, labels), len(classes)
    if loss.targets == "one_hot":
        encoded = np.eye(n_classes)[codes]
    elif n_classes == 2:
        encoded = 2.0 * codes - 1
    else:
        encoded = 2 * np.eye(n_classes)[codes] - 1
    check_targets(loss, encoded)
    return encoded


def learn_units(
    y: np.ndarray, weights: np.ndarray, loss: Loss
) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Return center and spread of targets: mean and standard deviation if the loss allows it.

    Each is a number, or an array (n_targets,).
    """
    if not loss.allows_rescaling:
        return np.zeros(y.shape[1:])[()], np.ones(y.shape[1:])[()]
    # Divide by a power of two first: squares of 1e160 overflow, and those of 1e-170 are zero.
    power = _exponents(y)
    y = np.ldexp(y, -power)
    center = np.average(y, axis=0, weights=weights)
    spread = np.sqrt(np.average((y - center) ** 2, axis=0, weights=weights))
    # The spread of constant targets is rounding errors; their size is used instead.
    size = np.abs(y).max(axis=0)
    spread = np.where(spread > 1e-14 * size, spread, np.where(size > 0, size, 1.0))
    return np.ldexp(center, power), np.ldexp(spread, power)


def encode_numbers(
    center: np.ndarray | float, spread: np.ndarray | float, loss: Loss, y: np.ndarray, name: str
) -> np.ndarray:
    """Return targets as a loss takes them: centred and scaled if it allows that."""
    shape = np.shape(center)
    if y.shape[1:] != shape:
        raise ValueError(
            f"{name} must have {shape[0] if shape else 1} targets per row, as in the first fit, "
            f"got shape {y.shape}."
        )
    if loss.allows_rescaling:
        power = _exponents(y)
        y = np.ldexp(y, -power) - np.ldexp(center, -power)
        y = y / np.ldexp(spread, -power)
        # Later digits may be rounding errors, which would differ in other units of y.
        y = np.round(y * DIGITS) / DIGITS
    check_targets(loss, y)
    return y


def _exponents(y):
    """Return the exponent of the largest magnitude in each column."""
    return np.frexp(np.abs(y).max(axis=0))[1]


def _require(estimator, y):
    if y is None:
        raise ValueError(
            f"This {estimator} estimator requires y to be passed, but the target y is None"
        )
    refuse_masked(y, "y")


@contextlib.contextmanager
def _named(name):
    """Add the name of an argument to errors that do not have it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "convert" not in str(error) and "real number" not in str(error):
            raise
        raise type(error)(f"{name} must hold real numbers: {error}") from None
