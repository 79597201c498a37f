"""Derivatives of losses in the predictions, one per sample, and in the cores of a train."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..checks import float_array
from ..data.batch import RankOneBatch, check_batch
from ..kernels import backend
from ..kernels.layout import Train
from .contraction import growth_per_core, range_check_period
from .core_arrays import read_only_cores
from .scaled_numbers import ldexp, normalize


class DifferentiableLoss(Protocol):
    """A loss as an object, such as `ttexm.learn.Objective`."""

    def derivative(self, f: np.ndarray) -> ArrayLike:
        """Derivatives of the losses of all samples in their predictions f."""


Derivative = Callable[[np.ndarray], ArrayLike]


def derivative_of(loss: Derivative | DifferentiableLoss) -> Derivative:
    """The function of the predictions that returns the derivatives of a loss."""
    derivative = getattr(loss, "derivative", loss)
    if not callable(derivative):
        raise TypeError(
            "loss must be a function of the predictions that returns the derivatives, or an object "
            f"with such a method `derivative`, got {type(loss).__name__}."
        )
    return derivative


class SampleDerivatives:
    """What kernels take for g: an array, or a function of the predictions that returns one.

    The numbers are checked, and scaled by a power of two if their sums could leave the range.

    Parameters
    ----------
    g : array of shape (m,), or callable
        A callable gets the predictions, as plain numbers.
    m : int
    dtype : numpy.dtype
    exponent : int
        Of the tensor: kernels know the predictions of its train only.
    name : str
        What error messages call g.

    Attributes
    ----------
    argument : array or callable
        What to give to a kernel.
    predictions : array of shape (m,) or None
        What a callable g was called with.
    power : int
        The exponent by which the kernel's result is to be multiplied.
    """

    def __init__(
        self,
        g: ArrayLike | Derivative,
        m: int,
        dtype: np.dtype,
        exponent: int = 0,
        name: str = "g",
    ):
        self.g, self.m, self.dtype, self.exponent, self.name = g, m, dtype, exponent, name
        self.power, self.predictions = 0, None
        self.argument = self._call if callable(g) else self._checked(g)

    def _call(self, f, powers):
        self.predictions = ldexp(f, powers + self.exponent)
        return self._checked(self.g(self.predictions))

    def _checked(self, values):
        if type(values) is not np.ndarray or values.dtype != self.dtype:
            values = float_array(values, self.name)
        if values.shape != (self.m,):
            raise ValueError(
                f"{self.name} must have one number per sample, shape ({self.m},), "
                f"got {values.shape}."
            )
        values, self.power = normalize(np.ascontiguousarray(values), self.dtype)
        return values.astype(self.dtype, copy=not values.flags.writeable)


def core_gradient(self, batch: RankOneBatch, g: ArrayLike | Derivative) -> list[np.ndarray]:
    """Return the derivatives of ``sum_s loss_s(<W, X_s>)`` in the entries of the cores.

    They depend on the cores, not on the tensor alone; `Manifold.gradient` does not.

    Parameters
    ----------
    batch : RankOneBatch
        The m samples X_s; the work is done on its device.
    g : array of shape (m,), or callable
        Derivatives of the losses in the predictions f_s = <W, X_s>; or a function that is called
        once, with all of f, and returns them.

    Returns
    -------
    list of d arrays of shape (r0, n, r1)
        In O(d n r^2) per sample, O(d r^2) for categorical modes.

    Examples
    --------
    >>> from ttexm import RankOneBatch, TTTensor
    >>> W = TTTensor.ones((2, 2))
    >>> W.core_gradient(RankOneBatch.from_columns([[3.0, 5.0]]), [1.0])[0]  # (1, 3) (1 + 5)
    array([[[ 6.],
            [18.]]])
    """
    check_batch(batch, self.shape)
    train = self.scaled_train.plain
    _, data = _flat_core_gradient(train, batch, g)
    return _copied_cores(train, data)


def value_and_core_gradient(
    self, batch: RankOneBatch, loss: Derivative | DifferentiableLoss
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the predictions ``<W, X_s>`` and `core_gradient`, in one pass through the samples.

    Parameters
    ----------
    batch : RankOneBatch
        The m samples X_s; the work is done on its device.
    loss : callable, or object with a method ``derivative(f)``
        Gives the derivatives of the losses in all predictions f, an array of shape (m,).

    Returns
    -------
    f : array of shape (m,)
        The predictions.
    gradient : list of d arrays of shape (r0, n, r1)
        In O(d n r^2) per sample, O(d r^2) for categorical modes.

    Examples
    --------
    >>> from ttexm import RankOneBatch, TTTensor
    >>> W, batch = TTTensor.ones((2, 2)), RankOneBatch.from_columns([[3.0, 5.0]])
    >>> f, gradient = W.value_and_core_gradient(batch, lambda f: f - 23)
    >>> f  # (1 + 3) (1 + 5)
    array([24.])
    >>> gradient[0]
    array([[[ 6.],
            [18.]]])
    """
    check_batch(batch, self.shape)
    train = self.scaled_train.plain
    f, data = flat_value_and_core_gradient(train, batch, loss)
    return f, _copied_cores(train, data)


def flat_value_and_core_gradient(
    train: Train, batch: RankOneBatch, loss: Derivative | DifferentiableLoss
) -> tuple[np.ndarray, np.ndarray]:
    """`value_and_core_gradient` of a plain train; the gradient is flat, like the train's data."""
    # The loss gets a copy, as it may work in place.
    derivative = derivative_of(loss)
    return _flat_core_gradient(train, batch, lambda f: derivative(f.copy()), "The derivative")


def _flat_core_gradient(train, batch, g, name="g"):
    """The predictions, if g is a function of them, and the derivatives in the cores."""
    dtype, m = train.data.dtype, len(batch)
    held, period = batch.held(dtype), range_check_period(train, growth_per_core(train), batch)
    g = SampleDerivatives(g, m, dtype, name=name)
    data = backend.get(batch.device).core_gradient(train, held, m, g.argument, period)
    return g.predictions, ldexp(data, g.power)


def _copied_cores(train, data):
    """Arrays (r0, n, r1) of flat data like those of a train."""
    return [np.array(core, order="C") for core in read_only_cores(train._replace(data=data))]
