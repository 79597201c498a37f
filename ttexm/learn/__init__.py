"""From rows and targets to a weight tensor: objectives, solvers, and the search for settings."""

from .objective import Objective
from .trainer import Trainer

__all__ = ["Objective", "Trainer"]
