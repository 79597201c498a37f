"""The paper's datasets: Car, HIV-1 protease, MovieLens 100K, and its synthetic interactions.

Where the files come from, and how they are verified, is in `archives`.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import Bunch, check_random_state

from . import archives
from .checks import check_at_least, check_choice, check_count, check_real

CAR_LEVELS = {
    "buying": ["low", "med", "high", "vhigh"],
    "maint": ["low", "med", "high", "vhigh"],
    "doors": ["2", "3", "4", "5more"],
    "persons": ["2", "4", "more"],
    "lug_boot": ["small", "med", "big"],
    "safety": ["low", "med", "high"],
}
CAR_CLASSES = ["unacc", "acc", "good", "vgood"]
AMINO_ACIDS = list("ACDEFGHIKLMNPQRSTVWY")
# Positions around the cleaved bond, which lies between P1 and P1'.
OCTAMER = ["P4", "P3", "P2", "P1", "P1'", "P2'", "P3'", "P4'"]


def load_car(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load Car Evaluation: 1728 cars, 6 categorical features, 4 classes.

    Parameters
    ----------
    return_X_y : bool
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool
        Return data as a pandas DataFrame of categories with all their levels.

    Returns
    -------
    sklearn.utils.Bunch or tuple
        ``data`` (1728, 6) of str, ``target`` (1728,) with 0 .. 3 for ``target_names`` unacc, acc,
        good, vgood, ``feature_names``, ``categories`` (the levels of each feature), ``frame``
        (data and target, if `as_frame`), ``DESCR``.

    Notes
    -----
    The paper asks for unacc against the rest: ``target > 0``.

    Examples
    --------
    >>> from ttexm.datasets import load_car
    >>> X, y = load_car(return_X_y=True)  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (1728, 6)
    """
    rows = _rows("car", "car.data", ",")
    return _bunch(
        np.array([row[:6] for row in rows], object),
        CAR_LEVELS,
        np.array([CAR_CLASSES.index(row[6]) for row in rows]),
        CAR_CLASSES,
        "Car Evaluation, M. Bohanec, UCI dataset 19 (1997), CC BY 4.0.",
        return_X_y=return_X_y,
        as_frame=as_frame,
    )


def load_hiv1_protease(
    subset: str = "1625", *, return_X_y: bool = False, as_frame: bool = False
) -> Bunch | tuple:
    """Load HIV-1 protease cleavage: which octamers of amino acids the protease cuts.

    Parameters
    ----------
    subset : {"1625", "746", "impens", "schilling"}
        Which collection: 1625 (the paper's), 746, 947 or 3272 octamers, of which 375, 402, 149 or
        434 are cleaved.
    return_X_y, as_frame : bool
        As in `load_car`.

    Returns
    -------
    sklearn.utils.Bunch or tuple
        As from `load_car`; ``data`` (m, 8) holds one letter a position, of 20 amino acids,
        ``target`` is 1 where the octamer is cleaved and 0 where it is not.

    Notes
    -----
    Rows are ordered, not shuffled: stratify before splitting. Some positions of "impens" lack
    some amino acids, so take the levels from ``categories`` rather than from the data.

    Examples
    --------
    >>> from ttexm.datasets import load_hiv1_protease
    >>> load_hiv1_protease("impens").data.shape  # doctest: +SKIP
    (947, 8)
    """
    check_choice("subset", subset, ["1625", "746", "impens", "schilling"])
    rows = _rows("hiv1_protease", f"{subset}Data.txt", ",")
    return _bunch(
        np.array([list(octamer) for octamer, _ in rows], object),
        dict.fromkeys(OCTAMER, AMINO_ACIDS),
        np.array([int(label == "1") for _, label in rows]),
        ["not cleaved", "cleaved"],
        f"HIV-1 protease cleavage, {subset}, T. Rognvaldsson et al., UCI dataset 330 (2015), "
        "CC BY 4.0.",
        return_X_y=return_X_y,
        as_frame=as_frame,
    )


def load_movielens100k(
    variant: str = "rounded",
    encoding: str = "categorical",
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Bunch | tuple:
    """Load MovieLens 100K as the paper's authors prepared it: which ratings are a five.

    Parameters
    ----------
    variant : {"rounded", "unrounded"}
        Ages and release years to the nearest ten (7 and 10 levels), or as they are (61 and 72).
    encoding : {"categorical", "one_hot"}
        26 categorical columns, or a sparse matrix with a column for each of their levels and one
        for each genre: 2703 of them if rounded.
    return_X_y, as_frame : bool
        As in `load_car`; a frame needs ``encoding="categorical"``.

    Returns
    -------
    sklearn.utils.Bunch or tuple
        As from `load_car`; ``data`` (100000, 26) holds age, gender, occupation, first character
        of the zip code, user, item, year and 19 genre flags, or is a scipy.sparse.csr_array;
        ``target`` is 1 for a rating of five and 0 otherwise; rows as in ``u.data``. Whatever the
        encoding, ``categories`` are those of the 26 columns.

    Notes
    -----
    Halves are rounded to even tens (25 to 20, 1995 to 2000), as in the authors' code. The one
    movie without a date has the year "unknown".

    Examples
    --------
    >>> from ttexm.datasets import load_movielens100k, movielens_split
    >>> X, y = load_movielens100k(return_X_y=True)  # doctest: +SKIP
    >>> train, test = movielens_split(y)  # doctest: +SKIP
    """
    check_choice("variant", variant, ["rounded", "unrounded"])
    check_choice("encoding", encoding, ["categorical", "one_hot"])
    if as_frame and encoding == "one_hot":
        raise ValueError("as_frame=True needs encoding='categorical', got 'one_hot'.")
    users, items = _rows("ml-100k", "u.user", "|"), _rows("ml-100k", "u.item", "|")
    genres = [f"genre_{genre}" for genre, _ in _rows("ml-100k", "u.genre", "|")]
    ratings = np.array(_rows("ml-100k", "u.data", "\t"), int)

    digits = -1 if variant == "rounded" else 0
    users = [
        [str(round(int(age), digits)), gender, occupation, code[0], user]
        for user, age, gender, occupation, code in users
    ]
    items = [
        [item, str(round(int(date[-4:]), digits)) if date else "unknown", *flags]
        for item, _, date, _, _, *flags in items
    ]
    names = ["age", "gender", "occupation", "zip", "user", "item", "year", *genres]
    # Users and items are numbered from 1, in the order of their files.
    of_users = np.array(users, object)[ratings[:, 0] - 1]
    of_items = np.array(items, object)[ratings[:, 1] - 1]
    bunch = _bunch(
        np.hstack([of_users, of_items]),
        dict(zip(names, _levels(users) + _levels(items), strict=True)),
        (ratings[:, 2] > 4.5).astype(int),
        ["below five", "five"],
        "MovieLens 100K, F. M. Harper and J. A. Konstan, ACM TiiS 5(4), 2015; GroupLens (1998): "
        "for research, not to be redistributed.",
        as_frame=as_frame,
    )
    if encoding == "one_hot":
        bunch.data, bunch.feature_names = _one_hot(bunch, genres)
    return (bunch.data, bunch.target) if return_X_y else bunch


def movielens_split(
    y: ArrayLike, random_state: int | np.random.RandomState | None = 42
) -> tuple[np.ndarray, ...]:
    """Split the rows of MovieLens 100K as the paper's authors do.

    Half of the positive rows and as many negative ones train, all others test: 21200 and 78800.

    Parameters
    ----------
    y : array of shape (m,)
        Target of `load_movielens100k`.
    random_state : int or numpy.random.RandomState
        The authors' is 42.

    Returns
    -------
    train, test : arrays of int
        Row indices, ascending. (The authors shuffle the rows of each part without a seed.)

    Examples
    --------
    >>> from ttexm.datasets import movielens_split
    >>> train, test = movielens_split([1, 0, 0, 1, 0, 0, 0])
    >>> len(train), len(test)
    (2, 5)
    """
    y = np.asarray(y)
    positive, negative = np.flatnonzero(y == 1), np.flatnonzero(y != 1)
    if not 2 <= len(positive) < 2 * len(negative):
        raise ValueError(
            "y must have at least two ones and more than half as many other values, "
            f"got {len(positive)} ones and {len(negative)} others."
        )
    train, test = train_test_split(positive, test_size=0.5, random_state=random_state)
    others = train_test_split(negative, train_size=len(train), random_state=random_state)
    return np.sort(np.append(train, others[0])), np.sort(np.append(test, others[1]))


def make_interactions(
    n_samples: int = 100_000,
    n_features: int = 30,
    n_interactions: int = 20,
    order: int = 6,
    noise: float = 0.0,
    flip: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Generate the paper's synthetic data: a sum of products of features that are -1 or 1.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of the data. The paper trains on 100 000 rows and tests on as many: generate
        200 000 and split them.
    n_interactions, order : int
        How many products, and of how many distinct features each.
    noise : float
        Standard deviation of Gaussian noise added to the target.
    flip : float
        Share of the labels, from 0 to 1, that are flipped.
    random_state : None, int or numpy.random.RandomState

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (n_samples, n_features), ``target`` (n_samples,), the sum
        ``y = sum_j weight_j prod_{k in columns_j} x_k`` with weights uniform on (-1, 1), plus
        noise; ``labels``, its sign as -1 or 1; ``interactions``, the truth: a list of
        ``(columns, weight)``. Data and interactions do not depend on `noise` and `flip`.

    Examples
    --------
    >>> from ttexm.datasets import make_interactions
    >>> bunch = make_interactions(5, n_features=4, n_interactions=1, order=2, random_state=0)
    >>> ((columns, weight),) = bunch.interactions
    >>> bool((bunch.target == weight * bunch.data[:, columns].prod(axis=1)).all())
    True
    """
    check_count("n_samples", n_samples)
    check_count("n_features", n_features)
    check_count("n_interactions", n_interactions, 0)
    check_count("order", order)
    if order > n_features:
        raise ValueError(f"order must be from 1 to n_features = {n_features}, got {order}.")
    check_at_least("noise", noise, 0)
    check_real("flip", flip)
    if not 0 <= flip <= 1:
        raise ValueError(f"flip must be from 0 to 1, got {flip}.")
    rng = check_random_state(random_state)
    X = rng.choice([-1.0, 1.0], size=(n_samples, n_features))
    subsets = [rng.choice(n_features, order, replace=False) for _ in range(n_interactions)]
    weights = rng.uniform(-1, 1, n_interactions).tolist()
    interactions = [
        (tuple(sorted(subset.tolist())), weight)
        for subset, weight in zip(subsets, weights, strict=True)
    ]
    target = noise * rng.standard_normal(n_samples)
    for columns, weight in interactions:
        target += weight * X[:, columns].prod(axis=1)
    labels = np.where(target < 0, -1, 1)
    labels[rng.permutation(n_samples)[: round(flip * n_samples)]] *= -1
    return Bunch(data=X, target=target, labels=labels, interactions=interactions)


def _rows(dataset, name, separator):
    # u.item is latin-1; the other files are ASCII.
    lines = archives.read(dataset, name).decode("latin-1").split("\n")
    return [line.split(separator) for line in lines if line]


def _levels(table):
    """Sorted levels of each column; zeros in front put numbers in their order."""
    columns = zip(*table, strict=True)
    return [sorted(set(column), key=lambda level: level.zfill(4)) for column in columns]


def _bunch(data, levels, target, target_names, description, *, return_X_y=False, as_frame=False):
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("as_frame=True needs pandas; pip install pandas.") from error
        types = {name: pd.CategoricalDtype(categories) for name, categories in levels.items()}
        data = pd.DataFrame(data, columns=list(levels)).astype(types)
        target = pd.Series(target, name="target")
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=data.assign(target=target) if as_frame else None,
        feature_names=list(levels),
        target_names=target_names,
        categories=list(levels.values()),
        DESCR=description,
    )


def _one_hot(bunch, flags):
    """Sparse columns, one a level and one a flag, and their names; flags are the last features."""
    d = len(bunch.feature_names) - len(flags)
    encoder = OneHotEncoder(categories=bunch.categories[:d])
    hot = encoder.fit_transform(bunch.data[:, :d])
    data = sparse.hstack([hot, sparse.csr_array(bunch.data[:, d:].astype(float))], format="csr")
    return data, [*encoder.get_feature_names_out(bunch.feature_names[:d]), *flags]
