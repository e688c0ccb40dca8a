"""Measures what `docs/results.md` reports again and writes the tables there.

    python benchmarks/results.py DATA                       everything but what takes hours
    python benchmarks/results.py DATA --only voc-linear     some of it
    python benchmarks/results.py DATA --long                everything

`DATA` is the folder with VOCdevkit, voc2012_features, ucmerced, mulan and coco2014. What is done is
kept in `results/` and not done again, so a stopped run goes on. Each experiment of
`benchmarks/results/experiments.toml` fills the block of its name in `docs/results.md`; the text
around the blocks is written by people. At the end `docs/example-report.html` is made.
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

from plusone.files import write_text
from plusone.version import __version__

HERE = Path(__file__).resolve().parent
SPECS = HERE / "results"
DOCUMENT = HERE.parent / "docs" / "results.md"
REPORT = HERE.parent / "docs" / "example-report.html"


def main() -> None:
    """Runs the wanted experiments one after the other."""
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
    places = {
        "data": str(given.data.resolve()),
        "results": str(given.results.resolve()),
        "specs": str(given.results.resolve() / "specs"),
        "benchmarks": str(HERE),
    }
    for spec in SPECS.glob("*.toml"):
        write_text(Path(places["specs"]) / spec.name, _filled(spec.read_text("utf-8"), places))
    for name, entry in experiments.items():
        if name in given.only if given.only else given.long or not entry.get("long"):
            _run(entry, given.results / name, places)
    if "report" in listed:
        shown = [str(given.results / name) for name in listed["report"]["of"]]
        kept = [folder for folder in shown if Path(folder).exists()]
        _call(["plusone", "report", *kept, *listed["report"]["options"], "--out", str(REPORT)])


def _run(entry: dict[str, Any], folder: Path, places: dict[str, str]) -> None:
    """One experiment, and its block of the document."""
    folder.mkdir(parents=True, exist_ok=True)
    printed = ""
    for command in entry["run"]:
        words = shlex.split(_filled(command, places | {"out": str(folder)}))
        print("$", *words, flush=True)
        printed += _call(words, keep=entry["show"] == "printed")
    if entry["show"] == "nothing":
        return
    kept = folder / entry["show"]
    text = f"```text\n{printed.strip()}\n```\n" if printed else kept.read_text(encoding="utf-8")
    day = datetime.datetime.now(datetime.UTC).date()
    block = f"Measured on {day} with plusone {__version__}.\n\n{text.strip()}\n"
    write_text(DOCUMENT, put_block(DOCUMENT.read_text(encoding="utf-8"), entry["name"], block))


def put_block(document: str, name: str, block: str) -> str:
    """The document with the content between the marks of `name` replaced."""
    start, end = f"<!-- measured: {name} -->\n", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise SystemExit(f"docs/results.md must hold once: {start.strip()} ... {end}")
    return pattern.sub(lambda _: f"{start}\n{block}\n{end}", document)


def _filled(text: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _call(words: list[str], *, keep: bool = False) -> str:
    """Runs a command; its output is shown, or kept."""
    program = [sys.executable, *(["-m", "plusone"] if words[0] == "plusone" else [])]
    done = subprocess.run(
        [*program, *words[1:]], check=True, text=True, stdout=subprocess.PIPE if keep else None
    )
    return done.stdout if keep else ""


if __name__ == "__main__":
    main()
