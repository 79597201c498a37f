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
    attribute = ATTRIBUTES.get(function)
    if attribute is not None and len(arguments) == 1 and hasattr(owner, attribute):
        return getattr(owner, attribute)
    raise _refusal(owner, function, counterparts, otherwise)


def _refusal(owner, function, counterparts, otherwise):
    home = getattr(function, "__module__", None) or "numpy"
    return TypeError(
        f"{home}.{function.__name__} does not take a {type(owner).__name__}: "
        f"use {counterparts.get(function, otherwise)}."
    )


def refuse_masked_arrays(owner):
    """For a property `_data`: numpy.ma asks for it, and not for `__array_ufunc__`."""
    raise TypeError(f"A {type(owner).__name__} and a masked array cannot be combined.")


def refuse_array(owner, other, advice=""):
    """What an operation gives for an operand it does not know: numpy's own error says less."""
    if isinstance(other, np.ndarray):
        raise TypeError(f"A {type(owner).__name__} and an array cannot be combined{advice}.")
    return NotImplemented
