"""A stand-in for a GPU, and whether there is a simulated one."""

import functools
import os
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from simulator import Simulator

from ttexm.kernels import backend, cpu
from ttexm.kernels.layout import Batch

# numba.cuda's simulator runs kernels in Python, at about a million element operations a second.
IS_SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")

# Kernels run with an eye on races, barriers, bounds and garbage, in the order of a shuffle.
SIMULATOR = Simulator(order="shuffled")


class Remote:
    """Data of the stand-in: of no use to the host, nor to the functions of the CPU."""

    def __init__(self, data):
        self.data = data


def unwrapped(arguments):
    assert not any(isinstance(argument, Batch) for argument in arguments), "a batch of the host"
    return [x.data if isinstance(x, Remote) else x for x in arguments]


def functions(protocol):
    """Names of the functions that a protocol asks for."""
    return [name for name, value in vars(protocol).items() if name[0] != "_" and callable(value)]


def forwarding(protocol):
    """A decorator of classes: calls of the protocol's functions go to the method `forward`.

    Those functions that the class has itself stay as they are.
    """

    def make(name):
        @functools.wraps(getattr(protocol, name))
        def call(self, *arguments):
            return self.forward(name, *arguments)

        return call

    def decorate(cls):
        for name in functions(protocol):
            if name not in vars(cls):
                setattr(cls, name, make(name))
        return cls

    return decorate


@forwarding(backend.PartialProducts)
class RemotePartialProducts:
    """The CPU's, with partial products that only its own methods can read."""

    m: int
    dtype: np.dtype
    kinds: np.ndarray
    scales: np.ndarray

    def __init__(self, own):
        self.own = own
        self.m, self.dtype, self.kinds, self.scales = own.m, own.dtype, own.kinds, own.scales

    def forward(self, name, *arguments):
        result = getattr(self.own, name)(*unwrapped(arguments))
        assert result is None or isinstance(result, np.ndarray)
        return Remote(result) if name in ("empty", "ones") else result


@forwarding(backend.Device)
class StandIn:
    """The CPU as another device: results are the CPU's, bit by bit.

    It counts the calls of its functions, and accepts no batch but its own.
    """

    def __init__(self):
        self.calls = Counter()
        self.own = {name: getattr(cpu, name) for name in functions(backend.Device)}

    @contextmanager
    def alone(self):
        """Within, the CPU does nothing of what a device does."""
        with pytest.MonkeyPatch.context() as patch:
            for name in self.own:
                patch.setattr(cpu, name, _refused(name))
            yield

    def forward(self, name, *arguments):
        self.calls[name] += 1
        given = arguments if name == "hold" else unwrapped(arguments)
        result = self.own[name](*given)
        return Remote(result) if name in ("hold", "take") else result

    def partial_products(self, held, m, dtype) -> RemotePartialProducts:
        return RemotePartialProducts(self.forward("partial_products", held, m, dtype))


def unavailable():
    """Load a device that cannot be used here."""
    raise RuntimeError("there is no GPU here")


def _refused(name):
    def refuse(*_):
        raise AssertionError(f"{name} was done by the CPU.")

    return refuse
