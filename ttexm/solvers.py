"""Solvers, and the base class of a solver of your own; see `ttexm.learn.solvers`."""

from .learn.solvers.base import Run, Solver
from .learn.solvers.boosting import Boosting
from .learn.solvers.cores import Cores
from .learn.solvers.product_sweep import Settings
from .learn.solvers.riemannian import Riemannian
from .learn.solvers.sweeps import Sweeps

__all__ = ["Boosting", "Cores", "Riemannian", "Run", "Settings", "Solver", "Sweeps"]
