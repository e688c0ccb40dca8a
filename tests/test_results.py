"""The experiments behind docs/evidence: each has its block, its command and its settings."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer

from plusone.cli.app import app
from plusone.compare.spec import read_spec

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "benchmarks" / "results"
LISTED = tomllib.loads((SPECS / "experiments.toml").read_text(encoding="utf-8"))
EXPERIMENTS = {entry["name"]: entry for entry in LISTED["experiment"]}


def test_every_experiment_has_one_block_and_every_block_an_experiment():
    pages = (ROOT / "docs" / "evidence").glob("*.md")
    marks = [m for page in pages for m in re.findall(r"<!-- measured: (\S+) -->", page.read_text())]
    assert sorted(marks) == sorted(
        name for name, entry in EXPERIMENTS.items() if entry["show"] != "nothing"
    )
    assert set(LISTED["report"]["of"]) <= EXPERIMENTS.keys()


def test_commands_exist_and_write_where_they_are_looked_for():
    commands = typer.main.get_command(app).commands
    lines = [(name, line) for name, entry in EXPERIMENTS.items() for line in entry["run"]]
    for name, line in lines:
        program, first, *words = shlex.split(line)
        if program == "python":
            assert (ROOT / "benchmarks" / first).exists(), line
            continue
        command = commands[first]
        if first == "analyse":
            command, words = command.commands[words[0]], words[1:]
        known = {text for param in command.params for text in param.opts}
        known |= {text for param in command.params for text in param.secondary_opts}
        assert {word for word in words if word.startswith("-")} <= known, line
        if "--out" in words:
            assert words[words.index("--out") + 1].split("/")[0] == name, line


def test_settings_can_be_read():
    for path in SPECS.glob("*-*.toml"):
        assert read_spec(path, {}, {}).methods, path
        assert path.stem in EXPERIMENTS


@pytest.fixture(scope="module")
def results():
    spec = importlib.util.spec_from_file_location("results", ROOT / "benchmarks" / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_block_is_found_on_the_one_page_that_has_it(results, tmp_path):
    (tmp_path / "a.md").write_text("<!-- measured: x -->\n<!-- end of x -->\n")
    (tmp_path / "b.md").write_text("<!-- measured: x-long -->\n<!-- end of x-long -->\n")
    assert results.page_of("x", tmp_path) == tmp_path / "a.md"
    with pytest.raises(SystemExit, match="0 pages"):
        results.page_of("y", tmp_path)


def test_a_block_is_replaced_and_nothing_else(results):
    document = "a\n<!-- measured: x -->\nold\n<!-- end of x -->\nb\n"
    new = results.put_block(document, "x", r"n\ew")
    assert new == "a\n<!-- measured: x -->\n\nn\\ew\n<!-- end of x -->\nb\n"
    assert results.put_block(new, "x", r"n\ew") == new
    with pytest.raises(SystemExit, match="must contain once"):
        results.put_block(document, "y", "")
