"""What every operation should compute, from its definition: dense, slow, obvious.

Imports nothing of ttexm: tensors are full arrays or lists of cores (r0, n, r1).
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np


def full(cores):
    """W[i_1, .., i_d] = G_1[i_1] .. G_d[i_d], entry by entry."""
    shape = tuple(core.shape[1] for core in cores)
    out = np.empty(shape, np.result_type(*cores))
    for index in np.ndindex(shape):
        product = np.eye(1)
        for core, i in zip(cores, index, strict=True):
            product = product @ core[:, i, :]
        out[index] = product[0, 0]
    return out


def outer(vectors):
    """The rank-1 tensor of some vectors."""
    return functools.reduce(np.multiply.outer, vectors)


def rank_ones(phis):
    """The rank-1 tensors X_s, as rows, from the feature vectors (m, n_k) of each mode."""
    m = len(phis[0])
    size = math.prod(phi.shape[1] for phi in phis)
    return np.array([outer([phi[s] for phi in phis]).ravel() for s in range(m)]).reshape(m, size)


def contract(W, phis):
    """<W, X_s> for every s."""
    return rank_ones(phis) @ W.ravel()


def open_contract(W, phis):
    """<W[.., j], X_s> for every s and every index j of the last mode."""
    return rank_ones(phis) @ W.reshape(-1, W.shape[-1])


def unfolding(W, k):
    """The matrix of W with modes 0 .. k - 1 as rows."""
    return W.reshape(math.prod(W.shape[:k]), -1)


def best_errors(W, ranks):
    """Error of the best approximation of each unfolding; no tensor beats the largest of them."""
    return [
        math.sqrt(sum(np.linalg.svd(unfolding(W, k), compute_uv=False)[ranks[k] :] ** 2))
        for k in range(1, W.ndim)
    ]


def tt_ranks(W, tolerance=1e-10):
    """Ranks of the unfoldings: the smallest TT-ranks that W has."""
    ranks = [np.linalg.matrix_rank(unfolding(W, k), tol=tolerance) for k in range(1, W.ndim)]
    return (1, *(max(1, int(r)) for r in ranks), 1)


def core_derivatives(cores, k):
    """All dW / dG_k[a, i, b], as rows."""
    J = []
    for entry in np.ndindex(cores[k].shape):
        E = np.zeros(cores[k].shape)
        E[entry] = 1.0
        J.append(full([*cores[:k], E, *cores[k + 1 :]]).ravel())
    return np.array(J)


def core_gradient(cores, Z):
    """Derivatives of <W, Z> in the cores, for an array Z."""
    return [
        (core_derivatives(cores, k) @ Z.ravel()).reshape(core.shape) for k, core in enumerate(cores)
    ]


def tangent_basis(cores):
    """Orthonormal basis, as rows, of the tangent space: the span of all dW / dG_k[a, i, b]."""
    J = np.concatenate([core_derivatives(cores, k) for k in range(len(cores))])
    _, s, Vt = np.linalg.svd(J, full_matrices=False)
    return Vt[s > 1e-9 * s[0]]


def project(cores, Z):
    """Orthogonal projection of the array Z on the tangent space."""
    basis = tangent_basis(cores)
    return (basis.T @ (basis @ Z.ravel())).reshape(Z.shape)


# -- one core at a time ---------------------------------------------------------------------------


def core_design(cores, phis, k):
    """J with <W, X_s> = (J vec(cores[k]))_s: row s is left_s x phi_s x right_s, of rank 1."""
    left = right = np.ones((len(phis[0]), 1))
    for core, phi in zip(cores[:k], phis[:k], strict=True):
        left = np.einsum("sa,si,aib->sb", left, phi, core)
    for core, phi in zip(cores[:k:-1], phis[:k:-1], strict=True):
        right = np.einsum("aib,si,sb->sa", core, phi, right)
    return np.einsum("sa,si,sb->saib", left, phis[k], right).reshape(len(left), -1)


def center_at(cores, k):
    """The same tensor, with all cores but k orthogonal."""
    cores = list(cores)
    for j in range(k):
        r0, n, r1 = cores[j].shape
        Q, R = np.linalg.qr(cores[j].reshape(r0 * n, r1))
        cores[j] = Q.reshape(r0, n, -1)
        cores[j + 1] = np.tensordot(R, cores[j + 1], 1)
    for j in range(len(cores) - 1, k, -1):
        r0, n, r1 = cores[j].shape
        Q, R = np.linalg.qr(cores[j].reshape(r0, n * r1).T)
        cores[j] = Q.T.reshape(-1, n, r1)
        cores[j - 1] = np.tensordot(cores[j - 1], R.T, 1)
    return cores


def solve_exactly(k, J, curvatures, hessian, gradient):
    """The Newton step."""
    return -np.linalg.solve(hessian, gradient)


def newton_sweep(cores, phis, loss, alpha, solve=solve_exactly):
    """Take one Newton step, halved until the objective falls, at cores 0 .. d - 1 and back to 0.

    loss(f) is the value, the slopes (m,) and the second derivatives (m, m) at predictions f; the
    penalty is alpha / 2 |W|^2. Yields after each step the cores, the objective, and the norm of the
    gradient before the step.
    """
    d = len(cores)
    for k in [*range(d), *range(d - 2, -1, -1)]:
        cores = center_at(cores, k)
        J, C = core_design(cores, phis, k), cores[k].ravel()
        value, slopes, curvatures = loss(J @ C)
        value += alpha / 2 * C @ C
        gradient = J.T @ slopes + alpha * C
        hessian = J.T @ curvatures @ J + alpha * np.eye(len(C))
        step = solve(k, J, curvatures, hessian, gradient)
        for t in 0.5 ** np.arange(30):
            new = C + t * step
            new_value = loss(J @ new)[0] + alpha / 2 * new @ new
            if new_value <= value + 1e-4 * t * gradient @ step:
                C, value = new, new_value
                break
        cores[k] = C.reshape(cores[k].shape)
        yield cores, value, np.linalg.norm(gradient)


def manifold_dimension(shape, ranks):
    return sum(ranks[k] * n * ranks[k + 1] for k, n in enumerate(shape)) - sum(
        r * r for r in ranks[1:-1]
    )


def largest_ranks(shape):
    """The largest rank that each unfolding of a tensor of this shape can have."""
    return tuple(min(math.prod(shape[:k]), math.prod(shape[k:])) for k in range(len(shape) + 1))


def slope(errors, steps):
    """Exponent of the error's growth, from the least squares line in log-log."""
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


def all_indices(shape):
    return np.array(list(itertools.product(*map(range, shape))))


# -- exact arithmetic, for numbers beyond the range of floats ------------------------------------

as_fractions = np.vectorize(Fraction, otypes=[object])


def exact_full(cores):
    """W of cores of fractions, as an array of fractions."""
    rows = np.full((1, 1), Fraction(1), object)
    for core in cores:
        rows = np.tensordot(rows, core, 1).reshape(-1, core.shape[2])
    return rows.reshape([core.shape[1] for core in cores])


def exact_log(fraction):
    """log |fraction|, also where it is no float."""
    if not fraction:
        return -math.inf
    p, q = abs(fraction.numerator), fraction.denominator
    power = p.bit_length() - q.bit_length()
    return math.log(Fraction(p, q) / Fraction(2) ** power) + power * math.log(2)


def exact_log_norm(W):
    """log |W| of an array of fractions."""
    return exact_log((W**2).sum()) / 2


def relative_error(found, exact, scale):
    """The norm of found - exact, both arrays of fractions, relative to the norm of `scale`."""
    error, size = exact_log_norm(found - exact), exact_log_norm(scale)
    return math.exp(error - size) if error > -math.inf else 0.0


# -- smooth functions of a column, from design.md, section 8 -------------------------------------


def shares(x, weights):
    """The distinct values of a column in order, and their exact shares; weights are integers."""
    values = sorted(set(x.tolist()))
    totals = [sum(int(w) for u, w in zip(x, weights, strict=True) if u == v) for v in values]
    return values, [Fraction(total, sum(totals)) for total in totals]


def kept_values(values, masses, clip):
    """Those with more than the share `clip` up to and from them; all, if it is just one."""
    limit = Fraction(str(clip))
    kept = [
        i for i in range(len(values)) if sum(masses[: i + 1]) > limit and sum(masses[i:]) > limit
    ]
    return kept if len(kept) > 1 else list(range(len(values)))


def knots(x, weights, n_knots, clip):
    """The knots of a column with at least two distinct values, in exact arithmetic."""
    values, masses = shares(x, weights)
    kept = kept_values(values, masses, clip)
    values, masses = [values[i] for i in kept], [masses[i] for i in kept]
    n, K = len(values), n_knots
    if n <= Fraction(3, 2) * K:
        return np.array(values)
    capped = [min(mass, Fraction(1, K)) for mass in masses]
    for _ in range(3):
        total = sum(capped)
        capped = [min(c / total, Fraction(1, K - 1)) for c in capped]
    middles = [sum(capped[:i]) + capped[i] / 2 for i in range(n)]
    chosen = {0, n - 1}
    for j in range(K):
        q = Fraction(j, K - 1)
        target = middles[0] + q * (middles[-1] - middles[0])
        distances = [abs(middle - target) for middle in middles]
        nearest = [i for i in range(n) if distances[i] == min(distances)]
        # Of two, the inner one; both in the middle.
        chosen |= {max(nearest)} if q <= Fraction(1, 2) else set()
        chosen |= {min(nearest)} if q >= Fraction(1, 2) else set()
    for i in range(n):
        if masses[i] >= Fraction(1, K):
            chosen |= {max(i - 1, 0), i, min(i + 1, n - 1)}
    return np.array([values[i] for i in sorted(chosen)])


def hats(x, knots):
    """The hat functions of the knots at x, constant beyond the knots."""
    return np.stack([np.interp(x, knots, e) for e in np.eye(len(knots))], axis=1)


def smooth_functions(x, weights, knots):
    """All functions but the constant at the knots, (K, K - 1), and the roughness of each.

    Their signs are such that they are positive at the last knot.
    """
    w = weights / weights.sum()
    B = hats(x, knots)
    m = w @ B
    G = (B - m).T @ np.diag(w) @ (B - m)
    kx = knots - m @ knots
    kx = kx / math.sqrt(kx @ G @ kx)
    Q = np.linalg.qr(np.stack([m, G @ kx], axis=1), mode="complete")[0][:, 2:]
    D = np.diff(np.eye(len(knots)), axis=0)
    variance = Q.T @ G @ Q
    if len(variance):
        variance += 1e-9 * np.trace(variance) / len(variance) * np.eye(len(variance))
    # A V = variance V diag(roughness), V^T variance V = 1.
    inverse = np.linalg.inv(np.linalg.cholesky(variance))
    roughness, U = np.linalg.eigh(inverse @ Q.T @ D.T @ D @ Q @ inverse.T)
    functions = np.column_stack([kx, Q @ inverse.T @ U])
    return functions * np.sign(functions[-1]), roughness


# -- explanations: all subsets of the columns are written out -------------------------------------


def subsets(d):
    return [S for j in range(d + 1) for S in itertools.combinations(range(d), j)]


def game(W, phis, base):
    """{S: f with phi of the samples for k in S and the base for others}, W (n_1, .., n_d, K)."""
    found = {}
    for S in subsets(len(phis)):
        rows = []
        for s in range(len(phis[0])):
            T = W
            for k, phi in enumerate(phis):
                T = np.tensordot(phi[s] if k in S else base[k], T, 1)
            rows.append(T)
        found[S] = np.array(rows).reshape(len(phis[0]), W.shape[-1])
    return found


def moebius(values):
    """What each set does beyond its subsets."""
    return {
        S: sum((-1) ** (len(S) - len(U)) * values[U] for U in values if set(U) <= set(S))
        for S in values
    }


def index_of(terms, T, weight):
    """The sum of weight(|S|) times the terms of all S that contain T."""
    return sum(weight(len(S)) * term for S, term in terms.items() if set(T) <= set(S))


def term_variances(W, phis, shares):
    """{S: Var f_S}, W (n_1, .., n_d, K): each column takes its rows on its own, with these shares.

    With <W, x_1 x .. x x_d> squared, and the mean taken over each x_k.
    """
    means = [shares @ phi for phi in phis]
    covariances = [
        (phi - mean).T @ (shares[:, None] * (phi - mean))
        for phi, mean in zip(phis, means, strict=True)
    ]
    found = {}
    for S in subsets(len(phis)):
        V = W
        for k, mean in enumerate(means):
            matrix = covariances[k] if k in S else np.outer(mean, mean)
            V = np.moveaxis(np.tensordot(matrix, V, (1, k)), 0, k)
        found[S] = float(np.sum(W * V))
    return found
