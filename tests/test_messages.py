"""Bad input to the estimators: each message names the culprit, what was wanted and what came."""

import datetime
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ttexm import ExMClassifier, ExMRegressor, TTTensor
from ttexm.features import Auto, Polynomial, Smooth

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X[:, 0] * X[:, 1]
LABELS = np.where(Y > 0, "yes", "no")
QUICK = {"rank": 2, "alpha": 1e-2, "order_scale": 0.5, "tol": 1e-1, "random_state": 0}


def regress(X=X, y=Y, weights=None, eval_set=None, **parameters):
    return ExMRegressor(**QUICK | parameters).fit(X, y, weights, eval_set)


def classify(X=X, y=LABELS, weights=None, eval_set=None, **parameters):
    return ExMClassifier(**QUICK | parameters).fit(X, y, weights, eval_set)


def frame(column, dtype=None):
    return pd.DataFrame({"a": X[:, 0], "odd": pd.Series(list(column), dtype=dtype)})


CASES = [
    # tables
    (lambda: regress(pd.Series(X[:, 0])), TypeError,
     "got a pandas Series. Use X.to_frame() for a table of one column"),
    (lambda: regress(X[:, :1]).predict(pd.Series(X[:, 0])), TypeError, "got a pandas Series. Use X.to_frame()"),
    (lambda: classify(pl.Series(X[:, 0])), TypeError, "got a polars Series. Use X.to_frame()"),
    (lambda: regress(frame(pd.period_range("2020", periods=60, freq="D"))), TypeError,
     "Column 'odd' holds dates or times (Period); turn it into numbers"),
    (lambda: regress(frame([pd.Interval(0, 1)] * 60)), TypeError,
     "Column 'odd' holds a value of type Interval in row 0"),
    (lambda: regress(frame([datetime.date(2020, 1, 1)] * 60)), TypeError, "Column 'odd' holds dates or times (date)"),
    (lambda: regress(frame([1j] * 60)), ValueError, "Complex data not supported: column 'odd' must be real."),
    (lambda: regress(frame([[1, 2]] * 60)), TypeError, "Column 'odd' holds a value of type list in row 0, [1, 2]"),
    (lambda: regress(frame([(1, 2), (1, 3)] * 30)), TypeError, "Column 'odd' holds a value of type tuple in row 0"),
    (lambda: regress(frame([10**400] * 60, object)), ValueError,
     "Column 'odd' must hold numbers of at most 1.8e+308, got a larger one in row 0."),
    (lambda: regress({"a": X[:, 0]}), TypeError, "got a dict. Use pandas.DataFrame(X)"),
    (lambda: regress(None), TypeError, "or a pandas, polars or Arrow table, got NoneType."),
    (lambda: regress().predict(X[:, :2]), ValueError, "X has 2 features, but ExMRegressor is expecting 3"),
    (lambda: classify().predict_proba(X[:, :2]), ValueError, "X has 2 features, but ExMClassifier is expecting 3"),
    (lambda: regress().predict(X[0]), ValueError, "X must have two dimensions, rows and columns, got shape (3,)."),
    (lambda: regress(X[:0], Y[:0]), ValueError, "Found array with 0 sample(s)"),
    # levels
    (lambda: classify(np.array(["1", "2", "3"] * 20)[:, None]).predict(np.array([[1], [2]])), TypeError,
     "Column 'x0' was fitted on strings, such as '1', got numbers: 1"),
    # targets
    (lambda: regress(y=LABELS), ValueError, "y must hold real numbers: could not convert string to float"),
    (lambda: regress(y=np.ma.array(Y, mask=np.arange(60) == 7)), ValueError,
     "y must have no masked entries, got one at [7]"),
    (lambda: classify(y=np.ma.array(Y > 0, mask=np.arange(60) == 7)), ValueError,
     "y must have no masked entries, got one at [7]"),
    (lambda: regress(y=np.where(Y > 0, np.nan, Y)), ValueError, "Input y contains NaN."),
    (lambda: regress(loss="poisson", y=-np.abs(Y)), ValueError, "The Poisson loss is for counts of at least 0"),
    (lambda: regress(loss="hinge", y=np.stack([Y, Y], axis=1)), ValueError,
     "loss='hinge' takes 'signs', the targets of ExMClassifier, and does not fit ExMRegressor; use "
     "'squared' or 'poisson', or a Loss whose targets are 'numbers'."),
    (lambda: regress(warm_start=True, y=np.stack([Y, Y], axis=1)).fit(X, Y), ValueError,
     "y must have 2 targets per row, as in the first fit, got shape (60,)."),
    (lambda: regress(loss="poisson", y=Y**2).partial_fit(X, np.stack([Y, Y], axis=1) ** 2), ValueError,
     "y must have 1 targets per row, as in the first fit, got shape (60, 2)."),
    # weights
    (lambda: regress(weights=np.full(60, np.inf)), ValueError, "Input sample_weight contains infinity"),
    (lambda: regress(weights=np.zeros(60)), ValueError, "zero"),  # in scikit-learn's words, or ours
    (lambda: regress(weights="heavy"), ValueError, "sample_weight must hold real numbers: could not convert"),
    (lambda: regress(weights=np.ma.array(np.ones(60), mask=np.arange(60) == 3)), ValueError,
     "sample_weight must have no masked entries, got one at [3]"),
    (lambda: classify(class_weight={"yes": -1, "no": 1}), ValueError,
     "class_weight must be finite and not negative, got -1 for class 'yes'."),
    (lambda: classify(class_weight={"yes": np.nan, "no": 1}), ValueError,
     "class_weight must be finite and not negative, got nan for class 'yes'."),
    (lambda: classify(class_weight={"yes": np.inf, "no": 1}), ValueError, "got inf for class 'yes'."),
    (lambda: classify(class_weight={"yes": 0, "no": 0}), ValueError,
     "class_weight={'yes': 0, 'no': 0} leaves no row with a weight above 0."),
    (lambda: classify(class_weight={"yes": "a", "no": 1}), ValueError,
     "class_weight must be 'balanced', None, or a dict of class to a number"),
    (lambda: classify(class_weight="even"), ValueError, "or a dict of class to a number, got 'even'."),
    # settings
    (lambda: regress(alpha=np.inf), ValueError, "alpha must be 'auto' or at most 1e+100, got inf."),
    (lambda: regress(alpha=np.nan), ValueError, "alpha must be 'auto' or at least 0, got nan."),
    (lambda: regress(order_scale=1e-300), ValueError,
     "order_scale must be 'auto' or between 1e-06 and 1e+06, got 1e-300."),
    (lambda: regress(learning_rate=np.inf), ValueError, "learning_rate must be 'auto' or positive, got inf."),
    (lambda: regress(tol=np.nan), ValueError, "tol must be at least 0, got nan."),
    (lambda: regress(early_stopping="yes"), ValueError, "early_stopping must be True or False, got 'yes'."),
    (lambda: regress(X[:1], Y[:1], early_stopping=True), ValueError, "early_stopping needs rows to hold out"),
    (lambda: regress(init=TTTensor.ones((2, 2)), features=Polynomial()), ValueError,
     "init must be a TTTensor of shape (2, 2, 2), the slots of each column, got shape (2, 2)."),
    (lambda: classify(y=np.digitize(Y, [-0.3, 0.3]), init=TTTensor.ones((2, 2, 2)), features=Polynomial()), ValueError,
     "init must be a TTTensor of shape (2, 2, 2, 3), the slots of each column and the outputs, got shape (2, 2, 2)."),
    # features
    (lambda: regress(features=Smooth(n_knots=1)), ValueError,
     "n_knots of Smooth must be 'auto' or an integer of at least 2, got 1."),
    (lambda: regress(features={0: Smooth(clip=0.5)}), ValueError,
     "clip of Smooth must be at least 0 and less than 0.5, got 0.5."),
    (lambda: classify(features=Polynomial(clip=-0.1)), ValueError,
     "clip of Polynomial must be at least 0 and less than 0.5, got -0.1."),
    (lambda: regress(features=Auto(degree=0)), ValueError,
     "degree of Auto must be an integer of at least 1, got 0."),
    (lambda: regress(init=TTTensor.ones((2, 2, 2)), features=Smooth(n_knots=6)), ValueError,
     "init must be a TTTensor of shape (6, 6, 6), the slots of each column, got shape (2, 2, 2)."),
    # eval_set
    (lambda: regress(eval_set=(X[:0], Y[:0])), ValueError, "eval_set must have at least one row, got none."),
    (lambda: regress(eval_set=(X[:, :2], Y)), ValueError, "X has 2 features, but ExMRegressor is expecting 3"),
    (lambda: regress(eval_set=(X, np.stack([Y, Y], axis=1))), ValueError, "y of eval_set must have 1 targets per row"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), CASES, ids=[case[2][:60] for case in CASES])
def test_the_message(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_an_eval_set_is_checked_before_the_search(monkeypatch):
    def search(*args):
        raise AssertionError("the search for settings was started")

    monkeypatch.setattr("ttexm.learn.fitting._choose", search)
    for eval_set in [(X[:0], Y[:0]), (X[:, :2], Y), (X, np.stack([Y, Y], axis=1))]:
        with pytest.raises(ValueError, match=r"eval_set|expecting 3"):
            ExMRegressor().fit(X, Y, eval_set=eval_set)


def test_a_column_without_a_known_level_is_warned_of():
    table = pd.DataFrame({"color": ["red", "blue"] * 30, "x": X[:, 0]})
    model = ExMRegressor(**QUICK).fit(table, Y)
    with pytest.warns(UserWarning, match="Column 'color' holds no level that was seen in fit"):
        model.predict(table.assign(color="Red"))


def test_masked_entries_of_a_table_are_missing():
    masked = np.ma.array(X, mask=np.abs(X) > 1.5)
    filled = np.where(np.abs(X) > 1.5, np.nan, X)
    one, other = regress(masked), regress(filled)
    np.testing.assert_array_equal(one.predict(masked), other.predict(filled))


@pytest.mark.parametrize("settings", [{"alpha": 1e90}, {"order_scale": 1e-6}, {"order_scale": 1e6}])
def test_extreme_settings_give_finite_predictions(settings):
    model = ExMRegressor(**QUICK | {"rank": "auto"} | settings).fit(X, Y)
    assert np.isfinite(model.predict(X)).all()
