"""On a real GPU: sizes and timing of threads that no simulator has. `python -m pytest -m gpu`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ttexm import ExMClassifier, Manifold, RankOneBatch, TTTensor
from ttexm.kernels import backend

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not backend.has_gpu(), reason="needs a GPU that numba.cuda can use"),
]

TOLERANCE = {np.float64: 1e-11, np.float32: 1e-3}


def mixed_batch(m, dtype):
    rng = np.random.default_rng(0)
    return RankOneBatch.join(
        [
            RankOneBatch.from_columns(rng.standard_normal((m, 10)), dtype),
            RankOneBatch.from_codes(rng.integers(0, 900, (m, 2)), (900, 900), 0.5, dtype),
            RankOneBatch.from_vectors([rng.standard_normal((m, 3)) for _ in range(4)], dtype),
        ]
    )


def assert_close(found, wanted, dtype):
    assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype] * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [3, 8, 16, 32, 64])
@pytest.mark.parametrize("m", [1, 1000, 100_003])
def test_a_riemannian_step_agrees_with_the_cpu(rank, dtype, m):
    batch, g = mixed_batch(m, dtype), np.random.default_rng(1).standard_normal(m)
    on_cpu, on_gpu = (Manifold(batch.shape, rank, device=name) for name in ("cpu", "cuda"))
    W = on_cpu.random_point(0, dtype)
    assert_close(W.contract(batch, device="cuda"), W.contract(batch, device="cpu"), dtype)
    wanted, found = on_cpu.gradient(W, batch, g), on_gpu.gradient(W, batch, g)
    assert_close(found.flat_deltas, wanted.flat_deltas, dtype)
    step = 0.1 / wanted.norm()
    moved = [manifold.retract(W, -step * wanted) for manifold in (on_cpu, on_gpu)]
    assert (moved[1] - moved[0]).norm() <= TOLERANCE[dtype]


def test_results_have_the_same_bits_from_run_to_run():
    batch = mixed_batch(100_003, np.float32).to("cuda")
    manifold = Manifold(batch.shape, 16, device="cuda")
    W = manifold.random_point(0, np.float32)
    seen = [manifold.gradient(W, batch, np.sin).flat_deltas for _ in range(5)]
    for other in seen[1:]:
        assert_array_equal(other, seen[0])


def test_memory_changes_no_bits(monkeypatch):
    from ttexm.kernels.cuda import batches

    batch, seen = mixed_batch(100_003, np.float64), []
    W = TTTensor.random(batch.shape, 8, seed=0)
    manifold = Manifold(batch.shape, W.ranks, device="cuda")
    for n_bytes in (10**9, 10**7, 10**6):
        monkeypatch.setattr(batches, "free_bytes", lambda n=n_bytes: n)
        copied = batch[:].to("cuda")
        seen.append([W.contract(copied), manifold.gradient(W, copied, np.sin).flat_deltas])
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            assert_array_equal(one, other)


@pytest.mark.parametrize("solver", ["sweeps", "riemannian"])
def test_a_fit_learns_what_the_cpu_learns(solver):
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (20_000, 10))
    y = X[:, 0] * X[:, 3] * X[:, 7] > 0
    model = ExMClassifier(rank=4, alpha=1e-3, solver=solver, device="cuda", random_state=0)
    assert model.fit(X, y).score(X, y) > 0.99
    assert model.set_params(device="cpu").score(X, y) > 0.99
