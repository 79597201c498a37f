"""Other libraries of tensor trains, each doing the work of a Riemannian step in its best form.

None of them but t3f projects a batch of rank-1 tensors. What a library lacks is built here from its
own orthogonalisation and rounding, and the two sweeps over the batch in matrix products of its
array library ("sweeps"). Several forms of one operation compete; the fastest counts.

A batch is `one`, a column of ones (m, 1), and `columns`, the d columns x_k (m, 1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np


@dataclass(frozen=True)
class Problem:
    """A point W by its cores, m samples of numeric modes (1, x), weights g and targets y.

    `step` is the length of step of the mean squared error, `wide` a tensor to be rounded to `rank`.
    """

    cores: list
    x: np.ndarray
    y: np.ndarray
    g: np.ndarray
    step: float
    wide: list
    rank: int

    @property
    def m(self):
        return len(self.x)


@dataclass(frozen=True)
class Form:
    """One way to do an operation: `read` turns what `call` returns into arrays of numpy."""

    call: Callable
    read: Callable


@dataclass(frozen=True)
class Arrays:
    """The few functions that numpy, torch and TensorFlow spell differently."""

    make: Callable
    concatenate: Callable
    transpose: Callable
    reshape: Callable


NUMPY = Arrays(np.array, np.concatenate, np.transpose, np.reshape)


# -- what all libraries lack, in matrix products --------------------------------------------------


def predict(a, cores, one, columns):
    """f (m, 1): one product of [v, x v] with each core."""
    v = one
    for G, x in zip(cores, columns, strict=True):
        r0, n, r1 = G.shape
        matrix = a.reshape(a.transpose(G, (1, 0, 2)), (n * r0, r1))
        v = a.concatenate([v, x * v], 1) @ matrix
    return v


def sweeps(a, U, V, one, columns, weights):
    """Deltas of the projection of sum_s g_s X_s; `weights` is g (m, 1), or a function of f."""
    d, needs_f = len(U), callable(weights)
    Q = [one]
    for k in range(d - 1, -1 if needs_f else 0, -1):
        r0, n, r1 = V[k].shape
        matrix = a.reshape(a.transpose(V[k], (1, 2, 0)), (n * r1, r0))
        Q.append(a.concatenate([Q[-1], columns[k] * Q[-1]], 1) @ matrix)
    P = weights(Q.pop()) if needs_f else weights
    deltas = []
    for k in range(d):
        r0, n, r1 = U[k].shape
        both = a.concatenate([P, columns[k] * P], 1)
        delta = a.transpose(both, (1, 0)) @ Q.pop()
        if k < d - 1:
            u = a.reshape(a.transpose(U[k], (1, 0, 2)), (n * r0, r1))
            delta = delta - u @ (a.transpose(u, (1, 0)) @ delta)
            P = both @ u
        deltas.append(a.transpose(a.reshape(delta, (n, r0, r1)), (1, 0, 2)))
    return deltas


def tangent_cores(a, U, V, deltas, zeros):
    """Cores of rank 2 r of a tangent vector."""
    cores = [a.concatenate([deltas[0], U[0]], 2)]
    for k in range(1, len(U) - 1):
        upper = a.concatenate([V[k], zeros[k]], 2)
        cores.append(a.concatenate([upper, a.concatenate([deltas[k], U[k]], 2)], 0))
    return [*cores, a.concatenate([V[-1], deltas[-1]], 0)]


def moved_cores(a, U, V, deltas, zeros):
    """Cores of rank 2 r of W + xi: W is a tangent vector too, with U's last core as its delta."""
    return tangent_cores(a, U, V, [*deltas[:-1], deltas[-1] + U[-1]], zeros)


def read_cores(cores):
    return [np.asarray(core) for core in cores]


def read_tangent(result):
    U, V, deltas = (read_cores(cores) for cores in result)
    return tangent_cores(NUMPY, U, V, deltas, [0 * core for core in V])


def read_predictions(parts):
    return np.concatenate([np.asarray(part)[:, 0] for part in parts])


# -- the libraries --------------------------------------------------------------------------------


class Peer:
    """A library: `frames` and `roundings` are its own, the rest of the forms is built of them."""

    name: str
    module: str
    arrays = NUMPY
    chunks = (512, 2048)

    def __init__(self, problem: Problem):
        self.problem = problem
        make = self.arrays.make
        self.cores = [make(core) for core in problem.cores]
        self.zeros = [make(0 * core) for core in problem.cores]
        self.one, self.columns = self.batch(slice(None))
        self.g, self.y = make(problem.g[:, None]), make(problem.y[:, None])

    def batch(self, rows):
        x = self.problem.x[rows]
        make = self.arrays.make
        return make(np.ones((len(x), 1))), [make(column[:, None].copy()) for column in x.T]

    def wrap(self, function, *data):
        """A call without arguments of a function of arrays."""
        return partial(function, *data)

    def frames(self, cores):
        """Left- and right-orthogonal cores, with the norm in the last and in the first."""
        raise NotImplementedError

    def roundings(self) -> dict:
        """Functions of (cores, rank) by name."""
        raise NotImplementedError

    @cached_property
    def wide(self):
        return [self.arrays.make(core) for core in self.problem.wide]

    def moved(self, f):
        """-step d loss / d f: what is projected is the step itself."""
        return (-self.problem.step / self.problem.m) * (f - self.y)

    def projection(self) -> dict:
        def project(cores, one, columns, g):
            U, V = self.frames(cores)
            return U, V, sweeps(self.arrays, U, V, one, columns, g)

        call = self.wrap(project, self.cores, self.one, self.columns, self.g)
        return {"sweeps": Form(call, read_tangent)}

    def moved_cores(self, cores, one, columns):
        """W and a step along the gradient, of rank 2 r."""
        U, V = self.frames(cores)
        deltas = sweeps(self.arrays, U, V, one, columns, self.moved)
        return moved_cores(self.arrays, U, V, deltas, self.zeros)

    def step(self) -> dict:
        forms = {}
        for name, rounding in self.roundings().items():

            def move(cores, one, columns, rounding=rounding):
                return rounding(self.moved_cores(cores, one, columns), self.problem.rank)

            call = self.wrap(move, self.cores, self.one, self.columns)
            forms[f"sweeps, {name}"] = Form(call, read_cores)
        return forms

    def rounding(self) -> dict:
        forms = {}
        for name, rounding in self.roundings().items():

            def run(cores, rounding=rounding):
                return rounding(cores, self.problem.rank)

            forms[name] = Form(self.wrap(run, self.wide), read_cores)
        return forms

    def parts(self) -> dict:
        """The batch as a whole and in chunks."""
        parts = {"products": [(self.one, self.columns)]}
        for size in self.chunks:
            starts = range(0, self.problem.m, size)
            if len(starts) > 1:
                parts[f"products, chunks of {size}"] = [
                    self.batch(slice(start, start + size)) for start in starts
                ]
        return parts

    def inference(self) -> dict:
        def run(cores, parts):
            return [predict(self.arrays, cores, *part) for part in parts]

        return {
            name: Form(self.wrap(run, self.cores, parts), read_predictions)
            for name, parts in self.parts().items()
        }


class Teneva(Peer):
    name, module = "teneva", "teneva"

    def frames(self, cores):
        import teneva

        return teneva.orthogonalize(cores, len(cores) - 1), teneva.orthogonalize(cores, 0)

    def roundings(self):
        import teneva

        return {
            name: lambda cores, rank, eigh=eigh: teneva.truncate(
                cores, e=1e-14, r=rank, is_eigh=eigh
            )
            for name, eigh in (("truncate by eigh", True), ("truncate by svd", False))
        }


class Ttml(Peer):
    """ttml projects batches of entries, not of rank-1 tensors; retraction is its own."""

    name, module = "ttml", "ttml"

    def frames(self, cores):
        from ttml.tensor_train import TensorTrain

        W = TensorTrain(cores, mode=0, is_orth=False)
        return tuple(
            W._orth_cores(mode=mode, inplace=False, force_rank=False) for mode in ("l", "r")
        )

    def roundings(self):
        from ttml.tensor_train import TensorTrain

        def rounding(cores, rank):
            W = TensorTrain(list(cores), mode=0, is_orth=False)
            return W.round(max_rank=rank, inplace=True).cores

        return {"round": rounding}

    def step(self):
        from ttml.tensor_train import TensorTrain, TensorTrainTangentVector

        def move():
            U, V = self.frames(self.cores)
            deltas = sweeps(self.arrays, U, V, self.one, self.columns, self.moved)
            W = TensorTrain(U, mode="l", is_orth=True)
            return W.apply_grad(TensorTrainTangentVector(deltas, U, V)).cores

        return super().step() | {"sweeps, apply_grad": Form(move, read_cores)}


class Torch(Peer):
    """What torch's libraries have in common; eager, as they are."""

    module = "torch"

    @cached_property
    def arrays(self):
        import torch

        torch.set_num_threads(1)
        return Arrays(torch.tensor, torch.cat, torch.permute, torch.reshape)

    def wrap(self, function, *data):
        import torch

        def call():
            with torch.inference_mode():
                return function(*data)

        return call


class TorchTT(Torch):
    name, module = "torchTT", "torchtt"

    @staticmethod
    def ranks(cores):
        return [1, *(core.shape[2] for core in cores)]

    def frames(self, cores):
        from torchtt._decomposition import lr_orthogonal, rl_orthogonal

        return (
            lr_orthogonal(cores, self.ranks(cores), False)[0],
            rl_orthogonal(cores, self.ranks(cores), False)[0],
        )

    def roundings(self):
        import torchtt

        return {"round": lambda cores, rank: torchtt.TT(cores).round(1e-14, rank).cores}

    def projection(self):
        from torchtt.manifold import riemannian_gradient

        def objective(W):
            return (self.g * predict(self.arrays, W.cores, self.one, self.columns)).sum()

        def call():
            return riemannian_gradient(self.point(), objective).cores

        return super().projection() | {"riemannian_gradient": Form(call, self.read)}

    def step(self):
        from torchtt.manifold import riemannian_gradient

        def objective(W):
            f = predict(self.arrays, W.cores, self.one, self.columns)
            return (0.5 / self.problem.m) * ((f - self.y) ** 2).sum()

        def call():
            W = self.point()
            xi = riemannian_gradient(W, objective)
            return (W - self.problem.step * xi).round(1e-14, self.problem.rank).cores

        return super().step() | {"riemannian_gradient, round": Form(call, self.read)}

    def point(self):
        import torchtt

        return torchtt.TT(self.cores)

    @staticmethod
    def read(cores):
        return [core.detach().numpy() for core in cores]


class TnTorch(Torch):
    name, module = "tntorch", "tntorch"

    def frames(self, cores):
        import tntorch

        U, V = tntorch.Tensor(list(cores)), tntorch.Tensor(list(cores))
        U.orthogonalize(len(cores) - 1)
        V.orthogonalize(0)
        return U.cores, V.cores

    def roundings(self):
        import tntorch

        def rounding(cores, rank, algorithm):
            W = tntorch.Tensor(list(cores))
            W.round_tt(rmax=rank, algorithm=algorithm)
            return W.cores

        return {f"round_tt by {name}": partial(rounding, algorithm=name) for name in ("svd", "eig")}


class T3F(Peer):
    """t3f in graphs of `tf.function`, and compiled by XLA."""

    name, module = "t3f", "t3f"
    compilers = ("graph", "XLA")

    @cached_property
    def arrays(self):
        import tensorflow as tf

        return Arrays(tf.constant, tf.concat, tf.transpose, tf.reshape)

    def graphs(self, function, read, *data, name, compilers=None):
        import tensorflow as tf

        return {
            f"{name}, {compiler}": Form(
                partial(tf.function(function, jit_compile=compiler == "XLA"), *data), read
            )
            for compiler in compilers or self.compilers
        }

    def in_graphs(self, forms, compilers=None):
        """The forms that were built of functions of arrays, in each kind of graph."""
        graphs = {}
        for name, form in forms.items():
            graphs |= self.graphs(
                form.call.func, form.read, *form.call.args, name=name, compilers=compilers
            )
        return graphs

    @cached_property
    def vectors(self):
        """Cores (m, 1, 2, 1) of the batch."""
        x = self.problem.x
        return [
            self.arrays.make(np.stack([np.ones(len(x)), column], 1)[:, None, :, None])
            for column in x.T
        ]

    def frames(self, cores):
        import t3f

        left = t3f.orthogonalize_tt_cores(t3f.TensorTrain(cores))
        return left.tt_cores, t3f.orthogonalize_tt_cores(left, left_to_right=False).tt_cores

    def roundings(self):
        import t3f

        return {"round": lambda cores, rank: t3f.round(t3f.TensorTrain(cores), rank).tt_cores}

    def projection(self):
        import t3f

        def by_weights(cores, vectors, g):
            batch = t3f.TensorTrainBatch(vectors)
            return t3f.project_sum(batch, t3f.TensorTrain(cores), g[:, 0]).tt_cores

        def by_scaling(cores, vectors, g):
            batch = t3f.multiply_along_batch_dim(t3f.TensorTrainBatch(vectors), g[:, 0])
            return t3f.project_sum(batch, t3f.TensorTrain(cores)).tt_cores

        data = self.cores, self.vectors, self.g
        return (
            self.in_graphs(super().projection())
            | self.graphs(
                by_weights,
                read_cores,
                *data,
                name="project_sum with weights",
                compilers=("graph",),
            )
            | self.graphs(by_scaling, read_cores, *data, name="project_sum of a scaled batch")
        )

    def moved_by_project_sum(self, cores, vectors):
        import t3f
        from t3f.riemannian import deltas_to_tangent_space

        W, batch = t3f.TensorTrain(cores), t3f.TensorTrainBatch(vectors)
        g = self.moved(t3f.flat_inner(batch, W)[:, None])[:, 0]
        xi = t3f.project_sum(t3f.multiply_along_batch_dim(batch, g), W)
        left = t3f.orthogonalize_tt_cores(W)  # the same nodes of the graph as in project_sum
        right = t3f.orthogonalize_tt_cores(left, left_to_right=False)
        deltas = list(t3f.tangent_space_to_deltas(xi))
        deltas[-1] += left.tt_cores[-1]
        return deltas_to_tangent_space(deltas, W, left, right).tt_cores

    def step(self):
        """Compiled up to the rounding, and not further: XLA's SVD is a loop of rotations."""
        import tensorflow as tf

        forms = {}
        for name, move, *data in (
            ("sweeps", self.moved_cores, self.cores, self.one, self.columns),
            ("project_sum", self.moved_by_project_sum, self.cores, self.vectors),
        ):
            for compiler in self.compilers:
                inner = tf.function(move, jit_compile=compiler == "XLA")

                def run(*data, inner=inner):
                    return self.roundings()["round"](inner(*data), self.problem.rank)

                call = partial(tf.function(run), *data)
                forms[f"{name}, {compiler}, round"] = Form(call, read_cores)
        return forms

    def rounding(self):
        return self.in_graphs(super().rounding(), compilers=("graph",))

    def inference(self):
        import t3f

        def inner(cores, vectors):
            f = t3f.flat_inner(t3f.TensorTrainBatch(vectors), t3f.TensorTrain(cores))
            return [f[:, None]]

        forms = self.graphs(inner, read_predictions, self.cores, self.vectors, name="flat_inner")
        for name, parts in self.parts().items():
            one_part = partial(predict, self.arrays)
            for graph, form in self.graphs(one_part, None, self.cores, name=name).items():

                def run(call=form.call, parts=parts):
                    return [call(*part) for part in parts]

                forms[graph] = Form(run, read_predictions)
        return forms


PEERS = (T3F, TorchTT, TnTorch, Teneva, Ttml)
