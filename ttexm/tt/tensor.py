"""TTTensor: an immutable tensor in tensor-train format, and its algebra."""

import math
from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..checks import (
    check_at_least,
    check_dtype,
    check_ranks,
    check_real,
    check_same_shape,
    check_truncation,
    is_integer,
    shorten,
)
from ..data.batch import RankOneBatch
from . import construction, derivatives
from .arithmetic import VectorArithmetic
from .compiled import CompiledTensor
from .contraction import Contractible
from .core_arrays import from_slots
from .drawing import draw_train
from .indexing import map_slots, parse_axes, parse_key, parse_rows
from .scaled_numbers import as_scalar
from .scaled_train import ScaledTrain

MAX_SIZE = 2**27  # entries that `full` writes out by default at most: 1 GiB of float64


@final
class TTTensor(VectorArithmetic, Contractible):
    """A tensor in tensor-train format, given by its d cores.

    Its entries are ``W[i_1, .., i_d] = G_1[i_1] .. G_d[i_d]``.

    Immutable; ``==`` is identity, see `allclose`. All operations work on the cores, in time linear
    in d; only `full` writes entries out. float32 is promoted to float64 as in numpy. The algebra of
    tensors runs on the CPU; contraction runs on the device of the batch.

    Parameters
    ----------
    cores : sequence of d arrays of shape (r0, n, r1)
        Adjacent ranks must agree, and the outermost ones be 1. Integers become float64.

    Notes
    -----
    A power of two is kept apart from the cores, so that no operation over- or underflows: tensors
    of norm 2^-5000 are added, multiplied, rounded and contracted like any others. Only plain
    numbers (`full`, an entry, `norm`, `inner`, `contract`, `cores`) that do not fit into a float
    become 0, or inf with numpy's own RuntimeWarning; `log_norm`, `log_inner` and `log_contract`
    always have a value. Accuracy is relative to the largest entries: those that are 2^-400 times
    smaller (2^-50 in float32) may be lost.

    Examples
    --------
    >>> from ttexm import TTTensor
    >>> W = TTTensor.random(shape=(2,) * 160, rank=4, seed=0)
    >>> W
    TTTensor(shape=(2,) * 160, ranks=(1, 2, 4, 4, ..., 4, 4, 2, 1), 5032 parameters, float64)
    >>> W.size == 2**160
    True
    >>> (W + W).round().ranks == W.ranks
    True
    """

    __slots__ = ("__weakref__", "_scaled_train")

    _array_advice = "; use TTTensor.from_dense on the array"
    _counterparts: ClassVar[dict] = {
        np.sum: "W.sum()",
        np.mean: "W.sum() / W.size",
        np.average: "W.sum() / W.size",
        np.linalg.norm: "W.norm()",
        np.dot: "W.inner(Z)",
        np.vdot: "W.inner(Z)",
        np.inner: "W.inner(Z)",
        np.tensordot: "W.inner(Z), or W.contract(batch)",
        np.einsum: "W.inner(Z), or W.contract(batch)",
        np.matmul: "W.inner(Z), or W.contract(batch)",
        np.allclose: "ttexm.allclose(W, Z)",
        np.isclose: "ttexm.allclose(W, Z)",
        np.array_equal: "ttexm.allclose(W, Z)",
        np.array_equiv: "ttexm.allclose(W, Z)",
        np.round: "W.round() to lower the ranks; entries cannot be rounded",
        np.around: "W.round() to lower the ranks; entries cannot be rounded",
        np.square: "W * W",
        np.take: "W[indices]",
        np.copy: "W itself, which is immutable, or W.full()",
    }

    def __new__(cls, cores: Sequence[ArrayLike]) -> "TTTensor":
        return cls.from_train(ScaledTrain(from_slots(construction.check_cores(cores))))

    @classmethod
    def from_train(cls, scaled_train: ScaledTrain) -> "TTTensor":
        """Make a tensor of a train and a power of two, without checks and without a copy.

        Parameters
        ----------
        scaled_train : ScaledTrain

        Returns
        -------
        TTTensor

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> W = TTTensor.ones((2, 3))
        >>> float(TTTensor.from_train(W.scaled_train).sum())
        6.0
        """
        self = object.__new__(cls)
        self._scaled_train = scaled_train
        return self

    def __reduce__(self):
        return TTTensor.from_train, (self._scaled_train,)

    random = classmethod(construction.random)
    zeros = classmethod(construction.zeros)
    ones = classmethod(construction.ones)
    rank_one = classmethod(construction.rank_one)
    from_dense = classmethod(construction.from_dense)
    cross = classmethod(construction.cross)

    # -- what it is ----------------------------------------------------------------------------

    @property
    def scaled_train(self) -> ScaledTrain:
        """The cores in one buffer, as kernels take them, and the power of two: read-only."""
        return self._scaled_train

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the d modes."""
        return self._scaled_train.shape

    @property
    def ranks(self) -> tuple[int, ...]:
        """The d + 1 ranks, the outermost ones 1."""
        return self._scaled_train.ranks

    @property
    def rank(self) -> int:
        """The largest of the ranks."""
        return max(self.ranks)

    @property
    def ndim(self) -> int:
        """Number of modes d."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries, exact."""
        return self._scaled_train.size

    @property
    def n_params(self) -> int:
        """Number of entries of the cores."""
        return len(self._scaled_train.train.data)

    @property
    def dtype(self) -> np.dtype:
        """float64 or float32."""
        return self._scaled_train.dtype

    @property
    def cores(self) -> tuple[np.ndarray, ...]:
        """The cores, read-only arrays of shape ``(r0, n, r1)``.

        They hold plain numbers. The power of two that is kept apart is multiplied into the last
        core, or spread over all if it does not fit there. If it does not fit even so, cores are
        inf or 0.
        """
        return self._scaled_train.cores

    def to_cores(self) -> list[np.ndarray]:
        """Return copies of the cores, ``(r0, n, r1)``: the format of most TT libraries.

        Returns
        -------
        list of d arrays
            As ttpy, t3f, torchTT, tntorch, teneva and tensorly take them; ``TTTensor(cores)`` is
            the way back.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> [core.shape for core in TTTensor.random((3, 4, 5), rank=2, seed=0).to_cores()]
        [(1, 3, 2), (2, 4, 2), (2, 5, 1)]
        """
        return [np.array(core, order="C") for core in self.cores]

    def __repr__(self) -> str:
        return (
            f"TTTensor(shape={shorten(self.shape)}, ranks={shorten(self.ranks)}, "
            f"{self.n_params} parameters, {self.dtype})"
        )

    def _repr_html_(self) -> str:
        return draw_train(self.shape, self.ranks, repr(self))

    # -- entries -------------------------------------------------------------------------------

    def full(self, max_size: int = MAX_SIZE) -> np.ndarray:
        """Write all entries out, in O(size r).

        Parameters
        ----------
        max_size : int
            More entries than this are refused.

        Returns
        -------
        array of the tensor's shape

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> TTTensor.ones((2, 3)).full()
        array([[1., 1., 1.],
               [1., 1., 1.]])
        """
        check_real("max_size", max_size)
        if not self.size <= max_size:
            raise ValueError(
                f"The full tensor of shape {shorten(self.shape)} has {self._n_entries} entries, "
                f"more than max_size={max_size}; index it, or raise max_size if it fits in memory."
            )
        return self._scaled_train.full()

    @property
    def _n_entries(self) -> str:
        """The size, short enough for a message."""
        return str(self.size) if self.size < 10**9 else f"10^{math.log10(self.size):.1f}"

    @property
    def _way_out(self) -> str:
        return f"W.full(), which writes out all {self._n_entries} entries"

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                "copy=False is not possible: the entries of a TTTensor have to be computed."
            )
        return self.full().astype(dtype or self.dtype, copy=False)

    def __getitem__(self, key) -> "TTTensor | np.ndarray | np.floating":
        """Return entries, or the tensor with modes fixed or sliced.

        Parameters
        ----------
        key : integers, slices and at most one ellipsis; or integer array of shape (m, d)
            Negative indices count from the end.

        Returns
        -------
        number, TTTensor or array of shape (m,)
            ``W[1, 0, 2]`` is an entry; ``W[1, :, 2:4]`` and ``W[..., 0]`` are tensors without the
            modes that are fixed; ``W[indices]`` for an integer array gathers one entry per row.
            O(d r^2) per entry, O(d n r^2) for a tensor.

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm import TTTensor
        >>> W = TTTensor.rank_one([[1.0, 2.0], [3.0, 4.0, 5.0]])
        >>> W[1, :].full()
        array([ 6.,  8., 10.])
        >>> W[np.array([[0, 0], [1, -1]])]
        array([ 3., 10.])
        """
        if isinstance(key, (np.ndarray, list)):
            rows = parse_rows(key, self.shape)
            return self.contract(RankOneBatch.from_indices(rows, self.shape, self.dtype))
        items = parse_key(key, self.shape)
        if all(isinstance(item, int) for item in items):
            return self[np.array([items])][0]
        # Slots that are left out may be so large that normalizing by them loses the others. At
        # rank 1 there are no sums that could overflow, so it is not needed.
        scaled = self._scaled_train.normalized if self.rank > 1 else self._scaled_train
        found = map_slots(lambda slots, k: slots[items[k]], scaled)
        return TTTensor.from_train(found)

    def sum(self, axis: int | Sequence[int] | None = None) -> "TTTensor | np.floating":
        """Sum the entries, over all modes or some of them, in O(d n r^2).

        Parameters
        ----------
        axis : None, int or sequence of int
            The modes to sum over, each once; by default all.

        Returns
        -------
        float or TTTensor
            A tensor of the modes that are left, if there are any.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> bool(TTTensor.ones((2,) * 160).sum() == 2.0**160)
        True
        """
        axes = parse_axes(axis, self.ndim)
        found = map_slots(
            lambda slots, k: slots.sum(axis=0) if k in axes else slots,
            self._scaled_train.normalized,
        )
        return TTTensor.from_train(found) if isinstance(found, ScaledTrain) else found

    # -- algebra -------------------------------------------------------------------------------

    def __radd__(self, other):
        return self._plus(other, 1)

    def __rsub__(self, other):
        return (-self) + other

    def _plus(self, other, sign):
        number = as_scalar(other)
        if number is not None:
            other = number * TTTensor.ones(self.shape, self.dtype)
        elif not isinstance(other, TTTensor):
            return self._refuse(other)
        left, right = self._matched(other)
        return TTTensor.from_train(left.plus(right, sign))

    def __mul__(self, other):
        if not isinstance(other, TTTensor):
            return super().__mul__(other)
        left, right = self._matched(other)
        return TTTensor.from_train(left.hadamard(right))

    def _times(self, mantissa, exponent):
        return TTTensor.from_train(self._scaled_train.times(mantissa, exponent))

    def _matched(self, other):
        """The trains of both tensors in one precision, after a check that their shapes agree."""
        if not isinstance(other, TTTensor):
            raise TypeError(f"A TTTensor was wanted, got {type(other).__name__}.")
        check_same_shape(other.shape, self.shape, "The other tensor")
        if self.dtype == other.dtype:
            return self._scaled_train, other.scaled_train
        dtype = np.result_type(self.dtype, other.dtype)
        return self.astype(dtype).scaled_train, other.astype(dtype).scaled_train

    def astype(self, dtype: DTypeLike) -> "TTTensor":
        """Return the tensor in another precision, or itself if it has that one.

        Parameters
        ----------
        dtype : float64 or float32

        Returns
        -------
        TTTensor

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> TTTensor.ones((2, 3)).astype("float32").dtype
        dtype('float32')
        """
        dtype = check_dtype(dtype)
        if dtype == self.dtype:
            return self
        return TTTensor.from_train(self._scaled_train.astype(dtype))

    def _scaled_inner(self, other):
        left, right = self._matched(other)
        return left.inner(right)

    def _scaled_norm(self):
        return self._scaled_train.norm

    # -- gauges and ranks ----------------------------------------------------------------------

    def round(
        self, rank: int | Sequence[int] | None = None, eps: float | None = None
    ) -> "TTTensor":
        """Lower the ranks by TT-SVD, in O(d n r^3).

        Parameters
        ----------
        rank : int or sequence of d + 1 int, optional
            Ranks that are not to be exceeded.
        eps : float, optional
            Relative error that is allowed; by default that of rounding.

        Returns
        -------
        TTTensor
            Z with ``|W - Z| <= eps |W|``, up to rounding, if `rank` leaves room for it; else within
            ``sqrt(d - 1)`` times the error of the best tensor of these ranks.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> W = TTTensor.random(shape=(4,) * 10, rank=3, seed=0)
        >>> (W + W - 0.5 * W).round(eps=1e-12).ranks == W.ranks
        True
        """
        self._scaled_train.check_finite("round")
        most = check_ranks(self.shape, self.rank if rank is None else rank)
        eps = check_truncation(0.0 if eps is None else eps, self.dtype, self.ndim)
        return TTTensor.from_train(self._scaled_train.round(most, eps))

    def orthogonalize(self, center: int = -1) -> "TTTensor":
        """Return the tensor with orthogonal cores around a center, in O(d n r^3).

        Parameters
        ----------
        center : int
            The core that is not made orthogonal; negative ones count from the end.

        Returns
        -------
        TTTensor
            Cores before the center are left-orthogonal, those after it right-orthogonal, so the
            center core has the tensor's norm. Ranks that exceed what the shape allows are lowered.
            A norm that is no float is kept apart as a power of two, which `cores` spreads over all
            cores.

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm import TTTensor
        >>> W = TTTensor.random(shape=(4,) * 10, rank=3, seed=0).orthogonalize(center=6)
        >>> bool(np.isclose(np.linalg.norm(W.cores[6]), W.norm()))
        True
        """
        d = self.ndim
        if not is_integer(center) or not -d <= center < d:
            raise ValueError(
                f"center must be one of the {d} modes, from 0 to {d - 1}, got {center!r}."
            )
        self._scaled_train.check_finite("orthogonalize")
        return TTTensor.from_train(self._scaled_train.orthogonalize(int(center) % d))

    # -- contraction ---------------------------------------------------------------------------

    core_gradient = derivatives.core_gradient
    value_and_core_gradient = derivatives.value_and_core_gradient

    def _plan_for(self, dtype):
        if dtype == self.dtype:
            return self._scaled_train.contraction_plan
        return self.astype(np.result_type(self.dtype, dtype)).scaled_train.contraction_plan

    def compile(self) -> CompiledTensor:
        """Prepare the tensor for many contractions, in O(d n r^3); they then take half the time.

        Returns
        -------
        CompiledTensor

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm import RankOneBatch, TTTensor
        >>> W = TTTensor.random(shape=(2,) * 30, rank=8, seed=0)
        >>> batch = RankOneBatch.from_columns(np.random.default_rng(0).standard_normal((1000, 30)))
        >>> fast = W.compile()
        >>> bool(np.allclose(fast.contract(batch), W.contract(batch)))
        True
        """
        self._scaled_train.check_finite("compile")
        return CompiledTensor(self._scaled_train.compile())


def allclose(W: TTTensor, Z: TTTensor, rtol: float = 1e-9, atol: float = 0.0) -> bool:
    """Return whether ``|W - Z| <= atol + rtol |Z|`` in the Frobenius norm, in O(d n r^3).

    Parameters
    ----------
    W, Z : TTTensor
        Tensors of one shape.
    rtol, atol : float
        Relative and absolute tolerance.

    Returns
    -------
    bool

    Examples
    --------
    >>> from ttexm import TTTensor, allclose
    >>> W = TTTensor.random(shape=(2,) * 100, rank=3, seed=0)
    >>> allclose(2 * W, W + W)
    True
    """
    for name, tensor in (("W", W), ("Z", Z)):
        if not isinstance(tensor, TTTensor):
            raise TypeError(f"{name} must be a TTTensor, got {type(tensor).__name__}.")
    check_at_least("rtol", rtol, 0)
    check_at_least("atol", atol, 0)
    with np.errstate(divide="ignore"):
        allowed = np.logaddexp(np.log(float(atol)), np.log(float(rtol)) + Z.log_norm())
    return bool((W - Z).log_norm() <= allowed)
