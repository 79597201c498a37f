"""Leave out the doctests of modules whose dependencies are not installed."""

import importlib.util

# Collecting their examples would import them.
NEEDED = {"ttexm/interop.py": "pymanopt", "ttexm/kernels/cuda/*": "numba_cuda"}
collect_ignore_glob = [
    path for path, package in NEEDED.items() if importlib.util.find_spec(package) is None
]
