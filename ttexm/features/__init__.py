"""Feature maps: from the columns of a table to a batch of rank-1 tensors.

A map turns column k into the vectors phi_k(x_k) of mode k: ``(1, g_1(x), .., g_{n-1}(x))``, or
``(1, one-hot)`` for a category. Slot 0, the constant, stands for "this column takes no part". A
missing value is the constant and nothing else, and so is a level that was not seen in training.
Values of another type than in training are refused: the string "1" is neither the number 1 nor a
level 1.

The order scale s multiplies every function but the constant. As W_S then belongs to s^|S| times a
product of |S| columns, a plain penalty |W|^2 weighs interactions of order |S| by s^(-2 |S|).
"""

from .categories import Categorical
from .columns import FittedColumn, FittedColumns
from .feature_map import ColumnMap, FeatureMap
from .function_map import FunctionMap
from .functions import Basis, Legendre, Polynomial, Spline, Trigonometric
from .mixtures import Auto, PerColumn
from .smooth import Smooth

__all__ = [
    "Auto",
    "Basis",
    "Categorical",
    "ColumnMap",
    "FeatureMap",
    "FittedColumn",
    "FittedColumns",
    "FunctionMap",
    "Legendre",
    "PerColumn",
    "Polynomial",
    "Smooth",
    "Spline",
    "Trigonometric",
]
