"""The constants of the search for settings, all in one place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ScreeningPlan:
    """How products are screened, see `Screening`.

    Parameters
    ----------
    margin : float
        Standard deviations by which a product has to exceed the largest that chance gives.
    fewest_rows : float
        A function has to differ from its most frequent value in this many rows.
    most_products : int
        A cut with more pairs of products than this is searched to a lower order.
    most_work : float
        Multiplications for all cuts; if there would be more, only pairs are screened.
    most_functions : int
        Pairs are screened if there are at most this many functions.
    n_passes : int
        Passes over all pairs.
    most_terms : int
        Products that are fitted together.
    rows_at_once : int
        Rows whose products are in memory at once.
    double_precision_rows : int
        Rows up to which products are computed in double precision.
    most_rows : int
        Rows that are screened, at most.
    most_rank : int
        Highest rank of a start from screened products.
    rounding : float
        Relative error of the rounded sum of products.
    gain : float
        A model that starts from screened products is taken if it lowers the loss by this share.
    """

    margin: float = 0.5
    fewest_rows: float = 15.5
    most_products: int = 2**20
    most_work: float = 1e12
    most_functions: int = 8192
    n_passes: int = 4
    most_terms: int = 500
    rows_at_once: int = 8192
    double_precision_rows: int = 5_000
    most_rows: int = 30_000
    most_rank: int = 24
    rounding: float = 1e-3
    gain: float = 0.05


@dataclass(frozen=True)
class SearchPlan:
    """What the search tries, and how it decides.

    Parameters
    ----------
    ridges : tuple of float
        Penalties of the linear model, from large to small: see `Candidate.ridge`.
    order_scales : tuple of float
    ranks : tuple of three int
        The first is for exploring, the second for judging; the best candidate is tried at all.
    higher, lower : int
        How many penalties to explore above and below the best one of the linear model.
    rows_per_rank : int
        No rank above the number of rows divided by this is tried.
    most_rows : int
        Rows that are used by the search, at most.
    few_rows : int
        Up to this number of rows there are `n_folds` folds, all explored on; else there is one fold
        fewer, and exploring takes one of them.
    n_folds : int
    fewest_rows : int
        With fewer distinct rows the linear model is taken without a search.
    few_values, few_cells : int
        A table of all combinations is small if each column has at most `few_values` values and
        there are at most `few_cells` combinations. No row of it can be left out to validate with,
        so that the weakest penalty is taken without a search.
    exploring_sweeps, judging_sweeps, most_sweeps : int
        Sweeps of a candidate that is explored, that is judged, and that is the best so far.
    n_candidates : int
        Candidates that are judged.
    patience : int
        Sweeps without a better loss after which a candidate is given up.
    improvement : float
        Share of the loss that counts as better.
    many_columns : int
        Tables of at least this many columns get less of everything: one exploring sweep at one
        penalty, one candidate fewer, at most `few_sweeps` sweeps and a patience of 1.
    few_sweeps : int
    as_good : float
        Candidates within this number of standard errors of the best one are as good as that, and
        the simplest of them is taken.
    padding : float
        Norm of the random tensor that fills the ranks of a start, relative to the start.
    double_precision_rows : int
        Rows up to which partial products are in double precision; more are in single precision, as
        memory counts then.
    screening : ScreeningPlan
    """

    ridges: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
    order_scales: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 1.0)
    ranks: tuple[int, ...] = (4, 8, 16)
    higher: int = 1
    lower: int = 2
    rows_per_rank: int = 50

    most_rows: int = 20_000
    few_rows: int = 5_000
    n_folds: int = 4
    fewest_rows: int = 8
    few_values: int = 4
    few_cells: int = 64

    exploring_sweeps: int = 2
    judging_sweeps: int = 6
    most_sweeps: int = 20
    n_candidates: int = 3
    patience: int = 3
    improvement: float = 5e-4
    many_columns: int = 100
    few_sweeps: int = 3

    as_good: float = 0.5
    padding: float = 0.02
    double_precision_rows: int = 5_000

    screening: ScreeningPlan = ScreeningPlan()


PLAN = SearchPlan()
