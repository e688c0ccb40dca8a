"""The command quickstart: three answers become commands that parse."""

from __future__ import annotations

import io
import shlex

import pytest
from PIL import Image

from plusone.cli import quickstart as command
from plusone.cli.app import app


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "cat" / "a.jpg")
    (tmp_path / "notes.csv").write_text("text,labels\nthe mouse is broken,hardware\n")
    (tmp_path / "labels.csv").write_text("image,labels\na,cat\n")
    (tmp_path / "data.npz").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind"),
    [("photos", "photos"), ("notes.csv", "text"), ("labels.csv", None), ("data.npz", "vectors")],
)
@pytest.mark.parametrize("goal", ["tags", "missing", "compare"])
def test_answers_given_as_arguments(cli, data, name, kind, goal):
    given = ("quickstart", name, "--goal", goal, "--out", "commands.sh")
    if kind is None:
        assert "--items" in cli(*given).err  # nothing says what it is, and nobody can be asked
        given += ("--items", "vectors")
    answer = cli(*given, "--json")
    assert answer.code == 0, answer.err
    lines = answer.json["commands"]
    assert answer.json["items"] == (kind or "vectors")
    script = (data / "commands.sh").read_text().splitlines()
    assert [line for line in script if not line.startswith("#")] == lines
    from typer.main import get_command

    group = get_command(app)
    for line in lines:
        words = shlex.split(line)
        if words[0] == "plusone":
            group.commands[words[1]].make_context(words[1], words[2:])  # parses, runs nothing
    assert any(name in line for line in lines)
    assert ("--features VECTORS.npz" in " ".join(lines)) == (kind is None)


def test_questions_are_asked_until_they_are_answered(cli, data, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(command.sys, "stdin", Terminal("labels.csv\n7\n3\n2\n"))
    answer = cli("quickstart")
    assert answer.code == 0, answer.err
    assert "answer 1, 2, 3" in answer.err
    assert "plusone suggest run" in answer.out
    monkeypatch.setattr(command.sys, "stdin", Terminal("\n\n"))
    assert "plusone example" in cli("quickstart").out
    monkeypatch.setattr(command.sys, "stdin", Terminal("\n1\n"))
    texts = cli("quickstart", "--items", "text").out
    assert "plusone example tickets --texts" in texts
    assert "plusone predict run tickets/new.csv" in texts
    assert cli("quickstart", "nowhere", "--goal", "tags", "--items", "text").code == 2
