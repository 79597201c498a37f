"""BLAS has one thread where it must, and its own number of threads again afterwards."""

import os
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from ttexm import ExMClassifier, ExMRegressor, Manifold, TTTensor
from ttexm.kernels import blas
from ttexm.kernels.blas import single_threaded_blas

pytestmark = pytest.mark.cpu


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    if not blas_threads():
        pytest.skip("threadpoolctl knows no BLAS of this process")
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_in_a_block_and_its_own_number_after():
    with single_threaded_blas():
        assert blas_threads() == {1}
        with single_threaded_blas():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_an_error_restores_the_threads_of_blas():
    with pytest.raises(ZeroDivisionError), single_threaded_blas():
        raise ZeroDivisionError
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_a_decorated_function_may_call_itself():
    @single_threaded_blas()
    def countdown(n):
        return [blas_threads(), *(countdown(n - 1) if n else [])]

    assert countdown(2) == countdown(2) == [{1}] * 3
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_the_number_that_a_user_sets_between_two_blocks_is_kept():
    with single_threaded_blas():
        pass
    with threadpool_limits(1, user_api="blas"):
        with single_threaded_blas():
            pass
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_the_last_thread_to_leave_restores_the_threads_of_blas():
    both_inside, may_leave = threading.Barrier(2), threading.Event()

    def stay():
        with single_threaded_blas():
            both_inside.wait()
            may_leave.wait()

    other = threading.Thread(target=stay)
    other.start()
    with single_threaded_blas():
        both_inside.wait()
    after_the_first = blas_threads()
    may_leave.set()
    other.join()
    assert after_the_first == {1}
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_a_number_of_threads_for_each_python_thread_is_restored_in_each(monkeypatch):
    """As with an OpenBLAS on OpenMP, which this machine may not have."""

    class OpenMP(threading.local):
        num_threads = 2

        def set_num_threads(self, n):
            self.num_threads = n

    library, seen = OpenMP(), []
    monkeypatch.setattr(blas, "_libraries", lambda: ([], [library]))
    first_inside, second_done = threading.Event(), threading.Event()

    def first():
        with single_threaded_blas():
            first_inside.set()
            second_done.wait()
            seen.append(library.num_threads)
        seen.append(library.num_threads)

    other = threading.Thread(target=first)
    other.start()
    first_inside.wait()
    with single_threaded_blas(), single_threaded_blas():
        seen.append(library.num_threads)
    seen.append(library.num_threads)
    second_done.set()
    other.join()
    assert seen == [1, 2, 1, 2]


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("who", ["nobody", "another thread", "the one that forks"])
def test_a_forked_child_has_the_threads_of_blas_that_it_should_have(who):
    is_inside, may_leave = threading.Event(), threading.Event()

    def stay():
        with single_threaded_blas():
            is_inside.set()
            may_leave.wait()

    def child_sees():
        """The child's threads of BLAS now, and within and after a block of its own."""
        child = os.fork()
        if child == 0:
            seen = [blas_threads()]
            with single_threaded_blas():
                seen.append(blas_threads())
            seen.append(blas_threads())
            first = {1} if who == "the one that forks" else {2}
            os._exit(0 if seen == [first, {1}, first] else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    if who == "another thread":
        other = threading.Thread(target=stay)
        other.start()
        is_inside.wait()
        code = child_sees()
        may_leave.set()
        other.join()
    elif who == "the one that forks":
        with single_threaded_blas():
            code = child_sees()
    else:
        code = child_sees()
    assert code == 0
    assert blas_threads() == {2}


@pytest.mark.large
@pytest.mark.parametrize("rank", [20, 32, 33, 100])
def test_tensors_do_not_depend_on_the_threads_of_blas(rank):
    shape, seen = (4,) * 7, []
    manifold = Manifold(shape, rank)
    W, Z = (TTTensor.random(shape, rank, seed=seed).to_cores() for seed in range(2))
    for n in (1, 2):
        with threadpool_limits(n, user_api="blas"):
            point, other = TTTensor(W), TTTensor(Z)
            xi = manifold.project(point, other)
            moved = manifold.retract(point, xi)
            low = (point + other).round(rank=rank // 2)
            again = TTTensor.from_dense(point.full(), rank=rank)
            numbers = np.array([point.norm(), point.inner(other), xi.norm(), xi.inner(xi)])
            seen.append([numbers, *moved.cores, *low.cores, *again.cores])
    for one, other in zip(*seen, strict=True):
        assert_array_equal(one, other)


def test_a_cross_approximation_does_not_depend_on_the_threads_of_blas():
    def f(indices):
        return np.exp(-(indices / 300).sum(axis=1)) + np.sin(indices).sum(axis=1)

    seen = []
    for n in (1, 2):
        with threadpool_limits(n, user_api="blas"):
            seen.append(TTTensor.cross(f, (60, 60, 60), rank=40, seed=0).cores)
    for one, other in zip(*seen, strict=True):
        assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [ExMRegressor, ExMClassifier])
def test_a_fit_does_not_depend_on_the_threads_of_blas(estimator):
    """From what screening finds: products of thousands of samples, in single precision."""
    rng, seen = np.random.default_rng(0), []
    X = rng.choice([-1.0, 1.0], (7000, 12))
    y = X[:, :4].prod(axis=1) + X[:, 3:6].prod(axis=1) + 0.1 * rng.standard_normal(7000)
    y = y > 0 if estimator is ExMClassifier else y
    settings = {"rank": 4, "alpha": 1e-3, "order_scale": 1.0, "init": "screened", "max_iter": 3}
    for n in (1, 2):
        with threadpool_limits(n, user_api="blas"):
            model = estimator(**settings, tol=0, random_state=0).fit(X, y)
            first = model.weights_.cores
            seen.append([*first, *model.partial_fit(X[:500], y[:500]).weights_.cores])
    assert model.is_screened_
    for one, other in zip(*seen, strict=True):
        assert_array_equal(one, other)
