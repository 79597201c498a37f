"""Small learning problems of mixed features, for tests of solvers."""

import numpy as np

from ttexm import RankOneBatch, TTTensor
from ttexm.data.modes import Modes
from ttexm.data.rows import row_keys
from ttexm.data.table import read_table
from ttexm.kernels.layout import CURVE
from ttexm.learn.data import Data, with_outputs
from ttexm.learn.losses import Hinge, Logistic, Poisson, Softmax, Squared
from ttexm.learn.objective import Objective


def data_of(x, y, loss=None, weights=None):
    """Numeric columns, the rows as they come."""
    weights = np.ones(len(x)) if weights is None else weights
    found = row_keys(read_table(x), weights, y)
    batch = RankOneBatch.from_columns(x)
    return Data(batch, y, weights, loss or Squared(), found.keys, found.n_values)


def curve_batch(rng, m, n, n_knots=4, dtype=np.float64):
    """One curve of n functions: places between knots, on them, at the ends, and missing values."""
    table = rng.standard_normal((n_knots + 1, n))
    table[:, 0], table[-1, 1:] = 1, 0
    places = rng.uniform(0, n_knots - 1, m)
    kinds = rng.integers(0, 4, m)
    places[kinds == 0] = rng.integers(0, n_knots + 1, np.sum(kinds == 0))
    modes = Modes((n,), np.array([CURVE]), np.ones(1), (table,))
    return RankOneBatch.from_arrays(modes, modes.pack([places[:, None]], [], m, dtype), m)


def data_with_curves(loss=None, m=240, seed=0):
    """Three curves and two categories, with interactions."""
    rng = np.random.default_rng(seed)
    modes = [curve_batch(rng, m, 10, 12) for _ in range(3)]
    categories = RankOneBatch.from_codes(rng.integers(0, 3, (m, 2)), (3, 3))
    batch = RankOneBatch.join([*modes, categories])
    y = TTTensor.random(batch.shape, 2, seed).contract(batch)
    y = y / y.std() + 0.3 * rng.standard_normal(m)
    if isinstance(loss, Logistic):
        y = np.where(y > 0, 1.0, -1.0)
    elif isinstance(loss, Softmax):
        y = np.eye(3)[np.digitize(y, [-0.5, 0.5])]
    return Data(batch, y, rng.uniform(0.5, 2, m), loss or Squared())


def mixed_batch(rng, m, dtype=np.float64):
    return RankOneBatch.join(
        [
            RankOneBatch.from_columns(rng.standard_normal((m, 2)), dtype),
            RankOneBatch.from_codes(rng.integers(0, 4, (m, 2)), (4, 4), 0.7, dtype),
            RankOneBatch.from_vectors([rng.standard_normal((m, 3))], dtype),
        ]
    )


def problem(loss=None, m=230, alpha=1e-3, rank=3, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    batch = mixed_batch(rng, m, dtype)
    f = TTTensor.random(batch.shape, 2, seed).contract(batch)
    y = f + 0.1 * rng.standard_normal(m)
    if isinstance(loss, (Logistic, Hinge)):
        y = np.where(f > 0, 1.0, -1.0)
    elif isinstance(loss, Poisson):
        y = rng.poisson(np.exp(np.clip(f, -3, 2))).astype(float)
    W = TTTensor.random(batch.shape, rank, seed + 1, dtype)
    objective = Objective(loss or Squared(), y, rng.uniform(0.5, 2, m), alpha)
    return W * (0.3 / W.norm()), batch, objective


def classes(m=103, seed=0):
    """Three classes: each sample is three rows of the batch."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((m, 4))
    y = np.eye(3)[np.argmax(x[:, :3] * x[:, 1:], axis=1)]
    batch = with_outputs(RankOneBatch.from_columns(x), y)
    objective = Objective(Softmax(), y, rng.uniform(0.5, 2, m), 1e-4, rng.standard_normal(y.shape))
    return 0.1 * TTTensor.random(batch.shape, 4, seed), batch, objective


def start(solver, W, batch, objective, seed=0):
    return solver.start(W, batch, objective, np.random.default_rng(seed))


def value_at(W, batch, objective):
    return objective.value(W.contract(batch), W.norm() ** 2)
