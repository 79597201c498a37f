"""Hostile tables: a finite answer, or an exception that names the culprit; never a silent NaN."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from strategies import hostile_arrays, seeds

from ttexm import ExMClassifier, ExMRegressor
from ttexm.features import (
    Auto,
    Basis,
    Categorical,
    Legendre,
    PerColumn,
    Polynomial,
    Spline,
    Trigonometric,
)

# All that bad input may raise: a wrong value, or a wrong type. (RuntimeError is for devices.)
ERRORS = (ValueError, TypeError)
# One of these is in each message: an argument, or "array" and "data" in those of scikit-learn.
CULPRITS = (
    *("x0", "x1", "x2", "x3", "x4", "x5", "Column", "column", "X ", "X:", "row", "ample"),
    *("y ", "y:", "y[", "label", "class", "target", "array", "data", "loss", "early_stopping"),
)
QUICK = {"rank": 2, "alpha": 1e-2, "order_scale": 0.5, "tol": 1e-1, "max_iter": 5}
FORMS = [
    lambda x: x,
    pd.DataFrame,
    lambda x: pd.DataFrame(x).astype("category"),
    lambda x: pd.DataFrame(x).convert_dtypes(),
    lambda x: pl.DataFrame(x),
    lambda x: x.tolist(),
]


def tables():
    return st.tuples(hostile_arrays(dims=(2,)), st.sampled_from(range(len(FORMS))))


def formed(table):
    """The table in one of its forms; pandas and polars may refuse to make it."""
    x, form = table
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return FORMS[form](x)
    except Exception:
        assume(False)


def answer(call):
    """What a call gives; None if it raises as it may."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", message="Column .* holds no level")
            warnings.filterwarnings("ignore", message="X has feature names")
            warnings.filterwarnings("ignore", message="A column-vector y was passed")
            warnings.filterwarnings("ignore", message="The number of unique classes")
            return call()
    except ERRORS as error:
        message = str(error)
        assert any(culprit in message for culprit in CULPRITS), message
        return None


def check_finite(predictions, m):
    if predictions is not None:
        assert len(predictions) == m
        if predictions.dtype.kind == "f":
            assert np.isfinite(predictions).all()


HOSTILE = settings(max_examples=150, suppress_health_check=list(HealthCheck))


@HOSTILE
@given(tables(), seeds, st.booleans())
def test_a_hostile_table_to_train_on(table, seed, is_class):
    X = formed(table)
    m = len(X) if hasattr(X, "__len__") else 1
    rng = np.random.default_rng(seed)
    if is_class:
        y = rng.integers(0, 2, m)
        y[:2] = [0, 1][: len(y[:2])]
        model = ExMClassifier(**QUICK, random_state=0)
        found = answer(lambda: model.fit(X, y).predict_proba(X))
    else:
        found = answer(
            lambda: ExMRegressor(**QUICK, random_state=0).fit(X, rng.random(m)).predict(X)
        )
    check_finite(found, m)


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit_some()


def fit_some():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    y = x[:, 0] * x[:, 1]
    strings = pd.DataFrame(np.where(x > 0, "a", "b"), columns=[0, 1, 2]).astype(str)
    return [
        ExMRegressor(**QUICK, random_state=0).fit(x, y),
        ExMClassifier(**QUICK, random_state=0).fit(x, y > 0),
        ExMClassifier(**QUICK, random_state=0).fit(x, np.digitize(y, [-0.3, 0.3])),
        ExMRegressor(**QUICK, random_state=0).fit(strings.to_numpy(), y),
    ]


@HOSTILE
@given(hostile_arrays(), st.integers(0, 3), st.sampled_from(range(len(FORMS))))
def test_a_hostile_table_to_predict(fitted, x, number, form):
    X = formed((x, form))
    found = answer(lambda: fitted[number].predict(X))
    if found is not None:
        check_finite(found, len(X))


@HOSTILE
@given(hostile_arrays(), seeds, st.booleans(), st.booleans())
def test_hostile_targets(y, seed, is_class, as_series):
    X = np.random.default_rng(seed).standard_normal((len(y) if y.ndim else 3, 2))
    if as_series and y.ndim == 1 and not isinstance(y, np.ma.MaskedArray):
        y = formed((y, 0)) if y.dtype == np.longdouble else pd.Series(y)
    make = ExMClassifier if is_class else ExMRegressor
    found = answer(lambda: make(**QUICK, random_state=0).fit(X, y).predict(X))
    check_finite(found, len(X))


@HOSTILE
@given(hostile_arrays(dims=(1,)), seeds)
def test_hostile_weights(weights, seed):
    rng = np.random.default_rng(seed)
    m = len(weights) if weights.ndim else 3
    X, y = rng.standard_normal((m, 2)), rng.standard_normal(m)
    model = ExMRegressor(**QUICK, random_state=0)
    found = answer(lambda: model.fit(X, y, sample_weight=weights).predict(X))
    check_finite(found, m)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(tables(), seeds)
def test_a_hostile_table_with_all_settings_by_validation(table, seed):
    X = formed(table)
    m = len(X) if hasattr(X, "__len__") else 1
    y = np.random.default_rng(seed).standard_normal(m)
    found = answer(lambda: ExMRegressor(random_state=0).fit(X, y).predict(X))
    check_finite(found, m)


MAPS = [
    Auto(),
    Auto(degree=3),
    Polynomial(3),
    Legendre(),
    Trigonometric(),
    Trigonometric(period=1.0),
    Spline(),
    Categorical(),
    Basis([np.tanh]),
    PerColumn({0: Spline(degree=0)}),
]


@HOSTILE
@given(tables(), st.sampled_from(range(len(MAPS))))
def test_a_hostile_table_to_a_feature_map(table, number):
    X = formed(table)
    batch = answer(lambda: MAPS[number].fit_transform(X))
    if batch is not None:
        for k in range(batch.ndim):
            assert np.isfinite(batch.vectors(k)).all()
