"""The manifold of tensors of fixed TT-rank."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np

from . import device, trains
from .batch import RankOneBatch, check_batch
from .device import resolve
from .shapes import (
    check_ranks,
    check_same_shape,
    check_seed,
    check_shape,
    float_array,
    shorten,
)
from .tangent import TangentVector
from .tensor import TTTensor


@dataclass(frozen=True)
class Membership:
    """Whether a tensor is on a manifold (its truth value), and if not, the reason."""

    is_member: bool
    reason: str

    def __bool__(self) -> bool:
        return self.is_member


@dataclass(frozen=True, init=False, repr=False)
class Manifold:
    """Tensors of one shape and one TT-rank: a Riemannian manifold, embedded in all tensors.

    Parameters
    ----------
    shape : sequence of int
    rank : int or sequence of d + 1 int
        Trimmed to what the shape allows, see `ranks`.
    device : {"cpu", "cuda", "auto"}, optional
        Where projections, gradients and retractions are computed. "auto" is "cuda" if there is a
        GPU that can be used, else "cpu". By default "cpu", or what the environment variable
        ``TTEXM_DEVICE`` says.

    Attributes
    ----------
    shape, ranks : tuple of int
        The d mode sizes, and the d + 1 ranks that remained.
    device : {"cpu", "cuda"}

    Notes
    -----
    Points and tangent vectors are on the host, whatever the device: they are small. Batches stay on
    the device; `gradient` gets their predictions from there and gives derivatives back, one number
    a sample each.

    The metric is that of the ambient space, ``<xi, eta>`` the Euclidean inner product. Points are
    `TTTensor` with exactly these ranks; they may be numerically rank-deficient, in which case
    projections are those of the computed orthogonal gauge. See Lubich, Oseledets and Vandereycken,
    "Time integration of tensor trains", 2015, and Steinlechner, "Riemannian optimization for
    high-dimensional tensor completion", 2016.

    Examples
    --------
    >>> from ttexm import Manifold, TTTensor
    >>> manifold = Manifold(shape=(2,) * 160, rank=4)
    >>> manifold
    Manifold(shape=(2,) * 160, ranks=(1, 2, 4, 4, ..., 4, 4, 2, 1), dim 2512)
    >>> W = manifold.random_point(seed=0)
    >>> Z = TTTensor.random(manifold.shape, rank=7, seed=1)
    >>> xi = manifold.project(W, Z / Z.norm())
    >>> W2 = manifold.retract(W, -0.1 * xi)
    >>> W2.ranks == manifold.ranks
    True
    """

    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    device: str = field(compare=False)

    def __init__(self, shape: Sequence[int], rank: int | Sequence[int], device: str | None = None):
        object.__setattr__(self, "shape", check_shape(shape))
        object.__setattr__(self, "ranks", check_ranks(self.shape, rank))
        object.__setattr__(self, "device", resolve(device))

    @property
    def _kernels(self) -> ModuleType:
        return device.get(self.device)

    @property
    def rank(self) -> int:
        """The largest of the ranks."""
        return max(self.ranks)

    @property
    def ndim(self) -> int:
        """Number of modes d."""
        return len(self.shape)

    @property
    def dim(self) -> int:
        """Dimension of the manifold: ``sum r0 n r1`` of the cores less ``r^2`` for each bond."""
        cores = sum(self.ranks[k] * n * self.ranks[k + 1] for k, n in enumerate(self.shape))
        return cores - sum(r * r for r in self.ranks[1:-1])

    def __repr__(self) -> str:
        shape, ranks = shorten(self.shape), shorten(self.ranks)
        where = "" if self.device == "cpu" else f", on {self.device}"
        return f"Manifold(shape={shape}, ranks={ranks}, dim {self.dim}{where})"

    # -- points and tangent vectors ------------------------------------------------------------

    def contains(self, W: TTTensor) -> Membership:
        """Return whether a tensor is on the manifold, in O(d n r^3).

        Returns
        -------
        Membership
            True or False in a condition; its `reason` says what is amiss.

        Examples
        --------
        >>> from ttexm import Manifold, TTTensor
        >>> Manifold((2, 3, 2), rank=2).contains(TTTensor.ones((2, 3, 2)))
        Membership(is_member=False, reason='W must have rank 2 at bond 1, got 1.')
        """
        try:
            self._check_point(W)
            trains.check_finite(W._train, "A point")
        except (TypeError, ValueError) as error:
            return Membership(False, str(error))
        for k, (found, wanted) in enumerate(zip(W.round().ranks, self.ranks, strict=True)):
            if found < wanted:
                return Membership(
                    False,
                    f"W must have rank {wanted} at bond {k}; its cores have, but up to rounding "
                    f"the tensor is of rank {found} there.",
                )
        return Membership(True, "")

    def _check_point(self, W):
        if not isinstance(W, TTTensor):
            raise TypeError(f"A point must be a TTTensor, got {type(W).__name__}.")
        check_same_shape(W.shape, self.shape, "W")
        if W.ranks != self.ranks:
            k = next(k for k in range(len(self.ranks)) if W.ranks[k] != self.ranks[k])
            raise ValueError(f"W must have rank {self.ranks[k]} at bond {k}, got {W.ranks[k]}.")

    def _frames(self, W):
        return W._frames_by(self._kernels)

    def _check_tangent(self, xi):
        if not isinstance(xi, TangentVector):
            raise TypeError(f"A TangentVector was wanted, got {type(xi).__name__}.")
        self._check_point(xi.point)

    def random_point(self, seed=None, dtype=np.float64) -> TTTensor:
        """Return a random point of norm 1, of Gaussian cores, in O(d n r^3).

        Parameters
        ----------
        seed : None, int or numpy.random.Generator
        """
        left, _, _ = TTTensor.random(self.shape, self.ranks, seed, dtype)._frames
        left.data[left.offsets[-2] :] /= trains.size(left.data[left.offsets[-2] :])
        return TTTensor._of(left, is_left=True)

    def random_tangent(self, W: TTTensor, seed=None) -> TangentVector:
        """Return a tangent vector at W of norm 1, in a uniformly random direction. O(d n r^3).

        Parameters
        ----------
        seed : None, int or numpy.random.Generator
        """
        self._check_point(W)
        left, _, _ = self._frames(W)
        data = check_seed(seed).standard_normal(len(left.data), W.dtype)
        data = self._kernels.fix_gauge(left, data)
        return TangentVector(W, data / data.dtype.type(trains.size(data)))

    def zero_tangent(self, W: TTTensor) -> TangentVector:
        """Return the zero vector of the tangent space at W."""
        self._check_point(W)
        return TangentVector(W, np.zeros_like(self._frames(W)[0].data))

    # -- projection ----------------------------------------------------------------------------

    def project(self, W: TTTensor, Z, weights=None) -> TangentVector:
        """Project on the tangent space at W: the tangent vector nearest to Z.

        Parameters
        ----------
        W : TTTensor
            A point of the manifold.
        Z : TTTensor, sequence of TTTensor, or RankOneBatch
            What to project; of several tensors, their weighted sum.
        weights : sequence of float, optional
            One for each of several tensors; by default 1.

        Returns
        -------
        TangentVector
            In O(d n r r' (r + r')) for a tensor of rank r', in O(d n r^2 (r + m)) for m tensors of
            rank 1; those with W's orthogonal gauges, computed once a point.

        Examples
        --------
        >>> from ttexm import Manifold, allclose
        >>> manifold = Manifold(shape=(2,) * 30, rank=3)
        >>> W = manifold.random_point(seed=0)
        >>> allclose(manifold.project(W, W).to_tensor(), W)
        True
        """
        self._check_point(W)
        if isinstance(Z, RankOneBatch):
            weights = np.ones(len(Z)) if weights is None else float_array(weights, "weights")
            return self._project_batch(W, Z, weights, "weights")
        if isinstance(Z, TTTensor):
            if weights is not None:
                raise ValueError("weights are for several tensors; a single one can be scaled.")
            return self._project_tensor(W, Z, "Z")
        if not isinstance(Z, Iterable) or isinstance(Z, np.ndarray):
            raise TypeError(
                "Z must be a TTTensor, a sequence of them or a RankOneBatch, "
                f"got {type(Z).__name__}."
            )
        tensors = list(Z)
        weights = np.ones(len(tensors)) if weights is None else float_array(weights, "weights")
        if weights.shape != (len(tensors),):
            raise ValueError(
                f"weights must be {len(tensors)}, one per tensor, got shape {weights.shape}."
            )
        total = self.zero_tangent(W)
        for j, (tensor, weight) in enumerate(zip(tensors, weights.tolist(), strict=True)):
            total = total + weight * self._project_tensor(W, tensor, f"Z[{j}]")
        return total

    def _project_tensor(self, W, Z, name):
        if not isinstance(Z, TTTensor):
            raise TypeError(
                f"{name} must be a TTTensor (or Z a RankOneBatch), got {type(Z).__name__}."
            )
        check_same_shape(Z.shape, self.shape, name)
        left, right, exponent = self._frames(W)
        if Z is W:
            # P_W(W) = W, and its last delta is all of it: the penalty of every step comes here.
            data = np.zeros_like(left.data)
            data[left.offsets[-2] :] = left.data[left.offsets[-2] :]
            return TangentVector(W, data, exponent)
        Z = Z.astype(W.dtype)
        train, exponent = Z._scaled
        data = self._kernels.project_train(left, right, train, 0)
        if trains.is_moderate(data):
            return TangentVector(W, data, exponent)
        # Beyond the range of floats, or zero, or close to either: relative to the norm it is not.
        mantissa, total = Z._norm
        if not 0 < mantissa < np.inf:
            return TangentVector(W, data, 0)
        data = self._kernels.project_train(left, right, train, exponent - total)
        return TangentVector._of(W, data, total)

    def gradient(self, W: TTTensor, batch: RankOneBatch, g) -> TangentVector:
        """Riemannian gradient of ``sum_s loss_s(<W, X_s>)``: the projection of ``sum_s g_s X_s``.

        Parameters
        ----------
        W : TTTensor
            A point of the manifold.
        batch : RankOneBatch
            The m samples X_s. Those of another device are brought to the manifold's, which copies
            the data the first time only.
        g : array of shape (m,), or callable
            Derivatives of the losses in the predictions f_s = <W, X_s>; or a function that is
            called once, with all of f, and returns them: the forward pass then comes free.

        Returns
        -------
        TangentVector
            In O(d n r^2 (r + m)); categories cost O(d r^2) a sample, whatever n. The same bits for
            any number of threads. W and g may be of any size; it is inf or NaN, and `retract`
            refuses it, if a norm |X_s| does not fit into a float.

        Examples
        --------
        One step of least squares:

        >>> import numpy as np
        >>> from ttexm import Manifold, RankOneBatch
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.standard_normal((500, 10)), rng.standard_normal(500)
        >>> batch, manifold = RankOneBatch.from_columns(X), Manifold((2,) * 10, rank=3)
        >>> W = manifold.random_point(seed=0)
        >>> def loss(W):
        ...     return np.mean((W.contract(batch) - y) ** 2)
        >>> xi = manifold.gradient(W, batch, lambda f: 2 * (f - y) / len(y))
        >>> bool(loss(manifold.retract(W, -1e-3 * xi)) < loss(W))
        True
        """
        self._check_point(W)
        return self._project_batch(W, batch, g, "g")

    def _project_batch(self, W, batch, g, name):
        check_batch(batch, self.shape)
        batch, (left, right, exponent) = batch.to(self.device), self._frames(W)
        held = batch.astype(W.dtype)._held
        g = trains.Derivatives(g, len(batch), W.dtype, exponent, name)
        period = batch.gradient_period(W.dtype)
        data = self._kernels.gradient(left, right, held, len(batch), g.argument, period)
        return TangentVector._of(W, data, g.power)

    # -- moving --------------------------------------------------------------------------------

    def retract(self, W: TTTensor, xi: TangentVector) -> TTTensor:
        """Move from W along a tangent vector: ``W + xi``, rounded back to the manifold's ranks.

        Parameters
        ----------
        W : TTTensor
            The point that `xi` belongs to.
        xi : TangentVector

        Returns
        -------
        TTTensor
            Differs from ``W + xi`` by O(|xi|^2), and by at most ``sqrt(d - 1)`` (up to a factor of
            1.0001) times what the best tensor of these ranks does. O(d n r^3).

        Examples
        --------
        >>> from ttexm import Manifold, allclose
        >>> manifold = Manifold(shape=(2,) * 30, rank=3)
        >>> W = manifold.random_point(seed=0)
        >>> xi = manifold.random_tangent(W, seed=0)
        >>> (manifold.retract(W, 1e-4 * xi) - W - 1e-4 * xi.to_tensor()).norm() < 1e-7
        True
        """
        self._check_tangent(xi)
        if xi.point is not W:
            raise ValueError("xi is a tangent vector of another point than W.")
        if not np.isfinite(xi._deltas).all():
            raise ValueError("xi must be finite, got NaN or inf in its deltas.")
        (left, right, exponent), deltas, shared = self._frames(W), xi._deltas, xi._exponent
        if exponent != shared:
            center = left.data[left.offsets[-2] :]
            shared, (_, deltas) = trains.common((exponent, center), (shared, deltas))
        # The larger of the two has the power 0; below 2^-5000 the point does not count.
        power = max(-5000, min(0, exponent - shared))
        train, rest = self._kernels.retract(left, power, right, deltas)
        return TTTensor._of(train, shared + rest, is_left=True)

    def transport(self, xi: TangentVector, W_new: TTTensor) -> TangentVector:
        """Bring a tangent vector to another point, by projection, in O(d n r^3)."""
        self._check_tangent(xi)
        return self.project(W_new, xi.to_tensor())

    def inner(self, xi: TangentVector, eta: TangentVector) -> float:
        """Return the inner product of two tangent vectors at one point, in O(d n r^2)."""
        self._check_tangent(xi)
        self._check_tangent(eta)
        return xi.inner(eta)

    def norm(self, xi: TangentVector) -> float:
        """Return the norm of a tangent vector, in O(d n r^2)."""
        self._check_tangent(xi)
        return xi.norm()
