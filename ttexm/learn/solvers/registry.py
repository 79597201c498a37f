"""Solvers by name, as the estimators offer them."""

from numpy.typing import DTypeLike

from .base import Solver
from .boosting import Boosting
from .cores import Cores
from .riemannian import Riemannian
from .sweeps import Sweeps

SWEEPS = ("auto", "sweeps")
ADAPT_EVERY = 5  # iterations between two sweeps that find new ranks
EPS = 1e-3  # share of a pair's norm that a two-site sweep may cut off

NAMED = {
    "auto": lambda rank, dtype, **_: Sweeps(dtype=dtype),
    "sweeps": lambda rank, dtype, **_: Sweeps(dtype=dtype),
    "two_site": lambda rank, dtype, **_: Sweeps(2, rank, EPS, dtype=dtype),
    "boosting": lambda rank, dtype, **_: Boosting(max_rank=rank, dtype=dtype),
    "riemannian": lambda rank, dtype, **steps: Riemannian("sgd", **steps),
    "riemannian_momentum": lambda rank, dtype, **steps: Riemannian("momentum", **steps),
    "riemannian_svrg": lambda rank, dtype, **steps: Riemannian("svrg", **steps),
    "riemannian_cg": lambda rank, dtype, **_: Riemannian("cg"),
    "riemannian_adaptive": lambda rank, dtype, **steps: Riemannian(
        "sgd", **steps, adapt_every=ADAPT_EVERY, max_rank=rank, eps=EPS
    ),
    "cores": lambda rank, dtype, **steps: Cores("sgd", **steps),
    "cores_adam": lambda rank, dtype, **steps: Cores("adam", **steps),
}


def check(solver: str | Solver) -> None:
    """Raise if this is neither a known name nor a Solver."""
    if not isinstance(solver, Solver) and not (isinstance(solver, str) and solver in NAMED):
        raise ValueError(
            f"solver must be one of {', '.join(map(repr, NAMED))}, or a Solver, got {solver!r}."
        )


def get(
    solver: str | Solver,
    rank: int,
    dtype: DTypeLike,
    learning_rate: float | str,
    batch_size: int | None,
) -> Solver:
    """Return the solver of a name, or the solver itself.

    Parameters
    ----------
    solver : str or Solver
    rank : int
        The highest, where ranks adapt.
    dtype : dtype
        Of partial products, for sweeps.
    learning_rate : float or "auto"
        For those that take steps along gradients; so is batch_size.
    batch_size : int, optional

    Examples
    --------
    >>> from ttexm.learn.solvers import registry
    >>> registry.get("riemannian", 4, float, 0.5, 100).method
    'sgd'
    """
    check(solver)
    if isinstance(solver, Solver):
        return solver
    steps = {"learning_rate": learning_rate, "batch_size": batch_size}
    return NAMED[solver](rank, dtype, **steps)
