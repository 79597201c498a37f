"""The comparison with other learners: nothing is left out silently."""

import signal
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks import classifiers, peers_ml


def broken(X, seed):
    raise OSError("libgomp.so.1: cannot open shared object file")


def splits(n_train=40, n_test=20):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(n_train + n_test)})
    y = np.arange(n_train + n_test) % 2
    rows = X[:n_train], y[:n_train], X[n_train:], y[n_train:]
    return [(0, rows), (1, rows)]


def test_learners_that_fail_are_listed_with_the_reason(capsys):
    models = {"LightGBM": broken, "CatBoost": broken, "EBM": lambda X, seed: DummyClassifier()}
    failed = {"CatBoost": "no matching distribution"}
    table = peers_ml.compare("Title", splits(), models, failed, {}, 60)
    reasons = {row["model"]: row.get("failed") for row in table.rows}
    assert reasons == {
        "LightGBM": "OSError: libgomp.so.1: cannot open shared object file (on 40 rows)",
        "CatBoost": "no matching distribution",
        "EBM": None,
    }
    printed = capsys.readouterr().out
    assert "failed: OSError: libgomp.so.1" in printed
    assert "failed: no matching distribution" in printed


def test_learners_on_fewer_rows_say_so():
    models = dict.fromkeys(peers_ml.LEARNERS, lambda X, seed: LogisticRegression())
    table = peers_ml.compare("Title", splits(), models, {"myFM": "why"}, {"EBM": 10}, 60)
    assert {row["model"]: row.get("rows") for row in table.rows} == {
        **dict.fromkeys(peers_ml.LEARNERS, 40), "EBM": 10, "myFM": None
    }  # fmt: skip
    lines = peers_ml.markdown({"Title": table.rows})
    assert [line for line in lines if "rows)" in line] == [lines[7]]
    assert lines[7].startswith("| EBM | ")
    assert lines[7].endswith("(on 10 rows) |")
    assert lines[8] == "| myFM | failed: why |"


def test_a_fit_that_takes_too_long_is_stopped_and_listed():
    def slow(X, seed):
        time.sleep(30)

    models = {"EBM": slow, "myFM": lambda X, seed: DummyClassifier()}
    start = time.monotonic()
    table = peers_ml.compare("Title", splits(), models, {}, {}, 0.05)
    assert time.monotonic() - start < 15
    assert table.rows[0]["failed"] == "TimeoutError: stopped after 0.05 s (on 40 rows)"
    assert table.rows[1]["auc"] == 0.5
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_limited_rows_keep_the_share_of_classes_and_the_test_rows():
    rows = splits()[0][1]
    X, y, X_test, y_test = peers_ml.limited(rows, 10, 0)
    assert (len(X), y.sum()) == (10, 5)
    assert X_test is rows[2]
    assert y_test is rows[3]
    assert peers_ml.limited(rows, 0, 0) is rows
    assert peers_ml.limited(rows, 40, 0) is rows


def test_measure_is_of_the_test_rows():
    X, y = pd.DataFrame({"a": np.arange(20.0)}), np.repeat([0, 1], [12, 8])
    auc, loss, seconds, cpu = classifiers.measure(
        lambda X, seed: DummyClassifier(strategy="prior"), 0, (X[:16], y[:16], X[10:], y[10:])
    )
    assert auc == 0.5
    assert loss == pytest.approx(-0.2 * np.log(0.75) - 0.8 * np.log(0.25))
    assert seconds >= 0
    assert cpu >= 0


@pytest.mark.slow  # it needs the scikit-learn of the extra "bench"
def test_trees_get_categories_of_many_levels_as_numbers():
    codes = np.arange(3000) % 300
    X = pd.DataFrame({"many": pd.Categorical(codes.astype(str)), "few": pd.Categorical(codes % 3)})
    y = (codes < 150).astype(int)
    model = classifiers.hist_gradient_boosting(X, 0).fit(X, y)
    encoded = model[0].transform(X)
    assert encoded["many"].dtype == float
    assert encoded["few"].dtype == "category"
    assert model.score(X, y) > 0.99
