"""The tangent space at a point of a manifold: projection on it, and retraction from it."""

from dataclasses import dataclass
from types import ModuleType
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from ..data.batch import RankOneBatch
from ..kernels import host
from .derivatives import Derivative, SampleDerivatives
from .scaled_numbers import OUT_OF_RANGE, flat_norm, is_moderate, with_common_exponent
from .scaled_train import ScaledTrain
from .tangent import TangentVector
from .tensor import TTTensor


@final
@dataclass(frozen=True, eq=False)
class TangentSpace:
    """The tangent space at a point, and the kernels to compute with.

    Parameters
    ----------
    point : TTTensor
        Of ranks that its shape allows.
    kernels : module
        The kernel set of a device. It also computes the orthogonal gauges of the point, unless that
        was done before.
    """

    point: TTTensor
    kernels: ModuleType

    @property
    def _gauges(self):
        return self.point.scaled_train.orthogonal_gauges(self.kernels)

    def zero(self) -> TangentVector:
        """The zero vector."""
        left = self._gauges.left
        return TangentVector(self.point, np.zeros(len(left.data), left.data.dtype))

    def random(self, rng: np.random.Generator) -> TangentVector:
        """A vector of norm 1 in a uniformly random direction."""
        left = self._gauges.left
        data = host.fix_gauge(left, rng.standard_normal(len(left.data), left.data.dtype))
        return TangentVector(self.point, data / data.dtype.type(flat_norm(data)))

    def project_point(self) -> TangentVector:
        """The projection of the point itself, which is the point."""
        left, _, exponent = self._gauges
        # All its deltas but the last are zero; that one is the last core, which is not orthogonal.
        data, start = np.zeros(len(left.data), left.data.dtype), left.offsets[-2]
        data[start:] = left.data[start:]
        return TangentVector(self.point, data, exponent)

    def project_tensor(self, Z: TTTensor) -> TangentVector:
        """The projection of a tensor of the same shape, in O(d n r r' (r + r'))."""
        W, (left, right, _) = self.point, self._gauges
        Z = Z.astype(W.dtype).scaled_train
        train, exponent = Z.normalized.train, Z.normalized.exponent
        data = self.kernels.project(left, right, train, 0)
        if is_moderate(data):
            return TangentVector(W, data, exponent)
        # Some entries may have left the range of floats: again, relative to the norm of Z.
        mantissa, total = Z.norm
        if not 0 < mantissa < np.inf:
            return TangentVector(W, data, 0)
        data = self.kernels.project(left, right, train, exponent - total)
        return TangentVector.normalized(W, data, total)

    def project_batch(
        self, batch: RankOneBatch, g: ArrayLike | Derivative, name: str
    ) -> tuple[np.ndarray | None, TangentVector]:
        """The predictions, if g is a function of them, and the projection of ``sum_s g_s X_s``.

        In O(d n r^2 (r + m)). Error messages call g by the name.
        """
        W, (left, right, exponent) = self.point, self._gauges
        m, dtype = len(batch), left.data.dtype
        g = SampleDerivatives(g, m, dtype, exponent, name)
        held, period = batch.held(dtype), batch.gradient_period(dtype)
        data = self.kernels.gradient(left, right, held, m, g.argument, period)
        return g.predictions, TangentVector.normalized(W, data, g.power)

    def retract(self, xi: TangentVector) -> TTTensor:
        """``W + xi``, rounded to the ranks of W, in O(d n r^3)."""
        (left, right, exponent), deltas, shared = self._gauges, xi.flat_deltas, xi.exponent
        if exponent != shared:
            center = left.data[left.offsets[-2] :]
            (_, deltas), shared = with_common_exponent((center, exponent), (deltas, shared))
        # The shared exponent is the larger one, unless one of the two is zero.
        power = max(-OUT_OF_RANGE, min(0, exponent - shared))
        train, rest = self.kernels.retract(left, power, right, deltas)
        return TTTensor.from_train(ScaledTrain(train, shared + rest, is_left_orthogonal=True))
