"""A page about a fitted estimator: one HTML file with pictures inside, which needs no network."""

import base64
import html
import io
import os
from collections.abc import Callable
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics

from . import plot
from .data.table import Table
from .explain.methods import Readable

N_CURVES, N_PAIRS, N_ROWS, N_TERMS = 6, 4, 3, 12  # that are shown
HALF = 6  # inches from which on a picture has a line of its own
NEAR = 1.25  # ratio of variances up to which shares describe the rows
PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark;
  --text: #1a202c; --soft: #4a5568; --back: #ffffff; --line: #cbd5e0; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e2e8f0; --soft: #a0aec0; --back: #171923; --line: #4a5568; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
p, li { max-width: 46rem; } .note { color: var(--soft); font-size: .92rem; }
table { border-collapse: collapse; margin: .8rem 0; }
th, td { padding: .25rem .8rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
figure { margin: .8rem 0; display: inline-block; max-width: 100%; vertical-align: top; }
figure.half { width: 49%; min-width: 20rem; }
img { max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
@media print { body { max-width: none; margin: 0; } figure, table { break-inside: avoid; }
  :root { --text: #000000; --soft: #333333; --back: #ffffff; --line: #999999; } }
</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
"""
)


def write_report(model: Readable, path: str | os.PathLike, X: Table, y: ArrayLike) -> None:
    """Write a page about an estimator and its predictions for some rows.

    Parameters
    ----------
    model : ExMClassifier or ExMRegressor
    path : str or path
        Written at once: a failure leaves what was there.
    X : Table
        Rows that the model was not trained on, if the page is to tell how good it is.
    y : array (m,)
    """
    target = Path(path)
    page = PAGE.substitute(title=_title(model), body="\n".join(_sections(model, X, y)))
    temporary = target.with_name(target.name + ".part")
    try:
        temporary.write_text(page, encoding="utf-8")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _title(model):
    return f"{type(model).__name__} on {len(model.model_.columns)} columns"


def _sections(model, X, y):
    shares = model.variance_shares()
    yield from _what_it_is(model)
    yield from _how_good(model, X, y)
    yield from _terms(model, X)
    yield from _ratio(shares)
    yield from _columns(model, X, shares)
    yield from _pairs(model, X)
    yield from _orders(model, shares)
    yield from _rows(model, X)


# -- sections --------------------------------------------------------------------------------------


def _what_it_is(model):
    chosen, W = model.selected_, model.weights_
    yield "<h2>The model</h2>"
    yield _paragraph(
        f"It is a sum over all 2^{len(model.model_.columns)} sets of columns, of one term "
        f"for each. The weights are a tensor train of rank {W.rank} with {W.n_params:,} numbers. "
        f"The loss is {type(model.loss_).__name__.lower()}."
    )
    parts = len(model.averaged_)
    text = "It" if parts == 1 else f"It is an average of {parts} models, the largest part of which"
    yield _paragraph(f"{text} has {'no interactions' if chosen.is_additive else 'interactions'}.")
    yield _picture(lambda ax: plot.train(model, ax=ax), (8, 3.2), "The cores of the train")


def _how_good(model, X, y):
    yield "<h2>How good it is</h2>"
    y = np.asarray(y)
    rows = [("rows", f"{len(y):,}")]
    if hasattr(model, "classes_"):
        rows.append(("accuracy", f"{metrics.accuracy_score(y, model.predict(X)):.4f}"))
        if hasattr(model, "predict_proba"):
            p, labels = model.predict_proba(X), model.classes_
            rows.append(("log-loss", f"{metrics.log_loss(y, p, labels=labels):.4f}"))
            if len(labels) == 2 and len(np.unique(y)) == 2:
                rows.append(("AUC", f"{metrics.roc_auc_score(y == labels[1], p[:, 1]):.4f}"))
    else:
        f = model.predict(X)
        rows.append(("R2", f"{metrics.r2_score(y, f):.4f}"))
        rows.append(("root mean squared error", f"{metrics.root_mean_squared_error(y, f):.4g}"))
    yield _table(["on the given rows", ""], rows)
    yield _note("If these are the rows that it was trained on, it looks better than it is.")


def _terms(model, X):
    top = model.top_interactions(N_TERMS, X=X)
    yield "<h2>What matters most</h2>"
    yield _paragraph(
        "Each term is the effect of some columns together, beyond what fewer of them do. Its share "
        "is that of the variance of the raw prediction if the columns were independent, each "
        "distributed as in training. The last column is its covariance with the prediction on the "
        "given rows, as a share of the variance; over all terms it sums to 1."
    )
    rows = [
        (
            one.name,
            str(one.order),
            f"{one.share:.4f}",
            f"{one.effect:.3g}",
            f"{one.share_on_rows:.4f}",
        )
        for one in top
    ]
    yield _table(["columns", "order", "share", "standard deviation", "share on rows"], rows)
    yield _paragraph(f"{top.statement.capitalize()}.")


def _cells(one):
    shares = f"{one.share:.4f}", f"{one.effect:.3g}", f"{one.share_on_rows:.4f}"
    return one.name, str(one.order), *shares


def _ratio(shares):
    yield "<h2>Are the columns independent?</h2>"
    yield _paragraph(
        f"The variance of the raw prediction is {shares.variance:.4g} under independent columns, "
        f"and {shares.variance_on_rows:.4g} on the training rows: a ratio of {shares.ratio:.2f}."
    )
    if np.isnan(shares.ratio):
        text = "The predictions do not vary."
    elif 1 / NEAR <= shares.ratio <= NEAR:
        text = "That is near 1: the shares describe the training rows well."
    elif shares.ratio < 1:
        text = (
            "It is below 1: columns that go together add to each other on the training rows. The "
            "shares say what the model does if each column varies on its own."
        )
    else:
        text = (
            "It is above 1: columns that go together cancel each other on the training rows. The "
            "shares say what the model does if each column varies on its own."
        )
    yield _paragraph(text)


def _columns(model, X, shares):
    yield "<h2>Columns alone</h2>"
    yield _paragraph(
        "The effect of a column on the raw prediction, on average over all other columns; grey, or "
        "in brackets: how often its values occur in the given rows."
    )
    for k in np.argsort(-shares.first, kind="stable")[:N_CURVES].tolist():
        yield from _effects(model, X, [k], (4.8, 3.6), f"Effect of {shares.columns[k]}")


def _effects(model, X, columns, size, text):
    """Pictures of the effect of some columns, one for each class or target."""
    for target in _targets(model):

        def draw(ax, target=target):
            plot.effect(model, *columns, X=X, target=target, ax=ax)

        yield _picture(draw, size, text + _of(target))


def _pairs(model, X):
    if len(model.model_.columns) < 2:
        return
    yield "<h2>Pairs of columns</h2>"
    yield _paragraph(
        "What two columns do together beyond what each does alone. Grey: no rows there."
    )
    for one in model.top_interactions(N_PAIRS, order=2):
        places = [model.model_.place(name) for name in one.columns]
        text = f"{one.name}, a share of {one.share:.4f}"
        yield from _effects(model, X, places, (4.8, 3.8), text)


def _orders(model, shares):
    yield "<h2>Orders of interaction</h2>"
    yield _paragraph(
        f"The mean number of columns in a term, weighted by variance, is {shares.mean_order:.2f}."
    )
    yield _picture(lambda ax: plot.order_spectrum(model, ax=ax), (5, 3.2), "Shares by order")


def _rows(model, X):
    yield "<h2>Single rows</h2>"
    yield _paragraph(
        "How columns and pairs add up to the raw prediction of a row, from the mean under "
        "independent columns. Of the given rows, those with the lowest, a middle and the highest "
        "prediction."
    )
    f = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    target = _targets(model)[-1]
    f = f if f.ndim == 1 else f[:, model.output_of(target)]
    order = np.argsort(f, kind="stable")
    chosen = dict.fromkeys(order[np.linspace(0, len(order) - 1, N_ROWS).astype(int)].tolist())
    for row in chosen:

        def draw(ax, row=row):
            plot.waterfall(model, X[row : row + 1], target=target, ax=ax)

        yield _picture(draw, (8.5, 4.4), f"Row {row}{_of(target)}")


def _targets(model):
    """All classes or targets, at most three; None if there is one output."""
    if not model.model_.has_outputs:
        return [None]
    names = getattr(model, "classes_", range(model.weights_.shape[-1]))
    return list(names)[:3]


def _of(target):
    return "" if target is None else f", for {target}"


# -- parts of the page -----------------------------------------------------------------------------


def _paragraph(text):
    return f"<p>{html.escape(text)}</p>"


def _note(text):
    return f'<p class="note">{html.escape(text)}</p>'


def _table(head, rows):
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _picture(draw: Callable, size: tuple[float, float], text: str) -> str:
    """A drawing as an image inside the page, with a description for those who cannot see it."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(plot.ADVICE) from None

    figure = Figure(size, layout="constrained")  # without pyplot, which keeps figures open
    FigureCanvasAgg(figure)
    draw(figure.add_subplot())
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    data = base64.b64encode(buffer.getvalue()).decode()
    text = html.escape(text)
    width = "half" if size[0] < HALF else "whole"
    return (
        f'<figure class="{width}"><img alt="{text}" src="data:image/png;base64,{data}">'
        f'<figcaption class="note">{text}</figcaption></figure>'
    )
