"""The benchmarks run, at tiny sizes; what they measure is not checked here."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_peers_agree_and_are_timed():
    out = run("benchmarks.peers_tt", "--quick", "--installed")
    for what in ("projection", "step", "rounding", "inference"):
        assert f"  {what}, " in out
    pytest.importorskip("teneva")
    assert "  step, teneva: sweeps, truncate by eigh\n" in out


def test_overheads_are_measured():
    out = run("benchmarks.overhead", "--quick")
    for what in ("transform, 1000 x 10, polars strings", "predict_proba, 1 x 30, an array"):
        assert f"  {what} " in out
    assert "GB above the input" in out


def test_extreme_tables_are_fitted():
    out = run("benchmarks.extremes", "--quick")
    assert "60 rows x 110 columns: regressor" in out
    assert "100 levels in 200 rows: regressor" in out


def test_scaling_fits_exponents():
    out = run("benchmarks.scaling", "--quick")
    for what, expected in (("contraction, r", 2), ("gradient, N", 1), ("retraction, r", 3)):
        (line,) = [line for line in out.splitlines() if line.startswith(f"  {what} ")]
        assert line.endswith(f"({expected})")


def test_default_fits_are_compared_on_tables(tmp_path):
    pytest.importorskip("pandas")
    file = str(tmp_path / "tables.json")
    arguments = ["--only", "diabetes", "--splits", "1", "--results", file]
    arguments += ["--learners", "ttexm", "linear"]
    out = run("benchmarks.tables", *arguments)
    assert "diabetes (seeds 0)" in out
    (line,) = [line for line in out.splitlines() if line.startswith("  linear  ") and "x" in line]
    assert sum(map(int, line.split()[1:4])) == 1  # ahead, level or behind, on one table
    assert "  diabetes" in run("benchmarks.tables", "--small", *arguments)


def test_explanations_are_timed():
    out = run("benchmarks.explain", "--quick", "--alone")
    for what in ("Shapley values, 20 rows, d = 30", "the 20 strongest sets", "all variance shares"):
        assert f"  {what}" in out
