"""Trainer: runs a solver, keeps the best model, knows when to stop, and tells what happened."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from . import progress
from .batch import RankOneBatch
from .kernels.threads import single_threaded_blas
from .objective import Objective
from .solvers.base import Solver
from .tensor import TTTensor


@dataclass(frozen=True)
class Record:
    """One iteration, as it is kept in the history."""

    iteration: int
    time: float
    loss: float
    metric: float
    rank: int
    gradient_norm: float


@dataclass
class Trainer:
    """Runs a solver until it no longer improves.

    Parameters
    ----------
    solver : Solver
    max_iter : int
        Iterations: passes through the samples, or sweeps.
    tol : float, optional
        Relative improvement, of the metric if there is one, else of the objective, that counts.
        None for `max_iter` iterations, whatever they bring.
    n_iter_no_change : int
        Iterations without improvement after which to stop.
    callbacks : sequence of callable
        Each is called with every Record; if one returns True, training stops.
    verbose : bool
        Whether to show a progress bar, with the loss in it.
    random_state : int or numpy.random.Generator
        The same one gives the same bits.
    device : {"cpu", "cuda", "auto"}, optional
        Where to train: by default where the batch is. "auto" is "cuda" if there is a GPU that can
        be used, else "cpu".

    Attributes
    ----------
    history : list of Record
    is_interrupted : bool
        Whether Ctrl-C has ended the last run.

    Notes
    -----
    On a GPU the data stay there, with all that solvers keep of each sample. Losses are computed on
    the host: predictions come back and derivatives go in, one number a sample each, so that any
    Loss will do. The tensor itself is small, and on the host between steps.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import RankOneBatch, TTTensor
    >>> from ttexm.losses import Squared
    >>> from ttexm.objective import Objective
    >>> from ttexm.solvers.sweeps import Sweeps
    >>> from ttexm.trainer import Trainer
    >>> x = np.random.default_rng(0).standard_normal((500, 4))
    >>> batch = RankOneBatch.from_columns(x)
    >>> objective = Objective(Squared(), x[:, 0] * x[:, 3], np.ones(500), alpha=1e-6)
    >>> trainer = Trainer(Sweeps(), max_iter=50)
    >>> W = trainer.run(TTTensor.random(batch.shape, rank=2, seed=0), batch, objective)
    >>> bool(abs(W[1, 0, 0, 1] - 1) < 1e-3)
    True
    """

    solver: Solver
    max_iter: int = 100
    tol: float | None = 1e-4
    n_iter_no_change: int = 5
    callbacks: Sequence[Callable] = ()
    verbose: bool = False
    random_state: int | np.random.Generator = 0
    device: str | None = None
    history: list[Record] = field(default_factory=list)
    is_interrupted: bool = field(default=False, init=False)

    @single_threaded_blas()
    def run(
        self,
        W: TTTensor,
        batch: RankOneBatch,
        objective: Objective,
        metric: Callable[[TTTensor], float] | None = None,
    ) -> TTTensor:
        """Train from W; returns the best tensor that was met.

        Parameters
        ----------
        W : TTTensor
        batch : RankOneBatch
        objective : Objective
        metric : callable, optional
            Of a tensor; lower is better. A validation loss, say: the best tensor is the best by it.
            Without one, it is the best by the objective.

        Notes
        -----
        Ctrl-C ends training, and the best tensor so far is returned; see `is_interrupted`. So does
        an overflow, with a warning; NaN never gets into the result.
        """
        self.history, self.is_interrupted = [], False
        start = time.perf_counter()
        batch = batch if self.device is None else batch.to(self.device)
        run = self.solver.start(W, batch, objective, np.random.default_rng(self.random_state))
        score = run.value if metric is None else metric(W)
        best, best_score, since = W, score if np.isfinite(score) else np.inf, 0
        shown = progress.bar(self.max_iter, "training", self.verbose)
        try:
            for iteration in range(1, self.max_iter + 1):
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    run.iterate()
                    W = run.tensor()
                    score = run.value if metric is None else metric(W)
                record = Record(
                    iteration, time.perf_counter() - start, run.value,
                    np.nan if metric is None else score, W.rank, run.gradient_norm,
                )  # fmt: skip
                self.history.append(record)
                shown.update(f"loss {record.loss:.3g}")
                if not np.isfinite(score):
                    warnings.warn(
                        f"Training overflowed in iteration {iteration}; the best model before that "
                        "is kept. A smaller learning_rate, a larger alpha or solver='sweeps' help.",
                        ConvergenceWarning,
                        stacklevel=2,
                    )
                    break
                tol = self.tol or 0.0
                since = 0 if score < best_score - tol * abs(best_score) else since + 1
                if score < best_score:
                    best, best_score = W, score
                stops = [callback(record) for callback in self.callbacks]
                if any(stops):
                    break
                if self.tol is not None and since >= self.n_iter_no_change:
                    break
            else:
                self._warn_not_converged()
        except KeyboardInterrupt:
            self.is_interrupted = True
        finally:
            shown.close()
        return best

    def _warn_not_converged(self):
        if self.tol is not None:
            warnings.warn(
                f"Training stopped at max_iter={self.max_iter}, while it still improved; raise "
                "max_iter, or tol if that is good enough.",
                ConvergenceWarning,
                stacklevel=3,
            )
