"""Bases: functions of curves and their scales; weights are translated between them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import curve_batch
from strategies import seeds

from ttexm import RankOneBatch, TTTensor
from ttexm.learn.bases import ALL_FUNCTIONS, FEW, LINEAR, ROUGH, SMOOTH, has_curves
from ttexm.learn.data import Data
from ttexm.learn.losses import Softmax, Squared

BASES = (LINEAR, SMOOTH, ROUGH, FEW, ALL_FUNCTIONS)
KINDS = ("curve", "line", "category", "numbers", "vectors", "indices")


def mode(kind, rng, m):
    if kind == "curve":
        return curve_batch(rng, m, 12, 14)
    if kind == "line":
        return curve_batch(rng, m, 2, 5)
    if kind == "category":
        return RankOneBatch.from_codes(rng.integers(0, 4, (m, 1)), (4,), 0.7)
    if kind == "numbers":
        return RankOneBatch.from_columns([rng.standard_normal((m, 2))])
    if kind == "vectors":
        return RankOneBatch.from_vectors([rng.standard_normal((m, 3))])
    return RankOneBatch.from_indices(rng.integers(0, 3, (m, 1)), (3,))


def data_of_modes(kinds, rng, m=20, n_outputs=1):
    batch = RankOneBatch.join([mode(kind, rng, m) for kind in kinds])
    if n_outputs == 1:
        return Data(batch, rng.standard_normal(m), np.ones(m), Squared())
    return Data(batch, np.eye(n_outputs)[rng.integers(0, n_outputs, m)], np.ones(m), Softmax())


# -- functions and scales -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("basis", "n", "scales"),
    [
        (LINEAR, 12, [1.0]),
        (SMOOTH, 12, 1 / np.arange(1.0, 12)),
        (ROUGH, 12, np.arange(1.0, 12) ** -0.5),
        (FEW, 12, np.arange(1.0, 9) ** -0.5),
        (FEW, 4, np.arange(1.0, 4) ** -0.5),
        (ALL_FUNCTIONS, 12, np.ones(11)),
        (SMOOTH, 2, [1.0]),
    ],
    ids=lambda x: getattr(x, "name", None),
)
@pytest.mark.parametrize("s", [1.0, 0.3])
def test_function_j_of_a_curve_is_scaled_by_a_power_of_j(basis, n, scales, s):
    curve = curve_batch(np.random.default_rng(0), 30, n, 14)
    found = curve.with_modes(basis.modes(curve.modes, s)).vectors(0)
    assert_allclose(found[:, 0], 1)
    assert_allclose(found[:, 1:], s * curve.vectors(0)[:, 1 : len(scales) + 1] * scales)


@pytest.mark.parametrize("basis", BASES, ids=lambda basis: basis.name)
def test_other_modes_have_the_same_slots_in_all_bases(basis):
    rng = np.random.default_rng(0)
    kinds = ("category", "numbers", "vectors", "indices")
    data = data_of_modes(("curve", *kinds), rng)
    n_functions = {"linear": 1, "few": 8}.get(basis.name, 11)
    features = data.features(basis, 0.5)
    assert features.shape == (1 + n_functions, 4, 3, 3, 3)
    for k, kind in enumerate(kinds, 1):
        expected = data.batch.vectors(k)
        if kind in ("category", "numbers"):
            expected[:, 1:] *= 0.5
        assert_allclose(features.vectors(k), expected)


def test_bases_differ_if_there_is_a_curve_of_several_functions():
    rng = np.random.default_rng(0)
    for kinds, expected in [
        (("curve", "category"), True),
        (("line", "category"), False),
        (("numbers", "vectors", "category", "indices"), False),  # numbers are no curves
        (("line", "numbers", "curve"), True),
    ]:
        modes = data_of_modes(kinds, rng).batch.modes
        assert has_curves(modes) is expected
        shapes = {basis.modes(modes).shape for basis in (LINEAR, FEW, ROUGH)}
        assert (len(shapes) > 1) == expected


# -- weights in another basis ---------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    st.sampled_from(BASES),
    st.sampled_from([1.0, 0.2, 1.4]),
    st.sampled_from([1, 3]),
    seeds,
)
def test_the_same_model_in_all_functions_has_the_same_predictions(kinds, basis, s, outputs, seed):
    rng = np.random.default_rng(seed)
    data = data_of_modes(kinds, rng, n_outputs=outputs)
    shape = (*data.features(basis, s).shape, *data.y.shape[1:])
    W = TTTensor.random(shape, 3, rng)
    f = data.predict(W, basis, s)
    assert f.shape == data.y.shape
    plain = data.to_plain(W, basis, s)
    assert plain.shape == data.shape
    assert_allclose(data.predict(plain, ALL_FUNCTIONS, 1.0), f, atol=1e-9 * np.abs(f).max())
    assert_allclose(plain.contract(data.batch), f, atol=1e-9 * np.abs(f).max())
    back = data.from_plain(plain, basis, s)
    assert_allclose((back - W).norm(), 0, atol=1e-9 * W.norm())


@given(st.sampled_from([LINEAR, FEW]), st.sampled_from([1.0, 0.3]), seeds)
def test_functions_that_a_basis_does_not_have_are_dropped(basis, s, seed):
    """What is left predicts as if the weights of all other functions were zero."""
    rng = np.random.default_rng(seed)
    data = data_of_modes(("curve", "category", "curve", "vectors"), rng)
    W = TTTensor.random(data.shape, 3, rng)
    n = 2 if basis is LINEAR else 9
    cores = W.to_cores()
    cores[0][:, n:] = cores[2][:, n:] = 0
    f = data.predict(data.from_plain(W, basis, s), basis, s)
    assert_allclose(f, TTTensor(cores).contract(data.batch), atol=1e-9 * np.abs(f).max())


@given(st.lists(st.sampled_from(KINDS[:4]), min_size=1, max_size=3), st.sampled_from(BASES), seeds)
def test_an_additive_model_is_the_same_at_all_order_scales(kinds, basis, seed):
    data = data_of_modes(kinds, np.random.default_rng(seed))
    model = data.additive(basis, 0.01)
    f = data.predict_additive(model, basis)
    for s in (1.0, 0.2):
        assert_allclose(data.predict(model.tensor(s), basis, s), f, atol=1e-9 * np.abs(f).max())


def test_the_penalty_weighs_function_j_of_a_curve_by_a_power_of_j():
    """The additive model of a basis is ridge regression with these penalties, by another way."""
    rng = np.random.default_rng(0)
    batch, alpha = curve_batch(rng, 300, 8, 10), 0.02
    data = Data(batch, rng.standard_normal(300), np.ones(300), Squared())
    A, j = batch.vectors(0), np.arange(1.0, 8)
    for basis, power in [(SMOOTH, 1.0), (ROUGH, 0.5), (ALL_FUNCTIONS, 0.0)]:
        penalties = np.append(1.0, j ** (2 * power))
        w = np.linalg.solve(A.T @ A / 300 + alpha * np.diag(penalties), A.T @ data.y / 300)
        found = data.predict_additive(data.additive(basis, alpha), basis)
        assert_allclose(found, A @ w, atol=1e-8)


# -- losses of predictions ------------------------------------------------------------------------


def test_losses_of_samples_average_to_the_score():
    rng = np.random.default_rng(0)
    data = data_of_modes(("curve", "category"), rng, m=30, n_outputs=3)
    data = data.take(np.arange(30), rng.random(30))
    W = data.additive(ROUGH, 1e-2).tensor(0.5)
    f = data.predict(W, ROUGH, 0.5)
    expected = np.log(np.exp(f).sum(axis=1)) - f[data.y > 0]
    assert_allclose(data.losses_of(f), expected)
    assert_allclose(data.score(W, ROUGH, 0.5), np.average(expected, weights=data.weights))
    value = data.value(W, ROUGH, 0.5, 0.1)
    assert_allclose(value, data.score(W, ROUGH, 0.5) + 0.05 * W.norm() ** 2)


def test_losses_that_overflow_are_infinite():
    data = data_of_modes(("category",), np.random.default_rng(0), m=3)
    assert_array_equal(data.losses_of(np.array([1e200, np.nan, -np.inf])), np.inf)


def test_rows_that_are_taken_keep_their_features_targets_and_weights():
    rng = np.random.default_rng(0)
    data = data_of_modes(("curve", "numbers"), rng)
    data.features(SMOOTH, 0.5)
    taken = data.take(np.array([4, 2, 11]), np.array([1.0, 2.0, 3.0]))
    assert_array_equal(taken.y, data.y[[4, 2, 11]])
    assert taken.size == 6
    for k in range(2):
        expected = data.features(SMOOTH, 0.5).vectors(k)[[4, 2, 11]]
        assert_allclose(taken.features(SMOOTH, 0.5).vectors(k), expected)
