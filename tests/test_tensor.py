"""TTTensor: every operation equals its dense definition, and the laws of algebra hold."""

import copy
import math
import pickle

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
    dtypes,
    feature_vectors,
    pairs,
    seeds,
    shapes,
    tensors,
)

from ttexm import Manifold, RankOneBatch, TTTensor, allclose


def tolerance(dtype, scale=1.0):
    return {"rtol": 0, "atol": 500 * np.finfo(dtype).eps * max(scale, 1e-300)}


def magnitude(*tensors):
    """Size of the terms in an entry's sum: what rounding errors are relative to."""
    return max(naive.full([np.abs(core) for core in W.cores]).max() for W in tensors)


def assert_is(W, dense, *operands):
    """W is the dense tensor, up to rounding of the terms of the operands."""
    assert W.shape == dense.shape
    scale = magnitude(W, *operands)
    assert_allclose(W.full(), dense, **tolerance(W.dtype, scale))


# -- construction and attributes ----------------------------------------------------------------


@given(shapes().flatmap(cores_of))
def test_full_is_the_product_of_the_cores(cores):
    W = TTTensor(cores)
    assert_is(W, naive.full(cores))
    assert_array_equal(np.asarray(W), W.full())


@given(tensors())
def test_attributes_describe_the_cores(W):
    assert W.shape == tuple(core.shape[1] for core in W.cores)
    assert W.ranks == (1, *(core.shape[2] for core in W.cores))
    assert W.rank == max(W.ranks)
    assert W.ndim == len(W.cores)
    assert W.size == math.prod(W.shape)
    assert W.n_params == sum(core.size for core in W.cores)
    assert all(core.dtype == W.dtype for core in W.cores)


def test_size_is_exact():
    assert TTTensor.ones((2,) * 160).size == 2**160
    assert TTTensor.ones((3,) * 100).size == 3**100


@given(tensors())
def test_cores_round_trip(W):
    assert_array_equal(TTTensor(W.to_cores()).full(), W.full())
    for core, copied in zip(W.cores, W.to_cores(), strict=True):
        assert_array_equal(core, copied)
        assert not core.flags.writeable
        assert copied.flags.writeable
        assert copied.flags.c_contiguous


def test_a_tensor_is_immutable():
    cores = [np.ones((1, 2, 1)), np.ones((1, 3, 1))]
    W = TTTensor(cores)
    cores[0][:] = 7
    W.to_cores()[0][:] = 7
    assert_array_equal(W.full(), np.ones((2, 3)))
    with pytest.raises(AttributeError):
        W.scaled_train = None
    with pytest.raises(AttributeError):
        W.scaled_train.exponent = 3
    with pytest.raises(AttributeError):
        W.name = "weights"
    with pytest.raises(ValueError, match="read-only"):
        W.cores[0][0, 0, 0] = 7


@given(tensors())
def test_pickle_and_copy_keep_everything(W):
    for again in (pickle.loads(pickle.dumps(W)), copy.copy(W), copy.deepcopy(W)):
        assert again.ranks == W.ranks
        assert again.dtype == W.dtype
        assert_array_equal(again.full(), W.full())


def test_a_pickle_holds_the_cores_and_nothing_that_was_computed_from_them():
    W = Manifold((2,) * 30, 4).random_point(seed=0)
    before = len(pickle.dumps(W))
    W.norm(), W.cores, W.size, W.compile()
    W.contract(RankOneBatch.from_columns(np.ones((2, 30))))
    Manifold(W.shape, 4).zero_tangent(W)
    assert len(pickle.dumps(W)) == before
    again = pickle.loads(pickle.dumps(W)).scaled_train
    assert again.is_left_orthogonal
    assert_array_equal(again.data, W.scaled_train.data)


def test_compiled_tensors_can_be_pickled():
    compiled = TTTensor.random((2,) * 5, 2, seed=0).compile()
    batch = RankOneBatch.from_columns(np.arange(10.0).reshape(2, 5))
    again = pickle.loads(pickle.dumps(compiled))
    assert_array_equal(again.contract(batch), compiled.contract(batch))
    assert repr(again) == repr(compiled)


def test_equality_is_identity():
    W, Z = TTTensor.ones((2, 2)), TTTensor.ones((2, 2))
    assert W == W
    assert W != Z
    assert len({W, Z}) == 2


@given(shapes(), st.integers(1, 6), seeds, dtypes)
def test_random_has_the_trimmed_ranks_and_depends_on_the_seed_alone(shape, rank, seed, dtype):
    W = TTTensor.random(shape, rank, seed, dtype)
    assert W.dtype == dtype
    assert W.ranks == tuple(min(rank, r) for r in naive.largest_ranks(shape))
    assert_array_equal(W.full(), TTTensor.random(shape, rank, seed, dtype).full())


def test_random_has_entries_of_variance_one():
    squares = [TTTensor.random((2, 3, 2, 2), 3, seed).norm() ** 2 / 24 for seed in range(2000)]
    assert abs(np.mean(squares) - 1) < 0.1


@given(shapes(), dtypes)
def test_constants(shape, dtype):
    assert_array_equal(TTTensor.ones(shape, dtype).full(), np.ones(shape))
    assert_array_equal(TTTensor.zeros(shape, dtype).full(), np.zeros(shape))
    assert TTTensor.ones(shape, dtype).dtype == dtype


@given(shapes(), seeds)
def test_rank_one_is_the_outer_product(shape, seed):
    rng = np.random.default_rng(seed)
    vectors = [rng.standard_normal(n) for n in shape]
    assert_is(TTTensor.rank_one(vectors), naive.outer(vectors))


@given(tensors(), dtypes)
def test_astype(W, dtype):
    again = W.astype(dtype)
    assert again.dtype == dtype
    assert_allclose(again.full(), W.full(), **tolerance(np.float32, magnitude(W)))
    assert W.astype(W.dtype) is W


def test_astype_float32_keeps_what_does_not_fit_into_one_core():
    W = TTTensor.rank_one([np.full(2, 2.0**300), np.full(2, 2.0**-310), np.full(2, 2.0**9)])
    assert_array_equal(W.astype(np.float32).full(), np.full((2, 2, 2), 0.5, np.float32))


# -- TT-SVD and TT-cross ------------------------------------------------------------------------


@given(shapes(), seeds, dtypes, st.sampled_from([0.0, 1e-3, 0.1, 0.5]))
def test_from_dense_keeps_its_error_bound(shape, seed, dtype, eps):
    A = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    W = TTTensor.from_dense(A, eps=eps)
    assert W.dtype == dtype
    error = np.linalg.norm(W.full() - A)
    assert error <= (eps + 200 * np.finfo(dtype).eps) * np.linalg.norm(A)


@given(shapes(), st.integers(1, 4), seeds)
def test_from_dense_is_quasi_optimal(shape, rank, seed):
    A = np.random.default_rng(seed).standard_normal(shape)
    W = TTTensor.from_dense(A, rank=rank)
    assert W.rank <= rank
    error, best = np.linalg.norm(W.full() - A), naive.best_errors(A, W.ranks)
    assert error <= math.hypot(*best) + 1e-12


@given(tensors(dtype=np.float64))
def test_from_dense_finds_the_ranks(W):
    A = W.full()
    assert TTTensor.from_dense(A).ranks == naive.tt_ranks(A, 1e-11 * max(np.linalg.norm(A), 1e-300))


def test_from_dense_at_the_ends_of_the_range():
    A = np.random.default_rng(0).standard_normal((3, 4, 2))
    for scale in (2.0**1000, 2.0**-1000):
        W = TTTensor.from_dense(A * scale)
        assert_allclose(W.full() / scale, A, rtol=1e-12)


@given(shapes(most_modes=6), st.integers(1, 3), seeds)
def test_cross_is_exact_for_a_tensor_of_its_rank(shape, rank, seed):
    Z = TTTensor.random(shape, rank, seed)
    W = TTTensor.cross(lambda i: Z[i], shape, rank, seed)
    assert_allclose(W.full(), Z.full(), atol=1e-8 * np.abs(Z.full()).max())
    assert all(w <= z for w, z in zip(W.ranks, Z.ranks, strict=True))


def test_cross_finds_lower_ranks_and_many_modes():
    W = TTTensor.cross(lambda i: np.cos(0.1 * i.sum(axis=1)), (5,) * 60, rank=6, seed=0)
    assert W.ranks == (1,) + (2,) * 59 + (1,)
    index = np.random.default_rng(0).integers(0, 5, (100, 60))
    assert_allclose(W[index], np.cos(0.1 * index.sum(axis=1)), atol=1e-9)


def test_cross_of_the_zero_function_is_zero():
    assert TTTensor.cross(lambda i: np.zeros(len(i)), (3, 4, 5), rank=2, seed=0).norm() == 0


def test_cross_approximates_a_smooth_function():
    W = TTTensor.cross(lambda i: 1 / (1 + i.sum(axis=1)), (8,) * 5, rank=7, seed=0, eps=1e-6)
    exact = 1 / (1 + naive.all_indices((8,) * 5).sum(axis=1))
    assert np.abs(W.full().ravel() - exact).max() < 1e-6


@pytest.mark.filterwarnings("ignore:TT-cross has not settled")
def test_cross_without_tolerance_goes_on_until_nothing_changes_or_sweeps_are_done():
    W = TTTensor.cross(lambda i: np.where(i[:, 0] > i[:, 1], 2.0, 1.0), (3, 3), 3, seed=0, eps=0)
    assert_allclose(W.full(), np.where(np.tri(3, k=-1) > 0, 2.0, 1.0), atol=1e-14)


def test_cross_warns_where_the_rank_does_not_suffice():
    from sklearn.exceptions import ConvergenceWarning

    Z = TTTensor.random((4,) * 6, rank=16, seed=0)
    with pytest.warns(ConvergenceWarning, match="max_sweeps=2.*Raise rank or max_sweeps"):
        TTTensor.cross(lambda i: Z[i], Z.shape, rank=2, seed=0, max_sweeps=2)


# -- entries ------------------------------------------------------------------------------------


@given(tensors(), st.data())
def test_an_entry(W, data):
    index = tuple(data.draw(st.integers(-n, n - 1)) for n in W.shape)
    assert_allclose(W[index], W.full()[index], **tolerance(W.dtype, magnitude(W)))


@given(tensors(), seeds, st.integers(0, 70))
def test_gather(W, seed, m):
    rng = np.random.default_rng(seed)
    index = np.stack([rng.integers(-n, n, m) for n in W.shape], axis=1)
    entries = W[index]
    assert entries.shape == (m,)
    assert entries.dtype == W.dtype
    assert_allclose(entries, W.full()[tuple(index.T)], **tolerance(W.dtype, magnitude(W)))


@given(tensors(), st.data())
def test_fixing_and_slicing_modes(W, data):
    key = []
    for n in W.shape:
        choice = data.draw(st.sampled_from(["fix", "all", "slice", "step"]))
        start = data.draw(st.integers(0, n - 1))
        item = {
            "fix": start,
            "all": slice(None),
            "slice": slice(start, None),
            "step": slice(None, None, -1),
        }[choice]
        key.append(item)
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(key)))
        key = [*key[:cut], Ellipsis]
    key, dense = tuple(key), W.full()[tuple(key)]
    part = W[key]
    if np.ndim(dense) == 0:
        assert_allclose(part, dense, **tolerance(W.dtype, magnitude(W)))
    else:
        assert isinstance(part, TTTensor)
        assert part.dtype == W.dtype
        assert_is(part, dense, W)


def test_a_single_index_fixes_the_first_mode():
    W = TTTensor.random((3, 4, 5), 2, seed=0)
    assert_allclose(W[1].full(), W.full()[1])
    assert_allclose([part.full() for part in W], list(W.full()))


@given(tensors(), st.data())
def test_sum(W, data):
    axes = data.draw(st.sets(st.integers(0, W.ndim - 1)))
    scale = magnitude(W) * W.size
    assert_allclose(W.sum(), W.full().sum(), **tolerance(W.dtype, scale))
    if 0 < len(axes) < W.ndim:
        part = W.sum(axis=tuple(axes))
        assert_allclose(part.full(), W.full().sum(axis=tuple(axes)), **tolerance(W.dtype, scale))


# -- algebra ------------------------------------------------------------------------------------


@given(pairs(), st.floats(-4, 4))
def test_arithmetic_is_that_of_the_entries(pair, c):
    W, Z = pair
    w, z = W.full(), Z.full()
    assert_is(W + Z, w + z)
    assert_is(W - Z, w - z)
    assert_is(W * Z, w * z)
    assert_is(-W, -w)
    assert_is(c * W, c * w)
    assert_is(W * np.float64(c), w * c)
    assert_is(W + c, w + c)
    assert_is(np.float64(c) + W, c + w)
    assert_is(W - c, w - c)
    assert_is(c - W, c - w)
    if abs(c) > 1e-3:
        assert_is(W / c, w / c)


@given(pairs())
def test_ranks_of_sums_and_products(pair):
    W, Z = pair
    for k in range(1, W.ndim):
        assert (W + Z).ranks[k] == W.ranks[k] + Z.ranks[k]
        assert (W * Z).ranks[k] == W.ranks[k] * Z.ranks[k]


@given(shapes().flatmap(lambda shape: st.tuples(*[tensors(shape, dtype=np.float64)] * 3)))
def test_laws_of_algebra(three):
    W, Z, Y = three
    scale = magnitude(W) * magnitude(Z) * magnitude(Y)
    atol = 1e-12 * (1 + scale) * math.sqrt(W.size)
    assert allclose(W + Z, Z + W, atol=atol)
    assert allclose(W * Z, Z * W, atol=atol)
    assert allclose((W + Z) + Y, W + (Z + Y), atol=atol)
    assert allclose(W * (Z + Y), W * Z + W * Y, atol=atol)
    assert allclose(W - W, TTTensor.zeros(W.shape), atol=atol)
    assert abs((W + Z).inner(Y) - W.inner(Y) - Z.inner(Y)) <= atol * (1 + Y.norm()) * W.size


@given(pairs())
def test_inner_and_norm(pair):
    W, Z = pair
    w, z = W.full(), Z.full()
    bound = magnitude(W) * magnitude(Z) * W.size
    assert abs(W.inner(Z) - (w * z).sum()) <= 1e-12 * bound
    assert abs(W.norm() - np.linalg.norm(w)) <= 1e-12 * magnitude(W) * W.size
    assert abs(W.inner(Z)) <= W.norm() * Z.norm() * (1 + 1e-12) + 1e-12 * bound
    assert (W + Z).norm() <= (W.norm() + Z.norm()) * (1 + 1e-12)


@given(pairs())
def test_logarithms(pair):
    W, Z = pair
    sign, log = W.log_inner(Z)
    assert_allclose(sign * math.exp(log), W.inner(Z), rtol=1e-12)
    assert_allclose(math.exp(W.log_norm()), W.norm(), rtol=1e-12)


@given(tensors(dtype=np.float32))
def test_float32_stays_float32_and_promotes(W):
    other = TTTensor.ones(W.shape)
    assert (W + 1).dtype == (2 * W).dtype == (W * W).dtype == W.round().dtype == np.float32
    assert (W + other).dtype == (W * other).dtype == np.float64
    assert_allclose(W.norm(), np.linalg.norm(W.full()), rtol=0, atol=1e-4 * magnitude(W) * W.size)


def test_the_norm_of_a_difference_keeps_all_digits():
    W = TTTensor.random((2,) * 40, rank=5, seed=0)
    W = W / W.norm()
    Z = TTTensor.random(W.shape, rank=2, seed=1)
    Z = 1e-11 / Z.norm() * Z
    assert abs((W + Z - W).norm() / 1e-11 - 1) < 1e-3  # sqrt(<., .>) has no digit left at 1e-8
    assert (W - W).norm() < 1e-14


@given(pairs())
def test_allclose_is_about_the_norm_of_the_difference(pair):
    W, Z = pair
    difference = np.linalg.norm(W.full() - Z.full())
    if difference > 1e-6:
        assert not allclose(W, Z, rtol=0, atol=0.99 * difference)
        assert allclose(W, Z, rtol=0, atol=1.01 * difference)
    assert allclose(W, W, atol=1e-12 * magnitude(W) * W.size)


@pytest.mark.parametrize("two", [2, 2.0, np.float64(2), np.float32(2), np.array(2.0), np.int8(2)])
def test_numbers_of_all_types_can_be_on_either_side(two):
    W = TTTensor.random((2, 3), 2, seed=0)
    w = W.full()
    assert_is(two * W, 2 * w)
    assert_is(W * two, 2 * w)
    assert_is(two + W, 2 + w)
    assert_is(two - W, 2 - w)
    assert_is(W / two, w / 2)
    xi = Manifold(W.shape, 2).random_tangent(W, seed=0)
    for vector in (two * xi, xi * two, xi / two * 4):
        assert_array_equal(vector.deltas[1], 2 * xi.deltas[1])
    assert (np.shape(W), np.ndim(W), np.size(W)) == (W.shape, 2, 6)
    assert_array_equal(np.array(W), w)
    assert (np.float64(2) == W, np.float64(2) != W) == (False, True)


def test_a_masked_array_without_masked_entries_is_an_array():
    A = np.ma.masked_array(np.arange(6.0).reshape(2, 3), False)
    assert_allclose(TTTensor.from_dense(A).full(), np.arange(6.0).reshape(2, 3), atol=1e-14)


# -- gauges and rounding ------------------------------------------------------------------------


@given(tensors(), seeds)
def test_a_change_of_gauge_changes_nothing(W, seed):
    rng = np.random.default_rng(seed)
    cores = W.to_cores()
    for k in range(W.ndim - 1):
        A = np.linalg.qr(rng.standard_normal((W.ranks[k + 1],) * 2))[0].astype(W.dtype)
        cores[k] = np.einsum("aib,bc->aic", cores[k], A)
        cores[k + 1] = np.einsum("ba,bic->aic", A, cores[k + 1])
    scale = magnitude(W, TTTensor(cores))
    assert_allclose(TTTensor(cores).full(), W.full(), **tolerance(W.dtype, scale))


@given(tensors(), st.data())
def test_orthogonalize_changes_only_the_cores(W, data):
    center = data.draw(st.integers(-W.ndim, W.ndim - 1))
    Z = W.orthogonalize(center)
    center %= W.ndim
    assert_is(Z, W.full(), W)
    eps = 100 * np.finfo(W.dtype).eps
    for k, core in enumerate(Z.cores):
        if k < center:
            gram = np.einsum("aib,aic->bc", core, core)
            assert_allclose(gram, np.eye(core.shape[2]), atol=eps)
        elif k > center:
            gram = np.einsum("aib,cib->ac", core, core)
            assert_allclose(gram, np.eye(core.shape[0]), atol=eps)
    norm = np.linalg.norm(Z.cores[center])
    assert_allclose(norm, np.linalg.norm(W.full()), **tolerance(W.dtype, magnitude(W) * W.size))


@given(tensors(), st.sampled_from([1e-6, 1e-2, 0.1, 0.5]))
def test_round_keeps_its_error_bound(W, eps):
    Z = W.round(eps=eps)
    error, norm = np.linalg.norm(Z.full() - W.full()), np.linalg.norm(W.full())
    assert error <= eps * norm + 500 * np.finfo(W.dtype).eps * magnitude(W) * W.size**0.5
    assert all(z <= w for z, w in zip(Z.ranks, W.ranks, strict=True))


@given(tensors(dtype=np.float64), st.integers(1, 3))
def test_round_to_a_rank_is_quasi_optimal(W, rank):
    Z = W.round(rank=rank)
    assert Z.rank <= rank
    best = naive.best_errors(W.full(), Z.ranks)
    error = np.linalg.norm(Z.full() - W.full())
    assert error <= math.hypot(*best) + 1e-12 * magnitude(W) * W.size**0.5
    if best:  # TT-SVD errs by at most sqrt(d - 1) times the best, which errs at least like this
        assert error <= math.sqrt(W.ndim - 1) * max(best) + 1e-12 * magnitude(W) * W.size**0.5


@given(tensors(dtype=np.float64))
def test_round_finds_the_ranks_and_keeps_the_tensor(W):
    Z = (W + W).round()
    assert_is(Z, 2 * W.full(), W)
    noise = 1e-12 * magnitude(W) * W.size
    assert all(z <= r for z, r in zip(Z.ranks, naive.tt_ranks(W.full(), noise * 1e-3), strict=True))


def test_round_takes_one_rank_a_bond():
    W = TTTensor.random((3, 3, 3, 3), rank=9, seed=0)
    assert W.round(rank=(1, 2, 5, 1, 1)).ranks == (1, 2, 3, 1, 1)


# -- contraction --------------------------------------------------------------------------------


@given(shapes().flatmap(lambda s: st.tuples(cores_of(s, 9), batches(s))), dtypes)
def test_contraction_is_the_full_sum(both, dtype):
    cores, batch = both
    W = TTTensor(cores).astype(dtype)
    batch = batch.astype(dtype)
    f = W.contract(batch)
    phis = feature_vectors(batch)
    exact = naive.contract(W.full().astype(np.float64), phis)
    terms = naive.contract(naive.full([np.abs(G) for G in W.cores]), [np.abs(phi) for phi in phis])
    assert f.dtype == dtype
    assert f.shape == (len(batch),)
    assert_allclose(
        f, exact, rtol=0, atol=200 * np.finfo(dtype).eps * (1e-300 + max(terms, default=0))
    )
    assert_allclose(W.compile().contract(batch), f, rtol=0,
                    atol=1e4 * np.finfo(dtype).eps * (1e-300 + max(terms, default=0)))  # fmt: skip
    signs, logs = W.log_contract(batch)
    assert_allclose(signs * np.exp(logs), f, rtol=1e-3 if dtype == np.float32 else 1e-10)


@given(shapes().flatmap(lambda s: st.tuples(cores_of(s), cores_of(s), batches(s))))
def test_contraction_is_linear(three):
    W, Z, batch = TTTensor(three[0]), TTTensor(three[1]), three[2]
    left = (2 * W - Z).contract(batch)
    right = 2 * W.contract(batch) - Z.contract(batch)
    assert_allclose(left, right, atol=1e-10 * (magnitude(W, Z) * 100) ** 2)


@given(shapes().flatmap(lambda s: st.tuples(tensors(s), batches(s))), seeds)
def test_a_sample_does_not_depend_on_its_batch(both, seed):
    W, batch = both
    rows = np.random.default_rng(seed).permutation(len(batch))[: len(batch) // 2 + 1]
    assert_array_equal(W.contract(batch)[rows], W.contract(batch[rows]))


@st.composite
def tensors_with_an_open_mode(draw):
    """A tensor of at least two modes, and a batch of all but the last."""
    dtype, shape = draw(dtypes), draw(shapes(most_modes=4, most_entries=100))
    n_outputs = draw(st.integers(1, 9))
    cores = draw(cores_of((*shape, n_outputs), 9, dtype))
    return TTTensor(cores), draw(batches(shape, dtype=dtype))


@given(tensors_with_an_open_mode())
def test_the_last_mode_stays_open_if_the_batch_lacks_it(both):
    W, batch = both
    phis, n_outputs = feature_vectors(batch), W.shape[-1]
    exact = naive.open_contract(W.full().astype(np.float64), phis)
    magnitudes = naive.full([np.abs(G).astype(np.float64) for G in W.cores])
    terms = naive.open_contract(magnitudes, [np.abs(phi) for phi in phis])
    eps = 100 * np.finfo(W.dtype).eps * max(1e-300, terms.max(initial=0))
    for made in (W, W.compile()):
        f = made.contract(batch)
        assert f.shape == (len(batch), n_outputs)
        assert f.dtype == W.dtype
        assert_allclose(f, exact, rtol=0, atol=100 * eps if made is not W else eps)
        signs, logs = made.log_contract(batch)
        assert signs.shape == logs.shape == f.shape
        assert_allclose(signs * np.exp(logs), f, rtol=1e-4 if W.dtype == np.float32 else 1e-12)
    one_by_one = [W[..., j].contract(batch) for j in range(n_outputs)]
    assert_allclose(W.contract(batch), np.stack(one_by_one, axis=1), rtol=0, atol=eps)


@given(tensors_with_an_open_mode(), seeds)
def test_with_an_open_mode_too_a_sample_does_not_depend_on_its_batch(both, seed):
    W, batch = both
    rows = np.random.default_rng(seed).permutation(len(batch))[: len(batch) // 2 + 1]
    assert_array_equal(W.contract(batch)[rows], W.contract(batch[rows]))


@pytest.mark.large
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rank", "n_outputs"), [(1, 3), (4, 10), (8, 1), (16, 40), (3, 200)])
def test_open_modes_of_long_trains_and_large_batches(rank, n_outputs, dtype):
    rng = np.random.default_rng(rank)
    cores = [0.2 * rng.standard_normal((rank, 2, rank)) for _ in range(30)]
    for G in cores:
        G[:, 0] += np.eye(rank)
    cores[0] = cores[0][:1]
    W = TTTensor([*cores, rng.standard_normal((rank, n_outputs, 1))]).astype(dtype)
    batch = RankOneBatch.from_columns(rng.standard_normal((1500, 30)), dtype)
    expected = np.stack([W[..., j].contract(batch) for j in range(n_outputs)], axis=1)
    tight = {"rtol": 0, "atol": 1e4 * np.finfo(dtype).eps * np.abs(expected).max()}
    assert W.compile().n_identity >= 10
    assert_allclose(W.contract(batch), expected, **tight)
    assert_allclose(W.compile().contract(batch), expected, **tight)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mixed_precision_promotes(dtype):
    W = TTTensor.random((2, 2), 2, seed=0, dtype=dtype)
    batch = RankOneBatch.from_columns(np.ones((3, 2)), dtype=np.float32)
    assert W.contract(batch).dtype == dtype


def test_compiled_tensors_use_the_identity_gauge_where_it_is_safe():
    rng = np.random.default_rng(0)
    shape, batch = (2,) * 30, RankOneBatch.from_columns(rng.standard_normal((500, 30)))
    near_identity = [0.2 * rng.standard_normal((8, 2, 8)) for _ in shape]
    for G in near_identity:
        G[:, 0] += np.eye(8)
    near_identity[0], near_identity[-1] = near_identity[0][:1], near_identity[-1][:, :, :1]
    tame = TTTensor(near_identity).compile()
    wild = TTTensor.random(shape, rank=8, seed=0).compile()
    assert tame.n_identity >= 20 > wild.n_identity > 5
    for W, compiled in ((TTTensor(near_identity), tame), (TTTensor.random(shape, 8, 0), wild)):
        f = W.contract(batch)
        assert_allclose(compiled.contract(batch), f, rtol=0, atol=1e-12 * np.abs(f).max())
        signs, logs = compiled.log_contract(batch)
        assert_allclose(signs * np.exp(logs), f, rtol=1e-9)
    assert "identity gauge" in repr(tame)


# -- what it looks like -------------------------------------------------------------------------


def test_repr():
    W = TTTensor.random((3, 4, 5), 2, seed=0)
    assert repr(W) == "TTTensor(shape=(3, 4, 5), ranks=(1, 2, 2, 1), 32 parameters, float64)"
    long = repr(TTTensor.random((2,) * 99 + (7,), 3, seed=0))
    assert "shape=(2, 2, 2, 2, ..., 2, 2, 2, 7)" in long
    assert "ranks=(1, 2, 3, 3, ..., 3, 3, 3, 1)" in long


@pytest.mark.parametrize("d", [1, 12, 13, 160])
def test_the_html_repr_draws_at_most_twelve_cores(d):
    import xml.etree.ElementTree as ElementTree

    html = TTTensor.random((2,) * d, 3, seed=0)._repr_html_()
    ElementTree.fromstring(html)
    assert html.count("<circle") == min(d, 12)
    assert ("..." in html.split("<svg")[1].split(">", 1)[1]) == (d > 12)


@pytest.mark.parametrize("base", [2.0, 0.25])
def test_a_norm_beyond_floats_is_spread_over_the_cores(base):
    d = 3000
    W = TTTensor.rank_one([[base, base]] * d)
    doubled = (W + W).round()
    assert doubled.rank == 1
    assert_allclose(doubled.log_norm(), math.log(2) + d * math.log(base * 2**0.5), rtol=1e-12)
    batch = RankOneBatch.from_vectors([np.full((1, 2), 0.5 / base)] * d)
    assert_allclose(doubled.contract(batch), [2.0], rtol=1e-9)


def test_entries_and_sums_do_not_overflow_on_the_way():
    W = TTTensor.rank_one([[2.0**600], [2.0**600, 1.0], [2.0**-900, 0.0], [2.0**-300]])
    assert_array_equal(W.full().ravel(), [1.0, 0.0, 2.0**-600, 0.0])
    assert W[0, 1, 0, 0] == 2.0**-600
    assert W.sum() == 1 + 2.0**-600
    assert_array_equal(W[0, :, 0].full().ravel(), [1.0, 2.0**-600])
    assert_array_equal(W.sum(axis=(0, 2)).full().ravel(), [1.0, 2.0**-600])
