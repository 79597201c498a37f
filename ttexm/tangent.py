"""TangentVector: an element of the tangent space of a manifold of fixed TT-rank."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import device, trains
from .protocols import apply_function, apply_ufunc, refuse_array, refuse_masked_arrays
from .tensor import TTTensor, as_scalar

COUNTERPARTS = {
    np.linalg.norm: "xi.norm()",
    np.dot: "xi.inner(eta)",
    np.vdot: "xi.inner(eta)",
    np.inner: "xi.inner(eta)",
}
WAY_OUT = "xi.to_tensor(), or its deltas"

kernels = device.get("cpu")


@dataclass(frozen=True, eq=False, repr=False)
class TangentVector:
    """A tangent vector of a manifold at a point, ``sum_k U_1 .. U_{k-1} dG_k V_{k+1} .. V_d``.

    U and V are the left- and right-orthogonal cores of the point; the deltas dG_k obey the gauge
    ``U_k^T dG_k = 0`` for k < d, so that inner products are sums of those of the deltas. Made by
    the methods of `Manifold`. Vectors at the same point can be added, and scaled.

    A power of two is kept apart, as in `TTTensor`, so that operations neither over- nor underflow;
    only plain numbers (`deltas`, `norm`, `inner`) become inf, with a RuntimeWarning, or 0 where
    they do not fit. `log_norm` always has a value.

    Attributes
    ----------
    point : TTTensor
        Where it is tangent.

    Examples
    --------
    >>> from ttexm import Manifold
    >>> manifold = Manifold(shape=(2,) * 20, rank=3)
    >>> W = manifold.random_point(seed=0)
    >>> xi, eta = manifold.random_tangent(W, seed=1), manifold.random_tangent(W, seed=2)
    >>> abs((2 * xi - eta).inner(xi) - (2 - eta.inner(xi))) < 1e-14
    True
    """

    point: TTTensor
    _deltas: np.ndarray  # the deltas, as in a train, by a power of two
    _exponent: int = 0

    @classmethod
    def _of(cls, point: TTTensor, data: np.ndarray, exponent: int = 0) -> "TangentVector":
        """2^exponent times the data, which are brought to a size whose squares are in range."""
        data, power = trains.normalized(data)
        return cls(point, data, exponent + power)

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return apply_ufunc(self, ufunc, method, inputs, keywords, COUNTERPARTS, WAY_OUT)

    def __array_function__(self, function, types, arguments, keywords):
        return apply_function(self, function, arguments, COUNTERPARTS, WAY_OUT)

    _data = property(refuse_masked_arrays)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(f"A TangentVector cannot be made an array: use {WAY_OUT}.")

    @cached_property
    def deltas(self) -> tuple[np.ndarray, ...]:
        """The deltas dG_k, read-only arrays of shape ``(r0, n, r1)``."""
        data = trains.ldexp(self._deltas, self._exponent)
        train = self.point._frames[0]._replace(data=data)
        views = [slots.transpose(1, 0, 2) for slots in trains.to_slots(train)]
        for view in views:
            view.flags.writeable = False
        return tuple(views)

    @property
    def dtype(self) -> np.dtype:
        return self._deltas.dtype

    def __repr__(self) -> str:
        log = self.log_norm()
        size = f"{self.norm():.6g}" if not 700 < abs(log) < math.inf else f"exp({log:.6g})"
        return f"TangentVector(norm {size}, at {self.point!r})"

    def __add__(self, other):
        return self._plus(other, 1)

    def __sub__(self, other):
        return self._plus(other, -1)

    def _plus(self, other, sign):
        if not isinstance(other, TangentVector):
            return refuse_array(self, other)
        data, exponent = self._other(other)._deltas, self._exponent
        if exponent == other._exponent:
            mine = self._deltas
        else:
            exponent, (mine, data) = trains.common(
                (self._exponent, self._deltas), (other._exponent, data)
            )
        return TangentVector._of(self.point, mine + data if sign > 0 else mine - data, exponent)

    def __mul__(self, factor):
        number = as_scalar(factor)
        return refuse_array(self, factor) if number is None else self._times(*trains.frexp(number))

    __rmul__ = __mul__

    def __truediv__(self, divisor):
        number = as_scalar(divisor)
        if number is None:
            return refuse_array(self, divisor)
        if number == 0:
            raise ZeroDivisionError("A TangentVector cannot be divided by zero.")
        mantissa, exponent = trains.frexp(number)
        return self._times(1 / mantissa, -exponent)

    def _times(self, mantissa, exponent):
        if abs(exponent) < 32:  # the usual case, in which deltas keep the power to themselves
            mantissa, exponent = math.ldexp(mantissa, exponent), 0
        data = self._deltas * self.dtype.type(mantissa)
        return TangentVector._of(self.point, data, self._exponent + exponent)

    def __neg__(self):
        return TangentVector(self.point, -self._deltas, self._exponent)

    def _other(self, other: "TangentVector") -> "TangentVector":
        if not isinstance(other, TangentVector):
            raise TypeError(f"A TangentVector was wanted, got {type(other).__name__}.")
        if other.point is not self.point:
            raise ValueError(
                "These tangent vectors belong to different points; bring one to the other's point "
                "with Manifold.transport."
            )
        return other

    def inner(self, other: "TangentVector") -> float:
        """Return the inner product with another tangent vector at the same point, in O(d n r^2)."""
        other = self._other(other)
        product = trains.dot(self._deltas, other._deltas)
        return float(trains.ldexp(product, self._exponent + other._exponent))

    @property
    def _size(self) -> float:
        """The norm of the deltas, without their power of two."""
        return trains.size(self._deltas)

    def norm(self) -> float:
        """Return the norm, in O(d n r^2)."""
        return float(trains.ldexp(self._size, self._exponent))

    def log_norm(self) -> float:
        """Return the logarithm of the norm, whatever its size; ``-inf`` for the zero vector."""
        return float(trains.log_abs(self._size, self._exponent))

    def to_tensor(self) -> TTTensor:
        """Return the vector as an element of the ambient space, of ranks at most 2 r.

        Examples
        --------
        >>> from ttexm import Manifold
        >>> manifold = Manifold(shape=(3,) * 5, rank=2)
        >>> xi = manifold.random_tangent(manifold.random_point(seed=0), seed=0)
        >>> xi.to_tensor().ranks
        (1, 4, 4, 4, 4, 1)
        """
        left, right, _ = self.point._frames
        return TTTensor._of(kernels.assemble_tangent(left, right, self._deltas), self._exponent)
