"""``python -m ttexm``: options are answered before anything is imported for the demo, or run."""

import subprocess
import sys
from pathlib import Path

import pytest

from ttexm import __main__ as command
from ttexm import __version__

ROOT = Path(__file__).parent.parent


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ttexm", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "code", "shown"),
    [
        ("--help", 0, "usage: python -m ttexm [-h] [--version]"),
        ("-h", 0, "Run a demo"),
        ("--version", 0, f"ttexm {__version__}\n"),
        ("--verison", 2, "error: unrecognized arguments: --verison"),
        ("demo", 2, "error: unrecognized arguments: demo"),
    ],
)
def test_options_are_answered_at_once(option, code, shown):
    done = run(option)
    assert done.returncode == code
    assert shown in (done.stderr if code else done.stdout)
    assert "import time" in done.stderr
    assert "sklearn" not in done.stderr  # nothing of the demo was imported
    assert "threads. The first run" not in done.stdout


def test_without_options_the_demo_runs(monkeypatch, capsys):
    monkeypatch.setattr(command, "TRAIN", 1000)
    monkeypatch.setattr(command, "TEST", 500)
    monkeypatch.setattr(command, "FEATURES", 8)
    monkeypatch.setattr(command, "ORDER", 3)
    monkeypatch.setattr(command, "warm_up", lambda: None)
    command.main([])
    shown = capsys.readouterr().out
    for name in ("ExMClassifier", "LogisticRegression", "HistGradientBoostingClassifier"):
        assert name in shown
    assert shown.count("found") == command.INTERACTIONS
