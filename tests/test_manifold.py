"""Manifold and TangentVector: projection, gradient, retraction, transport."""

import math
import pickle
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import mixed_batch
from strategies import DTYPES, batches, dtypes, feature_vectors, seeds, shapes, tensors

from ttexm import Manifold, RankOneBatch, TTTensor, allclose
from ttexm.kernels import cpu


@st.composite
def manifolds(draw):
    shape = draw(shapes(most_modes=4, most_entries=100))
    return Manifold(shape, draw(st.integers(1, 4)))


@st.composite
def points(draw, dtype=np.float64):
    """A manifold and a point of it, of any gauge and norm."""
    manifold = draw(manifolds())
    W = TTTensor.random(manifold.shape, manifold.ranks, draw(seeds), dtype)
    return manifold, 2.0 ** draw(st.integers(-3, 3)) * W


@st.composite
def points_and_batches(draw):
    manifold, W = draw(points())
    return manifold, W, draw(batches(manifold.shape))


def spread(*arrays):
    return max(1e-300, *(np.abs(array).max(initial=0) for array in arrays))


# -- the manifold itself ------------------------------------------------------------------------


@given(shapes(), st.integers(1, 9))
def test_ranks_are_trimmed_to_what_the_shape_allows(shape, rank):
    manifold = Manifold(shape, rank)
    assert manifold.ranks == tuple(min(rank, r) for r in naive.largest_ranks(shape))
    assert manifold.rank == max(manifold.ranks)
    assert manifold == Manifold(shape, manifold.ranks)
    assert Manifold(shape, (1,) + (rank,) * (len(shape) - 1) + (1,)) == manifold


def test_manifolds_are_immutable_values():
    manifold = Manifold((2, 3, 4), 2)
    again = pickle.loads(pickle.dumps(manifold))
    assert again == manifold
    assert hash(again) == hash(manifold)
    assert again.device == manifold.device
    assert manifold != Manifold((2, 3, 4), 1)
    assert manifold != "a manifold"
    with pytest.raises(AttributeError):
        manifold.shape = (2, 3)


@given(points())
def test_the_dimension_is_that_of_the_tangent_space(both):
    manifold, W = both
    assert manifold.dim == naive.manifold_dimension(manifold.shape, manifold.ranks)
    assert manifold.dim == len(naive.tangent_basis(W.cores))


@given(manifolds(), seeds, st.sampled_from(DTYPES))
def test_random_points_and_tangents_are_members_of_norm_one(manifold, seed, dtype):
    W = manifold.random_point(seed, dtype)
    assert manifold.contains(W)
    assert W.dtype == dtype
    assert abs(W.norm() - 1) < 1e-5
    xi = manifold.random_tangent(W, seed)
    assert abs(xi.norm() - 1) < 1e-5
    assert xi.dtype == dtype
    assert_array_equal(W.full(), manifold.random_point(seed, dtype).full())


def test_contains_gives_the_reason():
    manifold = Manifold((2, 3, 2), 2)
    W = TTTensor.random((2, 3, 2), 2, seed=0)
    assert manifold.contains(W)
    assert manifold.contains(W).reason == ""
    cores = W.to_cores()
    cores[1][1] = cores[1][0]
    cases = [
        (np.ones(3), "A point must be a TTTensor, got ndarray."),
        (TTTensor.ones((2, 3)), "W must have 3 modes, got 2."),
        (TTTensor.ones((2, 4, 2)), "W must have size 3 in mode 1, got 4."),
        (TTTensor.ones((2, 3, 2)), "W must have rank 2 at bond 1, got 1."),
        (math.nan * W, "A point needs finite cores, but cores[2] has NaN or inf."),
        (TTTensor(cores), "W must have rank 2 at bond 1; its cores have, but up to rounding"),
    ]
    for candidate, reason in cases:
        membership = manifold.contains(candidate)
        assert not membership
        assert membership.reason.startswith(reason)


# -- projection ---------------------------------------------------------------------------------


@given(points(), seeds, st.integers(1, 6))
def test_projection_of_a_tensor_is_the_orthogonal_projector(both, seed, rank):
    manifold, W = both
    Z = TTTensor.random(manifold.shape, rank, seed)
    xi = manifold.project(W, Z)
    exact = naive.project(W.cores, Z.full())
    assert_allclose(xi.to_tensor().full(), exact, atol=1e-10 * spread(Z.full()))
    assert xi.to_tensor().rank <= 2 * manifold.rank
    assert_allclose(xi.norm(), np.linalg.norm(exact), atol=1e-10 * spread(Z.full()) * Z.size)


@given(points(), seeds)
def test_projection_is_idempotent_self_adjoint_and_fixes_the_point(both, seed):
    manifold, W = both
    rng = np.random.default_rng(seed)
    Z, Y = (TTTensor.random(manifold.shape, 4, rng) for _ in range(2))
    xi, eta = manifold.project(W, Z), manifold.project(W, Y)
    scale = Z.norm() + Y.norm()
    assert (manifold.project(W, xi.to_tensor()) - xi).norm() <= 1e-12 * scale
    assert abs(xi.to_tensor().inner(Y) - Z.inner(eta.to_tensor())) <= 1e-12 * scale**2
    assert abs(xi.inner(eta) - xi.to_tensor().inner(eta.to_tensor())) <= 1e-12 * scale**2
    assert allclose(manifold.project(W, W).to_tensor(), W, rtol=1e-12)
    assert xi.norm() <= Z.norm() * (1 + 1e-12)


@given(points(), seeds)
def test_deltas_obey_the_gauge(both, seed):
    manifold, W = both
    xi = manifold.project(W, TTTensor.random(manifold.shape, 4, seed))
    U = W.orthogonalize().cores
    for k, delta in enumerate(xi.deltas):
        assert delta.shape == (manifold.ranks[k], manifold.shape[k], manifold.ranks[k + 1])
        assert not delta.flags.writeable
        if k < W.ndim - 1:
            assert np.abs(np.einsum("aib,aic->bc", U[k], delta)).max() <= 1e-12 * (1 + xi.norm())


@given(points(), seeds)
def test_projection_of_a_weighted_list_is_the_sum(both, seed):
    manifold, W = both
    rng = np.random.default_rng(seed)
    Z = [TTTensor.random(manifold.shape, r, rng) for r in (1, 3)]
    xi = manifold.project(W, Z, weights=[2.0, -0.5])
    one_by_one = 2 * manifold.project(W, Z[0]) - 0.5 * manifold.project(W, Z[1])
    assert (xi - one_by_one).norm() <= 1e-12 * (1 + xi.norm())
    plain = manifold.project(W, Z) - manifold.project(W, Z[0]) - manifold.project(W, Z[1])
    assert plain.norm() <= 1e-12 * (1 + xi.norm())
    assert manifold.project(W, []).norm() == 0


@given(points_and_batches(), seeds)
def test_projection_of_a_batch_is_the_orthogonal_projector(three, seed):
    manifold, W, batch = three
    weights = np.random.default_rng(seed).standard_normal(len(batch))
    Z = (weights @ naive.rank_ones(feature_vectors(batch))).reshape(manifold.shape)
    exact = naive.project(W.cores, Z)
    terms = np.abs(weights) @ np.abs(naive.rank_ones(feature_vectors(batch)))
    for xi in (manifold.project(W, batch, weights), manifold.gradient(W, batch, lambda f: weights)):
        assert_allclose(xi.to_tensor().full(), exact, atol=1e-9 * spread(terms))
        assert xi.point is W


@given(points_and_batches())
def test_unweighted_batches_have_weights_one(three):
    manifold, W, batch = three
    xi, eta = manifold.project(W, batch), manifold.project(W, batch, np.ones(len(batch)))
    assert (xi - eta).norm() == 0


# -- gradient -----------------------------------------------------------------------------------


@given(points_and_batches())
def test_the_function_gets_the_predictions(three):
    manifold, W, batch = three
    seen = []

    def derivative(f):
        seen.append(f)
        return np.zeros_like(f)

    assert manifold.gradient(W, batch, derivative).norm() == 0
    assert len(seen) == 1
    bound = naive.contract(
        naive.full([np.abs(G) for G in W.cores]), [np.abs(p) for p in feature_vectors(batch)]
    )
    assert_allclose(seen[0], W.contract(batch), rtol=0, atol=1e-9 * spread(bound))


class HalfSquares:
    """A loss as `value_and_gradient` takes it: (f - y)^2 / 2."""

    def __init__(self, y):
        self.y = y

    def derivative(self, f):
        f -= self.y  # in place, which is the loss's own affair
        return f


@given(points_and_batches(), seeds, dtypes, st.sampled_from([0, 900, -900]))
def test_value_and_gradient_are_those_of_contract_and_gradient(three, seed, dtype, power):
    manifold, W, batch = three
    W, batch = (W * Fraction(2) ** power).astype(dtype), batch.astype(dtype)
    y = np.random.default_rng(seed).standard_normal(len(batch)).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = manifold.gradient(W, batch, lambda f: f - y)
        for loss in (HalfSquares(y), HalfSquares(y).derivative, lambda f: f - y):
            f, xi = manifold.value_and_gradient(W, batch, loss)
            assert_array_equal(xi.flat_deltas, wanted.flat_deltas)
            assert xi.exponent == wanted.exponent
            assert xi.point is W
            assert f.dtype == dtype
            assert f.shape == (len(batch),)
        exact, size = (
            W.contract(batch),
            spread(W.full()) * spread(*feature_vectors(batch)) ** W.ndim,
        )
    if np.isfinite(size * W.size):
        eps = 1e4 * np.finfo(dtype).eps
        assert_allclose(f, exact, rtol=0, atol=eps * size * W.size)


def test_value_and_gradient_take_one_pass_through_the_samples(stand_in):
    batch = mixed_batch(np.random.default_rng(0), 70).to("cuda")
    manifold = Manifold(batch.shape, 3, "cuda")
    W = manifold.random_point(seed=0)
    with stand_in.alone():
        manifold.value_and_gradient(W, batch, np.sin)
    assert stand_in.calls == {"gauges": 1, "hold": 1, "gradient": 1}


@given(points_and_batches(), seeds)
def test_gradient_matches_finite_differences(three, seed):
    manifold, W, batch = three
    if len(batch) == 0:
        return
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(len(batch))

    def loss(Z):
        return 0.5 * np.mean((Z.contract(batch) - y) ** 2)

    xi = manifold.gradient(W, batch, lambda f: (f - y) / len(y))
    direction = manifold.random_tangent(W, rng)
    step = 1e-4 * W.norm()
    difference = loss(manifold.retract(W, step * direction)) - loss(
        manifold.retract(W, -step * direction)
    )
    terms = naive.rank_ones(feature_vectors(batch))
    scale = spread(terms) ** 2 * terms.shape[1] * (1 + W.norm())
    assert abs(difference / (2 * step) - xi.inner(direction)) <= 1e-5 * scale


@pytest.mark.large
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 7, 8, 16])
def test_large_batches_take_the_identity_gauge_and_agree(rank, dtype):
    # From rank 8 on, 48 r samples and more are taken in the identity gauge: split the batch.
    rng = np.random.default_rng(rank)
    d, m = 12, 48 * rank + 500
    manifold = Manifold((2, 3) * (d // 2), rank)
    W = manifold.random_point(seed=0, dtype=dtype)
    modes = []
    for k, n in enumerate(manifold.shape):
        if k % 3 == 0:
            modes.append(RankOneBatch.from_columns([rng.standard_normal((m, n - 1))], dtype))
        elif k % 3 == 1:
            modes.append(RankOneBatch.from_vectors([rng.standard_normal((m, n))], dtype))
        else:
            codes = rng.integers(0, n, (m, 1))
            modes.append(RankOneBatch.from_codes(codes, (n,), scale=0.7, dtype=dtype))
    batch, g = RankOneBatch.join(modes), rng.standard_normal(m)
    whole = manifold.gradient(W, batch, g)
    parts = [
        manifold.gradient(W, batch[start : start + 40], g[start : start + 40])
        for start in range(0, m, 40)
    ]
    total = sum(parts[1:], start=parts[0])
    assert (whole - total).norm() <= (1e-11 if dtype == np.float64 else 2e-3) * whole.norm()
    seen = {}
    again = manifold.gradient(W, batch, lambda f: seen.setdefault("f", f) * 0 + g)
    assert (again - whole).norm() == 0
    eps = 1e-11 if dtype == np.float64 else 1e-3
    assert_allclose(seen["f"], W.contract(batch), atol=eps * np.abs(seen["f"]).max())


@pytest.mark.cpu
def test_gradient_of_more_predictions_than_are_kept(monkeypatch):
    from ttexm.kernels import gradients

    rng = np.random.default_rng(0)
    manifold = Manifold((2,) * 10, 3)
    W = manifold.random_point(seed=0)
    batch, y = RankOneBatch.from_columns(rng.standard_normal((900, 10))), rng.standard_normal(900)
    kept = manifold.gradient(W, batch, lambda f: f - y)
    monkeypatch.setattr(gradients, "KEPT_BYTES", 100_000)
    assert (manifold.gradient(W, batch, lambda f: f - y) - kept).norm() <= 1e-11 * kept.norm()


# -- retraction ---------------------------------------------------------------------------------


@given(points(), seeds, st.sampled_from([0.0, 1e-9, 1e-4, 0.1, 1.0, 30.0]))
def test_retraction_is_quasi_optimal_rounding(both, seed, length):
    manifold, W = both
    xi = length * W.norm() * manifold.random_tangent(W, seed)
    target = W.full() + xi.to_tensor().full()
    Z = manifold.retract(W, xi)
    assert Z.ranks == manifold.ranks
    error, best = np.linalg.norm(Z.full() - target), naive.best_errors(target, manifold.ranks)
    assert error <= 1.0001 * math.hypot(*best) + 1e-12 * np.linalg.norm(target)
    for core in Z.orthogonalize().cores[:-1]:
        assert_allclose(np.einsum("aib,aic->bc", core, core), np.eye(core.shape[2]), atol=1e-12)


def test_retraction_error_has_slope_two():
    manifold = Manifold((3,) * 6, 3)
    W = manifold.random_point(seed=0)
    xi = manifold.random_tangent(W, seed=1)
    steps = np.logspace(-3.5, -2, 8)
    errors = [(manifold.retract(W, t * xi) - W - t * xi.to_tensor()).norm() for t in steps]
    assert abs(naive.slope(errors, steps) - 2) < 0.05


def test_gradient_has_slope_two_along_the_retraction():
    rng = np.random.default_rng(0)
    manifold = Manifold((2, 3, 4, 2, 3), 3)
    W, xi = manifold.random_point(seed=0), None
    batch = RankOneBatch.from_vectors([rng.standard_normal((50, n)) for n in manifold.shape])
    y = rng.standard_normal(50)
    xi = manifold.random_tangent(W, seed=1)
    slope = manifold.gradient(W, batch, lambda f: f - y).inner(xi)

    def loss(Z):
        return 0.5 * np.sum((Z.contract(batch) - y) ** 2)

    steps = np.logspace(-4, -2, 8)
    errors = [abs(loss(manifold.retract(W, t * xi)) - loss(W) - t * slope) for t in steps]
    assert abs(naive.slope(errors, steps) - 2) < 0.05


@given(points(), seeds)
def test_the_zero_step_stays(both, seed):
    manifold, W = both
    assert allclose(manifold.retract(W, manifold.zero_tangent(W)), W, rtol=1e-13)


def test_retraction_from_a_rank_deficient_point():
    # Ranks that were padded hold nothing yet; the step must be able to use them.
    manifold = Manifold((3,) * 5, 3)
    cores = TTTensor.random(manifold.shape, 3, seed=0).to_cores()
    for k in range(4):
        cores[k][:, :, 1:] = 0
    W = TTTensor(cores)
    assert not manifold.contains(W)
    Z = TTTensor.random(manifold.shape, 3, seed=1)
    xi = manifold.project(W, Z - W)
    target = W + xi.to_tensor()
    moved = manifold.retract(W, xi)
    best = naive.best_errors(target.full(), manifold.ranks)
    assert (moved - target).norm() <= 1.0001 * math.hypot(*best) + 1e-12
    assert (moved - Z).norm() < 0.9 * (W - Z).norm()


def test_retraction_to_and_from_the_zero_tensor():
    manifold = Manifold((2, 3, 2), 2)
    W = TTTensor.random(manifold.shape, 2, seed=0)
    zero = manifold.retract(W, -1 * manifold.project(W, W))
    assert zero.norm() <= 1e-15 * W.norm()
    nothing = 0.0 * W
    assert manifold.retract(nothing, manifold.zero_tangent(nothing)).norm() == 0
    xi = manifold.project(nothing, W)
    assert allclose(manifold.retract(nothing, xi), xi.to_tensor(), rtol=1e-12)


@pytest.mark.large
def test_a_descent_reaches_the_tensor():
    # Completion of a tensor from some of its entries: the whole of Manifold in a few lines.
    manifold = Manifold((6,) * 4, 2)
    target = manifold.random_point(seed=0)
    rng = np.random.default_rng(1)
    batch = RankOneBatch.from_indices(rng.integers(0, 6, (700, 4)), manifold.shape)
    y = target.contract(batch)
    W = manifold.retract(target, 0.3 * manifold.random_tangent(target, seed=2))
    for _ in range(300):
        xi = manifold.gradient(W, batch, lambda f: f - y)
        W = manifold.retract(W, -1.0 * xi)
    assert (W - target).norm() < 1e-6


@given(points(), seeds)
def test_transport_is_the_projection_on_the_other_space(both, seed):
    manifold, W = both
    W_new = manifold.random_point(seed)
    xi = manifold.random_tangent(W, seed)
    moved = manifold.transport(xi, W_new)
    assert moved.point is W_new
    exact = naive.project(W_new.cores, xi.to_tensor().full())
    assert_allclose(moved.to_tensor().full(), exact, atol=1e-11)
    assert (manifold.transport(xi, W) - xi).norm() < 1e-12


# -- tangent vectors ----------------------------------------------------------------------------


@given(points(), seeds)
def test_linear_combinations(both, seed):
    manifold, W = both
    rng = np.random.default_rng(seed)
    xi, eta = manifold.random_tangent(W, rng), manifold.random_tangent(W, rng)
    dense = 2 * xi.to_tensor().full() - eta.to_tensor().full() / 4
    combined = np.float64(2) * xi - eta / 4
    assert_allclose(combined.to_tensor().full(), dense, atol=1e-12)
    assert abs(combined.norm() - np.linalg.norm(dense)) < 1e-12
    assert manifold.norm(combined) == combined.norm()
    assert manifold.inner(xi, eta) == xi.inner(eta)
    sign, log = combined.log_inner(xi)
    assert_allclose(sign * math.exp(log), combined.inner(xi), rtol=1e-12)
    assert ((-xi) + xi).norm() == 0
    assert str(W.shape) in repr(xi)


@given(points(dtype=np.float32), seeds)
def test_float32_throughout(both, seed):
    manifold, W = both
    rng = np.random.default_rng(seed)
    batch = RankOneBatch.from_vectors([rng.standard_normal((20, n)) for n in manifold.shape])
    weights = rng.standard_normal(20)
    xi = manifold.gradient(W, batch, weights)
    Z = (weights @ naive.rank_ones(feature_vectors(batch))).reshape(manifold.shape)
    exact = naive.project([core.astype(np.float64) for core in W.cores], Z)
    assert xi.dtype == xi.to_tensor().dtype == manifold.retract(W, xi).dtype == np.float32
    assert_allclose(xi.to_tensor().full(), exact, atol=1e-3 * spread(Z) * 10)


def test_tensors_of_strategies_can_be_points():
    # The strategies also draw ranks that a shape does not allow: those are no points.
    W = TTTensor([np.ones((1, 2, 3)), np.ones((3, 2, 1))])
    with pytest.raises(ValueError, match="W must have rank 2 at bond 1, got 3"):
        Manifold((2, 2), 3).project(W, W)


@given(tensors(dtype=np.float64))
def test_the_manifold_of_the_rounded_tensor_contains_it(W):
    Z = W.round()
    if Z.norm() > 0:
        assert Manifold(Z.shape, Z.ranks).contains(Z)


@pytest.mark.parametrize(("power", "squared"), [(-1000, 0.0), (-400, 2.0**-800), (400, 2.0**800)])
def test_inner_products_of_any_scale(power, squared):
    manifold = Manifold((2, 3, 2), 2)
    W = manifold.random_point(seed=0)
    xi, eta = (manifold.random_tangent(W, seed) for seed in (1, 2))
    scaled = 2.0**power * xi
    assert scaled.norm() == 2.0**power * xi.norm()
    assert_allclose(scaled.inner(2.0**-power * eta), xi.inner(eta), rtol=1e-12)
    assert_allclose(scaled.inner(scaled), squared, rtol=1e-12)


def test_plain_numbers_that_do_not_fit_are_inf_with_a_warning():
    manifold = Manifold((2, 3, 2), 2)
    xi = 2**3000 * manifold.random_tangent(manifold.random_point(seed=0), seed=1)
    assert_allclose(xi.log_norm(), 3000 * math.log(2), rtol=1e-14)
    for call in (xi.norm, lambda: xi.inner(xi), lambda: xi.deltas[0].max()):
        with pytest.warns(RuntimeWarning, match="overflow"):
            assert call() == np.inf
    assert "norm exp(2079.44)" in repr(xi)


# -- devices ------------------------------------------------------------------------------------


def results_of(manifold, batch):
    """What all operations on a manifold give, from a point whose gauges nobody has asked for."""
    rng = np.random.default_rng(0)
    W, W_new = (TTTensor.random(manifold.shape, manifold.ranks, seed) for seed in (0, 1))
    Z = [TTTensor.random(manifold.shape, rank, rng) for rank in (2, 4)]
    xi = manifold.random_tangent(W, seed=2)
    vectors = [
        xi,
        manifold.project(W, Z[0]),
        manifold.project(W, Z, weights=[2.0, -1.0]),
        manifold.project(W, batch),
        manifold.gradient(W, batch, np.sin),
        manifold.transport(xi, W_new),
    ]
    return [vector.flat_deltas for vector in vectors] + list(manifold.retract(W, xi).cores)


def test_a_manifold_computes_on_its_device(stand_in):
    batch = mixed_batch(np.random.default_rng(0), 70).to("cpu")
    here, there = (Manifold(batch.shape, 3, device) for device in ("cpu", "cuda"))
    assert here == there
    assert repr(there) == repr(here)[:-1] + ", on cuda)"
    expected = results_of(here, batch)
    # The same random points on all devices, so by the same kernels.
    assert_array_equal(
        here.random_point(0).scaled_train.data, there.random_point(0).scaled_train.data
    )
    assert not stand_in.calls
    for placed in (batch, batch.to("cuda")):
        with stand_in.alone():
            for one, other in zip(expected, results_of(there, placed), strict=True):
                assert_array_equal(one, other)
    # Two points, three tensors to project and one to bring over, two gradients, each time.
    counts = {"gauges": 4, "project": 8, "gradient": 4, "retract": 2}
    assert stand_in.calls == counts | {"hold": 1}
    for one, other in zip(expected, results_of(here, batch.to("cuda")), strict=True):
        assert_array_equal(one, other)
    assert stand_in.calls["gradient"] == 4


def test_gauges_are_computed_once_by_who_asks_first(stand_in, monkeypatch):
    by_cpu = []

    def counted(*args, gauges=cpu.gauges):
        by_cpu.append(args)
        return gauges(*args)

    monkeypatch.setattr(cpu, "gauges", counted)
    here, there = (Manifold((2, 3, 4), 2, device) for device in ("cpu", "cuda"))
    for order, expected in (((here, there), (1, 0)), ((there, here), (1, 1))):
        W = TTTensor.random((2, 3, 4), 2, seed=0)
        for manifold in (*order, *order):
            xi = manifold.random_tangent(W, seed=0)
            assert len(xi.deltas) == 3
            manifold.retract(W, manifold.project(W, xi.to_tensor()))
        assert (len(by_cpu), stand_in.calls["gauges"]) == expected
