"""Fitted models whose predictions were written down once: no restructuring may change them.

``python tests/reference_models.py`` writes ``reference_predictions.json`` anew. Do that only in a
commit that is meant to change results, and say there which ones and why.
"""

import json
import warnings
from pathlib import Path

import numba
import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from ttexm import ExMClassifier, ExMRegressor
from ttexm.features import Basis, Legendre, Polynomial, Spline, Trigonometric

FILE = Path(__file__).with_name("reference_predictions.json")
N_TRAIN, N_TEST = 400, 12


def table(seed=0, m=N_TRAIN + N_TEST):
    """Numbers and categories, with missing values, of units far from 1."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "dose": 40 + 3 * rng.standard_normal(m),
            "hour": rng.uniform(0, 24, m),
            "drug": pd.Categorical(rng.choice(["A", "B", "C"], m)),
            "batch": rng.choice(["p", "q", "r", "s"], m).astype(object),
            "flag": rng.integers(0, 2, m),
        }
    )
    signal = (X["dose"] - 40) / 3 * np.where(X["drug"] == "B", -2, 1) + np.sin(X["hour"] / 4)
    signal = (signal + X["flag"] * (X["batch"] == "q") + 0.3 * rng.standard_normal(m)).to_numpy()
    X.loc[rng.choice(m, m // 20, replace=False), "dose"] = np.nan
    X.loc[rng.choice(m, m // 20, replace=False), "batch"] = None
    return X, signal


def numbers(m=N_TRAIN + N_TEST, seed=1, d=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    return X, X[:, 0] * X[:, 1] + X[:, 2] - 0.5 * X[:, 0] * X[:, 3] + 0.2 * rng.standard_normal(m)


def signs(m, d, seed=2):
    X = np.random.default_rng(seed).choice([-1.0, 1.0], (m, d))
    return X, X[:, :4].prod(axis=1) + X[:, 2:5].prod(axis=1)


def fixed(**more):
    """Settings that leave nothing to a search."""
    return {"rank": 3, "alpha": 1e-3, "order_scale": 0.5, "random_state": 0, **more}


def classes(signal):
    return np.array(["low", "middle", "high"])[np.digitize(signal, [-0.5, 0.5])]


def models():
    """Yield (name, estimator, rows, targets); the last N_TEST rows are predicted."""
    X, signal = table()
    x, y = numbers()
    yield "regressor, default", ExMRegressor(random_state=0), X, 1000 + 50 * signal
    yield "classifier, default", ExMClassifier(random_state=0), X, signal > 0
    # (Not random_state=0: there two candidates are level, and rounding decides.)
    yield "classes, default", ExMClassifier(random_state=1), x, classes(y)
    wide, product = signs(2000 + N_TEST, 9)
    yield "products, default", ExMClassifier(random_state=0), wide, product > 0
    many, target = numbers(6000 + N_TEST, seed=3)
    yield "many rows, given rank", ExMRegressor(rank=3, random_state=0), many, target
    targets = np.stack([y, 3 - x[:, 3] * x[:, 4]], axis=1)
    yield "two targets", ExMRegressor(**fixed(max_iter=10, tol=0.01)), x, targets
    for solver, max_iter in (
        ("sweeps", 5), ("two_site", 3), ("boosting", 2), ("riemannian", 5), ("riemannian_svrg", 3),
        ("riemannian_cg", 5), ("cores_adam", 5),
    ):  # fmt: skip
        model = ExMRegressor(**fixed(solver=solver, max_iter=max_iter, tol=0.5))
        yield f"solver {solver}", model, x, y
    maps = {"dose": Spline(), "hour": Trigonometric(2, period=24.0), "flag": Polynomial(2)}
    yield "maps by column", ExMRegressor(**fixed(features=maps, max_iter=5, tol=0.01)), X, signal
    given = {0: Legendre(3), 1: Basis([np.sin, np.cos])}
    yield "bases", ExMClassifier(**fixed(features=given, max_iter=5, tol=0.01)), x, y > 0
    yield "poisson", ExMRegressor(**fixed(loss="poisson", tol=0.01)), x, np.floor(np.exp(y / 2))
    one = ExMClassifier(**fixed(loss="logistic", class_weight="balanced", tol=0.01))
    yield "one class against the rest", one, x, classes(y)


def predictions(model, X):
    """Numbers that tell all of a model: raw predictions of a classifier, targets of a regressor."""
    return getattr(model, "decision_function", model.predict)(X)


def fit_all():
    """Predictions of all models, by name."""
    found = {}
    for name, model, X, y in models():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[:-N_TEST], y[:-N_TEST])
        found[name] = predictions(model, X[-N_TEST:]).tolist()
    X, y = numbers()
    weights = np.random.default_rng(4).integers(1, 4, N_TRAIN)
    model = ExMRegressor(**fixed(warm_start=True, max_iter=3, tol=0.01))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(2):
            model.fit(X[:N_TRAIN], y[:N_TRAIN], sample_weight=weights)
        found["warm start, weights"] = predictions(model, X[N_TRAIN:]).tolist()
        model = ExMClassifier(**fixed())
        for rows in np.split(np.arange(N_TRAIN), 4):
            model.partial_fit(X[rows], y[rows] > 0)
    found["partial fit"] = predictions(model, X[N_TRAIN:]).tolist()
    return found


if __name__ == "__main__":
    written = {"numba": numba.__version__, "predictions": fit_all()}
    FILE.write_text(json.dumps(written, indent=1) + "\n")
