"""The rules of the house hold, and the script that checks them finds what breaks them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "house.py"


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # for its dataclass
    spec.loader.exec_module(module)
    yield module
    del sys.modules["house"]


def test_rules_are_met(house):
    assert [(rule.name, rule.findings) for rule in house.rules() if rule.findings] == []


def test_broken_rules_are_found(house, tmp_path, monkeypatch):
    """A package that breaks every rule about sources."""
    record = "class {}:\n" + "".join(f"    field{n}: int\n" for n in range(8))
    body = "def command():\n" + "    print()\n" * 100
    sources = {
        "data/tables.py": f"from plusone.cli.tables import A\n{record.format('A')}",
        "io/tables.py": record.format("B"),
        "cli/train.py": f"from plusone.data.tables import A\nMETHOD = 'gr'\n{body}",
        "cli/tables.py": "from plusone.io.tables import B\n",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(house, "SOURCE", tmp_path)
    house.all_modules.cache_clear()
    assert "plusone.data.tables imports plusone.cli.tables" in list(house.wrong_layers())
    assert [line.split()[0] for line in house.cycles()] == ["cli", "data"]
    assert list(house.method_names()) == ["cli/train.py:2 'gr'"]
    assert list(house.long_commands()) == ["cli/train.py:3 command 100 lines"]
    assert len(list(house.repeated_records())) == 1
    assert list(house.repeated_names()) == ["tables: data, io"]
    assert house.sizes()["files"] == 4
    house.all_modules.cache_clear()


def test_words_of_the_glossary(house, tmp_path, monkeypatch):
    monkeypatch.setattr(house, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("During training, a training item is seen. A training, two trainings.\n")
    assert [line.split("'")[1] for line in house.words([page])] == ["A training", "trainings"]
