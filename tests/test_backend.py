"""Which device a name stands for, what a device must have, and what is said without a GPU."""

import importlib.util
import sys
import warnings
from types import ModuleType

import numba
import numpy as np
import pytest
from devices import StandIn, unavailable
from numpy.testing import assert_array_equal

from ttexm import Manifold, RankOneBatch, TTTensor
from ttexm.kernels import backend, cpu


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """As in a new process, without a default device."""
    monkeypatch.delenv("TTEXM_DEVICE", raising=False)

    def forget():
        backend.register("cpu", backend.load_cpu)
        backend.register("cuda", backend.load_cuda)
        backend.has_gpu.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def registered():
    """Registers devices under names that are forgotten after the test."""
    names = set()

    def register(name, load):
        names.add(name)
        backend.register(name, load)

    yield register
    for name in names:
        backend.unregister(name)


def install(monkeypatch, is_available=lambda: True, error=None, simulates=0):
    """Have a numba-cuda in which these things are so."""
    cuda = ModuleType("numba.cuda")
    cuda.is_available, cuda.cuda_error = is_available, lambda: error
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "numba.cuda", cuda)
    monkeypatch.setattr(numba, "cuda", cuda, raising=False)
    monkeypatch.setattr(numba.config, "ENABLE_CUDASIM", simulates)
    device = StandIn()
    monkeypatch.setitem(sys.modules, "ttexm.kernels.cuda.device", device)
    return device


def fail():
    raise OSError("libcuda.so is of another world")


def warn():
    warnings.warn("this driver is old", stacklevel=1)
    return True


def test_the_cpu_is_the_default():
    assert backend.get() is backend.get(None) is backend.get("cpu") is cpu
    assert backend.resolve() == backend.resolve("cpu") == "cpu"


def test_the_environment_can_name_another_default(monkeypatch):
    device = install(monkeypatch)
    monkeypatch.setenv("TTEXM_DEVICE", "cuda")
    assert backend.resolve() == "cuda"
    assert backend.get() is device
    assert RankOneBatch.from_columns([[1.0]]).device == "cuda"
    assert RankOneBatch.from_indices([[0]], (1,)).device == "cuda"
    assert backend.get("cpu") is cpu
    monkeypatch.setenv("TTEXM_DEVICE", "auto")
    assert backend.resolve() == "cuda"
    monkeypatch.setenv("TTEXM_DEVICE", "")
    assert backend.resolve() == "cpu"
    monkeypatch.setenv("TTEXM_DEVICE", "gpu")
    with pytest.raises(ValueError, match="TTEXM_DEVICE must be 'auto', 'cpu' or 'cuda', got 'gpu'"):
        backend.resolve()


def test_auto_is_cuda_if_there_is_a_gpu(monkeypatch):
    device = install(monkeypatch)
    assert backend.resolve("auto") == "cuda"
    assert backend.get("auto") is device


@pytest.mark.parametrize(
    ("is_available", "simulates", "expected"),
    [(lambda: False, 0, "cpu"), (fail, 0, "cpu"), (warn, 0, "cuda"), (lambda: True, 1, "cpu")],
    ids=["no GPU", "broken driver", "warning", "simulator"],
)
def test_auto_neither_raises_nor_warns(monkeypatch, is_available, simulates, expected):
    install(monkeypatch, is_available, "no driver", simulates)
    assert backend.resolve("auto") == expected


def test_auto_survives_a_broken_installation(monkeypatch):
    install(monkeypatch)
    monkeypatch.delattr(numba, "cuda")
    monkeypatch.setitem(sys.modules, "numba.cuda", None)  # an ImportError for whoever wants it
    assert backend.resolve("auto") == "cpu"


def test_without_numba_cuda_the_message_names_the_extras(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = r'needs numba-cuda, .*pip install "ttexm\[cuda12\]" or "ttexm\[cuda13\]", by the'
    with pytest.raises(RuntimeError, match=message):
        backend.get("cuda")
    assert backend.resolve("auto") == "cpu"


def test_without_a_gpu_the_message_tells_what_numba_reports(monkeypatch):
    install(monkeypatch, lambda: False, "\nCUDA driver library\n  cannot be found.\n")
    message = (
        r"no GPU that can be used. numba.cuda reports: CUDA driver library cannot be found\. "
        r"Install .*driver.*device='cpu'.*NUMBA_ENABLE_CUDASIM=1 before"
    )
    with pytest.raises(RuntimeError, match=message):
        backend.get("cuda")
    install(monkeypatch, lambda: False)
    with pytest.raises(RuntimeError, match=r"not CUDA's compiler .*ttexm\[cuda12\]"):
        backend.get("cuda")


def test_a_simulated_gpu_will_do_for_who_asks(monkeypatch):
    device = install(monkeypatch, simulates=1)
    assert backend.get("cuda") is device
    assert backend.resolve("auto") == "cpu"


@pytest.mark.parametrize("name", ["tpu", "", 0, ["cpu"]])
def test_names_that_are_not_known(name):
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or 'cuda', got "):
        backend.get(name)


# -- devices of users ----------------------------------------------------------------------------


def test_a_registered_device_is_used_by_its_name(registered):
    device = StandIn()
    registered("remote", lambda: device)
    batch = RankOneBatch.from_columns(np.random.default_rng(0).standard_normal((30, 4)))
    manifold = Manifold(batch.shape, 2, device="remote")
    W = manifold.random_point(0)
    xi = manifold.gradient(W, batch, np.sin)
    assert_array_equal(W.contract(batch, device="remote"), W.contract(batch))
    assert_array_equal(
        xi.flat_deltas, Manifold(batch.shape, 2).gradient(W, batch, np.sin).flat_deltas
    )
    assert device.calls["gradient"] == device.calls["contract"] == 1


def test_a_device_is_loaded_once_and_only_when_it_is_used(registered):
    loaded = []
    registered("remote", lambda: loaded.append(1) or StandIn())
    assert loaded == []
    assert backend.get("remote") is backend.get("remote")
    assert loaded == [1]
    registered("remote", lambda: cpu)
    assert backend.get("remote") is cpu


def test_a_device_may_say_that_it_cannot_be_used(registered):
    registered("remote", unavailable)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="there is no GPU here"):
            backend.get("remote")


def test_unknown_names_are_answered_with_the_known_ones(registered):
    registered("remote", StandIn)
    message = "device must be 'auto', 'cpu', 'cuda' or 'remote', got 'tpu'"
    with pytest.raises(ValueError, match=message):
        backend.resolve("tpu")


@pytest.mark.parametrize("name", ["auto", "", 3, None])
def test_names_that_no_device_can_have(name):
    with pytest.raises(ValueError, match="name of a device must be a string other than 'auto'"):
        backend.register(name, StandIn)


def without(name):
    device = StandIn()
    setattr(device, name, None)
    return device


def with_function(name, function):
    device = StandIn()
    setattr(device, name, function)
    return device


class Halves(StandIn):
    def partial_products(self, held, m, dtype) -> TTTensor: ...


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (without("retract"), r"retract\(left, exponent, right, deltas\) is missing\."),
        (
            with_function("hold", lambda batch: batch),
            r"hold\(batch\) should be hold\(batch, m\)\.",
        ),
        (
            with_function("project", lambda left, right, exponent, Z: None),
            r"project\(left, right, exponent, Z\) should be project\(left, right, Z, exponent\)",
        ),
        (
            with_function("gauges", lambda train, *, is_left_orthogonal: None),
            r"gauges\(train, \*, is_left_orthogonal\) should be gauges\(train, is_left_ortho",
        ),
        (
            with_function("take", lambda held, m, rows=None: None),
            r"take\(held, m, rows=None\) should be take\(held, m, rows\)\.",
        ),
        (
            with_function("partial_products", lambda held, m, dtype: None),
            r"partial_products must be annotated with the class that it returns\.",
        ),
        (
            Halves(),
            r"TTTensor\.empty\(r\) is missing; .*TTTensor\.kinds is not declared;",
        ),
        (ModuleType("nothing"), r"hold\(batch, m\) is missing; take\(held, m, rows\) is missing; "),
    ],
    ids=["missing", "fewer", "order", "kind", "default", "annotation", "products", "empty"],
)
def test_a_device_of_other_signatures_is_refused(registered, device, message):
    registered("remote", lambda: device)
    with pytest.raises(TypeError, match=f"device 'remote' does not fit the protocol: {message}"):
        backend.get("remote")


def test_the_cpu_fits_the_protocol():
    backend.check("cpu", cpu)
