"""Sweeps on the partial products of any device, over one core or a pair of neighbours at a time.

All cores but those are orthogonal: predictions are linear in the center core C, |W| = |C|, and the
local objective is as convex as the loss. Truncated Newton-CG solves it, without a learning rate. A
pair of cores is solved for as one core and split by an SVD, which finds the rank of the bond
between them. (On the CPU, sweeps over one core are a single kernel: see `sweeps`.)
"""

from dataclasses import dataclass

import numpy as np

from ...data.batch import RankOneBatch
from ...kernels import backend, host
from ...kernels.layout import CATEGORY, INDEX
from ...tt.tensor import TTTensor
from ..objective import Objective
from .base import Run

LARGEST_LOG_NORM = 700  # of a start: the center core has the norm of the tensor, in plain numbers
MOST_HALVINGS, LEAST_DECREASE = 30, 1e-4  # of a step; share of its slope (Armijo's rule)
# CholeskyQR2 takes a fifth of the time of Householder's QR for matrices this many times as tall as
# wide. Its second factor restores orthogonality if the condition number is below 1e8; the diagonal
# of the first factor bounds that from below, hence the margin.
TALL, LEAST_DIAGONAL = 16, 1e-6


@dataclass(frozen=True)
class Settings:
    """How far each local problem is solved.

    Parameters
    ----------
    newton_steps : int
        Newton steps for each core or pair of cores.
    cg_steps : int
        Most steps of conjugate gradients for each Newton step.
    cg_tolerance : float
        Conjugate gradients stop when the preconditioned residual has fallen by this factor.
    """

    newton_steps: int = 1
    cg_steps: int = 6
    cg_tolerance: float = 0.05


DEFAULT = Settings()


def check_norm(W: TTTensor) -> None:
    """Raise if a tensor is too large for sweeps to start at."""
    log_norm = W.log_norm()
    if not log_norm < LARGEST_LOG_NORM:
        raise ValueError(
            f"Sweeps start at tensors of norm less than exp({LARGEST_LOG_NORM}), got "
            f"exp({log_norm:.6g}); divide the tensor first."
        )


class ProductSweep(Run):
    """A tensor on its way: cores around a center, and the partial products of all samples.

    Parameters
    ----------
    W : TTTensor
        Where to start.
    batch : RankOneBatch
        The partial products are computed, and stay, on its device.
    objective : Objective
    sites : {1, 2}
        Cores that are solved for at a time.
    max_rank : int, optional
        Highest rank, with two sites; by default the largest rank of W.
    eps : float
        Singular values up to `eps` times the norm of the two cores are dropped, with two sites.
    settings : Settings
    dtype : dtype, optional
        Precision of the partial products; by default that of the batch.
    """

    def __init__(
        self,
        W: TTTensor,
        batch: RankOneBatch,
        objective: Objective,
        sites: int = 1,
        max_rank: int | None = None,
        eps: float = 0.0,
        settings: Settings = DEFAULT,
        dtype: type | None = None,
    ):
        check_norm(W)
        self.objective, self.settings = objective, settings
        self.sites, self.max_rank, self.eps = sites, max_rank, eps
        dtype = np.dtype(dtype or batch.dtype)
        held = batch.held(dtype)
        self.products = backend.get(batch.device).partial_products(held, len(batch), dtype)
        self.cores = [
            np.array(core.transpose(1, 0, 2))
            for core in W.astype(np.float64).orthogonalize(0).cores
        ]
        self.d, self.center, self._squared_gradients = len(self.cores), 0, [np.nan]
        # Partial products by bond: from the left up to the center, from the right after it.
        self.bonds = [self.products.ones()] + [None] * (self.d - 1) + [self.products.ones()]
        self.bond_ranks = [1] + [0] * (self.d - 1) + [1]
        for k in range(self.d - 1, 0, -1):
            self._advance(k, to_left=True)
        self.f = self._values(self.cores[0], 0, self.bonds[0], self.bonds[1])
        self.value = objective.value(self.f, _squared(self.cores[0]))

    def tensor(self) -> TTTensor:
        """Return the tensor as it is now."""
        return TTTensor([core.transpose(1, 0, 2) for core in self.cores])

    def iterate(self) -> None:
        self._squared_gradients = []
        if self.sites == 1:
            self.one_site()
        else:
            largest = max(core.shape[2] for core in self.cores)
            self.two_site(self.max_rank or largest, self.eps)

    @property
    def gradient_norm(self) -> float:
        """Root mean square of the gradients in the cores, each as it was before it was solved."""
        return float(np.sqrt(np.mean(self._squared_gradients)))

    # -- sweeps ---------------------------------------------------------------------------------

    def one_site(self) -> float:
        """Solve for each core in turn, to the right and back, and return the objective."""
        for to_left in (False, True):
            for _ in range(self.d - 1):
                self._solve_center()
                self._shift(to_left)
        self._solve_center()
        return self.value

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
        """Solve for cores k and k + 1, one of which is the center, and move the center on."""
        A, B = self.cores[k], self.cores[k + 1]
        (n0, r0, _), (n1, _, r2) = A.shape, B.shape
        C = np.einsum("iab,jbc->iajc", A, B).reshape(n0, r0, n1 * r2)
        R = self.products.empty(n1 * r2)
        self.products.expand(self.bonds[k + 2], n1, r2, k + 1, R)
        L = self.bonds[k]
        C = self._solve(C, k, L, R)
        u, sigma, vt = np.linalg.svd(C.reshape(n0 * r0, n1 * r2), full_matrices=False)
        norm = np.linalg.norm(sigma)
        # Each value is compared by itself: those of noise are small but many, and their root sum of
        # squares may exceed a weak term.
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
        return self.products.values(C, k, L, R).astype(np.float64)

    def _solve(self, C, k, L, R):
        """Lower the objective in the center core C, by Newton steps with backtracking."""
        for _ in range(self.settings.newton_steps):
            g = self.objective.derivative(self.f)
            h = self.objective.curvature_or_slope(self.f)
            step, along, slope = self._newton_step(C, g, h, k, L, R)
            if not slope < 0:
                break
            for halvings in range(MOST_HALVINGS):
                t = 0.5**halvings
                f, new = self.f + t * along, C + t * step
                value = self.objective.value(f, _squared(new))
                if value <= self.value + LEAST_DECREASE * t * slope:
                    break
            else:
                break
            C, self.f, self.value = new, f, value
        return C

    def _newton_step(self, C, g, h, k, L, R):
        """Return a step, the change of predictions along it, and the slope of the objective."""
        alpha = self.objective.alpha
        gradient = self.products.gradient(g, C.shape, k, L, R) + alpha * C
        self._squared_gradients.append(_squared(gradient))

        def hessian_product(p):
            return self.products.product(p, h, k, L, R) + alpha * p

        scale = self._preconditioner(h, C.shape, k, L, R)
        step = self._conjugate_gradients(hessian_product, -gradient, scale)
        return step, self._values(step, k, L, R), np.vdot(gradient, step)

    def _conjugate_gradients(self, hessian_product, b, scale):
        """Return an approximate solution of ``hessian_product(x) = b``."""
        x, r = np.zeros_like(b), b.copy()
        z = r / scale
        p, rz = z, np.vdot(r, z)
        start = rz
        for _ in range(self.settings.cg_steps):
            Ap = hessian_product(p)
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
        """Return positive numbers: for categories, each slot's share of the curvature; else one."""
        n, r0, r1 = shape
        u = h * self.products.squares(L, r0) * self.products.squares(R, r1) / (r0 * r1)
        if self.products.kinds[k] not in (CATEGORY, INDEX):
            return np.full((1, 1, 1), max(u.sum(), 1e-300) + self.objective.alpha)
        ones = self.products.ones()
        counts = self.products.gradient(u, (n, 1, 1), k, ones, ones).astype(np.float64)
        counts[1 if self.products.kinds[k] == CATEGORY else 0 :] *= self.products.scales[k]
        floor = 1e-6 * max(counts.max(), 1e-300)
        return np.maximum(counts, floor) + self.objective.alpha

    # -- moving the center ------------------------------------------------------------------------

    def _shift(self, to_left):
        """Make the center core orthogonal, and its neighbour the center."""
        k = self.center
        C = self.cores[k]
        n, r0, r1 = C.shape
        if to_left:
            Q, S = tall_qr(C.transpose(0, 2, 1).reshape(n * r1, r0))
            self.cores[k] = np.ascontiguousarray(Q.reshape(n, r1, -1).transpose(0, 2, 1))
            self.cores[k - 1] = self.cores[k - 1] @ S.T
            self._advance(k, to_left=True)
            self.center = k - 1
        else:
            Q, S = tall_qr(C.reshape(n * r0, r1))
            self.cores[k] = Q.reshape(n, r0, -1)
            self.cores[k + 1] = S @ self.cores[k + 1]
            self._advance(k, to_left=False)
            self.center = k + 1

    def _advance(self, k, to_left):
        """Compute the partial products that take core k in."""
        G = self.cores[k].transpose(0, 2, 1) if to_left else self.cores[k]
        there, here = (k, k + 1) if to_left else (k + 1, k)
        r = G.shape[2]
        if self.bond_ranks[there] != r:
            self.bonds[there], self.bond_ranks[there] = self.products.empty(r), r
        self.products.advance(self.bonds[here], G, k, self.bonds[there])


def _squared(A):
    """Return ``|A|^2``; for small cores in a third of the time of ``np.sum(A**2)``."""
    return float(np.vdot(A, A))


def tall_qr(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``A = Q R``, by CholeskyQR2 if A is tall and well conditioned, else by Householder."""
    if len(A) < TALL * A.shape[1]:
        return host.qr(A)
    Q, R = A, np.eye(A.shape[1])
    for _ in range(2):
        try:
            L = np.linalg.cholesky(Q.T @ Q)
        except np.linalg.LinAlgError:
            return host.qr(A)
        if L.diagonal().min() < LEAST_DIAGONAL * L.diagonal().max():
            return host.qr(A)
        Q, R = Q @ np.linalg.inv(L).T, L.T @ R
    return Q, R
