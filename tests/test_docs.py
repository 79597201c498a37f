"""The README and the pages of docs/: what they show runs, and what they name exists.

pytest runs each page as one doctest, from top to bottom (see setup.cfg). The blocks of the README
also run each on their own here, as readers copy them one at a time.
"""

import configparser
import doctest
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE  # as setup.cfg has them
MOST_LINES = 120  # of the README

# What is not run: shell code (its commands are looked up), output, and directives of Sphinx.
OTHER_FENCES = {"bash", "text", "{toctree}", "{eval-rst}", "{include} ../CHANGELOG.md"}
FOREIGN_MODULES = {"pip", "pytest", "sphinx", "venv"}  # modules of `python -m` that are not ours
FILES = r"\b(?:tests|benchmarks|notebooks|docs)/[\w{},.]+\.(?:py|ipynb|md)"

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def fences(page):
    """The fenced blocks of a page, as (language, text)."""
    return re.findall(r"^```([^\n]+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def prose(page):
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def expanded(path):
    """The paths that a shell makes of one with braces."""
    choices = [part.split(",") for part in re.findall(r"\{(.*?)\}", path)]
    pattern = re.sub(r"\{.*?\}", "{}", path)
    return [pattern.format(*chosen) for chosen in itertools.product(*choices)]


def test_readme_is_short():
    assert len(README.read_text().splitlines()) <= MOST_LINES


@every_page
def test_every_block_is_tested_or_is_not_python(page):
    assert len(re.findall("^```", page.read_text(), re.MULTILINE)) == 2 * len(fences(page))
    for language, text in fences(page):
        if language == "python":
            assert text.startswith(">>> "), text
        else:
            assert language in OTHER_FENCES
            assert ">>>" not in text


def test_pytest_runs_every_page():
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    options = config["tool:pytest"]
    assert {"README.md", "docs/*.md"} <= set(options["testpaths"].split())
    wanted = {"--doctest-glob=README.md", "--doctest-glob=docs/*.md"}
    assert wanted <= set(options["addopts"].split())


BLOCKS = [text for language, text in fences(README) if language == "python"]


def test_readme_has_blocks():
    assert len(BLOCKS) > 1


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[1])
def test_a_block_of_the_readme_runs_on_its_own(block):
    example = doctest.DocTestParser().get_doctest(block, {}, "README", "README.md", 0)
    report = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append).failed
    assert not failed, "".join(report)


@every_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@every_page
def test_commands_and_files_that_are_named_exist(page):
    text = page.read_text()
    for module in set(re.findall(r"python -m ([\w.]+)", text)) - FOREIGN_MODULES:
        path = ROOT.joinpath(*module.rstrip(".").split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    for path in itertools.chain.from_iterable(map(expanded, re.findall(FILES, text))):
        assert (ROOT / path).exists(), path


def test_ci_finds_its_commands():
    def shell_lines(page):
        return "".join(text for language, text in fences(page) if language == "bash").splitlines()

    lines = shell_lines(README)
    assert 'python -m pip install -e ".[test]" && python -m pytest -m "not slow"' in lines
    assert 'python -m pip install -e ".[dev]" && python -m pytest' in lines
    simulated = "TTEXM_DEVICE=cuda NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/test_{"
    assert any(line.startswith(simulated) for line in shell_lines(ROOT / "docs" / "gpu.md"))
