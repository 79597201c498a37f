"""Manifold: the tensors of fixed TT-rank, with projection, gradient and retraction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..checks import check_ranks, check_same_shape, check_seed, check_shape, float_array, shorten
from ..data.batch import RankOneBatch, check_batch
from ..kernels import backend
from .derivatives import Derivative, DifferentiableLoss, derivative_of
from .scaled_numbers import flat_norm
from .scaled_train import ScaledTrain
from .tangent import TangentVector
from .tangent_space import TangentSpace
from .tensor import TTTensor


@final
@dataclass(frozen=True)
class Membership:
    """Whether a tensor is on a manifold, which is its truth value, and why not.

    Attributes
    ----------
    is_member : bool
    reason : str
        Empty for a member.

    Examples
    --------
    >>> from ttexm import Manifold, TTTensor
    >>> "yes" if Manifold((2, 3), rank=1).contains(TTTensor.ones((2, 3))) else "no"
    'yes'
    """

    is_member: bool
    reason: str

    def __bool__(self) -> bool:
        return self.is_member


@final
class Manifold:
    """The tensors of one shape and one TT-rank: a manifold embedded in the space of all tensors.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the d modes.
    rank : int or sequence of d + 1 int
        Trimmed to what the shape allows, see `ranks`.
    device : {"cpu", "cuda", "auto"}, optional
        Where projections, gradients and retractions are computed. "auto" is "cuda" if there is a
        usable GPU, else "cpu". The default is the value of the environment variable
        ``TTEXM_DEVICE``, or "cpu".

    Notes
    -----
    Immutable; manifolds of the same shape and ranks are equal, whatever their device.

    Points and tangent vectors are on the host, whatever the device: they are small. Batches stay on
    the device; what `gradient` moves between the two is one prediction and one derivative per
    sample.

    The metric is that of the ambient space, the Euclidean inner product. Points are `TTTensor` with
    exactly these ranks. They may be numerically rank-deficient; the tangent space is then the one
    that belongs to the computed orthogonal gauges. See Lubich, Oseledets and Vandereycken, "Time
    integration of tensor trains", 2015, and Steinlechner, "Riemannian optimization for
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

    __slots__ = ("_device", "_kernels", "_ranks", "_shape")

    def __init__(self, shape: Sequence[int], rank: int | Sequence[int], device: str | None = None):
        self._shape = check_shape(shape)
        self._ranks = check_ranks(self._shape, rank)
        self._device = backend.resolve(device)
        self._kernels = backend.get(self._device)

    def __reduce__(self):
        return Manifold, (self.shape, self.ranks, self.device)

    def __eq__(self, other) -> bool:
        if not isinstance(other, Manifold):
            return NotImplemented
        return (self.shape, self.ranks) == (other.shape, other.ranks)

    def __hash__(self) -> int:
        return hash((self.shape, self.ranks))

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the d modes."""
        return self._shape

    @property
    def ranks(self) -> tuple[int, ...]:
        """The d + 1 ranks, trimmed to what the shape allows."""
        return self._ranks

    @property
    def device(self) -> str:
        """Where projections, gradients and retractions are computed: "cpu" or "cuda"."""
        return self._device

    @property
    def ndim(self) -> int:
        """Number of modes d."""
        return len(self._shape)

    @property
    def rank(self) -> int:
        """The largest of the ranks."""
        return max(self._ranks)

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

        Parameters
        ----------
        W : TTTensor

        Returns
        -------
        Membership
            True or False in a condition; its `reason` says why W is not on the manifold.

        Examples
        --------
        >>> from ttexm import Manifold, TTTensor
        >>> Manifold((2, 3, 2), rank=2).contains(TTTensor.ones((2, 3, 2)))
        Membership(is_member=False, reason='W must have rank 2 at bond 1, got 1.')
        """
        try:
            self._check_point(W)
            W.scaled_train.check_finite("A point")
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
        check_same_shape(W.shape, self._shape, "W")
        if W.ranks != self._ranks:
            k = next(k for k in range(len(self.ranks)) if W.ranks[k] != self.ranks[k])
            raise ValueError(f"W must have rank {self.ranks[k]} at bond {k}, got {W.ranks[k]}.")

    def _check_tangent(self, xi):
        if not isinstance(xi, TangentVector):
            raise TypeError(f"A TangentVector was wanted, got {type(xi).__name__}.")
        self._check_point(xi.point)

    def _tangent_space(self, W):
        self._check_point(W)
        return TangentSpace(W, self._kernels)

    def random_point(
        self, seed: int | np.random.Generator | None = None, dtype: DTypeLike = np.float64
    ) -> TTTensor:
        """Return a random point of norm 1, of Gaussian cores, in O(d n r^3).

        Parameters
        ----------
        seed : None, int or numpy.random.Generator
        dtype : float64 or float32

        Returns
        -------
        TTTensor
            The same on every device.

        Examples
        --------
        >>> from ttexm import Manifold
        >>> abs(Manifold((2,) * 30, rank=3).random_point(seed=0).norm() - 1) < 1e-14
        True
        """
        W = TTTensor.random(self.shape, self.ranks, seed, dtype)
        left = W.scaled_train.orthogonal_gauges().left
        data = left.data.copy()
        center = data[left.offsets[-2] :]
        center /= flat_norm(center)
        return TTTensor.from_train(ScaledTrain(left._replace(data=data), is_left_orthogonal=True))

    def random_tangent(
        self, W: TTTensor, seed: int | np.random.Generator | None = None
    ) -> TangentVector:
        """Return a tangent vector at W of norm 1, in a uniformly random direction. O(d n r^3).

        Parameters
        ----------
        W : TTTensor
            A point of the manifold.
        seed : None, int or numpy.random.Generator

        Returns
        -------
        TangentVector

        Examples
        --------
        >>> from ttexm import Manifold
        >>> manifold = Manifold((2,) * 30, rank=3)
        >>> xi = manifold.random_tangent(manifold.random_point(seed=0), seed=1)
        >>> abs(xi.norm() - 1) < 1e-14
        True
        """
        return self._tangent_space(W).random(check_seed(seed))

    def zero_tangent(self, W: TTTensor) -> TangentVector:
        """Return the zero vector of the tangent space at W.

        Parameters
        ----------
        W : TTTensor
            A point of the manifold.

        Returns
        -------
        TangentVector

        Examples
        --------
        >>> from ttexm import Manifold
        >>> manifold = Manifold((2,) * 30, rank=3)
        >>> manifold.zero_tangent(manifold.random_point(seed=0)).norm()
        0.0
        """
        return self._tangent_space(W).zero()

    # -- projection ----------------------------------------------------------------------------

    def project(
        self,
        W: TTTensor,
        Z: TTTensor | Iterable[TTTensor] | RankOneBatch,
        weights: ArrayLike | None = None,
    ) -> TangentVector:
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
            rank 1. This includes the orthogonal gauges of W, which are computed once per point.

        Examples
        --------
        >>> from ttexm import Manifold, allclose
        >>> manifold = Manifold(shape=(2,) * 30, rank=3)
        >>> W = manifold.random_point(seed=0)
        >>> allclose(manifold.project(W, W).to_tensor(), W)
        True
        """
        space = self._tangent_space(W)
        if isinstance(Z, RankOneBatch):
            weights = np.ones(len(Z)) if weights is None else float_array(weights, "weights")
            return self._project_batch(space, Z, weights, "weights")[1]
        if isinstance(Z, TTTensor):
            if weights is not None:
                raise ValueError("weights are for several tensors; a single one can be scaled.")
            return self._project_tensor(space, Z, "Z")
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
        total = space.zero()
        for j, (tensor, weight) in enumerate(zip(tensors, weights.tolist(), strict=True)):
            total = total + weight * self._project_tensor(space, tensor, f"Z[{j}]")
        return total

    def _project_tensor(self, space, Z, name):
        if not isinstance(Z, TTTensor):
            raise TypeError(
                f"{name} must be a TTTensor (or Z a RankOneBatch), got {type(Z).__name__}."
            )
        check_same_shape(Z.shape, self._shape, name)
        return space.project_point() if Z is space.point else space.project_tensor(Z)

    def _project_batch(self, space, batch, g, name):
        check_batch(batch, self._shape)
        batch = batch if batch.device == self._device else batch.to(self._device)
        return space.project_batch(batch, g, name)

    def gradient(
        self,
        W: TTTensor,
        batch: RankOneBatch,
        g: ArrayLike | Derivative,
    ) -> TangentVector:
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
            called once, with all of f, and returns them. The predictions cost nothing extra.

        Returns
        -------
        TangentVector
            In O(d n r^2 (r + m)); categories cost O(d r^2) per sample, whatever n. The same bits
            for any number of threads. W and g may be of any size; only if a norm ``|X_s|`` does not
            fit into a float is the result inf or NaN, and `retract` refuses it.

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
        return self._project_batch(self._tangent_space(W), batch, g, "g")[1]

    def value_and_gradient(
        self, W: TTTensor, batch: RankOneBatch, loss: Derivative | DifferentiableLoss
    ) -> tuple[np.ndarray, TangentVector]:
        """Return the predictions ``<W, X_s>`` and `gradient`, in one pass through the samples.

        Parameters
        ----------
        W : TTTensor
            A point of the manifold.
        batch : RankOneBatch
            The m samples X_s, as for `gradient`.
        loss : callable, or object with a method ``derivative(f)``
            Gives the derivatives of the losses in all predictions f, an array of shape (m,).
            `ttexm.learn.Objective` is such an object.

        Returns
        -------
        f : array of shape (m,)
            The predictions.
        xi : TangentVector
            The Riemannian gradient, at the cost of `gradient` alone.

        Examples
        --------
        Least squares, whose value needs no pass of its own:

        >>> import numpy as np
        >>> from ttexm import Manifold, RankOneBatch
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.standard_normal((500, 10)), rng.standard_normal(500)
        >>> batch, manifold = RankOneBatch.from_columns(X), Manifold((2,) * 10, rank=3)
        >>> W, values = manifold.random_point(seed=0), []
        >>> for _ in range(3):
        ...     f, xi = manifold.value_and_gradient(W, batch, lambda f: 2 * (f - y) / len(y))
        ...     values.append(np.mean((f - y) ** 2))
        ...     W = manifold.retract(W, -1e-3 * xi)
        >>> bool(values[0] > values[1] > values[2])
        True
        """
        space, derivative = self._tangent_space(W), derivative_of(loss)
        # The loss gets a copy, as it may work in place.
        return self._project_batch(space, batch, lambda f: derivative(f.copy()), "The derivative")

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
            Differs from ``W + xi`` by ``O(|xi|^2)``, and by at most ``sqrt(d - 1)`` (up to a factor
            of 1.0001) times what the best tensor of these ranks does. O(d n r^3).

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
        if not np.isfinite(xi.flat_deltas).all():
            raise ValueError("xi must be finite, got NaN or inf in its deltas.")
        return TangentSpace(W, self._kernels).retract(xi)

    def transport(self, xi: TangentVector, W_new: TTTensor) -> TangentVector:
        """Bring a tangent vector to another point, by projection, in O(d n r^3).

        Parameters
        ----------
        xi : TangentVector
        W_new : TTTensor
            A point of the manifold.

        Returns
        -------
        TangentVector
            At W_new.

        Examples
        --------
        >>> from ttexm import Manifold
        >>> manifold = Manifold(shape=(2,) * 30, rank=3)
        >>> W, W_new = manifold.random_point(seed=0), manifold.random_point(seed=1)
        >>> manifold.transport(manifold.random_tangent(W, seed=2), W_new).point is W_new
        True
        """
        self._check_tangent(xi)
        return self.project(W_new, xi.to_tensor())

    def inner(self, xi: TangentVector, eta: TangentVector) -> float:
        """Return the inner product of two tangent vectors at one point, in O(d n r^2).

        Parameters
        ----------
        xi, eta : TangentVector

        Returns
        -------
        float
            The same as ``xi.inner(eta)``.

        Examples
        --------
        >>> from ttexm import Manifold
        >>> manifold = Manifold((2,) * 30, rank=3)
        >>> xi = manifold.random_tangent(manifold.random_point(seed=0), seed=1)
        >>> abs(manifold.inner(xi, -2 * xi) + 2) < 1e-14
        True
        """
        self._check_tangent(xi)
        self._check_tangent(eta)
        return xi.inner(eta)

    def norm(self, xi: TangentVector) -> float:
        """Return the norm of a tangent vector, ``xi.norm()``, in O(d n r^2).

        Parameters
        ----------
        xi : TangentVector

        Returns
        -------
        float

        Examples
        --------
        >>> from ttexm import Manifold
        >>> manifold = Manifold((2,) * 30, rank=3)
        >>> xi = manifold.random_tangent(manifold.random_point(seed=0), seed=1)
        >>> abs(manifold.norm(-3 * xi) - 3) < 1e-14
        True
        """
        self._check_tangent(xi)
        return xi.norm()
