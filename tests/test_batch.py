"""RankOneBatch: what its vectors are, whatever it was made of, and where they are."""

import array
import copy
import pickle
from contextlib import nullcontext

import numpy as np
import pandas as pd
import polars as pl
import pytest
from devices import unavailable
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from problems import mixed_batch
from strategies import batches, dtypes, seeds, shapes

from ttexm import Manifold, RankOneBatch, TTTensor
from ttexm.kernels import backend as device


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


@pytest.mark.parametrize(
    "make", [np.asarray, pd.Series, pl.Series, lambda x: array.array("d", x), np.ma.masked_array]
)
def test_a_list_of_arrays_of_any_library_is_one_of_columns(make):
    columns = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    wanted = RankOneBatch.from_columns(np.transpose(columns))
    assert_same(RankOneBatch.from_columns([make(column) for column in columns]), wanted)
    assert_same(RankOneBatch.from_columns(tuple(make(column) for column in columns)), wanted)
    mixed = [make(columns[0]), *map(np.asarray, columns[1:])]
    assert_same(RankOneBatch.from_columns(mixed), wanted)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables_and_lists_of_rows_are_read_by_row(frame):
    rows = [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    wanted = RankOneBatch.from_columns(np.array(rows))
    assert_same(RankOneBatch.from_columns(rows), wanted)
    assert_same(RankOneBatch.from_columns([tuple(row) for row in rows]), wanted)
    table = frame({str(k): column for k, column in enumerate(zip(*rows, strict=True))})
    assert_same(RankOneBatch.from_columns(table), wanted)


def test_vectors_can_be_nested_lists():
    x = np.random.default_rng(0).standard_normal((5, 3, 2))
    assert_same(RankOneBatch.from_vectors(x.tolist()), RankOneBatch.from_vectors(x))


def test_missing_numbers_stay_visible():
    batch = RankOneBatch.from_columns([[np.nan, 1.0], [2.0, np.inf], [3.0, 4.0]])
    f = TTTensor.ones((2, 2)).contract(batch)
    assert np.isnan(f[0])
    assert not np.isfinite(f[1])
    assert f[2] == 20


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
    batch = batch.to("cpu")
    assert repr(batch) == "RankOneBatch(3 samples, shape (2, 2), float64)"
    wide = RankOneBatch.from_columns(np.ones((1, 1000))).to("cpu")
    assert repr(wide) == "RankOneBatch(1 samples, 1000 modes, float64)"
    assert batch.astype(np.float64) is batch


@given(batches((2, 3, 1, 4)))
def test_scaling_leaves_constants_alone(batch):
    scaled = batch.scaled(0.5)
    for k in range(batch.ndim):
        before, after = batch.vectors(k), scaled.vectors(k)
        has_constant = batch.has_constant(k)
        factors = np.where(np.arange(before.shape[1]) == 0, 1, 0.5) if has_constant else 1
        assert_array_equal(after, before * factors)


@given(batches((2, 3, 1, 4)))
def test_sparse_matrices_hold_the_vectors(batch):
    for k in range(batch.ndim):
        assert_array_equal(batch.matrix(k).toarray(), batch.vectors(k))


# -- devices ------------------------------------------------------------------------------------


def assert_same(batch, other):
    assert batch.shape == other.shape
    assert batch.dtype == other.dtype
    for k in range(batch.ndim):
        assert_array_equal(batch.vectors(k), other.vectors(k))


def here_and_there(m=500, dtype=np.float64):
    here = mixed_batch(np.random.default_rng(0), m, dtype).to("cpu")
    return here, here.to("cuda")


def test_a_batch_is_copied_to_a_device_once_and_not_before_it_is_used(stand_in):
    here, there = here_and_there()
    assert (here.device, there.device) == ("cpu", "cuda")
    assert here.to("cuda") is there
    assert there.to("cuda") is there
    assert here.to("cpu") is here
    assert there.to("cpu").arrays is there.arrays is here.arrays
    assert repr(there) == "RankOneBatch(500 samples, shape (2, 2, 4, 4, 3), float64, on cuda)"
    assert not stand_in.calls
    W = TTTensor.random(here.shape, 3, seed=0)
    expected = W.contract(here), W.log_contract(here), W.compile().contract(here)
    with stand_in.alone():
        for batch, where in ((there, None), (there, "cuda"), (here, "cuda")):
            assert_array_equal(W.contract(batch, where), expected[0])
            assert_array_equal(W.log_contract(batch, device=where), expected[1])
            assert_array_equal(W.compile().contract(batch, device=where), expected[2])
    assert stand_in.calls["hold"] == 1
    assert stand_in.calls["contract"] == 9
    assert_array_equal(W.contract(there, device="cpu"), expected[0])
    assert stand_in.calls["contract"] == 9


def test_what_is_made_of_a_batch_stays_on_its_device(stand_in):
    here, there = here_and_there()
    rows = np.arange(7, 430, 3)
    for make in (
        lambda batch: batch.astype(np.float32),
        lambda batch: batch.scaled(0.5),
        lambda batch: batch[rows],
        lambda batch: batch[rows][:50],
        lambda batch: batch[rows].astype(np.float32),
        lambda batch: batch.astype(np.float32)[rows].scaled(0.5),
        lambda batch: RankOneBatch.join([batch, batch]),
    ):
        made = make(there)
        assert made.device == "cuda"
        assert_same(made, make(here))
        W = TTTensor.random(made.shape, 2, seed=0).astype(made.dtype)
        assert_array_equal(W.contract(made), W.contract(make(here)))


def test_mini_batches_are_taken_on_the_device(stand_in):
    # Two batches, so that the second knows nothing from the first.
    (here, _), (_, there) = here_and_there(), here_and_there()
    rows = np.random.default_rng(0).integers(0, 500, 100)
    W, g = Manifold(here.shape, 3).random_point(0), np.linspace(-1, 1, 50)
    expected, results = [], []
    for batch, found in ((here, expected), (there, results)):
        manifold = Manifold(W.shape, 3, batch.device)
        with stand_in.alone() if batch is there else nullcontext():
            for dtype in (np.float64, np.float32):
                point = TTTensor(W.to_cores()).astype(dtype)
                part = batch[rows][20:70]
                found += [point.contract(part), manifold.gradient(point, part, g).flat_deltas]
                found += point.core_gradient(part, g)
                found.append(manifold.gradient(point, part, np.sin).flat_deltas)
    assert "arrays" not in vars(part._source)
    for one, other in zip(expected, results, strict=True):
        assert_array_equal(one, other)
    assert stand_in.calls["hold"] == 2  # one a precision
    assert stand_in.calls["take"] == 6  # two for each part, and for the second in single precision
    assert_same(part, here[rows][20:70])


@pytest.mark.parametrize(
    "again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy]
)
def test_batches_can_be_stored_and_copied(stand_in, again):
    here, there = here_and_there()
    W = TTTensor.random(here.shape, 3, seed=0)
    for batch in (here, there, there[:20]):
        expected = W.contract(batch)
        restored = again(batch)
        assert "_held" not in vars(restored)
        assert restored.device == batch.device
        assert_same(restored, batch)
        assert_array_equal(W.contract(restored), expected)


def test_a_stored_batch_can_be_read_where_its_device_is_not(stand_in):
    here, there = here_and_there()
    stored = pickle.dumps(there)
    device.register("cuda", unavailable)
    restored, W = pickle.loads(stored), TTTensor.random(here.shape, 3, seed=0)
    with pytest.raises(RuntimeError, match="there is no GPU here"):
        W.contract(restored)
    assert_array_equal(W.contract(restored.to("cpu")), W.contract(here))


def test_batches_of_different_devices_are_not_joined(stand_in):
    here, there = here_and_there()
    message = (
        r"batches\[0\] is on 'cpu', batches\[1\] on 'cuda'; bring one to the other's with `to`"
    )
    with pytest.raises(ValueError, match=message):
        RankOneBatch.join([here, there])
    assert RankOneBatch.join([here.to("cuda"), there]).device == "cuda"
