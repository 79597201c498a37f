"""Other libraries' optimizers on our manifold; importing this module needs pymanopt."""

import math

from pymanopt.manifolds.manifold import RiemannianSubmanifold

from .manifold import Manifold
from .shapes import check_count, check_seed
from .tangent import TangentVector
from .tensor import TTTensor


class PymanoptManifold(RiemannianSubmanifold):
    """A `Manifold` as pymanopt sees it: for its first-order optimizers and its diagnostics.

    Points are TTTensor, tangent vectors TangentVector. A Euclidean gradient is whatever
    `Manifold.project` takes: a TTTensor, or a tuple such as ``(batch, weights)``.

    Parameters
    ----------
    manifold : Manifold
    seed : None, int or numpy.random.Generator
        For random points and tangent vectors.
    n_steps : int
        Steps in which `exp` follows a geodesic.

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

    def __init__(self, manifold: Manifold, seed=None, n_steps: int = 8):
        if not isinstance(manifold, Manifold):
            raise TypeError(f"manifold must be a ttexm.Manifold, got {type(manifold).__name__}.")
        check_count("n_steps", n_steps)
        super().__init__(name=repr(manifold), dimension=manifold.dim)
        self.manifold = manifold
        self._rng = check_seed(seed)
        self._n_steps = n_steps

    def inner_product(self, point, tangent_vector_a, tangent_vector_b) -> float:
        return tangent_vector_a.inner(tangent_vector_b)

    def norm(self, point, tangent_vector) -> float:
        return tangent_vector.norm()

    def projection(self, point: TTTensor, vector) -> TangentVector:
        arguments = vector if isinstance(vector, tuple) else (vector,)
        return self.manifold.project(point, *arguments)

    def to_tangent_space(self, point, vector: TangentVector) -> TangentVector:
        return self.manifold.project(point, vector.to_tensor())

    def random_point(self) -> TTTensor:
        return self.manifold.random_point(self._rng)

    def random_tangent_vector(self, point) -> TangentVector:
        return self.manifold.random_tangent(point, self._rng)

    def zero_vector(self, point) -> TangentVector:
        return self.manifold.zero_tangent(point)

    def retraction(self, point, tangent_vector) -> TTTensor:
        return self.manifold.retract(point, tangent_vector)

    def transport(self, point_a, point_b, tangent_vector_a) -> TangentVector:
        return self.manifold.transport(tangent_vector_a, point_b)

    def dist(self, point_a: TTTensor, point_b: TTTensor) -> float:
        """Distance in the ambient space, which is that of the geodesics to second order."""
        return (point_a - point_b).norm()

    def embedding(self, point, tangent_vector: TangentVector) -> TTTensor:
        return tangent_vector.to_tensor()

    def exp(self, point: TTTensor, tangent_vector: TangentVector) -> TTTensor:
        """Follow the geodesic in `n_steps` steps: there is no closed form on this manifold.

        The velocity keeps its length and is transported by projection. The error falls as
        ``|xi|^3 / n_steps``: good to check a retraction against, not to measure with.
        """
        velocity = tangent_vector / self._n_steps
        length = velocity.log_norm()
        for _ in range(self._n_steps):
            point = self.manifold.retract(point, velocity)
            velocity = self.manifold.transport(velocity, point)
            if velocity.log_norm() > -math.inf:
                velocity = math.exp(length - velocity.log_norm()) * velocity
        return point
