"""Contraction of a train with the rank-1 tensors of a batch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import final

import numpy as np

from ..data.batch import RankOneBatch, check_batch
from ..kernels import backend, host
from ..kernels.layout import Train
from .scaled_numbers import ldexp, log_abs

_period_for = cache(host.check_period)  # contraction of one row takes 5 us in all


@final
@dataclass(frozen=True, eq=False)
class ContractionPlan:
    """``2^exponent`` times a train, and what can be known before a batch comes.

    Parameters
    ----------
    train : Train
    exponent : int
    identity : array of shape (d,), bool
        Cores that are in the identity gauge, ``G_k[0] = 1``.
    """

    train: Train
    exponent: int
    identity: np.ndarray

    @cached_property
    def growth(self) -> tuple[int, int]:
        """`growth_per_core` of the train."""
        return growth_per_core(self.train)

    @cached_property
    def with_open_mode(self) -> "ContractionPlan":
        """The plan for batches without the last mode: its core is one matrix (r, K)."""
        data, ranks, sizes, offsets = self.train[:4]
        last = data[offsets[-2] :].reshape(sizes[-1], ranks[-2])
        data = np.concatenate([data[: offsets[-2]], last.T.reshape(-1)])
        ranks = np.append(ranks[:-1], sizes[-1])
        train = host.make_train(data, ranks, np.append(sizes[:-1], 1))
        return ContractionPlan(train, self.exponent, self.identity)

    @cached_property
    def _last_on_knots(self) -> list:
        """The tables that were last asked for, and the plan on their knots."""
        return []

    def on_knots(self, tables: Sequence[np.ndarray | None]) -> "ContractionPlan":
        """The plan for places on knots in the place of functions of them, P: <W, P psi>.

        The last one is kept: a model predicts with the same tables each time.

        Parameters
        ----------
        tables : sequence of arrays P (knots, n), or None for modes that are no curves
        """
        for known, plan in self._last_on_knots:
            if known is tables:
                return plan
        plan = self._make_on_knots(tables)
        self._last_on_knots[:] = [(tables, plan)]
        return plan

    def _make_on_knots(self, tables):
        data, ranks, sizes, offsets = self.train[:4]
        cores, sizes, identity = [], sizes.copy(), self.identity.copy()
        for k, n in enumerate(sizes):
            core = data[offsets[k] : offsets[k + 1]]
            if k < len(tables) and tables[k] is not None:
                core = (tables[k].astype(data.dtype) @ core.reshape(n, -1)).reshape(-1)
                sizes[k], identity[k] = len(tables[k]), False
            cores.append(core)
        train = host.make_train(np.concatenate(cores), ranks, sizes)
        return ContractionPlan(train, self.exponent, identity)

    def products(self, batch: RankOneBatch) -> tuple[np.ndarray, np.ndarray]:
        """``<W, X_s>`` for each sample, as mantissas and exponents.

        Both are arrays (m,). With an open mode of size K the mantissas are (m, K) and the exponents
        (m, 1).
        """
        held = batch.stored(self.train.data.dtype)
        period = range_check_period(self.train, self.growth, batch)
        kernels = backend.get(batch.device)
        mantissas, exponents = kernels.contract(self.train, self.identity, held, len(batch), period)
        if self.exponent != 0:
            exponents += self.exponent
        return mantissas, (exponents if mantissas.ndim == 1 else exponents[:, None])


def growth_per_core(train: Train) -> tuple[int, int]:
    """Powers of two by which one core can raise, and lower, partial products with ones."""
    high, low = host.extent(train.data)
    terms = int((train.sizes * train.ranks[:-1]).max()).bit_length()
    return high + terms, -low


def range_check_period(train: Train, growth: tuple[int, int], batch: RankOneBatch) -> int:
    """Number of cores between two checks of the range of partial products."""
    (up, down), (high, low) = growth, batch.extent
    return _period_for(train.data.dtype, max(up + high, down - low))


class Contractible(ABC):
    """What can be contracted with batches: a `TTTensor`, or its compiled form."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Sizes of the d modes."""

    @abstractmethod
    def _plan_for(self, dtype: np.dtype) -> ContractionPlan:
        """How to contract batches of a precision."""

    def contract(self, batch: RankOneBatch, device: str | None = None) -> np.ndarray:
        """Return ``<W, X_s>`` for each rank-1 tensor of a batch.

        Costs O(d n r^2) per sample, O(d r^2) for categorical modes, on several threads. Products
        are kept within range on the way; only a result that is itself too large becomes inf.

        Parameters
        ----------
        batch : RankOneBatch
            The m tensors X_s, of the shape of W; or without its last mode, which then stays open.
            Several outputs are such a mode. They share one sweep over the other modes, so that K of
            them cost O(r K) per sample more than one.
        device : {"cpu", "cuda", "auto"}, optional
            Where to compute; by default where the batch is. ``batch.to(device)`` copies the data
            there, the first time only.

        Returns
        -------
        array of shape (m,), or (m, K) if the last mode, of size K, stays open
            On the host.

        Examples
        --------
        >>> from ttexm import RankOneBatch, TTTensor
        >>> W = TTTensor.ones((2, 2, 2))
        >>> W.contract(RankOneBatch.from_columns([[1.0, 2.0, 3.0]]))  # (1 + 1)(1 + 2)(1 + 3)
        array([24.])
        >>> W.contract(RankOneBatch.from_columns([[1.0, 2.0]]))  # (1 + 1)(1 + 2) twice
        array([[6., 6.]])
        """
        return ldexp(*self._products(batch, device))

    def log_contract(
        self, batch: RankOneBatch, device: str | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return signs and logarithms of the magnitudes of ``<W, X_s>``, whatever their size.

        Parameters
        ----------
        batch : RankOneBatch
        device : {"cpu", "cuda", "auto"}, optional
            As for `contract`.

        Returns
        -------
        signs, logs : arrays of the shape that `contract` gives

        Examples
        --------
        >>> import numpy as np
        >>> from ttexm import RankOneBatch, TTTensor
        >>> batch = RankOneBatch.from_columns(np.ones((1, 5000)))
        >>> TTTensor.ones((2,) * 5000).log_contract(batch)
        (array([1.]), array([3465.7359028]))
        """
        mantissas, exponents = self._products(batch, device)
        return np.sign(mantissas), log_abs(mantissas, exponents)

    def _products(self, batch, device):
        is_open = _leaves_last_mode_open(batch, self.shape)
        batch = batch if device is None else batch.to(device)
        plan = self._plan_for(batch.dtype)
        plan = plan.with_open_mode if is_open else plan
        if batch.has_tables:
            if batch.dtype == plan.train.data.dtype:
                plan, batch = plan.on_knots(batch.modes.tables), batch.on_knots()
            else:
                batch = batch.written_out()
        return plan.products(batch)


def _leaves_last_mode_open(batch, shape):
    """Whether the batch lacks the last mode; raises if it fits neither with nor without it."""
    d = len(shape)
    if d > 1 and isinstance(batch, RankOneBatch) and batch.ndim != d:
        if batch.ndim != d - 1:
            raise ValueError(
                f"The batch must have {d} modes, or {d - 1} to leave the last one open, "
                f"got {batch.ndim}."
            )
        check_batch(batch, shape[:-1])
        return True
    check_batch(batch, shape)
    return False
