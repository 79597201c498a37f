"""Which kernel set a name stands for, and what is said where there is no GPU."""

import importlib.util
import sys
import warnings
from types import ModuleType

import numba
import pytest

from ttexm import RankOneBatch, device
from ttexm.kernels import cpu


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """As in a new process, without a default device."""
    monkeypatch.delenv("TTEXM_DEVICE", raising=False)
    monkeypatch.setattr(device, "_sets", {"cpu": cpu})
    device._has_gpu.cache_clear()
    yield
    device._has_gpu.cache_clear()


def install(monkeypatch, is_available=lambda: True, error=None, simulates=0):
    """Have a numba-cuda in which these things are so."""
    cuda = ModuleType("numba.cuda")
    cuda.is_available, cuda.cuda_error = is_available, lambda: error
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "numba.cuda", cuda)
    monkeypatch.setattr(numba, "cuda", cuda, raising=False)
    monkeypatch.setattr(numba.config, "ENABLE_CUDASIM", simulates)
    kernels = ModuleType("ttexm.kernels.cuda")
    monkeypatch.setitem(sys.modules, "ttexm.kernels.cuda", kernels)
    return kernels


def fail():
    raise OSError("libcuda.so is of another world")


def warn():
    warnings.warn("this driver is old", stacklevel=1)
    return True


def test_the_cpu_is_the_default():
    assert device.get() is device.get(None) is device.get("cpu") is cpu
    assert device.resolve() == device.resolve("cpu") == "cpu"


def test_the_environment_can_name_another_default(monkeypatch):
    kernels = install(monkeypatch)
    monkeypatch.setenv("TTEXM_DEVICE", "cuda")
    assert device.resolve() == "cuda"
    assert device.get() is kernels
    assert RankOneBatch.from_columns([[1.0]]).device == "cuda"
    assert RankOneBatch.from_indices([[0]], (1,)).device == "cuda"
    assert device.get("cpu") is cpu
    monkeypatch.setenv("TTEXM_DEVICE", "auto")
    assert device.resolve() == "cuda"
    monkeypatch.setenv("TTEXM_DEVICE", "")
    assert device.resolve() == "cpu"
    monkeypatch.setenv("TTEXM_DEVICE", "gpu")
    with pytest.raises(ValueError, match="TTEXM_DEVICE must be 'auto', 'cpu' or 'cuda', got 'gpu'"):
        device.resolve()


def test_auto_is_cuda_if_there_is_a_gpu(monkeypatch):
    kernels = install(monkeypatch)
    assert device.resolve("auto") == "cuda"
    assert device.get("auto") is kernels


@pytest.mark.parametrize(
    ("is_available", "simulates", "expected"),
    [(lambda: False, 0, "cpu"), (fail, 0, "cpu"), (warn, 0, "cuda"), (lambda: True, 1, "cpu")],
    ids=["no GPU", "broken driver", "warning", "simulator"],
)
def test_auto_neither_raises_nor_warns(monkeypatch, is_available, simulates, expected):
    install(monkeypatch, is_available, "no driver", simulates)
    assert device.resolve("auto") == expected


def test_auto_survives_a_broken_installation(monkeypatch):
    install(monkeypatch)
    monkeypatch.delattr(numba, "cuda")
    monkeypatch.setitem(sys.modules, "numba.cuda", None)  # an ImportError for whoever wants it
    assert device.resolve("auto") == "cpu"


def test_without_numba_cuda_the_message_names_the_extras(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = r'needs numba-cuda, .*pip install "ttexm\[cuda12\]" or "ttexm\[cuda13\]", by the'
    with pytest.raises(RuntimeError, match=message):
        device.get("cuda")
    assert device.resolve("auto") == "cpu"


def test_without_a_gpu_the_message_tells_what_numba_reports(monkeypatch):
    install(monkeypatch, lambda: False, "\nCUDA driver library\n  cannot be found.\n")
    message = (
        r"no GPU that can be used. numba.cuda reports: CUDA driver library cannot be found\. "
        r"Install .*driver.*device='cpu'.*NUMBA_ENABLE_CUDASIM=1 before"
    )
    with pytest.raises(RuntimeError, match=message):
        device.get("cuda")
    install(monkeypatch, lambda: False)
    with pytest.raises(RuntimeError, match=r"not CUDA's compiler .*ttexm\[cuda12\]"):
        device.get("cuda")


def test_a_simulated_gpu_will_do_for_who_asks(monkeypatch):
    kernels = install(monkeypatch, simulates=1)
    assert device.get("cuda") is kernels
    assert device.resolve("auto") == "cpu"


@pytest.mark.parametrize("name", ["tpu", "", 0, ["cpu"]])
def test_names_that_are_not_known(name):
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or 'cuda', got "):
        device.get(name)
