"""The estimators are scikit-learn's own kind."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ttexm import ExMClassifier, ExMRegressor
from ttexm.features import Polynomial

RNG = np.random.default_rng(0)
X = RNG.standard_normal((160, 4))
Y = X[:, 0] * X[:, 2] + X[:, 1]
LABELS = np.where(Y > 0, "high", "low")
QUICK = {"rank": 2, "alpha": 1e-2, "order_scale": 1.0, "tol": 1e-2, "random_state": 0}


@parametrize_with_checks([ExMClassifier(random_state=0), ExMRegressor(random_state=0)])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


def test_a_clone_has_the_parameters_and_nothing_else():
    model = ExMClassifier(features={0: Polynomial(2)}, **QUICK).fit(X, LABELS)
    again = clone(model)
    assert again.get_params()["rank"] == 2
    assert not hasattr(again, "weights_")
    assert_array_equal(again.fit(X, LABELS).predict_proba(X), model.predict_proba(X))


def test_pipelines_and_columns():
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), [0, 1]), ("other", MinMaxScaler(), [2, 3])]
    )
    model = make_pipeline(columns, ExMRegressor(**QUICK)).fit(X, Y)
    assert model.score(X, Y) > 0.9
    columns.set_output(transform="pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(columns, ExMRegressor(**QUICK)).fit(frame, Y)
    assert model.score(frame, Y) > 0.9
    assert list(model[-1].feature_names_in_) == ["scaled__a", "scaled__b", "other__c", "other__d"]


def test_searches_and_scores():
    search = GridSearchCV(ExMRegressor(**QUICK), {"rank": [1, 3], "alpha": [1e-2, 1.0]}, cv=2)
    search.fit(X, Y)
    assert search.best_params_ == {"rank": 3, "alpha": 1e-2}
    scores = cross_val_score(ExMClassifier(**QUICK), X, LABELS, cv=3, scoring="roc_auc")
    assert scores.min() > 0.9


def test_calibration():
    model = CalibratedClassifierCV(ExMClassifier(**QUICK), cv=2).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.9
    # The hinge has no probabilities of its own.
    hinge = ExMClassifier(loss="squared_hinge", **QUICK)
    assert not hasattr(hinge, "predict_proba")
    assert CalibratedClassifierCV(hinge, cv=2).fit(X, LABELS).predict_proba(X).shape == (160, 2)


def test_models_can_be_stored(tmp_path):
    model = ExMClassifier(**QUICK).fit(X, LABELS)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert again.weights_.ranks == model.weights_.ranks
    with joblib.parallel_config("loky", n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(model.predict)(part) for part in (X[:80], X[80:]))
    assert_array_equal(np.concatenate(found), model.predict(X))


def read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray,
        read_only,
        lambda A: np.repeat(A, 2, axis=1)[:, ::2],
        pd.DataFrame,
        lambda A: pl.DataFrame(A, schema=["a", "b", "c", "d"]),
    ],
    ids=["Fortran", "read-only", "view", "pandas", "polars"],
)
def test_the_form_of_a_table_does_not_matter(form):
    expected = ExMRegressor(**QUICK).fit(X, Y).predict(X)
    assert_array_equal(ExMRegressor(**QUICK).fit(form(X), Y).predict(form(X)), expected)


def test_single_precision_and_integers():
    A = np.round(10 * X)
    expected = ExMRegressor(**QUICK).fit(A, Y).predict(A)
    for dtype in (np.float32, np.int64, np.int8):
        model = ExMRegressor(**QUICK).fit(A.astype(dtype), Y)
        assert_allclose(model.predict(A.astype(dtype)), expected, rtol=1e-5, atol=1e-5)
