"""Screening: products are found where they are, with their weights, and nothing else is."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from problems import data_of
from strategies import seeds, shapes

from ttexm import RankOneBatch, TTTensor
from ttexm.features import Smooth
from ttexm.learn.bases import LINEAR
from ttexm.learn.data import Data
from ttexm.learn.losses import Softmax, Squared
from ttexm.learn.selection.plan import PLAN
from ttexm.learn.selection.screening import Screening, Term, _Products, screen, sparse_cores


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
    terms = screening.find_terms(y)
    found = {tuple(sorted(k for k, _ in term.slots)): term.coefficient for term in terms}
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
    n_found = sum(len(screening.find_terms(rng.standard_normal(3000))) for _ in range(12))
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
    terms = screening.find_terms(y)
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
    # Functions are kept in single precision.
    assert_allclose(screening.values(terms), expected.T, rtol=1e-6)
    assert_allclose(screening.values(terms[::-1]), expected[::-1].T, rtol=1e-6)


def test_weights_of_samples_count():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (4000, 5))
    y = np.where(np.arange(4000) < 2000, x[:, 0] * x[:, 1], x[:, 2] * x[:, 3])
    weights = np.where(np.arange(4000) < 2000, 1.0, 0.0)
    screening = Screening(RankOneBatch.from_columns(x), weights, max_order=2)
    groups = {tuple(k for k, _ in term.slots) for term in screening.find_terms(y)}
    assert (0, 1) in groups
    assert (2, 3) not in groups


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 3))
def test_every_product_up_to_the_order_is_tested(n_functions, q):
    """Products of the highest order 2 q once, by a pair of products of order q."""
    owner = np.repeat(np.arange(len(n_functions)), n_functions)
    products = _Products.up_to(q, owner, len(n_functions), np.inf)
    tested = Counter(
        tuple(sorted(products.functions(a) + products.functions(b)))
        for left, n_right in products.pairs()
        for a, b in itertools.product(left, range(n_right))
    )
    wanted = {
        some
        for j in range(1, 2 * q + 1)
        for some in itertools.combinations(range(len(owner)), j)
        if len(set(owner[list(some)])) == j
    }
    assert set(tested) == wanted
    assert all(count == 1 for some, count in tested.items() if len(some) == 2 * q)
    n_pairs = sum(tested.values())
    assert n_pairs == products.n_pairs
    assert _Products.up_to(q, owner, len(n_functions), n_pairs) is not None
    if n_pairs:
        assert _Products.up_to(q, owner, len(n_functions), n_pairs - 1) is None


@pytest.mark.parametrize(
    ("limits", "order"),
    [({}, 6), ({"most_products": 20_000}, 4), ({"most_products": 300}, 2),
     ({"most_work": 500 * 20_000}, 4), ({"most_products": 3}, 0)],
)  # fmt: skip
def test_wide_tables_are_screened_to_a_lower_order(limits, order):
    x = np.random.default_rng(0).choice([-1.0, 1.0], (500, 16))
    plan = replace(PLAN.screening, **limits)
    screening = Screening(RankOneBatch.from_columns(x), np.ones(500), max_order=6, plan=plan)
    terms = screening.find_terms(sum(x[:, :j].prod(axis=1) for j in (2, 4, 6)))
    assert {len(term.slots) for term in terms} == set(range(2, order + 1, 2))


def test_who_asks_for_a_higher_order_gets_it():
    """Within ten times the limits of a default fit, where order 6 is beyond them."""
    x = np.random.default_rng(0).choice([-1.0, 1.0], (500, 16))
    plan = replace(PLAN.screening, most_products=20_000)
    screening = Screening(RankOneBatch.from_columns(x), np.ones(500), max_order=8, plan=plan)
    terms = screening.find_terms(sum(x[:, :j].prod(axis=1) for j in (2, 4, 6, 8)))
    assert {len(term.slots) for term in terms} == {2, 4, 6, 8}


def test_modes_without_a_constant_are_refused():
    batch = RankOneBatch.from_vectors([np.random.default_rng(0).random((10, 2))])
    with pytest.raises(ValueError, match="Column 0 has no constant in slot 0"):
        Screening(batch, np.ones(10))


# -- adding what was found to a linear model ------------------------------------------------------


@given(seeds)
def test_screening_adds_what_is_there(seed):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (2000, 8))
    y = x[:, 1] * x[:, 4] * x[:, 7] + 0.3 * rng.standard_normal(2000)
    data = data_of(x, y)
    found = screen(data, data.additive(LINEAR, 1e-2), 1e-2 * len(y), max_order=4)
    index = tuple(int(k in (1, 4, 7)) for k in range(8))
    assert_allclose(found[index], 1, atol=0.1)


@pytest.mark.parametrize(
    ("z_scores", "n_passes"),
    [([30, 20, 5, 4], 3), ([30, 5, 20], 2), ([5, 5, 5], 4), ([30], 2), ([], 1), ([9] * 20, 8)],
)  # fmt: skip
def test_passes_end_where_little_more_is_found(z_scores, n_passes, monkeypatch):
    x = np.random.default_rng(0).choice([-1.0, 1.0], (500, 24))
    passes = []

    def find_terms(self, residual):
        passes.append(residual)
        j = 2 * len(passes) - 2
        return [Term(((j, 1), (j + 1, 1)), 1.0, z) for z in z_scores[j // 2 : j // 2 + 1]]

    monkeypatch.setattr(Screening, "find_terms", find_terms)
    plan = replace(PLAN.screening, n_passes=8, least_share=0.1)
    data = data_of(x, x[:, 0] * x[:, 1])
    screen(data, data.additive(LINEAR, 1e-2), 1.0, max_order=2, plan=plan)
    assert len(passes) == n_passes


def test_screening_adds_nothing_to_noise():
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1.0, 1.0], (1000, 8))
        noise = data_of(x, rng.standard_normal(1000))
        linear = noise.additive(LINEAR, 1e-2)
        found.append(screen(noise, linear, 10.0, max_order=4) is not None)
    assert sum(found) <= 3


@given(seeds, st.floats(0.7, 0.99))
def test_screened_products_lower_the_objective_in_correlated_columns(seed, correlation):
    """Marginal coefficients, as if columns were orthogonal, add the same effect many times."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((1000, 1))
    x = correlation * common + np.sqrt(1 - correlation**2) * rng.standard_normal((1000, 6))
    data = data_of(x, x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(1000))
    linear = data.additive(LINEAR, 1e-3)
    found = screen(data, linear, 1.0, max_order=6)
    assert found is not None
    values = [data.value(W, LINEAR, 1.0, 1e-3) for W in (found, linear.tensor())]
    assert values[0] < values[1]


def test_curves_are_screened_as_the_columns_themselves():
    """Products are of the first function of each curve, whatever else there is."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (2000, 4))
    y = x[:, 0] * x[:, 2] + 0.1 * rng.standard_normal(2000)
    batch = Smooth().fit(x).transform(x)
    data = Data(batch, y, np.ones(2000), Squared())
    found = screen(data, data.additive(LINEAR, 1e-2), 20.0, max_order=4)
    assert found.shape == (2,) * 4
    assert np.mean((data.predict(found, LINEAR, 1.0) - y) ** 2) < 0.011  # noise is 0.01
    largest = np.abs(found.full()).argmax()
    assert np.unravel_index(largest, found.shape) == (1, 0, 1, 0)


def test_nothing_is_screened_for_several_outputs_or_without_constants():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (500, 4))
    y = np.eye(2)[(x[:, 0] * x[:, 1] > 0).astype(int)]
    several = data_of(x, y, Softmax())
    assert screen(several, several.additive(LINEAR, 1e-2), 5.0, 4) is None
    vectors = RankOneBatch.from_vectors([np.stack([x[:, 0] > 0, x[:, 0] < 0], axis=1) * 1.0])
    batch = RankOneBatch.join([vectors, RankOneBatch.from_columns(x[:, 1:])])
    mixed = Data(batch, x[:, 0] * x[:, 1], np.ones(500), Squared())
    assert screen(mixed, mixed.additive(LINEAR, 1e-2), 5.0, 4) is None
