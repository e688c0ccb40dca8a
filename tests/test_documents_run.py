"""The pages for practitioners run from top to bottom, as a reader would type them.

Each page starts in an empty folder with what `plusone example` makes (with fewer pictures, which is
all that differs from what is printed there). Its `bash` and `python` blocks run in order.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import matplotlib
import pytest

from plusone.cli.app import main
from plusone.data.example import write_example
from plusone.io.files import cache_folder

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (  # and the quickstart in test_wheel.py
    "own-data",
    "choosing",
    "missing-labels",
    "review",
    "use",
    "serve",
    "classifier",
    "selection",
    "priors",
    "texts",
    "embeddings",
)
ELSEWHERE = {"make", "pip", "git", "cd", "python"}  # set-up, and benchmarks that take long


@pytest.fixture(scope="session")
def example(once):
    return once("example", lambda folder: write_example(folder, 160, audited=60, new=16))


def lay_out(example, folder):
    """The example in a folder of the page's own; the pictures are shared."""
    pictures = ("photos", "new")
    shutil.copytree(example, folder / "example", ignore=shutil.ignore_patterns(*pictures))
    for name in pictures:
        (folder / "example" / name).symlink_to(example / name)


def blocks(path):
    """Language and text of each block, in order."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r"^```(bash|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(block):
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] not in ELSEWHERE:
            yield line, words


def run(line, words):
    if words[0] == "printf":
        subprocess.run(line, shell=True, check=True)
        return
    assert words[0] == "plusone", line
    if words[1] == "example" and "--texts" not in words:
        return  # the fixture's
    if words[1] == "example":
        words = [*words, "--items", "120"]
    if words[1] == "serve":
        words = [*words, "--stop-after", "1"]
    if words[1] == "review" and not {"--export", "--summary", "--help"} & set(words):
        words = [*words, "--no-browser", "--stop-after", "1"]
    with pytest.raises(SystemExit) as stop:
        main(words[1:])
    assert stop.value.code in (0, None), shlex.join(words)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page, example, tmp_path, monkeypatch):
    lay_out(example, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("plusone.report.writing.find_spec", lambda name: None)  # reports as tables
    monkeypatch.setattr("plusone.autorecipe.MOST_SECONDS", 0)  # features of one crop
    monkeypatch.setattr("plusone.data.feature_store.features_folder", cache_folder)  # shared
    matplotlib.use("Agg")
    names = {}
    found = blocks(DOCS / f"{page}.md")
    assert found
    for language, block in found:
        if language == "python":
            exec(compile(block, page, "exec"), names)
        else:
            for line, words in commands(block):
                run(line, words)
