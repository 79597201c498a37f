"""A tour of the algebra on tensors of 2^160 entries: ``python -m ttexm``."""

import time

import numpy as np

from . import Manifold, RankOneBatch, TTTensor, __version__, get_num_threads

D, RANK, SAMPLES, STEPS = 160, 4, 5000, 40
INTERACTIONS = {(3, 17, 90): 1.0, (40, 41): -2.0, (60, 100, 120, 159): 0.5}


def main() -> None:
    print(
        f"ttexm {__version__}, {get_num_threads()} threads. The first run on a machine takes about"
    )
    print("a minute longer: kernels are compiled where they are first used, and kept.\n")
    show_algebra()
    show_learning()


def show_algebra() -> None:
    W, Z = (TTTensor.random((2,) * D, RANK, seed) for seed in (0, 1))
    W, Z = W / W.norm(), Z / Z.norm()
    print(f"Two tensors W and Z of 2^{D} entries each, in {W.n_params} numbers")
    show("W[1, 0, 1, .., 0]", lambda: float(W[(1, 0) * (D // 2)]))
    show("<W, Z>", lambda: W.inner(Z))
    show("|W + Z|", lambda: (W + Z).norm())
    show("|W * Z|, the product entry by entry", lambda: (W * Z).norm())
    show("|W + W - (W + W).round(eps=1e-12)|", lambda: (W + W - (W + W).round(eps=1e-12)).norm())
    manifold = Manifold(W.shape, RANK)
    print(f"\nAll such tensors of rank {RANK}, a manifold of dimension {manifold.dim}")
    xi = show("xi = manifold.project(W, Z)", lambda: manifold.project(W, Z))
    show("|xi|", xi.norm)
    show("manifold.retract(W, 0.1 * xi)", lambda: manifold.retract(W, 0.1 * xi))


def show_learning() -> None:
    features = np.random.default_rng(0).choice([-1.0, 1.0], (SAMPLES, D))
    batch = RankOneBatch.from_columns(features)
    truth = sum(weight * interaction(group) for group, weight in INTERACTIONS.items()).round()
    y = truth.contract(batch)
    print(f"\n{SAMPLES} samples of {D} features +-1: each stands for 2^{D} products of features,")
    print(f"of which {len(INTERACTIONS)} have a weight in y")
    show("f = truth.contract(batch)", lambda: truth.contract(batch))
    manifold = Manifold(truth.shape, truth.ranks)
    W = manifold.retract(truth, 1.5 * manifold.random_tangent(truth, seed=0))
    show("manifold.gradient(W, batch, f - y)", lambda: manifold.gradient(W, batch, y))
    print("\nThe weights, found again by Riemannian gradient descent from a point nearby")
    W = descend(manifold, W, batch, y)
    for group, weight in INTERACTIONS.items():
        names = " ".join(f"x{k}" for k in group)
        print(f"  {names:<24} true weight {weight:>5}    found {W[unit_index(group)]:.6f}")


def descend(manifold: Manifold, W: TTTensor, batch: RankOneBatch, y: np.ndarray) -> TTTensor:
    """Riemannian gradient descent on the squared error, each step the best along its line."""
    for step in range(STEPS + 1):
        xi = manifold.gradient(W, batch, lambda f: f - y)
        residual, along = W.contract(batch) - y, xi.to_tensor().contract(batch)
        if step % 10 == 0:
            print(
                f"  step {step:>3}    root mean squared error {np.sqrt(np.mean(residual**2)):.1e}"
            )
        W = manifold.retract(W, -(residual @ along) / (along @ along) * xi)
    return W


def unit_index(group) -> tuple[int, ...]:
    """The entry of W that is the weight of the product of these features."""
    return tuple(int(k in group) for k in range(D))


def interaction(group) -> TTTensor:
    """The tensor whose only entry, 1, is the weight of the product of these features."""
    return TTTensor.rank_one([np.eye(2)[i] for i in unit_index(group)])


def show(what: str, compute):
    """Print what an expression gives and how long it takes, and return it."""
    print(f"  {what:<44}", end="", flush=True)
    result = compute()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        compute()
        seconds.append(time.perf_counter() - start)
    value = f"{result:.6g}" if isinstance(result, float) else ""
    print(f"{value:>14}{1e3 * min(seconds):>10.2f} ms")
    return result


if __name__ == "__main__":
    main()
