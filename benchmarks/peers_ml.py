"""Accuracy and time against other learners on the paper's data sets.

``python -m benchmarks.peers_ml``; data as in `benchmarks.accuracy`. ``--only car hiv movielens
synthetic`` for some of the data sets, ``--skip EBM`` for some of the learners, ``--seeds 1`` for
fewer splits, ``--rows 5000`` for a smaller synthetic set. Every data set replaces its own part of
the file of results. A fit that takes longer than ``--seconds`` is stopped, and listed as such.

All learners have their defaults, and take categories as each does best: `classifiers` says how.
Unless ``--threads`` says otherwise each has one thread, for then the CPU seconds of a fit are
comparable, and hold on a machine that others use too. (With more, those of EBM lack its workers.)
"""

import argparse
import json
import signal
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import ttexm

from . import classifiers, rivals
from .timing import Table, describe_machine

RESULTS = Path(__file__).parent / "results" / "peers_ml.json"
# What each learner is, and the module that must be installed for it.
LEARNERS = {
    "ExMClassifier": (classifiers.exm, None),
    "LogisticRegression": (classifiers.logistic_regression, None),
    "HistGradientBoosting": (classifiers.hist_gradient_boosting, None),
    "LightGBM": (classifiers.lightgbm, "lightgbm"),
    "CatBoost": (classifiers.catboost, "catboost"),
    "EBM": (classifiers.explainable_boosting, "interpret"),
    "myFM": (classifiers.MyFM, "myfm"),
}
THREADED = ("LightGBM", "CatBoost", "EBM")  # those that do not ask OpenMP or numba how many


def learners(n_threads):
    """Functions of the training columns and a seed, by name."""
    return {
        name: partial(make, n_threads=n_threads) if name in THREADED else make
        for name, (make, _) in LEARNERS.items()
    }


def limited(rows, most_rows, seed):
    """The same rows with at most so many for training, drawn by class."""
    X, y, X_test, y_test = rows
    if not most_rows or len(X) <= most_rows:
        return rows
    X, _, y, _ = train_test_split(X, y, train_size=most_rows, stratify=y, random_state=seed)
    return X, y, X_test, y_test


@contextmanager
def at_most(seconds):
    """Raise TimeoutError after so many seconds, at Python's next turn. By a signal: Unix only."""

    def stop(signum, frame):
        raise TimeoutError(f"stopped after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def compare(title, splits, models, failed, most_rows, most_seconds):
    """Means over the splits, of each model; or why there are none.

    `failed` are reasons by name of models that cannot be had, `most_rows` the numbers of training
    rows, by name, of models that would take too long on all, `most_seconds` the longest that a
    fit may take.
    """
    columns = ["", "rows", "AUC", "log-loss", "fit, s", "CPU, s", "AUC by split"]
    table = Table(title, columns, [24, 9, 9, 10, 9, 9, 42])
    for name, make in models.items():
        found, reason = [], failed.get(name)
        for seed, rows in splits if reason is None else []:
            rows = limited(rows, most_rows.get(name), seed)
            try:
                with at_most(most_seconds):
                    found.append(classifiers.measure(make, seed, rows))
            except Exception as error:  # whatever stops a rival is a result, and is listed
                reason = f"{type(error).__name__}: {error} (on {len(rows[0])} rows)"
                break
        if reason is not None:
            table.add(name, *[""] * 5, f"failed: {reason}", model=name, failed=reason)
            continue
        auc, loss, seconds, cpu = np.mean(found, axis=0)
        by_split = " ".join(f"{row[0]:.4f}" for row in found)
        table.add(
            name, len(rows[0]), f"{auc:.4f}", f"{loss:.4f}", f"{seconds:.1f}", f"{cpu:.1f}",
            by_split, model=name, auc=auc, log_loss=loss, seconds=seconds, cpu_seconds=cpu,
            splits=found, rows=len(rows[0]), is_limited=len(rows[0]) < len(splits[0][1][0]),
        )  # fmt: skip
    return table


def markdown(tables):
    """Lines for the README: a model a row, a data set a column; AUC / log-loss, CPU seconds."""
    lines = ["| | " + " | ".join(tables) + " |", "|---" * (len(tables) + 1) + "|"]
    for name in LEARNERS:
        cells = []
        for rows in tables.values():
            row = next(row for row in rows if row["model"] == name)
            if "failed" in row:
                cells.append(f"failed: {row['failed']}")
                continue
            limit = f" (on {row['rows']} rows)" if row["is_limited"] else ""
            figures = f"{row['auc']:.4f} / {row['log_loss']:.4f}"
            cells.append(f"{figures}, {row['cpu_seconds']:.1f} s{limit}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["car", "hiv", "movielens", "synthetic"]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="some data sets")
    parser.add_argument("--seeds", type=int, default=5, help="splits, at most")
    parser.add_argument("--rows", type=int, default=100_000, help="of the synthetic set, to train")
    parser.add_argument("--threads", type=int, default=1, help="of every learner")
    parser.add_argument("--skip", nargs="+", choices=LEARNERS, default=[], help="some learners")
    # All of Car and HIV; so many of MovieLens take it five minutes.
    parser.add_argument("--ebm-rows", type=int, default=1400, help="that EBM gets at most; 0: all")
    parser.add_argument("--seconds", type=int, default=600, help="that a fit may take")
    arguments = parser.parse_args()
    classifiers.find_data()
    warnings.filterwarnings("ignore")
    reasons = rivals.install([module for _, module in LEARNERS.values() if module])
    failed = {name: reasons[module] for name, (_, module) in LEARNERS.items() if module in reasons}
    failed |= dict.fromkeys(arguments.skip, "left out by --skip")
    machine = describe_machine("scikit-learn", "lightgbm", "catboost", "interpret", "myfm")
    machine = {"ttexm": ttexm.__version__, **machine, "threads": arguments.threads}
    print(*(f"{name} {value}" for name, value in machine.items()), sep=" | ")
    ttexm.set_num_threads(arguments.threads)
    classifiers.warm_up()
    seeds = range(arguments.seeds)
    splits = {
        "car": lambda: ("Car", classifiers.car_splits(seeds)),
        "hiv": lambda: ("HIV-1 protease", classifiers.hiv_splits(seeds)),
        "movielens": lambda: (
            "MovieLens-100K",
            classifiers.movielens_splits(classifiers.MOVIELENS_SEEDS[: len(seeds)]),
        ),
        "synthetic": lambda: (
            f"Synthetic, {arguments.rows} rows",
            classifiers.interaction_splits([100 + k for k in seeds], n_train=arguments.rows),
        ),
    }
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    models, tables = learners(arguments.threads), {}
    for name in arguments.only:
        title, rows = splits[name]()
        title = f"{title} (seeds {', '.join(str(seed) for seed, _ in rows)})"
        with threadpool_limits(arguments.threads):
            limits = {"EBM": arguments.ebm_rows}, arguments.seconds
            table = compare(title, rows, models, failed, *limits)
        tables[title] = table.rows
        results[name] = {"title": title, "machine": machine, "rows": table.rows}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1, default=float))
    print("\nTest AUC / log-loss, CPU seconds of a fit:", *markdown(tables), sep="\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
