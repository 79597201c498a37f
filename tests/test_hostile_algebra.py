"""Any array at all: an error that names the argument, or an answer that is right.

NaN and inf that were given may come out again, visibly. Nothing else is allowed: no crash, no
exception of another kind, no wrong number.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import hostile_arrays

from ttexm import Manifold, RankOneBatch, TTTensor, allclose
from ttexm.datasets import make_interactions

REFUSALS = (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError)
W = TTTensor.random((2, 3, 2), 2, seed=0)
MANIFOLD = Manifold((2, 3, 2), 2)
XI = MANIFOLD.random_tangent(W, seed=0)
BATCH = RankOneBatch.from_vectors([np.linspace(1, 2, 4 * n).reshape(4, n) for n in W.shape])


def refused(call, *names):
    """Whether it raises, in a message that has one of the names; else what it returns."""
    try:
        with np.errstate(all="ignore"):
            return False, call()
    except REFUSALS as error:
        message = str(error)
    assert any(name in message for name in names), message
    return True, None


def plain(x):
    """The numbers that the array stands for, or None if it stands for none."""
    if np.ma.is_masked(x) or x.dtype not in (np.float64, np.float32):
        is_integer = x.dtype.kind in "biu" and not np.ma.is_masked(x)
        return np.asarray(x, np.float64) if is_integer else None
    return np.asarray(x)


def assert_same_or_visible(found, wanted, given_numbers, rtol=1e-9):
    """Finite numbers give the wanted ones; others may give what is not finite."""
    if np.isfinite(given_numbers).all():
        assert_allclose(found, wanted, rtol=rtol, atol=1e-300)
    else:
        bad = ~np.isfinite(found)
        assert bad.any() or not found.size
        assert_allclose(found[~bad], wanted[~bad], rtol=rtol)


@given(hostile_arrays((1, 2, 3)))
def test_dense_arrays(x):
    was_refused, Z = refused(lambda: TTTensor.from_dense(x), "array")
    numbers = plain(x)
    if numbers is None or not np.isfinite(numbers).all() or 0 in x.shape or x.ndim == 0:
        assert was_refused
    else:
        assert not was_refused
        # Halves, as the largest of all floats may be rounded up.
        eps = 1e3 * np.finfo(numbers.dtype).eps
        half = numbers / 2
        assert_allclose((Z / 2).full(), half, rtol=eps, atol=eps * np.abs(half).max() + 5e-324)


@given(hostile_arrays((3,)))
def test_cores(x):
    was_refused, Z = refused(lambda: TTTensor([x]), "cores[0]", "most rank")
    numbers = plain(x)
    if numbers is None or numbers.ndim != 3 or 0 in numbers.shape:
        assert was_refused
    elif numbers.shape[0] == numbers.shape[2] == 1:
        with np.errstate(over="ignore"):
            assert_same_or_visible(Z.full(), numbers[0, :, 0], numbers)
            assert_same_or_visible(np.array(Z.norm()), np.linalg.norm(Z.full()), numbers)
        if not np.isfinite(numbers).all():
            for call in (Z.round, Z.orthogonalize, Z.compile):
                with pytest.raises(ValueError, match=r"needs finite cores, but cores\[0\]"):
                    call()


@given(hostile_arrays((1, 2)))
def test_vectors_of_a_rank_one_tensor(x):
    was_refused, Z = refused(lambda: TTTensor.rank_one([x, x]), "vectors")
    numbers = plain(x)
    if numbers is None or numbers.ndim != 1 or not numbers.size:
        assert was_refused
    elif np.isfinite(numbers).all():
        logs = 2 * TTTensor.rank_one([x]).log_norm()
        assert Z.log_norm() == pytest.approx(logs, rel=1e-6, abs=1e-5)


@given(hostile_arrays((1, 2)))
def test_columns(x):
    numbers = plain(x)
    was_refused, batch = refused(lambda: RankOneBatch.from_columns(x), "columns")
    if numbers is None or numbers.ndim != 2 or numbers.shape[1] == 0:
        assert was_refused
    else:
        assert not was_refused
        for k in range(batch.ndim):
            assert_allclose(batch.vectors(k)[:, 1], numbers[:, k])
        with np.errstate(all="ignore"):
            f = TTTensor.ones(batch.shape).contract(batch)
            wanted = np.prod(1 + numbers.astype(np.float64), axis=1)
        bad = ~np.isfinite(numbers).all(axis=1)
        assert not np.isfinite(f[bad]).any()
        fits = ~bad & np.isfinite(wanted) & (np.abs(wanted) > 1e-300)
        if numbers.dtype == np.float64:
            assert_allclose(f[fits], wanted[fits], rtol=1e-12)


@given(st.lists(hostile_arrays((1, 2)), min_size=1, max_size=3))
def test_lists_of_columns(parts):
    numbers = [plain(part) for part in parts]
    for make, dims in ((RankOneBatch.from_columns, (1, 2)), (RankOneBatch.from_vectors, (2,))):
        was_refused, batch = refused(lambda make=make: make(parts), "columns", "vectors", "shape[")
        if was_refused:
            continue
        assert all(part is not None and part.ndim in dims for part in numbers)
        for k, part in enumerate(numbers):
            table = part.reshape(len(part), -1) if part.size else part.reshape(len(part), 0)
            assert_allclose(batch.vectors(k)[:, batch.shape[k] - table.shape[1] :], table)


@given(hostile_arrays((1, 2)), st.integers(1, 200))
def test_codes_and_indices(x, n):
    shape = (n,) * (x.shape[1] if x.ndim == 2 else 2)
    if not shape:
        return
    for make, name in ((RankOneBatch.from_codes, "codes"), (RankOneBatch.from_indices, "indices")):
        was_refused, batch = refused(lambda make=make: make(x, shape), name)
        if not was_refused:
            assert x.dtype.kind in "iu"
            assert x.ndim == 2
            for k in range(batch.ndim):
                hot = np.asarray(x)[:, [k]] == np.arange(n)
                assert (batch.vectors(k)[:, 1:] == hot[:, 1:]).all()
    scale_refused, _ = refused(lambda: RankOneBatch.from_codes([[1]], (2,), scale=x), "scale")
    numbers = plain(x)
    if numbers is None or not np.isfinite(numbers).all():
        assert scale_refused


@given(hostile_arrays((1, 2)))
def test_index_arrays(x):
    was_refused, entries = refused(lambda: W[x], "indices", "Index", "indexed")
    if not was_refused:
        assert x.dtype.kind in "iu"
        assert_allclose(entries, W.full()[tuple(np.asarray(x).T)])
    rows_refused, part = refused(lambda: BATCH[x], "rows", "indexed", "index")
    if not rows_refused:
        assert x.dtype.kind in "biu" or not x.size
        assert_allclose(part.vectors(0), BATCH.vectors(0)[x if x.size else []])


@given(hostile_arrays((1, 2)))
def test_derivatives_and_weights(x):
    numbers = plain(x)
    fits = numbers is not None and numbers.shape == (4,)
    for call, name in (
        (lambda: MANIFOLD.gradient(W, BATCH, x), "g"),
        (lambda: MANIFOLD.gradient(W, BATCH, lambda f: x), "g"),
        (lambda: MANIFOLD.project(W, BATCH, weights=x), "weights"),
        (lambda: W.core_gradient(BATCH, x), "g"),
        (lambda: MANIFOLD.project(W, [W] * 4, weights=x), "weights"),
    ):
        was_refused, found = refused(call, f"{name} must")
        assert was_refused != fits
        if was_refused or name != "weights":
            continue
        if not np.isfinite(numbers).all():
            with np.errstate(all="ignore"):
                assert not np.isfinite(found.norm())
            with pytest.raises(ValueError, match="xi must be finite"):
                MANIFOLD.retract(W, found)
        else:
            assert MANIFOLD.retract(W, found).ranks == W.ranks


@given(hostile_arrays((1, 2)))
def test_operands(x):
    """An array is no operand, unless it is a number in disguise."""
    for call in (
        lambda: W + x,
        lambda: x + W,
        lambda: W - x,
        lambda: x - W,
        lambda: W * x,
        lambda: x * W,
        lambda: W / x,
        lambda: x / W,
        lambda: XI * x,
        lambda: x * XI,
        lambda: XI / x,
        lambda: XI + x,
        lambda: x - XI,
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            was_refused, found = refused(
                call, "combined", "does not take", "unsupported", "divided"
            )
        if not was_refused:
            assert x.ndim == 0
            assert isinstance(found, (TTTensor, type(XI)))


@given(hostile_arrays((1, 2)))
def test_everything_that_is_no_array(x):
    """Where a number, a tensor or a batch is wanted, an array is refused by name."""
    for call, names in (
        (lambda: TTTensor.random(x, 2), ("shape",)),
        (lambda: TTTensor.random((2, 2), x), ("rank",)),
        (lambda: TTTensor.ones((2,), dtype=x), ("dtype",)),
        (lambda: W.round(eps=x), ("eps",)),
        (lambda: W.round(rank=x), ("rank",)),
        (lambda: W.full(x), ("max_size",)),
        (lambda: W.sum(axis=x), ("axis",)),
        (lambda: W.orthogonalize(x), ("center",)),
        (lambda: W.inner(x), ("TTTensor was wanted",)),
        (lambda: W.contract(x), ("batch",)),
        (lambda: W.compile().contract(x), ("batch",)),
        (lambda: allclose(W, x), ("Z must",)),
        (lambda: allclose(W, W, rtol=x), ("rtol",)),
        (lambda: RankOneBatch.join(x), ("join",)),
        (lambda: BATCH.scaled(x), ("factor",)),
        (lambda: BATCH.vectors(x), ("modes",)),
        (lambda: Manifold(x, 2), ("shape",)),
        (lambda: MANIFOLD.project(W, x), ("Z",)),
        (lambda: MANIFOLD.project(x, W), ("point",)),
        (lambda: MANIFOLD.retract(W, x), ("TangentVector",)),
        (lambda: MANIFOLD.transport(XI, x), ("point",)),
        (lambda: TTTensor.cross(lambda i: x, (2, 2), 1), ("f must", "f(indices)")),
        (lambda: TTTensor.cross(lambda i: 1.0 * i[:, 0], (2, 2), 1, eps=x), ("eps",)),
        (lambda: make_interactions(n_samples=x), ("n_samples",)),
        (lambda: make_interactions(n_samples=3, noise=x), ("noise",)),
        (lambda: make_interactions(n_samples=3, flip=x), ("flip",)),
    ):
        if x.dtype.kind in "iu" or x.size == 0:
            continue  # a shape, ranks or axes, perhaps
        was_refused, found = refused(call, *names)
        assert was_refused or "cross" in names or names[0] == "f must", (names, found)
    assert not MANIFOLD.contains(x)
