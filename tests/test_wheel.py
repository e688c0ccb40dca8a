"""The wheel and the sdist: built, installed without the source tree, and used as the quickstart."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from tests.patience import HOUR

from plusone.version import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# In the quickstart of the installed wheel: few pictures, each looked at once, and no server.
CHANGES = {
    "plusone example": "plusone example --items 150",
    "plusone train example/photos --out run": (
        "plusone train example/photos --set crops=one --out run"
    ),
    "plusone train better.csv --out run-2": (
        "plusone train better.csv --set crops=one --out run-2"
    ),
    "plusone review suggestions": "plusone review suggestions --no-browser --stop-after 1",
}
# One process for all commands: importing torch for each would take longer than the work.
COMMAND = """
from plusone.cli.app import main

def command(words):
    try:
        main(words)
    except SystemExit as left:
        assert not left.code, (words, left.code)

"""


def run(*words: object, cwd: Path) -> str:
    """Runs a program without our source tree in its path; returns what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        # Memory is kept: new pages cost as much as the network that fills them.
        env=environment | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_MAX_": "0"},
        capture_output=True,
        text=True,
        timeout=HOUR,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Builds into another folder, without a package index."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    run(sys.executable, "-m", "hatchling", "build", "-d", target, *kinds, cwd=source)
    return sorted(target.iterdir())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("built")
    sdist, wheel = sorted(build(ROOT, folder), key=lambda path: path.suffix)
    return sdist, wheel


def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    sdist, wheel = built
    assert sdist.name == f"plusone-{__version__}.tar.gz"
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (again,) = build(tmp_path / f"plusone-{__version__}", tmp_path / "again", "-t", "wheel")
    names, names_again = (zipfile.ZipFile(path).namelist() for path in (wheel, again))
    assert names == names_again
    assert "plusone/py.typed" in names
    sources = {path.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/**/*.py")}
    assert sources <= set(names)
    recipes = {f"plusone/recipes/{path.relative_to(ROOT / 'recipes')}"
               for path in ROOT.glob("recipes/**/*.toml")}  # fmt: skip
    assert recipes <= set(names)


def test_the_quickstart_runs_from_an_installed_wheel(built, tmp_path):
    _, wheel = built
    home = tmp_path / "home"
    home.mkdir()
    venv.create(tmp_path / "env", symlinks=True)
    (packages,) = tmp_path.glob("env/lib/python*/site-packages")
    # Dependencies come from the environment of the tests; a .pth in a .pth is not followed, so
    # an editable plusone there stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(
        sys.executable, "-m", "pip", "--python", tmp_path / "env" / "bin" / "python", "install",
        "-q", "--no-deps", "--no-index", "--ignore-installed", "--disable-pip-version-check", wheel,
        cwd=home,
    )  # fmt: skip
    python, plusone = tmp_path / "env" / "bin" / "python", tmp_path / "env" / "bin" / "plusone"
    place = run(python, "-c", "import plusone; print(plusone.__file__)", cwd=home)
    assert Path(place.strip()).is_relative_to(packages)
    hint = run(
        python, "-c", "from plusone.extras import install_command as f; print(f('plots'))", cwd=home
    )
    assert hint.strip() == f"pip install '{wheel}[plots]'"
    assert __version__ in run(plusone, "--version", cwd=home)
    code = [COMMAND]
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(bash|python)\n(.*?)^```", page, re.DOTALL | re.M):
        if language == "python":
            code.append(block)
            continue
        for line in block.splitlines():
            words = CHANGES.get(line, line).split()
            assert words[0] == "plusone", line
            code.append(f"command({words[1:]})\n")
    assert len(code) > 9
    run(python, "-c", "".join(code), cwd=home)
    assert (home / "run-2" / "report.html").is_file()
