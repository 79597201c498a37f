"""TangentVector: an element of the tangent space of a manifold of fixed TT-rank."""

import math
import numbers
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import device, trains
from .tensor import TTTensor

kernels = device.get("cpu")
PIECE = 8192


@dataclass(frozen=True, eq=False, repr=False)
class TangentVector:
    """A tangent vector of a manifold at a point, ``sum_k U_1 .. U_{k-1} dG_k V_{k+1} .. V_d``.

    U and V are the left- and right-orthogonal cores of the point; the deltas dG_k obey the gauge
    ``U_k^T dG_k = 0`` for k < d, so that inner products are sums of those of the deltas. Made by
    the methods of `Manifold`. Vectors at the same point can be added, and scaled.

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
    _data: np.ndarray

    __array_ufunc__ = None  # numpy's scalars leave c * xi to this class

    @cached_property
    def deltas(self) -> tuple[np.ndarray, ...]:
        """The deltas dG_k, read-only arrays of shape ``(r0, n, r1)``."""
        train = self.point._frames[0]._replace(data=self._data)
        views = [slots.transpose(1, 0, 2) for slots in trains.to_slots(train)]
        for view in views:
            view.flags.writeable = False
        return tuple(views)

    @property
    def dtype(self) -> np.dtype:
        return self._data.dtype

    def __repr__(self) -> str:
        return f"TangentVector(norm {self.norm():.6g}, at {self.point!r})"

    def __add__(self, other):
        if not isinstance(other, TangentVector):
            return NotImplemented
        return TangentVector(self.point, self._data + self._other(other))

    def __sub__(self, other):
        if not isinstance(other, TangentVector):
            return NotImplemented
        return TangentVector(self.point, self._data - self._other(other))

    def __mul__(self, factor):
        if not isinstance(factor, numbers.Real):
            return NotImplemented
        return TangentVector(self.point, self._data * self.dtype.type(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor):
        if not isinstance(divisor, numbers.Real):
            return NotImplemented
        if divisor == 0:
            raise ZeroDivisionError("A TangentVector cannot be divided by zero.")
        return TangentVector(self.point, self._data / self.dtype.type(divisor))

    def __neg__(self):
        return TangentVector(self.point, -self._data)

    def _other(self, other: "TangentVector") -> np.ndarray:
        if not isinstance(other, TangentVector):
            raise TypeError(f"A TangentVector was wanted, got {type(other).__name__}.")
        if other.point is not self.point:
            raise ValueError(
                "These tangent vectors belong to different points; bring one to the other's point "
                "with Manifold.transport."
            )
        return other._data

    def inner(self, other: "TangentVector") -> float:
        """Return the inner product with another tangent vector at the same point, in O(d n r^2)."""
        (a, e), (b, f) = trains.normalized(self._data), trains.normalized(self._other(other))
        return float(trains.ldexp(_dot(a, b), e + f))

    def norm(self) -> float:
        """Return the norm, in O(d n r^2)."""
        data, exponent = trains.normalized(self._data)
        return float(trains.ldexp(math.sqrt(_dot(data, data)), exponent))

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
        return TTTensor._of(kernels.assemble_tangent(left, right, self._data))


def _dot(a, b):
    """<a, b>, in pieces so short that BLAS does not split them by its number of threads."""
    return sum(a[i : i + PIECE] @ b[i : i + PIECE] for i in range(0, len(a), PIECE))
