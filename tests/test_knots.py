"""Places of numbers on the knots of a column: those of a search in sorted knots."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import seeds

from ttexm.kernels.knots import places


def places_of(x, knots):
    """One column, by numpy: c + t with c the last knot up to x; what is missing is behind all."""
    n = len(knots)
    x = np.clip(x, knots[0], knots[-1])  # leaves NaN as it is
    c = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, n - 2)
    place = c + (x - knots[c]) / (knots[c + 1] - knots[c])
    return np.where(np.isnan(x), n, place)


@st.composite
def columns(draw):
    """Knots, and numbers between, on, next to and beyond them; some are missing."""
    n, power = draw(st.integers(2, 70)), draw(st.sampled_from([-300, -3, 0, 5, 300]))
    rng = np.random.default_rng(draw(seeds))
    knots = np.sort(rng.standard_normal(n)) * 10.0**power
    beside = np.concatenate([np.nextafter(knots, -np.inf), np.nextafter(knots, np.inf)])
    between = rng.uniform(2 * knots[0] - knots[-1], 2 * knots[-1] - knots[0], 30)
    strange = [np.nan, np.inf, -np.inf, 0.0, 1e308, -1e308]
    return knots, rng.permutation(np.concatenate([knots, beside, between, strange]))[:100]


@given(columns())
def test_places_are_those_of_numpy(column):
    knots, x = column
    found = places(x[:, None], [knots])[:, 0]
    assert_allclose(found, places_of(x, knots), rtol=0, atol=1e-12 * len(knots))
    assert ((found >= 0) & (found <= len(knots))).all()
    missing = np.isnan(x)
    assert (found[missing] == len(knots)).all()
    assert (found[~missing] <= len(knots) - 1).all()
    on_knots = np.isin(x, knots)
    assert_array_equal(found[on_knots], np.searchsorted(knots, x[on_knots]))


@given(st.lists(columns(), min_size=1, max_size=4))
def test_each_column_has_knots_of_its_own(given_columns):
    m = min(len(x) for _, x in given_columns)
    X = np.stack([x[:m] for _, x in given_columns], axis=1)
    found = places(X, [knots for knots, _ in given_columns])
    for k, (knots, _) in enumerate(given_columns):
        assert_array_equal(found[:, k], places(X[:, k : k + 1], [knots])[:, 0])


def test_no_rows_have_no_places():
    assert places(np.empty((0, 2)), [np.arange(3.0), np.arange(5.0)]).shape == (0, 2)


def test_larger_numbers_have_later_places():
    rng = np.random.default_rng(0)
    knots, x = np.sort(rng.standard_normal(33)), np.sort(rng.standard_normal(3000))
    assert (np.diff(places(x[:, None], [knots])[:, 0]) >= 0).all()
