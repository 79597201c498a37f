"""TTTensor: an immutable tensor in tensor-train format, and its algebra."""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np

from . import construct, device, trains
from .batch import RankOneBatch, check_batch
from .compiled import CompiledTensor
from .drawing import draw_train
from .indexing import collapse, parse_key, parse_rows, scaled_product
from .kernels.layout import Train
from .protocols import apply_function, apply_ufunc, refuse_array, refuse_masked_arrays
from .shapes import (
    check_at_least,
    check_dtype,
    check_ranks,
    check_real,
    check_same_shape,
    float_array,
    is_integer,
    is_real,
    shorten,
)

MAX_SIZE = 2**27  # entries that `full` writes out unasked: 1 GiB of float64

FROM_DENSE = "; use TTTensor.from_dense on the array"
# What to use instead of numpy's functions.
COUNTERPARTS = {
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


@dataclass(frozen=True, eq=False, init=False, repr=False)
class TTTensor:
    """A tensor of d modes, ``W[i_1, .., i_d] = G_1[i_1] .. G_d[i_d]``, by its d cores.

    Immutable; ``==`` is identity, see `allclose`. All operations work on the cores, in time linear
    in d; only `full` writes entries out. float32 is promoted to float64 as in numpy. The algebra of
    tensors runs on the CPU, whatever the device; contraction runs where the batch is.

    Parameters
    ----------
    cores : sequence of d arrays of shape (r0, n, r1)
        Adjacent ranks must agree, the outermost ones be 1. Integers become float64.

    Notes
    -----
    A power of two is kept apart from the cores, so that no operation over- or underflows: tensors
    of norm 2^-5000 are added, multiplied, rounded and contracted as any others. Only plain numbers
    (`full`, an entry, `norm`, `inner`, `contract`, `cores`) become inf, with numpy's own
    RuntimeWarning, or 0 where they do not fit; `log_norm`, `log_inner` and `log_contract` always
    have a value. Accuracy is relative to the largest entries: those that are 2^-400 times smaller
    (2^-50 in float32) may be lost.

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

    _train: Train
    _exponent: int  # the tensor is 2^exponent times the train
    _is_left: bool  # the train is left-orthogonal

    def __init__(self, cores: Sequence[np.ndarray]):
        if isinstance(cores, np.ndarray) or not isinstance(cores, Sequence):
            raise TypeError(f"cores must be a list of arrays, got {type(cores).__name__}.")
        if not cores:
            raise ValueError("A tensor train needs at least one core, got none.")
        arrays = [float_array(core, f"cores[{k}]") for k, core in enumerate(cores)]
        for k, core in enumerate(arrays):
            if core.ndim != 3 or 0 in core.shape:
                raise ValueError(
                    f"cores[{k}] must be of shape (r0, n, r1), all at least 1, got {core.shape}."
                )
        for k in range(len(arrays) - 1):
            left, right = arrays[k].shape[2], arrays[k + 1].shape[0]
            if left != right:
                raise ValueError(
                    f"cores[{k}] and cores[{k + 1}] do not fit together: "
                    f"right rank {left} against left rank {right}."
                )
        for side, rank in (("left", arrays[0].shape[0]), ("right", arrays[-1].shape[2])):
            if rank != 1:
                raise ValueError(f"The {side}most rank must be 1, got {rank}.")
        dtype = np.result_type(*arrays)
        slots = [core.transpose(1, 0, 2).astype(dtype, copy=False) for core in arrays]
        vars(self).update(_train=trains.from_slots(slots), _exponent=0, _is_left=False)

    @classmethod
    def _of(cls, train: Train, exponent: int = 0, is_left: bool = False) -> "TTTensor":
        """2^exponent times a train, without checks; is_left: it is left-orthogonal."""
        self = object.__new__(cls)
        vars(self).update(_train=train, _exponent=exponent, _is_left=is_left)
        return self

    def __reduce__(self):
        return _restore, (*self._train[:3], self._exponent)

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return apply_ufunc(self, ufunc, method, inputs, keywords, COUNTERPARTS, self._way_out)

    def __array_function__(self, function, types, arguments, keywords):
        return apply_function(self, function, arguments, COUNTERPARTS, self._way_out)

    _data = property(refuse_masked_arrays)

    @property
    def _way_out(self) -> str:
        return f"W.full(), which writes out all {self._entries} entries"

    # -- construction --------------------------------------------------------------------------

    random = classmethod(construct.random)
    zeros = classmethod(construct.zeros)
    ones = classmethod(construct.ones)
    rank_one = classmethod(construct.rank_one)
    from_dense = classmethod(construct.from_dense)
    cross = classmethod(construct.cross)

    # -- what it is ----------------------------------------------------------------------------

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the d modes."""
        return tuple(self._train.sizes.tolist())

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The d + 1 ranks, the outermost ones 1."""
        return tuple(self._train.ranks.tolist())

    @property
    def rank(self) -> int:
        """The largest of the ranks."""
        return max(self.ranks)

    @property
    def ndim(self) -> int:
        """Number of modes d."""
        return len(self._train.sizes)

    @cached_property
    def size(self) -> int:
        """Number of entries, exact."""
        return math.prod(self.shape)

    @property
    def n_params(self) -> int:
        """Number of numbers in the cores."""
        return len(self._train.data)

    @property
    def dtype(self) -> np.dtype:
        """float64 or float32."""
        return self._train.data.dtype

    @cached_property
    def cores(self) -> tuple[np.ndarray, ...]:
        """The cores, read-only arrays of shape ``(r0, n, r1)``.

        They hold plain numbers. A power of two that was kept apart is in the last core, or spread
        over all if it does not fit there; if it does not fit even so, cores are inf or 0.
        """
        return tuple(_read_only(slots.transpose(1, 0, 2)) for slots in trains.to_slots(self._plain))

    @cached_property
    def _plain(self) -> Train:
        """The train without a power of two apart."""
        train = trains.absorb(self._train, self._exponent)
        return trains.spread(*self._scaled) if train is None else train

    def to_cores(self) -> list[np.ndarray]:
        """Return copies of the cores, ``(r0, n, r1)``: the format of most TT libraries.

        Lists of such cores are what ttpy, t3f, torchTT, tntorch, teneva and tensorly work with;
        ``TTTensor(cores)`` is the way back.
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
        """Write all entries out.

        Parameters
        ----------
        max_size : int
            More entries than this are refused.

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
                f"The full tensor of shape {shorten(self.shape)} has {self._entries} entries, more "
                f"than max_size={max_size}; index it, or raise max_size if it fits in memory."
            )
        train, exponent = self._scaled
        rows = np.ones((1, 1), self.dtype)
        for slots in trains.to_slots(train):
            n, r0, r1 = slots.shape
            rows, power = scaled_product(rows, slots.transpose(1, 0, 2).reshape(r0, n * r1))
            rows, exponent = rows.reshape(-1, r1), exponent + power
        return trains.ldexp(rows.reshape(self.shape), exponent)

    @property
    def _entries(self) -> str:
        """Their number, for people."""
        return str(self.size) if self.size < 10**9 else f"10^{math.log10(self.size):.1f}"

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        if copy is False:
            raise ValueError("A TTTensor is no array: copy=False cannot be had.")
        return self.full().astype(dtype or self.dtype, copy=False)

    def __getitem__(self, key):
        """Return entries, or the tensor with modes fixed or sliced.

        ``W[1, 0, 2]`` is an entry; ``W[1, :, 2:4]`` and ``W[..., 0]`` are tensors, with the fixed
        modes gone; ``W[indices]`` for an integer array of shape (m, d) gathers m entries.
        Negative indices count from the end. O(d r^2) an entry, O(d n r^2) otherwise.
        """
        if isinstance(key, (np.ndarray, list)):
            rows = parse_rows(key, self.shape)
            return self.contract(RankOneBatch.from_indices(rows, self.shape, self.dtype))
        items = parse_key(key, self.shape)
        if all(isinstance(item, int) for item in items):
            return self[np.array([items])][0]
        # Slots that are not asked for may be far larger, and scaling by them would lose the others;
        # at rank 1 there are no sums that need it.
        train, exponent = self._scaled if self.rank > 1 else (self._train, self._exponent)
        return self._collapse(train, exponent, lambda slots, k: slots[items[k]])

    def sum(self, axis=None):
        """Sum the entries, over all modes or some of them, in O(d n r^2).

        Parameters
        ----------
        axis : None, int or sequence of int
            The modes to sum over, each once.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> TTTensor.ones((2,) * 160).sum() == 2.0**160
        np.True_
        """
        if axis is None:
            axes = range(self.ndim)
        else:
            is_several = isinstance(axis, Sequence) or (isinstance(axis, np.ndarray) and axis.ndim)
            axes = axis if is_several else [axis]
        gone = set()
        for k in axes:
            if not is_integer(k) or not -self.ndim <= k < self.ndim:
                raise ValueError(f"axis must be among the {self.ndim} modes, got {k!r}.")
            if k % self.ndim in gone:
                raise ValueError(f"axis must have each mode once, got mode {k % self.ndim} twice.")
            gone.add(int(k) % self.ndim)
        return self._collapse(
            *self._scaled, lambda slots, k: slots.sum(axis=0) if k in gone else slots
        )

    def _collapse(self, train, exponent, part):
        """The tensor of the cores part(slots, k); what is a matrix goes into its neighbours."""
        parts = [part(slots, k) for k, slots in enumerate(trains.to_slots(train))]
        cores, power = collapse(parts)
        if all(part.ndim == 2 for part in parts):
            return trains.ldexp(cores[0], exponent + power)[0, 0, 0]
        return TTTensor._of(trains.from_slots(cores), exponent + power)

    # -- algebra -------------------------------------------------------------------------------

    def __add__(self, other):
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other):
        return self._plus(other, -1)

    def __rsub__(self, other):
        return (-self)._plus(other, 1)

    def _plus(self, other, sign):
        factor = as_scalar(other)
        if factor is not None:
            other = factor * TTTensor.ones(self.shape, self.dtype)
        elif not isinstance(other, TTTensor):
            return refuse_array(self, other, FROM_DENSE)
        (left, e), (right, f) = (tensor._scaled for tensor in self._matched(other))
        if e == f:
            return TTTensor._of(device.get("cpu").add(left, 1, right, sign), e)
        left, right, exponent = trains.align(left, e, right, f)
        # Blocks that differ vastly in size may yet have products that do not.
        train, power = trains.tame(device.get("cpu").add(left, 1, right, sign), is_uneven=True)
        return TTTensor._of(train, exponent + power)

    def __mul__(self, other):
        if isinstance(other, TTTensor):
            (left, e), (right, f) = (tensor._scaled for tensor in self._matched(other))
            (left, p), (right, q) = trains.level(left), trains.level(right)
            return TTTensor._of(device.get("cpu").hadamard(left, right), e + f + p + q)
        factor = as_scalar(other)
        if factor is None:
            return refuse_array(self, other, FROM_DENSE)
        return self._times(*trains.frexp(factor))

    __rmul__ = __mul__

    def __truediv__(self, other):
        divisor = as_scalar(other)
        if divisor is None:
            return refuse_array(self, other, FROM_DENSE)
        if divisor == 0:
            raise ZeroDivisionError("A TTTensor cannot be divided by zero.")
        mantissa, exponent = trains.frexp(divisor)
        return self._times(1 / mantissa, -exponent)

    def _times(self, mantissa, exponent):
        train, power = trains.scale(self._train, mantissa, exponent)
        return TTTensor._of(train, self._exponent + power)

    def __neg__(self):
        return self * -1

    def _matched(self, other: "TTTensor") -> tuple["TTTensor", "TTTensor"]:
        """Both tensors, of one dtype, after a check that the shapes agree."""
        if not isinstance(other, TTTensor):
            raise TypeError(f"A TTTensor was wanted, got {type(other).__name__}.")
        check_same_shape(other.shape, self.shape, "The other tensor")
        dtype = np.result_type(self.dtype, other.dtype)
        return self.astype(dtype), other.astype(dtype)

    def astype(self, dtype) -> "TTTensor":
        """Return the tensor in another precision, or itself if it has that one."""
        dtype = check_dtype(dtype)
        if dtype == self.dtype:
            return self
        train, exponent = self._train, self._exponent
        if dtype == np.float32:
            # It has a smaller range: powers of two go where they fit.
            train, power = trains.tame(train, dtype)
            exponent += power
        return TTTensor._of(train._replace(data=train.data.astype(dtype)), exponent)

    # -- products and norms --------------------------------------------------------------------

    @cached_property
    def _scaled(self) -> tuple[Train, int]:
        """The train with cores of moderate size, and the power of two that it lacks."""
        train, power = trains.tame(self._train)
        return train, self._exponent + power

    def inner(self, other: "TTTensor") -> float:
        """Return the inner product ``<W, Z>``, the sum of ``W * Z``, in O(d n r^3).

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> W = TTTensor.random(shape=(3,) * 50, rank=5, seed=1)
        >>> bool(abs(W.inner(W) / W.norm() ** 2 - 1) < 1e-12)
        True
        """
        return float(trains.ldexp(*self._inner(other)))

    def log_inner(self, other: "TTTensor") -> tuple[float, float]:
        """Return the sign of ``<W, Z>`` and the logarithm of its magnitude, whatever its size.

        Examples
        --------
        >>> from ttexm import TTTensor
        >>> W = TTTensor.ones((2,) * 5000)
        >>> W.log_inner(-W)  # -2^5000, which is no float
        (-1.0, 3465.735...)
        """
        mantissa, exponent = self._inner(other)
        return float(np.sign(mantissa)), float(trains.log_abs(mantissa, exponent))

    def _inner(self, other):
        (left, e), (right, f) = (tensor._scaled for tensor in self._matched(other))
        mantissa, exponent = device.get("cpu").inner_product(left, right)
        return mantissa, exponent + e + f

    def norm(self) -> float:
        """Return the Frobenius norm, in O(d n r^3).

        Accurate to rounding of the largest cancelling terms, not of their squares:
        ``(W - Z).norm()`` is good to ``1e-15 |W|``, where ``sqrt(<W - Z, W - Z>)`` stops at 1e-8.
        """
        return float(trains.ldexp(*self._norm))

    def log_norm(self) -> float:
        """Return the logarithm of the norm, whatever its size; ``-inf`` for the zero tensor."""
        return float(trains.log_abs(*self._norm))

    @cached_property
    def _norm(self) -> tuple[float, int]:
        train, exponent = self._scaled
        mantissa, power = trains.norm(train)
        return mantissa, power + exponent

    # -- gauges and ranks ----------------------------------------------------------------------

    def round(self, rank=None, eps: float | None = None) -> "TTTensor":
        """Lower the ranks by TT-SVD, in O(d n r^3).

        Parameters
        ----------
        rank : int or sequence of d + 1 int, optional
            Ranks that are not to be exceeded.
        eps : float, optional
            Relative error that may be made; by default what rounding errors make anyway.

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
        trains.check_finite(self._train, "round")
        most = check_ranks(self.shape, self.rank if rank is None else rank)
        eps = trains.relative_eps(0.0 if eps is None else eps, self.dtype, self.ndim)
        train, exponent = self._scaled
        train, power = trains.round(train, most, eps)
        return TTTensor._of(train, exponent + power)

    def orthogonalize(self, center: int = -1) -> "TTTensor":
        """Return the tensor with orthogonal cores around a center, in O(d n r^3).

        Cores before `center` are left-orthogonal, those after it right-orthogonal, so the center
        core has the tensor's norm. Ranks that exceed what the shape allows are lowered. A norm that
        is no float is kept apart as a power of two, which `cores` spreads over all cores.

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
        trains.check_finite(self._train, "orthogonalize")
        (train, exponent), center = self._scaled, int(center) % d
        train, power = trains.orthogonalize(train, center)
        return TTTensor._of(*trains.absorb_at(train, exponent + power, center))

    @cached_property
    def _frames(self) -> tuple[Train, Train, int]:
        """Both orthogonal gauges and the power of two they lack: all projections here share them.

        Only for ranks that the shape allows, as those of a manifold are.
        """
        return self._orthogonal_gauges(device.get("cpu"))

    def _frames_by(self, kernels: ModuleType) -> tuple[Train, Train, int]:
        """`_frames`, computed by a kernel set, if nobody has asked for them yet."""
        if "_frames" not in vars(self):
            vars(self)["_frames"] = self._orthogonal_gauges(kernels)
        return self._frames

    def _orthogonal_gauges(self, kernels):
        high, low = trains.check_finite(self._train, "A tangent space")
        # Sweeps take powers of two out of products of cores, not out of the cores themselves.
        is_moderate = max(high, -low) < trains.SQUARED / 2 * np.finfo(self.dtype).maxexp
        train, exponent = self._train, self._exponent
        if not (self._is_left or is_moderate):
            train, exponent = self._scaled
            train, power = trains.for_sweeps(train)
            exponent += power
        left, right, power = kernels.both_gauges(train, self._is_left)
        center = left.data[left.offsets[-2] :]
        center[:], rest = trains.normalized(center)
        return left, right, exponent + power + rest

    # -- contraction ---------------------------------------------------------------------------

    def contract(self, batch: RankOneBatch, device: str | None = None) -> np.ndarray:
        """Return ``<W, X_s>`` for each rank-1 tensor of a batch.

        Costs O(d n r^2) a sample, O(d r^2) for categorical modes, on several threads. Products are
        kept within range on the way; only a result that is itself too large becomes inf.

        Parameters
        ----------
        batch : RankOneBatch
            The m tensors X_s.
        device : {"cpu", "cuda", "auto"}, optional
            Where to compute: by default where the batch is, else as by ``batch.to(device)``, which
            copies the data the first time only.

        Returns
        -------
        array of shape (m,)
            On the host.

        Examples
        --------
        >>> from ttexm import RankOneBatch, TTTensor
        >>> W = TTTensor.ones((2, 2, 2))
        >>> W.contract(RankOneBatch.from_columns([[1.0, 2.0, 3.0]]))  # (1 + 1)(1 + 2)(1 + 3)
        array([24.])
        """
        return trains.ldexp(*self._contract(batch, device))

    def log_contract(
        self, batch: RankOneBatch, device: str | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return signs and logarithms of the magnitudes of ``<W, X_s>``, whatever their size.

        Parameters are those of `contract`.

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm import RankOneBatch, TTTensor
        >>> batch = RankOneBatch.from_columns(np.ones((1, 5000)))
        >>> TTTensor.ones((2,) * 5000).log_contract(batch)
        (array([1.]), array([3465.7359028]))
        """
        mantissas, exponents = self._contract(batch, device)
        return np.sign(mantissas), trains.log_abs(mantissas, exponents)

    def _contract(self, batch, device):
        check_batch(batch, self.shape)
        batch = batch if device is None else batch.to(device)
        W = self.astype(np.result_type(self.dtype, batch.dtype))
        (train, exponent), dense = W._scaled, np.zeros(self.ndim, np.bool_)
        return trains.contract(train, exponent, dense, W._growth, batch)

    def core_gradient(self, batch: RankOneBatch, g) -> list[np.ndarray]:
        """Derivatives of ``sum_s loss_s(<W, X_s>)`` in the cores: not Riemannian, but plain.

        Parameters
        ----------
        batch : RankOneBatch
            The m samples X_s; the work is done on its device.
        g : array of shape (m,), or callable
            Derivatives of the losses in the predictions f_s = <W, X_s>; or a function that is
            called once, with all of f, and returns them.

        Returns
        -------
        list of d arrays of shape (r0, n, r1)
            In O(d n r^2) a sample, O(d r^2) for categorical modes. They depend on the cores, not
            on the tensor alone; `Manifold.gradient` is free of that.

        Examples
        --------
        >>> from ttexm import RankOneBatch, TTTensor
        >>> W = TTTensor.ones((2, 2))
        >>> W.core_gradient(RankOneBatch.from_columns([[3.0, 5.0]]), [1.0])[0]  # (1, 3) (1 + 5)
        array([[[ 6.],
                [18.]]])
        """
        check_batch(batch, self.shape)
        data = trains.core_gradient(self._plain, batch, g)
        slots = trains.to_slots(self._train._replace(data=data))
        return [np.ascontiguousarray(part.transpose(1, 0, 2)) for part in slots]

    @cached_property
    def _growth(self) -> trains.Growth:
        return trains.growth(self._scaled[0])

    def compile(self) -> CompiledTensor:
        """Prepare the tensor for many contractions, in O(d n r^3); they then take half the time.

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
        trains.check_finite(self._train, "compile")
        return CompiledTensor._of(*self._scaled)


def allclose(W: TTTensor, Z: TTTensor, rtol: float = 1e-9, atol: float = 0.0) -> bool:
    """Return whether ``|W - Z| <= atol + rtol |Z|`` in the Frobenius norm, in O(d n r^3).

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


def _restore(data, ranks, sizes, exponent=0):
    return TTTensor._of(device.get("cpu").make_train(data, ranks, sizes), exponent)


def _read_only(array):
    array.flags.writeable = False
    return array


def as_scalar(x) -> numbers.Real | None:
    """A real number, or the one in an array without dimensions; None for all else."""
    if isinstance(x, np.ndarray) and x.ndim == 0 and not np.ma.is_masked(x):
        x = x[()]
    return x if is_real(x) else None
