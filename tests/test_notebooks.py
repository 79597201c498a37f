"""The notebooks run from top to bottom, and are committed with the outputs of such a run."""

import os
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason='needs nbclient, of the extra "dev"')
nbformat = pytest.importorskip("nbformat")
pytestmark = pytest.mark.slow
NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


# jupyter_client's transport warns of its own future; the notebook's kernel is another process.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, monkeypatch):
    monkeypatch.setenv("TTEXM_QUICK", "1")
    notebook = nbformat.read(path, as_version=4)
    if "datasets.load_" in str(notebook) and not os.environ.get("TTEXM_DATA"):
        pytest.skip("needs the datasets: set TTEXM_DATA to a folder that holds them")
    there = {"metadata": {"path": str(path.parent)}}
    client = nbclient.NotebookClient(notebook, resources=there, timeout=600, kernel_name="python3")
    client.execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_with_its_outputs(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
