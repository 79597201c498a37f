"""Bad input: each message names the culprit, what was wanted and what came."""

import re

import numpy as np
import pytest

from ttexm import Manifold, RankOneBatch, TTTensor, allclose, device

W = TTTensor.random((2, 3, 2), 2, seed=0)
MANIFOLD = Manifold((2, 3, 2), 2)
XI = MANIFOLD.random_tangent(W, seed=0)
BATCH = RankOneBatch.from_vectors([np.ones((4, n)) for n in W.shape])
NAN = np.nan * W


def core(*shape):
    return np.ones(shape)


CASES = [
    # shapes and ranks
    (lambda: TTTensor.ones(()), ValueError, "shape must have at least one mode, got ()."),
    (lambda: TTTensor.ones((2, 0)), ValueError, "shape[1] must be at least 1, got 0."),
    (lambda: TTTensor.ones((2, 2.5)), TypeError, "shape[1] must be an integer, got 2.5."),
    (lambda: Manifold((2, 2), 0), ValueError, "rank must be at least 1, got 0."),
    (lambda: Manifold((2, 2), None), TypeError, "rank must be an integer or 3 of them, got None."),
    (lambda: Manifold((2, 2), [1, 2]), ValueError,
     "rank must be an integer or the d + 1 = 3 ranks of 2 modes, got 2 of them."),
    (lambda: Manifold((2, 2), [1, "2", 1]), TypeError, "rank[1] must be an integer, got '2'."),
    (lambda: Manifold((2, 2), [1, 0, 1]), ValueError, "rank[1] must be at least 1, got 0."),
    (lambda: Manifold((2, 2), [1, 2, 2]), ValueError,
     "rank[2] must be 1, as nothing is beyond, got 2."),
    (lambda: TTTensor.ones((2,), dtype=np.int64), TypeError,
     "dtype must be float64 or float32, got int64."),
    (lambda: W.astype(np.float16), TypeError, "dtype must be float64 or float32, got float16."),
    # cores
    (lambda: TTTensor(np.ones((3, 1, 2, 1))), TypeError, "cores must be a list of arrays, got ndarray."),
    (lambda: TTTensor([]), ValueError, "A tensor train needs at least one core, got none."),
    (lambda: TTTensor([core(1, 2, 1), core(2, 1)]), ValueError,
     "cores[1] must be of shape (r0, n, r1), all at least 1, got (2, 1)."),
    (lambda: TTTensor([core(1, 2, 0), core(0, 2, 1)]), ValueError,
     "cores[0] must be of shape (r0, n, r1), all at least 1, got (1, 2, 0)."),
    (lambda: TTTensor([core(1, 2, 3), core(2, 2, 1)]), ValueError,
     "cores[0] and cores[1] do not fit together: right rank 3 against left rank 2."),
    (lambda: TTTensor([core(2, 2, 1)]), ValueError, "The leftmost rank must be 1, got 2."),
    (lambda: TTTensor([core(1, 2, 2)]), ValueError, "The rightmost rank must be 1, got 2."),
    (lambda: TTTensor([1j * core(1, 2, 1)]), TypeError,
     "cores[0] must be of dtype float64 or float32, got complex128."),
    (lambda: TTTensor.rank_one([np.ones(2), np.ones((2, 2))]), ValueError,
     "vectors[1] must have one dimension, got shape (2, 2)."),
    (lambda: TTTensor.from_dense([1.0, np.nan]), ValueError, "array must be finite, got nan at index (1,)."),
    (lambda: TTTensor.from_dense(["a"]), TypeError, "array must be of dtype float64 or float32, got <U1."),
    (lambda: TTTensor.from_dense([1.0], eps=-1), ValueError,
     "eps must be at least 0 and less than 1, got -1."),
    # TT-cross
    (lambda: TTTensor.cross(lambda i: i, (2, 2), 1), ValueError,
     "f must give one number for each row of indices: shape (2,) was wanted"),
    (lambda: TTTensor.cross(lambda i: np.where(i.sum(axis=1) == 0, np.inf, 1), (2, 2), 2, seed=0), ValueError,
     "f must be finite, got inf at index (0, 0)."),
    (lambda: TTTensor.cross(lambda i: i[:, 0], (2, 2), 1, max_sweeps=0), ValueError,
     "max_sweeps must be at least 1, got 0."),
    # entries
    (lambda: TTTensor.ones((2,) * 160).full(), ValueError,
     "The full tensor of shape (2,) * 160 has 10^48.2 entries, more than max_size=134217728; "
     "index it, or raise max_size if it fits in memory."),
    (lambda: TTTensor.ones((2,) * 5000).full(), ValueError, "has 10^1505.1 entries, more than"),
    (lambda: W.full(max_size=3), ValueError, "has 12 entries, more than max_size=3"),
    (lambda: np.asarray(W, copy=False), ValueError, "A TTTensor is no array: copy=False cannot be had."),
    (lambda: W[0, 3, 0], IndexError, "Index 3 is out of range for mode 1 of size 3."),
    (lambda: W[0, -4, 0], IndexError, "Index -4 is out of range for mode 1 of size 3."),
    (lambda: W[0, 0, 0, 0], IndexError, "Too many indices: the tensor has 3 modes, got 4."),
    (lambda: W[..., 0, ...], IndexError, "An index can only have one ellipsis (...), got more."),
    (lambda: W[0, 2:2], IndexError, "The slice of mode 1, of size 3, must not be empty"),
    (lambda: W[0, 1.0], IndexError, "Mode 1 can be indexed by an integer, a slice or an ellipsis, got 1.0"),
    (lambda: W[None], IndexError, "Mode 0 can be indexed by an integer, a slice or an ellipsis, got None"),
    (lambda: W[True], IndexError, "Mode 0 can be indexed by an integer, a slice or an ellipsis, got True"),
    (lambda: W[:, [0, 1]], IndexError, "give one integer array of shape (m, 3)."),
    (lambda: W[np.zeros((2, 2), int)], IndexError,
     "An array of indices must be of shape (m, 3), one row per entry, got (2, 2)."),
    (lambda: W[np.zeros((2, 3))], IndexError, "An array of indices must hold integers, got float64."),
    (lambda: W[np.array([[0, 0, 0], [0, 0, 2]])], IndexError,
     "indices[1, 2] = 2 is out of range for mode 2 of size 2."),
    (lambda: W.sum(axis=3), ValueError, "axis must be among the 3 modes, got 3."),
    # algebra
    (lambda: W + TTTensor.ones((2, 3)), ValueError, "The other tensor must have 3 modes, got 2."),
    (lambda: W * TTTensor.ones((2, 4, 2)), ValueError,
     "The other tensor must have size 3 in mode 1, got 4."),
    (lambda: W.inner(np.ones(3)), TypeError, "A TTTensor was wanted, got ndarray."),
    (lambda: W + np.ones((2, 3, 2)), TypeError,
     "A TTTensor and an array cannot be combined; use TTTensor.from_dense on the array."),
    (lambda: np.ones((2, 3, 2)) * W, TypeError, "A TTTensor and an array cannot be combined"),
    (lambda: W * "2", TypeError, "can't multiply"),
    (lambda: W / 0, ZeroDivisionError, "A TTTensor cannot be divided by zero."),
    (lambda: W / W, TypeError, "unsupported operand type"),
    (lambda: W.round(eps=2), ValueError, "eps must be at least 0 and less than 1, got 2."),
    (lambda: W.round(rank=0), ValueError, "rank must be at least 1, got 0."),
    (lambda: NAN.round(), ValueError, "round needs finite cores, but cores[2] has NaN or inf."),
    (lambda: NAN.orthogonalize(), ValueError, "orthogonalize needs finite cores, but cores[2] has NaN"),
    (lambda: NAN.compile(), ValueError, "compile needs finite cores, but cores[2] has NaN or inf."),
    (lambda: W.orthogonalize(3), ValueError, "center must be one of the 3 modes, from 0 to 2, got 3."),
    (lambda: allclose(W, W, rtol=-1), ValueError, "rtol must be finite and at least 0, got -1."),
    # batches
    (lambda: RankOneBatch.from_columns(np.ones(3)), ValueError,
     "columns must be of shape (m, d), one column per mode, got (3,)."),
    (lambda: RankOneBatch.from_columns(np.ones((3, 0))), ValueError, "columns must be of shape (m, d)"),
    (lambda: RankOneBatch.from_columns([["a"]]), TypeError,
     "columns must be of dtype float64 or float32, got <U1."),
    (lambda: RankOneBatch.from_columns([np.ones((2, 1)), np.ones((2, 2, 2))]), ValueError,
     "columns[1] must be of shape (m, ..), got (2, 2, 2)."),
    (lambda: RankOneBatch.from_vectors([np.ones((2, 1)), np.ones((3, 1))]), ValueError,
     "All modes must have the same number of samples: vectors[0] has 2, vectors[1] has 3."),
    (lambda: RankOneBatch.from_vectors([np.ones((2, 0))]), ValueError, "shape[0] must be at least 1, got 0."),
    (lambda: RankOneBatch.from_codes([[1]], (2, 2)), ValueError,
     "codes must be of shape (m, 2), one column per mode, got (1, 1)."),
    (lambda: RankOneBatch.from_codes([[1.0]], (2,)), TypeError, "codes must be integers, got float64."),
    (lambda: RankOneBatch.from_codes([[0, 1], [0, 2]], (2, 2)), IndexError,
     "codes[1, 1] = 2 is out of range for mode 1 of size 2."),
    (lambda: RankOneBatch.from_codes([[-1]], (2,)), IndexError,
     "codes[0, 0] = -1 is out of range for mode 0 of size 2."),
    (lambda: RankOneBatch.from_codes([[1]], (2,), scale=[1, 2]), ValueError,
     "scale must be a number or 1 of them, got shape (2,)."),
    (lambda: RankOneBatch.from_indices([[5]], (2,)), IndexError,
     "indices[0, 0] = 5 is out of range for mode 0 of size 2."),
    (lambda: RankOneBatch.join([]), ValueError, "join needs at least one batch, got none."),
    (lambda: RankOneBatch.join([BATCH, 1]), TypeError, "batches[1] must be a RankOneBatch, got int."),
    (lambda: RankOneBatch.join([BATCH, BATCH[:2]]), ValueError,
     "All batches must have the same number of samples: batches[0] has 4, batches[1] has 2."),
    (lambda: BATCH[0], IndexError, "A batch is indexed by a slice or a one-dimensional array of samples."),
    (lambda: BATCH[[9]], IndexError, "index 9 is out of bounds for axis 0 with size 4"),
    (lambda: W.contract(np.ones(3)), TypeError, "The batch must be a RankOneBatch, got ndarray."),
    (lambda: TTTensor.ones((2, 3)).contract(BATCH), ValueError, "The batch must have 2 modes, got 3."),
    (lambda: W.compile().contract(np.ones(3)), TypeError, "The batch must be a RankOneBatch, got ndarray."),
    (lambda: TTTensor.ones((2, 4, 2)).compile().contract(BATCH), ValueError,
     "The batch must have size 4 in mode 1, got 3."),
    # manifold
    (lambda: MANIFOLD.project(np.ones(3), W), TypeError, "A point must be a TTTensor, got ndarray."),
    (lambda: MANIFOLD.project(TTTensor.ones((2, 3, 2)), W), ValueError,
     "W must have rank 2 at bond 1, got 1."),
    (lambda: MANIFOLD.project(TTTensor.ones((2, 2, 2)), W), ValueError,
     "W must have size 3 in mode 1, got 2."),
    (lambda: MANIFOLD.project(W, TTTensor.ones((2, 2, 2))), ValueError,
     "Z must have size 3 in mode 1, got 2."),
    (lambda: MANIFOLD.project(W, [W, 1]), TypeError,
     "Z[1] must be a TTTensor (or Z a RankOneBatch), got int."),
    (lambda: MANIFOLD.project(W, 1), TypeError,
     "Z must be a TTTensor, a sequence of them or a RankOneBatch, got int."),
    (lambda: MANIFOLD.project(W, W, weights=[1.0]), ValueError,
     "weights are for several tensors; a single one can be scaled."),
    (lambda: MANIFOLD.project(W, [W, W], weights=[1.0]), ValueError,
     "weights must be 2, one per tensor, got shape (1,)."),
    (lambda: MANIFOLD.project(NAN, W), ValueError,
     "A tangent space needs finite cores, but cores[2] has NaN or inf."),
    (lambda: MANIFOLD.gradient(W, np.ones(3), [1.0]), TypeError,
     "The batch must be a RankOneBatch, got ndarray."),
    (lambda: MANIFOLD.gradient(W, RankOneBatch.from_columns([[1.0]]), [1.0]), ValueError,
     "The batch must have 3 modes, got 1."),
    (lambda: MANIFOLD.gradient(W, BATCH, [1.0]), ValueError,
     "g must have one number per sample, shape (4,), got (1,)."),
    (lambda: MANIFOLD.gradient(W, BATCH, lambda f: f[:2]), ValueError,
     "g must have one number per sample, shape (4,), got (2,)."),
    (lambda: MANIFOLD.retract(W, W), TypeError, "A TangentVector was wanted, got TTTensor."),
    (lambda: MANIFOLD.retract(2 * W, XI), ValueError, "xi is a tangent vector of another point than W."),
    (lambda: MANIFOLD.retract(W, np.nan * XI), ValueError,
     "xi must be finite, got NaN or inf in its deltas."),
    (lambda: MANIFOLD.norm(W), TypeError, "A TangentVector was wanted, got TTTensor."),
    (lambda: Manifold((2, 3, 2), 1).norm(XI), ValueError, "W must have rank 1 at bond 1, got 2."),
    (lambda: XI + MANIFOLD.random_tangent(2 * W, 0), ValueError,
     "These tangent vectors belong to different points; bring one to the other's point with "
     "Manifold.transport."),
    (lambda: XI.inner(MANIFOLD.random_tangent(2 * W, 0)), ValueError, "belong to different points"),
    (lambda: XI.inner(W), TypeError, "A TangentVector was wanted, got TTTensor."),
    (lambda: XI + 1, TypeError, "unsupported operand type"),
    (lambda: XI * XI, TypeError, "unsupported operand type"),
    (lambda: XI / 0, ZeroDivisionError, "A TangentVector cannot be divided by zero."),
    # devices
    (lambda: device.get("tpu"), ValueError, "device must be 'auto', 'cpu' or 'cuda', got 'tpu'."),
    (lambda: BATCH.to("tpu"), ValueError, "device must be 'auto', 'cpu' or 'cuda', got 'tpu'."),
    (lambda: W.contract(BATCH, device="tpu"), ValueError, "device must be 'auto', 'cpu' or 'cuda', got 'tpu'."),
    (lambda: Manifold((2, 2), 1, device="tpu"), ValueError, "device must be 'auto', 'cpu' or 'cuda', got 'tpu'."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), CASES, ids=[case[2][:60] for case in CASES])
def test_the_message(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
