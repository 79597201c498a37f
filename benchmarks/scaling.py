"""How cost grows with the sizes of a problem: ``python -m benchmarks.scaling``.

Time of a contraction, a Riemannian gradient and a retraction over the number of samples N, of modes
d, the rank r and the mode size n, one at a time, and the exponents of least squares lines in
logarithms. One thread, float64, at sizes where arithmetic outweighs calls. Writes
benchmarks/results/scaling.json.
"""

import argparse
from pathlib import Path

from .one_thread import use_one_thread

use_one_thread()

import numpy as np  # noqa: E402

import ttexm  # noqa: E402
from ttexm import Manifold, RankOneBatch  # noqa: E402

from .timing import Table, best_times, describe_machine, exponent, write_results  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "scaling.json"
BASE = {"N": 4000, "d": 20, "r": 16, "n": 4}
STEPS = {
    "N": (2000, 4000, 8000, 16000),
    "d": (20, 40, 80, 160),
    "r": (16, 32, 64, 128),
    "n": (4, 8, 16, 32),
}
QUICK_BASE = {"N": 200, "d": 6, "r": 4, "n": 3}
QUICK_STEPS = {"N": (100, 200), "d": (6, 12), "r": (4, 8), "n": (3, 6)}
EXPECTED = {
    "contraction": {"N": 1, "d": 1, "r": 2, "n": 1},
    "gradient": {"N": 1, "d": 1, "r": 2, "n": 1},
    "retraction": {"d": 1, "r": 3, "n": 1},
}


def cases(N, d, r, n):
    """The three operations at one point, whose orthogonal gauges are computed once."""
    rng = np.random.default_rng(0)
    manifold = Manifold((n,) * d, r)
    W = manifold.random_point(seed=0)
    batch = RankOneBatch.from_vectors([rng.standard_normal((N, n)) for _ in range(d)])
    g, xi = rng.standard_normal(N), 0.01 * manifold.random_tangent(W, seed=1)
    return {
        "contraction": lambda: W.contract(batch),
        "gradient": lambda: manifold.gradient(W, batch, g),
        "retraction": lambda: manifold.retract(W, xi),
    }


def measure(base, steps, rounds):
    """Seconds by operation and size that varies, one for each of its values."""
    seconds = {what: {} for what in EXPECTED}
    for size, values in steps.items():
        for value in values:
            times = best_times(cases(**(base | {size: value})), rounds)
            for what, expected in EXPECTED.items():
                if size in expected:
                    seconds[what].setdefault(size, []).append(times[what])
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see it run; no file")
    quick = parser.parse_args().quick
    base, steps = (QUICK_BASE, QUICK_STEPS) if quick else (BASE, STEPS)
    machine = describe_machine("ttexm")
    print(*(f"{name} {value}" for name, value in machine.items()), sep=" | ")
    ttexm.set_num_threads(1)
    seconds = measure(base, steps, rounds=1 if quick else 6)
    fixed = ", ".join(f"{name} = {value}" for name, value in base.items())
    table = Table(
        f"Growth of cost from {fixed}: ms, and exponents with those expected in brackets",
        ["", "values", "ms", "exponent"], [18, 30, 44, 16],
    )  # fmt: skip
    for what, expected in EXPECTED.items():
        for size, wanted in expected.items():
            values, times = steps[size], seconds[what][size]
            found = exponent(values, times)
            table.add(
                f"{what}, {size}", ", ".join(map(str, values)),
                ", ".join(f"{1e3 * time:.3g}" for time in times), f"{found:.2f} ({wanted})",
                what=what, size=size, values=values, seconds=times, exponent=found,
                expected=wanted,
            )  # fmt: skip
    if quick:
        return
    write_results(RESULTS, machine, [table], base=base)


if __name__ == "__main__":
    main()
