"""How things are timed: in turns, many times, the best of all counts; and the machine's peak."""

import json
import os
import platform
import sys
import time
from functools import cache, partial
from importlib import metadata
from pathlib import Path

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from ttexm import TTTensor
from ttexm.kernels.compilation import VECTOR_BYTES
from ttexm.tt.scaled_train import ScaledTrain


def best_times(cases: dict, rounds: int = 24, seconds: float = 0.06) -> dict:
    """Seconds of the best call of each case; cases take turns, so that noise hits all alike."""
    for call in cases.values():
        call()
    best = dict.fromkeys(cases, np.inf)
    for _ in range(rounds):
        for name, call in cases.items():
            until = time.perf_counter() + seconds
            while True:
                start = time.perf_counter()
                call()
                end = time.perf_counter()
                best[name] = min(best[name], end - start)
                if end > until:
                    break
    return best


def exponent(sizes, seconds) -> float:
    """Slope of the least squares line of log(seconds) over log(sizes)."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@cache
def fma_loop(dtype, accumulators=12):
    """A kernel of nothing but fused multiply-adds in registers."""
    lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
    suffix = {8: "f64", 4: "f32"}[np.dtype(dtype).itemsize]
    number = numba.from_dtype(np.dtype(dtype))

    @intrinsic
    def run(typing, n, x):
        def codegen(context, builder, signature, args):
            n, x = args
            vector = ir.VectorType(x.type, lanes)
            fma = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(vector, [vector] * 3),
                f"llvm.fmuladd.v{lanes}{suffix}",
            )
            first = ir.IntType(32)(0)
            start = builder.insert_element(ir.Constant(vector, ir.Undefined), x, first)
            mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            start = builder.shuffle_vector(start, start, mask)
            entry, loop = builder.block, builder.append_basic_block()
            done = builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            i = builder.phi(n.type)
            sums = [builder.phi(vector) for _ in range(accumulators)]
            results = [builder.call(fma, [s, start, start]) for s in sums]
            following = builder.add(i, n.type(1))
            builder.cbranch(builder.icmp_signed("<", following, n), loop, done)
            i.add_incoming(n.type(0), entry)
            i.add_incoming(following, loop)
            for s, result in zip(sums, results, strict=True):
                s.add_incoming(start, entry)
                s.add_incoming(result, loop)
            builder.position_at_end(done)
            total = results[0]
            for result in results[1:]:
                total = builder.fadd(total, result)
            return builder.extract_element(total, first)

        return number(numba.types.intp, number), codegen

    @numba.njit(nogil=True)
    def kernel(n, x):
        return run(n, x)

    def call(n):
        return kernel(n, np.dtype(dtype).type(0.5))

    call.flops = 2 * accumulators * lanes
    return call


def peak(flops, dtype=np.float64):
    """A case for `best_times`: so many flops at the machine's peak.

    As many as the case beside it does: a burst of microseconds meets quiet moments that no longer
    computation has.
    """
    loop = fma_loop(dtype)
    return partial(loop, max(1, round(flops / loop.flops)))


def describe_machine(*packages) -> dict:
    """What the figures of a run depend on."""
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = lines[0].split(":")[1].strip() if lines else cpu
    versions = {}
    for package in ("numba", "numpy", *packages):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "vector_bytes": VECTOR_BYTES,
        "python": sys.version.split()[0],
        **versions,
    }


class Table:
    """Rows of a benchmark: printed as they come, kept for the file of results."""

    def __init__(self, title: str, columns: list[str], widths: list[int] | None = None):
        self.title, self.columns, self.rows = title, columns, []
        self.widths = widths or [max(12, len(name) + 2) for name in columns]
        print(f"\n{title}", flush=True)
        print("  " + self._line(columns))

    def _line(self, cells):
        return "".join(
            f"{cell:<{width}}" if i == 0 else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(cells, self.widths, strict=True))
        )

    def add(self, *cells, **numbers):
        self.rows.append(numbers)
        print("  " + self._line([str(cell) for cell in cells]), flush=True)


def write_results(path: Path, machine: dict, tables: list[Table], **others) -> None:
    """Write the rows of some tables as JSON, with a description of the machine."""
    path.parent.mkdir(exist_ok=True)
    results = {
        "machine": machine,
        **others,
        "tables": {table.title: table.rows for table in tables},
    }
    path.write_text(json.dumps(results, indent=1, default=float))
    print(f"\nwritten to {path}")


def verdict(value: float, bar: float, unit: str = "x") -> str:
    """A figure next to the bar it should reach."""
    return f"{value:.3g}{unit} ({'>=' if value >= bar else 'BELOW'} {bar:g})"


def without_caches(W):
    """The tensor again, without the norm and the gauges that are kept once computed."""
    return TTTensor.from_train(ScaledTrain(W.scaled_train.train, W.scaled_train.exponent))
