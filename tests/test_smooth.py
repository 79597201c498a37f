"""Smooth functions of columns: their definition, and what changes them and what does not."""

import naive
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import seeds

from ttexm.features import Auto, Polynomial, Smooth

n_knots_drawn = st.integers(2, 12)
clips = st.sampled_from([0.0, 0.005, 0.02, 0.1, 0.3])


@st.composite
def columns(draw, most_rows=60):
    """A column and integer weights. Its values are multiples of 1/64, so that sums are exact."""
    m = draw(st.integers(2, most_rows))
    rng = np.random.default_rng(draw(seeds))
    x = draw(
        st.sampled_from(
            [
                rng.standard_normal(m),
                rng.standard_t(1, m),
                rng.integers(0, 4, m),
                rng.integers(0, 30, m),
                rng.geometric(0.15, m) ** 2,
                np.where(rng.random(m) < 0.6, 0, rng.standard_normal(m)),
                rng.permutation(m),
                rng.integers(0, 2, m),
                np.full(m, 7),
            ]
        )
    )
    weights = draw(st.sampled_from([np.ones(m, int), rng.integers(1, 5, m)]))
    return np.round(64 * x) / 64, weights


def fitted_column(x, weights=None, **parameters):
    (fitted,) = Smooth(**parameters).fit(x[:, None], sample_weight=weights).columns_
    return fitted


def functions(x, fitted_on, weights=None, **parameters):
    """The functions of a column at x, without the constant."""
    fitted = Smooth(**parameters).fit(fitted_on[:, None], sample_weight=weights)
    return fitted.transform(x[:, None]).vectors(0)[:, 1:]


def assert_same(found, expected, roughness, tolerance=1e-6):
    """Compare functions, as columns, up to their signs and, if equally rough, up to rotations."""
    assert found.shape == expected.shape
    # The first function is the column itself, and has no place in this order.
    splits = 2 + np.flatnonzero(np.diff(roughness) > 1e-3 * roughness[1:])
    for group in np.split(np.arange(found.shape[1]), np.unique([1, *splits])):
        inner, expected_inner = (f[:, group] @ f[:, group].T for f in (found, expected))
        size = max(1, np.abs(expected_inner).max(initial=0))
        assert_allclose(inner / size, expected_inner / size, atol=tolerance)


# -- the definition --------------------------------------------------------------------------------


@given(columns(), n_knots_drawn, clips)
def test_knots_and_functions_are_those_of_the_definition(column, n_knots, clip):
    x, weights = column
    assume(len(np.unique(x)) > 2)
    fitted = fitted_column(x, weights, n_knots=n_knots, clip=clip)
    knots = naive.knots(x, weights, n_knots, clip)
    assert_array_equal(fitted.knots, knots)
    assume(len(np.unique(np.clip(x, knots[0], knots[-1]))) > 2)  # two values are -1 and 1
    expected, roughness = naive.smooth_functions(x, weights, knots)
    assert_same(fitted.table[:-1, 1:], expected, roughness)
    # At the rows, between them and beyond the knots.
    new = np.concatenate([x, np.linspace(x.min() - 1, x.max() + 1, 40)])
    found = functions(new, x, weights, n_knots=n_knots, clip=clip)
    assert_same(found, naive.hats(new, knots) @ expected, roughness)


@given(columns(), n_knots_drawn, clips)
def test_functions_are_uncorrelated_and_of_variance_1(column, n_knots, clip):
    x, weights = column
    found = functions(x, x, weights, n_knots=n_knots, clip=clip)
    assume(len(np.unique(found, axis=0)) > 2)
    w = weights / weights.sum()
    assert_allclose(w @ found, 0, atol=1e-7)
    # A share of 1e-9 of the mean variance is added, for functions without data.
    assert_allclose(found.T @ (w[:, None] * found), np.eye(found.shape[1]), atol=1e-5)


@given(columns(), n_knots_drawn, clips)
def test_functions_are_positive_at_the_last_knot(column, n_knots, clip):
    x, weights = column
    table = fitted_column(x, weights, n_knots=n_knots, clip=clip).table[:-1, 1:]
    assert (table[-1] >= -1e-6 * np.abs(table).max(axis=0)).all()


@given(columns(), n_knots_drawn, clips)
def test_functions_get_rougher_and_rougher(column, n_knots, clip):
    x, weights = column
    table = fitted_column(x, weights, n_knots=n_knots, clip=clip).table[:-1, 2:]
    roughness = (np.diff(table, axis=0) ** 2).sum(axis=0)
    assert (np.diff(roughness) > -1e-9 * roughness[1:]).all()


@given(columns(), n_knots_drawn, clips)
def test_the_first_function_is_the_clipped_column_standardised(column, n_knots, clip):
    x, weights = column
    polynomial = Polynomial(standardize=True, clip=clip).fit(x[:, None], sample_weight=weights)
    expected = polynomial.transform(x[:, None]).vectors(0)[:, 1]
    assume(expected.any())
    found = functions(x, x, weights, n_knots=n_knots, clip=clip)[:, 0]
    assert_allclose(found, expected, atol=1e-9)


def test_names_are_the_column_and_its_curves():
    fitted = Smooth(n_knots=4).fit(np.arange(5.0)[:, None])
    assert fitted.slot_names_ == [["1", "x0", "curve2(x0)", "curve3(x0)", "curve4(x0)"]]
    assert fitted.shape_ == (5,)


@pytest.mark.parametrize(("m", "n_knots"), [(1999, 17), (2001, 33), (9999, 33), (10_001, 65)])
def test_there_are_more_knots_for_more_rows(m, n_knots):
    assert len(fitted_column(np.arange(m) ** 1.5).knots) == n_knots
    assert len(fitted_column(np.arange(m) ** 1.5, n_knots=9).knots) == 9


# -- columns of few values -------------------------------------------------------------------------


@given(st.integers(3, 15), seeds)
def test_each_of_few_values_is_a_knot(n, seed):
    """.. so that the slots can say any function of the column."""
    x = np.random.default_rng(seed).permutation(np.arange(10 * n) % n) ** 2.0
    assert_array_equal(fitted_column(x, n_knots=10).knots, np.arange(n) ** 2)
    vectors = Smooth(n_knots=10).fit_transform(x[:, None]).vectors(0)
    assert np.linalg.matrix_rank(vectors) == vectors.shape[1] == n


@given(seeds, st.floats(0.2, 0.9), st.integers(2, 30))
def test_whether_a_frequent_value_is_taken_is_a_function(seed, share, n_knots):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(400) < share, 0, rng.standard_normal(400))
    assume(np.mean(x == 0) >= 1 / n_knots)
    knots = fitted_column(x, n_knots=n_knots).knots
    neighbours = [x[x < 0].max(), 0, x[x > 0].min()]
    assert set(neighbours) <= set(knots)
    vectors = Smooth(n_knots=n_knots).fit_transform(x[:, None]).vectors(0)
    fit = vectors @ np.linalg.lstsq(vectors, x == 0)[0]
    assert_allclose(fit, x == 0, atol=1e-5)


@pytest.mark.parametrize("n_knots", [4, 9, 16])
@pytest.mark.parametrize("n_heavy", [2, 4, 7, 12])
def test_several_frequent_values_leave_knots_for_the_others(n_heavy, n_knots):
    values = np.arange(80)
    weights = np.where((values * 11) % 80 < n_heavy, 50 + values, 1 + values % 3)
    expected = naive.knots(values, weights, n_knots, 0)
    assert_array_equal(fitted_column(values, weights, n_knots=n_knots, clip=0).knots, expected)


def test_two_values_are_minus_1_and_1():
    x = np.array([3.0, 8.0, 3.0, 3.0])
    assert_array_equal(functions(x, x), [[-1], [1], [-1], [-1]])
    assert_array_equal(functions(np.array([-9.0, 5.5, 99.0]), x), [[-1], [0], [1]])


@pytest.mark.parametrize("x", [[5.0], [5.0] * 9, [0.0], [-0.0, 0.0], [1e300], [-1.7e308] * 2])
def test_a_constant_column_has_a_function_that_is_zero(x):
    x = np.array(x)
    assert_array_equal(functions(x, x), np.zeros((len(x), 1)))
    assert_array_equal(functions(np.array([-1.0, 1e308]), x), np.zeros((2, 1)))


def test_two_knots_of_many_values_are_the_standardised_column():
    x = np.random.default_rng(0).standard_normal(100)
    assert_allclose(functions(x, x, n_knots=2, clip=0)[:, 0], (x - x.mean()) / x.std())


# -- clipping, and what was not seen ---------------------------------------------------------------


@given(columns(), clips)
def test_the_ends_are_the_clipped_quantiles(column, clip):
    x, weights = column
    assume(len(np.unique(x)) > 1)
    values, masses = naive.shares(x, weights)
    kept = naive.kept_values(values, masses, clip)
    knots = fitted_column(x, weights, n_knots=5, clip=clip).knots
    assert (knots[0], knots[-1]) == (values[kept[0]], values[kept[-1]])


def test_a_share_that_equals_the_limit_is_cut_at_either_end():
    x = np.arange(200.0)
    knots = fitted_column(x).knots
    assert (knots[0], knots[-1]) == (1, 198)
    knots = fitted_column(x, clip=0).knots
    assert (knots[0], knots[-1]) == (0, 199)


@pytest.mark.parametrize("chosen", [Smooth(), Auto(degree=3)], ids=repr)
def test_values_beyond_the_ends_are_those_at_the_ends(chosen):
    x = np.random.default_rng(0).standard_cauchy(1000)
    low, high = np.sort(x)[[5, -6]]  # more than 5 of 1000 rows are beyond them or equal
    fitted = chosen.fit(x[:, None])
    new = np.array([-1e300, x.min(), low, high, x.max(), 1e300])
    vectors = fitted.transform(new[:, None]).vectors(0)
    assert_array_equal(vectors[:3], [vectors[0]] * 3)
    assert_array_equal(vectors[3:], [vectors[3]] * 3)
    assert np.abs(vectors).max() < 1e5


@given(columns(), seeds)
def test_missing_values_are_the_constant_and_left_out(column, seed):
    x, weights = column
    holes = np.random.default_rng(seed).random(len(x)) < 0.3
    assume(not holes.all())
    table = np.where(holes, np.nan, x)[:, None]
    found = Smooth(n_knots=5).fit(table, sample_weight=weights).transform(table).vectors(0)
    assert_array_equal(found[holes, 1:], 0)
    assert_array_equal(found[:, 0], 1)
    known = functions(x[~holes], x[~holes], weights[~holes], n_knots=5)
    assert_array_equal(found[~holes, 1:], known)


def test_a_column_without_values_is_the_constant():
    fitted = Smooth().fit(np.full((3, 1), np.nan))
    assert_array_equal(fitted.transform(np.array([[np.nan], [2.0]])).vectors(0), [[1, 0]] * 2)


# -- what changes nothing --------------------------------------------------------------------------


@given(columns(), n_knots_drawn, clips)
def test_repeated_rows_are_weights(column, n_knots, clip):
    x, weights = column
    parameters = {"n_knots": n_knots, "clip": clip}
    one, other = (
        fitted_column(x, weights, **parameters),
        fitted_column(np.repeat(x, weights), **parameters),
    )
    assert_array_equal(other.knots, one.knots)
    assert_allclose(other.table, one.table, rtol=1e-6, atol=1e-6)


@given(columns(), n_knots_drawn, clips, seeds, st.floats(1e-3, 1e3))
def test_order_of_rows_and_unit_of_weights_change_nothing(column, n_knots, clip, seed, unit):
    x, weights = column
    parameters = {"n_knots": n_knots, "clip": clip}
    order = np.random.default_rng(seed).permutation(len(x))
    one = fitted_column(x, weights, **parameters)
    other = fitted_column(x[order], unit * weights[order], **parameters)
    assert_array_equal(other.knots, one.knots)
    assert_allclose(other.table, one.table, rtol=1e-6, atol=1e-6)


@given(
    columns(), n_knots_drawn, clips, st.sampled_from([1, 3, 0.5, 2.0**40]), st.integers(-99, 99),
    st.booleans(),
)  # fmt: skip
def test_units_of_a_column_change_nothing_but_signs(column, n_knots, clip, scale, b, is_mirrored):
    x, weights = column
    parameters = {"n_knots": n_knots, "clip": clip}
    a = -scale if is_mirrored else scale
    one = fitted_column(x, weights, **parameters)
    other = fitted_column(a * x + b, weights, **parameters)
    assume(one.table.any())
    if len(np.unique(x)) > 1:  # a constant has a second knot that means nothing
        assert_array_equal(np.sort(other.knots), np.sort(a * one.knots + b))
    table = other.table[-2::-1] if is_mirrored else other.table[:-1]
    # Functions are positive at the last knot: a mirrored one keeps its sign, or changes it.
    signs = np.sign(one.table[-2] * table[-1])
    if not is_mirrored:
        assert_array_equal(signs[1:], np.sign(one.table[-2, 1:]) ** 2)
    assert_allclose(table * signs, one.table[:-1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_knots", [8, 9, 99])
@pytest.mark.parametrize("m", [400, 401])
def test_evenly_spaced_values_have_knots_that_are_their_own_mirror_image(n_knots, m):
    """.. with two in the middle if no value is there."""
    knots = fitted_column(np.arange(m), n_knots=n_knots, clip=0).knots
    assert_array_equal(knots[::-1], m - 1 - knots)
    assert len(knots) == n_knots + (n_knots % 2 and m % 2 == 0)


@pytest.mark.parametrize("n_knots", range(3, 40))
def test_a_share_of_one_knot_is_frequent_in_any_unit_of_weights(n_knots):
    x = np.maximum(np.arange(-6.0, 7 * (n_knots - 1) + 1), 0)  # zero in 7 of 7 n_knots rows
    for unit in (1.0, 0.1, 1 / 3, 0.7):
        assert {0, 1} <= set(
            fitted_column(x, unit * np.ones(len(x)), n_knots=n_knots, clip=0).knots
        )


@given(columns(), n_knots_drawn, st.integers(-900, 900))
def test_powers_of_two_change_no_digit(column, n_knots, power):
    x, weights = column
    one = functions(x, x, weights, n_knots=n_knots)
    scaled = np.ldexp(x, power)
    assert_allclose(functions(scaled, scaled, weights, n_knots=n_knots), one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_columns_of_extreme_size_have_the_same_functions(size):
    x = np.random.default_rng(0).standard_normal(300)
    assert_allclose(functions(size * x, size * x), functions(x, x), atol=1e-9)
    beyond = np.array([-1.7e308, 1.7e308])
    ends = np.array([x.min(), x.max()])
    assert_allclose(functions(beyond, size * x), functions(ends, x), atol=1e-9)


def test_the_whole_range_of_floats_has_curves():
    x = np.ldexp(np.linspace(-1, 1, 1001), 1023)
    x *= 1.99
    middle = functions(np.array([0.0, x[0], x[-1]]), x, n_knots=2)[:, 0]
    assert_allclose(middle / middle[2], [0, -1, 1], atol=1e-9)


def test_the_last_digits_of_a_column_have_curves():
    steps = np.random.default_rng(0).integers(0, 100, 500).astype(float)
    x = 2.0**53 - 200 + steps
    assert_allclose(functions(x, x), functions(steps, steps), atol=1e-9)


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.float32, bool])
def test_types_of_numbers_change_nothing(kind):
    x = np.random.default_rng(0).integers(0, 50, 300).astype(kind)
    assert_array_equal(functions(x, x), functions(x.astype(float), x.astype(float)))


@given(seeds, st.integers(3, 8), clips)
def test_weights_of_any_size_give_finite_functions(seed, m, clip):
    rng = np.random.default_rng(seed)
    x, weights = np.arange(float(m)), 10.0 ** rng.uniform(-300, 0, m)
    fitted = fitted_column(x, weights, clip=clip)
    assert np.isfinite(fitted.table).all()
    assert fitted.table.shape == (len(fitted.knots) + 1, len(fitted.knots))


@given(columns(), n_knots_drawn)
def test_the_order_scale_multiplies_all_functions(column, n_knots):
    x, weights = column
    found = functions(x, x, weights, n_knots=n_knots, order_scale=0.3)
    assert_allclose(found, 0.3 * functions(x, x, weights, n_knots=n_knots), atol=1e-12)
