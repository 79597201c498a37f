"""Losses, and the base class of a loss of your own; see `ttexm.learn.losses`."""

from .learn.losses import (
    LOSSES,
    Hinge,
    Logistic,
    Loss,
    Poisson,
    Softmax,
    Squared,
    SquaredHinge,
    check_targets,
    get,
    get_for,
)

__all__ = [
    "LOSSES",
    "Hinge",
    "Logistic",
    "Loss",
    "Poisson",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "check_targets",
    "get",
    "get_for",
]
