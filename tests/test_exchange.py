"""Shapley values and interactions against the packages shap and shapiq, and their plots."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from ttexm import ExMClassifier, ExMRegressor

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is in the extra explain")
shap = pytest.importorskip("shap", reason="shap is in the extra explain")
shapiq = pytest.importorskip("shapiq", reason="shapiq is in the extra explain")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # those of other packages
]
matplotlib.use("Agg")
SETTINGS = {"rank": 3, "alpha": 1e-3, "order_scale": 0.7, "max_iter": 3, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 5))
Y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 4] + X[:, 0]


@pytest.fixture(scope="module")
def number():
    return ExMRegressor(**SETTINGS).fit(X, Y)


@pytest.fixture(scope="module")
def classes():
    return ExMClassifier(**SETTINGS).fit(X, np.digitize(Y, [-0.7, 0.7]))


def test_values_are_those_of_shap(number):
    explainer = shap.explainers.Exact(number.predict, shap.maskers.Independent(X[:20], 100))
    wanted = explainer(X[30:36])
    found = number.shap_explanation(X[30:36], X[:20])
    assert_allclose(found.values, wanted.values, atol=1e-9)
    assert_allclose(found.base_values, wanted.base_values, atol=1e-9)


def test_values_of_classes_are_those_of_shap(classes):
    def logits(x):
        f = classes.decision_function(x)
        return f - f.mean(axis=1, keepdims=True)

    wanted = shap.explainers.Exact(logits, shap.maskers.Independent(X[:20], 100))(X[30:33])
    found = classes.shap_explanation(X[30:33], X[:20])
    assert_allclose(found.values, wanted.values, atol=1e-9)
    assert_allclose(found.base_values, wanted.base_values, atol=1e-9)
    assert list(found.output_names) == ["0", "1", "2"]


@pytest.mark.parametrize("index", ["k-SII", "STII"])
def test_interactions_are_those_of_shapiq(number, index):
    def game(coalitions):
        rows = np.where(coalitions[:, None], X[30], X[None, :20])
        return number.predict(rows.reshape(-1, 5)).reshape(len(coalitions), 20).mean(axis=1)

    wanted = shapiq.ExactComputer(game, n_players=5)(index, order=2)
    (found,) = number.shapiq_values(X[30:31], index, X[:20])
    for S in found.interaction_lookup:
        if S:
            assert found[S] == pytest.approx(wanted[S], abs=1e-9)
    assert found.baseline_value == pytest.approx(number.shap_base(X[:20]))


def test_their_plots_work(number, classes):
    table = pd.DataFrame(X, columns=list("abcde")).assign(f=np.where(X[:, 0] > 0, "u", "v"))
    table.loc[3, "f"] = None
    model = ExMRegressor(**SETTINGS).fit(table, Y)
    explanation = model.shap_explanation(table[:30])
    for plot in (shap.plots.beeswarm, shap.plots.bar, shap.plots.heatmap):
        plot(explanation, show=False)
        matplotlib.pyplot.close("all")
    shap.plots.waterfall(explanation[0], show=False)
    shap.plots.scatter(explanation[:, "a"], show=False)
    shap.plots.waterfall(classes.shap_explanation(X[:3])[0, :, 1], show=False)
    (values,) = model.shapiq_values(table[:1])
    values.plot_network(show=False)
    values.plot_force(feature_names=np.array(list("abcdef")), show=False)
    (values,) = classes.shapiq_values(X[:1], target=2)
    matplotlib.pyplot.close("all")


def test_several_outputs_are_shown_one_at_a_time(classes):
    with pytest.raises(ValueError, match="one of the outputs"):
        classes.shapiq_values(X[:1])
