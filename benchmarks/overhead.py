"""What it costs to get from a table to the kernels: ``python -m benchmarks.overhead``.

Each row is a ratio of two times of the same run, on one thread, the best of many turns: to reading
the same table without this package, to scikit-learn's logistic regression, or to the kernels alone.
``--quick`` shows that it runs.
"""

from .one_thread import use_one_thread

use_one_thread()

import argparse  # noqa: E402
import tracemalloc  # noqa: E402
import warnings  # noqa: E402
from functools import partial  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import polars as pl  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

import ttexm  # noqa: E402
from ttexm import ExMClassifier, RankOneBatch  # noqa: E402
from ttexm.features import Auto, Polynomial  # noqa: E402

from .timing import Table, best_times, describe_machine  # noqa: E402

LEVELS = [f"level {j}" for j in range(20)]
GIVEN = {"alpha": 1e-3, "order_scale": 0.5, "max_iter": 2, "tol": 0.5, "random_state": 0}
COLUMNS = ["", "ms", "reference ms", "ratio", "wanted"]


def row(table, name, times, wanted):
    ours, reference = times["ours"], times["reference"]
    ratio = ours / reference
    mark = "" if ratio <= wanted else "  ABOVE"
    table.add(
        name, f"{1e3 * ours:.4g}", f"{1e3 * reference:.4g}", f"{ratio:.3g}",
        f"<= {wanted:g}{mark}", name=name, ratio=ratio, wanted=wanted,
    )  # fmt: skip


def transform(table, m):
    """Categories, against stacking the codes that pandas has."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, len(LEVELS), (m, 10))
    values = np.array(LEVELS, dtype=object)[codes]
    names = [f"c{k}" for k in range(10)]
    objects = pd.DataFrame({name: values[:, k] for k, name in enumerate(names)}, dtype=object)
    categories = objects.astype("category")
    frames = {
        "pandas categories": (categories, 10),
        "pandas objects": (objects, 30),
        "pandas objects, none shared": (objects.astype("str").astype(object), 30),
        "pandas strings": (objects.astype("str"), 30),
        "an array of objects": (values, 30),
        "polars categories": (pl.DataFrame({n: pl.Series(values[:, k], dtype=pl.Categorical)
                                            for k, n in enumerate(names)}), 30),
        "polars strings": (pl.DataFrame({n: values[:, k].tolist()
                                         for k, n in enumerate(names)}), 30),
    }  # fmt: skip

    def stack():
        return np.stack([categories[name].cat.codes for name in names], axis=1)

    for name, (frame, wanted) in frames.items():
        fitted = Auto().fit(frame)
        cases = {"reference": stack, "ours": partial(fitted.transform, frame)}
        row(table, f"transform, {m} x 10, {name}", best_times(cases, rounds=8), wanted)


def classifier(X, y, n_classes=2, rank=4, features="auto"):
    """A model of a given rank; its fit is short, as only its predictions are timed."""
    edges = np.quantile(y, np.arange(1, n_classes) / n_classes)
    return ExMClassifier(rank, features=features, **GIVEN).fit(X, np.digitize(y, edges))


def numbers(m, d=30):
    X = np.random.default_rng(0).standard_normal((m, d)) * np.arange(1, d + 1) + 5
    return X, X[:, 0] * X[:, 1] + X[:, 2]


def one_row(table):
    X, y = numbers(1000)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    for name, rows, wanted in (("an array", X, 1.2), ("a data frame", frame, 1.0)):
        model, rival = classifier(rows, y), LogisticRegression(max_iter=1000).fit(rows, y > 5)
        one = rows[:1]
        cases = {
            "reference": partial(rival.predict_proba, one),
            "ours": partial(model.predict_proba, one),
        }
        row(table, f"predict_proba, 1 x 30, {name}", best_times(cases), wanted)


def many_rows(table, m):
    X, y = numbers(m)
    lines = classifier(X[:1000], y[:1000], features=Polynomial(standardize=True))
    curves, W = classifier(X[:1000], y[:1000]), lines.weights_

    def by_hand():
        return W.compile().contract(RankOneBatch.from_columns(X))

    cases = {"reference": by_hand, "ours": partial(lines.predict_proba, X)}
    name = f"predict_proba, {m} x 30, rank {W.rank}"
    row(table, f"{name}, lines", best_times(cases, rounds=5), 1.5)
    cases = {"reference": partial(lines.predict_proba, X), "ours": partial(curves.predict_proba, X)}
    row(table, f"{name}, curves against lines", best_times(cases, rounds=5), 10)


def classes(table, m):
    X, y = numbers(m)
    lines = Polynomial(standardize=True)
    two, ten = (classifier(X[:1000], y[:1000], n, features=lines) for n in (2, 10))
    for rows in (X, X[:1]):
        cases = {"reference": partial(two.predict, rows), "ours": partial(ten.predict, rows)}
        name = f"predict, {len(rows)} x 30, 10 classes against 2"
        row(table, name, best_times(cases, rounds=8), 1.3)


def memory(m):
    """Bytes that predict_proba needs above its input, at their peak."""
    X, y = numbers(m)
    model = classifier(X[:1000], y[:1000])
    model.predict_proba(X[:1000])
    tracemalloc.start()  # numpy reports its arrays to it
    model.predict_proba(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows: shows that it runs")
    options = parser.parse_args()
    ttexm.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)  # fits are short on purpose
    scale = 100 if options.quick else 1
    print(describe_machine("scikit-learn", "pandas", "polars"))
    table = Table("Ratios of times, one thread", COLUMNS, [52, 10, 14, 10, 16])
    transform(table, 100_000 // scale)
    one_row(table)
    many_rows(table, 1_000_000 // scale)
    classes(table, 100_000 // scale)
    m = 1_000_000 // scale
    print(f"\n  predict_proba of {m} x 30: {memory(m) / 1e9:.2f} GB above the input (<= 0.3)")


if __name__ == "__main__":
    main()
