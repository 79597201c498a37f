"""Other libraries: cores to and from them, pymanopt's optimizers and diagnostics."""

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ttexm import Manifold, RankOneBatch, TTTensor, allclose

matplotlib, pymanopt, teneva, tensorly = (
    pytest.importorskip(name, reason='needs the extra "dev"')
    for name in ("matplotlib", "pymanopt", "teneva", "tensorly")
)
from pymanopt.tools import diagnostics  # noqa: E402

from ttexm.interop import PymanoptManifold  # noqa: E402

matplotlib.use("Agg")
pytestmark = pytest.mark.slow


def test_cores_go_to_tensorly_and_back():
    W = TTTensor.random((3, 4, 2, 5), rank=3, seed=0)
    assert_allclose(tensorly.tt_to_tensor(W.to_cores()), W.full())
    A = np.random.default_rng(0).standard_normal((3, 4, 2, 5))
    decomposed = tensorly.decomposition.tensor_train(tensorly.tensor(A), rank=[1, 3, 8, 5, 1])
    Z = TTTensor([np.asarray(core) for core in decomposed])
    assert_allclose(Z.full(), tensorly.tt_to_tensor(decomposed), atol=1e-12)
    assert TTTensor.from_dense(A, rank=[1, 3, 8, 5, 1]).ranks == Z.ranks


def test_cores_go_to_teneva_and_back():
    W = TTTensor.random((3, 4, 2, 5), rank=3, seed=0)
    assert_allclose(teneva.full(W.to_cores()), W.full())
    assert_allclose(teneva.norm(W.to_cores()), W.norm())
    Y = teneva.truncate(teneva.add(W.to_cores(), W.to_cores()), e=1e-10)
    assert allclose(TTTensor(Y), 2 * W)
    random = TTTensor(teneva.rand([4] * 10, r=3))
    assert random.ranks == (1,) + (3,) * 9 + (1,)


# -- pymanopt -----------------------------------------------------------------------------------


@pytest.fixture
def repaired_diagnostics(monkeypatch):
    """pymanopt 2.2.1 puts an array of length 1 into a number's place, an error since numpy 2.4."""
    polyfit = np.polyfit

    def polyfit_with_scalar_residual(*arguments, full=False, **keywords):
        found = polyfit(*arguments, full=full, **keywords)
        return (found[0], found[1].sum(), *found[2:]) if full else found

    monkeypatch.setattr(diagnostics.np, "polyfit", polyfit_with_scalar_residual)


@pytest.fixture
def problem():
    """Least squares on samples of rank 1: a cost, and its gradient as a weighted batch."""
    rng = np.random.default_rng(0)
    shape = (3, 2, 4, 3)
    batch = RankOneBatch.from_vectors([rng.standard_normal((200, n)) for n in shape])
    target = Manifold(shape, 2).random_point(1)
    y = target.contract(batch)
    manifold = PymanoptManifold(Manifold(shape, 2), seed=0)

    @pymanopt.function.numpy(manifold)
    def cost(W):
        return 0.5 * np.sum((W.contract(batch) - y) ** 2)

    @pymanopt.function.numpy(manifold)
    def gradient(W):
        return batch, W.contract(batch) - y

    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)
    problem.target = target
    return problem


@pytest.mark.parametrize("optimizer", ["SteepestDescent", "ConjugateGradient"])
def test_optimizers_find_the_tensor(problem, optimizer):
    optimizer = getattr(pymanopt.optimizers, optimizer)(
        verbosity=0, max_iterations=2000, min_gradient_norm=1e-7
    )
    start = problem.manifold.retraction(
        problem.target, 0.3 * problem.manifold.random_tangent_vector(problem.target)
    )
    found = optimizer.run(problem, initial_point=start)
    assert found.cost < 1e-10
    assert (found.point - problem.target).norm() < 1e-5


@pytest.mark.usefixtures("repaired_diagnostics")
def test_the_gradient_check_finds_slope_two(problem, capsys):
    *_, line = diagnostics.check_directional_derivative(problem)
    assert abs(line[0] - 2) < 0.1
    diagnostics.check_gradient(problem)
    residual = capsys.readouterr().out.split("The residual should be close to 0: ")[1]
    assert float(residual.split()[0].rstrip(".")) < 1e-10
    matplotlib.pyplot.close("all")


@pytest.mark.usefixtures("repaired_diagnostics")
def test_the_retraction_check_finds_at_least_slope_two(problem, capsys):
    diagnostics.check_retraction(problem.manifold)
    slope = capsys.readouterr().out.split("It appears the slope is: ")[1].split()[0].rstrip(".")
    assert float(slope) > 1.9
    matplotlib.pyplot.close("all")


def test_exp_starts_along_the_vector_and_keeps_to_the_manifold(problem):
    manifold = problem.manifold
    W = manifold.random_point()
    xi = manifold.random_tangent_vector(W)
    steps = np.logspace(-3, -1.5, 6)
    errors = [(manifold.exp(W, t * xi) - W - t * xi.to_tensor()).norm() for t in steps]
    assert abs(naive.slope(errors, steps) - 2) < 0.1
    assert manifold.manifold.contains(manifold.exp(W, xi))
    assert manifold.dist(manifold.exp(W, manifold.zero_vector(W)), W) < 1e-14


def test_the_rest_of_the_interface(problem):
    manifold = problem.manifold
    W = manifold.random_point()
    xi, eta = manifold.random_tangent_vector(W), manifold.random_tangent_vector(W)
    assert manifold.dim == manifold.manifold.dim
    assert manifold.inner_product(W, xi, eta) == xi.inner(eta)
    assert (manifold.to_tangent_space(W, xi) - xi).norm() < 1e-13
    assert (manifold.projection(W, manifold.embedding(W, xi)) - xi).norm() < 1e-13
    assert "rank" in str(manifold)
