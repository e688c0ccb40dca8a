"""Repeats the measurements of `docs/evidence` and writes their tables there.

    python benchmarks/results.py DATA                       everything but what takes hours
    python benchmarks/results.py DATA --only voc-linear     some of it
    python benchmarks/results.py DATA --long                everything

`DATA` is the folder with VOCdevkit, voc2012_features, voc2012_resnet50_features, ucmerced, mulan
and coco2014. Finished work is kept in `results/` and not repeated, so a stopped run resumes. Each
experiment of `benchmarks/results/experiments.toml` fills the block of its name on a page of
`docs/evidence`; the text around the blocks is written by hand. At the end
`results/report.html` is made.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from plusone.io.files import write_text
from plusone.version import __version__

HERE = Path(__file__).resolve().parent
SPECS = HERE / "results"
EVIDENCE = HERE.parent / "docs" / "evidence"


def main() -> None:
    """Runs the selected experiments one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="experiments to run")
    parser.add_argument("--long", action="store_true", help="also those that take hours")
    parser.add_argument("--results", type=Path, default=HERE.parent / "results")
    given = parser.parse_args()
    listed = tomllib.loads((SPECS / "experiments.toml").read_text(encoding="utf-8"))
    experiments = {entry["name"]: entry for entry in listed["experiment"]}
    if unknown := set(given.only or ()) - experiments.keys():
        parser.error(f"no experiment {sorted(unknown)}; there are: {', '.join(experiments)}")
    folder: Path = given.results.resolve()
    _lay_out(folder, given.data.resolve())
    for name, entry in experiments.items():
        selected = name in given.only if given.only else given.long or not entry.get("long")
        if selected and not ("makes" in entry and (folder / entry["makes"]).exists()):
            _run(entry, folder)
    shown = [name for name in listed["report"]["of"] if (folder / name).exists()]
    options = [*listed["report"]["options"], "--figures", "figures", "--out", "report.html"]
    _call(["plusone", "report", *shown, *options], folder)


def _lay_out(folder: Path, data: Path) -> None:
    """Links the data sets into the folder, so that every command is short and can be repeated."""
    folder.mkdir(parents=True, exist_ok=True)
    for place in data.iterdir():
        link = folder / place.name
        if place.is_dir() and not link.exists():
            link.symlink_to(place)
    for spec in SPECS.glob("*-*.toml"):
        write_text(folder / spec.name, spec.read_text(encoding="utf-8"))


def _run(entry: dict[str, Any], folder: Path) -> None:
    """Runs one experiment and writes its block."""
    printed = ""
    for command in entry["run"]:
        print("$", command, flush=True)
        printed += _call(shlex.split(command), folder, keep=entry["show"] == "printed")
    if entry["show"] == "nothing":
        return
    if not printed:
        text = (folder / entry["name"] / entry["show"]).read_text(encoding="utf-8")
    else:
        is_markdown = "\n| ---" in printed
        text = printed if is_markdown else f"```text\n{printed.strip()}\n```\n"
    day = datetime.datetime.now(datetime.UTC).date()
    block = f"Measured on {day} with plusone {__version__}.\n\n{text.strip()}\n"
    page = page_of(entry["name"], EVIDENCE)
    write_text(page, put_block(page.read_text(encoding="utf-8"), entry["name"], block))


def page_of(name: str, folder: Path) -> Path:
    """The one page of the folder that has the block `name`."""
    mark = f"<!-- measured: {name} -->\n"
    pages = [page for page in sorted(folder.glob("*.md")) if mark in page.read_text("utf-8")]
    if len(pages) != 1:
        raise SystemExit(f"{len(pages)} pages of {folder} have {mark.strip()}, expected one")
    return pages[0]


def put_block(document: str, name: str, block: str) -> str:
    """The document with the content between the marks of `name` replaced."""
    start, end = f"<!-- measured: {name} -->\n", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise SystemExit(f"the page must contain once: {start.strip()} ... {end}")
    return pattern.sub(lambda _: f"{start}\n{block}\n{end}", document)


def _call(words: list[str], folder: Path, *, keep: bool = False) -> str:
    """Runs a command in the folder; its output is shown, or kept."""
    program = ["-m", "plusone"] if words[0] == "plusone" else [str(HERE / words[1])]
    rest = words[1:] if words[0] == "plusone" else words[2:]
    done = subprocess.run(
        [sys.executable, *program, *rest],
        check=True, text=True, cwd=folder, stdout=subprocess.PIPE if keep else None,
    )  # fmt: skip
    return done.stdout if keep else ""


if __name__ == "__main__":
    main()
