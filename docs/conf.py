"""Settings of the documentation; `python -m sphinx -W docs site` builds it.

Sphinx, not mkdocs: with numpydoc it reads the docstrings as they are, in the style of scikit-learn.
"""

import ttexm

project = "ttexm"
author = "The ttexm developers"
version = release = ttexm.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
templates_path = ["templates"]
exclude_patterns = ["templates", "site"]

default_role = "py:obj"  # `Model` in a docstring is a link
autodoc_typehints = "none"  # the docstrings name the types
numpydoc_show_class_members = False  # the template of a class lists them
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = f"ttexm {version}"
html_show_sourcelink = False
html_sidebars = {"**": []}  # there is one level of pages, and the header lists them
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}


def setup(app):
    app.connect("autodoc-skip-member", skip_foreign_members)


def skip_foreign_members(app, what, name, member, skip, options):
    """Leave out what scikit-learn and pymanopt document themselves, in their own style."""
    home = getattr(member, "__module__", None) or ""
    return skip or home.startswith(("sklearn.", "pymanopt."))
