"""What `TTTensor` and `TangentVector` share: vector arithmetic, and how they deal with numpy.

Left alone, numpy's functions would write a tensor out, up to a gigabyte of it, without a word. Here
they raise a TypeError that names the method to use instead.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NoReturn, Self

import numpy as np

from .scaled_numbers import as_scalar, frexp, ldexp, log_abs

# Operators of two operands, as methods of the left and of the right one.
OPERATORS = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.true_divide: ("__truediv__", "__rtruediv__"),
}
ATTRIBUTES = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}


class VectorArithmetic(ABC):
    """An element of a vector space: can be added to others, and scaled by numbers of any size."""

    __slots__ = ()

    # What to use instead of a function of numpy; `_way_out` is for those not listed.
    _counterparts: ClassVar[dict[Callable, str]] = {}
    _array_advice: ClassVar[str] = ""  # ends the message for an operand that is an array

    @property
    @abstractmethod
    def _way_out(self) -> str:
        """What to do for whoever wants numbers that numpy can work with."""

    @abstractmethod
    def _plus(self, other, sign: int):
        """Self + sign other, or NotImplemented."""

    @abstractmethod
    def _times(self, mantissa: float, exponent: int) -> Self:
        """Self times mantissa 2^exponent."""

    @abstractmethod
    def _scaled_inner(self, other: Self) -> tuple[float, int]:
        """The inner product with another vector, as mantissa and exponent."""

    @abstractmethod
    def _scaled_norm(self) -> tuple[float, int]:
        """The norm, as mantissa and exponent."""

    # -- operators -----------------------------------------------------------------------------

    def __add__(self, other):
        return self._plus(other, 1)

    def __sub__(self, other):
        return self._plus(other, -1)

    def __mul__(self, factor):
        number = as_scalar(factor)
        return self._refuse(factor) if number is None else self._times(*frexp(number))

    __rmul__ = __mul__

    def __truediv__(self, divisor):
        number = as_scalar(divisor)
        if number is None:
            return self._refuse(divisor)
        if number == 0:
            raise ZeroDivisionError(f"A {type(self).__name__} cannot be divided by zero.")
        mantissa, exponent = frexp(number)
        return self._times(1 / mantissa, -exponent)

    def __neg__(self):
        return self * -1

    def _refuse(self, other):
        """What an operator returns for an operand it does not know; numpy's own error says less."""
        if isinstance(other, np.ndarray):
            raise TypeError(
                f"A {type(self).__name__} and an array cannot be combined{self._array_advice}."
            )
        return NotImplemented

    # -- inner products and norms --------------------------------------------------------------

    def inner(self, other: Self) -> float:
        """Return the inner product ``<W, Z>``: the sum of ``W * Z`` for tensors.

        Parameters
        ----------
        other : TTTensor of the same shape, or TangentVector at the same point
            Of the type of the first one.

        Returns
        -------
        float
            In O(d n r^3) for tensors, O(d n r^2) for tangent vectors.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> W = TTTensor.random(shape=(3,) * 50, rank=5, seed=1)
        >>> bool(abs(W.inner(W) / W.norm() ** 2 - 1) < 1e-12)
        True
        """
        return float(ldexp(*self._scaled_inner(other)))

    def log_inner(self, other: Self) -> tuple[float, float]:
        """Return the sign of ``<W, Z>`` and the logarithm of its magnitude, whatever its size.

        Parameters
        ----------
        other : TTTensor of the same shape, or TangentVector at the same point
            Of the type of the first one.

        Returns
        -------
        sign, log : float
            At the cost of `inner`.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> W = TTTensor.ones((2,) * 5000)
        >>> W.log_inner(-W)  # -2^5000, which is no float
        (-1.0, 3465.735...)
        """
        mantissa, exponent = self._scaled_inner(other)
        return float(np.sign(mantissa)), float(log_abs(mantissa, exponent))

    def norm(self) -> float:
        """Return the norm that belongs to the inner product, for tensors the Frobenius norm.

        Returns
        -------
        float
            In O(d n r^3) for tensors, O(d n r^2) for tangent vectors. Accurate to the rounding
            errors of the largest terms that cancel, not of their squares: ``(W - Z).norm()`` is
            good to ``1e-15 |W|``, where ``sqrt(<W - Z, W - Z>)`` stops at ``1e-8 |W|``.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> TTTensor.ones((4, 4)).norm()
        4.0
        """
        return float(ldexp(*self._scaled_norm()))

    def log_norm(self) -> float:
        """Return the logarithm of the norm, whatever its size.

        Returns
        -------
        float
            ``-inf`` for zero. At the cost of `norm`.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> TTTensor.ones((4,) * 3000).log_norm()  # of 2^3000
        2079.44...
        """
        return float(log_abs(*self._scaled_norm()))

    # -- numpy's protocols ---------------------------------------------------------------------

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        """Do arithmetic by the operators above: numpy's scalars and arrays ask here first."""
        if method == "__call__" and not keywords:
            if ufunc in (np.equal, np.not_equal):
                return (inputs[0] is inputs[1]) == (ufunc is np.equal)
            if ufunc is np.negative:
                return -self
            if ufunc in OPERATORS:
                ours = 0 if isinstance(inputs[0], type(self)) else 1
                operator = getattr(inputs[ours], OPERATORS[ufunc][ours], None)
                result = NotImplemented if operator is None else operator(inputs[1 - ours])
                if result is not NotImplemented:
                    return result
        self._refuse_function(ufunc)

    def __array_function__(self, function, types, arguments, keywords):
        """Answer questions about shape and size."""
        attribute = ATTRIBUTES.get(function)
        if attribute is not None and len(arguments) == 1 and hasattr(self, attribute):
            return getattr(self, attribute)
        self._refuse_function(function)

    def _refuse_function(self, function) -> NoReturn:
        home = getattr(function, "__module__", None) or "numpy"
        raise TypeError(
            f"{home}.{function.__name__} does not take a {type(self).__name__}: "
            f"use {self._counterparts.get(function, self._way_out)}."
        )

    @property
    def _data(self) -> NoReturn:
        """numpy.ma reads this attribute of an operand, and does not ask `__array_ufunc__`."""
        raise TypeError(f"A {type(self).__name__} and a masked array cannot be combined.")
