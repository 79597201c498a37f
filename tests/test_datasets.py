"""Datasets: facts about the files, where they come from, and the synthetic interactions.

The original archives are out of reach of the tests: downloads come, through pooch, from a
server on this machine that offers small archives of the same form.
"""

import functools
import hashlib
import http.server
import io
import os
import re
import shutil
import sys
import threading
import zipfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pooch
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from ttexm import archives
from ttexm.datasets import (
    load_car,
    load_hiv1_protease,
    load_movielens100k,
    make_interactions,
    movielens_split,
)

needs_data = pytest.mark.skipif(
    not os.environ.get("TTEXM_DATA"),
    reason="needs the datasets: set TTEXM_DATA to a folder with car, hiv1_protease and ml-100k",
)
ONE_CAR = b"low,med,2,4,small,high,acc\n"
movielens = functools.cache(load_movielens100k)


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def one_car(monkeypatch):
    monkeypatch.setitem(archives.SHA256, "car", {"car.data": hashlib.sha256(ONE_CAR).hexdigest()})


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Path of the file that is offered for download as the archive of Car."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    (tmp_path / "served").mkdir()
    handler = functools.partial(Handler, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01]).start()
        url = f"http://127.0.0.1:{server.server_port}/car.zip"
        monkeypatch.setitem(archives.ARCHIVES, "car", url)
        monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("TTEXM_DATA", raising=False)
        yield tmp_path / "served" / "car.zip"
        server.shutdown()


@needs_data
def test_car_has_1728_rows_each_once_and_four_classes():
    car = load_car()
    assert car.data.shape == (1728, 6)
    assert car.data.dtype == object
    assert len(set(map(tuple, car.data))) == 1728
    assert [len(levels) for levels in car.categories] == [4, 4, 4, 3, 3, 3]
    counts = dict(zip(car.target_names, np.bincount(car.target), strict=True))
    assert counts == {"unacc": 1210, "acc": 384, "good": 69, "vgood": 65}
    assert car.frame is None


@needs_data
@pytest.mark.parametrize(
    ("subset", "rows", "cleaved"),
    [("1625", 1625, 375), ("746", 746, 402), ("impens", 947, 149), ("schilling", 3272, 434)],
)
def test_octamers_are_of_20_amino_acids_and_the_cleaved_are_counted(subset, rows, cleaved):
    X, y = load_hiv1_protease(subset, return_X_y=True)
    assert X.shape == (rows, 8)
    assert set(X.ravel()) == set("ARNDCQEGHILKMFPSTWYV")
    assert_array_equal(np.bincount(y), [rows - cleaved, cleaved])


@needs_data
@pytest.mark.parametrize(("variant", "ages", "years"), [("rounded", 7, 10), ("unrounded", 61, 72)])
def test_movielens_has_26_columns_of_known_levels(variant, ages, years):
    ratings = movielens(variant)
    sizes = [ages, 2, 21, 19, 943, 1682, years, *[2] * 19]
    assert ratings.data.shape == (100_000, 26)
    assert [len(levels) for levels in ratings.categories] == sizes
    assert [len(set(column)) for column in ratings.data.T] == sizes
    for name in ("age", "user", "item"):
        levels = ratings.categories[ratings.feature_names.index(name)]
        assert levels == sorted(levels, key=int)
    assert ratings.target.sum() == 21_201


@needs_data
def test_movielens_joins_the_user_and_the_movie_of_a_rating():
    # u.data begins with 196, 242: 49|M|writer|55105 and Kolya, 24-Jan-1997, a comedy.
    ratings = movielens("unrounded")
    first = dict(zip(ratings.feature_names, ratings.data[0], strict=True))
    assert list(first.values())[:7] == ["49", "M", "writer", "5", "196", "242", "1997"]
    assert {name for name, value in first.items() if value == "1"} == {"genre_Comedy"}
    undated = ratings.data[ratings.data[:, 6] == "unknown"]
    assert set(undated[:, 5]) == {"267"}


@needs_data
def test_movielens_rounds_halves_to_even_tens():
    exact, rounded = movielens("unrounded").data, movielens("rounded").data
    pairs = {(a[k], b[k]) for a, b in zip(exact, rounded, strict=True) for k in (0, 6)}
    halves = {("25", "20"), ("35", "40"), ("1985", "1980"), ("1995", "2000")}
    assert pairs >= {("7", "10"), ("73", "70"), ("1994", "1990"), ("unknown", "unknown")} | halves


@needs_data
def test_one_hot_movielens_has_a_column_for_each_level_and_genre():
    ratings, hot = movielens("rounded"), movielens(encoding="one_hot")
    assert sparse.issparse(hot.data)
    assert hot.data.format == "csr"
    assert hot.data.shape == (100_000, 2703) == (100_000, len(set(hot.feature_names)))
    assert set(hot.data.data) == {1.0}
    assert_array_equal(hot.target, ratings.target)
    n_genres = (ratings.data[:, 7:] == "1").sum(axis=1)
    assert_array_equal(hot.data.sum(axis=1), 7 + n_genres)
    for row in range(0, 100_000, 9973):
        values = list(zip(ratings.feature_names, ratings.data[row], strict=True))
        wanted = {f"{name}_{value}" for name, value in values[:7]}
        wanted |= {name for name, flag in values[7:] if flag == "1"}
        columns = np.flatnonzero(hot.data[[row]].toarray())
        assert {hot.feature_names[k] for k in columns} == wanted


@needs_data
def test_movielens_split_has_the_papers_sizes_and_a_balanced_half():
    y = movielens("rounded").target
    train, test = movielens_split(y)
    assert (len(train), len(test)) == (21_200, 78_800)
    assert y[train].sum() == 10_600
    assert_array_equal(np.sort(np.append(train, test)), np.arange(100_000))


@needs_data
@pytest.mark.parametrize("load", [load_car, load_hiv1_protease, load_movielens100k])
def test_frames_hold_the_same_values_as_categories_with_all_levels(load):
    plain, framed = load(), load(as_frame=True)
    assert_array_equal(framed.data.astype(object).to_numpy(), plain.data)
    assert [list(framed.data[name].cat.categories) for name in framed.data] == plain.categories
    assert list(framed.frame) == [*plain.feature_names, "target"]
    assert_array_equal(framed.frame["target"], plain.target)
    X, y = load(return_X_y=True, as_frame=True)
    assert X.equals(framed.data)
    assert y.equals(framed.target)


@needs_data
def test_frames_keep_amino_acids_that_a_position_lacks():
    octamers = load_hiv1_protease("impens", as_frame=True).data
    assert octamers["P2"].nunique() == 18
    assert len(octamers["P2"].cat.categories) == 20


@given(n_negative=st.integers(6, 40), n_positive=st.integers(2, 11), seed=st.integers(0, 2**32 - 1))
def test_movielens_split_permutes_as_the_authors_scikit_learn_did(n_negative, n_positive, seed):
    y = np.random.default_rng(seed).permutation([0] * n_negative + [1] * n_positive)

    def first_part_tests(rows, n_test):  # sklearn.cross_validation.ShuffleSplit of 2016
        rows = rows[np.random.RandomState(42).permutation(len(rows))]
        return set(rows[n_test:]), set(rows[:n_test])

    n_train = n_positive // 2
    positive = first_part_tests(np.flatnonzero(y == 1), n_positive - n_train)
    negative = first_part_tests(np.flatnonzero(y == 0), n_negative - n_train)
    train, test = movielens_split(y)
    assert train.tolist() == sorted(positive[0] | negative[0])
    assert test.tolist() == sorted(positive[1] | negative[1])


@st.composite
def interaction_settings(draw):
    n_features = draw(st.integers(1, 8))
    return {
        "n_samples": draw(st.integers(1, 9)),
        "n_features": n_features,
        "n_interactions": draw(st.integers(0, 5)),
        "order": draw(st.integers(1, n_features)),
        "random_state": draw(st.integers(0, 2**32 - 1)),
    }


@given(interaction_settings())
def test_target_is_the_sum_of_the_interactions(settings):
    made = make_interactions(**settings)
    assert len(made.interactions) == settings["n_interactions"]
    for x, y, label in zip(made.data, made.target, made.labels, strict=True):
        wanted = 0.0
        for columns, weight in made.interactions:
            product = 1.0
            for k in columns:
                product *= x[k]
            wanted += weight * product
        assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)
        assert label == (-1 if y < 0 else 1)


@given(interaction_settings())
def test_interactions_are_sorted_distinct_columns_with_weights_below_one(settings):
    made = make_interactions(**settings)
    assert made.data.shape == (settings["n_samples"], settings["n_features"])
    assert set(made.data.ravel()) <= {-1.0, 1.0}
    for columns, weight in made.interactions:
        assert list(columns) == sorted(set(columns))
        assert len(columns) == settings["order"]
        assert set(columns) <= set(range(settings["n_features"]))
        assert -1 < weight < 1


@given(interaction_settings())
def test_equal_seeds_make_equal_data(settings):
    one, two = make_interactions(**settings, noise=0.3), make_interactions(**settings, noise=0.3)
    assert one.interactions == two.interactions
    for name in ("data", "target", "labels"):
        assert_array_equal(one[name], two[name])


def test_noise_has_its_deviation_and_flips_their_share_and_the_truth_stays():
    clean = make_interactions(20_000, random_state=0)
    noisy = make_interactions(20_000, noise=0.5, random_state=0)
    flipped = make_interactions(20_000, flip=0.1, random_state=0)
    assert clean.interactions == noisy.interactions == flipped.interactions
    assert_array_equal(clean.data, noisy.data)
    assert_allclose(np.std(noisy.target - clean.target), 0.5, rtol=0.02)
    assert_array_equal(clean.target, flipped.target)
    assert (clean.labels != flipped.labels).sum() == 2000


def test_defaults_are_the_papers():
    made = make_interactions(random_state=0)
    assert made.data.shape == (100_000, 30)
    assert [len(columns) for columns, _ in made.interactions] == [6] * 20
    assert abs(made.data.mean()) < 0.01


@pytest.mark.usefixtures("one_car")
@pytest.mark.parametrize(
    "archive",
    [
        zipped(**{"car.names": b"", "car.data": ONE_CAR}),
        zipped(**{"folder/": b"", "folder/car.data": ONE_CAR.replace(b"\n", b"\r\n")}),
        zipped(**{"inner.zip": zipped(**{"car.data": ONE_CAR})}),
    ],
    ids=["flat", "folder and CRLF", "archive in archive"],
)
def test_an_archive_is_downloaded_once(served, archive):
    served.write_bytes(archive)
    assert load_car().data.tolist() == [["low", "med", "2", "4", "small", "high"]]
    served.unlink()
    assert load_car().target.tolist() == [1]


WHOLE = zipped(**{"car.data": ONE_CAR * 100})


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        (b"<html>", "is damaged (File is not a zip file)"),
        (WHOLE[:-30], "is damaged (File is not a zip file)"),
        (WHOLE.replace(ONE_CAR, ONE_CAR.upper(), 1), "is damaged (Bad CRC-32 for file 'car.data')"),
        (zipped(**{"inner.zip": WHOLE[:-30]}), "is damaged (File is not a zip file)"),
        (zipped(readme=b""), "holds no such file"),
    ],
    ids=["no archive", "truncated", "damaged", "truncated within", "another"],
)
def test_a_wrong_archive_is_named_with_both_hashes(served, archive, why):
    served.write_bytes(archive)
    wanted, found = archives.SHA256["car"]["car.data"], hashlib.sha256(archive).hexdigest()
    path = str(served.parents[1] / "cache" / "ttexm" / "car.zip")
    message = (
        f"car.data, of sha256 {wanted}, is wanted from {path!r}, of sha256 {found}, "
        f"which {why}; delete the archive and load again."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        load_car()


def test_a_compressed_file_that_is_damaged_is_an_error(served):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("car.data", ONE_CAR * 100)
    content = bytearray(buffer.getvalue())
    start = 30 + len("car.data")  # of the compressed bytes, after the header of the file
    content[start : start + 8] = b"\xff" * 8
    served.write_bytes(content)
    with pytest.raises(ValueError, match=r"car.zip', of sha256 .* is damaged"):
        load_car()


def test_a_wrong_file_in_an_archive_is_named_with_both_hashes(served):
    served.write_bytes(WHOLE)
    wanted = archives.SHA256["car"]["car.data"]
    found = hashlib.sha256(ONE_CAR * 100).hexdigest()
    message = f"car.data is not the original: its sha256 must be {wanted}, got {found}; delete "
    with pytest.raises(ValueError, match=message):
        load_car()


def test_a_wrong_file_is_named_with_both_hashes(tmp_path, monkeypatch):
    monkeypatch.setenv("TTEXM_DATA", str(tmp_path))
    (tmp_path / "car").mkdir()
    (tmp_path / "car" / "car.data").write_bytes(ONE_CAR)
    wanted, found = archives.SHA256["car"]["car.data"], hashlib.sha256(ONE_CAR).hexdigest()
    message = f"car.data is not the original: its sha256 must be {wanted}, got {found}; delete "
    with pytest.raises(ValueError, match=message):
        load_car()


@needs_data
@pytest.mark.parametrize(
    ("load", "dataset", "name"),
    [
        (load_car, "car", "car.data"),
        *[
            (functools.partial(load_hiv1_protease, subset), "hiv1_protease", f"{subset}Data.txt")
            for subset in ("1625", "746", "impens", "schilling")
        ],
        *[
            (load_movielens100k, "ml-100k", name)
            for name in ("u.data", "u.genre", "u.item", "u.user")
        ],
    ],
)
def test_a_truncated_file_is_named_with_both_hashes(load, dataset, name, tmp_path, monkeypatch):
    shutil.copytree(Path(os.environ["TTEXM_DATA"], dataset), tmp_path / dataset)
    content = (tmp_path / dataset / name).read_bytes()[:-5]
    (tmp_path / dataset / name).write_bytes(content)
    monkeypatch.setenv("TTEXM_DATA", str(tmp_path))
    wanted, found = archives.SHA256[dataset][name], hashlib.sha256(content).hexdigest()
    message = f"{name} is not the original: its sha256 must be {wanted}, got {found}; delete "
    with pytest.raises(ValueError, match=message):
        load()


@needs_data
def test_titles_of_movies_are_latin_1():
    content = archives.read("ml-100k", "u.item")
    with pytest.raises(UnicodeDecodeError):
        content.decode("utf-8")
    assert "Mis\u00e9rables, Les (1995)" in content.decode("latin-1")


def test_a_missing_file_is_named_with_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TTEXM_DATA", str(tmp_path))
    message = (
        f"ml-100k/u.user is not in the folder {str(tmp_path)!r} that TTEXM_DATA names; "
        "put it there, or unset TTEXM_DATA to download it."
    )
    with pytest.raises(FileNotFoundError, match=re.escape(message)):
        load_movielens100k()


def test_a_download_without_pooch_says_what_to_install(monkeypatch):
    monkeypatch.delenv("TTEXM_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=re.escape("needs pooch; pip install 'ttexm[datasets]'")):
        load_car()


@pytest.mark.usefixtures("one_car")
def test_a_frame_without_pandas_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("TTEXM_DATA", str(tmp_path))
    (tmp_path / "car").mkdir()
    (tmp_path / "car" / "car.data").write_bytes(ONE_CAR)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True needs pandas; pip install pandas"):
        load_car(as_frame=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_hiv1_protease(1625), "subset must be one of '1625', '746', 'impens', "),
        (lambda: load_movielens100k("exact"), "variant must be one of 'rounded', 'unrounded', got"),
        (lambda: load_movielens100k(encoding="dense"), "encoding must be one of 'categorical', "),
        (
            lambda: load_movielens100k(encoding="one_hot", as_frame=True),
            "as_frame=True needs encoding='categorical', got 'one_hot'.",
        ),
        (lambda: movielens_split([1, 1, 0]), "y must have at least two ones and more than half"),
        (lambda: make_interactions(order=31), "order must be from 1 to n_features = 30, got 31."),
        (lambda: make_interactions(noise=-1), "noise must be finite and at least 0, got -1."),
        (lambda: make_interactions(flip=1.5), "flip must be from 0 to 1, got 1.5."),
    ],
)
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
