"""Registers, memory and occupancy of the CUDA kernels: ``python -m benchmarks.cuda_resources``.

Needs no GPU: kernels are compiled, and occupancy is NVIDIA's formula. Writes
benchmarks/results/cuda_resources.json. ``--ceilings`` prints the table of register ceilings that
tests/test_cuda_compile.py asserts.
"""

import argparse
from pathlib import Path

from .cuda_build import CAPABILITIES, KERNELS, Build, build_all
from .occupancy import occupancy
from .timing import Table, describe_machine, write_results

RESULTS = Path(__file__).parent / "results" / "cuda_resources.json"
REGISTERS_AT_ONCE = 8  # are given to a thread: 256 to a warp
MEASURED = ("registers", "barriers", "shared", "constant", "stack", "spill_stores", "spill_loads")


def by_variant(builds: list[Build]) -> dict:
    """Builds of each variant, by capability."""
    groups = {}
    for build in builds:
        groups.setdefault((build.name, build.rank, build.dtype), {})[build.capability] = build
    return groups


def ceilings(builds: list[Build]) -> dict:
    """Most registers of each variant on any capability, rounded up to what is allocated."""
    steps = {
        key: max(-(-build.registers // REGISTERS_AT_ONCE) for build in group.values())
        for key, group in by_variant(builds).items()
    }
    return {key: REGISTERS_AT_ONCE * count for key, count in steps.items()}


def resources(builds: list[Build]) -> Table:
    names = [".".join(map(str, capability)) for capability in CAPABILITIES]
    table = Table(
        "Resources of the CUDA kernels; by compute capability: "
        "registers per thread, blocks and warps per multiprocessor, occupancy",
        ["kernel", "rank", "dtype", "threads", "shared", "spilled", *names],
        [26, 6, 9, 9, 8, 9] + [20] * len(names),
    )
    for (name, rank, dtype), group in by_variant(builds).items():
        cells, numbers = [], {}
        for capability, build in group.items():
            held = occupancy(capability, build.threads, build.registers, build.shared)
            cells.append(f"{build.registers} {held.blocks:>3} {held.warps:>3} {held.share:>5.0%}")
            numbers[".".join(map(str, capability))] = {
                key: value for key, value in build._asdict().items() if key in MEASURED
            } | held._asdict()
        threads, shared = build.threads, max(build.shared for build in group.values())
        spilled = max(build.spill_stores + build.spill_loads for build in group.values())
        table.add(
            name, "-" if rank is None else rank, dtype, threads, shared, spilled, *cells,
            kernel=name, rank=rank, dtype=dtype, threads=threads, **numbers,
        )  # fmt: skip
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ceilings", action="store_true", help="print the test's table; no file")
    parser.add_argument("--processes", type=int, default=2, metavar="N")
    arguments = parser.parse_args()
    builds = build_all(KERNELS, processes=arguments.processes)
    if arguments.ceilings:
        for key, registers in ceilings(builds).items():
            print(f"    {key}: {registers},".replace("'", '"'))
        return
    machine = describe_machine("numba-cuda", "cuda-toolkit", "nvidia-nvvm", "nvidia-cuda-nvcc")
    print(*(f"{name} {value}" for name, value in machine.items()), sep=" | ")
    write_results(RESULTS, machine, [resources(builds)])


if __name__ == "__main__":
    main()
