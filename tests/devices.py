"""A stand-in for a GPU, and whether there is a simulated one."""

import os
from collections import Counter
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest

from ttexm.kernels import cpu
from ttexm.kernels.layout import Batch
from ttexm.kernels.samples import Samples

# numba.cuda's simulator runs kernels in Python, at about a million element operations a second.
IS_SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")

# What goes to a batch's or a manifold's device; the rest of a kernel set is dense algebra.
PLACED = (
    "Samples",
    "both_gauges",
    "contract",
    "core_gradient",
    "fix_gauge",
    "gradient",
    "hold",
    "project_train",
    "retract",
    "take",
)


class Remote:
    """Data of the stand-in: of no use to the host, nor to the kernels of the CPU."""

    def __init__(self, data):
        self.data = data


def unwrapped(arguments):
    assert not any(isinstance(argument, Batch) for argument in arguments), "a batch of the host"
    return [x.data if isinstance(x, Remote) else x for x in arguments]


class StandIn(ModuleType):
    """The CPU's kernel set as that of another device: results are the CPU's, bit by bit.

    It counts the calls of its functions, and takes no batch but its own.
    """

    def __init__(self):
        super().__init__("stand_in")
        self.calls = Counter()
        for name in cpu.__all__:
            setattr(self, name, self._counted(name, getattr(cpu, name)))
        self.Gauge, self.Samples = cpu.Gauge, self._samples

    @contextmanager
    def alone(self):
        """Within, the CPU does nothing of what goes to a device."""
        with pytest.MonkeyPatch.context() as patch:
            for name in PLACED:
                patch.setattr(cpu, name, _refused(name))
            yield

    def _counted(self, name, function):
        def call(*arguments):
            self.calls[name] += 1
            if name == "hold":
                return Remote(function(*arguments))
            result = function(*unwrapped(arguments))
            return Remote(result) if name == "take" else result

        return call

    def _samples(self, held, m, dtype):
        self.calls["Samples"] += 1
        return RemoteSamples(Samples(*unwrapped([held, m, dtype])))


def _refused(name):
    def refuse(*_):
        raise AssertionError(f"{name} was done by the CPU.")

    return refuse


class RemoteSamples:
    """The CPU's Samples, with partial products that only its methods can read."""

    def __init__(self, samples):
        self._samples = samples
        self.m, self.dtype = samples.m, samples.dtype
        self.kinds, self.scales = samples.kinds, samples.scales

    def empty(self, r):
        return Remote(self._samples.empty(r))

    def ones(self):
        return Remote(self._samples.ones())

    def __getattr__(self, name):
        method = getattr(self._samples, name)

        def call(*arguments):
            result = method(*unwrapped(arguments))
            assert result is None or isinstance(result, np.ndarray)
            return result

        return call
