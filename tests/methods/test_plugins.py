"""Plug-ins: methods from a file that the user names, and from installed packages.

The files are the examples of CONTRIBUTING.md, as they stand there.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from plusone.data import observation, observe
from plusone.data.observation import describe_scheme, parse_scheme
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.methods import _plugins as plugins
from plusone.methods._plugins import FILES, Plugins

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(
    re.findall(
        r"<!-- file: src/plusone/methods/(\w+)\.py -->\n```python\n(.*?)```", TEXT, re.DOTALL
    )
)


@pytest.fixture
def loader(monkeypatch):
    """Plug-ins of a copy of the table; modules and environment are restored."""
    monkeypatch.setenv(FILES, "")  # restored afterwards, also if it was not set
    before = set(sys.modules)
    yield Plugins(dict(METHODS))
    for name in set(sys.modules) - before:
        if name.startswith("plusone_plugin_"):
            del sys.modules[name]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "my-methods.py"
    path.write_text(EXAMPLES["capped"])
    return path


def test_a_file_adds_its_method_once(loader, example, monkeypatch):
    assert loader.load_file(example) == ("capped",)
    assert loader.load_file(example) == ("capped",)
    assert loader.origin("capped") == "my-methods.py"
    assert loader.origin("an") is None
    assert os.environ[FILES] == str(example)  # for processes started from here


def test_schemes_of_ones_own(loader, tmp_path, monkeypatch):
    """The example of docs/observation.md, from a file and from an installed package."""
    page = (Path(__file__).parents[2] / "docs" / "observation.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(from dataclasses.*?)```", page, re.DOTALL)
    monkeypatch.setattr(observation, "SCHEMES", dict(observation.SCHEMES))
    (tmp_path / "outside_schemes.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint("first", "outside_schemes:First", observation.GROUP)]
    monkeypatch.setattr(
        observation, "entry_points", lambda group, name: entries if name == "first" else []
    )
    assert observe(np.array([[0, 1, 1, 1]]), "first(2)").tolist() == [[0, 1, 1, 0]]
    (tmp_path / "file.py").write_text(code.replace('"first"', '"of_file"'))
    assert loader.load_file(tmp_path / "file.py") == ("of_file",)
    scheme = parse_scheme("of_file(n=1)")
    assert describe_scheme(scheme) == "of_file(n=1)"
    for wrong in ('{"single": First}', '{"a b": First}', "{'a': 1}"):
        (tmp_path / "wrong_schemes.py").write_text(code.replace('{"first": First}', wrong))
        with pytest.raises(InputError, match=r"wrong_schemes.py: "):
            loader.load_file(tmp_path / "wrong_schemes.py")
        sys.modules.pop("plusone_plugin_wrong_schemes")


def test_processes_find_the_files_in_the_environment(loader, example, monkeypatch):
    monkeypatch.setenv(FILES, str(example))
    loader.load_installed()
    assert loader.origin("capped") == "my-methods.py"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "there is no such plug-in"),
        ("import torch\n", "has no INFO"),
        ("INFOS = [1]\n", "int in INFOS is not a MethodInfo"),
        ("1 / 0\n", "cannot be loaded: ZeroDivisionError"),
        ("def\n", "cannot be loaded: SyntaxError"),
        (EXAMPLES["capped"].replace('"capped"', '"gr"'), "'gr' is in plusone itself"),
        (EXAMPLES["capped"].replace('"capped"', '"My method"'), "lower case letters"),
    ],
)
def test_files_that_are_no_plugins_are_refused(loader, tmp_path, code, words):
    path = tmp_path / "wrong.py"
    if code is not None:
        path.write_text(code)
    with pytest.raises(InputError, match=words) as caught:
        loader.load_file(path)
    assert str(path) in str(caught.value)


def test_two_plugins_with_one_method(loader, example, tmp_path):
    loader.load_file(example)
    other = tmp_path / "other.py"
    other.write_text(EXAMPLES["capped"])
    with pytest.raises(InputError, match=r"in the plug-in my-methods\.py already"):
        loader.load_file(other)


def test_installed_packages(loader, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in EXAMPLES.items():
        (tmp_path / f"outside_{name}.py").write_text(code)
    (tmp_path / "outside_broken.py").write_text("import nothing_like_this\n")
    entries = [
        EntryPoint("capped", "outside_capped", plugins.GROUP),
        EntryPoint("cosine", "outside_cosine:INFO", plugins.GROUP),
        EntryPoint("broken", "outside_broken", plugins.GROUP),
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
    with pytest.warns(UserWarning, match="outside_broken is left out: ModuleNotFoundError"):
        loader.load_installed()
    assert loader.origin("capped") == "outside_capped"
    assert loader.origin("cosine") == "outside_cosine:INFO"
