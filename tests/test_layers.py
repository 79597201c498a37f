"""A module imports only lower layers; devices are known to one module alone."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "ttexm"

# Lowest first. Modules of one line do not know each other.
LAYERS = [
    ["kernels.__init__", "kernels.compile", "kernels.formulas", "kernels.layout"],
    ["kernels.threads"],
    ["kernels.tiles", "kernels.workspace"],
    ["kernels.blocks", "kernels.dense"],
    ["kernels.algebra", "kernels.contract", "kernels.orthogonalize", "kernels.retract"],
    ["kernels.project"],
    ["kernels.gauge", "kernels.site"],
    ["kernels.gradient", "kernels.samples"],
    ["kernels.cpu", "kernels.cuda_dense", "kernels.cuda_tiles"],
    ["kernels.cuda_launch"],
    ["kernels.cuda_batch"],
    ["kernels.cuda_samples"],
    ["kernels.cuda"],
    ["archives", "device", "drawing", "losses", "progress", "protocols", "shapes", "table"],
    ["datasets", "decompose", "indexing", "rows", "settings"],
    ["batch"],
    ["feature_map", "objective", "trains"],
    ["compiled", "construct", "features"],
    ["tensor"],
    ["tangent"],
    ["initialize", "manifold", "solvers.__init__", "solvers.base"],
    ["interop", "problem", "solvers.descent", "solvers.screening", "solvers.sweeps", "trainer"],
    ["solvers.boosting", "solvers.cores", "solvers.riemannian"],
    ["folds"],
    ["validation", "solvers.named"],
    ["selection"],
    ["machine"],
    ["estimators"],
    ["__init__"],
    ["__main__"],
]
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts), path


def imports(module, path):
    """Modules of this package that a module imports, also within functions."""
    parent = module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = parent[: len(parent) - node.level + 1]
            names = [*base, *([node.module] if node.module else [])]
            for alias in node.names:
                full = ".".join([*names, alias.name])
                yield full if full in LEVEL else ".".join(names) or "__init__"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ttexm":
            yield ".".join(node.module.split(".")[1:]) or "__init__"


def test_every_module_has_its_layer():
    assert {module for module, _ in modules()} == set(LEVEL)


def test_imports_point_down():
    for module, path in modules():
        for imported in imports(module, path):
            assert imported in LEVEL, f"{module} imports {imported}"
            assert LEVEL[imported] < LEVEL[module], f"{module} may not import {imported}"


def test_only_kernels_know_numba_and_only_device_the_kernel_sets():
    for module, path in modules():
        if not module.startswith("kernels") and module != "device":
            text = path.read_text()
            assert "import numba" not in text, module
            assert "from numba" not in text, module
            assert "kernels.cpu" not in set(imports(module, path)), module
