"""Least time of the CUDA kernels on two GPUs, by their published peaks.

    python -m benchmarks.cuda_roofline --samples 100000 --modes 30 --rank 8 --size 2

Counted are the flops of the textbook, two for a multiply-add, and each number that goes to or comes
from memory once: a kernel that takes the least time moves nothing twice. The kernels over samples
pad ranks to R = 4, 8, 16, 32 or 64, also where the manifold's ranks are smaller, near the ends. The
retraction is one block, so that one multiprocessor works on it, and in float64 always.

Where there is a GPU, times are measured too. Writes benchmarks/results/cuda_roofline.json.
"""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ttexm import Manifold, RankOneBatch

from .timing import Table, best_times, describe_machine, write_results

RESULTS = Path(__file__).parent / "results" / "cuda_roofline.json"
PADDED_RANKS = (4, 8, 16, 32, 64)


class Chip(NamedTuple):
    """Peaks of a GPU: flops per second by dtype, without tensor cores, and bytes per second."""

    name: str
    device: str  # how the driver names it
    float64: float
    float32: float
    bandwidth: float
    multiprocessors: int


CHIPS = (
    # NVIDIA A100 Tensor Core GPU datasheet (nvidia-1758950-r4), column A100 80GB SXM: FP64 9.7,
    # FP32 19.5 TFLOPS; 2,039 GB/s. 108 SMs: NVIDIA A100 Tensor Core GPU Architecture (whitepaper,
    # 2020).
    Chip("A100", "NVIDIA A100-SXM4-80GB", 9.7e12, 19.5e12, 2.039e12, 108),
    # NVIDIA H100 Tensor Core GPU datasheet, column H100 SXM: FP64 34, FP32 67 teraFLOPS; 3.35 TB/s.
    # 132 SMs: NVIDIA H100 Tensor Core GPU Architecture (whitepaper, 2022), column SXM5.
    Chip("H100", "NVIDIA H100 80GB HBM3", 34e12, 67e12, 3.35e12, 132),
)


class Work(NamedTuple):
    """What a computation does, at least: arithmetic and numbers moved."""

    flops: int
    numbers: int


# -- counts ----------------------------------------------------------------------------------------


def padded_ranks(d, r):
    """Ranks that the kernels over samples work with."""
    R = next(R for R in PADDED_RANKS if r <= R)
    return (1, *[R] * (d - 1), 1)


def _squares(ranks):
    return [ranks[k] * ranks[k + 1] for k in range(len(ranks) - 1)]


def contraction(m, n, ranks) -> Work:
    """f(x_s) of m samples: v <- v sum_i phi_i G[i], core after core."""
    squares = _squares(ranks)
    x = m * (n - 1) * len(squares)  # the constant function is not stored
    return Work(2 * m * n * sum(squares), x + n * sum(squares) + m)


def gradient(m, n, ranks) -> Work:
    """Right partial products, down to f, then left ones and deltas for given g = d loss / d f."""
    squares = _squares(ranks)
    # One product with each core of the right gauge, of the deltas, of the left gauge but its last.
    cores = n * (3 * sum(squares) - squares[-1])
    x, partials = m * (n - 1) * len(squares), 2 * m * sum(ranks[1:-1])
    return Work(2 * m * cores, x + 2 * partials + cores + 2 * m)  # partials are written and read


def retraction(n, ranks) -> Work:
    """W + xi, rounded, by the steps of `ttexm.kernels.retract` that are needed in every run."""
    d, adds = len(ranks) - 1, 0
    extra = [0] * (d + 1)
    for k in range(d - 1, 0, -1):
        r0, r1 = ranks[k], ranks[k + 1]
        w = r1 + extra[k + 1]
        extra[k] = min(r0, n * w - r0)
        # U [X Y]; its part along V, which is taken out; the rest, made orthonormal.
        adds += n * r0 * r1 * w + n * r0 * r0 * r1
        if extra[k]:
            adds += n * r0 * r0 * r1 + _householder(n * w, extra[k])
    for k in range(d):
        r0, r1 = ranks[k], ranks[k + 1]
        w = r1 + extra[k + 1]
        adds += n * r1 * w if k == 0 else n * r0 * (r1 * r0 + w * extra[k])
        if k < d - 1 and n * r0 > r1:
            # One step of subspace iteration, and what it leaves for the next core.
            adds += _householder(n * r0, r1) + r1 * n * r0 * w
    # Two gauges and the deltas are read, one train is written.
    return Work(2 * adds, 4 * n * sum(_squares(ranks)))


def _householder(p, q):
    """Multiply-adds of the reflections that make R and Q of a (p, q) matrix, p >= q."""
    return sum(2 * (p - j) * (q - 1 - j + q - j) for j in range(q))


# -- bounds ----------------------------------------------------------------------------------------


class Case(NamedTuple):
    what: str
    dtype: str
    work: Work
    itemsize: int
    is_one_block: bool

    @property
    def bytes(self):
        return self.work.numbers * self.itemsize

    def bounds(self, chip: Chip) -> dict:
        """Least seconds by each of a chip's peaks."""
        share = 1 / chip.multiprocessors if self.is_one_block else 1
        peak = chip.float64 if self.itemsize == 8 else chip.float32
        return {
            "arithmetic": self.work.flops / (share * peak),
            "memory": self.bytes / chip.bandwidth,
        }


def make_cases(m, d, r, n) -> list[Case]:
    ranks, cases = padded_ranks(d, r), []
    for dtype in ("float64", "float32"):
        itemsize = np.dtype(dtype).itemsize
        of_manifold = retraction(n, Manifold((n,) * d, r).ranks)
        cases += [
            Case("contraction", dtype, contraction(m, n, ranks), itemsize, False),
            Case("gradient", dtype, gradient(m, n, ranks), itemsize, False),
            Case("retraction", dtype, of_manifold, 8, True),
        ]
    return cases


# -- measurement -----------------------------------------------------------------------------------


def find_gpu() -> str | None:
    """Name of the GPU, if there is one; the simulator is none."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") != "0":
        return None
    try:
        from numba import cuda

        if not cuda.is_available():
            return None
    except ImportError:
        return None
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else name


def measure(m, d, r, n, dtype) -> dict:
    """Seconds of the best call of each computation, through the public API, data on the device."""
    rng = np.random.default_rng(0)
    columns = [rng.standard_normal((m, n - 1)) for _ in range(d)]
    batch = RankOneBatch.from_columns(columns, dtype=dtype).to("cuda")
    manifold = Manifold((n,) * d, r, device="cuda")
    W = manifold.random_point(seed=0, dtype=np.dtype(dtype))
    xi = 0.01 * manifold.random_tangent(W, seed=1)
    return best_times(
        {
            "contraction": partial(W.contract, batch),
            "gradient": partial(manifold.gradient, W, batch, np.ones(m)),
            "retraction": partial(manifold.retract, W, xi),
        }
    )


# -- tables ----------------------------------------------------------------------------------------


def roofline(cases: list[Case], title) -> Table:
    table = Table(
        f"Least time, ms: {title}",
        ["", "dtype", "Gflop", "MB", *(f"{chip.name}, bound by" for chip in CHIPS)],
        [16, 9, 12, 12] + [24] * len(CHIPS),
    )
    for case in cases:
        cells, numbers = [], {}
        for chip in CHIPS:
            bounds = case.bounds(chip)
            by = max(bounds, key=bounds.get)
            cells.append(f"{1e3 * bounds[by]:.4g} {by:>11}")
            numbers[chip.name] = bounds | {"seconds": bounds[by], "by": by}
        table.add(
            case.what, case.dtype, f"{case.work.flops / 1e9:.4g}", f"{case.bytes / 1e6:.4g}",
            *cells, what=case.what, dtype=case.dtype, flops=case.work.flops, bytes=case.bytes,
            **numbers,
        )  # fmt: skip
    return table


def measured(cases: list[Case], gpu: str, title, sizes) -> Table:
    # Not by "A100": that of 40 GB and those for PCIe have other peaks.
    chip = next((chip for chip in CHIPS if chip.device == gpu), None)
    against = f"share of the bound of {chip.name}" if chip else "share"
    table = Table(f"Measured on {gpu}: {title}", ["", "dtype", "ms", against], [16, 9, 12, 30])
    times = {dtype: measure(*sizes, dtype) for dtype in ("float64", "float32")}
    for case in cases:
        seconds = times[case.dtype][case.what]
        share = max(case.bounds(chip).values()) / seconds if chip else None
        table.add(
            case.what, case.dtype, f"{1e3 * seconds:.4g}",
            f"{share:.1%}" if chip else "its peaks are not listed here",
            what=case.what, dtype=case.dtype, seconds=seconds, share=share,
        )  # fmt: skip
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000, metavar="N")
    parser.add_argument("--modes", type=int, default=30, metavar="d")
    parser.add_argument("--rank", type=int, default=8, metavar="r")
    parser.add_argument("--size", type=int, default=2, metavar="n", help="of a mode")
    arguments = parser.parse_args()
    sizes = m, d, r, n = arguments.samples, arguments.modes, arguments.rank, arguments.size
    if r > PADDED_RANKS[-1]:
        parser.error(f"--rank must be at most {PADDED_RANKS[-1]}, got {r}")
    machine = describe_machine("numba-cuda")
    title = f"N = {m}, d = {d}, r = {r}, n = {n}"
    cases = make_cases(*sizes)
    tables = [roofline(cases, title)]
    gpu = find_gpu()
    if gpu:
        tables.append(measured(cases, gpu, title, sizes))
    else:
        print("\nNothing is measured: numba finds no GPU here.")
    write_results(RESULTS, machine, tables)


if __name__ == "__main__":
    main()
