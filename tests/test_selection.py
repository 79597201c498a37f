"""The choice of settings: fair folds, and simple settings where chance decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import seeds

from ttexm import RankOneBatch
from ttexm.losses import Logistic, Softmax, Squared
from ttexm.problem import Problem
from ttexm.selection import MOST_ROWS, Choice, Selection, make_folds, screen
from ttexm.table import hash_rows, read_table


def problem_of(x, y, loss=None, weights=None):
    weights = np.ones(len(x)) if weights is None else weights
    keys = hash_rows(read_table(x))
    return Problem(RankOneBatch.from_columns(x), y, weights, loss or Squared(), keys)


@given(seeds, st.integers(8, 200), st.integers(1, 5), st.booleans())
def test_folds_test_all_weight_once(seed, m, n_values, is_count):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, n_values, (m, 3)).astype(float)
    weights = rng.integers(1, 4, m).astype(float) if is_count else rng.uniform(0.1, 2, m)
    problem = problem_of(x, x[:, 0] * x[:, 1], weights=weights)
    folds = make_folds(problem, np.random.default_rng(seed))
    assert len(folds) == 4
    for fold in folds:
        assert_allclose(fold.train.size + fold.test.size, problem.size)
    assert_allclose(sum(fold.test.size for fold in folds), problem.size)


@given(seeds, st.integers(2, 60), st.integers(1, 5))
def test_weights_are_split_as_repetitions_are(seed, m, n_values):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, n_values, (m, 2)).astype(float)
    y, counts = x[:, 0] - x[:, 1], rng.integers(1, 5, m)
    mixed = rng.permutation(np.repeat(np.arange(m), counts))
    weighted = make_folds(problem_of(x, y, weights=counts.astype(float)), np.random.default_rng(1))
    repeated = make_folds(problem_of(x[mixed], y[mixed]), np.random.default_rng(1))

    def contents(problem):
        return sorted(np.repeat(problem.keys, problem.weights.astype(int)).tolist())

    for one, other in zip(weighted, repeated, strict=True):
        assert contents(one.train) == contents(other.train)
        assert contents(one.test) == contents(other.test)


def test_folds_spread_rare_classes():
    x = np.random.default_rng(0).standard_normal((400, 2))
    y = np.where(np.arange(400) < 20, 1.0, -1.0)
    for fold in make_folds(problem_of(x, y, Logistic()), np.random.default_rng(0)):
        assert np.sum(fold.test.y > 0) == 5


def test_many_rows_are_validated_on_some():
    x = np.random.default_rng(0).standard_normal((MOST_ROWS + 5000, 2))
    (fold,) = make_folds(problem_of(x, x[:, 0]), np.random.default_rng(0))
    assert len(fold.train) + len(fold.test) == MOST_ROWS


def test_losses_of_samples_average_to_the_score():
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((30, 3)), rng.random(30)
    y = np.eye(3)[rng.integers(0, 3, 30)]
    problem = problem_of(x, y, Softmax(), weights)
    W = problem.linear(1e-2)
    f = problem.predict(W, 1.0)
    expected = np.average(np.log(np.exp(f).sum(axis=1)) - f[y > 0], weights=weights)
    assert_allclose(problem.score(W, 1.0), expected)


def test_the_simplest_of_equals_is_chosen():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 2))
    selection = Selection(problem_of(x, x[:, 0]), np.random.default_rng(0))
    noise = [rng.standard_normal(len(fold.test)) for fold in selection.folds]
    noise = [part - part.mean() for part in noise]

    def judged(mean, spread, **settings):
        """Settings with a mean loss, and losses that differ from those of others by noise."""
        losses = [mean + spread * part for part in noise]
        return selection._judged(Choice(order_scale=1.0, n_iter=3, **settings), losses)

    # The standard deviation of a difference of two means: about 0.1 / sqrt(400) = 0.005.
    linear = judged(1.0, 0.1, penalty=1.0, rank=2, is_linear=True)
    no_better = judged(0.999, 0.0, penalty=0.1, rank=8)
    better = judged(0.99, 0.0, penalty=0.1, rank=8)
    more_penalty = judged(0.991, 0.1, penalty=0.3, rank=16)
    lower_rank = judged(0.991, 0.1, penalty=0.1, rank=4)
    assert selection._simplest([no_better, linear]) is linear
    assert selection._simplest([linear, better]) is better
    assert selection._simplest([linear, better, more_penalty]) is more_penalty
    assert selection._simplest([linear, better, lower_rank]) is lower_rank


@pytest.mark.parametrize("given", [{"alpha": 1e-2}, {"order_scales": (0.3,)}, {"ranks": (3,)}])
def test_what_is_given_is_not_searched_for(given):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (300, 4))
    problem = problem_of(x, x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(300))
    choice = Selection(problem, np.random.default_rng(0), max_order=0, **given).run()
    assert not choice.is_linear
    if "alpha" in given:
        assert choice.alpha(problem.size) == pytest.approx(1e-2)
    if "order_scales" in given:
        assert choice.order_scale == 0.3
    if "ranks" in given:
        assert choice.rank == 3


def test_screening_adds_what_is_there_and_nothing_else():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (4000, 10))
    y = x[:, 1] * x[:, 4] * x[:, 7] + 0.3 * rng.standard_normal(4000)
    problem = problem_of(x, y)
    found = screen(problem, problem.linear(1e-2), max_order=4)
    index = tuple(int(k in (1, 4, 7)) for k in range(10))
    assert_allclose(found[index], 1, atol=0.05)
    noise = problem_of(x, rng.standard_normal(4000))
    assert screen(noise, noise.linear(1e-2), max_order=4) is None
