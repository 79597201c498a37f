"""Screening: products are found where they are, with their weights, and nothing else is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import seeds, shapes

from ttexm import RankOneBatch, TTTensor
from ttexm.learn.selection.plan import PLAN
from ttexm.learn.selection.screening import Screening, Term, sparse_cores


@given(shapes(), seeds, st.integers(1, 12))
def test_a_sparse_tensor_has_its_entries(shape, seed, count):
    rng = np.random.default_rng(seed)
    indices = np.unique(np.stack([rng.integers(0, n, count) for n in shape], axis=1), axis=0)
    values = rng.standard_normal(len(indices))
    dense = np.zeros(shape)
    dense[tuple(indices.T)] = values
    W = TTTensor(sparse_cores(indices, values, shape, 1e-12))
    assert_allclose(W.full(), dense, atol=1e-9)
    assert W.rank <= len(indices)


def test_pure_products_of_six_are_found_among_all():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (8000, 14))
    groups = [(0, 2, 5, 7, 9, 13), (1, 2, 3, 4, 5, 6), (3, 8, 10, 11, 12, 13)]
    y = sum(w * x[:, g].prod(axis=1) for w, g in zip((1.0, -0.5, 0.3), groups, strict=True))
    screening = Screening(RankOneBatch.from_columns(x), np.ones(8000))
    found = {}
    for cut in screening.cuts():
        for term in screening.find_terms(y, cut):
            found[tuple(sorted(k for k, _ in term.slots))] = term.coefficient
    assert set(groups) <= set(found)
    for w, group in zip((1.0, -0.5, 0.3), groups, strict=True):
        assert_allclose(found[group], w, atol=0.1)


def test_noise_shows_nothing():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.join(
        [
            RankOneBatch.from_columns(rng.standard_normal((3000, 6))),
            RankOneBatch.from_codes(rng.integers(0, 4, (3000, 2)), (4, 4)),
        ]
    )
    screening = Screening(batch, np.ones(3000), max_order=4)
    n_found = sum(
        len(screening.find_terms(rng.standard_normal(3000), cut)) for cut in screening.cuts() * 3
    )
    # Products of Gaussian columns have heavy tails: now and then one passes.
    assert n_found <= 2


def test_the_tensor_of_the_terms_is_their_sum_in_the_given_columns():
    rng = np.random.default_rng(0)
    color, x = rng.integers(1, 4, 6000), 5 + 3 * rng.random(6000)
    batch = RankOneBatch.join(
        [
            RankOneBatch.from_columns(x[:, None]),
            RankOneBatch.from_codes(color[:, None], (4,), 0.5),
            RankOneBatch.from_columns(np.ones((6000, 1))),
        ]
    )
    y = (x - x.mean()) / x.std() * np.where(color == 2, 1.0, -0.5)
    screening = Screening(batch, np.ones(6000), max_order=2)
    terms = screening.find_terms(y, 1)
    assert ((0, 1), (1, 2)) in [term.slots for term in terms]
    f = screening.tensor(terms).contract(batch)
    wanted = np.zeros(6000)
    for term in terms:
        product = np.ones(6000)
        for k, i in term.slots:
            column = batch.vectors(k)[:, i]
            product *= (column - column.mean()) / column.std()
        wanted += term.coefficient * product
    assert_allclose(f, wanted, atol=2e-3 * np.abs(wanted).max())


def test_values_of_terms_do_not_depend_on_their_order():
    x = np.random.default_rng(0).choice([-1.0, 1.0], (500, 4))
    screening = Screening(RankOneBatch.from_columns(x), np.ones(500))
    terms = [Term(tuple((k, 1) for k in group), 1.0, 1.0) for group in [(0, 1, 3), (0, 1), (2,)]]
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    expected = np.stack(
        [scaled[:, [0, 1, 3]].prod(axis=1), scaled[:, 0] * scaled[:, 1], scaled[:, 2]]
    )
    assert_allclose(screening.values(terms), expected.T)
    assert_allclose(screening.values(terms[::-1]), expected[::-1].T)


def test_weights_of_samples_count():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (4000, 5))
    y = np.where(np.arange(4000) < 2000, x[:, 0] * x[:, 1], x[:, 2] * x[:, 3])
    weights = np.where(np.arange(4000) < 2000, 1.0, 0.0)
    screening = Screening(RankOneBatch.from_columns(x), weights, max_order=2)
    groups = {
        tuple(k for k, _ in term.slots)
        for cut in (1, 2, 3)
        for term in screening.find_terms(y, cut)
    }
    assert (0, 1) in groups
    assert (2, 3) not in groups


def test_large_cuts_are_searched_to_a_lower_order():
    x = np.random.default_rng(0).choice([-1.0, 1.0], (500, 20))
    plan = replace(PLAN.screening, most_products=5000)
    screening = Screening(RankOneBatch.from_columns(x), np.ones(500), max_order=6, plan=plan)
    left, right = screening._sides(10)
    assert max(map(len, left)) == max(map(len, right)) == 2
    assert len(left) * len(right) <= 5000


def test_modes_without_a_constant_are_refused():
    batch = RankOneBatch.from_vectors([np.random.default_rng(0).random((10, 2))])
    with pytest.raises(ValueError, match="Column 0 has no constant in slot 0"):
        Screening(batch, np.ones(10))
