"""What every solver is: settings that start a run, and a run that goes on by iterations."""

from abc import ABC, abstractmethod

import numpy as np

from ...data.batch import RankOneBatch
from ...tt.tensor import TTTensor
from ..objective import Objective


class Run(ABC):
    """A tensor on its way to lower an objective.

    Attributes
    ----------
    value : float
        The objective now, or its mean over the mini-batches of the last iteration.
    gradient_norm : float
        Of the last gradient that was taken; NaN where none was.
    """

    value: float = np.nan
    gradient_norm: float = np.nan

    @abstractmethod
    def iterate(self) -> None:
        """Go through the samples once, or sweep over the cores once."""

    @abstractmethod
    def tensor(self) -> TTTensor:
        """Return the tensor as it is now."""


class Solver(ABC):
    """Settings of an algorithm. Its runs work on the batch's device."""

    @abstractmethod
    def start(
        self, W: TTTensor, batch: RankOneBatch, objective: Objective, rng: np.random.Generator
    ) -> Run:
        """Return a run that starts at W."""
