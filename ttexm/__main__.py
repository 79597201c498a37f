"""The paper's synthetic data, small: find the products that decide a label. ``python -m ttexm``."""

import argparse
import importlib.util
import time

import numpy as np

import ttexm

TRAIN, TEST, FEATURES, INTERACTIONS, ORDER = 20_000, 10_000, 20, 8, 6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m ttexm",
        description="Run a demo: find the products of features that decide a label, and compare "
        "with logistic regression and boosted trees. Takes about a minute, and another one "
        "the first time.",
    )
    parser.add_argument("--version", action="version", version=f"ttexm {ttexm.__version__}")
    parser.parse_args(arguments)
    run_demo()


def run_demo() -> None:
    # Here, and not above: scikit-learn takes a second to import, and --help needs none of it.
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    from .datasets import make_interactions

    print(
        f"ttexm {ttexm.__version__}, {ttexm.get_num_threads()} threads. The first run on a machine "
        "takes about"
    )
    print("a minute longer: kernels are compiled where they are first used, and kept.\n")
    made = make_interactions(TRAIN + TEST, FEATURES, INTERACTIONS, ORDER, random_state=0)
    X, y = made.data, made.labels
    print(f"{TRAIN} rows of {FEATURES} features, each -1 or 1. The label is the sign of a sum of")
    print(
        f"{INTERACTIONS} products of {ORDER} features, out of {2**FEATURES} products there are.\n"
    )
    warm_up()
    model = ttexm.ExMClassifier(random_state=0, verbose=has_tqdm())
    rivals = [LogisticRegression(), HistGradientBoostingClassifier(random_state=0)]
    rows = [compare(rival, X, y) for rival in (model, *rivals)]
    print(f"\n{'':<34}{'AUC on new rows':>16}{'seconds':>10}")
    for name, auc, seconds in rows:
        print(f"  {name:<32}{auc:>16.4f}{seconds:>10.1f}")
    show_weights(model, made.interactions)
    print(f"\nThe strongest of all {2**FEATURES} sets of features, by their share of the variance")
    print(model.top_interactions(INTERACTIONS))


def has_tqdm() -> bool:
    """Whether there is a progress bar to show."""
    if importlib.util.find_spec("tqdm") is not None:
        return True
    print("(With tqdm, pip install 'ttexm[progress]', a progress bar is shown here.)")
    return False


def warm_up() -> None:
    """Have the kernels compiled, or loaded, before anything is timed."""
    x = np.random.default_rng(0).choice([-1.0, 1.0], (8000, 8))
    for rows in (1000, 8000):  # few rows are taken in double precision, many in single
        ttexm.ExMClassifier(random_state=0).fit(x[:rows], x[:rows, :3].prod(axis=1))


def compare(model: "ttexm.ExMClassifier", X: np.ndarray, y: np.ndarray) -> tuple[str, float, float]:
    """Return the name, the AUC on the test rows, and the seconds of a fit."""
    from sklearn.metrics import roc_auc_score

    start = time.perf_counter()
    model.fit(X[:TRAIN], y[:TRAIN])
    seconds = time.perf_counter() - start
    p = model.predict_proba(X[TRAIN:])[:, 1]
    return type(model).__name__, roc_auc_score(y[TRAIN:], p), seconds


def show_weights(
    model: "ttexm.ExMClassifier", interactions: list[tuple[tuple[int, ...], float]]
) -> None:
    """Print the true interactions, and the weights that the model has for them."""
    groups, true = zip(*interactions, strict=True)
    found = np.array([model.coefficient(*(f"x{k}" for k in group)) for group in groups])
    # Labels tell the sum's sign, not its size: one factor is free.
    found = found * (found @ true) / (found @ found)
    print("\nThe true interactions, and their weights in the model (up to a common factor)")
    for j in np.argsort(-np.abs(true)):
        names = " ".join(f"x{k}" for k in groups[j])
        print(f"  {names:<28}true {true[j]:>7.3f}    found {found[j]:>7.3f}")


if __name__ == "__main__":
    main()
