"""The trainer: it keeps the best, knows when to stop, and tells what happened."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from problems import problem
from sklearn.exceptions import ConvergenceWarning

from ttexm.learn.solvers.base import Run, Solver
from ttexm.learn.solvers.riemannian import Riemannian
from ttexm.learn.solvers.sweeps import Sweeps
from ttexm.learn.trainer import Trainer


class Scripted(Solver, Run):
    """A solver whose objective takes given values, and whose tensor grows with each iteration."""

    def __init__(self, *values):
        self.values, self.n_iter = values, 0

    def start(self, W, batch, objective, rng):
        self.W = W
        return self

    @property
    def value(self):
        return self.values[self.n_iter]

    def iterate(self):
        self.n_iter += 1

    def tensor(self):
        return self.W * float(self.n_iter)


def run(trainer, metric=None):
    W, batch, objective = problem()
    found = trainer.run(W, batch, objective, metric)
    return found.norm() / W.norm()


def test_the_best_by_the_objective_is_kept():
    trainer = Trainer(Scripted(9.0, 5.0, 3.0, 4.0, 3.5), max_iter=4, tol=None)
    assert run(trainer) == pytest.approx(2)
    assert [record.loss for record in trainer.history] == [5.0, 3.0, 4.0, 3.5]
    assert [record.iteration for record in trainer.history] == [1, 2, 3, 4]
    assert np.all(np.diff([record.time for record in trainer.history]) >= 0)


def test_the_start_is_kept_if_nothing_is_better():
    assert run(Trainer(Scripted(1.0, 5.0, 3.0), max_iter=2, tol=None)) == pytest.approx(1)


def test_the_best_by_a_metric_is_kept_whatever_the_objective_does():
    metrics = iter([4.0, 3.0, 1.0, 2.0, 2.0])
    trainer = Trainer(Scripted(9.0, 8.0, 7.0, 6.0, 5.0), max_iter=4, tol=None)
    assert run(trainer, lambda W: next(metrics)) == pytest.approx(2)
    assert [record.metric for record in trainer.history] == [3.0, 1.0, 2.0, 2.0]


def test_training_stops_when_it_no_longer_improves():
    values = [1.0, 0.5, 0.49999, 0.49998, 0.49997, 0.1]
    trainer = Trainer(Scripted(*values), max_iter=5, tol=1e-3, n_iter_no_change=3)
    assert run(trainer) == pytest.approx(4)
    assert len(trainer.history) == 4


def test_a_warning_says_what_to_do_if_it_still_improves():
    with pytest.warns(ConvergenceWarning, match="while it still improved; raise max_iter, or tol"):
        run(Trainer(Scripted(3.0, 2.0, 1.0), max_iter=2))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_overflow_keeps_what_was_best_before(value):
    with pytest.warns(ConvergenceWarning, match="overflowed in iteration 3; the best model before"):
        assert run(Trainer(Scripted(4.0, 3.0, 2.0, value, 1.0), max_iter=4)) == pytest.approx(2)


def test_a_callback_can_stop_and_sees_each_record():
    seen = []

    def stop(record):
        seen.append(record.iteration)
        return record.loss <= 2

    assert run(Trainer(Scripted(4.0, 3.0, 2.0, 1.0), callbacks=[stop])) == pytest.approx(2)
    assert seen == [1, 2]


def test_an_interrupt_keeps_the_best_so_far():
    def interrupt(record):
        if record.iteration == 3:
            raise KeyboardInterrupt

    trainer = Trainer(Scripted(4.0, 3.0, 2.0, 2.5, 1.0), callbacks=[interrupt])
    assert run(trainer) == pytest.approx(2)


@pytest.mark.parametrize("solver", [Sweeps(), Riemannian("sgd", 0.1, 20)], ids=["sweeps", "sgd"])
def test_the_same_random_state_gives_the_same_bits(solver):
    W, batch, objective = problem()
    one, other = (
        Trainer(solver, max_iter=3, tol=None, random_state=5).run(W, batch, objective)
        for _ in range(2)
    )
    for G, H in zip(one.cores, other.cores, strict=True):
        assert_array_equal(G, H)


def test_progress_shows_the_loss(capsys):
    run(Trainer(Scripted(4.0, 3.0, 2.0), max_iter=2, tol=None, verbose=True))
    assert "loss 2" in capsys.readouterr().err


# Sweeps over one core are computed in another way on the CPU, and differ by rounding.
@pytest.mark.parametrize("solver", [Sweeps(2), Riemannian("sgd", 0.1, 20)], ids=["sweeps", "sgd"])
def test_training_is_where_it_is_wanted(stand_in, solver):
    W, batch, objective = problem()
    batch, expected = batch.to("cpu"), None
    for placed, device, is_there in (
        (batch, None, False),
        (batch.to("cuda"), "cpu", False),
        (batch.to("cuda"), None, True),
        (batch, "cuda", True),
    ):
        stand_in.calls.clear()
        found = Trainer(solver, max_iter=2, tol=None, device=device).run(W, placed, objective)
        expected = found if expected is None else expected
        assert_array_equal(found.scaled_train.data, expected.scaled_train.data)
        assert (stand_in.calls.total() > 0) == is_there
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or 'cuda', got 'gpu'"):
        Trainer(solver, device="gpu").run(W, batch, objective)
