"""Default fits on many tables, beside other learners: accuracy, and CPU seconds on one thread.

``python -m benchmarks.tables``; data as in `benchmarks.accuracy`. ``--only concrete car`` for some
tables, ``--learners ttexm linear`` for some learners, ``--splits 5`` for more splits, ``--first
100`` for other ones. ``--others development`` and ``--others confirmation`` are other tables, which
come with packages, see `other_problems`. ``--small`` is for small tables alone: those of up to 569
rows, and the others cut to 400 rows, with ten splits. ``--costs`` measures what several classes and
a second thread cost and save. Each table and learner replaces its own part of the file of results,
and the summary is of all that the file has.

All learners have their defaults, and take categories as each does best. A table that has no test
rows of its own is split into 75 % and 25 %, by class where there are classes, once per seed. A fit
that takes longer than ``--seconds`` is stopped, and listed as such.
"""

from .one_thread import use_one_thread

use_one_thread()

import argparse  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression, RidgeCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

import ttexm  # noqa: E402
from ttexm import ExMClassifier, ExMRegressor  # noqa: E402
from ttexm.features import Polynomial  # noqa: E402

from . import classifiers, rivals  # noqa: E402
from .other_problems import CONFIRMATION, DEVELOPMENT  # noqa: E402
from .peers_ml import at_most  # noqa: E402
from .problems import PROBLEMS, SMALL, SMALL_ALREADY  # noqa: E402
from .timing import Table, describe_machine  # noqa: E402

RESULTS = Path(__file__).parent / "results"
OTHERS = {"development": DEVELOPMENT, "confirmation": CONFIRMATION}
SPLITS = 3
SMALL_ROWS, SMALL_SPLITS = 400, 10
TIE_R2, TIE_LOSS = 0.003, 0.01  # two R2, or the ratio of two log-losses, that are level


# -- learners ----------------------------------------------------------------------------------


def exm(X, seed, is_regression):
    return (ExMRegressor if is_regression else ExMClassifier)(random_state=seed)


def linear(X, seed, is_regression):
    """Standardised numbers and indicators of categories."""
    categories = X.select_dtypes("category").columns.tolist()
    numbers = [name for name in X if name not in categories]
    columns = ColumnTransformer(
        [
            ("levels", OneHotEncoder(handle_unknown="ignore"), categories),
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        ]
    )
    last = RidgeCV(np.logspace(-3, 3, 13)) if is_regression else LogisticRegression(max_iter=2000)
    return make_pipeline(columns, last)


def hist_gradient_boosting(X, seed, is_regression):
    if not is_regression:
        return classifiers.hist_gradient_boosting(X, seed)
    return HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=seed)


def lightgbm(X, seed, is_regression):
    from lightgbm import LGBMRegressor

    if not is_regression:
        return classifiers.lightgbm(X, seed, n_threads=1)
    return LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1)


class WithStrings:
    """CatBoost: missing levels as a level of their own, which it asks for."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        self.model.fit(_without_missing(X), y)
        return self

    def predict(self, X):
        return self.model.predict(_without_missing(X))

    def predict_proba(self, X):
        return self.model.predict_proba(_without_missing(X))


def _without_missing(X):
    categories = X.select_dtypes("category").columns
    return X.assign(**{name: X[name].astype(object).fillna("missing") for name in categories})


def catboost(X, seed, is_regression):
    from catboost import CatBoostRegressor

    if not is_regression:
        return WithStrings(classifiers.catboost(X, seed, n_threads=1))
    categories = X.select_dtypes("category").columns.tolist()
    return WithStrings(
        CatBoostRegressor(
            cat_features=categories, random_seed=seed, thread_count=1, verbose=False,
            allow_writing_files=False,
        )
    )  # fmt: skip


def explainable_boosting(X, seed, is_regression):
    from interpret.glassbox import ExplainableBoostingRegressor

    if not is_regression:
        return classifiers.explainable_boosting(X, seed, n_threads=1)
    return ExplainableBoostingRegressor(random_state=seed, n_jobs=1)


LEARNERS = {
    "ttexm": (exm, None),
    "linear": (linear, None),
    "HGB": (hist_gradient_boosting, None),
    "LightGBM": (lightgbm, "lightgbm"),
    "CatBoost": (catboost, "catboost"),
    "EBM": (explainable_boosting, "interpret"),
}


# -- measurements ------------------------------------------------------------------------------


def measure(make, problem, seed, seconds):
    """The score of one split, and CPU seconds of the fit."""
    X, y, X_test, y_test = problem.split(seed)
    model = make(X, seed, problem.is_regression)
    gc.collect()
    with at_most(seconds):
        start = time.process_time()
        model.fit(X, y)
        cpu = time.process_time() - start
    return problem.score(model, X_test, y_test), cpu


def run(problems, learner, seconds):
    """One learner on all splits of a table; pairs (seed, problem)."""
    make, scores, times = LEARNERS[learner][0], [], []
    try:
        for seed, problem in problems:
            score, cpu = measure(make, problem, seed, seconds)
            scores.append(score)
            times.append(cpu)
    except Exception as error:  # whatever stops a learner is a result, and is listed
        return {"failed": f"{type(error).__name__}: {error}"}
    seeds = [seed for seed, _ in problems]
    is_regression = problems[0][1].is_regression
    return {"scores": scores, "cpu": times, "seeds": seeds, "is_regression": is_regression}


def compare(name, problems, chosen, failed, seconds):
    """Print the table of one problem, and return what each learner has reached."""
    measured = "R2" if problems[0][1].is_regression else "log-loss"
    seeds = ", ".join(str(seed) for seed, _ in problems)
    table = Table(f"{name} (seeds {seeds})", ["", measured, "error", "CPU, s"], [12, 10, 10, 9])
    found = {}
    for learner in chosen:
        reason = failed.get(LEARNERS[learner][1])
        row = run(problems, learner, seconds) if reason is None else {"failed": reason}
        found[learner] = row
        if "failed" in row:
            table.add(learner, row["failed"], "", "")
            continue
        mean, cpu = np.mean(row["scores"]), np.mean(row["cpu"])
        table.add(learner, f"{mean:.4f}", f"{standard_error(row['scores']):.4f}", f"{cpu:.2f}")
    return found


def standard_error(values):
    return np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0


# -- summaries ---------------------------------------------------------------------------------


def both(rows, rival):
    """What ttexm and a rival have on the same splits, or None."""
    one, other = rows.get("ttexm"), rows.get(rival)
    is_there = all(row and "failed" not in row for row in (one, other))
    return (one, other) if is_there and one["seeds"] == other["seeds"] else None


def outcome(one, other):
    """Whether the first mean is ahead, level or behind."""
    first, second = np.mean(one["scores"]), np.mean(other["scores"])
    if one["is_regression"]:
        gain, tie = first - second, TIE_R2
    else:
        gain, tie = 1 - first / second, TIE_LOSS
    return "level" if abs(gain) <= tie else "ahead" if gain > 0 else "behind"


def summarize(results):
    """Over all tables: on how many ttexm is ahead of each rival, and the ratio of the costs."""
    columns = ["ttexm against", "ahead", "level", "behind", "CPU", "most", "  behind on"]
    widths = [14, 7, 7, 8, 7, 7, 12]
    table = Table("All tables (level: 1 % of log-loss, .003 of R2)", columns, widths)
    for rival in [name for name in LEARNERS if name != "ttexm"]:
        pairs = {name: pair for name, rows in results.items() if (pair := both(rows, rival))}
        if not pairs:
            continue
        outcomes = {name: outcome(*pair) for name, pair in pairs.items()}
        ratios = [np.sum(one["cpu"]) / np.sum(other["cpu"]) for one, other in pairs.values()]
        counts = [list(outcomes.values()).count(what) for what in ("ahead", "level", "behind")]
        behind = ", ".join(name for name, what in outcomes.items() if what == "behind")
        mean = np.exp(np.mean(np.log(ratios)))
        table.add(rival, *counts, f"{mean:.1f}x", f"{max(ratios):.0f}x", f"  {behind}")


def summarize_small(results):
    """Each small table: the gain over the linear model, and its standard error over the splits."""
    table = Table("Small tables: gain over the linear model", ["", "gain", "error", "gains/errors"])
    for name, rows in results.items():
        pair = both(rows, "linear")
        if pair:
            gains = np.subtract(*(row["scores"] for row in pair))
            gains = gains if pair[0]["is_regression"] else -gains
            mean, error = gains.mean(), standard_error(gains)
            table.add(name, f"{mean:+.4f}", f"{error:.4f}", f"{mean / error:+.1f}")


# -- costs -------------------------------------------------------------------------------------


def cost_of_classes(rounds=5):
    """CPU seconds of two sweeps at rank 8, 5000 rows of 30 numbers, for 2 and for 7 classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 30))
    settings = {"rank": 8, "alpha": 1e-3, "order_scale": 0.3, "max_iter": 2, "tol": 0.0}
    labels = {n: rng.integers(0, n, len(X)) for n in (2, 7)}

    def cpu(y):
        model = ExMClassifier(features=Polynomial(1), random_state=0, **settings)
        start = time.process_time()
        model.fit(X, y)
        return time.process_time() - start

    best = {n: min(cpu(y) for _ in range(rounds)) for n, y in labels.items()}
    table = Table("Two sweeps at rank 8, 5000 x 30 numbers", ["classes", "CPU, s", "ratio"])
    for n, seconds in best.items():
        table.add(n, f"{seconds:.3f}", f"{seconds / best[2]:.2f}")


def gain_of_threads(rounds=3):
    """Wall seconds of a default fit on one thread and on two."""
    table = Table("Wall time of a default fit", ["", "1 thread, s", "2 threads, s", "ratio"])
    for name in ("kr_vs_kp", "adult"):
        problem = PROBLEMS[name]()
        X, y, *_ = problem.split(0)
        best = {1: np.inf, 2: np.inf}
        for _ in range(rounds):
            for n_threads in best:
                ttexm.set_num_threads(n_threads)
                start = time.perf_counter()
                exm(X, 0, problem.is_regression).fit(X, y)
                best[n_threads] = min(best[n_threads], time.perf_counter() - start)
        table.add(
            name, *(f"{seconds:.2f}" for seconds in best.values()), f"{best[1] / best[2]:.2f}"
        )
    ttexm.set_num_threads(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*PROBLEMS, *DEVELOPMENT, *CONFIRMATION]
    parser.add_argument("--only", nargs="+", choices=names, metavar="TABLE")
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--others", choices=OTHERS, help="other tables, from packages")
    which.add_argument("--small", action="store_true", help="tables of 400 rows, 10 splits")
    which.add_argument("--costs", action="store_true", help="of classes and threads alone")
    parser.add_argument("--splits", type=int)
    parser.add_argument("--first", type=int, default=0, help="seed of the first split")
    parser.add_argument("--seconds", type=int, default=300, help="that a fit may take")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    classifiers.find_data()
    warnings.filterwarnings("ignore")
    needed = [LEARNERS[name][1] for name in arguments.learners]
    needed += rivals.TABLES if arguments.others else ()
    failed = rivals.install([module for module in needed if module])
    machine = describe_machine("scikit-learn", "lightgbm", "catboost", "interpret")
    print(*(f"{name} {value}" for name, value in machine.items()), sep=" | ")
    ttexm.set_num_threads(1)
    with threadpool_limits(1):
        warm_up()
        if arguments.costs:
            cost_of_classes()
            gain_of_threads()
        else:
            compare_all(arguments, failed)


def compare_all(arguments, failed):
    """Measure learners on the chosen tables, one after the other, and sum all results up."""
    is_small, problems = arguments.small, OTHERS.get(arguments.others, PROBLEMS)
    names = [*SMALL_ALREADY, *SMALL] if is_small else list(problems)
    stem = "small_tables" if is_small else arguments.others or "tables"
    path = arguments.results or RESULTS / f"{stem}.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.only or names:
        problem = problems[name]()
        most = problem.n_splits or 100 if not is_small else 100
        n_splits = min(arguments.splits or (SMALL_SPLITS if is_small else SPLITS), most)
        seeds = range(arguments.first, arguments.first + n_splits)
        is_cut = is_small and name not in SMALL_ALREADY
        splits = [(s, problem.cut(SMALL_ROWS, s) if is_cut else problem) for s in seeds]
        found = compare(name, splits, arguments.learners, failed, arguments.seconds)
        results.setdefault(name, {}).update(found)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(results, indent=1, default=float))
    (summarize_small if is_small else summarize)(results)


def warm_up():
    """Have all kernels compiled, or loaded, before anything is timed."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.random(300), "color": pd.Categorical(rng.integers(0, 3, 300))})
    for y in (rng.random(300) > 0.5, rng.integers(0, 3, 300)):
        ExMClassifier(random_state=0).fit(X, y).predict_proba(X)
    ExMRegressor(random_state=0).fit(X, rng.random(300)).predict(X)


if __name__ == "__main__":
    main()
