"""Sweeps: one core, or a pair of neighbours, is solved for at a time, all others being orthogonal.

On the CPU a sweep over one core at a time is one call of a compiled kernel, see
`kernels.newton_sweep`; on other devices, and over pairs, see `product_sweep`.
"""

from dataclasses import dataclass

import numpy as np

from ...data.batch import RankOneBatch
from ...kernels import loss_formulas
from ...kernels.core_sweep import CoreSweep, trim_ranks
from ...kernels.run_contraction import contract
from ...tt.tensor import TTTensor
from ..data import with_outputs
from ..losses import Hinge, Logistic, Poisson, Softmax, Squared, SquaredHinge
from ..objective import Objective
from .base import Run, Solver
from .product_sweep import DEFAULT, ProductSweep, Settings, check_norm

# Losses that kernels know: these classes themselves, as a subclass may be another loss.
BUILT_IN = {
    Squared: loss_formulas.SQUARED,
    Logistic: loss_formulas.LOGISTIC,
    Softmax: loss_formulas.SOFTMAX,
    Poisson: loss_formulas.POISSON,
    Hinge: loss_formulas.HINGE,
    SquaredHinge: loss_formulas.SQUARED_HINGE,
}


@dataclass(frozen=True)
class Sweeps(Solver):
    """Sweeps over the cores; an iteration is one to the right and back.

    Parameters
    ----------
    sites : {1, 2}
        Cores that are solved for at a time. With two, ranks adapt.
    max_rank : int, optional
        Highest rank, with two sites; by default the largest rank of the start.
    eps : float
        Singular values up to `eps` times the norm of the two cores are dropped, with two sites.
    settings : Settings
        How far each local problem is solved.
    dtype : dtype, optional
        Precision of the partial products; by default that of the batch.
    """

    takes_rows_once = True

    sites: int = 1
    max_rank: int | None = None
    eps: float = 0.0
    settings: Settings = DEFAULT
    dtype: type | None = None

    def start(
        self,
        W: TTTensor,
        batch: RankOneBatch,
        objective: Objective,
        rng: np.random.Generator | None = None,
    ) -> Run:
        check_norm(W)
        return self.start_at(W.astype(np.float64).to_cores(), batch, objective)

    def start_at(
        self, cores: list[np.ndarray], batch: RankOneBatch, objective: Objective
    ) -> "CompiledSweep | ProductSweep":
        """Return a run that starts at a train of the given cores (r0, n, r1)."""
        if self.sites == 1 and batch.device == "cpu" and len(batch) == len(objective.y):
            return CompiledSweep(cores, batch, objective, self.settings, self.dtype)
        return ProductSweep(
            TTTensor(cores), with_outputs(batch, objective.y), objective,
            self.sites, self.max_rank, self.eps, self.settings, self.dtype,
        )  # fmt: skip


class CompiledSweep(Run):
    """Sweeps over one core at a time, each one call of a kernel.

    Parameters
    ----------
    cores : list of arrays (r0, n, r1)
        Where to start; with several outputs the last one, of n slots, is for them.
    batch : RankOneBatch
        Each row once, on the CPU.
    objective : Objective
    settings : Settings
    dtype : dtype, optional
        Precision of the partial products; by default that of the batch.
    """

    def __init__(
        self,
        cores: list[np.ndarray],
        batch: RankOneBatch,
        objective: Objective,
        settings: Settings = DEFAULT,
        dtype: type | None = None,
    ):
        self.objective, self.dtype = objective, np.dtype(dtype or batch.dtype)
        self._has_outputs = objective.y.ndim == 2 and len(cores) > batch.ndim
        cores = [core.transpose(1, 0, 2) for core in cores]
        if self._has_outputs:
            cores[-1] = cores[-1].transpose(2, 1, 0)
        loss = BUILT_IN.get(type(objective.loss), loss_formulas.OTHER)
        self._sweep = CoreSweep(
            batch.runs(self.dtype), trim_ranks(cores), objective.y,
            objective.weights.reshape(-1), loss, objective.alpha,
            (settings.newton_steps, settings.cg_steps, settings.cg_tolerance), objective.offset,
        )  # fmt: skip
        self._sweep.sweep(self._evaluate)  # the first call evaluates the start
        self.value = self._sweep.value

    def _evaluate(self, f):
        """Return the loss at predictions that include the offset, and its derivatives."""
        objective = self.objective
        if objective.offset is not None:
            f = f - objective.offset
        return objective.value(f, 0.0), objective.derivative(f), objective.curvature_or_slope(f)

    @property
    def f(self) -> np.ndarray:
        """The predictions now, without the offset."""
        f = self._sweep.f
        return f if self.objective.offset is None else f - self.objective.offset

    def iterate(self) -> None:
        self._sweep.sweep(self._evaluate)
        self.value = self._sweep.value
        self.gradient_norm = self._sweep.mean_squared_gradient**0.5

    def predict(self, batch: RankOneBatch) -> np.ndarray:
        f = contract(batch.runs(self.dtype), self._sweep.cores, len(batch))
        return f if self._has_outputs else f[:, 0]

    def tensor(self) -> TTTensor:
        cores = self._sweep.cores
        if self._has_outputs:
            cores[-1] = cores[-1].transpose(2, 1, 0)
        return TTTensor([core.transpose(1, 0, 2) for core in cores])
