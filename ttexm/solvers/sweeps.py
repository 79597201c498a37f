"""Sweeps: one core, or a pair of neighbours, at a time, in the orthogonal gauge.

With all other cores orthogonal the prediction is linear in the center core C, |W| = |C|, and the
local objective is as convex as the loss: truncated Newton-CG solves it, without a learning rate; of
few samples, dense linear algebra does, as there a truncated solution amplifies the noise of
rounding. A pair of cores is solved as one, then split by an SVD, which finds the rank of the bond
between them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import device
from ..batch import RankOneBatch
from ..kernels import site, workspace
from ..kernels.dense import householder_scratch
from ..kernels.layout import CATEGORY, INDEX
from ..objective import Objective
from ..tensor import TTTensor
from .base import Run, Solver

LARGEST_LOG_NORM = 700  # of a start: the center core has it, as plain numbers
FEW_SAMPLES = 256  # up to which local problems are solved exactly


@dataclass(frozen=True)
class Settings:
    """How hard each local problem is tried."""

    newton_steps: int = 1
    cg_steps: int = 4
    cg_tolerance: float = 0.05


@dataclass(frozen=True)
class Sweeps(Solver):
    """Sweeps over the cores; an iteration is one to the right and back.

    Parameters
    ----------
    sites : {1, 2}
        Cores that are solved for at a time. With two, ranks adapt.
    max_rank : int, optional
        Of a bond, with two sites; by default the rank of the start.
    eps : float
        Share of a pair's norm below which a singular value is dropped, with two sites.
    settings : Settings
    dtype : dtype, optional
        Of the partial products; by default that of the batch.
    """

    sites: int = 1
    max_rank: int | None = None
    eps: float = 0.0
    settings: Settings = Settings()
    dtype: type | None = None

    def start(self, W, batch, objective, rng=None):
        run = Sweep(W, batch, objective, self.settings, self.dtype)
        run.plan = self
        return run


class Sweep(Run):
    """A tensor on its way: cores around a center, and the partial products of all samples.

    Parameters
    ----------
    W : TTTensor
        Where to start.
    batch : RankOneBatch
        The partial products are computed, and stay, on its device.
    objective : Objective
    settings : Settings
    dtype : dtype
        Of the partial products; cores are float64.
    """

    def __init__(self, W: TTTensor, batch: RankOneBatch, objective, settings=None, dtype=None):
        self.objective: Objective = objective
        self.settings = settings or Settings()
        dtype = np.dtype(dtype or batch.dtype)
        held = batch.astype(dtype)._held
        self.samples = device.get(batch.device).Samples(held, len(batch), dtype)
        is_small = 0 < len(batch) <= FEW_SAMPLES
        self.vectors = None
        if is_small:
            self.vectors = [batch.vectors(k).astype(np.float64) for k in range(batch.ndim)]
        log_norm = W.log_norm()
        if not log_norm < LARGEST_LOG_NORM:
            raise ValueError(
                f"Sweeps start at tensors of norm less than exp({LARGEST_LOG_NORM}), got "
                f"exp({log_norm:.6g}); divide the tensor first."
            )
        self.cores = [
            np.array(core.transpose(1, 0, 2))
            for core in W.astype(np.float64).orthogonalize(0).cores
        ]
        self.d, self.center, self._squared_gradients = len(self.cores), 0, [np.nan]
        # Partial products by bond: from the left up to the center, from the right after it.
        self.bonds = [self.samples.ones()] + [None] * (self.d - 1) + [self.samples.ones()]
        self.bond_ranks = [1] + [0] * (self.d - 1) + [1]
        for k in range(self.d - 1, 0, -1):
            self._advance(k, to_left=True)
        self.f = self._values(self.cores[0], 0, self.bonds[0], self.bonds[1])
        self.value = objective.value(self.f, _squared(self.cores[0]))

    def tensor(self) -> TTTensor:
        """The tensor as it is now."""
        return TTTensor([core.transpose(1, 0, 2) for core in self.cores])

    plan = Sweeps()

    def iterate(self) -> None:
        self._squared_gradients = []
        if self.plan.sites == 1:
            self.one_site()
        else:
            most = self.plan.max_rank or max(core.shape[2] for core in self.cores)
            self.two_site(most, self.plan.eps)

    @property
    def gradient_norm(self) -> float:
        """Root mean square of the gradients in the cores, each as it was before it was solved."""
        return float(np.sqrt(np.mean(self._squared_gradients)))

    # -- sweeps ---------------------------------------------------------------------------------

    def one_site(self) -> float:
        """Solve for each core in turn, to the right and back; returns the objective."""
        for _ in self.walk():
            pass
        return self.value

    def walk(self) -> Iterator[int]:
        """Sweep over the cores, and yield each one's number when it is solved."""
        for to_left in (False, True):
            for _ in range(self.d - 1):
                self._solve_center()
                yield self.center
                self._shift(to_left)
        self._solve_center()
        yield self.center

    def _solve_center(self):
        k = self.center
        self.cores[k] = self._solve(self.cores[k], k, self.bonds[k], self.bonds[k + 1])

    def two_site(self, max_rank: int, eps: float = 0.0) -> float:
        """Solve for each pair of neighbours, to the right and back, and split it by an SVD.

        The rank of a bond is at most `max_rank`; singular values up to `eps` times the norm of the
        pair are dropped.
        """
        if self.d == 1:
            return self.one_site()
        for k in range(self.d - 1):
            self._solve_pair(k, max_rank, eps, to_left=False)
        for k in range(self.d - 2, -1, -1):
            self._solve_pair(k, max_rank, eps, to_left=True)
        return self.value

    def _solve_pair(self, k, max_rank, eps, to_left):
        """Cores k and k + 1; the center is one of them, and ends on the right, or on the left."""
        A, B = self.cores[k], self.cores[k + 1]
        (n0, r0, _), (n1, _, r2) = A.shape, B.shape
        C = np.einsum("iab,jbc->iajc", A, B).reshape(n0, r0, n1 * r2)
        R = self.samples.empty(n1 * r2)
        self.samples.expand(self.bonds[k + 2], n1, r2, k + 1, R)
        L = self.bonds[k]
        C = self._solve(C, k, L, R)
        u, sigma, vt = np.linalg.svd(C.reshape(n0 * r0, n1 * r2), full_matrices=False)
        norm = np.linalg.norm(sigma)
        # Each value by itself: noise is many small ones, together more than a weak term.
        kept = max(1, min(max_rank, int(np.sum(sigma > eps * norm))))
        cut = kept < len(sigma) and sigma[kept] > 1e-14 * norm
        u, sigma, vt = u[:, :kept], sigma[:kept], vt[:kept]
        left, right = (u * sigma, vt) if to_left else (u, sigma[:, None] * vt)
        self.cores[k] = left.reshape(n0, r0, kept)
        self.cores[k + 1] = np.ascontiguousarray(right.reshape(kept, n1, r2).transpose(1, 0, 2))
        if cut:
            C = ((u * sigma) @ vt).reshape(n0, r0, n1 * r2)
            self.f = self._values(C, k, L, R)
            self.value = self.objective.value(self.f, _squared(C))
        self._advance(k + 1 if to_left else k, to_left)
        self.center = k if to_left else k + 1

    # -- one local problem ----------------------------------------------------------------------

    def _values(self, C, k, L, R):
        return self.samples.values(C, k, L, R).astype(np.float64)

    def _solve(self, C, k, L, R):
        """Lower the objective in the center core C: by truncated Newton-CG, or exact Newton."""
        objective = self.objective
        for _ in range(self.settings.newton_steps):
            g, h = objective.derivative(self.f), objective.curvature(self.f)
            if not h.any():
                # The hinge has slopes only: taken for a squared loss, predictions move by about 1.
                h = np.abs(g)
            find = self._truncated_step if self.vectors is None else self._exact_step
            step, along, slope = find(C, g, h, k, L, R)
            if not slope < 0:
                break
            t, accepted = 1.0, False
            for _ in range(30):
                f, new = self.f + t * along, C + t * step
                value = objective.value(f, _squared(new))
                if value <= self.value + 1e-4 * t * slope:
                    accepted = True
                    break
                t /= 2
            if not accepted:
                break
            C, self.f, self.value = new, f, value
        return C

    def _truncated_step(self, C, g, h, k, L, R):
        """A step, the change of the predictions along it, and the slope of the objective."""
        alpha = self.objective.alpha
        gradient = self.samples.gradient(g, C.shape, k, L, R) + alpha * C
        self._squared_gradients.append(_squared(gradient))

        def curved(p):
            return self.samples.product(p, h, k, L, R) + alpha * p

        scale = self._preconditioner(h, C.shape, k, L, R)
        step = self._conjugate_gradients(curved, -gradient, scale)
        return step, self._values(step, k, L, R), np.vdot(gradient, step)

    def _exact_step(self, C, g, h, k, L, R):
        """The same for the whole Newton step, in one kernel: calls would cost more than it does."""
        _, r0, r1 = C.shape
        left, right = (
            np.ascontiguousarray(self.samples.rows(P, r), np.float64) for P, r in ((L, r0), (R, r1))
        )
        C, step, along = np.ascontiguousarray(C), np.empty(C.shape), np.empty(len(g))
        slope, squared = site.exact_step(
            self.vectors[k], left, right, C, g, h, float(self.objective.alpha), step, along
        )
        self._squared_gradients.append(squared)
        return step, along, slope

    def _conjugate_gradients(self, curved, b, scale):
        """An approximate solution of curved(x) = b."""
        x, r = np.zeros_like(b), b.copy()
        z = r / scale
        p, rz = z, np.vdot(r, z)
        start = rz
        for _ in range(self.settings.cg_steps):
            Ap = curved(p)
            pAp = np.vdot(p, Ap)
            if not pAp > 0:
                break
            a = rz / pAp
            x += a * p
            r -= a * Ap
            z = r / scale
            rz, last = np.vdot(r, z), rz
            if rz <= self.settings.cg_tolerance**2 * start:
                break
            p = z + rz / last * p
        return x if x.any() else b / scale

    def _preconditioner(self, h, shape, k, L, R):
        """A positive number for each slot: its share of the curvature, for modes of categories."""
        n, r0, r1 = shape
        u = h * self.samples.squares(L, r0) * self.samples.squares(R, r1) / (r0 * r1)
        if self.samples.kinds[k] not in (CATEGORY, INDEX):
            return np.full((1, 1, 1), max(u.sum(), 1e-300) + self.objective.alpha)
        ones = self.samples.ones()
        counts = self.samples.gradient(u, (n, 1, 1), k, ones, ones).astype(np.float64)
        counts[1 if self.samples.kinds[k] == CATEGORY else 0 :] *= self.samples.scales[k]
        floor = 1e-6 * max(counts.max(), 1e-300)
        return np.maximum(counts, floor) + self.objective.alpha

    # -- moving the center ------------------------------------------------------------------------

    def _shift(self, to_left):
        """Make the center core orthogonal, and its neighbour the center."""
        k = self.center
        C = self.cores[k]
        n, r0, r1 = C.shape
        if to_left:
            Q, S = _qr(C.transpose(0, 2, 1).reshape(n * r1, r0))
            self.cores[k] = np.ascontiguousarray(Q.reshape(n, r1, -1).transpose(0, 2, 1))
            self.cores[k - 1] = self.cores[k - 1] @ S.T
            self._advance(k, to_left=True)
            self.center = k - 1
        else:
            Q, S = _qr(C.reshape(n * r0, r1))
            self.cores[k] = Q.reshape(n, r0, -1)
            self.cores[k + 1] = S @ self.cores[k + 1]
            self._advance(k, to_left=False)
            self.center = k + 1

    def _advance(self, k, to_left):
        """The partial products beyond core k."""
        G = self.cores[k].transpose(0, 2, 1) if to_left else self.cores[k]
        there, here = (k, k + 1) if to_left else (k + 1, k)
        r = G.shape[2]
        if self.bond_ranks[there] != r:
            self.bonds[there], self.bond_ranks[there] = self.samples.empty(r), r
        self.samples.advance(self.bonds[here], G, k, self.bonds[there])


def _squared(A):
    """|A|^2; a third of the time of np.sum(A**2), which counts for cores of a few dozen numbers."""
    return float(np.vdot(A, A))


def _qr(A):
    """A = Q R; for tall A by Cholesky factors of A^T A, twice, which takes a fifth of the time."""
    if len(A) < 16 * A.shape[1]:
        return _householder_qr(A)
    Q, R = A, np.eye(A.shape[1])
    for _ in range(2):
        try:
            L = np.linalg.cholesky(Q.T @ Q)
        except np.linalg.LinAlgError:
            return _householder_qr(A)
        # Squares lose half of the digits: the second factor mends what the first has left of them.
        if L.diagonal().min() < 1e-6 * L.diagonal().max():
            return _householder_qr(A)
        Q, R = Q @ np.linalg.inv(L).T, L.T @ R
    return Q, R


def _householder_qr(A):
    p, q = A.shape
    k = min(p, q)
    Q, R = np.array(A, order="C").reshape(-1), np.empty((k, q))
    with workspace.lend("sweep", householder_scratch(p, q), A.dtype) as work:
        site.qr(Q, p, q, R, work)
    return Q[: p * k].reshape(p, k), R
