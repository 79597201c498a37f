"""The kernels against the machine's peak and against rivals: ``python -m benchmarks.kernels``.

Everything on one thread unless a line says otherwise. The textbook count of flops is 4 r^2 a sample
and core for inference, 12 r^2 for a gradient; in the identity gauge kernels do less work than that,
so their share of the peak can pass 100 %. Writes benchmarks/results/kernels.json.
"""

import argparse
import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

from .one_thread import use_one_thread

use_one_thread()

import numpy as np  # noqa: E402

import ttexm  # noqa: E402
from ttexm import Manifold, RankOneBatch, TTTensor  # noqa: E402
from ttexm.kernels import schedule  # noqa: E402

from . import rivals  # noqa: E402
from .timing import (  # noqa: E402
    Table,
    best_times,
    describe_machine,
    peak,
    verdict,
    without_caches,
    write_results,
)

RESULTS = Path(__file__).parent / "results" / "kernels.json"
INFERENCE_BARS = {4: 45, 8: 70, 16: 80}
IDENTITY_BARS = {4: 60, 8: 95, 16: 120}


def model(d, r, seed=0):
    """A tensor like a trained model: cores of a linear one, G[0] = 1, with noise in all slots.

    (Trained models keep 73 to 97 % of their cores in the identity gauge, measured elsewhere.)
    """
    rng = np.random.default_rng(seed)
    cores = [0.3 / r**0.5 * rng.standard_normal((r, 2, r)) for _ in range(d)]
    for G in cores:
        G[:, 0] += np.eye(r)
    cores[0], cores[-1] = cores[0][:1], cores[-1][:, :, :1]
    return TTTensor(cores).round(rank=Manifold((2,) * d, r).ranks)


def sum_of_squares(W):
    """sum r0 r1 over the cores: r^2 a core, less at the edges."""
    return sum(W.ranks[k] * W.ranks[k + 1] for k in range(W.ndim))


def best_rival(cases, keep=3):
    """The most promising cases: a short look at all of them."""
    times = best_times(cases, rounds=2, seconds=0.02)
    return {name: cases[name] for name in sorted(times, key=times.get)[:keep]}


def inference(quick, failed):
    d, N = 30, 20_000 if quick else 100_000
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d))
    batch = RankOneBatch.from_columns(x)
    table = Table(
        f"Inference: N = {N}, d = {d}, float64, share of peak by the textbook count",
        ["", "ms", "% of peak", "against JAX", "identity cores"],
        [26, 10, 26, 26, 16],
    )
    for r in (4, 8, 16):
        random, trained = TTTensor.random((2,) * d, r, seed=0), model(d, r)
        compiled, compiled_random = trained.compile(), random.compile()
        flops = 4 * sum_of_squares(random) * N
        cases = {
            "peak": peak(flops),
            "contract": partial(random.contract, batch),
            "compiled model": partial(compiled.contract, batch),
            "compiled random": partial(compiled_random.contract, batch),
        }
        jax = {}
        if "jax" not in failed:
            jax = best_rival(rivals.jax_inference(random.to_cores(), x.T))
        times = best_times(cases | jax)
        rival = min((times[name] for name in jax), default=np.nan)
        for name, bar in (
            ("contract", INFERENCE_BARS[r]),
            ("compiled model", IDENTITY_BARS[r]),
            ("compiled random", None),
        ):
            share = 100 * times["peak"] / times[name]
            cores = {"contract": "", "compiled model": compiled, "compiled random": compiled_random}
            share_text = verdict(share, bar, " %") if bar else f"{share:.3g} %"
            n_identity = getattr(cores[name], "n_identity", "")
            against = verdict(rival / times[name], 2) if name != "compiled random" else ""
            table.add(
                f"r = {r:>2}, {name}", f"{1e3 * times[name]:.2f}", share_text, against,
                f"{n_identity} of {d}" if n_identity != "" else "",
                rank=r, what=name, seconds=times[name], share=share, jax=rival / times[name],
            )  # fmt: skip
        if jax:
            best = min(jax, key=times.get)
            share = f"{100 * times['peak'] / rival:.3g} %"
            table.add(f"r = {r:>2}, JAX", f"{1e3 * rival:.2f}", share, best, "",
                      rank=r, what="jax", seconds=rival, form=best)  # fmt: skip
    return table


def two_threads(quick):
    d, N = 30, 20_000 if quick else 100_000
    batch = RankOneBatch.from_columns(np.random.default_rng(0).standard_normal((N, d)))
    table = Table(
        "Two threads against one", ["", "one, ms", "two, ms", "speed-up"], [26, 12, 12, 22]
    )

    def on(n, call):
        ttexm.set_num_threads(n)
        call()

    part = peak(1e8)

    def multiply_add(first, last):
        for _ in range(first, last):
            part()

    # What two cores of this machine can do: the same pool of threads, nothing but arithmetic.
    cases = [("multiply-adds alone", partial(schedule.run, multiply_add, 8, flops=8e8))]
    for r in (4, 8, 16):
        W, manifold = TTTensor.random((2,) * d, r, seed=0), Manifold((2,) * d, r)
        cases += [
            (f"r = {r:>2}, contract", partial(W.contract, batch)),
            (f"r = {r:>2}, gradient", partial(manifold.gradient, W, batch, np.ones(N))),
        ]
    for what, call in cases:
        turns = {"one": partial(on, 1, call), "two": partial(on, 2, call)}
        times = best_times(turns, seconds=0.1)
        gain = times["one"] / times["two"]
        bar = verdict(gain, 1.8) if "contract" in what else f"{gain:.3g}x"
        table.add(what, *(f"{1e3 * seconds:.2f}" for seconds in times.values()), bar,
                  what=what, gain=gain)  # fmt: skip
    ttexm.set_num_threads(1)
    return table


def at_new_point(manifold, W, batch, derivative):
    """The gradient where nothing about W is known yet, as after a step."""
    return manifold.gradient(without_caches(W), batch, derivative)


def gradient(failed):
    d, m = 30, 1000
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, d)), rng.standard_normal(m)
    batch = RankOneBatch.from_columns(x)
    table = Table(
        f"Riemannian gradient, predictions included: M = {m}, d = {d}, float64",
        ["", "ms", "% of peak", "against JAX value_and_grad"],
        [26, 10, 26, 30],
    )

    def derivative(f):
        return 2 / m * (f - y)

    for r in (8, 16):
        manifold = Manifold((2,) * d, r)
        points = {"model": model(d, r), "random": manifold.random_point(seed=0)}
        cases = {"peak": peak(12 * sum_of_squares(points["random"]) * m)}
        for name, W in points.items():
            cases[name] = partial(manifold.gradient, W, batch, derivative)
            cases[f"{name}, new point"] = partial(at_new_point, manifold, W, batch, derivative)
        jax = {}
        if "jax" not in failed:
            jax = best_rival(rivals.jax_gradient(points["random"].to_cores(), x.T, y))
        times = best_times(cases | jax)
        rival = min((times[name] for name in jax), default=np.nan)
        for name in list(cases)[1:]:
            share = 100 * times["peak"] / times[name]
            barred = "new" not in name
            table.add(
                f"r = {r:>2}, {name}", f"{1e3 * times[name]:.3f}",
                verdict(share, 45, " %") if barred else f"{share:.3g} %",
                verdict(rival / times[name], 2) if barred else f"{rival / times[name]:.3g}x",
                rank=r, what=name, seconds=times[name], share=share, jax=rival / times[name],
            )  # fmt: skip
        if jax:
            best = min(jax, key=times.get)
            share = f"{100 * times['peak'] / rival:.3g} %"
            table.add(f"r = {r:>2}, JAX", f"{1e3 * rival:.3f}", share, best,
                      rank=r, what="jax", seconds=rival, form=best)  # fmt: skip
    return table


def small_gradient():
    d, r, m = 21, 4, 100
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, d)), rng.standard_normal(m)
    batch, manifold = RankOneBatch.from_columns(x), Manifold((2,) * d, r)
    W = manifold.random_point(seed=0)
    cores = W.to_cores()
    times = best_times(
        {
            "numpy": partial(rivals.numpy_gradient, cores, x, lambda f: f - y),
            "ttexm": partial(at_new_point, manifold, W, batch, lambda f: f - y),
        }
    )
    ratio = times["numpy"] / times["ttexm"]
    table = Table(f"Riemannian gradient of a mini-batch: M = {m}, d = {d}, r = {r}, from the cores",
                  ["", "us", "numpy, us", "ratio"], [26, 10, 12, 22])  # fmt: skip
    table.add("ttexm", f"{1e6 * times['ttexm']:.1f}", f"{1e6 * times['numpy']:.0f}",
              verdict(ratio, 20), **times, ratio=ratio)  # fmt: skip
    return table


def retraction():
    table = Table("Retraction against TT-rounding of W + xi in numpy",
                  ["", "ms", "numpy, ms", "ratio"], [34, 10, 12, 22])  # fmt: skip
    for d, r in ((30, 16), (160, 4)):
        manifold = Manifold((2,) * d, r)
        W = manifold.random_point(seed=0)
        for length in (0.01, 0.1, 1.0):
            xi = length * manifold.random_tangent(W, seed=1)
            cores = (W + xi.to_tensor()).round().to_cores()
            times = best_times(
                {
                    "ttexm": lambda m=manifold, W=W, xi=xi: m.retract(W, xi),
                    "numpy": lambda cores=cores, r=r: rivals.numpy_round(cores, r),
                }
            )
            ratio = times["numpy"] / times["ttexm"]
            table.add(
                f"d = {d:>3}, r = {r:>2}, |xi| = {length:g} |W|", f"{1e3 * times['ttexm']:.2f}",
                f"{1e3 * times['numpy']:.2f}", verdict(ratio, 3),
                d=d, rank=r, length=length, **times, ratio=ratio,
            )  # fmt: skip
    return table


def tt_algebra(failed):
    table = Table(
        "TT algebra, ms; in brackets how many times faster ttexm is",
        ["", "ttexm", "torchTT", "tntorch", "teneva"],
        [34, 10, 20, 20, 20],
    )
    for d, n, r in ((30, 2, 4), (30, 2, 16), (30, 2, 32), (160, 2, 4), (10, 10, 16)):
        W = TTTensor.random((n,) * d, 2 * r, seed=0)
        W = W / W.norm()
        own = {
            "round": lambda W=W, r=r: without_caches(W).round(rank=r),
            "dot": lambda W=W: without_caches(W).inner(without_caches(W)),
            "norm": lambda W=W: without_caches(W).norm(),
        }
        others = rivals.tt_libraries(W.to_cores(), r, failed)
        for what, call in own.items():
            cases = {name: library[what] for name, library in others.items()}
            times = best_times({"ttexm": call} | cases, rounds=3, seconds=0.1)
            cells = [
                f"{1e3 * times[name]:.3f} ({times[name] / times['ttexm']:.1f}x)"
                if name in times else "not installed"
                for name in ("torchTT", "tntorch", "teneva")
            ]  # fmt: skip
            ahead = all(times[name] > times["ttexm"] for name in cases)
            table.add(
                f"{what}, d={d} n={n} rank {2 * r}" + (f" to {r}" if what == "round" else "")
                + ("" if ahead else "  BEHIND"),
                f"{1e3 * times['ttexm']:.3f}", *cells, what=what, d=d, n=n, rank=2 * r, **times,
            )  # fmt: skip
    return table


def start_up():
    first = (
        "import time; t = time.perf_counter(); import numpy as np, ttexm; a = time.perf_counter()\n"
        "W = ttexm.TTTensor.random((2,) * 30, 8, seed=0)\n"
        "batch = ttexm.RankOneBatch.from_columns(np.ones((100, 30)))\n"
        "b = time.perf_counter(); W.contract(batch); print(a - t, time.perf_counter() - b)"
    )
    runs = []
    for _ in range(6):
        run = subprocess.run(
            [sys.executable, "-c", first], capture_output=True, text=True, check=True
        )
        runs.append([float(number) for number in run.stdout.split()])
    seconds = np.min(runs[1:], axis=0)
    table = Table("Start-up, warm cache", ["", "s", "bar"], [26, 10, 22])
    for what, value, bar in (
        ("import ttexm", seconds[0], 1.0),
        ("first contract", seconds[1], 0.6),
    ):
        table.add(what, f"{value:.3f}", f"{'<' if value < bar else 'ABOVE'} {bar:g}", seconds=value)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a first look")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the tables; no file")
    arguments = parser.parse_args()
    quick = arguments.quick
    warnings.filterwarnings("ignore")
    failed = rivals.install(rivals.TENSOR_TRAINS)
    machine = describe_machine("jax", "torch", "torchTT", "tntorch", "teneva")
    print(
        "ttexm",
        ttexm.__version__,
        *(f"{name} {value}" for name, value in machine.items()),
        sep=" | ",
    )
    for name, reason in failed.items():
        print(f"{name} could not be installed: {reason}")
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if cores and "jax" not in failed:
        # XLA's threads inherit the one core that is allowed when they start.
        os.sched_setaffinity(0, {min(cores)})
        import jax

        jax.numpy.ones(3).block_until_ready()
        os.sched_setaffinity(0, cores)
    ttexm.set_num_threads(1)
    for dtype in (np.float64, np.float32):
        rate = 1e8 / best_times({0: peak(1e8, dtype)}, rounds=5)[0]
        print(f"peak of one core, {np.dtype(dtype)}: {rate / 1e9:.1f} GF/s of fused multiply-adds")
    benchmarks = {
        "inference": partial(inference, quick, failed),
        "two_threads": partial(two_threads, quick),
        "gradient": partial(gradient, failed),
        "small_gradient": small_gradient,
        "retraction": retraction,
        "tt_algebra": partial(tt_algebra, failed),
        "start_up": start_up,
    }
    tables = [benchmarks[name]() for name in arguments.only or benchmarks]
    if arguments.only:
        return
    write_results(RESULTS, machine, tables)


if __name__ == "__main__":
    main()
