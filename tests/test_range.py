"""No operation leaves the range of floats: checked in exact arithmetic, far beyond that range."""

import copy
import math
import pickle
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import (
    DTYPES,
    batches,
    cores_of,
    cores_of_any_size,
    dtypes,
    feature_vectors,
    seeds,
    shapes,
    tensors,
)

from ttexm import Manifold, RankOneBatch, TTTensor, allclose

powers = st.integers(-3000, 3000)
small_shapes = shapes(most_modes=4, most_size=3, most_entries=40)


def two(power):
    return Fraction(2) ** power


def exact(W):
    """The entries of a tensor of any size, as fractions."""
    log = W.log_norm()
    power = 0 if log == -math.inf else round(log / math.log(2))
    return naive.as_fractions((W * two(-power)).full().astype(np.float64)) * two(power)


def magnitude(cores):
    """The sums of magnitudes behind each entry: what rounding errors are relative to."""
    return naive.exact_full([np.abs(naive.as_fractions(core.astype(float))) for core in cores])


def assert_near(W, wanted, scale, factor=1000):
    """W is the array of fractions, up to rounding of terms of the size of `scale`."""
    if not (scale != 0).any():
        assert W.log_norm() == -math.inf
        return
    eps = float(np.finfo(W.dtype).eps)
    assert naive.relative_error(exact(W), wanted, scale) <= factor * eps
    log = naive.exact_log_norm(wanted)
    if naive.exact_log_norm(scale) - log < 5:  # nothing cancels
        assert abs(W.log_norm() - log) <= 1e3 * factor * eps


@st.composite
def huge_and_tiny(draw, shape=None, dtype=None):
    """A tensor, its entries as fractions, and their terms' magnitudes."""
    shape = draw(small_shapes) if shape is None else shape
    dtype = draw(dtypes) if dtype is None else dtype
    cores, power = draw(cores_of(shape, 3, dtype)), draw(powers)
    entries = naive.exact_full([naive.as_fractions(core.astype(float)) for core in cores])
    W = TTTensor(cores) * two(power)
    return W, entries * two(power), magnitude(cores) * two(power)


@st.composite
def two_of_them(draw):
    shape, dtype = draw(small_shapes), draw(dtypes)
    return draw(huge_and_tiny(shape, dtype)), draw(huge_and_tiny(shape, dtype))


# -- tensors ------------------------------------------------------------------------------------


@given(small_shapes, dtypes, st.data())
def test_cores_of_any_finite_size(shape, dtype, data):
    cores = data.draw(cores_of_any_size(shape, dtype=dtype))
    wanted = naive.exact_full([naive.as_fractions(core.astype(float)) for core in cores])
    W = TTTensor(cores)
    for core, given_core in zip(W.cores, cores, strict=True):
        assert_array_equal(core, given_core)
    scale = magnitude(cores)
    assert_near(W, wanted, scale)
    assert_near(W.orthogonalize(data.draw(st.integers(0, W.ndim - 1))), wanted, scale)
    assert_near(W.round(), wanted, scale)
    assert_near(W.astype(np.float32), wanted, scale)
    assert_near(W * W, wanted**2, scale**2)
    assert_near(W + W * two(-100), wanted * (1 + two(-100)), scale)


@given(huge_and_tiny(), st.data())
def test_one_tensor(of, data):
    W, w, scale = of
    assert_near(W, w, scale)
    assert_near(-W, -w, scale)
    assert_near(W.round(), w, scale)
    assert_near(W.orthogonalize(data.draw(st.integers(0, W.ndim - 1))), w, scale)
    for dtype in DTYPES:
        assert_near(W.astype(dtype), w, scale)
        assert W.astype(dtype).dtype == dtype
    for again in (pickle.loads(pickle.dumps(W)), copy.copy(W), copy.deepcopy(W)):
        assert again.log_norm() == W.log_norm()
    assert allclose(W, W.round(), rtol=1e-2) or naive.exact_log_norm(scale) > W.log_norm() + 3
    assert repr(W)


@given(huge_and_tiny(), st.data())
def test_parts_of_a_tensor(of, data):
    W, w, scale = of
    axes = data.draw(st.sets(st.integers(0, W.ndim - 1), max_size=W.ndim - 1))
    if axes:
        axes = tuple(axes)
        assert_near(W.sum(axis=axes), w.sum(axis=axes), scale.sum(axis=axes))
    assert_near(W[::-1], w[::-1], scale[::-1])
    if W.ndim > 1:
        i = data.draw(st.integers(0, W.shape[0] - 1))
        part, wanted, size = W[i], w[i], scale[i]
        assert naive.exact_log_norm(exact(part) - wanted) <= math.log(
            1e3 * np.finfo(W.dtype).eps
        ) + naive.exact_log_norm(scale)
        assert part.shape == wanted.shape == size.shape


@given(two_of_them())
def test_two_tensors(both):
    (W, w, w_scale), (Z, z, z_scale) = both
    assert_near(W + Z, w + z, w_scale + z_scale)
    assert_near(W - Z, w - z, w_scale + z_scale)
    assert_near(W * Z, w * z, w_scale * z_scale)
    assert_near((W + Z).round(), w + z, w_scale + z_scale)
    sign, log = W.log_inner(Z)
    wanted, terms = (w * z).sum(), (w_scale * z_scale).sum()
    if terms:
        error = Fraction(sign) * Fraction(math.exp(log - naive.exact_log(terms))) - wanted / terms
        # Of a logarithm of 2000, the last digit is 5e-13.
        assert abs(error) <= 2000 * float(np.finfo(W.dtype).eps) + 2e-12


SCALARS = [
    1e-310,
    5e-324,
    1e308,
    -2.5,
    np.float64(1e300),
    np.float32(1e-40),
    np.longdouble("1e4000"),
    np.longdouble("1e-4000"),
    np.array(3e200),
    np.int8(-3),
    10**1000,
    -(7**5000),
    Fraction(1, 3**4000),
    True,
]


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda c: f"{type(c).__name__} {c!s:.9}")
@given(of=huge_and_tiny())
def test_scalars_of_any_size(scalar, of):
    W, w, scale = of
    number = scalar[()] if isinstance(scalar, np.ndarray) else scalar
    if isinstance(number, np.floating):
        c = Fraction(*number.as_integer_ratio())
    else:
        c = Fraction(int(number) if isinstance(number, np.integer) else number)
    assert_near(W * scalar, w * c, scale * c)
    assert_near(scalar * W, w * c, scale * c)
    assert_near(W / scalar, w / c, scale / c)
    assert_near(W + scalar, w + c, scale + abs(c))
    assert_near(scalar - W, c - w, scale + abs(c))


def test_many_small_factors_and_sums():
    W = TTTensor.random((2, 3), 2, seed=0)
    Z, xi = W, None
    manifold = Manifold(W.shape, 2)
    for _ in range(5000):
        Z = Z * 0.75
    assert_allclose(Z.log_norm(), W.log_norm() + 5000 * math.log(0.75), rtol=1e-12)
    xi = eta = manifold.random_tangent(W, seed=0)
    for _ in range(3000):
        xi, eta = xi + xi, 0.7 * eta
    assert_allclose(xi.log_norm(), 3000 * math.log(2), rtol=1e-12)
    assert_allclose(eta.log_norm(), 3000 * math.log(0.7), rtol=1e-12)


@given(huge_and_tiny(dtype=np.float64), st.integers(-8000, 8000))
def test_sums_of_tensors_far_apart(of, power):
    W, w, scale = of
    c = two(power)
    assert_near(W + c * W, w * (1 + c), scale * (1 + c))
    assert_near((W * c) * (W / c), w**2, scale**2)


def test_a_power_apart_does_not_hide_which_tensor_is_larger():
    # Moderate cores, 4096 of them: the product is 2^40960, and no power is kept apart.
    W = TTTensor.rank_one([[2.0**10]] * 4096)
    for power in (40_950, 40_960, 40_970, 60_000, -60_000):
        Z = TTTensor.ones(W.shape) * 2**power if power > 0 else TTTensor.ones(W.shape) / 2**-power
        larger = max(power, 40_960)
        wanted = larger + math.log2(1 + 2.0 ** -min(abs(power - 40_960), 1000))
        for total in (W + Z, Z + W):
            assert_allclose(total.log_norm() / math.log(2), wanted, rtol=1e-13)


def test_powers_of_cores_that_cancel_hide_nothing():
    # The first half of the cores grows to 2^2500, the second comes back: all entries are 2.
    powers = np.repeat([250, -250], 10)
    W = TTTensor.rank_one([[2.0**p, 2.0**p] for p in powers]) + TTTensor.ones((2,) * 20)
    assert_allclose(W.log_norm(), 11 * math.log(2), rtol=1e-12)
    assert_allclose(W.round(rank=2).full(), 2, rtol=1e-12)


@pytest.mark.parametrize("far", [300, 900])
def test_a_gauge_of_vast_powers_hides_nothing(far):
    # Both terms of each entry count alike, though their factors differ by 2^(2 far).
    up, down = 2.0**far, 2.0**-far
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((1, 3, 2)), rng.standard_normal((2, 3, 1))
    W = TTTensor([left * [up, down], right * np.array([down, up])[:, None, None]])
    plain = TTTensor([left, right])
    assert_allclose(W.full(), plain.full(), rtol=1e-12)
    assert_allclose(W.norm(), plain.norm(), rtol=1e-12)
    assert allclose(W, plain, rtol=1e-12)
    assert_allclose((W * W).full(), plain.full() ** 2, rtol=1e-12)
    assert_allclose(W.round(rank=1).norm(), plain.round(rank=1).norm(), rtol=1e-12)
    assert_allclose(W[np.array([[0, 1]])], plain[0, 1], rtol=1e-12)
    assert_allclose(W[1].full(), plain.full()[1], rtol=1e-12)
    assert_allclose(W.sum(), plain.sum(), rtol=1e-12)
    assert_allclose(W.astype(np.float32).full(), plain.full(), rtol=1e-5)
    manifold = Manifold(W.shape, 2)
    assert_allclose(manifold.project(W, plain).to_tensor().full(), plain.full(), rtol=1e-12)


def test_from_dense_and_cross_at_the_ends_of_the_range():
    A = np.random.default_rng(0).uniform(1, 2, (3, 4, 2))
    largest = A / A.max() * np.finfo(float).max
    assert_allclose(TTTensor.from_dense(largest).full(), largest, rtol=1e-12)
    tiny = np.full((3, 4), 5e-324)
    assert_array_equal(TTTensor.from_dense(tiny).full(), tiny)
    for scale in (1e305, 1e-305, 2.0**-1060):
        W = TTTensor.cross(lambda i, s=scale: s * (1 + i.sum(axis=1)), (3, 4, 5), 2, seed=0)
        wanted = 1 + naive.all_indices((3, 4, 5)).sum(axis=1)
        assert_allclose(W.full().ravel(), scale * wanted, rtol=1e-3 if scale < 1e-306 else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [-3000, -130, 130, 900, 2900])
def test_cores_take_the_power_if_they_can(dtype, power):
    W = TTTensor.random((2, 3, 4), 2, seed=0, dtype=dtype)
    Z = W * two(power)
    if dtype == np.float64 and abs(power) < 3000:
        assert_allclose(TTTensor(Z.cores).log_norm(), Z.log_norm(), rtol=1e-14)
    if dtype == np.float32 and power > 400:
        with pytest.warns(RuntimeWarning, match="overflow"):
            cores = Z.to_cores()
        assert all(np.isinf(core).any() for core in cores)
    if dtype == np.float32 and power < -600:
        assert all((core == 0).all() for core in Z.cores)


def test_only_plain_numbers_overflow_and_numpy_warns():
    W = TTTensor.random((2, 3), 2, seed=0) * 2**2000
    batch = RankOneBatch.from_columns([[1.0, 2.0]])
    V = W[:, :2]
    for call in (
        W.norm,
        W.full,
        W.sum,
        lambda: W.inner(W),
        lambda: W[0, 0],
        lambda: V.contract(batch),
        lambda: V.compile().contract(batch),
        lambda: W[np.array([[0, 1]])],
    ):
        with pytest.warns(RuntimeWarning, match="overflow encountered in ldexp"):
            assert np.isinf(np.abs(call())).all()
    tiny = W / 2**6000
    assert tiny.norm() == tiny.inner(tiny) == tiny[0, 0] == 0
    assert_array_equal(tiny.full(), np.zeros(W.shape))
    assert tiny.log_norm() == pytest.approx(W.log_norm() - 6000 * math.log(2))


@given(small_shapes.flatmap(lambda s: st.tuples(huge_and_tiny(s, np.float64), batches(s, 5))))
def test_contraction(both):
    (W, w, scale), batch = both
    X = naive.rank_ones(feature_vectors(batch))
    wanted = naive.as_fractions(X) @ w.ravel() if len(X) else []
    terms = naive.as_fractions(np.abs(X)) @ scale.ravel() if len(X) else []
    for made in (W, W.compile()):
        signs, logs = made.log_contract(batch)
        for sign, log, f, size in zip(signs, logs, wanted, terms, strict=True):
            if size:
                found = Fraction(sign) * Fraction(math.exp(log - naive.exact_log(size)))
                assert abs(found - f / size) <= 1e-9


@st.composite
def huge_and_tiny_outputs(draw):
    """Like `huge_and_tiny`, with outputs of vastly different size as the last mode; and a batch."""
    shape, dtype = draw(small_shapes), draw(dtypes)
    far = 20 if dtype == np.float32 else 300
    cores = draw(cores_of((*shape, draw(st.integers(1, 3))), 3, dtype))
    cores[-1] = np.ldexp(cores[-1], draw(st.integers(-far, far)))
    cores[-1][:, 0] = np.ldexp(cores[-1][:, 0], draw(st.integers(-far, far)))
    power = two(draw(powers))
    entries = naive.exact_full([naive.as_fractions(core.astype(float)) for core in cores])
    W = TTTensor(cores) * power
    return W, entries * power, magnitude(cores) * power, draw(batches(shape, 5, dtype))


@given(huge_and_tiny_outputs())
def test_contraction_with_an_open_mode(drawn):
    W, w, scale, batch = drawn
    n_outputs, X = W.shape[-1], naive.rank_ones(feature_vectors(batch))
    wanted = naive.as_fractions(X) @ w.reshape(-1, n_outputs) if len(X) else []
    terms = naive.as_fractions(np.abs(X)) @ scale.reshape(-1, n_outputs) if len(X) else []
    eps = 1e4 * float(np.finfo(W.dtype).eps)
    # Accuracy is relative to the largest of a sample's outputs, as that of entries is.
    for made in (W, W.compile()):
        signs, logs = made.log_contract(batch)
        assert signs.shape == logs.shape == (len(batch), n_outputs)
        for s in range(len(batch)):
            size = max(terms[s])
            for j in range(n_outputs if size else 0):
                share = math.exp(logs[s, j] - naive.exact_log(size))
                found = Fraction(float(signs[s, j])) * Fraction(share)
                assert abs(found - wanted[s, j] / size) <= eps


@given(small_shapes.flatmap(lambda s: st.tuples(tensors(s, 3, np.float64), batches(s, 5))), seeds)
def test_derivatives_in_the_cores(both, seed):
    W, batch = both
    g = np.random.default_rng(seed).standard_normal(len(batch))
    wanted = W.core_gradient(batch, g)
    for power in (-1000, 900):
        # They are those in `cores`, the last of which takes the power.
        scaled = (W * 2.0**power).core_gradient(batch, g)
        for k, (found, part) in enumerate(zip(scaled, wanted, strict=True)):
            factor = 1.0 if k == W.ndim - 1 else 2.0**power
            assert_allclose(
                found, factor * part, rtol=1e-9, atol=1e-9 * np.abs(part).max() * factor
            )
        again = W.core_gradient(batch, 2.0**power * g)
        for found, part in zip(again, wanted, strict=True):
            assert_allclose(found, 2.0**power * part, rtol=1e-12, atol=2.0**power * 1e-13)


# -- manifold -----------------------------------------------------------------------------------


@given(small_shapes, st.integers(1, 3), seeds, dtypes, powers, powers)
def test_the_manifold_has_no_scale(shape, rank, seed, dtype, p, q):
    """Operations on 2^p W and 2^q xi are those on W and xi, times powers of two."""
    manifold = Manifold(shape, rank)
    W, Z = (manifold.random_point(seed + k, dtype) for k in (0, 1))
    eps = 1e4 * float(np.finfo(dtype).eps)
    W_p = W * two(p)
    assert manifold.contains(W_p)
    xi, xi_p = manifold.project(W, Z), manifold.project(W_p, Z * two(q))
    back = two(-q) * xi_p
    assert allclose(back.to_tensor(), xi.to_tensor(), atol=eps)
    assert abs(back.norm() - xi.norm()) <= eps
    assert xi.inner(xi) == pytest.approx(back.inner(back), abs=10 * eps)
    assert manifold.project(W_p, W_p).log_norm() == pytest.approx(p * math.log(2), abs=eps)
    # A step of the point's own size, whatever that is.
    step = manifold.retract(W_p, two(p) * back)
    assert allclose(step * two(-p), manifold.retract(W, xi), rtol=0.01 if rank > 1 else eps)
    # A step that is far longer, or far shorter, than the point.
    moved, norms = manifold.retract(W_p, xi_p), (p, q + math.log2(max(xi.norm(), 1e-30)))
    if abs(norms[0] - norms[1]) > 60 and xi.norm() > 1e-3:
        larger = W_p.log_norm() if norms[0] > norms[1] else xi_p.log_norm()
        assert moved.log_norm() == pytest.approx(larger, abs=1.0)
    there = manifold.transport(xi_p, Z)
    assert allclose(two(-q) * there.to_tensor(), manifold.transport(xi, Z).to_tensor(), atol=eps)
    both = manifold.project(W_p, [Z * two(q), Z * two(q)], weights=[2.0, -1.0])
    assert allclose(two(-q) * both.to_tensor(), xi.to_tensor(), atol=10 * eps)
    assert "norm" in repr(xi_p)
    assert ((xi_p - xi_p) + xi_p - xi_p).log_norm() == -math.inf


@given(small_shapes.flatmap(lambda s: st.tuples(st.just(s), batches(s, 6))), seeds, powers)
def test_gradients_of_any_point_and_derivatives_of_any_size(both, seed, power):
    shape, batch = both
    manifold = Manifold(shape, 2)
    W = manifold.random_point(seed)
    g = np.random.default_rng(seed).standard_normal(len(batch))
    xi, there = manifold.gradient(W, batch, g), manifold.gradient(W * two(power), batch, g)
    size = np.abs(naive.rank_ones(feature_vectors(batch))).sum() + 1
    assert allclose(there.to_tensor(), xi.to_tensor(), atol=1e-11 * size)
    for factor in (2.0**-1060, 2.0**1020):
        scaled = manifold.gradient(W, batch, g / 8 * factor)
        close = scaled / factor * 8
        rtol = 1e-11 if factor > 1 else 1e-2  # of subnormal numbers some digits are left
        assert (close - xi).norm() <= rtol * size * (1 + np.abs(g).sum())


def test_zero_points_and_zero_steps_at_any_power():
    manifold = Manifold((2, 3, 2), 2)
    W = TTTensor.random(manifold.shape, 2, seed=0)
    for power in (-4000, 4000):
        nothing = 0.0 * (W * two(power))
        assert nothing.log_norm() == -math.inf
        xi = manifold.project(nothing, W)
        assert allclose(manifold.retract(nothing, xi), xi.to_tensor(), rtol=1e-12)
        W_p = W * two(power)
        assert allclose(manifold.retract(W_p, manifold.zero_tangent(W_p)), W_p, rtol=1e-12)
        assert allclose(nothing + W, W, rtol=1e-14)
        assert (nothing + nothing * two(-2 * power)).log_norm() == -math.inf
        assert manifold.project(W_p, nothing).log_norm() == -math.inf
