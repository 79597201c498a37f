"""Accuracy and time of the default estimators, and of solvers, on the paper's data sets.

``python -m benchmarks.accuracy``; data from the folder that TTEXM_DATA names, by default
../shared/data if there is one, else downloaded. ``--only car hiv movielens synthetic harder
solvers`` for a part, ``--seeds 2`` for fewer seeds.
"""

import argparse
import contextlib
import io
import json
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

import ttexm
from ttexm import ExMClassifier, ExMRegressor, RankOneBatch, TTTensor, datasets, initialize
from ttexm.features import Categorical
from ttexm.losses import Logistic, Squared
from ttexm.objective import Objective
from ttexm.solvers.boosting import Boosting
from ttexm.solvers.cores import Cores
from ttexm.solvers.riemannian import Riemannian
from ttexm.solvers.sweeps import Sweep, Sweeps
from ttexm.trainer import Trainer

from . import rivals
from .timing import Table, describe_machine

RESULTS = Path(__file__).parent / "results" / "accuracy.json"
N_TEST = 20_000
HIGH_CARDINALITY = 255  # levels that HistGradientBoosting takes at most


# -- rivals ------------------------------------------------------------------------------------


def one_hot(X):
    """Columns for a linear model: categories as indicators, numbers as they are."""
    categories = X.select_dtypes("category").columns.tolist()
    encoder = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer([("one_hot", encoder, categories)], remainder="passthrough")


def ordinal(X, levels):
    """Columns for trees: categories of more than so many levels as numbers."""
    large = [name for name in X.select_dtypes("category") if X[name].nunique() > levels]
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return ColumnTransformer(
        [("codes", encoder, large)], remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")


def logistic_regression(X, seed):
    return make_pipeline(one_hot(X), LogisticRegression(max_iter=2000))


def hist_gradient_boosting(X, seed):
    trees = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    return make_pipeline(ordinal(X, HIGH_CARDINALITY), trees)


def random_forest(X, seed):
    return make_pipeline(ordinal(X, 0), RandomForestClassifier(n_jobs=-1, random_state=seed))


class MyFM:
    """myFM, a Bayesian factorization machine, on one-hot columns; settings of its examples."""

    def __init__(self, X, seed):
        self.encoder, self.seed = OneHotEncoder(handle_unknown="ignore"), seed

    def fit(self, X, y):
        import myfm

        self.model = myfm.MyFMClassifier(rank=10, random_seed=self.seed)
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            self.model.fit(self.encoder.fit_transform(X), y, n_iter=200)
        return self

    def predict_proba(self, X):
        p = self.model.predict_proba(self.encoder.transform(X))
        return np.stack([1 - p, p], axis=1)


RIVALS = {
    "LogisticRegression": logistic_regression,
    "HistGradientBoosting": hist_gradient_boosting,
    "RandomForest": random_forest,
}


def exm(X, seed):
    return ExMClassifier(random_state=seed)


# -- data sets ---------------------------------------------------------------------------------


def compare(title, splits, models):
    """Mean over the splits of test AUC and log-loss, and time, of each model.

    `splits` are pairs (seed, rows); rows a tuple X_train, y_train, X_test, y_test.
    """
    table = Table(title, ["", "AUC", "log-loss", "fit, s", "AUC by split"], [24, 9, 10, 9, 60])
    for name, make in models.items():
        found = []
        for seed, (X, y, X_test, y_test) in splits:
            model = make(X, seed)
            start = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - start
            p = model.predict_proba(X_test)[:, 1]
            found.append((roc_auc_score(y_test, p), log_loss(y_test, p), seconds))
        auc, loss, seconds = np.mean(found, axis=0)
        by_split = " ".join(f"{row[0]:.4f}" for row in found)
        table.add(
            name, f"{auc:.4f}", f"{loss:.4f}", f"{seconds:.1f}", by_split,
            model=name, auc=auc, log_loss=loss, seconds=seconds, splits=found,
        )  # fmt: skip
    return table


def stratified(X, y, seeds):
    """A fifth of the rows for testing, as in the paper, for each seed."""
    for seed in seeds:
        split = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed).split(X, y)
        train, test = next(split)
        yield seed, (X.iloc[train], y[train], X.iloc[test], y[test])


def car(n_seeds):
    X, y = datasets.load_car(return_X_y=True, as_frame=True)
    splits = list(stratified(X, np.asarray(y) > 0, range(n_seeds)))
    return compare(f"Car, seeds 0 to {n_seeds - 1}", splits, {"ExMClassifier": exm} | RIVALS)


def hiv(n_seeds):
    X, y = datasets.load_hiv1_protease(return_X_y=True, as_frame=True)
    splits = list(stratified(X, np.asarray(y), range(n_seeds)))
    title = f"HIV-1 protease, seeds 0 to {n_seeds - 1}"
    return compare(title, splits, {"ExMClassifier": exm} | RIVALS)


def movielens(n_seeds, failed):
    seeds, tables = (42, 0, 1)[:n_seeds], []
    models = {"ExMClassifier": exm} | RIVALS
    if "myfm" in failed:
        print(f"myFM could not be installed: {failed['myfm']}")
    else:
        models["myFM"] = MyFM
    for variant in ("rounded", "unrounded"):
        X, y = datasets.load_movielens100k(variant, return_X_y=True, as_frame=True)
        y, splits = np.asarray(y), []
        seeds = seeds if variant == "rounded" else seeds[:1]
        for seed in seeds:
            train, test = datasets.movielens_split(y, seed)
            splits.append((seed, (X.iloc[train], y[train], X.iloc[test], y[test])))
        title = f"MovieLens-100K, {variant} ages and years, seeds {seeds} (42: the paper's)"
        tables.append(compare(title, splits, models))
    return tables


# -- the paper's synthetic data ----------------------------------------------------------------


def interactions(seed, **settings):
    """Training rows, test rows, the real-valued target and the labels of each."""
    n_train = settings.pop("n_train", 100_000)
    made = datasets.make_interactions(n_train + N_TEST, random_state=seed, **settings)
    signs = np.where(made.target > 0, 1, -1)  # what is tested against, also where labels flip
    train, test = slice(0, n_train), slice(n_train, None)
    return made.data[train], made.target[train], made.labels[train], made.data[test], signs[test]


def fit_synthetic(table, name, seed, regression, make=None, **settings):
    X, y, labels, X_test, signs = interactions(seed, **settings)
    make = make or (ExMRegressor if regression else ExMClassifier)
    start = time.perf_counter()
    model = make(random_state=seed).fit(X, y if regression else labels)
    seconds = time.perf_counter() - start
    f = model.predict(X_test) if regression else model.decision_function(X_test)
    auc = roc_auc_score(signs, f)
    chosen = f"rank {model.rank_}{', screened' if model.is_screened_ else ''}"
    table.add(
        name, seed, f"{auc:.4f}", f"{seconds:.0f}", chosen,
        name=name, seed=seed, auc=auc, seconds=seconds, screened=model.is_screened_,
    )  # fmt: skip


COLUMNS = ["", "seed", "AUC", "fit, s", "chosen"], [52, 6, 9, 9, 24]


def synthetic(n_seeds):
    table = Table("Synthetic: 100 000 rows, 30 features, 20 interactions of order 6", *COLUMNS)
    for seed in range(100, 100 + n_seeds):
        fit_synthetic(table, "ExMRegressor on y", seed, True)
        fit_synthetic(table, "ExMClassifier on the sign of y", seed, False)
    X, _, labels, X_test, signs = interactions(100)
    for name, make in RIVALS.items():
        model = make(pd.DataFrame(X), 0)
        start = time.perf_counter()
        model.fit(pd.DataFrame(X), labels)
        seconds = time.perf_counter() - start
        auc = roc_auc_score(signs, model.predict_proba(pd.DataFrame(X_test))[:, 1])
        name = f"{name} on the sign of y"
        table.add(
            name, 100, f"{auc:.4f}", f"{seconds:.0f}", "", name=name, auc=auc, seconds=seconds
        )
    return table


def harder():
    table = Table("Synthetic, harder", *COLUMNS)
    for name, settings in {
        "60 features": {"n_features": 60},
        "100 features": {"n_features": 100},
        "interactions of order 8": {"order": 8},
        "10 % of the labels flipped": {"flip": 0.1},
    }.items():
        for regression in (True, False):
            if regression and "flip" in settings:
                continue
            target = "y" if regression else "the sign of y"
            fit_synthetic(table, f"{name}, on {target}", 100, regression, **settings)
    return table


# Loss, alpha, iterations and solver of each stage; found on the seeds 0 and 1.
STAGES = {
    "y": [(Squared(), 1e-3, 5, Boosting(rows=50_000, eps=0.03))],
    "the sign of y": [
        (Squared(), 1e-2, 3, Boosting(boost_rank=12)),
        (Logistic(), 2e-4, 4, Boosting(boost_rank=12)),
    ],
}


def without_screening(n_seeds):
    """Residual boosting by two-site sweeps, settings given: nothing enumerates products."""
    table = Table("Synthetic, without screening: residual boosting, s = 0.7", *COLUMNS)
    for seed in range(100, 100 + min(2, n_seeds)):
        X, y, labels, X_test, signs = interactions(seed)
        batch = RankOneBatch.from_columns(X, np.float32).scaled(0.7)
        for target, stages in STAGES.items():
            W, start = TTTensor.zeros(batch.shape), time.perf_counter()
            for loss, alpha, max_iter, solver in stages:
                wanted = (y if target == "y" else labels).astype(np.float64)
                objective = Objective(loss, wanted, np.ones(len(y)), alpha)
                trainer = Trainer(solver, max_iter, tol=None, random_state=seed)
                W = trainer.run(W, batch, objective)
            seconds = time.perf_counter() - start
            test = RankOneBatch.from_columns(X_test).scaled(0.7)
            auc = roc_auc_score(signs, W.contract(test))
            table.add(
                f"boosting on {target}", seed, f"{auc:.4f}", f"{seconds:.0f}", f"rank {W.rank}",
                name=target, seed=seed, auc=auc, seconds=seconds,
            )  # fmt: skip
    return table


# -- solvers -----------------------------------------------------------------------------------


def steps(run):
    """The parts of a run after which its value can be looked at: cores, or whole iterations."""
    while True:
        if isinstance(run, Sweep):
            yield from run.walk()
        else:
            run.iterate()
            yield


def time_to(target, solver, W, batch, objective, most_seconds):
    """Seconds until the objective is at most `target`, what is reached, and in how many steps."""
    start = time.perf_counter()
    run = solver.start(W, batch, objective, np.random.default_rng(0))
    for n_steps, _ in enumerate(steps(run), 1):
        seconds = time.perf_counter() - start
        if run.value <= target or seconds > most_seconds:
            return (seconds if run.value <= target else np.inf), run.value, n_steps


def best_time_to(*arguments):
    """The best of five, where that does not take long."""
    found = [time_to(*arguments)]
    while found[0][0] < 2 and len(found) < 5:
        found.append(time_to(*arguments))
    return min(found)


def starts(batch, objective):
    """The paper's ways to begin, at rank 4."""
    rng = np.random.default_rng(0)
    linear = initialize.linear(batch, replace(objective, alpha=1e-3))
    random = initialize.random_linear(batch, 0.1, rng)
    return {
        "linear": initialize.padded(linear, 4, 0.02, rng),
        "random linear": initialize.padded(random, 4, 0.02, rng),
        "Gaussian": initialize.gaussian(batch.shape, 4, 0.1, rng),
    }


def training_rows():
    """Car and HIV as the paper trains on them: name, columns, labels, target loss, step."""
    hiv, car = datasets.load_hiv1_protease(return_X_y=True), datasets.load_car(return_X_y=True)
    for name, (X, y), target, step in (("Car", car, 1e-6, 40.0), ("HIV", hiv, 1e-4, 800.0)):
        train, _ = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=0).split(X, y))
        yield name, X[train], np.where(y[train] > 0, 1.0, -1.0), target, step


def one_hot_batch(X):
    """A column of 0 and 1 for each level, as the paper has them."""
    return RankOneBatch.from_columns(OneHotEncoder(sparse_output=False).fit_transform(X))


def ordering(most_seconds):
    """The paper's figure: fixed steps, on the manifold and on the cores, from three starts."""
    table = Table(
        "Fixed steps, r = 4, lambda = 0: seconds to training loss 0.001",
        ["", "start", "Riemannian GD", "core GD", "its step"],
        [8, 16, 16, 12, 10],
    )
    for name, X, y, _, step in training_rows():
        batch = one_hot_batch(X)
        objective = Objective(Logistic(), y, np.ones(len(y)), 0.0)
        for start, W in starts(batch, objective).items():
            arguments = W, batch, objective, most_seconds
            ours = best_time_to(1e-3, Riemannian("sgd", step), *arguments)[0]
            # The best of several steps: larger ones overflow.
            cores = min(
                (time_to(1e-3, Cores("sgd", rate), *arguments)[0], rate)
                for rate in (0.01, 0.03, 0.1)
            )
            cells = [
                f"{x:.3f}" if np.isfinite(x) else f"> {most_seconds}" for x in (ours, cores[0])
            ]
            table.add(
                name, start, *cells, cores[1] if np.isfinite(cores[0]) else "-",
                name=name, start=start, riemannian=ours, cores=cores[0],
            )  # fmt: skip
    return table


def solvers(most_seconds):
    tables = [ordering(most_seconds)]
    for name, X, y, target, step in training_rows():
        table = Table(
            f"{name}, r = 4, lambda = 0: time to training loss {target:g}",
            ["", "start", "seconds", "paper's / it", "steps", "loss at end"],
            [42, 16, 12, 14, 10, 14],
        )
        objective = Objective(Logistic(), y, np.ones(len(y)), 0.0)
        batches = {"": one_hot_batch(X), ", a core a column": Categorical().fit_transform(X)}
        paper = f"Riemannian GD, step {step:g} (paper)"
        cases = {
            paper: Riemannian("sgd", step),
            "sweeps": Sweeps(),
            "Riemannian CG, exact line search": Riemannian("cg"),
            "core GD, step by curvature": Cores("sgd"),
            "core Adam": Cores("adam"),
        }
        paper_seconds = {}
        for columns, batch in batches.items():
            for start, W in starts(batch, objective).items():
                for what, solver in cases.items():
                    if columns and what != "sweeps":
                        continue
                    Trainer(solver, max_iter=2, tol=None).run(W, batch, objective)  # warm up
                    found = best_time_to(target, solver, W, batch, objective, most_seconds)
                    seconds, loss, n_steps = found
                    if what == paper:
                        paper_seconds[start] = min(seconds, most_seconds)
                    ratio = paper_seconds[start] / seconds
                    table.add(
                        what + columns, start,
                        f"{seconds:.3f}" if np.isfinite(seconds) else f"> {most_seconds}",
                        f"{ratio:.1f}", n_steps, f"{loss:.2e}",
                        solver=what + columns, start=start, seconds=seconds, loss=loss, ratio=ratio,
                    )  # fmt: skip
        tables.append(table)
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the tables; no file")
    parser.add_argument("--seeds", type=int, default=5, help="splits or data sets, at most")
    parser.add_argument("--seconds", type=int, default=10, help="for a solver, at most")
    arguments = parser.parse_args()
    shared = Path(__file__).parents[2] / "shared" / "data"
    if shared.exists():
        os.environ.setdefault("TTEXM_DATA", str(shared))
    warnings.filterwarnings("ignore")
    failed = rivals.install(["myfm"])
    machine = describe_machine("scikit-learn", "myfm")
    print(
        "ttexm",
        ttexm.__version__,
        *(f"{name} {value}" for name, value in machine.items()),
        sep=" | ",
    )
    warm_up()
    n = arguments.seeds
    benchmarks = {
        "car": lambda: [car(n)],
        "hiv": lambda: [hiv(n)],
        "movielens": lambda: movielens(n, failed),
        "synthetic": lambda: [synthetic(n)],
        "harder": lambda: [harder(), without_screening(n)],
        "solvers": lambda: solvers(arguments.seconds),
    }
    tables = [table for name in arguments.only or benchmarks for table in benchmarks[name]()]
    if arguments.only:
        return
    RESULTS.parent.mkdir(exist_ok=True)
    results = {"machine": machine, "tables": {table.title: table.rows for table in tables}}
    RESULTS.write_text(json.dumps(results, indent=1, default=float))
    print(f"\nwritten to {RESULTS}")


def warm_up():
    """Have all kernels compiled, or loaded, before anything is timed."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.random(6000), "color": pd.Categorical(rng.integers(0, 3, 6000))})
    for rows in (500, 6000):  # float64, float32
        ExMClassifier(random_state=0).fit(X[:rows], rng.random(rows) > 0.5)
    for solver in ("riemannian", "riemannian_cg", "cores"):
        model = ExMClassifier(4, alpha=1e-3, order_scale=1.0, solver=solver, max_iter=2)
        model.fit(X[:500], rng.random(500) > 0.5)


if __name__ == "__main__":
    main()
