"""Fits of tables that are wide, or have a category of many levels: seconds and memory.

``python -m benchmarks.extremes`` takes about six minutes; ``--quick`` shows that it runs. CPU
seconds on one thread, with all kernels compiled before; peak memory is that of a process of its
own.
"""

from benchmarks.one_thread import use_one_thread

use_one_thread()

import argparse  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

import ttexm  # noqa: E402
from ttexm import ExMClassifier, ExMRegressor  # noqa: E402

WIDE = [(200, 200), (200, 500), (200, 5000), (100_000, 500)]
LEVELS, LEVEL_ROWS = 50_000, 100_000
QUICK = [(60, 110)]


def wide_table(m, d):
    """Standard normal columns; one product and one column decide."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d))
    return X, X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(m)


def many_levels(n_levels, m):
    """A category, about two rows a level, and a number."""
    rng = np.random.default_rng(0)
    codes, x = rng.integers(0, n_levels, m), rng.standard_normal(m)
    X = pd.DataFrame({"id": pd.Categorical(codes.astype(str)), "x": x})
    return X, x + 0.5 * rng.standard_normal(n_levels)[codes]


def fit(X, y):
    """CPU seconds of a regressor, and of a classifier for the sign of y."""
    seconds = []
    for model, target in (
        (ExMRegressor(random_state=0), y),
        (ExMClassifier(random_state=0), y > 0),
    ):
        start = time.process_time()
        model.fit(X, target)
        seconds.append(time.process_time() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--levels", nargs=2, type=int, help="levels and rows: this table alone")
    options = parser.parse_args()
    ttexm.set_num_threads(1)
    if options.levels:
        regressor, classifier = fit(*many_levels(*options.levels))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # KiB on Linux
        n_levels, m = options.levels
        print(
            f"  {n_levels} levels in {m} rows: regressor {regressor:.1f} s, classifier "
            f"{classifier:.1f} s, peak {peak:.2f} GB"
        )
        return
    for m, d in ((300, 8), (200, 40), (8000, 8)):  # compiles the kernels, or loads them
        fit(*wide_table(m, d))
    for m, d in QUICK if options.quick else WIDE:
        regressor, classifier = fit(*wide_table(m, d))
        print(
            f"  {m} rows x {d} columns: regressor {regressor:.1f} s, classifier {classifier:.1f} s"
        )
    levels = (100, 200) if options.quick else (LEVELS, LEVEL_ROWS)
    command = [sys.executable, "-m", "benchmarks.extremes", "--levels", *map(str, levels)]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")


if __name__ == "__main__":
    main()
