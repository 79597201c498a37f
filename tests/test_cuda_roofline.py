"""Flops and bytes of benchmarks.cuda_roofline, against loops that count what they do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks import cuda_roofline
from benchmarks.cuda_roofline import CHIPS, Case, Work
from ttexm import Manifold, RankOneBatch, TTTensor


class Counter:
    """Multiply-adds, and the entries of arrays that were read or written at least once."""

    def __init__(self):
        self.adds, self.moved = 0, set()

    def read(self, name, array, *index):
        self.moved.add(("read", name, index))
        return array[index]

    def write(self, name, *index):
        self.moved.add(("write", name, index))

    def add(self, array, index, a, b):
        array[index] += a * b
        self.adds += 1

    @property
    def work(self):
        return Work(2 * self.adds, len(self.moved))


def feature(counter, x, s, k, i):
    return 1.0 if i == 0 else counter.read("x", x, s, k, i - 1)


def right_partials(counter, x, cores, name):
    """Q[k][s] = G_k .. G_{d-1} with the features of sample s, from the last core to the first."""
    m, d = len(x), len(cores)
    Q = [np.zeros((m, core.shape[0])) for core in cores] + [np.ones((m, 1))]
    for s in range(m):
        for k in range(d - 1, -1, -1):
            for a, i, b in np.ndindex(cores[k].shape):
                # A product lives in registers on the way; what is added is read from there.
                G = counter.read((name, k), cores[k], a, i, b)
                counter.add(Q[k], (s, a), feature(counter, x, s, k, i) * Q[k + 1][s, b], G)
    return Q


def sizes(ranks, n):
    return [(ranks[k], n, ranks[k + 1]) for k in range(len(ranks) - 1)]


@pytest.mark.parametrize(("ranks", "n"), [((1, 4, 4, 1), 2), ((1, 4, 1), 3), ((1, 1), 2)])
def test_counts_of_the_contraction_are_those_of_its_loops(ranks, n):
    rng = np.random.default_rng(0)
    cores = [rng.standard_normal(shape) for shape in sizes(ranks, n)]
    x, counter = rng.standard_normal((5, len(cores), n - 1)), Counter()
    f = right_partials(counter, x, cores, "G")[0][:, 0]
    for s in range(len(x)):
        counter.write("f", s)
    assert_allclose(f, TTTensor(cores).contract(RankOneBatch.from_columns(list(x.swapaxes(0, 1)))))
    assert cuda_roofline.contraction(len(x), n, ranks) == counter.work


@pytest.mark.parametrize(("ranks", "n"), [((1, 4, 4, 1), 2), ((1, 4, 1), 3), ((1, 1), 2)])
def test_counts_of_the_gradient_are_those_of_its_loops(ranks, n):
    rng = np.random.default_rng(0)
    U, V = ([rng.standard_normal(shape) for shape in sizes(ranks, n)] for _ in range(2))
    m, d = 3, len(U)
    x, g, counter = rng.standard_normal((m, d, n - 1)), rng.standard_normal(m), Counter()
    Q = right_partials(counter, x, V, "V")
    P = [np.ones((m, 1))] + [np.zeros((m, core.shape[2])) for core in U]
    deltas = [np.zeros(core.shape) for core in U]
    for s in range(m):
        counter.write("f", s)
        for k in range(d):
            for a, i, b in np.ndindex(U[k].shape):
                phi = feature(counter, x, s, k, i)
                if k < d - 1:
                    G = counter.read(("U", k), U[k], a, i, b)
                    counter.add(P[k + 1], (s, b), phi * P[k][s, a], G)
                counter.write(("deltas", k), a, i, b)
                left = counter.read(("P", k), P[k], s, a) if k else 1.0
                right = counter.read(("Q", k), Q[k + 1], s, b) if k < d - 1 else 1.0
                counter.add(deltas[k], (a, i, b), counter.read("g", g, s) * phi * right, left)
    for k in range(1, d):
        for s, a in np.ndindex(P[k].shape):
            counter.write(("P", k), s, a)
            counter.write(("Q", k), s, a)
    Phi = np.concatenate([np.ones((m, d, 1)), x], axis=2)
    for k in range(d):
        assert_allclose(
            deltas[k], np.einsum("s,si,sa,sb->aib", g, Phi[:, k], P[k], Q[k + 1]), atol=1e-12
        )
    assert cuda_roofline.gradient(m, n, ranks) == counter.work


class Rounding:
    """Retraction as in ttexm.kernels.retract, in numpy; products and reflections are counted."""

    def __init__(self):
        self.adds = 0

    def product(self, a, b):
        self.adds += a.shape[0] * a.shape[1] * b.shape[1]
        return a @ b

    def reflect(self, v, columns):
        self.adds += 2 * columns.size
        columns -= np.outer(2 * v, v @ columns)

    def qr(self, A):
        (p, q), R = A.shape, A.copy()
        Q, reflectors = np.eye(p, q), []
        for j in range(q):
            v = R[j:, j].copy()
            v[0] += np.copysign(np.linalg.norm(v), v[0])
            reflectors.append(v / np.linalg.norm(v))
            R[j, j] -= v[0]
            self.reflect(reflectors[j], R[j:, j + 1 :])
            R[j + 1 :, j] = 0
        for j in range(q - 1, -1, -1):
            self.reflect(reflectors[j], Q[j:, j:])
        return Q, R[:q]

    def retract(self, U, V, deltas):
        """Cores of U_0 .. U_{d-1} + xi; U is left-orthogonal but for its last core, V right-."""
        d, n = len(U), U[0].shape[1]
        X, Y, Z = np.ones((1, 1)), np.zeros((1, 0)), [None] * d
        for k in range(d - 1, 0, -1):
            r0, r1 = U[k].shape[0], U[k].shape[2]
            A = self.product(U[k].reshape(-1, r1), np.hstack([X, Y])).reshape(r0, n, -1)
            A[:, :, :r1] += deltas[k]
            v = V[k].reshape(r0, -1)
            X = self.product(A[:, :, :r1].reshape(r0, -1), v.T)
            if A[0].size > r0:
                A[:, :, :r1] -= self.product(X, v).reshape(r0, n, r1)
                Q, R = self.qr(A.reshape(r0, -1).T)
                Y, Z[k] = R.T, Q.T
            else:
                Y, Z[k] = np.zeros((r0, 0)), np.zeros((0, A[0].size))
        cores = []
        for k in range(d):
            r0, r1 = U[k].shape[0], U[k].shape[2]
            if k == 0:
                M = self.product(U[0].reshape(-1, r1), np.hstack([X, Y])).reshape(1, n, -1)
                M[:, :, :r1] += deltas[0]
            else:
                M = self.product(Y, Z[k]).reshape(r0, n, -1)
                M[:, :, :r1] += self.product(X, V[k].reshape(r0, -1)).reshape(r0, n, r1)
            M = M.reshape(r0 * n, -1)
            if k == d - 1:
                cores.append(M.reshape(r0, n, 1))
            elif r0 * n == r1:
                cores.append(np.eye(r1).reshape(r0, n, r1))
                X, Y = M[:, :r1], M[:, r1:]
            else:
                Q, _ = self.qr(M[:, :r1])
                B = self.product(Q.T, M)
                cores.append(Q.reshape(r0, n, r1))
                X, Y = B[:, :r1], B[:, r1:]
        return cores


@pytest.mark.parametrize(("shape", "rank"), [((2,) * 5, 2), ((4,) * 4, 2), ((3, 3), 3), ((2,), 1)])
def test_counts_of_the_retraction_are_those_of_a_retraction(shape, rank):
    manifold = Manifold(shape, rank)
    W = manifold.random_point(seed=0)
    xi = 1e-3 * manifold.random_tangent(W, seed=1)
    U = W.orthogonalize().to_cores()
    # Cores of a tangent vector: [U dG], [[U dG] [0 V]], .., [dG; V].
    V = [core[-len(G) :, :, -G.shape[2] :] for core, G in zip(xi.to_tensor().cores, U, strict=True)]
    rounding = Rounding()
    cores = rounding.retract(U, V, xi.deltas)
    assert (TTTensor(cores) - manifold.retract(W, xi)).norm() < 1e-9
    assert cuda_roofline.retraction(shape[0], manifold.ranks).flops == 2 * rounding.adds


def test_ranks_are_padded():
    assert cuda_roofline.padded_ranks(3, 5) == (1, 8, 8, 1)
    assert cuda_roofline.padded_ranks(2, 64) == (1, 64, 1)


def test_the_larger_bound_is_by_the_peak_of_the_dtype():
    a100 = CHIPS[0]
    case = Case("", "float32", Work(195 * 10**8, 2039 * 10**6), 4, False)
    assert case.bounds(a100) == pytest.approx({"arithmetic": 1e-3, "memory": 4e-3})
    one_block = case._replace(itemsize=8, is_one_block=True)
    arithmetic = 108 * 19.5 / 9.7 * 1e-3
    assert one_block.bounds(a100) == pytest.approx({"arithmetic": arithmetic, "memory": 8e-3})


@pytest.mark.parametrize(
    ("gpu", "share"), [("NVIDIA A100-SXM4-80GB", 0.5), ("NVIDIA H100 PCIe", None)]
)
def test_measured_times_are_compared_with_the_bounds_of_that_gpu(monkeypatch, gpu, share):
    cases = cuda_roofline.make_cases(1000, 5, 4, 2)
    bounds = {(case.what, case.dtype): max(case.bounds(CHIPS[0]).values()) for case in cases}

    def measure(m, d, r, n, dtype):
        return {what: 2 * bounds[what, dtype] for what in ("contraction", "gradient", "retraction")}

    monkeypatch.setattr(cuda_roofline, "measure", measure)
    table = cuda_roofline.measured(cases, gpu, "", (1000, 5, 4, 2))
    assert [row["share"] for row in table.rows] == [share] * 6


def test_measuring_asks_the_device(monkeypatch, stand_in):
    def once(cases):
        return {name: call() for name, call in cases.items()}

    monkeypatch.setattr(cuda_roofline, "best_times", once)
    made = cuda_roofline.measure(4, 3, 2, 2, "float32")
    assert made["contraction"].shape == (4,)
    assert made["retraction"].ranks == (1, 2, 2, 1)
    assert {"contract", "gradient", "retract"} <= set(stand_in.calls)
