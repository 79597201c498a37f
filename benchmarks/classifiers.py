"""Classifiers that are compared, each in its best form for categories, and the rows they get.

A classifier here is a function of the training columns and a seed, so that it can find out which
of them are categories. Settings are defaults, except where a comment says why not.
"""

import contextlib
import io
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

from ttexm import ExMClassifier, datasets

N_TEST = 20_000
HIGH_CARDINALITY = 255  # levels that HistGradientBoosting takes at most
MOVIELENS_SEEDS = (42, 0, 1)  # the first is the paper's


# -- classifiers -------------------------------------------------------------------------------


def one_hot(X):
    """Columns for a linear model: categories as indicators, numbers as they are."""
    categories = X.select_dtypes("category").columns.tolist()
    encoder = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer([("one_hot", encoder, categories)], remainder="passthrough")


def as_numbers(X, levels, encoder):
    """Columns for trees: categories of more than so many levels as numbers."""
    large = [name for name in X.select_dtypes("category") if X[name].nunique() > levels]
    return ColumnTransformer(
        [("numbers", encoder, large)], remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")


def logistic_regression(X, seed):
    return make_pipeline(one_hot(X), LogisticRegression(max_iter=2000))


def hist_gradient_boosting(X, seed):
    trees = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    # Targets' means, cross-fitted, are far better than codes: AUC .77 against .74 on MovieLens.
    means = TargetEncoder(cv=StratifiedKFold(shuffle=True, random_state=seed))
    return make_pipeline(as_numbers(X, HIGH_CARDINALITY, means), trees)


def random_forest(X, seed):
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    trees = RandomForestClassifier(n_jobs=-1, random_state=seed)
    return make_pipeline(as_numbers(X, 0, codes), trees)


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


def exm(X, seed):
    return ExMClassifier(random_state=seed)


def lightgbm(X, seed, n_threads=-1):
    from lightgbm import LGBMClassifier

    # It takes the categories from the frame.
    return LGBMClassifier(random_state=seed, n_jobs=n_threads, verbose=-1)


def catboost(X, seed, n_threads=-1):
    from catboost import CatBoostClassifier

    categories = X.select_dtypes("category").columns.tolist()
    return CatBoostClassifier(
        cat_features=categories,
        random_seed=seed,
        thread_count=n_threads,
        verbose=False,
        allow_writing_files=False,
    )


def explainable_boosting(X, seed, n_threads=-1):
    from interpret.glassbox import ExplainableBoostingClassifier

    # By default it leaves one core of the machine alone, which no other does.
    return ExplainableBoostingClassifier(random_state=seed, n_jobs=n_threads)


# -- rows --------------------------------------------------------------------------------------


def find_data():
    """Let TTEXM_DATA name ../shared/data, if there is such a folder and it names none.

    Returns the folder, or None.
    """
    shared = Path(__file__).parents[2] / "shared" / "data"
    if shared.exists():
        os.environ.setdefault("TTEXM_DATA", str(shared))
    return os.environ.get("TTEXM_DATA")


def measure(make, seed, rows):
    """Test AUC, log-loss, seconds and CPU seconds of a fit; rows X, y, X_test, y_test."""
    X, y, X_test, y_test = rows
    model = make(X, seed)
    start, cpu_start = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    p = model.predict_proba(X_test)[:, 1]
    return roc_auc_score(y_test, p), log_loss(y_test, p), seconds, cpu_seconds


def stratified(X, y, seeds):
    """Pairs (seed, rows) with a fifth of the rows for testing, as in the paper."""
    splits = []
    for seed in seeds:
        split = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed).split(X, y)
        train, test = next(split)
        splits.append((seed, (X.iloc[train], y[train], X.iloc[test], y[test])))
    return splits


def car_splits(seeds):
    X, y = datasets.load_car(return_X_y=True, as_frame=True)
    return stratified(X, np.asarray(y) > 0, seeds)


def hiv_splits(seeds):
    X, y = datasets.load_hiv1_protease(return_X_y=True, as_frame=True)
    return stratified(X, np.asarray(y), seeds)


def movielens_splits(seeds, variant="rounded"):
    X, y = datasets.load_movielens100k(variant, return_X_y=True, as_frame=True)
    y, splits = np.asarray(y), []
    for seed in seeds:
        train, test = datasets.movielens_split(y, seed)
        splits.append((seed, (X.iloc[train], y[train], X.iloc[test], y[test])))
    return splits


def interactions(seed, **settings):
    """Training rows, test rows, the real-valued target and the labels of each."""
    n_train = settings.pop("n_train", 100_000)
    made = datasets.make_interactions(n_train + N_TEST, random_state=seed, **settings)
    signs = np.where(made.target > 0, 1, -1)  # what is tested against, also where labels flip
    train, test = slice(0, n_train), slice(n_train, None)
    return made.data[train], made.target[train], made.labels[train], made.data[test], signs[test]


def interaction_splits(seeds, **settings):
    """Pairs (seed, rows) of the synthetic set, with the sign of y to be found."""
    splits = []
    for seed in seeds:
        X, _, labels, X_test, signs = interactions(seed, **settings)
        names = [f"x{k}" for k in range(X.shape[1])]
        X, X_test = pd.DataFrame(X, columns=names), pd.DataFrame(X_test, columns=names)
        splits.append((seed, (X, labels, X_test, signs)))
    return splits


def warm_up():
    """Have all kernels compiled, or loaded, before anything is timed."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.random(6000), "color": pd.Categorical(rng.integers(0, 3, 6000))})
    for rows in (500, 6000):  # float64, float32
        ExMClassifier(random_state=0).fit(X[:rows], rng.random(rows) > 0.5)
    for solver in ("riemannian", "riemannian_cg", "cores"):
        model = ExMClassifier(4, alpha=1e-3, order_scale=1.0, solver=solver, max_iter=2)
        model.fit(X[:500], rng.random(500) > 0.5)
