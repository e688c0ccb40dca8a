"""The table of `make bench`: what scripts write is what it shows, and a failure stops nothing."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """`benchmarks/bench.py` with a folder of scripts of our own."""
    spec = importlib.util.spec_from_file_location("bench_table", ROOT / "benchmarks" / "bench.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_table", module)
    spec.loader.exec_module(module)
    return module


def ratio(value, goal, kind="at least", name="speed"):
    return {"name": name, "value": value, "goal": goal, "kind": kind, "detail": "2 s against 4 s"}


def test_every_script_exists_and_writes_ratios(bench):
    for name in bench.SCRIPTS:
        text = (ROOT / "benchmarks" / f"{name}.py").read_text()
        assert '"--json"' in text, name
        assert '"ratios"' in text, name


def test_goals(bench):
    rows = bench.rows_of(
        "some",
        {
            "ratios": [
                ratio(2, 2),
                ratio(1.9, 2),
                ratio(1, 1, "at most"),
                ratio(1.1, 1, "at most"),
                ratio(7, None),
            ]
        },
    )
    assert [row.met for row in rows] == [True, False, True, False, None]
    assert "| 7.000 | -" in bench.as_table(rows)


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"ratios": []},
        [1, 2],
        {"ratios": [ratio(1, 1, "about")]},
        {"ratios": [ratio(float("nan"), 1)]},
        {"ratios": [ratio(-0.2, 1, "at most")]},
    ],
)
def test_what_is_no_list_of_ratios_is_one_line_without_a_figure(bench, found):
    (row,) = bench.rows_of("some", found)
    assert row.met is None
    assert row.detail


def test_a_figure_that_could_not_be_measured_leaves_the_others(bench):
    rows = bench.rows_of("some", {"ratios": [ratio(3, 2), ratio(-1, 1), ratio(1, 2)]})
    assert [row.met for row in rows] == [True, None, False]


def test_the_table_shows_values_goals_and_what_is_missed(bench):
    rows = [*bench.rows_of("some", {"ratios": [ratio(120.4, 100), ratio(0.94, 0.95)]})]
    rows.append(bench.without("other", "failed: exit code 1: no such file"))
    lines = bench.as_table(rows).splitlines()
    assert len(lines) == 5
    assert lines[2].split(" | ")[2:5] == ["120  ", "at least 100 ", "yes"]
    assert "NO" in lines[3]
    assert lines[4].endswith("failed: exit code 1: no such file |")
    assert len({line.index("|", 10) for line in lines}) == 1


def test_a_script_that_fails_is_a_row_and_the_others_go_on(bench, monkeypatch, tmp_path, capsys):
    good = "import sys, json\njson.dump({}, open(sys.argv[-1], 'w'))".format(
        json.dumps({"ratios": [ratio(3, 2)]})
    )
    (tmp_path / "good.py").write_text(good)
    (tmp_path / "bad.py").write_text("raise SystemExit('it broke')")
    (tmp_path / "silent.py").write_text("pass")
    (tmp_path / "needing.py").write_text("raise SystemExit('must not run')")
    monkeypatch.setattr(bench, "HERE", tmp_path)
    scripts = {"bad": (), "silent": (), "needing": ("{data}/x",), "good": ()}
    monkeypatch.setattr(bench, "SCRIPTS", scripts)
    out = tmp_path / "bench.json"
    monkeypatch.setattr(sys, "argv", ["bench.py", "--out", str(out)])
    with pytest.raises(SystemExit) as left:
        bench.main()
    assert left.value.code == 1
    said = capsys.readouterr()
    assert "exit code 1: it broke" in said.out
    assert "1 of 1 goals met" in said.out
    assert "[4/4] good" in said.err
    found = json.loads(out.read_text())
    assert [row["script"] for row in found["ratios"]] == list(scripts)
    assert found["ratios"][3] == ratio(3.0, 2.0) | {"script": "good", "met": True}
    assert found["ratios"][2]["detail"].startswith("left out")
    assert list(found["seconds"]) == list(scripts)


def test_scripts_import_what_there_is():
    """mypy reads the package alone, and most benchmarks take too long to run here."""
    missing = []
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("plusone"):
                module = importlib.import_module(node.module)
                for name in (alias.name for alias in node.names):
                    if not hasattr(module, name) and not (
                        hasattr(module, "__path__")
                        and importlib.util.find_spec(f"{node.module}.{name}")
                    ):
                        missing.append(f"{path.name}: {node.module}.{name}")
    assert missing == []
