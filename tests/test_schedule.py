"""Chunks of samples, threads to the last moment of the interpreter, and scratch memory."""

import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ttexm
from ttexm.kernels import schedule
from ttexm.kernels.schedule import Chunks

pytestmark = pytest.mark.cpu
ROOT = Path(__file__).parents[1]


def run_script(*parts):
    """What a script prints, each part of it dedented; it must not print errors."""
    code = "".join(textwrap.dedent(part) for part in parts)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# -- chunks ---------------------------------------------------------------------------------------


@given(
    m=st.one_of(st.integers(0, 2000), st.integers(0, 200_000)),
    block=st.sampled_from(schedule.BLOCK_SIZES),
    sum_bytes=st.sampled_from([1, 10**6, 10**7, 10**9]),
    most=st.integers(0, 40),
)
def test_chunks_cover_all_samples_by_whole_blocks(m, block, sum_bytes, most):
    chunks = Chunks.cut(m, block, sum_bytes)
    merged = chunks.merged(most)
    assert chunks.count == 1 or chunks.count * sum_bytes <= schedule.SUMS_BYTES
    assert merged.count <= max(1, most)
    assert merged.size % chunks.size == 0
    for some in (chunks, merged):
        seen = []
        some.run(lambda c, *span, seen=seen: seen.append((c, *span[:2])), 0, 8, np.float64)
        assert some.size % block == 0
        assert some.count <= schedule.MOST_CHUNKS
        assert [c for c, _, _ in seen] == list(range(some.count))
        edges = [(start, stop) for _, start, stop in seen]
        assert edges[0][0] == 0
        assert edges[-1][1] == m
        assert all(left[1] == right[0] for left, right in itertools.pairwise(edges))


def test_a_block_is_all_samples_or_fits_into_the_cache():
    assert [schedule.block_size(m, 32) for m in (0, 1, 48, 49, 384, 10**6)] == [
        48, 48, 48, 96, 384, 384,
    ]  # fmt: skip
    assert schedule.block_size(10**6, 128) == 192
    assert schedule.block_size(10**6, 10**6) == 48


# -- scratch memory -------------------------------------------------------------------------------


def test_scratch_is_used_again_but_never_by_two_at_once():
    with (
        schedule.scratch("test", 100, np.float64) as outer,
        schedule.scratch("test", 100, np.float64) as inner,
    ):
        assert not np.shares_memory(inner, outer)
    with schedule.scratch("test", 50, np.float64) as again:
        assert again is outer
    with schedule.scratch("test", 101, np.float64) as larger:
        assert len(larger) >= 101
        assert larger.ctypes.data % 64 == 0


def test_scratch_of_many_megabytes_is_not_kept(monkeypatch):
    monkeypatch.setattr(schedule, "LARGEST_KEPT", 1000)
    with schedule.scratch("large", 200, np.float64) as first:
        pass
    with schedule.scratch("large", 200, np.float64) as second:
        assert second is not first


# -- threads --------------------------------------------------------------------------------------


@pytest.fixture
def two_threads(threads):
    threads(2)


def test_an_error_in_a_thread_reaches_the_caller(two_threads):
    def task(first, last):
        if first > 0:
            raise RuntimeError("from the other thread")

    with pytest.raises(RuntimeError, match="from the other thread"):
        schedule.run(task, 10, flops=1e9)


@pytest.mark.parametrize(
    ("n_threads", "n_tasks", "n_shares", "n_in_turn"),
    [(2, 4, 9, 0), (2, 3, 9, 1), (2, 3, 1, 0), (2, 1, 1, 1), (4, 6, 4, 2), (4, 6, 2, 0),
     (8, 3, 6, 3), (8, 3, 2, 0), (1, 3, 9, 0), (2, 0, 1, 0)],
)  # fmt: skip
def test_tasks_that_are_left_over_are_done_in_turn_by_all_threads(
    monkeypatch, n_threads, n_tasks, n_shares, n_in_turn
):
    monkeypatch.setattr(schedule, "_n_threads", n_threads)

    def task(j):
        return lambda: (j, schedule.useful_threads(99, np.inf))

    found = schedule.run_side_by_side([task(j) for j in range(n_tasks)], n_shares)
    assert [j for j, _ in found] == list(range(n_tasks))
    n_beside = n_tasks - n_in_turn
    assert [n for _, n in found] == [1] * n_beside + [n_threads] * n_in_turn


def test_the_result_is_that_of_the_caller_and_helpers_end_before_it(two_threads):
    is_over, ended = threading.Event(), []

    def help_out():
        is_over.wait(60)
        ended.append(True)

    def work():
        time.sleep(0.05)  # so that the helper has begun
        return "done"

    assert schedule.run_with_helpers(work, help_out, is_over.set, 2) == "done"
    assert ended == [True]


def test_set_num_threads_checks_its_argument():
    with pytest.raises(TypeError, match="number of threads must be an int"):
        ttexm.set_num_threads(2.0)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        ttexm.set_num_threads(0)


# -- the end of the interpreter -------------------------------------------------------------------

PREDICT = """
    import atexit, threading
    import numpy as np
    import ttexm
    from ttexm import RankOneBatch, TTTensor
    from ttexm.kernels import schedule

    ttexm.set_num_threads(3)
    batch = RankOneBatch.from_columns(np.random.default_rng(0).standard_normal((50_000, 20)))
    W = TTTensor.random((2,) * 20, 8, seed=0)

    def predict():
        return W.contract(batch).tobytes()

    def check():
        print(predict() == expected)
"""


@pytest.mark.parametrize("when", ["before", "after", "without"])
def test_predictions_in_an_atexit_handler(when):
    """Whether the pool of threads was made after the handler was registered, before, or never."""
    middle = {
        "before": "atexit.register(check); expected = predict(); assert schedule._pool",
        "after": "expected = predict(); assert schedule._pool; atexit.register(check)",
        "without": "schedule.set_num_threads(1); expected = predict(); schedule.set_num_threads(3);"
        "assert schedule._pool is None; atexit.register(check)",
    }
    assert run_script(PREDICT, middle[when]) == "True\n"


@pytest.mark.parametrize("has_pool", [True, False])
def test_predictions_in_a_thread_that_outlives_main(has_pool):
    end = """
        if not {has_pool}:
            schedule.set_num_threads(1)
        expected = predict()
        schedule.set_num_threads(3)
        assert (schedule._pool is not None) == {has_pool}

        def wait_and_check():
            threading.main_thread().join()
            check()

        threading.Thread(target=wait_and_check).start()
    """
    assert run_script(PREDICT, textwrap.dedent(end).format(has_pool=has_pool)) == "True\n"


def test_a_system_that_refuses_threads_is_served_by_the_caller(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(schedule, "_pool", None)
    monkeypatch.setattr(schedule, "_n_threads", 3)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    seen = []
    schedule.run(lambda first, last: seen.extend(range(first, last)), 100, flops=1e9)
    assert seen == list(range(100))
