"""What explanations cost: ``python -m benchmarks.explain``; ``--quick`` shows that it runs.

CPU seconds on one thread, the best of several calls, beside our own goals. Then Shapley values and
interactions of LightGBM, XGBoost and the package shap, for models of about the same accuracy on the
same rows: exact ones of trees, and estimates by sampling with their error.
"""

from .one_thread import use_one_thread

use_one_thread()

import argparse  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402

import numpy as np  # noqa: E402
from sklearn.datasets import make_friedman1  # noqa: E402
from sklearn.metrics import r2_score  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

import ttexm  # noqa: E402
from ttexm import ExMRegressor, RankOneBatch, TTTensor  # noqa: E402
from ttexm.data.moments import Moments  # noqa: E402
from ttexm.explain.decomposition import variances  # noqa: E402
from ttexm.explain.games import Game  # noqa: E402
from ttexm.explain.strongest import find_strongest  # noqa: E402

from . import rivals  # noqa: E402
from .timing import Table, describe_machine  # noqa: E402

ROUNDS = 5
N_EXPLAINED, N_BACKGROUND = 200, 50  # rows that all packages explain, and rows of the background


def cpu_seconds(call, rounds=ROUNDS):
    """Of the best call, after one that compiles."""
    call()
    best = np.inf
    for _ in range(rounds):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


# -- our own goals -------------------------------------------------------------------------------


def sum_of_products(d, rank, n, seed=0):
    """A train that is a sum of products of up to five columns, with small terms of all orders."""
    rng = np.random.default_rng(seed)
    W = None
    for _ in range(rank - 1):
        factors = [np.eye(1, n)[0] for _ in range(d)]
        for c in rng.choice(d, rng.integers(1, 6), replace=False):
            factors[c] = np.append(0, rng.standard_normal(n - 1))
        term = TTTensor.rank_one(factors)
        W = term if W is None else W + term
    small = [np.append(1, 0.03 * rng.standard_normal(n - 1)) for _ in range(d)]
    return W + 0.1 * TTTensor.rank_one(small)


def strongest(W, moments):
    found = find_strongest(variances(W, moments).cores, 20)
    assert found.is_proved


def our_goals(quick):
    table = Table("Explanations, CPU seconds", ["", "s", "wanted"], [58, 10, 10])

    def add(name, wanted, call):
        seconds = cpu_seconds(call, 1 if quick else ROUNDS)
        mark = "" if seconds <= wanted else "  ABOVE"
        table.add(name, f"{seconds:.4f}", f"<= {wanted:g}{mark}", name=name, seconds=seconds)

    rng, m = np.random.default_rng(0), 20 if quick else 1000
    for d, rank, wanted in ((30, 8, 0.03), (160, 4, 0.12)):
        batch = RankOneBatch.from_columns(rng.standard_normal((m, d)))
        game = Game(TTTensor.random(batch.shape, rank=rank, seed=0), d)
        base = [batch.vectors(k).mean(axis=0) for k in range(d)]
        title = f"Shapley values, {m} rows, d = {d}, rank {rank}"
        add(title, wanted, lambda game=game, batch=batch, base=base: game.values(batch, base))
        if d == 30:
            title = f"pairs, {m} rows, d = {d}, rank {rank}"
            add(
                title, 0.2, lambda game=game, batch=batch, base=base: game.pairs(batch, base, False)
            )
    for n, wanted in ((2, 0.1), (12, 0.5)):
        d = 20 if quick else 100
        W = sum_of_products(d, 16, n)
        what = "one function" if n == 2 else f"{n - 1} functions"
        title = f"the 20 strongest sets of d = {d} columns, {what}, rank {W.rank}"
        batch = RankOneBatch.from_columns(list(rng.standard_normal((d, 500, n - 1))))
        moments = Moments.of_batch(batch, np.ones(500))
        add(title, wanted, lambda W=W, moments=moments: strongest(W, moments))
    batch = RankOneBatch.from_columns(rng.standard_normal((500, 160)))
    W, moments = TTTensor.random(batch.shape, rank=8, seed=0), Moments.of_batch(batch, np.ones(500))

    def sobol():
        squares = variances(W, moments)
        squares.first(), squares.totals(), squares.shapley(), squares.by_order(), squares.total()

    add("all variance shares, d = 160, rank 8", 0.25, sobol)


# -- other packages ------------------------------------------------------------------------------


def others(quick):
    X, y = make_friedman1(600 if quick else 4000, noise=1.0, random_state=0)
    X, rows, y, y_rows = X[:-N_EXPLAINED], X[-N_EXPLAINED:], y[:-N_EXPLAINED], y[-N_EXPLAINED:]
    background = X[:N_BACKGROUND]
    failed = rivals.install(["lightgbm", "xgboost", "shap"])
    columns = ["", "R2", "CPU, s", "largest error"]
    title = f"Shapley values of {N_EXPLAINED} rows, 10 columns"
    table = Table(title, columns, [52, 8, 10, 14])
    model = ExMRegressor(random_state=0).fit(X, y)
    score = model.score(rows, y_rows)

    def add(name, score, call, error=""):
        seconds = cpu_seconds(call, 1 if quick else 3)
        error = f"{error:.2g}" if error != "" else ""
        table.add(name, f"{score:.3f}", f"{seconds:.4f}", error, name=name, seconds=seconds)

    add("ttexm, independent columns", score, lambda: model.shap_values(rows))
    add("ttexm, pairs, independent columns", score, lambda: model.shap_interaction_values(rows))
    exact, error = model.shap_values(rows, background), ""
    if "shap" not in failed:
        import shap

        # All 2^10 sets of columns, for a few rows.
        every = shap.explainers.Exact(model.predict, shap.maskers.Independent(background))
        error = np.abs(every(rows[:3]).values - exact[:3]).max()
    given = f"ttexm, {N_BACKGROUND} rows"
    add(given, score, lambda: model.shap_values(rows, background), error)
    if "shap" not in failed:
        few = rows[:5] if quick else rows
        wanted = exact[: len(few)]
        for n in (100, 1000):
            kernel = shap.KernelExplainer(model.predict, background)

            def sample(kernel=kernel, n=n):
                return kernel.shap_values(few[:20], nsamples=n, silent=True)

            error = np.abs(sample() - wanted[:20]).max()
            seconds = cpu_seconds(sample, 1) * len(few) / min(20, len(few))
            name = f"shap, KernelExplainer, {n} samples"
            table.add(name, f"{score:.3f}", f"{seconds:.4f}", f"{error:.2g}", name=name)
        permutation = shap.PermutationExplainer(model.predict, background, seed=0)
        estimate = permutation(few, silent=True).values
        add(
            "shap, PermutationExplainer", score, lambda: permutation(few, silent=True),
            np.abs(estimate - wanted).max(),
        )  # fmt: skip
    if "lightgbm" not in failed:
        from lightgbm import LGBMRegressor

        trees = LGBMRegressor(n_jobs=1, verbose=-1, random_state=0).fit(X, y)
        score = r2_score(y_rows, trees.predict(rows))
        add("LightGBM, pred_contrib", score, lambda: trees.predict(rows, pred_contrib=True))
    if "xgboost" not in failed:
        import xgboost

        trees = xgboost.XGBRegressor(n_jobs=1, random_state=0, n_estimators=100, max_depth=4)
        trees.fit(X, y)
        score, matrix = r2_score(y_rows, trees.predict(rows)), xgboost.DMatrix(rows, nthread=1)
        booster = trees.get_booster()
        add("XGBoost, pred_contribs", score, lambda: booster.predict(matrix, pred_contribs=True))
        add(
            "XGBoost, pred_interactions", score,
            lambda: booster.predict(matrix, pred_interactions=True),
        )  # fmt: skip
    for name, reason in failed.items():
        print(f"  {name} is missing: {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without other packages")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    machine = describe_machine("scikit-learn", "lightgbm", "xgboost", "shap")
    print(*(f"{name} {value}" for name, value in machine.items()), sep=" | ")
    ttexm.set_num_threads(1)
    with threadpool_limits(1):
        our_goals(arguments.quick)
        if not arguments.alone:
            others(arguments.quick)


if __name__ == "__main__":
    main()
