"""Tables with their targets, for `benchmarks.tables`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets as sk_datasets
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import train_test_split

from ttexm import datasets

from . import classifiers

FRIEDMAN_ROWS = 4000


@dataclass(frozen=True, eq=False)
class Problem:
    """A table with its target, and what is measured on it.

    Parameters
    ----------
    X : DataFrame
    y : array
    is_regression : bool
    divide : callable, optional
        Returns the rows to train on and those to test on, for a seed.
    n_splits : int, optional
        How many ways there are to do so.
    """

    X: pd.DataFrame
    y: np.ndarray
    is_regression: bool
    divide: Callable | None = None
    n_splits: int | None = None

    def split(self, seed):
        """Rows to train on and to test on: X, y, X_test, y_test."""
        if self.divide is not None:
            train, test = self.divide(seed)
        else:
            classes = None if self.is_regression else self.y
            rows = np.arange(len(self.y))
            train, test = train_test_split(
                rows, test_size=0.25, random_state=seed, stratify=classes
            )
        return self.X.iloc[train], self.y[train], self.X.iloc[test], self.y[test]

    def cut(self, n_rows, seed):
        """Return so many rows, by class where there are classes."""
        classes = None if self.is_regression else self.y
        rows, _ = train_test_split(
            np.arange(len(self.y)), train_size=n_rows, random_state=seed, stratify=classes
        )
        return Problem(self.X.iloc[rows], self.y[rows], self.is_regression)

    def score(self, model, X, y):
        """R2, or the log-loss."""
        if self.is_regression:
            return r2_score(y, model.predict(X))
        return log_loss(y, model.predict_proba(X), labels=np.unique(self.y))


def stored(name):
    """A table of ``tables/``."""
    folder = Path(classifiers.find_data()) / "tables"
    about = json.loads((folder / "tables.json").read_text())[name]
    text = dict.fromkeys(about["categorical"], str)
    frame = pd.read_csv(folder / f"{name}.csv", dtype=text, keep_default_na=True)
    for column in about["categorical"]:
        frame[column] = frame[column].astype("category")
    y = frame.pop("target").to_numpy()
    is_regression = about["task"] == "regression"
    if about["split"] is None:
        return Problem(frame, y, is_regression)
    return with_test_rows(frame, y, is_regression, frame.pop(about["split"]).to_numpy() > 0)


def with_test_rows(X, y, is_regression, is_test):
    """A problem that has test rows of its own."""
    rows = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    return Problem(X, y, is_regression, lambda seed: rows, 1)


def friedman(number):
    make = getattr(sk_datasets, f"make_friedman{number}")
    noise = {1: 1.0, 2: 100.0, 3: 0.1}[number]
    X, y = make(FRIEDMAN_ROWS, noise=noise, random_state=0)
    return Problem(named(X), y, True)


def of_scikit_learn(load, is_regression=False):
    X, y = load(return_X_y=True)
    return Problem(named(X), y, is_regression)


def named(X):
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])


def of_ttexm(load):
    X, y = load(return_X_y=True, as_frame=True)
    return Problem(X, np.asarray(y) > 0, False)


def movielens():
    X, y = datasets.load_movielens100k(return_X_y=True, as_frame=True)
    y = np.asarray(y)
    return Problem(X, y, False, lambda seed: datasets.movielens_split(y, seed))


def synthetic():
    """The paper's 30 columns of -1 and 1, and the sign of a sum of 20 products of six."""
    X, _, labels, X_test, signs = classifiers.interactions(100, n_train=30_000)
    is_test = np.arange(len(X) + len(X_test)) >= len(X)
    X, y = named(np.vstack([X, X_test])), np.append(labels, signs)
    return with_test_rows(X, y, False, is_test)


PROBLEMS = {
    "concrete": partial(stored, "concrete"),
    "wine_white": partial(stored, "wine_white"),
    "california": partial(stored, "california"),
    "friedman1": partial(friedman, 1),
    "friedman2": partial(friedman, 2),
    "friedman3": partial(friedman, 3),
    "diabetes": partial(of_scikit_learn, sk_datasets.load_diabetes, True),
    "phoneme": partial(stored, "phoneme"),
    "adult": partial(stored, "adult"),
    "german": partial(stored, "german"),
    "kr_vs_kp": partial(stored, "kr_vs_kp"),
    "car": partial(of_ttexm, datasets.load_car),
    "hiv": partial(of_ttexm, datasets.load_hiv1_protease),
    "breast_cancer": partial(of_scikit_learn, sk_datasets.load_breast_cancer),
    "digits": partial(of_scikit_learn, sk_datasets.load_digits),
    "movielens": movielens,
    "synthetic": synthetic,
}
SMALL = (
    "concrete", "wine_white", "california", "friedman1", "friedman2", "friedman3", "phoneme",
    "adult", "german", "kr_vs_kp", "car", "hiv",
)  # fmt: skip
SMALL_ALREADY = ("diabetes", "breast_cancer")  # 442 and 569 rows
