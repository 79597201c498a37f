import os
from pathlib import Path

import hypothesis

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
hypothesis.settings.load_profile("ttexm")
