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
        If there are more products than this, those of a lower order are screened.
    most_work : float
        The same for products times rows.
    usual_order : int
        Highest order of the products of a default fit.
    patience : float
        Who asks for a higher order than that gets it for so many times as many products and as much
        work.
    n_passes : int
        Passes over all products, at most.
    least_share : float
        No further pass is made if the products that a pass finds have less than this share of the
        sum of squared z-scores of all that were found: the noise would be hardly lower.
    most_terms : int
        Products that are fitted together.
    numbers_at_once : int
        Values of products that are in memory at once.
    most_rows : int
        Rows that are screened, at most.
    most_rank : int
        Highest rank of a start from screened products.
    rounding : float
        Relative error of the rounded sum of products.
    most_ridge : float
        The penalty of the products is that of the linear model, up to this one.
    gain : float
        A model that starts from screened products is taken if it lowers the loss by this share.
    """

    margin: float = 0.5
    fewest_rows: float = 15.5
    most_products: int = 2**22
    most_work: float = 1e11
    usual_order: int = 6
    patience: float = 10.0
    n_passes: int = 8
    least_share: float = 0.1
    most_terms: int = 500
    numbers_at_once: int = 2**21
    most_rows: int = 30_000
    most_rank: int = 24
    rounding: float = 1e-3
    most_ridge: float = 10.0
    gain: float = 0.05


@dataclass(frozen=True)
class SearchPlan:
    """What the search tries, and how it decides. "Share" means share of the loss.

    Parameters
    ----------
    ridges : tuple of float
        Penalties, from small to large: see `Candidate.ridge`.
    order_scales : tuple of float
        From small to large.
    ranks : tuple of int
        From small to large.
    rows_per_rank : int
        No rank above the number of rows divided by this is tried (but `least_rank` is).
    least_rank : int

    n_folds : int
        Folds up to `few_rows` rows; one fewer for more rows.
    few_rows : int
    most_rows : int
        Rows that the search looks at, at most, but
    rows_per_level, most_rows_of_levels : int
        so many for each level of the categories, up to the second number.
    exploring_rows : tuple of int
        With fewer rows than the first number candidates are explored on all folds, with fewer than
        the second on two, else on one. Tables without curves are explored on all folds up to the
        second of `judging_rows`, then on one.
    fewest_explored_rows : int
        Candidates are explored on more folds if these have fewer rows to validate with, but not on
        more than they are judged on.
    judging_rows : tuple of int
        As `exploring_rows`, for candidates that are judged.
    usual_columns : int
        Rows of tables that have more columns than this, or several outputs, count as more rows for
        `exploring_rows`.
    large_effort : float
        If they count as so many, candidates are judged on two folds at most.

    first_ridge : float
        Where the path of additive models starts.
    additive_tolerance : float
        How exact the additive models of the search are, see `linear.fit_linear`.

    exploring_rank : int
        Rank of candidates that are explored, with one sweep.
    first_scale : float
        Order scale where exploring starts, for tables with curves.
    first_ridges : tuple of two float
        Lowest and highest penalty where it starts.
    linear_scale : float
        Order scale where it starts if straight lines are the better additive model.
    level_scales : tuple of float
        Order scales that are explored first, in tables without curves.
    least_ridge : float
        Lowest penalty where exploring starts there.
    gain : float
        Share by which a step of the exploration has to be better.
    most_explored, fewer_explored : int
        Most candidates explored for the first basis, and for each other one.
    curve_gain : float
        Straight lines are explored as well if curves lower the loss of the additive model by less
        than this share.
    far : float
        Bases that start worse than the best one by more than this share are not explored further.

    judging_rank : int
        Rank of the first candidates that are judged.
    n_judged : int
        How many candidates of the best basis are judged.
    near, near_errors : float
        Candidates that are worse than the best one by more than this share, and by more than so
        many standard errors, are not judged.
    judged_gain : float
        Share by which a step to a lower rank, another order scale or another penalty has to be
        better, and
    rank_gain : float
        one to a higher rank.
    most_judged : int
        Most candidates that are tried in steps from the best one.
    most_sweeps : int
        Most sweeps of a candidate that is judged, of tables without curves and of ranks up to
    quick_rank : int
        this one, and
    judging_sweeps : int
        of others.
    fewest_sweeps : int
    improvement : float
        Share by which one sweep more has to be better.

    as_good : float
        Levels within this number of standard errors of the best one take part in the average. (The
        weights tell the worse ones; with two errors, tables of 300 rows were fitted worse.)
    shrinkage : float
        How much the weights of the average are drawn towards equal ones.
    least_weight : float
        Weights below this are zero.
    n_starts : int
        A model with interactions is an average of so many fits, from different random starts, but
    most_rank : int
        their ranks do not add up to more than this. Nor do those of all members of an average.
    rows_side_by_side : int
        Up to so many rows, threads share the fits of an average. Larger fits are made in turn, each
        on all threads, for the sake of memory.
    roundings : tuple of float
        Relative errors of the rounded average that are tried, from coarse to fine.
    rounding_cost : float
        How much the rounding may change raw predictions: root mean square over the rows, as a share
        of their standard deviation.

    fewest_rows : int
        With fewer distinct rows the linear model is taken without a search.
    few_values, few_cells : int
        A table of all combinations is small if each column has at most `few_values` values and
        there are at most `few_cells` combinations. No row of it can be left out to validate with,
        so that `weak_ridge` is taken without a search.
    weak_ridge : float
    padding : float
        Norm of the random tensor that fills the ranks of a start, relative to the start.
    screening : ScreeningPlan
    """

    ridges: tuple[float, ...] = (
        0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0
    )  # fmt: skip
    order_scales: tuple[float, ...] = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4)
    ranks: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    rows_per_rank: int = 50
    least_rank: int = 4

    n_folds: int = 4
    few_rows: int = 5_000
    most_rows: int = 10_000
    rows_per_level: int = 10
    most_rows_of_levels: int = 30_000
    exploring_rows: tuple[int, int] = (1_200, 2_500)
    fewest_explored_rows: int = 600
    judging_rows: tuple[int, int] = (2_500, 6_000)
    usual_columns: int = 15
    large_effort: float = 8.0

    first_ridge: float = 10.0
    additive_tolerance: float = 1e-5

    exploring_rank: int = 16
    first_scale: float = 0.35
    first_ridges: tuple[float, float] = (3.0, 100.0)
    linear_scale: float = 0.2
    level_scales: tuple[float, ...] = (0.1, 0.2, 0.35, 0.7, 1.0)
    least_ridge: float = 0.3
    gain: float = 2e-3
    most_explored: int = 12
    fewer_explored: int = 5
    curve_gain: float = 0.05
    far: float = 0.25

    judging_rank: int = 16
    n_judged: int = 2
    near: float = 0.03
    near_errors: float = 1.0
    judged_gain: float = 2e-3
    rank_gain: float = 3e-3
    most_judged: int = 10
    most_sweeps: int = 6
    quick_rank: int = 8
    judging_sweeps: int = 2
    fewest_sweeps: int = 1
    improvement: float = 5e-4

    as_good: float = 4.0
    shrinkage: float = 100.0
    least_weight: float = 0.03
    n_starts: int = 4
    most_rank: int = 64
    rows_side_by_side: int = 100_000
    roundings: tuple[float, ...] = (1e-2, 3e-3, 1e-3, 3e-4)
    rounding_cost: float = 2e-3

    fewest_rows: int = 8
    few_values: int = 4
    few_cells: int = 64
    weak_ridge: float = 0.01
    padding: float = 0.02
    screening: ScreeningPlan = ScreeningPlan()


PLAN = SearchPlan()
