"""Folds: each row is tested on once, classes are spread, and equal rows stay together.

Except for copies of a row where most rows occur once: these are dealt out one by one.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from problems import data_of
from strategies import seeds

from ttexm import RankOneBatch
from ttexm.data.rows import merge
from ttexm.learn.bases import LINEAR
from ttexm.learn.data import Data
from ttexm.learn.losses import Logistic, Softmax, Squared
from ttexm.learn.selection.folds import hold_out, make_folds
from ttexm.learn.selection.plan import PLAN


def design(data):
    """A column of ones, and the numbers of all columns."""
    numbers = [data.batch.vectors(k)[:, 1:] for k in range(data.batch.ndim)]
    return np.hstack([np.ones((len(data), 1)), *numbers])


def merged(data):
    """The distinct rows of features and target, as fits have them."""
    return data.take(*merge(data.keys, data.y, data.weights))


def contents(data):
    targets = data.y.reshape(len(data), -1)
    return sorted((int(key), *row) for key, row in zip(data.keys, targets, strict=True))


def weight_of_each(data):
    """The total weight of each distinct row, by key and target."""
    totals = {}
    for key, target, weight in zip(data.keys.tolist(), data.y.tolist(), data.weights, strict=True):
        totals[key, target] = totals.get((key, target), 0.0) + weight
    return totals


@given(seeds, st.integers(8, 200), st.integers(2, 5), st.booleans())
def test_every_row_is_tested_on_once_and_with_its_equals(seed, m, n_values, is_weighted):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, n_values, (m, 3)).astype(float)
    y = rng.standard_normal(m)  # all rows differ, but not in their features
    weights = rng.uniform(0.1, 2, m) if is_weighted else np.ones(m)
    data = merged(data_of(x, y, weights=weights))
    folds = make_folds(data, np.random.default_rng(seed))
    assert len(folds) == min(4, data.n_groups)
    tested = []
    for fold in folds:
        assert not set(fold.train.keys) & set(fold.test.keys)
        assert_allclose(fold.train.size + fold.test.size, data.size)
        tested += contents(fold.test)
    assert sorted(tested) == contents(data)


@given(seeds, st.booleans())
def test_weights_that_are_no_numbers_of_copies_do_not_part_equal_rows(seed, is_repeated):
    """Neither do weights that are, if most features are repeated."""
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.standard_normal((40, 2)), 2, axis=0)
    y = np.tile([0.0, 1.0], 40)
    weights = rng.integers(2, 5, 80) if is_repeated else rng.uniform(1, 1.6, 80)
    weights[:2] = 1
    if not is_repeated:
        x[20:] = rng.standard_normal((60, 2))
    for fold in make_folds(merged(data_of(x, y, weights=weights)), rng):
        assert not set(fold.train.keys) & set(fold.test.keys)


def test_one_copy_does_not_part_the_rows_of_repeated_features():
    """Five measurements of each of forty settings, one of them entered twice."""
    rng = np.random.default_rng(0)
    x, y = np.repeat(rng.standard_normal((40, 2)), 5, axis=0), rng.standard_normal(200)
    for n_copies in (0, 1, 3):
        chosen = np.append(np.arange(200), np.arange(n_copies))
        for fold in make_folds(merged(data_of(x[chosen], y[chosen])), np.random.default_rng(0)):
            assert not set(fold.train.keys) & set(fold.test.keys)


@given(seeds, st.integers(1, 3))
def test_copies_are_dealt_one_by_one_where_most_rows_occur_once(seed, n_more):
    """Each copy is tested on once, and trained on in all other folds."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    chosen = np.concatenate([np.arange(60), np.repeat(np.arange(12), n_more)])
    data = merged(data_of(x[chosen], y[chosen]))
    folds = make_folds(data, rng)
    total, tested = weight_of_each(data), {}
    for fold in folds:
        train, test = weight_of_each(fold.train), weight_of_each(fold.test)
        for row, weight in total.items():
            assert_allclose(train.get(row, 0) + test.get(row, 0), weight)
            tested[row] = tested.get(row, 0) + test.get(row, 0)
    assert_allclose([tested[row] for row in total], list(total.values()))
    assert any(set(fold.train.keys) & set(fold.test.keys) for fold in folds)


@given(seeds, st.integers(8, 60), st.integers(2, 5), st.booleans())
def test_weights_are_split_as_repetitions_are(seed, m, n_values, are_most_single):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, n_values, (m, 2)).astype(float)
    x[:2] = [[0, 0], [1, 1]]
    counts = rng.integers(1, 5, m)
    if are_most_single:
        x, counts = x + rng.random((m, 2)), np.where(np.arange(m) < m // 3, counts, 1)
    y = np.round(x[:, 0] - x[:, 1])
    mixed = rng.permutation(np.repeat(np.arange(m), counts))
    weighted = merged(data_of(x, y, weights=1e-7 * counts))
    repeated = merged(data_of(x[mixed], y[mixed]))
    pairs = zip(
        make_folds(weighted, np.random.default_rng(1)),
        make_folds(repeated, np.random.default_rng(1)),
        strict=True,
    )
    for one, other in pairs:
        assert contents(one.train) == contents(other.train)
        assert contents(one.test) == contents(other.test)
        assert_allclose(one.train.weights, other.train.weights)
        assert_allclose(one.test.weights, other.test.weights)


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
    folds = make_folds(data_of(x, x[:, 0]), np.random.default_rng(0))
    assert [len(fold.train) + len(fold.test) for fold in folds] == [PLAN.most_rows] * 3
    assert len(np.unique(np.concatenate([fold.test.keys for fold in folds]))) == PLAN.most_rows
    assert len(make_folds(data_of(x[:8000], x[:8000, 0]), np.random.default_rng(0))) == 3
    assert len(make_folds(data_of(x[:5000], x[:5000, 0]), np.random.default_rng(0))) == 4


@pytest.mark.parametrize(
    ("n_levels", "n_rows"), [(3, PLAN.most_rows), (1200, 12_000), (5000, PLAN.most_rows_of_levels)]
)
def test_many_levels_are_validated_on_more_rows(n_levels, n_rows):
    rng = np.random.default_rng(0)
    m = PLAN.most_rows_of_levels + 5000
    batch = RankOneBatch.from_codes(rng.integers(0, n_levels, (m, 1)), (n_levels,))
    folds = make_folds(Data(batch, rng.standard_normal(m), np.ones(m), Squared()), rng)
    assert [len(fold.train) + len(fold.test) for fold in folds] == [n_rows] * 3


def test_additive_models_of_a_fold_are_fitted_once_and_on_the_training_part():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 3))
    data = data_of(x, x @ [1.0, 2.0, -1.0] + 0.1 * rng.standard_normal(80))
    fold = make_folds(data, rng)[0]
    first = fold.additive(LINEAR, 1.0)
    assert fold.additive(LINEAR, 1.0) is first
    # A path of penalties, each model starting from the last one, ends where a fresh fit does.
    for ridge in (0.1, 30.0, 3.0):
        found = fold.predict(fold.additive(LINEAR, ridge), LINEAR)
        A = design(fold.train)
        w = np.linalg.solve(A.T @ A + ridge * np.eye(4), A.T @ fold.train.y)
        assert_allclose(found, design(fold.test) @ w, atol=1e-8)


def test_additive_models_of_a_fold_are_as_exact_as_the_plan_says():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 3))
    y = np.where(x @ [1.0, 2.0, -1.0] + rng.standard_normal(400) > 0, 1.0, -1.0)
    errors = []
    for tolerance in (PLAN.additive_tolerance, 1e-1):
        plan = replace(PLAN, additive_tolerance=tolerance)
        fold = make_folds(data_of(x, y, Logistic()), np.random.default_rng(0), plan)[0]
        exact = fold.train.additive(LINEAR, 1.0 / fold.train.size)
        errors.append(np.abs(fold.additive(LINEAR, 1.0).weights[1] - exact.weights[1]).max())
    assert errors[0] < 1e-4 < errors[1]


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
    train, test = hold_out(merged(data_of(x, y)), 0.2, np.random.default_rng(0))
    assert len(test) == 18
    assert not set(train.keys) & set(test.keys)
    with pytest.raises(ValueError, match="all rows have the same ones"):
        hold_out(data_of(np.ones((5, 1)), np.arange(5.0)), 0.2, np.random.default_rng(0))
