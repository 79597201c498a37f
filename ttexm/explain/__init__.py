"""What a fitted model says: effects, interactions, variance shares and Shapley values, all exact.

The methods of the estimators (`methods`) call functions over a `Model`, one file for each kind of
answer. `decomposition` has the mathematics that they share.
"""

from .background import Background, summarize
from .compression import Compression
from .effects import Effect
from .interactions import Interaction, TopInteractions
from .shares import VarianceShares

__all__ = [
    "Background",
    "Compression",
    "Effect",
    "Interaction",
    "TopInteractions",
    "VarianceShares",
    "summarize",
]
