"""Descent on the manifold: each step is what its definition says, and none leaves the floats."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import classes, problem, start, value_at
from sklearn.exceptions import ConvergenceWarning
from strategies import batches, feature_vectors, seeds, shapes

from ttexm import Manifold, RankOneBatch, TTTensor, allclose
from ttexm.kernels import backend as device
from ttexm.learn.data import TrainingSet
from ttexm.learn.losses import Hinge, Logistic, Poisson, Squared
from ttexm.learn.objective import Objective
from ttexm.learn.solvers.riemannian import Riemannian, exact_step
from ttexm.learn.trainer import Trainer

STOCHASTIC = ("sgd", "momentum", "svrg")


def riemannian_gradient(W, batch, objective):
    manifold = Manifold(W.shape, W.ranks)
    xi = manifold.gradient(W, batch, objective.derivative)
    return xi + objective.alpha * manifold.project(W, W)


# -- mini-batches -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [problem, classes], ids=["one output", "three outputs"])
def test_mini_batches_take_every_sample_once_and_add_up_to_the_whole(make):
    W, batch, objective = make()
    rows, m = TrainingSet(batch, objective), len(objective.y)
    parts = rows.mini_batches(25, np.random.default_rng(0))
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(m))
    assert [len(chosen) for chosen in parts] == [25] * (m // 25) + [m % 25]
    W = Manifold(W.shape, 3).random_point(0)
    value, gradient = 0.0, Manifold(W.shape, 3).zero_tangent(W)
    for chosen in parts:
        part, share = rows.take(chosen), len(chosen) / m
        value += share * value_at(W, part.batch, part.objective)
        gradient = gradient + share * riemannian_gradient(W, part.batch, part.objective)
    whole = riemannian_gradient(W, batch, objective)
    assert (gradient - whole).norm() <= 1e-12 * whole.norm()
    assert_allclose(value, value_at(W, batch, objective), rtol=1e-12)


def test_a_projection_of_a_point_is_the_point():
    W = Manifold((2, 3, 4, 2), 3).random_point(0) * 1e3
    manifold = Manifold(W.shape, W.ranks)
    xi, same = manifold.project(W, W), manifold.project(W, W + 0 * W)
    assert (xi - same).norm() <= 1e-12 * xi.norm()
    assert allclose(xi.to_tensor(), W)


# -- one step -----------------------------------------------------------------------------------


@given(data=st.data(), shape=shapes(4, 3, 60), seed=seeds)
def test_a_full_step_is_the_projected_gradient_rounded(data, shape, seed):
    batch = data.draw(batches(shape, 30).filter(lambda batch: len(batch) > 0))
    rng = np.random.default_rng(seed)
    W = Manifold(shape, 2).random_point(rng)
    objective = Objective(Squared(), rng.standard_normal(len(batch)), np.ones(len(batch)), 0.1)
    X = naive.rank_ones(feature_vectors(batch))
    full = W.full()
    euclidean = (objective.derivative(X @ full.ravel()) @ X).reshape(shape) + 0.1 * full
    gradient = naive.project(W.to_cores(), euclidean)
    rate = 1e-4 / (1 + np.linalg.norm(gradient))
    run = start(Riemannian("sgd", rate), W, batch, objective)
    assert_allclose(run.gradient_norm, np.linalg.norm(gradient), rtol=1e-6, atol=1e-9)
    run.iterate()
    moved = TTTensor.from_dense(full - rate * gradient).round(W.ranks)
    assert np.linalg.norm(run.tensor().full() - moved.full()) <= 1e-10
    assert_allclose(run.value, value_at(run.tensor(), batch, objective), rtol=1e-9)


@pytest.mark.parametrize("make", [problem, classes], ids=["one output", "three outputs"])
def test_the_steps_of_svrg_are_those_of_all_samples_on_average(make):
    W, batch, objective = make()
    run = start(Riemannian("svrg", 1e-3, batch_size=25), W, batch, objective)
    manifold, rows, m = run.point.manifold, run.rows, len(objective.y)

    def mean_gradient():
        mean = manifold.zero_tangent(run.tensor())
        for chosen in rows.mini_batches(25, np.random.default_rng(0)):
            mean = mean + len(chosen) / m * run.corrected(rows.take(chosen), chosen).gradient
        return mean

    whole = riemannian_gradient(run.tensor(), batch, objective)
    assert (mean_gradient() - whole).norm() <= 1e-11 * whole.norm()
    # Away from the anchor: the change of all derivatives, and the anchor's gradient, transported.
    run.point.step(whole, 1e-2)
    W = run.tensor()
    change = objective.derivative(W.contract(batch)) - objective.derivative(run.anchor.f)
    expected = (
        manifold.gradient(W, batch, change)
        + manifold.transport(run.loss_gradient, W)
        + objective.alpha * manifold.project(W, W)
    )
    assert (mean_gradient() - expected).norm() <= 1e-11 * whole.norm()


def test_svrg_of_all_samples_is_sgd_and_so_is_momentum_zero():
    W, batch, objective = problem()
    runs = [
        start(Riemannian(method, 0.01, momentum=0.0), W, batch, objective)
        for method in ("sgd", "momentum", "svrg")
    ]
    for _ in range(5):
        for run in runs:
            run.iterate()
    assert_array_equal(runs[0].tensor().scaled_train.data, runs[1].tensor().scaled_train.data)
    assert allclose(runs[0].tensor(), runs[2].tensor(), rtol=1e-9)


def test_momentum_keeps_its_share_of_the_last_step():
    W, batch, objective = problem()
    solver = Riemannian("momentum", 0.01, momentum=0.5)
    run, manifold = start(solver, W, batch, objective), Manifold(W.shape, W.ranks)
    first = -0.01 * riemannian_gradient(W, batch, objective)
    W1 = manifold.retract(W, first)
    second = 0.5 * manifold.transport(first, W1) - 0.01 * riemannian_gradient(W1, batch, objective)
    for _ in range(2):
        run.iterate()
    assert allclose(run.tensor(), manifold.retract(W1, second), rtol=1e-12)


# -- conjugate gradients --------------------------------------------------------------------------


@pytest.mark.large
@pytest.mark.parametrize("line_search", ["exact", "armijo"])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Hinge(), Poisson()], ids=repr)
def test_conjugate_gradients_lower_the_objective_in_every_iteration(loss, line_search):
    W, batch, objective = problem(loss)
    run = start(Riemannian("cg", line_search=line_search), W, batch, objective)
    values = [run.value]
    for _ in range(15):
        run.iterate()
        values.append(run.value)
        assert_allclose(run.value, value_at(run.tensor(), batch, objective), rtol=1e-9)
    steps = np.diff(values)
    assert (steps <= 0).all()
    assert (steps[:3] < 0).all()
    assert values[-1] < 0.9 * values[0]


@pytest.mark.large
def test_conjugate_gradients_solve_least_squares():
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_columns(rng.standard_normal((400, 5)))
    truth = Manifold(batch.shape, 2).random_point(1)
    objective = Objective(Squared(), truth.contract(batch), np.ones(400), 0.0)
    run = start(Riemannian("cg"), TTTensor.random(batch.shape, 2, seed=2), batch, objective)
    for _ in range(150):
        run.iterate()
    assert (run.tensor() - truth).norm() < 1e-6


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Hinge(), Poisson()], ids=repr)
def test_the_exact_step_is_the_minimum_along_the_line(loss):
    W, batch, objective = problem(loss, alpha=0.1)
    f, rng = W.contract(batch), np.random.default_rng(0)
    along = -objective.derivative(f) * rng.uniform(0.5, 1.5, len(f))

    def value(t):
        return objective.value(f + t * along, 1 + 2 * t * 0.3 + t**2 * 0.5)

    t = exact_step(objective, f, along, 0.3, 0.5)
    grid = np.linspace(0, 3 * t, 2000)
    assert value(t) <= min(map(value, grid)) + 1e-4 * (value(0) - value(t))


def test_a_minimum_is_where_conjugate_gradients_stay():
    W, batch, objective = problem(alpha=0.0)
    objective = Objective(Squared(), W.contract(batch), np.ones(len(batch)), 0.0)
    run = start(Riemannian("cg"), W, batch, objective)
    run.iterate()
    assert run.value < 1e-25
    assert allclose(run.tensor(), W, rtol=1e-6)


# -- runs -----------------------------------------------------------------------------------------


@pytest.mark.large
@pytest.mark.parametrize("method", STOCHASTIC)
@pytest.mark.parametrize("batch_size", [None, 40])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Hinge()], ids=repr)
def test_an_automatic_rate_descends(method, batch_size, loss):
    W, batch, objective = problem(loss)
    before = value_at(W, batch, objective)
    run = start(Riemannian(method, batch_size=batch_size), W, batch, objective)
    for _ in range(40):
        run.iterate()
    assert value_at(run.tensor(), batch, objective) < 0.8 * before


@pytest.mark.large
@pytest.mark.parametrize("batch_size", [100, None])
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_an_automatic_rate_does_not_diverge_among_2_to_the_30_weights(loss, batch_size):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (1000, 30))
    y = np.sign(x[:, 0] + x[:, 1] * x[:, 2] * x[:, 3])
    y[y == 0] = 1
    batch, objective = RankOneBatch.from_columns(x), Objective(loss, y, np.ones(1000), 1e-5)
    W = TTTensor.random(batch.shape, 4, seed=0)
    W = W * (1 / np.abs(W.contract(batch)).max())
    run = start(Riemannian("sgd", batch_size=batch_size), W, batch, objective)
    for _ in range(30):
        run.iterate()
        assert run.value < 1.0


@pytest.mark.large
@pytest.mark.parametrize("method", ["cg", *STOCHASTIC])
def test_several_outputs(method):
    W, batch, objective = classes()
    before = value_at(W, batch, objective)
    run = start(Riemannian(method, batch_size=None if method == "cg" else 25), W, batch, objective)
    for _ in range(20):
        run.iterate()
    assert value_at(run.tensor(), batch, objective) < 0.9 * before


@pytest.mark.large
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", STOCHASTIC)
def test_the_same_generator_gives_the_same_bits(method, dtype):
    W, batch, objective = problem(dtype=dtype)
    tensors = []
    for seed in (0, 0, 1):
        run = start(Riemannian(method, batch_size=40), W, batch, objective, seed)
        for _ in range(3):
            run.iterate()
        tensors.append(run.tensor())
        assert run.tensor().dtype == dtype
    assert_array_equal(tensors[0].scaled_train.data, tensors[1].scaled_train.data)
    assert not allclose(tensors[0], tensors[2], rtol=1e-6)


@pytest.mark.large
@pytest.mark.parametrize("method", ["cg", *STOCHASTIC])
def test_any_tensor_is_a_start(method):
    _, batch, objective = problem()
    large = TTTensor.random(batch.shape, 3, 0)
    flat = [TTTensor.zeros(batch.shape), TTTensor.ones(batch.shape), large + large + large + large]
    for W in flat:
        run = start(Riemannian(method), W, batch, objective)
        before = value_at(W, batch, objective)
        assert allclose(run.tensor(), W, atol=1e-12)
        for _ in range(5):
            run.iterate()
        assert value_at(run.tensor(), batch, objective) < before
    one = RankOneBatch.from_columns(np.arange(5.0)[:, None])
    objective = Objective(Squared(), np.ones(5), np.ones(5), 0.0)
    run = start(Riemannian(method), TTTensor.zeros((2,)), one, objective)
    for _ in range(100):
        run.iterate()
    assert run.value < 1e-3


@pytest.mark.parametrize("size", [1e200, 1e-200])
@pytest.mark.parametrize("method", ["cg", *STOCHASTIC])
def test_a_start_near_the_ends_of_the_range_raises_nothing(method, size):
    W, batch, objective = problem()
    with np.errstate(over="ignore", invalid="ignore"):
        run = start(Riemannian(method), size * W, batch, objective)
        for _ in range(3):
            run.iterate()
    assert np.isfinite(run.tensor().scaled_train.data).all()


def test_a_step_with_all_samples_takes_one_gradient_and_one_retraction(monkeypatch):
    W, batch, objective = problem()
    run, calls = start(Riemannian("sgd", 0.01), W, batch, objective), []
    kernels = device.get(batch.device)
    for name in ("contract", "gradient", "project", "retract"):
        kernel = getattr(kernels, name)

        def counted(*args, name=name, kernel=kernel):
            calls.append(name)
            return kernel(*args)

        monkeypatch.setattr(kernels, name, counted)
    run.iterate()
    assert calls == ["retract", "gradient"]


@pytest.mark.large
@pytest.mark.parametrize("method", ["cg", "sgd"])
def test_adaptation_raises_a_rank_that_is_missing(method):
    rng = np.random.default_rng(0)
    batch = RankOneBatch.from_columns(rng.choice([-1.0, 1.0], (500, 6)))
    truth = Manifold(batch.shape, 3).random_point(5)
    objective = Objective(Squared(), truth.contract(batch), np.ones(500), 0.0)
    W = TTTensor.random(batch.shape, 1, seed=1)
    solver = Riemannian(method, adapt_every=2, max_rank=4, eps=1e-3)
    run = start(solver, W * (1 / W.norm()), batch, objective)
    ranks = []
    for _ in range(12):
        run.iterate()
        ranks.append(run.tensor().rank)
    assert ranks[:3] == [1, 1, max(ranks)]
    assert run.value < 1e-4
    assert_allclose(run.value, value_at(run.tensor(), batch, objective), atol=1e-12)
    assert np.isfinite(run.gradient_norm)
    # By default the rank of the start is the most.
    run = start(Riemannian(method, adapt_every=1), W, batch, objective)
    for _ in range(3):
        run.iterate()
    assert run.tensor().rank == 1


@pytest.mark.large
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", [Squared(), Poisson()], ids=repr)
@pytest.mark.parametrize("batch_size", [None, 40])
@pytest.mark.parametrize("method", STOCHASTIC)
def test_an_overflow_ends_in_the_best_model_and_a_warning(method, batch_size, loss, dtype):
    W, batch, objective = problem(loss, dtype=dtype)
    trainer = Trainer(Riemannian(method, 1e30, batch_size), n_iter_no_change=1000)
    with pytest.warns(ConvergenceWarning, match="overflowed"):
        best = trainer.run(W, batch, objective)
    assert np.isfinite(best.scaled_train.data).all()


@pytest.mark.parametrize("batch_size", [None, 40])
@pytest.mark.parametrize("method", STOCHASTIC)
@pytest.mark.parametrize("make", [problem, classes], ids=["one output", "three outputs"])
def test_descent_is_on_the_device_of_the_batch(stand_in, method, batch_size, make):
    W, batch, objective = make()
    here = start(Riemannian(method, batch_size=batch_size), W, batch.to("cpu"), objective)
    here.iterate()
    with stand_in.alone():
        there = start(Riemannian(method, batch_size=batch_size), W, batch.to("cuda"), objective)
        there.iterate()
    assert_array_equal(here.tensor().scaled_train.data, there.tensor().scaled_train.data)
    assert stand_in.calls["hold"] == 1
    assert (stand_in.calls["take"] > 0) == (batch_size is not None)


@pytest.mark.parametrize("adapt_every", [None, 1])
def test_conjugate_gradients_are_on_the_device_of_the_batch(stand_in, adapt_every):
    W, batch, objective = problem(Logistic(), m=300)
    solver = Riemannian("cg", adapt_every=adapt_every)
    here = start(solver, W, batch.to("cpu"), objective)
    for _ in range(2):
        here.iterate()
    with stand_in.alone():
        there = start(solver, W, batch.to("cuda"), objective)
        for _ in range(2):
            there.iterate()
    assert_array_equal(here.tensor().scaled_train.data, there.tensor().scaled_train.data)
    assert stand_in.calls["hold"] == 1
    assert stand_in.calls["partial_products"] == (adapt_every is not None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "newton"}, "one of 'cg', 'sgd', 'momentum', 'svrg', got 'newton'"),
        ({"line_search": "wolfe"}, "line_search must be one of 'exact', 'armijo', got 'wolfe'"),
        ({"learning_rate": 0.0}, "learning_rate must be 'auto' or a number above 0, got 0.0"),
        ({"learning_rate": "slow"}, "learning_rate must be 'auto' or a number above 0, got 'slow'"),
        ({"learning_rate": np.nan}, "learning_rate must be 'auto' or a number above 0, got nan"),
        ({"batch_size": 0}, "batch_size must be at least 1, or None for all samples, got 0"),
        ({"batch_size": 10}, "method='cg' needs all samples, batch_size=None, got 10"),
        ({"momentum": 1.0}, "momentum must be at least 0 and less than 1, got 1.0"),
        ({"eps": -0.1}, "eps must be at least 0 and less than 1, got -0.1"),
        ({"adapt_every": 0}, "adapt_every must be at least 1, or None for never, got 0"),
        ({"max_rank": 1.5}, "at least 1, or None for the rank of the start, got 1.5"),
    ],
)
def test_settings_that_are_wrong_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Riemannian(**settings)
