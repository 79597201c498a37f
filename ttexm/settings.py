"""Settings of a fit, and what validation says of them."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Choice:
    """Settings, and the validation losses they had.

    `losses` are those of the samples of each fold that the settings were tried on, `scores` their
    weighted means, and `shares` the weights of these folds.
    """

    penalty: float
    order_scale: float
    rank: int
    n_iter: int
    is_linear: bool = False
    is_screened: bool = False
    scores: tuple[float, ...] = ()
    shares: tuple[float, ...] = field(default=(), repr=False)
    losses: tuple[np.ndarray, ...] = field(default=(), repr=False, compare=False)

    def alpha(self, n_samples: float) -> float:
        return self.penalty * self.order_scale**2 / n_samples

    @property
    def score(self) -> float:
        """The mean loss of all samples that the settings were tried on."""
        return float(np.average(self.scores, weights=self.shares)) if self.scores else np.inf
