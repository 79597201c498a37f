"""CUDA kernels compiled without a GPU: Python to PTX by NVVM, PTX to machine code by ptxas.

What ptxas says of them (registers, memory, spills) is asserted by tests/test_cuda_compile.py and
listed by benchmarks.cuda_resources. numba is imported only where a kernel is compiled, in processes
of their own: whoever asks stays free of CUDA.
"""

import multiprocessing
import os
import re
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache, partial
from importlib import import_module, metadata, util
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

KERNELS = "ttexm.kernels.cuda.device"  # has all_kernels()
CAPABILITIES = ((7, 5), (8, 0), (9, 0), (10, 0))


class Build(NamedTuple):
    """A variant of a kernel, compiled for one compute capability; memory in bytes."""

    name: str
    rank: int | None
    dtype: str
    threads: int
    capability: tuple[int, int]
    target: str  # as the PTX names it
    opcodes: frozenset  # of the PTX, without their types: "fma", "ld", "bar" ..
    registers: int
    barriers: int
    shared: int  # static, as ptxas says, and dynamic, as launched
    constant: int
    stack: int
    spill_stores: int
    spill_loads: int

    def __str__(self):
        return f"{describe(self)} for {'.'.join(map(str, self.capability))}"


def describe(variant):
    rank = "" if variant.rank is None else f", rank {variant.rank}"
    return f"{variant.name}{rank}, {variant.dtype}"


# -- the compilers ---------------------------------------------------------------------------------


def find_ptxas() -> str:
    """Path of the ptxas that belongs to the NVVM in use."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") != "0":
        raise RuntimeError("NUMBA_ENABLE_CUDASIM is set, and the simulator compiles nothing.")
    if util.find_spec("numba_cuda") is None:
        raise RuntimeError("numba-cuda is not installed; pip install 'numba-cuda[cu13]'.")
    from cuda import pathfinder

    try:
        nvvm = Path(pathfinder.load_nvidia_dynamic_lib("nvvm").abs_path)
    except pathfinder.DynamicLibNotFoundError:
        raise RuntimeError("NVVM is not installed; pip install 'numba-cuda[cu13]'.") from None
    return ptxas_beside(nvvm)


def ptxas_beside(nvvm: Path) -> str:
    # CUDA 13: nvidia/cu13/{lib/libnvvm.so.4, bin/ptxas}.
    # CUDA 12: nvidia/cuda_nvcc/{nvvm/lib64/libnvvm.so, bin/ptxas}; so do toolkits in /usr/local.
    folders = [str(parent / "bin") for parent in nvvm.parents[1:3]]
    found = shutil.which("ptxas", path=os.pathsep.join(folders))
    if found is None:
        try:
            advice = f"pip install 'nvidia-cuda-nvcc=={metadata.version('nvidia-nvvm')}'"
        except metadata.PackageNotFoundError:
            advice = "install nvcc of the same CUDA toolkit"
        raise RuntimeError(f"There is no ptxas beside {nvvm}; {advice}.")
    return found


def release(text):
    """Version of CUDA that a compiler gives of itself."""
    return re.search(r"release (\d+\.\d+)", text)[1]


@cache
def _ptxas():
    path = find_ptxas()
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return path, release(version.stdout)


def assemble(ptx: str, capability) -> str:
    """What `ptxas -v` says about PTX."""
    path, version = _ptxas()
    if release(ptx) != version:
        # An older ptxas refuses the PTX; with a newer one the figures would be of no installation.
        raise RuntimeError(
            f"NVVM is of CUDA {release(ptx)}, {path} of CUDA {version}: install packages "
            "nvidia-nvvm and nvidia-cuda-nvcc of one version."
        )
    command = [path, "-v", "-arch=sm_{}{}".format(*capability), "-o", os.devnull, "-"]
    done = subprocess.run(command, input=ptx, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stderr


# -- what they say ---------------------------------------------------------------------------------


def parse_log(log: str) -> dict:
    """Resources in the output of `ptxas -v` for one kernel; those of functions it calls count."""
    frames = re.findall(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log
    )
    (used,) = re.findall(r"Used (\d+) registers(.*)", log)

    def total(pattern):
        return sum(map(int, re.findall(pattern, used[1])))

    return {
        "registers": int(used[0]),
        "barriers": total(r"used (\d+) barriers"),
        "shared": total(r"(\d+) bytes smem"),
        "constant": total(r"(\d+) bytes cmem"),
        "stack": sum(int(frame[0]) for frame in frames),
        "spill_stores": sum(int(frame[1]) for frame in frames),
        "spill_loads": sum(int(frame[2]) for frame in frames),
    }


def parse_opcodes(ptx: str) -> frozenset:
    """Names of the instructions in PTX, up to the first dot."""
    pattern = r"^\s+(?:@!?%\w+\s+)?([a-z]\w*)(?:\.[\w.:]+)?[ \t;]"
    return frozenset(re.findall(pattern, ptx, re.MULTILINE))


# -- builds ----------------------------------------------------------------------------------------


def build(variant, capabilities=CAPABILITIES) -> list[Build]:
    """Compile a variant for some compute capabilities."""
    try:
        library = _lower(variant, min(capabilities))
        # ptxas works on one capability while NVVM goes on to the next.
        with ThreadPoolExecutor() as pool:
            made = []
            for capability in capabilities:
                (ptx,) = library.get_asm_strs(cc=capability)
                made.append((capability, ptx, pool.submit(assemble, ptx, capability)))
            return [_report(variant, *of_one) for of_one in made]
    except Exception as error:  # numba's own errors do not all survive the way between processes
        raise RuntimeError(f"{describe(variant)} does not compile: {error}") from error


def _report(variant, capability, ptx, log):
    found = parse_log(log.result())
    found["shared"] += variant.dynamic_shared
    return Build(
        variant.name, variant.rank, variant.dtype, variant.threads, capability,
        target=re.search(r"^\.target (\w+)", ptx, re.MULTILINE)[1],
        opcodes=parse_opcodes(ptx),
        **found,
    )  # fmt: skip


def _lower(variant, capability):
    """LLVM code of a kernel, made as `cuda.compile_ptx` makes it, in a library that emits PTX.

    It serves all capabilities: numba looks at the capability only for atomics before 6.0 and for
    tanh in fast-math before 7.5. For a kernel of tiles this takes 2 s, and NVVM and ptxas 1 s for
    each capability.
    """
    from numba.cuda import compiler, dispatcher

    # Device functions that a kernel calls are compiled for the current device, and there is none.
    device = SimpleNamespace(compute_capability=capability)
    with mock.patch.object(dispatcher, "get_current_device", return_value=device):
        library, _ = compiler._compile_pyfunc_with_fixup(
            variant.function, variant.signature, device=False, abi="numba", cc=capability,
            launch_bounds=variant.launch_bounds,
        )  # fmt: skip
    return library


def build_all(module=KERNELS, capabilities=CAPABILITIES, processes=2) -> list[Build]:
    """Compile all kernels of a module: those of its `all_kernels()`."""
    find_ptxas()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        count = pool.submit(_count, module).result()
        parts = pool.map(partial(_build_one, module, capabilities), range(count))
        return [made for part in parts for made in part]


@cache
def _variants(module):
    # Functions made by factories cannot be sent to a process: each makes its own.
    return list(import_module(module).all_kernels())


def _count(module):
    return len(_variants(module))


def _build_one(module, capabilities, index):
    return build(_variants(module)[index], capabilities)
