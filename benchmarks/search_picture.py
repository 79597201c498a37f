"""The picture of a search in docs/settings.md: the validation loss of all settings that it tries.

``python -m benchmarks.search_picture`` writes ``docs/images/search.svg``; it needs matplotlib.
"""

from dataclasses import replace
from pathlib import Path

import matplotlib
from sklearn.datasets import make_friedman1

from ttexm import ExMRegressor

matplotlib.use("Agg")
from matplotlib import pyplot as plt

FILE = Path(__file__).parents[1] / "docs" / "images" / "search.svg"
KINDS = {
    "linear": ("straight lines", "tab:gray"),
    "smooth": ("smooth curves", "tab:blue"),
    "rough": ("rough curves", "tab:orange"),
    "few": ("few curves", "tab:green"),
}


def draw(model):
    """Draw the losses of all settings in the order of the search; rings mark what is averaged."""
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    tried = list(enumerate(model.search_results_, start=1))
    for basis, (name, color) in KINDS.items():
        for is_additive, what in ((True, "additive"), (False, "with interactions")):
            chosen = [
                (n, one.loss)
                for n, one in tried
                if (one.basis, one.is_additive) == (basis, is_additive)
            ]
            if chosen:
                axes.scatter(
                    *zip(*chosen, strict=True), s=28, label=f"{name}, {what}", edgecolors=color,
                    facecolors="none" if is_additive else color, marker="o",
                )  # fmt: skip
    averaged = [replace(one, weight=1.0) for one in model.averaged_]
    rings = [(n, one.loss) for n, one in tried if one in averaged]
    axes.scatter(
        *zip(*rings, strict=True), s=150, facecolors="none", edgecolors="black",
        label="part of the fitted model",
    )  # fmt: skip
    axes.set(xlabel="settings, in the order of the search", ylabel="validation loss", yscale="log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
    return figure


def main():
    X, y = make_friedman1(1000, noise=1.0, random_state=0)
    model = ExMRegressor(random_state=0).fit(X, y)
    plt.rcParams["svg.hashsalt"] = "ttexm"  # the same file each time
    draw(model).savefig(FILE, metadata={"Date": None})
    print(f"{len(model.search_results_)} settings; written to {FILE}")


if __name__ == "__main__":
    main()
