"""The picture of a model in the README: what its strongest terms are, and two of them.

``python -m benchmarks.reading_picture`` writes ``docs/images/reading.svg``; it needs matplotlib.
"""

from pathlib import Path

import matplotlib
import numpy as np

from ttexm import ExMRegressor, plot

matplotlib.use("Agg")
from matplotlib import pyplot as plt

FILE = Path(__file__).parents[1] / "docs" / "images" / "reading.svg"


def main():
    # The example of the README.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1000, 10))
    y = 3 + 2 * X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3] * X[:, 4] + 0.1 * rng.standard_normal(1000)
    model = ExMRegressor(random_state=0).fit(X[:800], y[:800])
    plt.rcParams["svg.hashsalt"] = "ttexm"  # the same file in each run
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    plot.top_interactions(model, 6, X=X[800:], ax=axes[0])
    plot.effect(model, "x0", "x1", X=X, ax=axes[1])
    axes[1].collections[0].set_rasterized(True)
    plot.waterfall(model, X[800:801], ax=axes[2])
    figure.savefig(FILE, metadata={"Date": None})


if __name__ == "__main__":
    main()
