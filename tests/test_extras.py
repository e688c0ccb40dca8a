"""Install hints: a command that works from where the package came from."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

import plusone
from plusone.extras import _words, install_command


@pytest.fixture
def installed(tmp_path: Path):
    """A distribution as pip leaves it behind, in a folder of its own."""

    def make(**origin: object) -> Distribution:
        info = tmp_path / "site" / "plusone-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            "Metadata-Version: 2.4\nName: plusone\nVersion: 0.1.0\nRequires-Dist: torch>=2.6\n"
            "Requires-Dist: matplotlib>=3.8; extra == 'plots'\n"
            "Requires-Dist: fastapi>=0.110; extra == 'review'\n"
        )
        if origin:
            (info / "direct_url.json").write_text(json.dumps(origin))
        return PathDistribution(info)

    return make


def words(distribution: Distribution | None, tmp_path: Path) -> list[str]:
    return _words("plots", tmp_path / "site" / "plusone", distribution)


def test_this_checkout(monkeypatch, tmp_path):
    root = Path(plusone.__file__).parents[2]
    monkeypatch.chdir(tmp_path)
    command = install_command("plots")
    assert command.startswith("pip install")
    assert f"{root}[plots]" in command
    assert f"-c {root}/constraints.txt" in command
    monkeypatch.chdir(root)
    assert "-c constraints.txt" in install_command("plots")
    assert install_command("plots").endswith("'.[plots]'")


def test_an_editable_checkout_stays_editable(installed, tmp_path):
    source = tmp_path / "clone" / "src" / "plusone"
    source.mkdir(parents=True)
    (tmp_path / "clone" / "pyproject.toml").touch()
    made = installed(url=f"file://{tmp_path}/clone", dir_info={"editable": True})
    assert _words("plots", source, made) == ["-e", f"{tmp_path}/clone[plots]"]
    assert _words("plots", source, None) == [f"{tmp_path}/clone[plots]"]  # by PYTHONPATH


def test_a_copy_of_a_checkout(installed, tmp_path):
    clone = tmp_path / "a clone"
    clone.mkdir()
    made = installed(url=clone.as_uri(), dir_info={})
    assert words(made, tmp_path) == [f"{clone}[plots]"]


def test_a_wheel(installed, tmp_path):
    wheel = tmp_path / "plusone-0.1.0-py3-none-any.whl"
    wheel.touch()
    made = installed(url=wheel.as_uri(), archive_info={})
    assert words(made, tmp_path) == [f"{wheel}[plots]"]
    wheel.unlink()
    assert words(made, tmp_path) == ["matplotlib>=3.8"]


@pytest.mark.parametrize(
    ("origin", "word"),
    [
        ({}, "plusone[plots]"),  # from an index
        (
            {"url": "https://example.org/p.whl", "archive_info": {}},
            "plusone[plots] @ https://example.org/p.whl",
        ),
        (
            {
                "url": "https://example.org/p.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "main"},
            },
            "plusone[plots] @ git+https://example.org/p.git@abc",
        ),
    ],
)
def test_addresses(installed, tmp_path, origin, word):
    assert words(installed(**origin), tmp_path) == [word]
