"""Pictures of fitted estimators, as matplotlib axes (extra ``explain``).

Each function takes ``ax``, draws on it, or on a new one, and returns it.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .data.columns import NumberColumn
from .data.table import TableLike, read_table
from .explain.effects import Effect
from .explain.methods import Readable
from .tt.tensor import TTTensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ADVICE = 'Pictures need matplotlib: python -m pip install "ttexm[explain]"'
BLUE, RED, GREY, LIGHT = "#2b6cb0", "#c53030", "#4a5568", "#cbd5e0"
N_BINS = 40  # of the values below a curve
MOST_BARS = 12  # of a waterfall
MOST_TICKS = 24  # levels that are named
MOST_RANKS = 40  # that are written between cores
LONGEST = 28  # letters of a value in a label


def effect(
    model: Readable,
    *columns: str | int,
    X: TableLike | None = None,
    target: Hashable = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what one column does alone, or what two do together beyond that.

    A number is a curve, a category bars, a pair a heat map.

    Parameters
    ----------
    model : ExMClassifier or ExMRegressor
    *columns : str or int
        One or two.
    X : table, optional
        Rows whose values are shown: their density below a curve or behind bars; places of a heat
        map where there are none are grey.
    target : optional
        A class, or the position of a target; wanted if there are several.
    ax : matplotlib axes, optional
    """
    if not 1 <= len(columns) <= 2:
        raise ValueError(f"A picture shows one column or two, got {len(columns)}.")
    shown = model.effect(*columns)
    shown = Effect(shown.columns, shown.points, _of_target(model, shown.values, target))
    ax = _axes(ax)
    values = None if X is None else [_column(X, name) for name in shown.columns]
    if len(columns) == 2:
        _heat_map(ax, shown, values)
    elif _is_curve(shown.points[0]):
        _curve(ax, shown, values)
    else:
        _bars(ax, shown, values)
    return ax


def _of_target(model, values, target):
    output = model.output_of(target)
    if not model.model_.has_outputs:
        return values
    if output is None:
        raise ValueError("target must name one of several classes or targets.")
    return values[..., output]


def _axes(ax):
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(ADVICE) from None
    return pyplot.subplots(layout="constrained")[1]


def _column(X, name):
    table = read_table(X)
    names = [column.name for column in table]
    if name not in names:
        raise ValueError(f"X has no column {name!r}; its columns are {names[:20]}.")
    return table.columns[names.index(name)]


def _is_curve(points):
    """Whether the points are numbers, and more than two."""
    is_number = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in points)
    return is_number and len(points) > 2


def _label(value):
    """A value in a label: short, and missing values by name."""
    if value is None or value != value:
        return "missing"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _curve(ax, shown, values):
    (name,), (points,) = shown.columns, shown.points
    ax.axhline(0, color=LIGHT, linewidth=1)
    ax.plot(points, shown.values, color=BLUE, linewidth=2)
    if values is not None:
        x = values[0].numbers()
        density = ax.inset_axes([0, 0, 1, 0.18], zorder=0)
        density.hist(np.clip(x[~np.isnan(x)], points[0], points[-1]), N_BINS, color=LIGHT)
        density.set_xlim(ax.get_xlim())
        density.axis("off")
        low, high = ax.get_ylim()
        ax.set_ylim(low - 0.22 * (high - low), high)
    ax.set(xlabel=name, ylabel=f"effect of {name}")


def _bars(ax, shown, values):
    (name,), (points,) = shown.columns, shown.points
    effects, order = shown.values, np.arange(len(points))
    if len(points) > MOST_TICKS:
        order = np.sort(np.argsort(-np.abs(effects))[:MOST_TICKS])
        ax.set_title(f"the {MOST_TICKS} largest of {len(points)} effects", fontsize="medium")
    places = np.arange(len(order))
    labels = [_label(points[i]) for i in order]
    if values is not None:
        counts = _counts(values[0], points)
        labels = [f"{label} ({counts[i]})" for label, i in zip(labels, order, strict=True)]
    colors = [RED if effects[i] > 0 else BLUE for i in order]
    ax.barh(places, effects[order], color=colors, height=0.7)
    ax.axvline(0, color=GREY, linewidth=1)
    ax.set_yticks(places, labels)
    ax.invert_yaxis()
    ax.set(xlabel=f"effect of {name}", ylabel=name)


def _places(column, points):
    """The nearest point of each row, -1 where there is none."""
    if _is_curve(points) or isinstance(column, NumberColumn):
        x = column.numbers()
        known = np.array([p for p in points if p is not None], float)
        nearest = np.abs(np.nan_to_num(x)[:, None] - known).argmin(axis=1)
        missing = points.index(None) if None in points else -1
        return np.where(np.isnan(x), missing, nearest)
    slots = column.slots({p: i for i, p in enumerate(points, start=1) if p is not None})
    missing = points.index(None) if None in points else -1
    return np.where(slots > 0, slots - 1, missing)


def _counts(column, points):
    places = _places(column, points)
    return np.bincount(places[places >= 0], minlength=len(points))


def _heat_map(ax, shown, values):
    z, has_rows = shown.values.T, np.ones(shown.values.T.shape, bool)
    if values is not None:
        places = [_places(c, p) for c, p in zip(values, shown.points, strict=True)]
        known = (places[0] >= 0) & (places[1] >= 0)
        has_rows[:] = False
        has_rows[places[1][known], places[0][known]] = True
    limit = np.abs(z[has_rows]).max(initial=0) or 1.0
    edges = [_edges(points) for points in shown.points]
    mesh = ax.pcolormesh(
        *edges, np.ma.array(z, mask=~has_rows), cmap="RdBu_r", vmin=-limit, vmax=limit
    )
    ax.set_facecolor("#d4d4d4")
    for axis, points in zip((ax.xaxis, ax.yaxis), shown.points, strict=True):
        if not _is_curve(points):
            axis.set_ticks(np.arange(len(points)), [_label(p) for p in points])
    if not _is_curve(shown.points[0]) and len(shown.points[0]) > 6:
        ax.tick_params(axis="x", rotation=90)
    ax.figure.colorbar(mesh, ax=ax, label="effect beyond each alone")
    ax.set(xlabel=shown.columns[0], ylabel=shown.columns[1])


def _edges(points):
    """Edges of cells around points: halfway between numbers, one apart for levels."""
    if not _is_curve(points):
        return np.arange(len(points) + 1) - 0.5
    x = np.array(points, float)
    return np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]])


def top_interactions(
    model: Readable,
    k: int = 10,
    order: int | tuple[int, int] | None = None,
    by: str = "variance",
    X: TableLike | None = None,
    target: Hashable = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the strongest sets of columns as bars of their shares; colours show the order.

    Parameters as of the method `top_interactions`. With X, marks show the share on these rows.
    """
    found = model.top_interactions(k, order, by, X, target)
    ax = _axes(ax)
    places = np.arange(len(found))
    ax.barh(places, [one.share for one in found], color=[_order_color(one.order) for one in found])
    if X is not None:
        marks = [one.share_on_rows for one in found]
        ax.plot(marks, places, "D", color=GREY, markersize=4, label="on rows")
    ax.set_yticks(places, [_shorten(one.name) for one in found])
    ax.invert_yaxis()
    what = "variance" if by == "variance" else "squared weights"
    ax.set(xlabel=f"share of the {what}", title=found.statement)
    ax.title.set_fontsize("medium")
    for j in sorted({one.order for one in found}):
        ax.barh([0], [0], color=_order_color(j), label=f"order {j}")
    ax.legend(loc="lower right")
    return ax


def _order_color(order):
    colors = [BLUE, "#dd6b20", "#38a169", "#805ad5", "#b7791f"]
    return colors[min(order, len(colors)) - 1]


def _shorten(name):
    return name if len(name) <= 2 * LONGEST else name[: 2 * LONGEST - 1] + "…"


def order_spectrum(
    model: Readable,
    by: str = "variance",
    target: Hashable = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the share of all terms of each order, on a logarithmic axis.

    Parameters as of the method `order_spectrum`.
    """
    shares = model.order_spectrum(by, target)
    ax = _axes(ax)
    least = 1e-8 * max(shares.max(), 1e-300)
    last = max(np.flatnonzero(shares > least), default=1)
    orders = np.arange(1 if by == "variance" else 0, last + 1)
    ax.bar(orders, shares[orders], color=[_order_color(max(1, j)) for j in orders])
    ax.set_yscale("log")
    ax.set_xticks(orders)
    what = "variance" if by == "variance" else "squared weights"
    ax.set(xlabel="order: number of columns", ylabel=f"share of the {what}")
    return ax


def waterfall(
    model: Readable,
    row: TableLike,
    background: Any = None,
    target: Hashable = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how columns and pairs of columns add up to one prediction f.

    Bars are the effects of columns and pairs by the index of Shapley and Taylor, the largest ones
    first; labels have the values of the row.

    Parameters
    ----------
    model : ExMClassifier or ExMRegressor
    row : table of one row
    background : table or Background, optional
        As of `shap_values`.
    target : optional
        A class, or the position of a target; wanted if there are several.
    ax : matplotlib axes, optional
    """
    table = read_table(row)
    if len(table) != 1:
        raise ValueError(f"row must be a table of one row, got {len(table)} rows.")
    matrix = _of_target(
        model, model.shap_interaction_values(row, index="STII", background=background)[0], target
    )
    base = _of_target(model, np.atleast_1d(model.shap_base(background)), target)
    base = float(np.squeeze(base))
    labels = [f"{c.name} ({_label(_value(c))})" for c in table]
    steps = [(matrix[k, k], labels[k]) for k in range(len(labels))]
    for j in range(len(labels)):
        for k in range(j + 1, len(labels)):
            steps.append((2 * matrix[j, k], f"{labels[j]} x {labels[k]}"))
    steps.sort(key=lambda step: -abs(step[0]))
    shown, rest = steps[:MOST_BARS], steps[MOST_BARS:]
    if rest:
        shown.append((sum(value for value, _ in rest), f"{len(rest)} others"))
    ax, at = _axes(ax), base
    for place, (value, _) in enumerate(shown):
        ax.barh(place, value, left=at, color=RED if value > 0 else BLUE, height=0.7)
        end = at + value
        if place < len(shown) - 1:
            ax.plot([end, end], [place - 0.35, place + 1.35], color=GREY, linewidth=0.6)
        ax.annotate(
            f"{value:+.3g}", (max(at, end), place), xytext=(3, 0), textcoords="offset points",
            va="center", fontsize="small",
        )  # fmt: skip
        at = end
    ax.axvline(base, color=LIGHT, linewidth=1, zorder=0)
    ax.set_yticks(np.arange(len(shown)), [_shorten(label) for _, label in shown])
    ax.invert_yaxis()
    ax.use_sticky_edges = False
    ax.margins(x=0.2)
    ax.autoscale_view()
    ax.set(xlabel="raw prediction f", title=f"from the mean, {base:.3g}, to {at:.3g}")
    ax.title.set_fontsize("medium")
    return ax


def _value(column):
    if isinstance(column, NumberColumn):
        return float(column.values[0])
    return None if column.codes[0] < 0 else column.entries[column.codes[0]]


def training_history(model: Readable, ax: "Axes | None" = None) -> "Axes":
    """Draw the loss after each iteration of the last training."""
    ax = _axes(ax)
    history = model.history_
    iterations = [record.iteration for record in history]
    ax.plot(iterations, [record.loss for record in history], "o-", color=BLUE)
    ax.set(xlabel="iteration", ylabel="objective: mean loss and penalty")
    return ax


def train(model: Readable | TTTensor, ax: "Axes | None" = None) -> "Axes":
    """Draw the chain of cores, with the ranks between them."""
    W = model if isinstance(model, TTTensor) else model.weights_
    names = [str(k) for k in range(W.ndim)]
    if not isinstance(model, TTTensor):
        names = [column.name for column in model.model_.columns]
        names += ["outputs"] * model.model_.has_outputs
    ax = _axes(ax)
    d, ranks = W.ndim, np.array(W.ranks, float)
    top = ranks.max()
    for k in range(d):
        ax.fill(
            [k, k + 1, k + 1, k],
            [-ranks[k], -ranks[k + 1], ranks[k + 1], ranks[k]],
            color=BLUE, alpha=0.25 + 0.1 * (k % 2),
        )  # fmt: skip
    for k in range(1, d):
        if d <= 40:
            ax.annotate(
                str(W.ranks[k]), (k, W.ranks[k]), ha="center", va="bottom", fontsize="small"
            )
    ax.set_xlim(0, d)
    ax.set_ylim(-1.1 * top, 1.2 * top)
    step = max(1, d // MOST_TICKS)
    shown = np.arange(0, d, step)
    labels = [f"{_label(names[k])} ({W.shape[k]})" for k in shown]
    ax.set_xticks(shown + 0.5, labels, rotation=90)
    ax.set_yticks([])
    ax.set_title("cores (numbers of slots), with the ranks between them", fontsize="medium")
    return ax


__all__: Sequence[str] = [
    "effect",
    "order_spectrum",
    "top_interactions",
    "train",
    "training_history",
    "waterfall",
]
