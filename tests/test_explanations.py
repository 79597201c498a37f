"""What fitted estimators say of themselves, against all subsets of the columns."""

import itertools

import naive
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn import inspection
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, SelectFromModel

from ttexm import ExMClassifier, ExMRegressor
from ttexm.data.table import read_table
from ttexm.datasets import make_interactions
from ttexm.explain import summarize
from ttexm.features import Basis, Polynomial

SETTINGS = {"rank": 3, "alpha": 1e-3, "order_scale": 0.7, "max_iter": 3, "random_state": 0}


def table(seed=0, m=160):
    """A curve with missing values, a binary column, a category with missing values, a number."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "dose": rng.gamma(2, 3, m),
            "sex": rng.integers(0, 2, m),
            "drug": rng.choice(["a", "b", "c"], m),
            "age": rng.normal(50, 20, m),
        }
    )
    X.loc[::13, "dose"] = np.nan
    X.loc[::7, "drug"] = None
    y = np.nan_to_num(X.dose.to_numpy()) * (X.sex - 0.5) + (X.drug == "a") * X.age / 10
    return X, y.to_numpy() + rng.normal(0, 0.3, m)


X, Y = table()
THIRDS = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
BARE = {"features": {"age": Basis([np.sin, np.cos], constant=False)}, "init": "gaussian"}
MODELS = {
    "number": lambda: ExMRegressor(**SETTINGS).fit(X, Y),
    "powers": lambda: ExMRegressor(**SETTINGS, features={"age": Polynomial(2, True)}).fit(X, Y),
    "no constant": lambda: ExMRegressor(**SETTINGS, **BARE).fit(X, Y),
    "two targets": lambda: ExMRegressor(**SETTINGS).fit(X, np.stack([Y, Y**2], axis=1)),
    "two classes": lambda: ExMClassifier(**SETTINGS).fit(X, Y > 0),
    "three classes": lambda: ExMClassifier(**SETTINGS).fit(X, THIRDS),
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def number():
    return MODELS["number"]()


def raw(model, X):
    """Raw predictions (m, K) in the units of the target; those of classes sum to 0."""
    is_number = isinstance(model, ExMRegressor)
    f = model.predict(X) if is_number else model.decision_function(X)
    f = f.reshape(len(X), -1)
    is_relative = not is_number and f.shape[1] > 1
    return f - f.mean(axis=1, keepdims=True) if is_relative else f


def parts(model, X):
    """The weights written out (.., K), and the feature vectors of the rows of X."""
    batch = model.model_.columns.encode(read_table(X))
    W = model.model_.raw_weights.full()
    phis = [batch.vectors(k) for k in range(4)]
    return W.reshape(*batch.shape, -1), phis


def games(model, X, bases):
    """The mean over bases of the values of all sets of columns."""
    W, phis = parts(model, X)
    all_values = [naive.game(W, phis, base) for base in bases]
    return {S: np.mean([values[S] for values in all_values], axis=0) for S in all_values[0]}


def column_means(model):
    return [phi.mean(axis=0) for phi in parts(model, X)[1]]


def background_rows(model, rows):
    phis = parts(model, rows)[1]
    return [[phi[b] for phi in phis] for b in range(len(rows))]


def close(found, wanted, rtol=1e-9):
    found = found.reshape(wanted.shape)
    assert_allclose(found, wanted, rtol=rtol, atol=rtol * max(1e-300, np.abs(wanted).max()))


# -- terms -----------------------------------------------------------------------------------------


def test_effects_are_the_terms_of_all_subsets_and_sum_to_the_prediction(model):
    rows = X[:9]
    terms = naive.moebius(games(model, rows, [column_means(model)]))
    total = model.shap_base()
    for S, term in terms.items():
        if S:
            names = [X.columns[k] for k in S]
            found = model.effect(*names, X=rows)
            close(found, term)
            total = total + found.reshape(9, -1)
    close(total, raw(model, rows), 1e-12)


def test_effects_have_mean_zero_and_are_those_of_rows_on_a_grid(model):
    for names in (["drug"], ["dose"], ["age"], ["age", "drug"], ["drug", "dose", "sex"]):
        effect = model.effect(*names)
        grid = list(itertools.product(*effect.points))
        rows = pd.concat([X[:1]] * len(grid), ignore_index=True)
        for name, values in zip(effect.columns, zip(*grid, strict=True), strict=True):
            rows[name] = pd.Series(values, dtype=X[name].dtype)
        close(effect.values, model.effect(*names, X=rows))
        assert len(effect.to_frame()) == len(grid)
        close(
            model.effect(*names[:1], X=X).mean(axis=0) + 1,
            np.ones(effect.values.shape[len(names) :]),
        )


def test_the_axes_of_an_effect_are_in_the_order_of_its_columns(number):
    there, back = number.effect("drug", "dose"), number.effect("dose", "drug")
    assert there.columns == ("drug", "dose")
    assert there.points == back.points[::-1]
    close(there.values, back.values.T)


def test_missing_levels_are_on_the_grid_if_there_were_any(number):
    assert number.effect("drug").points == (["a", "b", "c", None],)
    assert number.effect("sex").points == ([0.0, 1.0],)


# -- variances -------------------------------------------------------------------------------------


def variances(model, output=None):
    W, phis = parts(model, X)
    W = W if output is None else W[..., [output]]
    return naive.term_variances(W, phis, np.full(len(X), 1 / len(X)))


def test_shares_are_those_of_all_subsets(model):
    found, shares = variances(model), model.variance_shares()
    sets = [S for S in found if S]
    total = sum(found[S] for S in sets)
    close(np.array(shares.variance), np.array(total))
    close(shares.first, np.array([found[(k,)] for k in range(4)]) / total)
    with_column = [[S for S in sets if k in S] for k in range(4)]
    close(shares.total, np.array([sum(found[S] for S in within) for within in with_column]) / total)
    close(
        shares.shapley,
        np.array([sum(found[S] / len(S) for S in within) for within in with_column]) / total,
    )
    close(model.feature_importances_, shares.total)
    by_order = [sum(found[S] for S in sets if len(S) == j) / total for j in range(5)]
    close(shares.by_order, np.array(by_order))
    close(model.order_spectrum(), np.array(by_order))
    assert shares.mean_order == pytest.approx(np.arange(5) @ by_order)
    f = raw(model, X)
    assert shares.variance_on_rows == pytest.approx(f.var(axis=0).sum(), rel=1e-9)
    assert shares.ratio == pytest.approx(total / f.var(axis=0).sum(), rel=1e-9)
    assert set(shares.to_frame().index) == set(X.columns)
    on_rows = model.variance_shares(X=X).on_rows
    values = model.shap_values(X).reshape(len(X), 4, -1)
    for k in range(4):
        both = [(values[:, k, o], f[:, o]) for o in range(f.shape[1])]
        covariance = sum(np.cov(*pair, bias=True)[0, 1] for pair in both)
        assert on_rows[k] == pytest.approx(covariance / f.var(axis=0).sum(), abs=1e-9)
    assert on_rows.sum() == pytest.approx(1)
    assert "on rows" in repr(model.variance_shares(X=X))


def test_top_interactions_are_the_strongest_subsets(model):
    found = {S: value for S, value in variances(model).items() if S}
    total, f = sum(found.values()), raw(model, X)
    top = model.top_interactions(15, X=X)
    assert top.is_proved
    assert "proved" in repr(top)
    assert f"on the training rows: {model.variance_shares().ratio:.2f}" in repr(top)
    places = [tuple(X.columns.get_loc(name) for name in one.columns) for one in top]
    close(np.array([one.share for one in top]), np.array(sorted(found.values())[::-1]) / total)
    close(np.array([found[S] for S in places]), np.array(sorted(found.values())[::-1]))
    for one, S in zip(top, places, strict=True):
        assert one.order == len(S)
        assert one.effect == pytest.approx(np.sqrt(found[S]))
        term = model.effect(*one.columns, X=X).reshape(len(X), -1)
        covariance = np.sum((term - term.mean(axis=0)) * (f - f.mean(axis=0)))
        wanted = covariance / np.sum((f - f.mean(axis=0)) ** 2)
        assert one.share_on_rows == pytest.approx(wanted, abs=1e-9)
    assert sum(one.share_on_rows for one in top) == pytest.approx(1)
    pairs = model.top_interactions(3, order=2)
    wanted = sorted((value for S, value in found.items() if len(S) == 2), reverse=True)[:3]
    close(np.array([one.share for one in pairs]), np.array(wanted) / total)


@pytest.mark.parametrize("name", ["two targets", "three classes"])
def test_one_output_has_shares_of_its_own(name):
    model = MODELS[name]()
    target = 1 if name == "two targets" else model.classes_[1]
    found = {S: value for S, value in variances(model, 1).items() if S}
    top = model.top_interactions(3, target=target)
    close(
        np.array([one.share for one in top]),
        np.array(sorted(found.values())[:-4:-1]) / sum(found.values()),
    )
    assert model.variance_shares(target).variance_on_rows == pytest.approx(
        raw(model, X)[:, 1].var()
    )


def test_largest_weights_have_the_names_of_their_functions(number):
    top = number.top_interactions(5, by="weight")
    W = number.model_.raw_weights.full() ** 2
    names = number.feature_map_.slot_names_
    wanted = sorted(
        ((W[index], index) for index in np.ndindex(W.shape) if any(index)), reverse=True
    )[:5]
    total = W.sum() - W[0, 0, 0, 0]
    for one, (square, index) in zip(top, wanted, strict=True):
        assert one.slots == tuple(names[k][i] for k, i in enumerate(index) if i)
        assert one.share == pytest.approx(square / total)
        assert one.effect == pytest.approx(np.sqrt(square))
        number.coefficient(*one.slots)  # these are names that it knows
    by_order = np.zeros(5)
    for index in np.ndindex(W.shape):
        by_order[np.count_nonzero(index)] += W[index]
    close(number.order_spectrum(by="weight"), by_order / by_order.sum())


@pytest.mark.parametrize("name", ["number", "powers", "two classes"])
def test_shares_are_those_of_sampling(name):
    """Columns are drawn independently from the table; one is then drawn again, or all others."""
    model, rng, n = MODELS[name](), np.random.default_rng(0), 40_000

    def drawn():
        return {c: X[c].to_numpy()[rng.integers(0, len(X), n)] for c in X}

    first, second = drawn(), drawn()
    f = raw(model, pd.DataFrame(first))[:, 0]
    shares = model.variance_shares()
    for k, column in enumerate(X):
        alone = raw(model, pd.DataFrame(second | {column: first[column]}))[:, 0]
        others = raw(model, pd.DataFrame(first | {column: second[column]}))[:, 0]
        assert shares.first[k] == pytest.approx(np.cov(f, alone)[0, 1] / f.var(), abs=0.03)
        assert shares.total[k] == pytest.approx(np.mean((f - others) ** 2) / 2 / f.var(), abs=0.03)


@pytest.mark.slow
def test_true_interactions_are_among_the_strongest():
    made = make_interactions(30_000, 30, 20, 6, random_state=100)
    model = ExMRegressor(random_state=0).fit(made.data, made.target)
    found = {one.columns for one in model.top_interactions(20)}
    weights = {tuple(f"x{k}" for k in sorted(group)): weight for group, weight in made.interactions}
    total = sum(weight**2 for weight in weights.values())
    for group, weight in weights.items():
        assert group in found or weight**2 < 1e-3 * total


def test_a_constant_model_has_no_shares():
    model = ExMRegressor(**SETTINGS).fit(X, np.ones(len(X)))
    shares = model.variance_shares()
    assert shares.variance == pytest.approx(0, abs=1e-20)
    assert np.isfinite(shares.total).all()
    assert np.isfinite([one.share for one in model.top_interactions(3)]).all()


def test_scikit_learn_selects_by_importances():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4))
    y = x[:, 0] * x[:, 2]
    machine = ExMRegressor(features=Polynomial(), **SETTINGS)
    chosen = SelectFromModel(machine, threshold=0.5).fit(x, y).get_support()
    assert chosen.tolist() == [True, False, True, False]
    assert RFE(machine, n_features_to_select=2).fit(x, y).support_.tolist() == chosen.tolist()
    importances = inspection.permutation_importance(machine.fit(x, y), x, y, random_state=0)
    assert set(np.argsort(importances.importances_mean)[-2:]) == {0, 2}


# -- single predictions ----------------------------------------------------------------------------


def shapley(values):
    terms = naive.moebius(values)
    return np.stack([naive.index_of(terms, (k,), lambda n: 1 / n) for k in range(4)], axis=1)


def test_shapley_values_under_independent_columns(model):
    rows = X[5:12]
    found = model.shap_values(rows)
    close(found, shapley(games(model, rows, [column_means(model)])))
    total = found.reshape(7, 4, -1).sum(axis=1) + model.shap_base()
    close(total, raw(model, rows), 1e-12)


def test_shapley_values_with_rows_as_background(model):
    rows, others = X[5:9], X[20:26]
    wanted = shapley(games(model, rows, background_rows(model, others)))
    close(model.shap_values(rows, others), wanted)
    close(model.shap_values(rows, pd.concat([others] * 3)), wanted)
    close(model.shap_values(rows, summarize(others, 6)), wanted)
    close(
        model.shap_values(rows, others).reshape(4, 4, -1).sum(axis=1) + model.shap_base(others),
        raw(model, rows),
        1e-12,
    )


def test_a_summary_is_a_mixture_of_clusters(model):
    rows, others = X[5:9], X[20:50]
    summary = summarize(others, 3)
    bases, shares = [], []
    for group in range(3):
        within = others[summary.groups == group]
        shares.append(len(within) / 30)
        bases.append([phi.mean(axis=0) for phi in parts(model, within)[1]])
    wanted = sum(s * shapley(games(model, rows, [b])) for s, b in zip(shares, bases, strict=True))
    close(model.shap_values(rows, summary), wanted)


@pytest.mark.parametrize("index", ["k-SII", "STII"])
def test_interactions_sum_to_the_prediction(model, index):
    rows = X[5:9]
    values = games(model, rows, [column_means(model)])
    terms = naive.moebius(values)
    found = model.shap_interaction_values(rows, index=index).reshape(4, 4, 4, -1)
    for j, k in itertools.combinations(range(4), 2):
        weight = (lambda n: 1 / (n - 1)) if index == "k-SII" else (lambda n: 2 / (n * (n - 1)))
        wanted = naive.index_of(terms, (j, k), weight) / 2
        close(found[:, j, k], wanted, 1e-8)
        close(found[:, k, j], wanted, 1e-8)
    if index == "k-SII":
        close(found.sum(axis=2), shapley(values))
    else:
        close(found[:, range(4), range(4)], np.stack([terms[(k,)] for k in range(4)], axis=1))
    close(found.sum(axis=(1, 2)) + model.shap_base(), raw(model, rows), 1e-12)


def test_set_values_are_moebius_terms(model):
    rows, others = X[5:9], X[20:23]
    sets = [(0,), (1, 3), (0, 2, 3)]
    for background, bases in (
        (None, [column_means(model)]),
        (others, background_rows(model, others)),
    ):
        terms = naive.moebius(games(model, rows, bases))
        wanted = np.stack([terms[S] for S in sets], axis=1)
        close(model.moebius_values(rows, sets, background), wanted)


# -- partial dependence ----------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [[0], [3], [0, 3], [3, 0]])
def test_partial_dependence_is_that_of_scikit_learn(columns):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4))
    model = ExMRegressor(**SETTINGS).fit(x, x[:, 0] * x[:, 3] + x[:, 1])
    wanted = inspection.partial_dependence(model, x, columns, kind="average", grid_resolution=5)
    found = model.partial_dependence(columns, x, wanted["grid_values"])
    assert_allclose(found.values, wanted["average"][0], atol=1e-12)


def test_partial_dependence_without_rows_is_the_mean_and_the_effects(model):
    base = np.atleast_1d(model.shap_base())
    for columns in (["drug"], ["dose", "sex"], ["age", "drug"]):
        found = model.partial_dependence(columns)
        effects = [model.effect(name).values for name in columns]
        d, shape = len(columns), found.values.shape
        total = sum(
            np.expand_dims(values, tuple(k for k in range(d) if k != j))
            for j, values in enumerate(effects)
        )
        pair = model.effect(*columns).values if d == 2 else 0
        close(found.values, np.broadcast_to(total + pair + base.squeeze(), shape))


def test_partial_dependence_is_a_mean_over_rows(model):
    rows = X[:30]
    found = model.partial_dependence("drug", rows)
    for level, value in zip(found.points[0], found.values, strict=True):
        f = raw(model, rows.assign(drug=pd.Series([level] * 30, dtype=X.drug.dtype)))
        is_relative = isinstance(model, ExMClassifier) and f.shape[1] > 1
        close(
            np.asarray(value),
            f.mean(axis=0) if is_relative or f.shape[1] > 1 else f.mean(axis=0)[0],
        )


# -- smaller models --------------------------------------------------------------------------------


def test_a_smaller_rank_costs_what_is_said(model):
    rows = X[:50]
    for rank in (1, 2, 3):
        small = model.compress(rank, rows)
        assert small.weights_.rank <= rank
        f, g = raw(model, rows), raw(small, rows)
        wanted = np.mean((f - g) ** 2) / np.mean((f - f.mean(axis=0)) ** 2)
        assert small.compression_.lost_on_rows == pytest.approx(wanted, rel=1e-6, abs=1e-12)
        W, phis = parts(model, X)
        difference = W - parts(small, X)[0]
        shares = np.full(len(X), 1 / len(X))
        lost = sum(naive.term_variances(difference, phis, shares).values())
        variance = sum(v for S, v in variances(model).items() if S)
        assert small.compression_.lost == pytest.approx(lost / variance, rel=1e-6, abs=1e-12)
    assert not hasattr(model, "compression_")


# -- parts of rows, and errors ---------------------------------------------------------------------


def test_moments_of_partial_fits_are_those_of_all_rows():
    model = ExMRegressor(**SETTINGS).partial_fit(X[:100], Y[:100]).partial_fit(X[100:], Y[100:])
    moments = model.model_.training.moments
    for column, wanted in zip(moments.columns, column_means(model), strict=True):
        assert_allclose(column.mean, wanted, atol=1e-12)
    assert moments.total == pytest.approx(len(X))


WRONG = [
    (lambda m: m.effect("doze"), ValueError, "did you mean 'dose'"),
    (lambda m: m.effect("dose", "dose"), ValueError, "once"),
    (lambda m: m.effect(), ValueError, "at least one column"),
    (lambda m: m.effect(9), ValueError, "from 0 to 3"),
    (lambda m: m.effect(1.5), TypeError, "name or a position"),
    (lambda m: m.top_interactions(0), ValueError, "k must be"),
    (lambda m: m.top_interactions(order=5), ValueError, "from 1 to 4"),
    (lambda m: m.top_interactions(order=(3, 2)), ValueError, "least, most"),
    (lambda m: m.top_interactions(by="size"), ValueError, "'variance' or 'weight'"),
    (lambda m: m.top_interactions(by="weight", X=X), ValueError, "no share on rows"),
    (lambda m: m.top_interactions(target=1), ValueError, "from 0 to 0"),
    (lambda m: m.shap_values(X, X[["dose", "sex"]]), ValueError, "feature"),
    (lambda m: m.shap_values(X, summarize(X[["dose"]], 2)), ValueError, "4 columns"),
    (lambda m: m.shap_interaction_values(X, order=3), ValueError, "order must be 2"),
    (lambda m: m.shap_interaction_values(X, index="SII"), ValueError, "'k-SII' or 'STII'"),
    (lambda m: m.partial_dependence(["dose", "sex", "age"], X), ValueError, "one column or two"),
    (lambda m: m.compress(0), ValueError, "rank must be"),
    (lambda m: summarize(X, 0), ValueError, "between 1 and"),
    (lambda m: summarize(X, 2.5), ValueError, "an integer between 1 and"),
    (lambda m: m.shap_values(X, X[:0]), ValueError, "background must have at least one row"),
    (lambda m: m.partial_dependence("dose", X[:0]), ValueError, "X must have at least one row"),
    (lambda m: m.top_interactions(2, X=X[:0]), ValueError, "X must have at least one row"),
    (lambda m: m.compress(2, X[:0]), ValueError, "X must have at least one row"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_errors_say_what_was_wanted(number, call, error, message):
    with pytest.raises(error, match=message):
        call(number)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, wrong: m.shap_values(wrong),
        lambda m, wrong: m.shap_values(X, wrong),
        lambda m, wrong: m.shap_values(X, summarize(wrong, 2)),
        lambda m, wrong: m.shap_interaction_values(wrong),
        lambda m, wrong: m.effect("drug", X=wrong),
        lambda m, wrong: m.top_interactions(X=wrong),
        lambda m, wrong: m.variance_shares(X=wrong),
        lambda m, wrong: m.partial_dependence("dose", wrong),
        lambda m, wrong: m.compress(2, wrong),
    ],
)
def test_columns_of_another_kind_are_refused_as_by_predict(number, call):
    with pytest.raises(TypeError, match="'drug' was fitted on strings"):
        call(number, X.assign(drug=1.0))


def test_a_grid_of_another_kind_is_refused(number):
    with pytest.raises(TypeError, match="'drug' was fitted on strings"):
        number.partial_dependence("drug", X, [1.0, 2.0])


def test_weights_are_refused_without_a_constant():
    model = MODELS["no constant"]()
    for call in (model.top_interactions, model.order_spectrum):
        with pytest.raises(ValueError, match="'age' has no constant"):
            call(by="weight")


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.effect("x0"),
        lambda m: m.top_interactions(),
        lambda m: m.variance_shares(),
        lambda m: m.shap_values([[1.0]]),
        lambda m: m.shap_base(),
        lambda m: m.partial_dependence(0),
        lambda m: m.compress(2),
        lambda m: m.feature_importances_,
    ],
)
def test_an_unfitted_model_says_so(call):
    with pytest.raises(NotFittedError):
        call(ExMRegressor())
