"""Kernels are compiled once, kept on disk, and never stale; an import compiles nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = """
import numpy as np
from ttexm.kernels import contraction, host
train = host.make_train(np.ones(4), np.array([1, 1, 1]), np.array([2, 2]))
mantissa, exponent = host.inner_product(train, train)
stats = contraction.inner_product.stats
print(mantissa * 2.0**exponent, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run(code, folder, **environment):
    environment = os.environ | {"PYTHONPATH": str(folder)} | environment
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True
    )


@pytest.fixture
def package(tmp_path):
    """A copy of the package, to be changed."""
    shutil.copytree(
        ROOT / "ttexm", tmp_path / "ttexm", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


@pytest.mark.slow
def test_the_cache_knows_functions_of_other_files(package):
    assert run(PRODUCT, package).stdout.split() == ["4.0", "0", "1"]
    assert run(PRODUCT, package).stdout.split() == ["4.0", "1", "0"]
    dense = package / "ttexm" / "kernels" / "dense.py"
    old = "    add_strided_product(out, q, a, 1, p, b, q, p, depth, q)\n"
    text = dense.read_text()
    assert text.count(old) == 1
    dense.write_text(text.replace(old, old + old))  # a transposed product is now added twice
    assert run(PRODUCT, package).stdout.split() == ["16.0", "0", "1"]


def test_without_a_place_for_the_cache_kernels_still_compile(package):
    code = "from numba.core import caching\ncaching.CacheImpl._locator_classes = []\n" + PRODUCT
    assert run(code, package).stdout.split()[0] == "4.0"


def test_importing_compiles_nothing(package):
    code = """
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import ttexm
print(len(recorder.buffer))
"""
    assert run(code, package).stdout.split() == ["0"]


def test_importing_loads_no_heavy_library(package):
    code = "import sys, ttexm; print([m for m in ('sklearn', 'pandas', 'matplotlib', 'pymanopt',"
    code += " 'numba.cuda', 'numba_cuda', 'cuda') if m in sys.modules])"
    assert run(code, package).stdout.strip() == "[]"


def test_an_unknown_vector_width_is_refused(package):
    failed = run("import ttexm", package, TTEXM_VECTOR_BYTES="48")
    assert "TTEXM_VECTOR_BYTES must be 32 or 64, got '48'." in failed.stderr


def test_a_numba_without_compiler_is_refused(package):
    failed = run("import ttexm", package, NUMBA_DISABLE_JIT="1")
    assert "ImportError: ttexm cannot run with NUMBA_DISABLE_JIT=1" in failed.stderr
    assert "set NUMBA_BOUNDSCHECK=1 instead" in failed.stderr
