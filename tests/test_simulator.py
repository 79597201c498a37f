"""A kernel's faults are seen, in any order of its threads; without the fault it passes."""

import itertools
import math
import re
import types

import numpy as np
import pytest
from devices import IS_SIMULATED
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

if not IS_SIMULATED:
    pytest.skip("needs the CUDA simulator: NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)
pytest.importorskip("numba_cuda")

from numba import boolean, config, cuda, float32, float64, int32, int64
from simulator import BoundsError, DivergenceError, RaceError, Simulator, UnwrittenError

ORDERS = ["ascending", "descending", "shuffled"]
T = 8  # threads of a block, and elements of most arrays


@pytest.fixture(params=ORDERS, autouse=True, scope="module")
def order(request):
    with Simulator(order=request.param):
        yield request.param


def zeros(n=T):
    return np.zeros(n)


# Races


@cuda.jit
def turn(a):
    t = cuda.threadIdx.x
    value = a[T - 1 - t]
    cuda.syncthreads()
    a[t] = value


@cuda.jit
def turn_without_barrier(a):
    t = cuda.threadIdx.x
    value = a[T - 1 - t]  # read
    a[t] = value  # write


def test_threads_with_a_barrier_between_do_not_race():
    a = np.arange(T)
    turn[1, T](a)
    assert_array_equal(a, np.arange(T)[::-1])


def test_a_dropped_barrier_is_a_race():
    with pytest.raises(RaceError) as error:
        turn_without_barrier[1, T](zeros())
    first = turn_without_barrier.py_func.__code__.co_firstlineno
    uses = re.findall(
        r"  thread (\d) of block 0 (reads|writes) argument 'a', element (\d)\n"
        r"    test_simulator.py:(\d+), in turn_without_barrier: .*  # (read|write)",
        str(error.value),
    )
    assert str(error.value).startswith("kernel 'turn_without_barrier': race\n")
    assert len(uses) == 2
    lines = {"reads": first + 3, "writes": first + 4}
    for thread, verb, e, line, comment in uses:
        assert verb == comment + "s"
        assert int(line) == lines[verb]
        assert e == (thread if verb == "writes" else str(T - 1 - int(thread)))
    assert uses[0][0] != uses[1][0]
    assert uses[0][2] == uses[1][2]
    assert {uses[0][1], uses[1][1]} != {"reads"}


@cuda.jit
def race_once(a):
    t = cuda.threadIdx.x
    is_new = a[t] == 0.0
    cuda.syncthreads()
    a[t] += 1.0
    cuda.syncthreads()
    if is_new:
        a[0] = 1.0


def test_a_race_is_found_again_from_what_the_arrays_held_before():
    race_once[1, T](np.ones(T))
    with pytest.raises(RaceError, match=r"element 0\n(?s:.*)element 0\n"):
        race_once[1, T](zeros())


@cuda.jit
def sum_of_shared(a, out):
    tile = cuda.shared.array(T, float64)
    t = cuda.threadIdx.x
    tile[t] = a[t]
    cuda.syncthreads()
    half = T // 2
    while half > 0:
        if t < half:
            tile[t] += tile[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[0] = tile[0]


@cuda.jit
def sum_of_shared_without_barrier(a, out):
    tile = cuda.shared.array(T, float64)
    t = cuda.threadIdx.x
    tile[t] = a[t]
    cuda.syncthreads()
    half = T // 2
    while half > 0:
        if t < half:
            tile[t] += tile[t + half]
        half //= 2
    if t == 0:
        out[0] = tile[0]


def test_shared_arrays_race_as_well():
    a, out = np.arange(T, dtype=float), zeros(1)
    sum_of_shared[1, T](a, out)
    assert out[0] == a.sum()
    match = r"shared array \(test_simulator.py:\d+, in sum_of_.*: tile = .*\), element \d\n"
    with pytest.raises(RaceError, match=match):
        sum_of_shared_without_barrier[1, T](a, out)


@cuda.jit
def same_value(a):
    a[0] = 1.0


def test_writes_of_the_same_value_race():
    same_value[1, 1](zeros())
    with pytest.raises(RaceError, match=r"writes argument 'a', element 0\n(?s:.*)writes argument"):
        same_value[1, 2](zeros())


@cuda.jit
def fill(a):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    a[i] = i


@cuda.jit
def fill_with_overlap(a):
    i = cuda.blockIdx.x * (cuda.blockDim.x - 1) + cuda.threadIdx.x
    a[i] = i


def test_two_blocks_may_not_write_one_element():
    a = zeros(2 * T)
    fill[2, T](a)
    assert_array_equal(a, np.arange(2 * T))
    match = rf"thread ({T - 1} of block 0|0 of block 1) writes argument 'a', element {T - 1}\n"
    with pytest.raises(RaceError, match=match):
        fill_with_overlap[2, T](a)


@cuda.jit
def read_and_write(a, out, written, block_0, block_1):
    """Reads in block 0 and in block 1 after a barrier, then a write of another element of a."""
    b = cuda.blockIdx.x
    out[b] = a[block_0 if b == 0 else block_1]
    cuda.syncthreads()
    if b == written:
        out[b] += a[block_1]
        a[3] = 0.0


@pytest.mark.parametrize("written", [0, 1])
def test_a_block_may_not_write_what_another_one_reads(written):
    read_and_write[2, 1](zeros(), zeros(2), written, 0, 0)
    with pytest.raises(RaceError, match=r"of block 0(?s:.*)of block 1|of block 1(?s:.*)of block 0"):
        read_and_write[2, 1](zeros(), zeros(2), written, 3, 3)


@cuda.jit
def copy_shifted(a, b):
    t = cuda.threadIdx.x
    a[t] = b[t]


@pytest.mark.parametrize("to_device", [lambda a: a, cuda.to_device])
def test_arguments_that_share_memory_race(to_device):
    a = to_device(zeros(2 * T))
    copy_shifted[1, T](a[:T], a[T:])
    copy_shifted[1, T](a[:T], a[:T])
    match = r"element \d\n(?s:.*)element \d\n"
    with pytest.raises(RaceError, match=match) as error:
        copy_shifted[1, T](a[:T], a[2 : T + 2])
    elements = dict(re.findall(r"argument '(\w)', element (\d)", str(error.value)))
    assert int(elements["a"]) == int(elements["b"]) + 2


@cuda.jit
def write_slice(a, start, shift):
    part = a[start : start + T]
    cuda.syncthreads()
    part[shift:][cuda.threadIdx.x] = 1.0
    a[0] if cuda.threadIdx.x == 0 else a[1]


def test_slices_race_with_the_array_that_they_are_of():
    write_slice[1, T](zeros(2 * T), 2, 0)
    with pytest.raises(RaceError, match="argument 'a', element 1\n"):
        write_slice[1, T](zeros(2 * T), 1, 0)
    with pytest.raises(BoundsError, match=rf"uses \[{T - 1}\] of an array of {T - 1}: argument"):
        write_slice[1, T](zeros(2 * T), 2, 1)


@cuda.jit
def program(a, uses, n_epochs):
    """Uses shared and global elements as a table says, whose keys are (block, epoch, thread)."""
    tile = cuda.shared.array(4, int64)
    if cuda.threadIdx.x == 0:
        for i in range(4):
            tile[i] = 0
    cuda.syncthreads()
    for epoch in range(n_epochs):
        for is_shared, i, is_write in uses[cuda.blockIdx.x, epoch, cuda.threadIdx.x]:
            array = tile if is_shared else a
            if is_write:
                array[i] = 1
            else:
                array[i]
        cuda.syncthreads()


def races(uses):
    """Pairs of uses that race, from the definition."""
    flat = [(who, *use) for who, them in uses.items() for use in them]
    for one, other in itertools.permutations(flat, 2):
        (block_1, epoch_1, thread_1), is_shared_1, i_1, is_write_1 = one
        (block_2, epoch_2, thread_2), is_shared_2, i_2, is_write_2 = other
        if (is_shared_1, i_1) == (is_shared_2, i_2) and (is_write_1 or is_write_2):
            is_race_of_threads = block_1 == block_2 and epoch_1 == epoch_2 and thread_1 != thread_2
            if is_race_of_threads or (block_1 != block_2 and not is_shared_1):
                yield (thread_1, block_1, is_write_1, i_1), (thread_2, block_2, is_write_2, i_2)


@given(data=st.data())
def test_races_are_those_of_the_definition(order, data):
    use = st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from([False, False, True]))
    sizes = n_blocks, n_epochs, n_threads = data.draw(st.tuples(*[st.integers(1, 3)] * 3))
    uses = {
        who: data.draw(st.lists(use, max_size=2 if n_blocks > 1 else 3))
        for who in np.ndindex(*sizes)
    }
    expected = set(races(uses))
    if not expected:
        program[n_blocks, n_threads](np.zeros(4, int), uses, n_epochs)
        return
    with pytest.raises(RaceError) as error:
        program[n_blocks, n_threads](np.zeros(4, int), uses, n_epochs)
    pattern = r"thread (\d) of block (\d) (\w+) (?:argument 'a'|shared array .*), element (\d)\n"
    found = tuple(
        (int(thread), int(block), verb == "writes", int(i))
        for thread, block, verb, i in re.findall(pattern, str(error.value))
    )
    assert found in expected


# Barriers


@cuda.jit
def barrier_under_if(a, n):
    t = cuda.threadIdx.x
    if t < n:
        a[t] = 1.0
        cuda.syncthreads()


def test_a_barrier_that_only_some_threads_reach_diverges():
    barrier_under_if[1, T](zeros(), T)
    barrier_under_if[1, T](zeros(), 0)
    match = (
        r"^kernel 'barrier_under_if': diverging barriers(?s:.*)"
        r"\n  thread \d of block 0 waits at\n"
        r"    test_simulator.py:\d+, in barrier_under_if: cuda.syncthreads\(\)"
    )
    with pytest.raises(DivergenceError, match=match):
        barrier_under_if[1, T](zeros(), 3)
    with pytest.raises(DivergenceError, match=r"\n  thread \d of block 0 has ended"):
        barrier_under_if[1, T](zeros(), T - 1)


@cuda.jit
def barrier_in_loop(n):
    for _ in range(n + cuda.threadIdx.x // 4):
        cuda.syncthreads()


def test_threads_must_reach_barriers_equally_often():
    barrier_in_loop[1, 4](5)
    with pytest.raises(DivergenceError, match="has ended"):
        barrier_in_loop[1, 5](5)


@cuda.jit(device=True)
def wait():
    cuda.syncthreads()


@cuda.jit
def barrier_in_branches(n):
    if cuda.threadIdx.x < n:
        wait()  # here
    else:
        wait()  # there


@pytest.mark.parametrize("recorded", [True, False])
def test_a_barrier_of_a_device_function_is_not_the_same_at_two_calls(order, recorded):
    with Simulator(order=order, recorded=recorded):
        barrier_in_branches[1, T](0)
        barrier_in_branches[1, T](T)
        with pytest.raises(DivergenceError) as error:
            barrier_in_branches[1, T](3)
    for comment in ("here", "there"):
        match = (
            r"waits at\n    test_simulator.py:\d+, in wait: cuda.syncthreads\(\)\n"
            rf"    test_simulator.py:\d+, in barrier_in_branches: wait\(\)  # {comment}"
        )
        assert re.search(match, str(error.value))


# Bounds


@cuda.jit
def copy(a, out, shift):
    t = cuda.threadIdx.x
    out[t] = a[t + shift]


def test_an_index_must_be_within_the_array():
    copy[1, T](zeros(), zeros(), 0)
    copy[1, T](zeros(T + 1), zeros(), 1)
    match = (
        rf"^kernel 'copy': thread {T - 1} of block 0 uses \[{T}\] of an array of {T}: "
        r"argument 'a'\n    test_simulator.py:\d+, in copy: out\[t\] = a\[t \+ shift\]$"
    )
    with pytest.raises(BoundsError, match=match):
        copy[1, T](zeros(), zeros(), 1)
    with pytest.raises(BoundsError, match=r"thread 0 of block 0 uses \[-1\] of an array"):
        copy[1, T](zeros(), zeros(), -1)
    with pytest.raises(BoundsError, match="argument 'out'"):
        copy[1, T](zeros(), zeros(T - 1), 0)


@cuda.jit
def shared_and_local(i, j):
    tile = cuda.shared.array(T, float64)
    tile[i] = 1.0
    sums = cuda.local.array(shape=4, dtype=float64)
    sums[j] = 1.0


def test_bounds_of_shared_and_local_arrays():
    shared_and_local[1, 1](T - 1, 3)
    for i, j, name in [(T, 0, "shared"), (-1, 0, "shared"), (0, 4, "local"), (0, -1, "local")]:
        with pytest.raises(BoundsError, match=rf"{name} array \(test_simulator.py:\d+, in shared"):
            shared_and_local[1, 1](i, j)


@cuda.jit
def take(a, start, stop, sizes):
    sizes[0] = len(a[start:])
    sizes[1] = a[:stop].size
    sizes[2] = a[start:stop].shape[0]


def test_a_slice_must_be_within_the_array():
    sizes = np.zeros(3, int)
    take[1, 1](zeros(), 2, T, sizes)
    assert_array_equal(sizes, [T - 2, T, T - 2])
    take[1, 1](zeros(), T, T, sizes)
    for start, stop in [(T + 1, T + 1), (-1, T), (0, -1), (0, T + 1), (3, 2)]:
        with pytest.raises(BoundsError, match=rf"uses \[.*:.*\] of an array of {T}: argument 'a'"):
            take[1, 1](zeros(), start, stop, sizes)


# Memory that nobody wrote


@cuda.jit
def sum_of_rows(out, is_zeroed):
    tile = cuda.shared.array(T, float64)
    sums = cuda.local.array(1, float32)
    t = cuda.threadIdx.x
    if is_zeroed != 1:
        tile[t] = 1.0
    if is_zeroed != 2:
        sums[0] = 0.0
    cuda.syncthreads()
    for i in range(T):
        sums[0] += tile[i]
    out[t] = sums[0]


def test_shared_and_local_memory_is_written_before_it_is_read():
    out = zeros()
    sum_of_rows[1, T](out, 0)
    assert_array_equal(out, T)
    for skipped, name in [(1, "shared array .*tile = "), (2, "local array .*sums = ")]:
        match = rf"thread . of block 0 reads what nobody wrote yet: {name}.*, element 0\n"
        with pytest.raises(UnwrittenError, match=match):
            sum_of_rows[1, T](out, skipped)


@cuda.jit
def keep(out, writer):
    tile = cuda.shared.array(1, float64)
    if cuda.blockIdx.x == writer:
        tile[0] = 1.0
    out[cuda.blockIdx.x] = tile[0]


def test_shared_memory_does_not_outlive_a_block():
    keep[1, 1](zeros(), 0)
    for writer in (0, 1):
        with pytest.raises(UnwrittenError):
            keep[2, 1](zeros(), writer)


def test_plain_memory_starts_as_garbage(order):
    @cuda.jit
    def show(out, codes, flags):
        out[0] = cuda.shared.array(1, float64)[0]
        out[1] = cuda.local.array(1, float32)[0]
        codes[0] = cuda.local.array(1, int32)[0]
        flags[0] = cuda.local.array(1, boolean)[0]

    out, codes, flags = zeros(2), np.zeros(1, np.int32), np.zeros(1, bool)
    with Simulator(recorded=False, order=order):
        show[1, 1](out, codes, flags)
        assert np.isnan(cuda.device_array(3).copy_to_host()).all()
    assert np.isnan(out).all()
    assert codes[0] == 2**31 - 1
    assert flags[0]


def test_an_element_of_a_device_array_is_written_before_it_is_read():
    a = cuda.device_array(2 * T)
    with pytest.raises(UnwrittenError, match=r"nobody wrote yet: argument 'a', element 3\n"):
        copy[1, 1](a, zeros(), 3)
    fill[1, T](a)
    copy[1, T](a, zeros(), 0)
    copy[1, T - 1](a[1:], zeros(), 0)
    with pytest.raises(UnwrittenError, match=rf"argument 'a', element {T}\n"):
        copy[1, T](a, zeros(), 1)
    with pytest.raises(UnwrittenError, match=r"argument 'a', element 0\n"):
        copy[1, 1](a[T:], zeros(), 0)
    a[T] = 1.0
    copy[1, T](a, zeros(), 1)
    with pytest.raises(UnwrittenError, match=rf"argument 'a', element {T + 1}\n"):
        copy[1, T](a, zeros(), 2)
    a.copy_to_device(zeros(2 * T))
    copy[1, T](a, zeros(), T)


def test_what_a_plain_launch_was_given_counts_as_written(order):
    a = cuda.device_array_like(zeros())
    with Simulator(recorded=False, order=order):
        fill[1, T](a)
    copy[1, T](a, zeros(), 0)


def test_what_is_written_as_another_type_counts_as_written():
    a = cuda.device_array(T)
    fill[2, T](a.view(np.float32))
    copy[1, T](a, zeros(), 0)


# Order and results


def test_threads_and_blocks_run_in_the_order_asked_for(order):
    seen = []

    @cuda.jit
    def tell():
        for _ in range(2):
            seen.append((cuda.blockIdx.x, cuda.threadIdx.x))
            cuda.syncthreads()

    tell[2, T]()
    runs = [seen[k : k + T] for k in range(0, 4 * T, T)]
    ascending = [[(block, t) for t in range(T)] for block in (0, 0, 1, 1)]
    if order == "ascending":
        assert runs == ascending
    elif order == "descending":
        assert runs == [run[::-1] for run in ascending[::-1]]
    else:
        assert sorted(map(sorted, runs)) == ascending
        assert len({tuple(t for _, t in run) for run in runs}) == 4
        shuffled = list(seen)
        tell[2, T]()
        assert seen == shuffled * 2
        seen.clear()
        with Simulator(order="shuffled", seed=1):
            tell[2, T]()
        assert seen != shuffled


def test_a_plain_race_shows_in_the_order():
    results = {}
    for order in ("ascending", "descending"):
        with Simulator(recorded=False, order=order):
            a = np.arange(T)
            turn[1, T](a)
            assert_array_equal(a, np.arange(T)[::-1])
            turn_without_barrier[1, T](a)
            results[order] = list(a)
    assert results["ascending"] != results["descending"]


def test_points_of_two_dimensions():
    @cuda.jit
    def fill(out):
        x, y = cuda.grid(2)
        width = cuda.gridDim.x * cuda.blockDim.x
        out[y * width + x] = 100 * cuda.blockIdx.y + 10 * cuda.blockIdx.x + cuda.threadIdx.x
        if fails and cuda.blockIdx.x == 1:
            out[-1]

    out, fails = np.zeros(12, int), False
    fill[(2, 3), 2](out)
    assert_array_equal(out.reshape(3, 4), 100 * np.arange(3)[:, None] + [0, 1, 10, 11])
    fails = True
    with pytest.raises(BoundsError, match=r"thread [01] of block \(1, [012]\) uses \[-1\]"):
        fill[(2, 3), 2](out)


# Functions


def make_add(value):
    from numba import cuda  # not in the function's globals

    @cuda.jit(device=True)
    def add(a):
        tile = cuda.shared.array(T, float64)
        t = cuda.threadIdx.x
        tile[t] = a[t] + value
        cuda.syncthreads()
        return tile

    return add


def test_functions_of_one_factory_have_shared_arrays_of_their_own():
    add_1, add_2 = make_add(1.0), make_add(2.0)

    @cuda.jit
    def add_both(a, out):
        t = T - 1 - cuda.threadIdx.x
        one, two, two_again = add_1(a), add_2(a), add_2(a)
        out[t] = 100 * one[t] + 10 * two[t] + two_again[t]

    out = zeros()
    add_both[1, T](np.arange(T, dtype=float), out)
    assert_array_equal(out, 111 * np.arange(T) + 122)


def test_functions_may_have_copies_of_globals():
    names = {**globals(), "T": 4}
    turned = cuda.jit(types.FunctionType(turn.py_func.__code__, names))
    a = np.arange(4)
    turned[1, 4](a)
    assert_array_equal(a, [3, 2, 1, 0])
    assert names["cuda"] is cuda


# Numbers


@cuda.jit
def multiply(a, b, out):
    i = cuda.threadIdx.x
    product = a[i] * b[i]
    types_seen.append(product.dtype)
    tile = cuda.shared.array(T, float32)
    tile[i] = product
    types_seen.append(tile[i].dtype)
    sums = cuda.local.array(1, int32)
    sums[0] = product
    types_seen.append(sums[0].dtype)
    out[i] = product


types_seen = []


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, bool])
@pytest.mark.parametrize("recorded", [True, False])
def test_elements_have_the_type_of_their_array(order, dtype, recorded):
    a = np.array([0.1, 3, 1e-3]).astype(dtype)
    out = np.zeros(3, dtype)
    types_seen.clear()
    with Simulator(recorded=recorded, order=order):
        multiply[1, 3](a, a, out)
    assert_array_equal(out, a * a)
    assert set(types_seen[::3]) == {np.dtype(dtype)}
    assert set(types_seen[1::3]) == {np.dtype(np.float32)}
    assert set(types_seen[2::3]) == {np.dtype(np.int32)}


def test_a_number_given_to_a_kernel_is_float64():
    @cuda.jit
    def scale(a, factor):
        a[0] = 1 / factor
        types_seen.append((factor * a[1]).dtype)

    a = np.zeros(2, np.float32)
    types_seen.clear()
    scale[1, 1](a, 0.0)
    assert a[0] == np.inf
    assert types_seen == [np.float64]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("recorded", [True, False])
def test_math_is_that_of_a_gpu(order, dtype, recorded):
    @cuda.jit
    def compute(a, out):
        mantissa, exponent = math.frexp(a[0])
        values = [
            mantissa,
            math.ldexp(mantissa, exponent),
            math.ldexp(a[0], 5000),
            math.sqrt(a[0]),
            math.sqrt(-a[0]),
            math.copysign(a[0], -a[1]),
            math.log(a[1] * 0),
            math.exp(a[0] * 1000),
            math.pow(a[0], a[1]),
            a[0] / (a[1] - a[1]),
            a[0] * a[2] * a[2],
        ]
        for i in range(len(values)):
            types_seen.append(values[i].dtype)
            out[i] = values[i]
        types_mixed.append(math.copysign(a[0], 1.0).dtype)
        assert math.isfinite(a[0])
        assert not math.isfinite(values[2])

    types_mixed = []
    a, out = np.array([3, 2, 1e200 if dtype is np.float64 else 1e30], dtype), np.zeros(11, dtype)
    types_seen.clear()
    with Simulator(recorded=recorded, order=order):
        compute[1, 1](a, out)
    inf, root = np.inf, np.sqrt(dtype(3))
    assert_array_equal(out, [0.75, 3, inf, root, np.nan, -3, -inf, inf, 9, inf, inf])
    assert set(types_seen) == {np.dtype(dtype)}
    assert types_mixed == [np.float64]
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        math.sqrt(-1.0)


# Use


def test_numba_simulates_again_outside_and_after_an_error():
    from numba.cuda.simulator.kernel import FakeCUDAKernel

    with pytest.raises(ValueError, match=r"order must be one of .*, got 'random'"):
        Simulator(order="random")
    inner = Simulator()
    before = FakeCUDAKernel.__call__
    inner.install()
    assert FakeCUDAKernel.__call__ is not before
    with pytest.raises(RaceError):
        turn_without_barrier[1, T](zeros())
    a = np.arange(T)
    turn[1, T](a)
    assert_array_equal(a, np.arange(T)[::-1])
    inner.uninstall()
    assert FakeCUDAKernel.__call__ is before


def test_without_numbas_simulator_there_is_nothing_to_install(monkeypatch):
    monkeypatch.setattr(config, "ENABLE_CUDASIM", 0)
    with pytest.raises(RuntimeError, match="NUMBA_ENABLE_CUDASIM=1 before numba is imported"):
        Simulator().install()


def test_other_errors_name_the_thread():
    @cuda.jit
    def divide(a):
        a[0] = 1 // cuda.threadIdx.x

    with pytest.raises(ZeroDivisionError) as error:
        divide[1, 1](zeros())
    assert error.value.__notes__ == ["kernel 'divide': thread 0 of block 0"]


def test_arguments_that_a_kernel_could_not_take():
    with pytest.raises(TypeError, match="missing a required argument: 'shift'"):
        copy[1, 1](zeros(), zeros())
    with pytest.raises(TypeError, match="argument 'a' is not a flat contiguous array"):
        fill[1, 1](np.zeros((2, 2)))
    with pytest.raises(TypeError, match="argument 'a' is not a flat contiguous array"):
        fill[1, 1](zeros()[::2])
    a = zeros()
    with pytest.raises(TypeError, match="argument 'b' shares memory with items of another size"):
        copy_shifted[1, 1](a, a.view(np.float32))


@cuda.jit
def sum_of_tuple(pair, shift, out):
    a, (b, factor) = pair
    t = cuda.threadIdx.x
    out[t] = a[t] + factor * b[t + shift]


def test_elements_of_tuples_are_arguments():
    a, b, out = np.arange(T), cuda.to_device(np.ones(T)), cuda.device_array(T)
    sum_of_tuple[1, T]((a, (b, 2.0)), 0, out)
    assert_array_equal(out.copy_to_host(), a + 2)
    with pytest.raises(BoundsError, match=rf"uses \[{T}\] .*: argument 'pair\[1\]\[0\]'"):
        sum_of_tuple[1, T]((a, (b, 2.0)), 1, out)
    with pytest.raises(UnwrittenError, match=r"argument 'pair\[0\]', element \d\n"):
        sum_of_tuple[1, T]((cuda.device_array(T), (b, 2.0)), 0, out)
    with pytest.raises(RaceError, match=r"reads argument 'pair\[1\]\[0\]', element \d\n"):
        sum_of_tuple[1, T - 1]((a, (b, 2.0)), 1, b)


def test_what_is_written_to_a_tuple_counts_as_written(order):
    @cuda.jit
    def fill_both(pair):
        for a in pair:
            a[cuda.threadIdx.x] = 1.0

    for recorded in (True, False):
        pair = cuda.device_array(T), cuda.device_array(T)
        with Simulator(recorded=recorded, order=order):
            fill_both[1, T](pair)
        copy[1, T](pair[1], zeros(), 0)


def test_a_host_array_may_be_read_only():
    a = zeros()
    a.flags.writeable = False
    copy[1, T](a, zeros(), 0)
    with pytest.raises(ValueError, match="read-only"):
        fill[1, T](a)


def test_hints_copy_as_they_say():
    a, out = np.arange(T, dtype=float), zeros()
    copy[1, T](cuda.In(a), cuda.Out(out), 0)
    assert_array_equal(out, a)
    fill[1, T](cuda.In(out[::-1].copy()))
    assert_array_equal(out, a)
