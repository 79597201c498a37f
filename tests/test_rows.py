"""Distinct rows: hashes know contents, not units; merging keeps shares."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import seeds

from ttexm.data.rows import merge, row_keys
from ttexm.data.table import read_table


def keys_of(X, weights=None, y=None):
    m = len(X)
    weights = np.ones(m) if weights is None else weights
    return row_keys(read_table(X), weights, np.zeros(m) if y is None else y).keys


@given(seeds, st.integers(1, 60), st.integers(1, 4), st.integers(1, 9))
def test_keys_are_equal_for_equal_rows_alone(seed, m, d, n_values):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_values, (m, d)).astype(float)
    X[rng.random((m, d)) < 0.1] = np.nan
    keys, rows = keys_of(X), [tuple(row) for row in np.nan_to_num(X, nan=-1.0)]
    for i in range(m):
        for j in range(m):
            assert (keys[i] == keys[j]) == (rows[i] == rows[j])


@given(seeds, st.integers(3, 60), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.booleans())
def test_keys_do_not_depend_on_units(seed, m, a, b, is_weighted):
    rng = np.random.default_rng(seed)
    a = a if abs(a) > 1e-3 else 1.0
    X = rng.standard_normal((m, 3))
    X[:, 2] = rng.integers(0, 4, m)
    X[0, 0] = np.nan
    weights = rng.uniform(0.1, 2, m) if is_weighted else np.ones(m)
    y = rng.standard_normal(m)
    other = X.copy()
    other[:, 0], other[:, 2] = a * X[:, 0] + b, -a * X[:, 2] + b
    assert_array_equal(keys_of(other, weights, y), keys_of(X, weights, y))


def test_a_symmetric_column_points_to_the_target():
    x = np.array([-1.0, 1.0] * 6)[:, None]
    y = np.arange(12.0) + 5 * x[:, 0]
    assert_array_equal(keys_of(x, y=y), keys_of(-x, y=y))
    # .. but does not ask for the names of classes
    labels = np.where(np.arange(12) < 8, x[:, 0], 1.0)
    assert_array_equal(keys_of(x, y=labels), keys_of(-x, y=-labels))
    one_hot = np.eye(3)[np.r_[np.where(x[:9, 0] > 0, 0, 1), [2, 2, 1]]]
    assert_array_equal(keys_of(x, y=one_hot), keys_of(-x, y=one_hot[:, [2, 0, 1]]))


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e-320])
def test_keys_of_extreme_columns(scale):
    x = np.random.default_rng(0).integers(-5, 9, (40, 1)).astype(float)
    assert_array_equal(keys_of(x * scale), keys_of(x))


def test_levels_count_as_they_are():
    frame = pd.DataFrame({"a": ["x", "y", None, "x"], "b": [0.0, 1.0, 1.0, -0.0]})
    keys = keys_of(frame)
    assert keys[0] == keys[3]
    assert len(set(keys)) == 3


def cells(*values):
    """A table of one column of objects."""
    return np.fromiter(values, object, len(values))[:, None]


def nan(payload):
    """A NaN with other bits."""
    return np.array([0x7FF8000000000000 | payload], np.uint64).view(np.float64)[0]


BIG = 2**53
EQUAL = {
    "signs of zero": np.array([[1.0], [0.0], [-0.0]]),
    "signs of zero, objects": cells("a", 0, -0.0, False),
    "payloads of NaN": np.array([[1.0], [np.nan], [-np.nan], [nan(1)], [nan(77)]]),
    "missing": cells("a", None, np.nan, nan(3), pd.NA, pd.NaT, Decimal("nan")),
    "equal numbers": cells("a", 1, 1.0, True, np.int64(1), np.float32(1), Decimal(1), Fraction(1)),
    "equal strings": cells(1, "s", np.str_("s")),
    "big integers": cells("a", BIG + 1, np.int64(BIG + 1), np.uint64(BIG + 1)),
}


@pytest.mark.parametrize("X", EQUAL.values(), ids=EQUAL)
def test_equal_values_have_one_key(X):
    found = keys_of(X)
    assert len(set(found[1:])) == 1
    assert found[0] != found[1]


def test_different_values_have_different_keys():
    values = ["", "0", "1", "1.0", "True", "nan", "None", "a", "b", "a\0", "\ud800", "x" * 10**6]
    values += ["x" * 10**6 + "y", b"", b"1", b"a", 0, 1, -1, 0.5, 1e300, 5e-324, None]
    values += [BIG, BIG + 1, -BIG - 1, 2**64, 2**64 + 1, 10**400]
    assert len(set(keys_of(cells(*values)))) == len(values)


def small_integers(n, d):
    return np.random.default_rng(0).integers(0, n, (1_000_000, d)).astype(float)


@pytest.mark.parametrize(
    "X",
    [
        small_integers(2, 40),
        small_integers(10, 12),
        np.stack(np.divmod(np.arange(1e6), 1000), axis=1),
    ],
    ids=["bits", "digits", "grid"],
)
def test_a_million_different_rows_have_different_keys(X):
    found = keys_of(X)
    assert len(np.unique(found)) == len({row.tobytes() for row in X})
    # Each bit is set in half of them (standard deviation 0.0005).
    bits = [np.mean(found >> np.uint64(bit) & np.uint64(1)) for bit in range(64)]
    assert np.abs(np.array(bits) - 0.5).max() < 0.003


@given(seeds, st.integers(1, 50), st.integers(1, 6), st.booleans())
def test_merging_sums_the_weights_of_equal_rows(seed, m, n_values, is_one_hot):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, n_values, m).astype(np.uint64)
    y = rng.integers(0, 3, m)
    y = np.eye(3)[y] if is_one_hot else y.astype(float)
    weights = rng.uniform(0.1, 2, m)
    rows, counts = merge(keys, y, weights)
    shares = {}
    for key, target, weight in zip(keys.tolist(), y.tolist(), weights, strict=True):
        shares[key, str(target)] = shares.get((key, str(target)), 0) + weight / weights.sum()
    assert len(rows) == len(shares)
    n = 1 / sum(share**2 for share in shares.values())
    for row, count in zip(rows, counts, strict=True):
        assert_allclose(count, n * shares[int(keys[row]), str(y[row].tolist())], rtol=1e-11)
    assert_allclose(counts.sum(), n, rtol=1e-11)


@given(seeds, st.integers(1, 40), st.sampled_from([1e-300, 1e-6, 0.1, 3.0, 1e300]))
def test_merging_knows_neither_scale_nor_repetition_nor_order(seed, m, scale):
    rng = np.random.default_rng(seed)
    keys, y = rng.integers(0, 2**60, m).astype(np.uint64), rng.standard_normal(m)
    counts = rng.integers(1, 5, m)
    repeated = rng.permutation(np.repeat(np.arange(m), counts))
    rows, expected = merge(keys, y, counts * scale)
    others, found = merge(keys[repeated], y[repeated], np.ones(len(repeated)))
    assert_array_equal(keys[rows], keys[repeated][others])
    assert_allclose(found, expected, rtol=1e-11)


def test_rows_of_one_weight_count_once():
    keys = np.arange(7).astype(np.uint64)
    assert_allclose(merge(keys, np.zeros(7), np.full(7, 1e-9))[1], 1)
