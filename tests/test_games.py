"""Shapley values, interactions and partial dependence of trains, against all subsets."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import batches, feature_vectors, seeds, shapes

from ttexm import RankOneBatch, TTTensor
from ttexm.explain.games import Game


@st.composite
def problems(draw):
    """Samples, a base, a weight tensor with K outputs, and the values of all sets of columns."""
    shape = draw(shapes(8))
    batch = draw(batches(shape, most_samples=5, least_samples=1))
    rng = np.random.default_rng(draw(seeds))
    base = [phi.mean(axis=0) for phi in feature_vectors(batch[rng.integers(0, len(batch), 3)])]
    K = draw(st.integers(1, 3))
    W = TTTensor.random((*shape, K)[: len(shape) + (K > 1)], rank=3, seed=draw(seeds))
    values = naive.game(W.full().reshape(*shape, K), feature_vectors(batch), base)
    return batch, base, W, naive.moebius(values), values


def check(found, wanted, values):
    size = max(np.abs(value).max() for value in values.values())
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 * size)


@given(problems())
def test_shapley_values_are_those_of_all_subsets(problem):
    batch, base, W, terms, values = problem
    d = batch.ndim
    wanted = [naive.index_of(terms, (k,), lambda n: 1 / n) for k in range(d)]
    check(Game(W, d).values(batch, base), np.stack(wanted, axis=1), values)


@given(problems(), st.booleans())
def test_indices_of_pairs_are_those_of_all_subsets(problem, is_taylor):
    batch, base, W, terms, values = problem
    d, found = batch.ndim, Game(W, batch.ndim).pairs(batch, base, is_taylor)
    for k in range(d):
        check(found[:, k, k], np.zeros_like(found[:, k, k]), values)
        for j in range(k):
            weight = (lambda n: 1 / math.comb(n, 2)) if is_taylor else (lambda n: 1 / (n - 1))
            wanted = naive.index_of(terms, (j, k), weight)
            check(found[:, j, k], wanted, values)
            check(found[:, k, j], wanted, values)


@given(problems(), st.data())
def test_differences_are_moebius_terms(problem, data):
    batch, base, W, terms, values = problem
    S = data.draw(st.sampled_from(sorted(terms)))
    check(Game(W, batch.ndim).differences(batch, base, S), terms[S], values)
    check(Game(W, batch.ndim).value_at(base), terms[()][0], values)


def test_an_empty_batch_has_no_values():
    batch = RankOneBatch.from_columns(np.zeros((0, 3)))
    game = Game(TTTensor.ones((2, 2, 2)), 3)
    assert game.values(batch, [np.ones(2)] * 3).shape == (0, 3, 1)
    assert game.pairs(batch, [np.ones(2)] * 3, False).shape == (0, 3, 3, 1)


@pytest.mark.parametrize("d", [40, 300])
def test_enough_nodes_for_many_columns(d):
    """A product of columns is divided equally among them; additivity alone would not tell."""
    first, one = np.arange(d) < d // 2, np.array([1.0, 0.0])
    x = np.array([0.0, 1.0])
    halves = [
        TTTensor.rank_one([x if is_in else one for is_in in part]) for part in (first, ~first)
    ]
    W = halves[0] - halves[1]
    batch = RankOneBatch.from_columns(np.full((1, d), 1.02))
    found = Game(W, d).values(batch, [one] * d)[0, :, 0]
    wanted = 1.02 ** (d // 2) / (d // 2)
    assert_allclose(found, np.where(first, wanted, -wanted), rtol=1e-6)


def test_too_few_nodes_are_noticed():
    """A product of 2000 columns, each 1.2: a polynomial of degree 1999 that rises steeply."""
    d = 2000
    W = TTTensor.rank_one([np.array([0.0, 1.0])] * d)
    batch = RankOneBatch.from_columns(np.full((1, d), 1.2))
    with pytest.warns(RuntimeWarning, match="64 nodes are too few"):
        Game(W, d).values(batch, [np.array([1.0, 0.8])] * d)


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_products_beyond_floats_on_the_way(size):
    """200 columns multiply by 1e-3 and 200 by 1e3, in either order."""
    d = 400
    sizes = np.where(np.arange(d) < d // 2, size, 1 / size)
    W = TTTensor.rank_one([np.array([0.0, s]) for s in sizes])
    batch = RankOneBatch.from_columns(np.ones((1, d)))
    found = Game(W, d).values(batch, [np.array([1.0, 0.5])] * d)[0, :, 0]
    # (1 + t) / 2 for each of the others: the integral of d ((1 + t) / 2)^(d - 1) / 2 is 1 - 2^-d.
    assert_allclose(found, 1 / d, rtol=1e-6)


def test_values_do_not_depend_on_the_number_of_threads(threads):
    rng = np.random.default_rng(0)
    batch, base = RankOneBatch.from_columns(rng.standard_normal((500, 12))), [np.ones(2)] * 12
    game = Game(TTTensor.random((2,) * 12, rank=4, seed=0), 12)
    assert np.array_equal(*(_with(threads, n, lambda: game.values(batch, base)) for n in (1, 2)))


def _with(threads, n, function):
    threads(n)
    return function()
