"""RankOneBatch: what its vectors are, whatever it was made of."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from strategies import batches, dtypes, seeds, shapes

from ttexm import RankOneBatch
from ttexm.kernels.layout import CATEGORY, NUMERIC


@given(st.integers(0, 60), st.integers(1, 5), seeds, dtypes)
def test_columns_get_a_constant_in_front(m, d, seed, dtype):
    X = np.random.default_rng(seed).standard_normal((m, d)).astype(dtype)
    for given_as in (X, np.asfortranarray(X), X[:, ::-1][:, ::-1], X.tolist() if m else X):
        batch = RankOneBatch.from_columns(given_as, dtype)
        assert batch.shape == (2,) * d
        assert len(batch) == m
        assert batch.dtype == dtype
        for k in range(d):
            assert_array_equal(batch.vectors(k), np.stack([np.ones(m), X[:, k]], axis=1))


@given(shapes(), st.integers(0, 60), seeds)
def test_lists_have_a_table_a_mode(shape, m, seed):
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((m, n)) for n in shape]
    vectors, columns = RankOneBatch.from_vectors(tables), RankOneBatch.from_columns(tables)
    assert vectors.shape == shape
    assert columns.shape == tuple(n + 1 for n in shape)
    for k, table in enumerate(tables):
        assert_array_equal(vectors.vectors(k), table)
        assert_array_equal(columns.vectors(k), np.hstack([np.ones((m, 1)), table]))


def test_an_array_of_three_dimensions_is_a_vector_a_sample_and_mode():
    array = np.random.default_rng(0).standard_normal((5, 3, 2))
    batch = RankOneBatch.from_vectors(array)
    assert batch.shape == (2, 2, 2)
    assert_array_equal(batch.vectors(1), array[:, 1])


@given(shapes(), st.integers(0, 60), seeds, dtypes)
def test_codes_are_one_hot_behind_a_constant(shape, m, seed, dtype):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, n, m) for n in shape], axis=1)
    scale = rng.uniform(0.5, 2, len(shape)).astype(dtype)
    categories = RankOneBatch.from_codes(codes, shape, scale, dtype)
    indices = RankOneBatch.from_indices(codes.astype(np.uint8), shape, dtype)
    for k, n in enumerate(shape):
        hot = (codes[:, [k]] == np.arange(n)).astype(dtype)
        assert_array_equal(indices.vectors(k), hot)
        hot *= scale[k]
        hot[:, 0] = 1
        assert_array_equal(categories.vectors(k), hot)


@given(shapes().flatmap(batches), st.data())
def test_selecting_samples(batch, data):
    m = len(batch)
    rows = data.draw(
        st.one_of(
            st.builds(slice, st.integers(0, m), st.integers(0, m)),
            st.lists(st.integers(-m, m - 1), max_size=70).map(lambda x: np.array(x, int))
            if m
            else st.just(np.array([], int)),
            st.lists(st.booleans(), min_size=m, max_size=m).map(lambda x: np.array(x, bool)),
        )
    )
    part = batch[rows]
    for k in range(batch.ndim):
        assert_array_equal(part.vectors(k), batch.vectors(k)[rows])


@given(shapes().flatmap(lambda s: st.tuples(batches(s, 7), batches(s, 7))))
def test_joining_puts_modes_side_by_side(both):
    first, second = both
    m = min(map(len, both))
    joined = RankOneBatch.join([first[:m], second[:m]])
    assert joined.shape == first.shape + second.shape
    for k in range(first.ndim):
        assert_array_equal(joined.vectors(k), first[:m].vectors(k))
        assert_array_equal(joined.vectors(first.ndim + k), second[:m].vectors(k))


def test_a_batch_keeps_its_own_copy():
    X = np.ones((3, 2))
    batch = RankOneBatch.from_columns(X)
    X[:] = 7
    assert_array_equal(batch.vectors(0), np.ones((3, 2)))


def test_integers_become_floats_and_repr_is_short():
    batch = RankOneBatch.from_columns(np.arange(6).reshape(3, 2))
    assert batch.dtype == np.float64
    assert repr(batch) == "RankOneBatch(3 samples, shape (2, 2), float64)"
    wide = RankOneBatch.from_columns(np.ones((1, 1000)))
    assert repr(wide) == "RankOneBatch(1 samples, 1000 modes, float64)"
    assert batch.astype(np.float64) is batch


@given(batches((2, 3, 1, 4)))
def test_scaling_leaves_constants_alone(batch):
    scaled = batch.scaled(0.5)
    for k in range(batch.ndim):
        before, after = batch.vectors(k), scaled.vectors(k)
        has_constant = batch._batch.kinds[k] in (NUMERIC, CATEGORY)
        factors = np.where(np.arange(before.shape[1]) == 0, 1, 0.5) if has_constant else 1
        assert_array_equal(after, before * factors)


@given(batches((2, 3, 1, 4)))
def test_sparse_matrices_hold_the_vectors(batch):
    for k in range(batch.ndim):
        assert_array_equal(batch.matrix(k).toarray(), batch.vectors(k))
