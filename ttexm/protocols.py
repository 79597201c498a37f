"""What numpy's functions do with our objects: they refuse, and name the method to use instead.

Left alone, numpy would write a tensor out, up to a gigabyte of it, without a word.
"""

import numpy as np

# Operators of two operands, as methods of the left and of the right one.
OPERATORS = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.true_divide: ("__truediv__", "__rtruediv__"),
}
ATTRIBUTES = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}


def apply_ufunc(owner, ufunc, method, inputs, keywords, counterparts, otherwise):
    """What `__array_ufunc__` gives: arithmetic by the owner's operators, a TypeError for the rest.

    Numpy's scalars and arrays come here first, if they are the left operand.
    """
    if method == "__call__" and not keywords:
        if ufunc in (np.equal, np.not_equal):
            return (inputs[0] is inputs[1]) == (ufunc is np.equal)
        if ufunc is np.negative:
            return -owner
        if ufunc in OPERATORS:
            ours = 0 if isinstance(inputs[0], type(owner)) else 1
            operator = getattr(inputs[ours], OPERATORS[ufunc][ours], None)
            result = NotImplemented if operator is None else operator(inputs[1 - ours])
            if result is not NotImplemented:
                return result
    raise _refusal(owner, ufunc, counterparts, otherwise)


def apply_function(owner, function, arguments, counterparts, otherwise):
    """What `__array_function__` gives: plain attributes, a TypeError for the rest."""
    if function in ATTRIBUTES and len(arguments) == 1:
        return getattr(owner, ATTRIBUTES[function])
    raise _refusal(owner, function, counterparts, otherwise)


def _refusal(owner, function, counterparts, otherwise):
    home = getattr(function, "__module__", None) or "numpy"
    return TypeError(
        f"{home}.{function.__name__} does not take a {type(owner).__name__}: "
        f"use {counterparts.get(function, otherwise)}."
    )
