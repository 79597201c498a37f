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

    def predict(self, batch: RankOneBatch) -> np.ndarray:
        """Return the raw predictions for other rows, each of them once."""
        return self.tensor().contract(batch)


class Solver(ABC):
    """Settings of an algorithm. Its runs work on the batch's device.

    Attributes
    ----------
    takes_rows_once : bool
        With several outputs, W has one more mode than the columns. By default the batch then holds
        each row once for each output, with the number of the output as its last mode. If True, it
        holds each row once, without that mode.
    """

    takes_rows_once = False

    @abstractmethod
    def start(
        self, W: TTTensor, batch: RankOneBatch, objective: Objective, rng: np.random.Generator
    ) -> Run:
        """Return a run that starts at W."""
