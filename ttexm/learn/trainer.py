"""The trainer runs a solver, decides when to stop, and keeps the best tensor and a history."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..data.batch import RankOneBatch
from ..kernels.blas import single_threaded_blas
from ..tt.tensor import TTTensor
from . import progress
from .objective import Objective
from .solvers.base import Solver


@dataclass(frozen=True)
class Record:
    """One iteration of the history.

    Attributes
    ----------
    iteration : int
        From 1 on.
    time : float
        Seconds since the start of the run.
    loss : float
        The objective.
    metric : float
        Of the tensor, NaN if there is no metric.
    rank : int
        The largest rank of the tensor.
    gradient_norm : float
        See `Run`.
    """

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
        Most iterations. An iteration is a pass through the samples, or a sweep.
    tol : float, optional
        Smallest relative improvement, of the metric if there is one, else of the objective, that
        counts as one. With None, training takes all `max_iter` iterations.
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
    Data that are on a GPU stay there, and so does all that solvers keep for each sample. Losses are
    computed on the host, so that any Loss can be used: predictions are copied to the host and
    derivatives to the GPU, one number each per sample. The tensor is small, and is on the host
    between steps.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import RankOneBatch, TTTensor
    >>> from ttexm.losses import Squared
    >>> from ttexm.learn import Objective
    >>> from ttexm.solvers import Sweeps
    >>> from ttexm.learn import Trainer
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
        """Train from W, and return the best tensor of all iterations.

        Parameters
        ----------
        W : TTTensor
        batch : RankOneBatch
        objective : Objective
        metric : callable, optional
            Decides which tensor is best; lower is better. It may be a validation loss. Without one,
            the objective decides.

        Notes
        -----
        After Ctrl-C the best tensor so far is returned; see `is_interrupted`. So it is after an
        overflow, with a warning.
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
