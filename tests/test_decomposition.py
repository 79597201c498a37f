"""Variances of terms, and the search for the strongest, against all subsets written out."""

from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import batches, feature_vectors, seeds, shapes

from ttexm import RankOneBatch, TTTensor
from ttexm.data.moments import Moments
from ttexm.explain import strongest
from ttexm.explain.decomposition import Squares, variances
from ttexm.explain.strongest import find_strongest


@st.composite
def problems(draw, most_modes=8):
    """A batch with weights, a weight tensor with K outputs, and the tensor written out.

    The weight tensor is ``2^power`` times as large as the one that is written out.
    """
    shape = draw(shapes(most_modes))
    batch = draw(batches(shape, most_samples=8, least_samples=1))
    weights = np.random.default_rng(draw(seeds)).uniform(0.1, 2, len(batch))
    K = draw(st.integers(1, 3))
    W = TTTensor.random((*batch.shape, K)[: batch.ndim + (K > 1)], rank=3, seed=draw(seeds))
    W, power = W / W.norm(), draw(st.sampled_from([0, -2000, -950, 950, 2000]))
    return batch, weights, W * Fraction(2) ** power, W.full().reshape(*batch.shape, K), power


def sums(found, keys):
    return sum((found[S] for S in keys), 0.0)


@given(problems())
def test_sums_of_variances_are_those_of_all_subsets(problem):
    batch, weights, W, full, power = problem
    d = batch.ndim
    found = naive.term_variances(full, feature_vectors(batch), weights / weights.sum())
    sets = [S for S in found if S]
    squares = variances(W, Moments.of_batch(batch, weights))

    def check(mine, wanted):
        mine = np.ldexp(mine, 2 * (squares.exponent - power))
        assert_allclose(mine, wanted, rtol=1e-8, atol=1e-13 * max(found.values()))

    check(squares.total(), sums(found, sets))
    check(squares.first(), [found[(k,)] for k in range(d)])
    check(squares.totals(), [sums(found, [S for S in sets if k in S]) for k in range(d)])
    check(
        squares.by_order(), [sums(found, [S for S in found if len(S) == j]) for j in range(d + 1)]
    )
    check(squares.shapley(), [sum(found[S] / len(S) for S in sets if k in S) for k in range(d)])
    for S in found:
        check(squares.of_set(S), found[S])


@given(problems())
def test_moments_of_parts_are_those_of_all(problem):
    batch, weights, *_ = problem
    whole, n = Moments.of_batch(batch, weights), len(batch) // 2
    merged = whole
    if n:
        parts = [slice(0, n), slice(n, len(batch))]
        merged = Moments.merge(*(Moments.of_batch(batch[p], weights[p]) for p in parts))
    assert merged.total == pytest.approx(whole.total)
    for k, phi in enumerate(feature_vectors(batch)):
        shares = weights / weights.sum()
        mean = shares @ phi
        core = np.eye(phi.shape[1])[:, :, None]  # one slot after the other
        for column in (whole[k], merged[k]):
            assert_allclose(column.mean, mean, atol=1e-12)
            L = column.deviations(core)[:, :, 0]
            covariance = (phi - mean).T @ (shares[:, None] * (phi - mean))
            assert_allclose(L.T @ L, covariance, atol=1e-11)


def test_a_mean_of_ten_million_deviations_costs_no_digits():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3))
    batch = RankOneBatch.from_columns(1e7 + x)
    # f = 3 (x0 - 1e7) + 2 (x1 - 1e7) (x2 - 1e7) + 1e7, in powers of the columns.
    one, slope = np.array([1.0, 0]), np.array([-1e7, 1.0])
    W = (
        3 * TTTensor.rank_one([slope, one, one])
        + 2 * TTTensor.rank_one([one, slope, slope])
        + 1e7 * TTTensor.rank_one([one] * 3)
    )
    squares = variances(W, Moments.of_batch(batch, np.ones(40)))
    centred = x - x.mean(axis=0)
    pair = 4 * np.mean(centred[:, 1] ** 2) * np.mean(centred[:, 2] ** 2)
    found = np.ldexp(squares.of_set((1, 2)), 2 * squares.exponent)
    assert_allclose(found, pair, rtol=1e-6)
    total = np.ldexp(squares.total(), 2 * squares.exponent)
    m = x.mean(axis=0)
    alone = [3 * x[:, 0], 2 * m[2] * x[:, 1], 2 * m[1] * x[:, 2]]
    assert_allclose(total, pair + sum(np.var(one) for one in alone), rtol=1e-6)


# -- the strongest sets ----------------------------------------------------------------------------


@given(problems(), st.booleans(), st.integers(1, 6), st.data())
def test_the_strongest_sets_are_found_and_proved(problem, is_joint, k, data):
    batch, weights, W, full, power = problem
    d = batch.ndim
    orders = data.draw(st.none() | st.tuples(st.integers(1, d), st.integers(1, d)).map(sorted))
    if is_joint:
        squares = variances(W, Moments.of_batch(batch, weights))
        shares = weights / weights.sum()
        wanted = naive.term_variances(full, feature_vectors(batch), shares)
        wanted = {tuple((c, 1) for c in S): value for S, value in wanted.items()}
    else:
        squares = Squares(W.scaled_train, d)
        entries = np.sum(full**2, axis=-1)
        wanted = {
            tuple((c, i) for c, i in enumerate(index) if i): entries[index]
            for index in np.ndindex(*batch.shape)
        }
    least, most = orders or (1, d)
    wanted = {S: value for S, value in wanted.items() if least <= len(S) <= most}
    found = find_strongest(squares.cores, k, orders and tuple(orders), is_joint)
    unit = 4.0 ** (squares.exponent - power)
    best = sorted(wanted.values(), reverse=True)[:k]
    assert found.is_proved
    small = 1e-13 * max([1.0, *wanted.values()])
    assert_allclose(found.values * unit, best[: len(found.values)], rtol=1e-8, atol=small)
    assert all(value <= small for value in best[len(found.values) :])
    assert_allclose([wanted[S] for S in found.sets], best[: len(found.sets)], rtol=1e-8, atol=small)


def sum_of_products(d, n_products, seed, n=2):
    """A train that is a sum of products of up to five columns, and their squared weights."""
    rng = np.random.default_rng(seed)
    W, values = None, {}
    for _ in range(n_products):
        S = tuple(sorted(rng.choice(d, rng.integers(1, 6), replace=False).tolist()))
        factors = [np.eye(1, n)[0] for _ in range(d)]
        for c in S:
            factors[c] = np.append(0, rng.standard_normal(n - 1))
        term = TTTensor.rank_one(factors)
        values[S] = values.get(S, 0) + term.norm() ** 2
        W = term if W is None else W + term
    return W, values


@pytest.mark.parametrize("n", [2, 4])
def test_twenty_products_of_a_hundred_columns_are_found_and_proved(n):
    W, values = sum_of_products(100, 20, seed=0, n=n)
    squares = Squares(W.round(eps=1e-13).scaled_train, 100)
    found = find_strongest(squares.cores, 20)
    assert found.is_proved
    assert {tuple(c for c, _ in S) for S in found.sets} == set(values)
    wanted = sorted(values.values(), reverse=True)
    assert_allclose(found.values * 4.0**squares.exponent, wanted, rtol=1e-6)


def test_what_is_missed_is_no_stronger_than_the_statement_says(monkeypatch):
    """With too few prefixes there is no proof, but the bound holds."""
    monkeypatch.setattr(strongest, "FIRST_WIDTH", 2)
    monkeypatch.setattr(strongest, "MOST_NODES", 40)
    n_unproved = 0
    for seed in range(20):
        W = TTTensor.random((2,) * 7, rank=3, seed=seed)
        squares = Squares(W.scaled_train, 7)
        found = find_strongest(squares.cores, 3)
        entries = W.full() ** 2 / 4.0**squares.exponent
        others = {
            tuple((c, i) for c, i in enumerate(index) if i): entries[index]
            for index in np.ndindex(*W.shape)
        }
        del others[()]
        for S in found.sets:
            del others[S]
        assert max(others.values()) <= found.most_missed * (1 + 1e-9)
        n_unproved += not found.is_proved
    assert n_unproved > 5
