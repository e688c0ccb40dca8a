"""`--plugin FILE`: a method of one's own in every command that takes a method."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.patience import HOUR

from plusone.cli.app import app

pytestmark = pytest.mark.slow


def test_commands_that_take_a_method_take_a_plugin():
    commands = dict(typer.main.get_command(app).commands)
    commands |= commands.pop("analyse").commands
    for name, command in commands.items():
        options = {text for param in command.params for text in param.opts}
        named = {"methods", "run", "places"} & {param.name for param in command.params}
        if name == "demo":  # its --methods is a flag
            continue
        if named or {"--method", "--methods"} & options or name == "methods":
            assert "--plugin" in options, name


COMMANDS = """
import json, sys
from plusone.cli.app import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as left:
        if left.code:
            raise
"""


def plusone(*commands: tuple[object, ...], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Commands in a process of their own: a plug-in stays loaded in the one that loads it."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    return subprocess.run(
        [sys.executable, "-c", COMMANDS, words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=HOUR,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PLUSONE_PLUGINS"},
    )


def test_a_method_of_ones_own(folder: Path, tmp_path: Path):
    contributing = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    start = contributing.index('"""Capped negatives: an')
    code = contributing[start : contributing.index("```", start)]
    (tmp_path / "my_methods.py").write_text(code)
    data, plugin = (folder / "labels.csv", "-x", folder / "x.npz"), ("--plugin", "my_methods.py")
    done = plusone(
        ("train", *data, *plugin, "-m", "capped", "-s", "options.cap=1.5", "--epochs", 1,
         "--out", "run", "--no-report"),
        ("bench", *data, *plugin, "--methods", "an,capped", "-s", "epochs=1", "--lr", 1e-2,
         "--seeds", 0, "--workers", 1, "--out", "bench", "--json", "--no-report"),
        ("predict", "run", folder / "x.npz", "--out", "tags.csv", *plugin),
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    description = json.loads((tmp_path / "run" / "data.json").read_text())
    assert description["plugin"] == "my_methods.py"
    assert '"capped"' in done.stdout
    first = (tmp_path / "bench" / "bench.toml").read_text().splitlines()[0]
    assert "--plugin my_methods.py" in first
    assert "--plugin my_methods.py" in (tmp_path / "bench" / "table.md").read_text()
    assert (tmp_path / "tags.csv").is_file()
    missing = plusone(("predict", "run", folder / "x.npz", "--out", "no.csv"), cwd=tmp_path)
    assert missing.returncode == 2
    assert "add --plugin my_methods.py" in missing.stderr
    assert not (tmp_path / "no.csv").exists()
