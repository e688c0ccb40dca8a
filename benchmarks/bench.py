"""All speeds in one table: `make bench`.

    python benchmarks/bench.py DATA [--out bench.json] [--only NAME ...]

Runs the scripts beside this file one after the other, each in a process of its own, and shows what
they measured beside its goal. DATA is the folder with the reference data (VOCdevkit,
voc2012_features, ucmerced); without it the scripts that need it are left out, and the table says
so. A script that fails is a row that says why, and the others go on. Every value is a ratio of two
things measured side by side in one run, unless its name gives a unit. Takes about ten minutes on
two cores; the exit code is 1 if a script failed, whether or not goals were met.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plusone.io.files import write_json
from plusone.version import __version__

HERE = Path(__file__).parent
VOC = ("{data}/VOCdevkit", "--features", "{data}/voc2012_features")
SCRIPTS: dict[str, tuple[str, ...]] = {
    "linear": VOC,
    "stacked": (*VOC, "--methods", "an", "gr", "epr", "--rounds", "2"),
    "losses": (),
    "map": (),
    "finetune": (),
    "loading": ("{data}/ucmerced/labels.csv", "--items", "480", "--repeats", "2"),
    "extract": ("{data}/ucmerced/labels.csv", "--items", "480"),
    "startup": (),
    "classifier": ("--items", "30000", "--methods", "an,gr,softmax"),
    "estimators": (),
    "review": (),
    "serve": (),
    "kernel": ("{data}",),
    "growth": ("--quick",),
}
LIMIT = 900  # seconds for one script


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Args:
        script: Where it was measured.
        name: What was.
        value: The figure; None if there is none.
        goal: What it should be; None if it is only recorded.
        kind: "at least" or "at most".
        detail: What is behind the figure, or why there is none.
    """

    script: str
    name: str
    value: float | None
    goal: float | None
    kind: str
    detail: str

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None if there is no figure or no goal."""
        if self.value is None or self.goal is None:
            return None
        return self.value >= self.goal if self.kind == "at least" else self.value <= self.goal


def rows_of(script: str, found: Any) -> list[Row]:
    """The lines that a script's JSON gives."""
    listed = found.get("ratios") if isinstance(found, dict) else None
    if not listed:
        return [without(script, "the script wrote no ratios")]
    rows = []
    for one in listed:
        name, value = str(one["name"]), float(one["value"])
        goal = None if one["goal"] is None else float(one["goal"])  # recorded, without a goal
        if one["kind"] not in ("at least", "at most"):
            rows.append(without(script, f"the goal of {name} is neither at least nor at most"))
        elif not 0 < value < math.inf:  # times and sizes: anything else is noise or a mistake
            rows.append(without(script, f"{name} could not be measured: {value:g}"))
        else:
            detail = str(one.get("detail", ""))
            rows.append(Row(script, name, value, goal, one["kind"], detail))
    return rows


def without(script: str, why: str) -> Row:
    """A line for a script that gave no figure."""
    return Row(script, "-", None, None, "", why)


def figure(value: float | None) -> str:
    """A number with three or more digits that count.

    >>> [figure(value) for value in (0.9512, 13.257, 104.6, None)]
    ['0.951', '13.3', '105', '-']
    """
    if value is None:
        return "-"
    digits = 3 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def as_table(rows: list[Row]) -> str:
    """All lines under each other, as Markdown that is also read well as it is."""
    lines = [("script", "what", "value", "goal", "met", "detail")]
    for row in rows:
        goal = "-" if row.goal is None else f"{row.kind} {row.goal:g}"
        met = {True: "yes", False: "NO", None: "-"}[row.met]
        lines.append((row.script, row.name, figure(row.value), goal, met, row.detail))
    widths = [max(len(line[number]) for line in lines) for number in range(5)]
    lines.insert(1, tuple("-" * width for width in (*widths, 6)))
    padded = [
        [text.ljust(width) for text, width in zip(line, widths, strict=False)] + [line[5]]
        for line in lines
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def run(script: str, data: Path | None) -> list[Row]:
    """Runs one script and reads what it wrote."""
    arguments = SCRIPTS[script]
    if any("{data}" in text for text in arguments) and data is None:
        return [without(script, "left out: it needs the folder of the reference data")]
    given = [text.replace("{data}", str(data)) for text in arguments]
    with tempfile.TemporaryDirectory() as folder:
        to, log = Path(folder) / "found.json", Path(folder) / "log"
        command = [sys.executable, str(HERE / f"{script}.py"), *given, "--json", str(to)]
        try:
            with log.open("w") as file:
                done = subprocess.run(command, stdout=file, stderr=file, timeout=LIMIT)
            if done.returncode:
                raise ValueError(f"exit code {done.returncode}: {last_line(log)}")
            return rows_of(script, json.loads(to.read_text()))
        except subprocess.TimeoutExpired:
            return [without(script, f"failed: not done after {LIMIT} s")]
        except (OSError, ValueError, KeyError, TypeError) as error:
            return [without(script, f"failed: {error}")]


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "no output"


def about() -> dict[str, Any]:
    """The machine, for whoever reads the figures later."""
    import torch

    return {
        "plusone": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help="folder with the reference data")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    parser.add_argument("--only", nargs="+", choices=sorted(SCRIPTS), default=list(SCRIPTS))
    args = parser.parse_args()
    data = args.data if args.data is not None and args.data.is_dir() else None
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    for number, script in enumerate(args.only):
        print(f"[{number + 1}/{len(args.only)}] {script} ...", end="", file=sys.stderr, flush=True)
        started = time.perf_counter()
        found = run(script, data)
        seconds[script] = round(time.perf_counter() - started, 1)
        ended = found[0].detail if found[0].value is None else f"{len(found)} figures"
        print(f" {seconds[script]:.0f} s, {ended}", file=sys.stderr, flush=True)
        rows += found
        written = [asdict(row) | {"met": row.met} for row in rows]
        write_json(args.out, {"about": about(), "ratios": written, "seconds": seconds})
    print(as_table(rows))
    measured = [row for row in rows if row.met is not None]
    met = sum(row.met is True for row in measured)
    print(f"\n{met} of {len(measured)} goals met in {sum(seconds.values()):.0f} s; {args.out}")
    sys.exit(any(row.detail.startswith("failed") for row in rows if row.value is None))


if __name__ == "__main__":
    main()
