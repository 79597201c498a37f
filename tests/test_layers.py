"""Rooms import only rooms below them, private names stay private, and functions have type hints."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "ttexm"

# Lowest first. Rooms of one line do not know each other.
ROOMS = [
    ["kernels"],
    ["checks"],
    ["data"],
    ["tt"],
    ["features"],
    ["learn"],
    ["model", "losses", "solvers", "interop"],
    ["explain"],
    ["plot"],
    ["report"],
    ["base_estimator"],
    ["estimators", "archives"],
    ["datasets"],
    ["__init__"],
    ["__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


def room(module):
    return module.split(".")[0]


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts), path


KNOWN = {module for module, _ in modules()}


def imports(module, path):
    """Modules of this package that a module imports, also within functions."""
    parent = module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            names = parent[: len(parent) - node.level + 1]
            names += node.module.split(".") if node.module else []
        elif (node.module or "").split(".")[0] == "ttexm":
            names = node.module.split(".")[1:]
        else:
            continue
        for alias in node.names:
            for found in ([*names, alias.name], names, [*names, "__init__"]):
                if ".".join(found) in KNOWN:
                    yield ".".join(found)
                    break


def test_every_module_has_its_room():
    assert {room(module) for module in KNOWN} == set(LEVEL)


def test_rooms_import_only_rooms_below():
    for module, path in modules():
        for imported in imports(module, path):
            if room(imported) != room(module):
                below = LEVEL[room(imported)] < LEVEL[room(module)]
                assert below, f"{module} may not import {imported}"


def test_no_module_imports_itself_through_others():
    # Devices are loaded when they are asked for: see kernels.backend.
    graph = {
        module: {found for found in imports(module, path) if found != "kernels.cpu"}
        for module, path in modules()
    }
    assert len(list(TopologicalSorter(graph).static_order())) == len(KNOWN)


# Names with an underscore that are public (of named tuples), or for which numba has no other way.
ALLOWED = {"_replace", "_cache", "_cache_file", "_source_stamp"}


def private_names(tree):
    """Private names that a module imports, or asks of other objects than `self` and `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or "ttexm" in (node.module or "")):
            yield from (alias.name for alias in node.names if alias.name.startswith("_"))
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()"):
                yield node.attr


def names_of(tree):
    """Names that a module gives: those of functions, and of attributes that it sets."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_no_private_name_of_one_module_is_used_in_another():
    for module, path in modules():
        tree = ast.parse(path.read_text())
        foreign = set(private_names(tree)) - set(names_of(tree)) - ALLOWED
        assert not foreign, f"{module} uses private names of others: {foreign}"


def test_only_kernels_know_numba():
    for module, path in modules():
        if room(module) != "kernels":
            text = path.read_text()
            assert "import numba" not in text, module
            assert "from numba" not in text, module


def functions_without_hints(tree):
    """Public functions, and methods of public classes, that lack a type hint."""
    for owner in ast.walk(tree):
        if not isinstance(owner, (ast.Module, ast.ClassDef)):
            continue
        is_public = not (isinstance(owner, ast.ClassDef) and owner.name.startswith("_"))
        for node in owner.body:
            if not isinstance(node, ast.FunctionDef) or not is_public:
                continue
            if node.name.startswith("_") and node.name != "__init__":
                continue
            arguments = [
                *node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs,
                node.args.vararg, node.args.kwarg,
            ]  # fmt: skip
            hints = [
                argument.annotation
                for argument in arguments
                if argument is not None and argument.arg not in ("self", "cls")
            ]
            if node.name != "__init__":
                hints.append(node.returns)
            if None in hints:
                yield node.name


def test_public_functions_have_type_hints():
    # The arguments of kernels are numba's.
    for module, path in modules():
        if room(module) != "kernels":
            lacking = list(functions_without_hints(ast.parse(path.read_text())))
            assert not lacking, f"{module}: {lacking}"
