"""Folds: each row is tested on once, together with its equals; classes are spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from problems import data_of
from strategies import seeds

from ttexm.learn.losses import Logistic, Softmax
from ttexm.learn.selection.folds import hold_out, make_folds
from ttexm.learn.selection.plan import PLAN


def contents(problem):
    targets = problem.y.reshape(len(problem), -1)
    return sorted((int(key), *row) for key, row in zip(problem.keys, targets, strict=True))


@given(seeds, st.integers(8, 200), st.integers(2, 5), st.booleans())
def test_every_row_is_tested_on_once_and_with_its_equals(seed, m, n_values, is_weighted):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, n_values, (m, 3)).astype(float)
    y = rng.integers(0, 2, m).astype(float)
    weights = rng.uniform(0.1, 2, m) if is_weighted else np.ones(m)
    problem = data_of(x, y, weights=weights).merged()
    folds = make_folds(problem, np.random.default_rng(seed))
    assert len(folds) == min(4, problem.n_groups)
    tested = []
    for fold in folds:
        assert not set(fold.train.keys) & set(fold.test.keys)
        assert_allclose(fold.train.size + fold.test.size, problem.size)
        tested += contents(fold.test)
    assert sorted(tested) == contents(problem)


@given(seeds, st.integers(8, 60), st.integers(2, 5))
def test_weights_are_split_as_repetitions_are(seed, m, n_values):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, n_values, (m, 2)).astype(float)
    x[:2] = [[0, 0], [1, 1]]
    y, counts = x[:, 0] - x[:, 1], rng.integers(1, 5, m)
    mixed = rng.permutation(np.repeat(np.arange(m), counts))
    weighted = data_of(x, y, weights=1e-7 * counts).merged()
    repeated = data_of(x[mixed], y[mixed]).merged()
    pairs = zip(
        make_folds(weighted, np.random.default_rng(1)),
        make_folds(repeated, np.random.default_rng(1)),
        strict=True,
    )
    for one, other in pairs:
        assert contents(one.train) == contents(other.train)
        assert contents(one.test) == contents(other.test)
        assert_allclose(one.train.weights, other.train.weights)


@pytest.mark.parametrize("sign", [1, -1])
def test_folds_spread_rare_classes(sign):
    x = np.random.default_rng(0).standard_normal((400, 2))
    y = np.where(np.arange(400) < 20, 1.0, -1.0)
    for fold in make_folds(data_of(x, sign * y, Logistic()), np.random.default_rng(0)):
        assert np.sum(fold.test.y == sign) == 5


@pytest.mark.parametrize("sizes", [(99, 99, 99), (103, 98, 41)])
def test_folds_do_not_know_the_names_of_classes(sizes):
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(3), sizes))
    x, found = rng.standard_normal((len(labels), 2)), []
    for names in ([0, 1, 2], [2, 0, 1], [1, 0, 2]):
        y = np.eye(3)[np.array(names)[labels]]
        folds = make_folds(data_of(x, y, Softmax()), np.random.default_rng(0))
        found.append([sorted(fold.test.keys.tolist()) for fold in folds])
    assert found[0] == found[1] == found[2]


def test_many_rows_are_validated_on_some():
    x = np.random.default_rng(0).standard_normal((PLAN.most_rows + 5000, 2))
    (fold,) = make_folds(data_of(x, x[:, 0]), np.random.default_rng(0))
    assert len(fold.train) + len(fold.test) == PLAN.most_rows
    assert len(make_folds(data_of(x[:8000], x[:8000, 0]), np.random.default_rng(0))) == 3


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_rows_that_are_held_out_have_all_classes(share):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 2))
    y = np.where(np.arange(400) < 40, 1.0, -1.0)
    problem = data_of(x, y, Logistic())
    train, test = hold_out(problem, share, np.random.default_rng(1))
    assert len(test) == 400 * share
    assert abs(np.sum(test.y > 0) - 40 * share) <= 1
    assert sorted(contents(train) + contents(test)) == contents(problem)


def test_equal_rows_are_held_out_together():
    x = np.repeat(np.arange(30.0), 3)[:, None]
    y = np.random.default_rng(0).standard_normal(90)
    train, test = hold_out(data_of(x, y).merged(), 0.2, np.random.default_rng(0))
    assert len(test) == 18
    assert not set(train.keys) & set(test.keys)
    with pytest.raises(ValueError, match="all rows have the same ones"):
        hold_out(data_of(np.ones((5, 1)), np.arange(5.0)), 0.2, np.random.default_rng(0))
