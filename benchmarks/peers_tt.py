"""The work of a Riemannian step, against other TT libraries: ``python -m benchmarks.peers_tt``.

Everything on one thread, in float64, from the cores of W: what ttexm keeps of a point is forgotten
before each call. All libraries compute the same from the same numbers (checked to 1e-6 before they
are timed), each in the fastest of several forms; `benchmarks.peers` says which those are. Writes
benchmarks/results/peers_tt.json.
"""

import argparse
import importlib
import warnings
from pathlib import Path

from .one_thread import use_one_thread

use_one_thread()

import numpy as np  # noqa: E402

import ttexm  # noqa: E402
from ttexm import Manifold, RankOneBatch, TTTensor  # noqa: E402

from . import rivals  # noqa: E402
from .peers import PEERS, T3F, Problem  # noqa: E402
from .timing import (  # noqa: E402
    Table,
    best_times,
    describe_machine,
    verdict,
    without_caches,
    write_results,
)

RESULTS = Path(__file__).parent / "results" / "peers_tt.json"
SIZES = ((100, 21, 4), (500, 21, 4), (1382, 21, 4), (1000, 30, 16))
INFERENCE = ((1382, 21, 4), (100_000, 30, 4), (100_000, 30, 16))
QUICK = ((20, 6, 3),)
LENGTH = 0.01  # of a step, as a part of |W|; different roundings differ by more than 1e-6 at 0.1
TOLERANCE = 1e-6


class Own:
    """ttexm on a problem: calls by operation, and their results as arrays."""

    def __init__(self, m, d, r):
        rng = np.random.default_rng(0)
        x, self.y = rng.standard_normal((m, d)), rng.standard_normal(m)
        self.g = rng.standard_normal(m)
        self.manifold, self.batch = Manifold((2,) * d, r), RankOneBatch.from_columns(x)
        # Cores without orthogonality, as a library gets them from anywhere.
        W = TTTensor.random((2,) * d, self.manifold.ranks, seed=0)
        W = W / W.norm()
        self.W, self.step_size = W, 1.0
        self.step_size = LENGTH / self.gradient().norm()
        Z = TTTensor.random(W.shape, self.manifold.ranks, seed=1)
        # Of rank 2 r, and near rank r: there all ways of rounding agree.
        self.wide = W + (1e-7 / Z.norm()) * Z
        cores = W.to_cores()
        self.problem = Problem(cores, x, self.y, self.g, self.step_size, self.wide.to_cores(), r)

    def new_point(self):
        """W, where nothing about it is known yet."""
        return without_caches(self.W)

    def gradient(self, W=None):
        scale, y = -self.step_size / len(self.y), self.y
        return self.manifold.gradient(W or self.new_point(), self.batch, lambda f: scale * (f - y))

    def projection(self):
        return self.manifold.project(self.new_point(), self.batch, self.g)

    def step(self):
        W = self.new_point()
        return self.manifold.retract(W, self.gradient(W))

    def rounding(self):
        return without_caches(self.wide).round(rank=self.problem.rank)

    def inference(self):
        return self.new_point().contract(self.batch)


def difference(own, other) -> float:
    """Relative distance of a peer's result to ttexm's."""
    if isinstance(own, np.ndarray):
        return np.linalg.norm(own - other) / np.linalg.norm(own)
    own = own if isinstance(own, TTTensor) else own.to_tensor()
    return (own - TTTensor([np.ascontiguousarray(core) for core in other])).norm() / own.norm()


def fastest_form(forms, wanted):
    """The fastest of those forms that work, its name, and what is wrong with the others."""
    right, wrong = {}, {}
    for name, form in forms.items():
        try:
            far = difference(wanted, form.read(form.call()))
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
            continue
        if far < TOLERANCE:
            right[name] = form.call
        else:
            wrong[name] = f"differs by {far:.1e}"
    times = best_times(right, rounds=3, seconds=0.02)
    name = min(times, key=times.get, default=None)
    return name, right.get(name), wrong


class Comparison:
    """Rows of one table: an operation at a size, ttexm's time and the peers'."""

    def __init__(self, peers, rounds):
        self.peers, self.rounds, self.forms, self.wrong = peers, rounds, {}, {}
        names = [peer.name for peer in PEERS]
        self.table = Table(
            "Riemannian steps and their parts, ms; in brackets how many times faster ttexm is",
            ["", "ttexm", *names, "least"], [42, 10, *([18] * len(names)), 18],
        )  # fmt: skip

    def add(self, what, own, others, m, d, r, bar):
        call = getattr(own, what)
        wanted = call()
        cases, forms = {}, {}
        for name, peer in others.items():
            forms[name], fast, wrong = fastest_form(getattr(peer, what)(), wanted)
            for form, reason in wrong.items():
                self.wrong[f"{name}, {what} by {form}"] = reason
            if fast:
                cases[name] = fast
                self.forms.setdefault((what, name), set()).add(forms[name])
        times = best_times({"ttexm": call} | cases, rounds=self.rounds)
        ratios = {name: times[name] / times["ttexm"] for name in cases}
        least = min(ratios.values(), default=np.nan)
        cells = [
            f"{1e3 * times[peer.name]:.3f} ({ratios[peer.name]:.1f}x)"
            if peer.name in times else "fails" if peer.name in others else "-"
            for peer in PEERS
        ]  # fmt: skip
        size = f"d = {d}, r = {r}" if what == "rounding" else f"M = {m}, d = {d}, r = {r}"
        self.table.add(
            f"{what}, {size}", f"{1e3 * times['ttexm']:.3f}", *cells, verdict(least, bar),
            what=what, m=m, d=d, rank=r, seconds=times, ratios=ratios, least=least, bar=bar,
            forms=forms,
        )  # fmt: skip

    def explain(self):
        print("\nForms that were fastest:")
        for (what, name), forms in self.forms.items():
            print(f"  {what}, {name}: {'; '.join(sorted(forms))}")
        if self.wrong:
            print("Forms that were left out:")
            for form, reason in self.wrong.items():
                print(f"  {form}: {reason}")


def usable(failed):
    """Peers that can be imported; of the others, `failed` says why not."""
    peers = []
    for peer in PEERS:
        try:
            importlib.import_module(peer.module)
            peers.append(peer)
        except Exception as error:
            failed.setdefault(peer.module, f"{type(error).__name__}: {error}")
    return peers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see it run; no file")
    names = [peer.name for peer in PEERS]
    parser.add_argument("--peers", nargs="+", choices=names, help="some of them; no file")
    parser.add_argument("--installed", action="store_true", help="install nothing")
    arguments = parser.parse_args()
    quick = arguments.quick
    warnings.filterwarnings("ignore")
    failed = {} if arguments.installed else rivals.install(rivals.PEERS)
    machine = describe_machine(
        "tensorflow", "t3f", "torch", "torchTT", "tntorch", "teneva", "ttml", "ttexm"
    )
    peers = [peer for peer in usable(failed) if peer.name in (arguments.peers or names)]
    print(*(f"{name} {value}" for name, value in machine.items()), sep=" | ")
    for name, reason in failed.items():
        print(f"{name} cannot be used: {reason}")
    if quick:
        T3F.compilers = ("graph",)
    ttexm.set_num_threads(1)
    comparison = Comparison(peers, rounds=2 if quick else 16)
    sizes = QUICK if quick else SIZES
    rounded = {(d, r): m for m, d, r in sizes}  # once for each, whatever M
    for m, d, r in sizes:
        own = Own(m, d, r)
        others = {peer.name: peer(own.problem) for peer in peers}
        comparison.add("projection", own, others, m, d, r, bar=1)
        comparison.add("step", own, others, m, d, r, bar=10 if d == 21 else 5)
        if rounded[d, r] == m:
            comparison.add("rounding", own, others, m, d, r, bar=1)
    for m, d, r in QUICK if quick else INFERENCE:
        own = Own(m, d, r)
        others = {peer.name: peer(own.problem) for peer in peers}
        comparison.add("inference", own, others, m, d, r, bar=1)
    comparison.explain()
    if quick or arguments.peers:
        return
    write_results(RESULTS, machine, [comparison.table], failed=failed, wrong=comparison.wrong)


if __name__ == "__main__":
    main()
