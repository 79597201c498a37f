"""Codes for equal keys: against Python's own dictionaries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ttexm.kernels.factorize import addresses, distinct

# Neighbours, multiples of large powers of two, and numbers that differ in one end alone.
KEYS = st.one_of(
    st.integers(0, 5),
    st.integers(0, 2**64 - 1),
    st.integers(0, 40).map(lambda k: k << 58),
    st.sampled_from([0, 2**64 - 1, 2**63, 2**63 - 1]),
)


@given(st.lists(KEYS, max_size=200))
def test_equal_keys_have_one_code_in_the_order_of_appearance(keys):
    codes, firsts = distinct(np.array(keys, np.uint64))
    number = {key: j for j, key in enumerate(dict.fromkeys(keys))}
    assert codes.tolist() == [number[key] for key in keys]
    assert firsts.tolist() == [keys.index(key) for key in number]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint32])
def test_keys_may_be_any_integers(dtype):
    keys = np.array([3, 0, 3, np.iinfo(dtype).min, np.iinfo(dtype).max, 3], dtype)[::-1]
    codes, firsts = distinct(keys)
    assert_array_equal(keys[firsts][codes], keys)
    assert len(firsts) == len(set(keys.tolist()))


def test_many_keys_of_any_pattern_take_linear_time():
    m = 300_000
    for keys in (np.arange(m), np.arange(m) << 40, np.arange(m) * 4096, np.zeros(m, int)):
        codes, firsts = distinct(keys)
        assert_array_equal(keys[firsts][codes], keys)


@given(st.lists(st.one_of(st.text(max_size=2), st.integers(-3, 3), st.none()), max_size=30))
def test_addresses_are_those_of_the_objects(values):
    array = np.empty((len(values), 3), object)
    array[:, 1] = values
    for column in (array[:, 1], array[::2, 1], array[::-1, 1]):
        assert addresses(column).tolist() == [id(value) for value in column]
