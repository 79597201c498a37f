import os
from pathlib import Path

import hypothesis
import pytest
from devices import IS_SIMULATED, SIMULATOR, StandIn

from ttexm.kernels import backend, schedule

DATA = Path(__file__).parents[2] / "shared" / "data"
if DATA.is_dir():
    os.environ.setdefault("TTEXM_DATA", str(DATA))

hypothesis.settings.register_profile(
    "ttexm",
    deadline=None,  # the first example of a kernel compiles it
    derandomize=True,
    max_examples=60,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "simulator", hypothesis.settings.get_profile("ttexm"), max_examples=15
)
hypothesis.settings.load_profile("simulator" if IS_SIMULATED else "ttexm")

if IS_SIMULATED:
    SIMULATOR.install()

NOT_SIMULATED = {
    "large": "too large for the CUDA simulator",
    "cpu": "about the CPU alone, which the CUDA simulator leaves as it is",
}


def pytest_collection_modifyitems(items):
    for item in items:
        for name, reason in NOT_SIMULATED.items():
            if IS_SIMULATED and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def stand_in(monkeypatch):
    """A device in the place of "cuda" that needs no GPU, and counts what it is asked for."""
    monkeypatch.delenv("TTEXM_DEVICE", raising=False)
    device = StandIn()
    backend.register("cuda", lambda: device)
    yield device
    backend.register("cuda", backend.load_cuda)


@pytest.fixture
def threads():
    """Sets the number of threads, for one test."""
    before = schedule.get_num_threads()
    yield schedule.set_num_threads
    schedule.set_num_threads(before)
