"""Residual boosting: small tensors, fitted to what the model leaves unexplained, are added to it.

A sweep finds an interaction only if one of the model's directions has a part of it. Once all ranks
are in use, no direction is free. A small random tensor, fitted with the model's predictions as an
offset, brings new directions each time.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ...checks import check_optional_count, is_integer
from ...data.batch import RankOneBatch
from ...tt.tensor import TTTensor
from .. import initialize
from ..data import TrainingSet
from ..objective import Objective
from .base import Run, Solver
from .product_sweep import Settings
from .sweeps import Sweeps

MOST_STRETCH = 4.0  # largest factor of predictions that undoes the penalty
# Order scale and norm of the start of a boost. With low scales less is found: of a sum of products
# of six columns, five sweeps at rank 16 explain 38 % from scale 0.3 and 62 % from 1.0, on average
# over four starts.
START_SCALE, START_NORM = 1.0, 1e-6
ROUGH = Settings(cg_steps=2)


@dataclass(frozen=True)
class Boosting(Solver):
    """Two-site sweeps that find missing terms; an iteration adds one small tensor.

    The small tensor is fitted with the model's predictions as an offset and added, and sweeps over
    the sum follow. If they have not lowered the objective, the model is kept as it was.

    Parameters
    ----------
    boost_rank : int
        Rank of the small tensor.
    boost_sweeps : int
        Sweeps that fit it, from a random start.
    polish_sweeps : int
        Sweeps over the sum.
    max_rank : int
        Highest rank of the sum.
    eps : float
        Sweeps over the sum drop singular values up to `eps` times the norm of the two cores. If it
        is too low, ranks fill up with noise; if it is too high, weak terms are lost.
    rows : int, optional
        Rows of a sweep, drawn anew for each; by default all. The objective is always of all rows.
    settings : Settings
        How far each local problem is solved; roughly is enough, as the next sweep follows.
    dtype : dtype, optional
        Precision of the partial products; by default that of the batch.

    Notes
    -----
    The penalty of the objective is on the sum, but the fit of the small tensor penalises only that
    tensor, and would find again what the penalty has taken from strong terms. The offset is
    therefore the model's predictions times the factor at which their loss is lowest. Sweeps over
    the sum minimise the objective itself. An offset that the objective already has stays as it is.

    How much noise of high orders a fit admits depends on the order scale and on alpha. If the
    target is noisy, as labels are, a larger alpha than is best for prediction finds more terms.

    Examples
    --------
    >>> import numpy as np
    >>> from ttexm import ExMRegressor
    >>> from ttexm.solvers import Boosting
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], (2000, 8))
    >>> y = X[:, :4].prod(axis=1) + X[:, 2:7].prod(axis=1)
    >>> solver = Boosting(boost_rank=2)
    >>> model = ExMRegressor(rank=8, alpha=1e-6, order_scale=1.0, solver=solver).fit(X, y)
    >>> round(model.coefficient("x0", "x1", "x2", "x3"), 2)
    1.0
    """

    boost_rank: int = 8
    boost_sweeps: int = 4
    polish_sweeps: int = 1
    max_rank: int = 24
    eps: float = 0.04
    rows: int | None = None
    settings: Settings = ROUGH
    dtype: type | None = None

    def __post_init__(self):
        for name in ("boost_rank", "boost_sweeps", "polish_sweeps", "max_rank"):
            count = getattr(self, name)
            if not (is_integer(count) and count >= 1):
                raise ValueError(f"{name} must be at least 1, got {count!r}.")
        if not 0 <= self.eps < 1:
            raise ValueError(f"eps must be at least 0 and less than 1, got {self.eps!r}.")
        check_optional_count("rows", self.rows, "all samples")

    def start(
        self, W: TTTensor, batch: RankOneBatch, objective: Objective, rng: np.random.Generator
    ) -> Run:
        return _Boosted(self, W, TrainingSet(batch, objective), rng)


class _Boosted(Run):
    """A model, its predictions, and the objective there."""

    def __init__(self, solver: Boosting, W: TTTensor, rows: TrainingSet, rng: np.random.Generator):
        self.solver, self.rows, self.rng = solver, rows, rng
        self.W, self.f, self.value = self._evaluated(W.astype(np.float64))

    def tensor(self):
        return self.W

    def iterate(self):
        solver = self.solver
        W = (self.W + self._boost()).round(solver.max_rank)
        W = self._sweep(W, self.rows, solver.polish_sweeps, solver.max_rank, solver.eps)
        W, f, value = self._evaluated(W)
        if value <= self.value:
            self.W, self.f, self.value = W, f, value

    def _boost(self):
        """Return a small tensor, fitted to what the model leaves unexplained."""
        batch, rank = self.rows.batch, self.solver.boost_rank
        residual = TrainingSet(batch, self.rows.objective.with_offset(self._stretch() * self.f))
        W = initialize.low_order(batch.shape, rank, START_SCALE, self.rng)
        W = W * (START_NORM / W.norm())
        return self._sweep(W, residual, self.solver.boost_sweeps, rank)

    def _stretch(self):
        """Return the factor at which the loss of the model's predictions is lowest.

        Without it, what the penalty has taken from strong terms would hide weak ones.
        """

        def loss(factor):
            return self.rows.objective.value(factor * self.f, 0.0)

        return minimize_scalar(loss, bounds=(1, MOST_STRETCH), options={"xatol": 1e-2}).x

    def _sweep(self, W, rows, n_sweeps, max_rank, eps=0.0):
        """Return the tensor after two-site sweeps, each over rows of its own."""
        sweeps = Sweeps(2, max_rank, eps, self.solver.settings, self.solver.dtype)
        for _ in range(n_sweeps):
            part = rows.take(rows.mini_batches(self.solver.rows, self.rng)[0])
            run = sweeps.start(W, part.batch, part.objective)
            run.iterate()
            W, self.gradient_norm = run.tensor(), run.gradient_norm
        return W

    def _evaluated(self, W):
        """Return W, its predictions, and the objective."""
        f = W.contract(self.rows.batch).astype(np.float64)
        return W, f, self.rows.objective.value(f, W.norm() ** 2)
