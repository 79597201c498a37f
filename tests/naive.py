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
