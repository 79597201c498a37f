"""How many blocks of a kernel a multiprocessor of a GPU holds, by NVIDIA's formula."""

from typing import NamedTuple

WARP = 32
PARTITIONS = 4  # of a multiprocessor, each with its share of the registers
REGISTER_STEP = 256  # registers are given to a warp in such steps


class Multiprocessor(NamedTuple):
    """What a multiprocessor has to give; bytes where it is memory."""

    threads: int
    blocks: int
    shared: int
    shared_step: int
    reserved: int  # shared memory that the driver takes for itself in every block
    registers: int = 65536


# Limits: table "Technical Specifications per Compute Capability" of the CUDA programming guide, and
# cuda/__device/arch_traits.h of the wheel nvidia-cuda-cccl 13.3. Steps, partitions and the formula:
# cuda_occupancy.h of the wheel nvidia-cuda-runtime 13.4.
MULTIPROCESSORS = {
    (7, 5): Multiprocessor(1024, 16, 64 << 10, 256, 0),
    (8, 0): Multiprocessor(2048, 32, 164 << 10, 128, 1024),
    (9, 0): Multiprocessor(2048, 32, 228 << 10, 128, 1024),
    (10, 0): Multiprocessor(2048, 32, 228 << 10, 128, 1024),
}


class Occupancy(NamedTuple):
    """What runs at once on a multiprocessor; `share` is of the warps it could hold."""

    blocks: int
    warps: int
    share: float


def occupancy(capability, threads: int, registers: int, shared: int) -> Occupancy:
    """Return the occupancy of a kernel of so many threads a block and registers a thread.

    All shared memory that can be had is assumed to be taken from the cache. Zero blocks: the kernel
    cannot be launched.
    """
    limits = MULTIPROCESSORS[capability]
    warps = _steps(threads, WARP)
    of_warp = REGISTER_STEP * _steps(registers * WARP, REGISTER_STEP)
    memory = limits.shared_step * _steps(shared + limits.reserved, limits.shared_step)
    # The hardware's check of a launch takes all partitions to be filled alike.
    if of_warp * PARTITIONS * _steps(warps, PARTITIONS) > limits.registers:
        return Occupancy(0, 0, 0.0)
    by_registers = limits.registers // PARTITIONS // of_warp * PARTITIONS // warps
    by_memory = limits.shared // memory if memory else limits.blocks
    blocks = min(limits.blocks, limits.threads // WARP // warps, by_registers, by_memory)
    return Occupancy(blocks, blocks * warps, blocks * warps * WARP / limits.threads)


def _steps(amount, step):
    return -(-amount // step)
