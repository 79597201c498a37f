"""Hypothesis strategies: shapes, trains, batches, with their edges (d = 1, n = 1, r = 1, m = 0)."""

import numpy as np
from hypothesis import strategies as st
from problems import curve_batch

from ttexm import RankOneBatch, TTTensor

DTYPES = (np.float64, np.float32)
KINDS = ("columns", "vectors", "codes", "indices", "curves")
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(DTYPES)


def shapes(most_modes=5, most_size=4, most_entries=200):
    lists = st.lists(st.integers(1, most_size), min_size=1, max_size=most_modes)
    return lists.map(tuple).filter(lambda shape: np.prod(shape) <= most_entries)


@st.composite
def ranks_of(draw, shape, most=5):
    """Any d + 1 ranks, also such that the shape does not allow."""
    inner = draw(st.lists(st.integers(1, most), min_size=len(shape) - 1, max_size=len(shape) - 1))
    return (1, *inner, 1)


@st.composite
def cores_of(draw, shape, most_rank=5, dtype=np.float64):
    ranks = draw(ranks_of(shape, most_rank))
    rng = np.random.default_rng(draw(seeds))
    cores = [
        rng.standard_normal((ranks[k], n, ranks[k + 1])).astype(dtype) for k, n in enumerate(shape)
    ]
    # Some cores lose rank: a row of slots is repeated, or the core is zero.
    flaw = draw(st.sampled_from(["none", "none", "none", "repeated", "zero"]))
    k = draw(st.integers(0, len(shape) - 1))
    if flaw == "repeated":
        cores[k][-1] = cores[k][0]
    elif flaw == "zero":
        cores[k][:] = 0
    return cores


@st.composite
def tensors(draw, shape=None, most_rank=5, dtype=None):
    shape = draw(shapes()) if shape is None else shape
    dtype = draw(dtypes) if dtype is None else dtype
    return TTTensor(draw(cores_of(shape, most_rank, dtype)))


@st.composite
def cores_of_any_size(draw, shape, most_rank=3, dtype=np.float64):
    """Cores times powers of two, each within its own range: huge ones may be next to tiny ones."""
    cores = draw(cores_of(shape, most_rank, dtype))
    reach = np.finfo(dtype).maxexp - 4
    powers = st.one_of(st.integers(-reach, reach), st.sampled_from([-reach, 0, reach]))
    return [np.ldexp(core, draw(powers)) for core in cores]


@st.composite
def pairs(draw, dtype=np.float64):
    """Two tensors of one shape."""
    shape = draw(shapes())
    return draw(tensors(shape, dtype=dtype)), draw(tensors(shape, dtype=dtype))


@st.composite
def batches(draw, shape, most_samples=60, dtype=np.float64, least_samples=0):
    """A batch of mixed kinds, in any order of modes."""
    m = draw(st.integers(least_samples, most_samples))
    rng = np.random.default_rng(draw(seeds))
    modes = []
    for n in shape:
        kind = draw(st.sampled_from(KINDS))
        if kind == "columns":
            mode = RankOneBatch.from_columns([rng.standard_normal((m, n - 1))], dtype)
        elif kind == "vectors":
            mode = RankOneBatch.from_vectors([rng.standard_normal((m, n))], dtype)
        elif kind == "codes":
            codes = rng.integers(0, n, (m, 1))
            mode = RankOneBatch.from_codes(codes, (n,), scale=rng.uniform(0.5, 2), dtype=dtype)
        elif kind == "curves":
            mode = curve_batch(rng, m, n, draw(st.integers(2, 5)), dtype)
        else:
            mode = RankOneBatch.from_indices(rng.integers(0, n, (m, 1)), (n,), dtype)
        modes.append(mode)
    return RankOneBatch.join(modes)


def feature_vectors(batch):
    return [batch.vectors(k).astype(np.float64) for k in range(batch.ndim)]


# -- what users get wrong -----------------------------------------------------------------------


@st.composite
def hostile_arrays(draw, dims=(1, 2)):
    """A vector or a table that is odd in one way: its type, its size, its numbers or its mask.

    Complex, strings, objects, dates, integers of all kinds, empty, one row, constant columns, huge,
    subnormal, masked, with NaN or inf anywhere, of a strange memory layout, or in order.
    """
    ndim = draw(st.sampled_from(dims))
    shape = tuple(draw(st.integers(1, 6)) for _ in range(ndim))
    rng = np.random.default_rng(draw(seeds))
    x = rng.standard_normal(shape)
    holes = rng.random(shape) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    return draw(
        st.sampled_from(
            [
                x,
                x.astype(np.float32),
                x.astype(object),
                np.where(holes, None, x),
                np.where(holes, "a", x.astype(object)),
                x.astype(str),
                x.astype("S8"),
                x + 1j,
                x.astype(np.float16),
                x.astype(np.longdouble),
                x.astype(">f8"),
                x > 0,
                (100 * x).astype(np.int8),
                np.abs(100 * x).astype(np.uint64),
                np.abs(x * 1e9).astype("datetime64[s]"),
                (x * 1e9).astype("timedelta64[s]"),
                x[:0],
                x[..., :0],
                x[:1],
                np.zeros(shape),
                np.ones(shape),
                np.full(shape, -7.5),
                1e300 * x,
                np.full(shape, np.finfo(float).max),
                1e-310 * x,
                np.full(shape, 5e-324),
                x * 10.0 ** rng.integers(-300, 300, shape),
                np.where(holes, np.nan, x),
                np.where(holes, np.inf, x),
                np.where(holes, -np.inf, x),
                np.full(shape, np.nan),
                np.ma.masked_array(x, holes),
                np.ma.masked_array(x, False),
                np.asfortranarray(x),
                x[::-1],
                np.broadcast_to(x[:1], shape),
                np.array(x[(0,) * ndim]),
                x[..., None],
            ]
        )
    )
