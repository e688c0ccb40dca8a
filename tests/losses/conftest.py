"""Inputs and the list of losses that every generic test runs through."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "plusone_loss_registry", Path(__file__).with_name("registry.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


REGISTRY = _load()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", REGISTRY.CASES, ids=lambda case: case.name)
    if "any_loss" in metafunc.fixturenames:
        metafunc.parametrize("any_loss", REGISTRY.LOSSES.values(), ids=REGISTRY.LOSSES)
