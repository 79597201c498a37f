"""Every CUDA kernel goes through NVVM and ptxas: what it takes of a GPU, without one."""

from types import SimpleNamespace

import pytest

from benchmarks import cuda_build
from benchmarks.occupancy import MULTIPROCESSORS, occupancy

# Most registers per thread, on any capability, by kernel, padded rank and dtype: in steps of 8, as
# registers are allocated. From `python -m benchmarks.cuda_resources --ceilings`.
CEILINGS = {
    ("orthogonalize", None, "float64"): 128,
    ("mirror", None, "float64"): 56,
    ("fix_gauge", None, "float64"): 64,
    ("project", None, "float64"): 144,
    ("retract_from_right", None, "float64"): 168,
    ("retract_from_left", None, "float64"): 208,
    ("partials", 4, "float32"): 120,
    ("deltas", 4, "float32"): 120,
    ("partials", 8, "float32"): 160,
    ("deltas", 8, "float32"): 128,
    ("partials", 16, "float32"): 144,
    ("deltas", 16, "float32"): 120,
    ("partials", 32, "float32"): 136,
    ("deltas", 32, "float32"): 144,
    ("partials", 64, "float32"): 136,
    ("deltas", 64, "float32"): 120,
    ("partials", 4, "float64"): 160,
    ("deltas", 4, "float64"): 152,
    ("partials", 8, "float64"): 168,
    ("deltas", 8, "float64"): 128,
    ("partials", 16, "float64"): 160,
    ("deltas", 16, "float64"): 128,
    ("partials", 32, "float64"): 152,
    ("deltas", 32, "float64"): 160,
    ("partials", 64, "float64"): 152,
    ("deltas", 64, "float64"): 128,
    ("clear", None, "float32"): 32,
    ("pad", None, "float32"): 48,
    ("finish", None, "float32"): 64,
    ("dot", None, "float32"): 40,
    ("expand", None, "float32"): 40,
    ("squares", None, "float32"): 32,
    ("gather", None, "float32"): 40,
    ("clear", None, "float64"): 32,
    ("pad", None, "float64"): 48,
    ("finish", None, "float64"): 64,
    ("dot", None, "float64"): 40,
    ("expand", None, "float64"): 40,
    ("squares", None, "float64"): 32,
    ("gather", None, "float64"): 40,
    ("group", None, "int32"): 48,
}

# Sums in an order that differs from run to run, and what the simulator cannot execute.
FORBIDDEN = {"atom", "red", "shfl", "vote", "match", "redux", "activemask", "elect"}


def build_all(module):
    try:
        cuda_build.find_ptxas()
    except RuntimeError as error:
        pytest.skip(str(error))
    return cuda_build.build_all(module)


@pytest.fixture(scope="module")
def builds():
    return build_all(cuda_build.KERNELS)


def those(builds, condition):
    return [str(build) for build in builds if condition(build)]


@pytest.mark.slow
def test_every_variant_is_compiled_for_every_capability(builds):
    found = [(build.name, build.rank, build.dtype, build.capability) for build in builds]
    wanted = [(*key, capability) for key in CEILINGS for capability in MULTIPROCESSORS]
    assert sorted(found, key=str) == sorted(wanted, key=str)


@pytest.mark.slow
def test_the_target_is_the_capability(builds):
    assert not those(builds, lambda b: b.target != "sm_{}{}".format(*b.capability))


@pytest.mark.slow
def test_nothing_is_kept_on_the_stack(builds):
    assert not those(builds, lambda b: b.stack or b.spill_stores or b.spill_loads)


@pytest.mark.slow
def test_shared_memory_needs_no_opt_in(builds):
    assert not those(builds, lambda b: b.shared > 48 << 10)


@pytest.mark.slow
def test_registers_stay_below_their_ceilings(builds):
    above = {
        str(build): build.registers
        for build in builds
        if build.registers > CEILINGS.get((build.name, build.rank, build.dtype), 0)
    }
    assert above == {}


@pytest.mark.slow
def test_a_block_fits_into_a_multiprocessor(builds):
    def is_too_large(b):
        return occupancy(b.capability, b.threads, b.registers, b.shared).blocks < 1

    assert not those(builds, is_too_large)


@pytest.mark.slow
def test_there_are_no_atomics_and_no_warp_operations(builds):
    assert not those(builds, lambda b: b.opcodes & FORBIDDEN)


@pytest.mark.slow
def test_faults_are_seen():
    builds = build_all("faulty_kernels")
    assert len(builds) == 4 * len(cuda_build.CAPABILITIES)
    for build in builds:
        assert (build.opcodes & FORBIDDEN == set()) == (build.name in ("on_the_stack", "sound"))
        assert (build.stack > 0) == (build.name == "on_the_stack")
        assert build.shared == 1024 + (512 if build.name == "sound" else 0)


def test_the_log_of_ptxas_is_read_whole():
    log = """
ptxas info    : 8 bytes gmem
ptxas info    : Compiling entry function '_Z1k' for 'sm_80'
ptxas info    : Function properties for _Z1k
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Function properties for _Z1f
    8 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 92 registers, used 1 barriers, 9 bytes smem, 528 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 31.682 ms
"""
    assert cuda_build.parse_log(log) == {
        "registers": 92,
        "barriers": 1,
        "shared": 9,
        "constant": 536,
        "stack": 24,
        "spill_stores": 12,
        "spill_loads": 24,
    }


def test_opcodes_are_those_of_instructions():
    ptx = """
.visible .entry _Z1k(
	.param .u64 red_0
)
{
	.reg .pred 	%p<2>;
	ld.param.u64 	%rd1, [red_0];
$L__BB0_1:
	@%p1 bra 	$L__BB0_1;
	@!%p1 atom.global.add.f64 	%fd1, [%rd1], %fd2; // vote
	call.uni (retval0),
	sqrt,
	(
	param0
	);
	ret;
}
"""
    assert cuda_build.parse_opcodes(ptx) == {"ld", "bra", "atom", "call", "ret"}


def test_ptxas_is_looked_for_beside_nvvm_of_both_layouts(tmp_path):
    for nvvm in ("cu13/lib/libnvvm.so.4", "cuda_nvcc/nvvm/lib64/libnvvm.so"):
        ptxas = tmp_path / nvvm.split("/")[0] / "bin" / "ptxas"
        with pytest.raises(RuntimeError, match=r"no ptxas beside .*; (pip )?install .*nvcc"):
            cuda_build.ptxas_beside(tmp_path / nvvm)
        ptxas.parent.mkdir(parents=True)
        ptxas.touch(mode=0o755)
        assert cuda_build.ptxas_beside(tmp_path / nvvm) == str(ptxas)


def test_an_nvvm_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(cuda_build, "_ptxas", lambda: ("/bin/ptxas", "13.3"))
    with pytest.raises(RuntimeError, match=r"NVVM is of CUDA 13\.4, /bin/ptxas of CUDA 13\.3: "):
        cuda_build.assemble("// Cuda compilation tools, release 13.4, V13.4.92", (8, 0))


def test_the_simulator_compiles_nothing(monkeypatch):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    with pytest.raises(RuntimeError, match="NUMBA_ENABLE_CUDASIM is set"):
        cuda_build.find_ptxas()


def test_a_kernel_that_does_not_compile_is_named(monkeypatch):
    def lower(variant, capability):
        raise ValueError("no such type")

    monkeypatch.setattr(cuda_build, "_lower", lower)
    variant = SimpleNamespace(name="k", rank=8, dtype="float32")
    with pytest.raises(RuntimeError, match="k, rank 8, float32 does not compile: no such type"):
        cuda_build.build(variant)


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks"),
    [
        # 92 registers are 96 allocated: 5 warps of 3072 in each quarter of 16384, 20 warps.
        ((8, 0), 128, 92, 16384, 5),
        # 17 KB with the driver's share: 164 // 17.
        ((8, 0), 128, 32, 16384, 9),
        ((7, 5), 128, 32, 16384, 4),  # 64 // 16
        ((9, 0), 128, 32, 16384, 13),  # 228 // 17
        ((9, 0), 128, 32, 0, 16),  # 2048 threads
        ((7, 5), 128, 32, 0, 8),  # 1024 threads
        ((9, 0), 32, 16, 0, 32),  # at most 32 blocks
        ((10, 0), 256, 255, 0, 1),  # 8 warps of 8192: all 65536
        ((10, 0), 288, 255, 0, 0),  # 9 warps of 8192 are too many
        # 14 warps of 4608 would fit into 65536, but only 3 into a quarter: 12 // 7.
        ((8, 0), 224, 144, 0, 1),
    ],
)
def test_occupancy_is_that_of_a_count_by_hand(capability, threads, registers, shared, blocks):
    held = occupancy(capability, threads, registers, shared)
    assert held.blocks == blocks
    assert held.warps == blocks * -(-threads // 32)
    assert held.share == held.warps * 32 / MULTIPROCESSORS[capability].threads
