"""Imports go one way: a package knows only what stands before it, inside functions too."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import plusone

SOURCE = Path(plusone.__file__).parent

# Packages and root modules; those on one line may not import each other.
ORDER = (
    ("errors", "seeds"),
    ("version", "io", "device", "web"),
    ("extras",),
    ("data", "results"),
    ("types", "metrics"),
    ("losses", "models"),
    ("closed_form",),
    ("probabilities",),
    ("methods", "recipe"),
    ("autorecipe", "build"),
    ("parallel",),
    ("inputs",),
    ("features",),
    ("prediction",),
    ("training",),
    ("estimator", "export", "suggest", "analysis"),
    ("review", "serve"),
    ("compare",),
    ("report",),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
ANYWHERE = {"plusone", "__main__"}  # the public names, and `python -m plusone`


def module_name(path: Path) -> str:
    parts = ("plusone", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


@cache
def all_modules() -> frozenset[str]:
    return frozenset(module_name(file) for file in SOURCE.rglob("*.py"))


@cache
def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    modules = all_modules()
    parents = {name if name in modules else name.rpartition(".")[0] for name in names}
    return parents & modules


def package(module: str) -> str:
    return [*module.split("."), "plusone"][1]


def test_imports_go_one_way():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        here = package(module_name(path))
        if here in ANYWHERE:
            continue
        for module in sorted(imports(path)):
            there = package(module)
            if there != here and RANK.get(there, len(ORDER)) >= RANK[here]:
                wrong.append(f"{module_name(path)} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_no_cycles_between_packages():
    edges = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        here = package(module_name(path))
        if here not in ANYWHERE:
            edges[here] |= {package(module) for module in imports(path)} - {here}
    for start in list(edges):
        reached, todo = set(), [start]
        while todo:
            for other in edges[todo.pop()] - reached:
                reached.add(other)
                todo.append(other)
        assert start not in reached, f"{start} reaches itself through {sorted(reached)}"


def test_every_package_has_its_place():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert packages | modules == RANK.keys()
