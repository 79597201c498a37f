"""Each block of Python in the README runs on its own, as readers copy them one at a time."""

import doctest
import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE  # as setup.cfg has them


def test_there_are_blocks():
    assert len(BLOCKS) == README.count("```python") > 3


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1])
def test_a_block_runs_on_its_own(block):
    if ">>>" not in block:
        exec(block, {"__name__": "readme"})
        return
    example = doctest.DocTestParser().get_doctest(block, {}, "README", "README.md", 0)
    report = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append).failed
    assert not failed, "".join(report)
