"""Optimizers of other libraries on `Manifold`. Importing this module needs pymanopt."""

import math

import numpy as np
from pymanopt.manifolds.manifold import RiemannianSubmanifold

from .checks import check_count, check_seed
from .tt.manifold import Manifold
from .tt.tangent import TangentVector
from .tt.tensor import TTTensor


class PymanoptManifold(RiemannianSubmanifold):
    """A `Manifold` for pymanopt's first-order optimizers and diagnostics.

    Points are TTTensor, tangent vectors TangentVector. A Euclidean gradient is whatever
    `Manifold.project` takes: a TTTensor, or a tuple such as ``(batch, weights)``. All methods are
    those of pymanopt's ``RiemannianSubmanifold``.

    Parameters
    ----------
    manifold : Manifold
    seed : None, int or numpy.random.Generator
        For random points and tangent vectors.
    n_steps : int
        Number of retractions by which `exp` follows a geodesic.

    Examples
    --------
    The tensor of rank 2 nearest to one of rank 4, by conjugate gradients:

    >>> import pymanopt
    >>> from ttexm import Manifold, TTTensor
    >>> from ttexm.interop import PymanoptManifold
    >>> Z = TTTensor.random((4, 4, 4), rank=4, seed=0)
    >>> manifold = PymanoptManifold(Manifold(Z.shape, rank=2), seed=0)
    >>> @pymanopt.function.numpy(manifold)
    ... def cost(W):
    ...     return 0.5 * (W - Z).norm() ** 2
    >>> @pymanopt.function.numpy(manifold)
    ... def gradient(W):
    ...     return W - Z
    >>> problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)
    >>> found = pymanopt.optimizers.ConjugateGradient(verbosity=0).run(problem).point
    >>> (found - Z).norm() <= (Z.round(rank=2) - Z).norm()
    True
    """

    def __init__(
        self,
        manifold: Manifold,
        seed: int | np.random.Generator | None = None,
        n_steps: int = 8,
    ):
        if not isinstance(manifold, Manifold):
            raise TypeError(f"manifold must be a ttexm.Manifold, got {type(manifold).__name__}.")
        check_count("n_steps", n_steps)
        super().__init__(name=repr(manifold), dimension=manifold.dim)
        self.manifold = manifold
        self._rng = check_seed(seed)
        self._n_steps = n_steps

    def inner_product(
        self, point: TTTensor, tangent_vector_a: TangentVector, tangent_vector_b: TangentVector
    ) -> float:
        """Return the inner product of two tangent vectors, in O(d n r^2)."""
        return tangent_vector_a.inner(tangent_vector_b)

    def norm(self, point: TTTensor, tangent_vector: TangentVector) -> float:
        """Return the norm of a tangent vector, in O(d n r^2)."""
        return tangent_vector.norm()

    def projection(self, point: TTTensor, vector: TTTensor | tuple) -> TangentVector:
        """Project on the tangent space; a tuple holds the arguments of `Manifold.project`."""
        arguments = vector if isinstance(vector, tuple) else (vector,)
        return self.manifold.project(point, *arguments)

    def to_tangent_space(self, point: TTTensor, vector: TangentVector) -> TangentVector:
        """Project a tangent vector of any point on the tangent space at this one."""
        return self.manifold.project(point, vector.to_tensor())

    def random_point(self) -> TTTensor:
        """Return a random point of norm 1."""
        return self.manifold.random_point(self._rng)

    def random_tangent_vector(self, point: TTTensor) -> TangentVector:
        """Return a random tangent vector of norm 1."""
        return self.manifold.random_tangent(point, self._rng)

    def zero_vector(self, point: TTTensor) -> TangentVector:
        """Return the zero vector of the tangent space at a point."""
        return self.manifold.zero_tangent(point)

    def retraction(self, point: TTTensor, tangent_vector: TangentVector) -> TTTensor:
        """Move from a point along a tangent vector, in O(d n r^3)."""
        return self.manifold.retract(point, tangent_vector)

    def transport(
        self, point_a: TTTensor, point_b: TTTensor, tangent_vector_a: TangentVector
    ) -> TangentVector:
        """Bring a tangent vector at one point to another, by projection, in O(d n r^3)."""
        return self.manifold.transport(tangent_vector_a, point_b)

    def dist(self, point_a: TTTensor, point_b: TTTensor) -> float:
        """Return the distance in the ambient space: the geodesic distance, to second order."""
        return (point_a - point_b).norm()

    def embedding(self, point: TTTensor, tangent_vector: TangentVector) -> TTTensor:
        """Return a tangent vector as an element of the ambient space."""
        return tangent_vector.to_tensor()

    def exp(self, point: TTTensor, tangent_vector: TangentVector) -> TTTensor:
        """Follow a geodesic, approximately: this manifold has no closed form for it.

        Takes `n_steps` retractions along the velocity, which is transported by projection and keeps
        its length. The error is ``O(|xi|^3 / n_steps)``: enough to check a retraction, but not to
        measure distances.
        """
        velocity = tangent_vector / self._n_steps
        length = velocity.log_norm()
        for _ in range(self._n_steps):
            point = self.manifold.retract(point, velocity)
            velocity = self.manifold.transport(velocity, point)
            if velocity.log_norm() > -math.inf:
                velocity = math.exp(length - velocity.log_norm()) * velocity
        return point
