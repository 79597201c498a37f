"""Pictures show the numbers that the methods give; the report is a page that stands on its own."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from ttexm import ExMClassifier, ExMRegressor, TTTensor

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is in the extra explain")
from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.image import imread  # noqa: E402

from ttexm import plot  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]
SETTINGS = {"rank": 3, "alpha": 1e-2, "order_scale": 0.7, "max_iter": 3, "random_state": 0}
RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "dose": RNG.gamma(2, 3, 150),
        "drug": RNG.choice(["a", "<b>", "c"], 150),
        "age": RNG.normal(50, 20, 150),
        "sex": RNG.integers(0, 2, 150),
    }
)
X.loc[::9, "drug"] = None
X.loc[::11, "dose"] = np.nan
Y = (X.dose.fillna(0) * (X.drug == "a") + X.age / 20).to_numpy()


@pytest.fixture(scope="module")
def model():
    return ExMRegressor(**SETTINGS).fit(X, Y)


@pytest.fixture(scope="module")
def classes():
    labels = np.array(["low", "middle", "high"])[np.digitize(Y, [2, 5])]
    return ExMClassifier(**SETTINGS).fit(X, labels)


@pytest.fixture
def ax():
    figure = Figure()
    FigureCanvasAgg(figure)
    yield figure.add_subplot()
    figure.canvas.draw()  # what cannot be drawn fails here


def test_a_curve_has_the_values_of_the_effect(model, ax):
    assert plot.effect(model, "dose", X=X, ax=ax) is ax
    (points,), values = model.effect("dose").points, model.effect("dose").values
    curve = ax.lines[-1]
    assert_allclose(curve.get_xdata(), points)
    assert_allclose(curve.get_ydata(), values)
    density = ax.child_axes[0]
    assert sum(bar.get_height() for bar in density.patches) == X.dose.notna().sum()
    assert ax.get_xlabel() == "dose"


def test_levels_are_bars_with_counts(model, ax):
    plot.effect(model, "drug", X=X, ax=ax)
    effect = model.effect("drug")
    assert_allclose([bar.get_width() for bar in ax.patches], effect.values)
    counts = X.drug.fillna("missing").value_counts()
    names = ["missing" if level is None else level for level in effect.points[0]]
    wanted = [f"{name} ({counts[name]})" for name in names]
    assert [label.get_text() for label in ax.get_yticklabels()] == wanted


def test_a_heat_map_is_grey_where_there_are_no_rows(model, ax):
    plot.effect(model, "drug", "sex", X=X[X.drug != "a"], ax=ax)
    values = np.ma.getmaskarray(ax.collections[0].get_array())
    effect = model.effect("drug", "sex")
    assert_allclose(ax.collections[0].get_array().data, effect.values.T)
    column = effect.points[0].index("a")
    assert values[:, column].all()
    assert not np.delete(values, column, axis=1).any()


@pytest.mark.parametrize("columns", [("dose", "age"), ("dose", "drug"), ("drug", "age")])
def test_pairs_of_all_kinds_are_drawn(model, ax, columns):
    plot.effect(model, *columns, X=X, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == columns


def test_bars_are_shares(model, ax):
    plot.top_interactions(model, 5, X=X, ax=ax)
    found = model.top_interactions(5, X=X)
    assert_allclose([bar.get_width() for bar in ax.patches[:5]], [one.share for one in found])
    assert_allclose(ax.lines[0].get_xdata(), [one.share_on_rows for one in found])
    assert [label.get_text() for label in ax.get_yticklabels()] == [one.name for one in found]
    assert ax.get_title() == found.statement


@pytest.mark.parametrize("by", ["variance", "weight"])
def test_the_spectrum_has_the_shares_by_order(model, ax, by):
    plot.order_spectrum(model, by, ax=ax)
    shares = model.order_spectrum(by)
    for bar in ax.patches:
        assert bar.get_height() == shares[round(bar.get_x() + bar.get_width() / 2)]


def test_a_waterfall_leads_from_the_mean_to_the_prediction(model, ax):
    plot.waterfall(model, X[3:4], ax=ax)
    bars = ax.patches
    assert bars[0].get_x() == pytest.approx(model.shap_base())
    last = bars[-1].get_x() + bars[-1].get_width()
    assert last == pytest.approx(model.predict(X[3:4])[0])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert f"sex ({X.sex[3]})" in labels
    with pytest.raises(ValueError, match="one row"):
        plot.waterfall(model, X[:2], ax=ax)


def test_one_class_of_several_has_to_be_named(classes, ax):
    plot.effect(classes, "drug", target="high", ax=ax)
    output = list(classes.classes_).index("high")
    assert_allclose(
        [bar.get_width() for bar in ax.patches], classes.effect("drug").values[:, output]
    )
    plot.waterfall(classes, X[:1], target="low", ax=ax)
    for call in (lambda: plot.effect(classes, "drug"), lambda: plot.waterfall(classes, X[:1])):
        with pytest.raises(ValueError, match="target must name one"):
            call()


def test_history_and_train(model, ax):
    plot.training_history(model, ax=ax)
    assert_allclose(ax.lines[0].get_ydata(), [record.loss for record in model.history_])
    ax.clear()
    plot.train(model, ax=ax)
    ranks = [text.get_text() for text in ax.texts]
    assert ranks == [str(r) for r in model.weights_.ranks[1:-1]]
    ax.clear()
    plot.train(TTTensor.random((2,) * 100, rank=3, seed=0), ax=ax)


def test_a_new_figure_by_default(model):
    from matplotlib import pyplot

    with matplotlib.rc_context({"backend": "Agg"}):
        assert plot.order_spectrum(model).figure in map(pyplot.figure, pyplot.get_fignums())
        pyplot.close("all")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: plot.effect(m), "one column or two"),
        (lambda m: plot.effect(m, "dose", "age", "sex"), "one column or two"),
        (lambda m: plot.effect(m, "dose", X=X[["age"]]), "no column 'dose'"),
        (lambda m: plot.effect(m, "doze"), "did you mean 'dose'"),
    ],
)
def test_errors_say_what_was_wanted(model, call, message):
    with pytest.raises(ValueError, match=message):
        call(model)


# -- the report ------------------------------------------------------------------------------------


class Links(HTMLParser):
    """All addresses that a page asks for, and its text."""

    def __init__(self):
        super().__init__()
        self.addresses, self.text, self.tags = [], "", []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("kind", ["number", "classes", "two classes"])
def test_the_report_stands_on_its_own(tmp_path, model, classes, kind):
    if kind == "two classes":
        y = Y > 4
        chosen = ExMClassifier(**SETTINGS).fit(X, y)
    else:
        chosen, y = (model, Y) if kind == "number" else (classes, classes.predict(X))
    path = tmp_path / "report.html"
    chosen.report(path, X, y)
    page = Links()
    page.feed(path.read_text())
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    assert len(page.addresses) >= 9
    assert "script" not in page.tags
    assert not re.search(r"https?://", path.read_text())
    assert chosen.top_interactions(1)[0].name in page.text
    assert "no other set" in page.text
    assert f"{chosen.variance_shares().ratio:.2f}" in page.text
    assert list(tmp_path.iterdir()) == [path]


def test_the_report_of_a_constant_says_so(tmp_path):
    path = tmp_path / "report.html"
    ExMRegressor(**SETTINGS).fit(X, np.ones(len(X))).report(path, X, np.ones(len(X)))
    assert "The predictions do not vary." in path.read_text()


def test_a_report_that_fails_leaves_the_old_one(tmp_path, model, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(plot, "waterfall", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.report(path, X, Y)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="inconsistent"):
        model.report(path, X, Y[:-1])


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_chromium_shows_the_report(tmp_path, model):
    path, shot = tmp_path / "report.html", tmp_path / "shot.png"
    model.report(path, X, Y)
    chromium = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
    chromium += ["--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}"]

    def run(*arguments):
        command = [*chromium, *arguments, path.as_uri()]
        return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout

    run("--window-size=1000,2000", f"--screenshot={shot}")
    pixels = imread(shot)
    assert pixels.shape[:2] == (2000, 1000)
    assert pixels[..., :3].std() > 0.05  # there is something to see
    text = run("--dump-dom")
    assert b"What matters most" in text
