"""Help: there for every command, with an example, and fast because torch stays away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest
import typer

from plusone.cli import app as program
from plusone.cli.app import app
from plusone.version import __version__

COMMANDS = (
    *("quickstart", "demo", "example", "doctor"),
    *("inspect", "train", "predict", "batch", "evaluate", "export", "serve"),
    *("suggest", "review", "audit", "label-studio", "priors"),
    *("methods", "bench", "sweep", "ablate", "choose", "loop", "reproduce", "observe", "prepare"),
    *("features", "hints", "report", "leaderboard", "analyse"),
)
ANALYSES = ("surface", "intervals", "gradients", "maps")


@pytest.mark.parametrize("name", [*COMMANDS[:-1], *(f"analyse {name}" for name in ANALYSES)])
def test_every_command_has_help_with_an_example_and_the_common_options(cli, name):
    answer = cli(*name.split(), "--help")
    assert answer.code == 0
    assert f"Example: plusone {name}" in answer.out
    assert "--json" in answer.out
    assert "--seed" in answer.out
    assert cli(*name.split(), "-h").out == answer.out
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "<bool>" not in answer.out
    assert "BOOLEAN" not in answer.out
    above = [line.strip() for line in lines[: next(i for i, x in enumerate(lines) if "╭" in x)]]
    for line, after in pairwise(above):  # lines are full, but for the last of a paragraph
        if line and after and not after.startswith("Example:"):
            assert len(line) + 1 + len(after.split()[0]) > 78, line


def test_help_lists_the_commands_in_panels(cli):
    answer = cli("--help")
    assert answer.code == 0
    places = [answer.out.index(f"│ {name} ") for name in COMMANDS]
    assert places == sorted(places)
    panels = ("Options", "Start", "Your data", "Missing labels", "Research")
    assert re.findall(r"╭─ ([\w ]+) ─", answer.out) == list(panels)
    assert cli("-h").out == answer.out
    assert cli("--version").out == f"{__version__}\n"


def test_without_arguments_there_is_help(cli):
    answer = cli()
    assert "Usage: plusone" in answer.out + answer.err


def test_help_imports_nothing_heavy():
    code = """
import sys
from plusone.cli.app import PANELS, main
for arguments in (["--version"], ["--help"], ["train", "--help"]):
    try:
        main(arguments)
    except SystemExit as left:
        assert not left.code
    heavy = {"torch", "numpy", "sklearn", "PIL", "pandas", "matplotlib"} & set(sys.modules)
    assert not heavy, heavy
    loaded = {name for name in sys.modules if name.startswith("plusone.cli.")}
    commands = {f"plusone.cli.{name}" for names in PANELS.values() for name in names}
    assert len(loaded & commands) == ("train" in arguments), loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_list_of_commands_says_what_the_commands_say():
    group = typer.main.get_command(app).commands
    for name, command in (*group.items(), *group["analyse"].commands.items()):
        sentence = program.summary(name)
        assert command.help.split("\n\n")[0] == sentence
        assert sentence.endswith(".")


def test_commands_can_be_looked_into_by_name():
    found = typer.main.get_command(app).commands
    assert tuple(found) == COMMANDS
    assert "nothing" not in found
    assert found["train"] is found["train"]
    assert "--method" in {text for param in found["train"].params for text in param.opts}


@pytest.mark.parametrize("name", ANALYSES)
def test_earlier_names_of_the_analyses_still_work(cli, name):
    old, new = cli(name, "--help"), cli("analyse", name, "--help")
    assert old.code == new.code == 0
    assert old.out == new.out
    assert new.err == ""
    assert f"plusone {name} is now plusone analyse {name}\n" == old.err
    assert f"│ {name} " not in cli("--help").out


def test_the_same_option_has_the_same_name_in_every_command():
    commands = dict(typer.main.get_command(app).commands)
    commands |= commands.pop("analyse").commands
    options = {
        name: {text for param in command.params for text in param.opts}
        for name, command in commands.items()
    }
    for own in options.values():
        assert "--epochs" in own or "--lr" not in own
        assert "--seed" in own
        assert "--set" in own or "--recipe" not in own
    for name in ("train", "sweep", "ablate", "loop", "doctor"):
        assert "--recipe" in options[name], name


def test_a_mistyped_command_gets_a_suggestion(cli):
    answer = cli("trian")
    assert answer.code == 2
    assert "No such command 'trian'. Did you mean 'train'?" in answer.err


@pytest.mark.parametrize(
    ("words", "wanted", "other"),
    [("plusone su", "suggest", "train"), ("plusone train --bat", "--batch-size", "--method")],
)
def test_the_shell_completes_commands_and_options(command, words, wanted, other):
    asked = {"_PLUSONE_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(words.count(" "))
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **asked}, check=True
    )
    assert wanted in done.stdout.split()
    assert other not in done.stdout.split()


def test_the_installed_command_shows_its_help(command):
    done = subprocess.run([*command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Usage: plusone" in done.stdout


def test_commands_need_no_click_of_their_own(cli):
    """Typer carries its own copy of click, so nothing installs the real one for us."""
    code = "import sys; sys.modules['click'] = None; import plusone.cli.app"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
