"""TangentVector: an element of the tangent space of a manifold of fixed TT-rank."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from ..kernels import host
from .arithmetic import VectorArithmetic
from .core_arrays import read_only_cores
from .scaled_numbers import flat_dot, flat_norm, ldexp, normalize, with_common_exponent
from .scaled_train import ScaledTrain
from .tensor import TTTensor


@final
@dataclass(frozen=True, eq=False, repr=False)
class TangentVector(VectorArithmetic):
    """A tangent vector of a manifold at a point.

    It is the tensor ``sum_k U_1 .. U_{k-1} dG_k V_{k+1} .. V_d``. U and V are the left- and
    right-orthogonal cores of the point. The deltas dG_k obey the gauge condition
    ``U_k^T dG_k = 0`` for k < d, so that inner products of tangent vectors are sums of those of
    their deltas. The methods of `Manifold` make tangent vectors; those at the same point can be
    added, and scaled.

    A power of two is kept apart, as in `TTTensor`, so that no operation over- or underflows. Only
    plain numbers (`deltas`, `norm`, `inner`) that do not fit into a float become 0, or inf with a
    RuntimeWarning; `log_norm` and `log_inner` always have a value.

    Attributes
    ----------
    point : TTTensor
        The point of the manifold.
    flat_deltas : array
        All deltas in one buffer, laid out like the data of a train, without the power of two.
    exponent : int
        The deltas are ``2^exponent`` times `flat_deltas`.

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
    flat_deltas: np.ndarray
    exponent: int = 0

    _counterparts: ClassVar[dict] = {
        np.linalg.norm: "xi.norm()",
        np.dot: "xi.inner(eta)",
        np.vdot: "xi.inner(eta)",
        np.inner: "xi.inner(eta)",
    }
    _way_out = "xi.to_tensor(), or its deltas"

    @classmethod
    def normalized(cls, point: TTTensor, data: np.ndarray, exponent: int = 0) -> "TangentVector":
        """Make a vector of deltas ``2^exponent data`` of any size, with squares in range."""
        data, power = normalize(data)
        return cls(point, data, exponent + power)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(f"A TangentVector cannot be made an array: use {self._way_out}.")

    @cached_property
    def deltas(self) -> tuple[np.ndarray, ...]:
        """The deltas dG_k, read-only arrays of shape ``(r0, n, r1)``."""
        data = ldexp(self.flat_deltas, self.exponent)
        return read_only_cores(self.point.scaled_train.train._replace(data=data))

    @property
    def dtype(self) -> np.dtype:
        """float64 or float32."""
        return self.flat_deltas.dtype

    def __repr__(self) -> str:
        log = self.log_norm()
        size = f"{self.norm():.6g}" if not 700 < abs(log) < math.inf else f"exp({log:.6g})"
        return f"TangentVector(norm {size}, at {self.point!r})"

    def _plus(self, other, sign):
        if not isinstance(other, TangentVector):
            return self._refuse(other)
        self._check_same_point(other)
        left, right, exponent = self.flat_deltas, other.flat_deltas, self.exponent
        if exponent != other.exponent:
            (left, right), exponent = with_common_exponent(
                (left, exponent), (right, other.exponent)
            )
        data = left + right if sign > 0 else left - right
        return TangentVector.normalized(self.point, data, exponent)

    def _times(self, mantissa, exponent):
        if abs(exponent) < 32:  # the usual case, in which the power can stay in the deltas
            mantissa, exponent = math.ldexp(mantissa, exponent), 0
        data = self.flat_deltas * self.dtype.type(mantissa)
        return TangentVector.normalized(self.point, data, self.exponent + exponent)

    def __neg__(self):
        return TangentVector(self.point, -self.flat_deltas, self.exponent)

    def _check_same_point(self, other):
        if not isinstance(other, TangentVector):
            raise TypeError(f"A TangentVector was wanted, got {type(other).__name__}.")
        if other.point is not self.point:
            raise ValueError(
                "These tangent vectors belong to different points; bring one to the other's point "
                "with Manifold.transport."
            )

    def _scaled_inner(self, other):
        self._check_same_point(other)
        product = flat_dot(self.flat_deltas, other.flat_deltas)
        return product, self.exponent + other.exponent

    def _scaled_norm(self):
        return flat_norm(self.flat_deltas), self.exponent

    def to_tensor(self) -> TTTensor:
        """Return the vector as an element of the ambient space, in O(d n r^2).

        Returns
        -------
        TTTensor
            Of ranks at most 2 r.

        Examples
        --------
        >>> from ttexm import Manifold
        >>> manifold = Manifold(shape=(3,) * 5, rank=2)
        >>> xi = manifold.random_tangent(manifold.random_point(seed=0), seed=0)
        >>> xi.to_tensor().ranks
        (1, 4, 4, 4, 4, 1)
        """
        gauges = self.point.scaled_train.orthogonal_gauges()
        train = host.assemble_tangent(gauges.left, gauges.right, self.flat_deltas)
        return TTTensor.from_train(ScaledTrain(train, self.exponent))
