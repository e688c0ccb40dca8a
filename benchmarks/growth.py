"""What an epoch costs, in time and memory, as items, classes and features grow.

    python benchmarks/growth.py --out docs/figures --json growth.json
    python benchmarks/growth.py --quick --json growth.json
    python benchmarks/growth.py --million --json growth.json

Every point is a process of its own (`growth_point.py`): the engine's own code, synthetic sparse
labels with one seen positive per item, batches of 256, one thread. At most 60 steps are measured,
and the cost of an epoch is that of its steps, in processor time, without evaluation. A method that
needs more than 8 GB or 120 seconds for its few steps gets a limit instead of a figure.

`--million` trains a linear model on 1,000,000 items x 1,000 classes x 512 features through the
command line and watches its memory. `--draw FILE` draws the figures of an earlier `--json` again.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from growth_point import Point, measure_apart, write_data

from plusone.closed_form.kernel import n_landmarks

SIZES = {
    "N": (10_000, 100_000, 1_000_000),
    "L": (20, 100, 1_000, 10_000),
    "D": (64, 1_024, 2_048),
}
BASE = {"N": 10_000, "L": 100, "D": 64}
MILLION = (1_000_000, 1_000, 512)


@dataclass(frozen=True)
class Line:
    """A method in the tables: its family, and how its time should grow with N, L and D."""

    name: str
    family: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    grows: tuple[float, float, float] = (1, 1, 1)


LINES = (
    Line("an", "pointwise", "an"),
    Line("gr", "pointwise", "gr"),
    Line("em", "pointwise", "em"),
    Line("epr", "count", "epr"),
    Line("pr", "ranking", "pr"),
    Line("softmax", "one label", "softmax"),
    Line("wan_sampled", "sampled", "wan_sampled"),
    Line("ll_r", "correcting", "ll_r"),
    Line("ll_cp", "correcting", "ll_cp"),
    Line("splc", "correcting", "splc"),
    Line("em_apl", "estimating", "em_apl"),
    Line("role", "estimating", "role", grows=(2, 1, 1)),
    Line("role factored", "estimating", "role", {"estimator": "factored"}),
    Line("role network", "estimating", "role", {"estimator": "network"}),
    Line("lasd", "two views", "lasd"),
    Line("lac", "label-wise", "lac", {"end_to_end": True}),
    Line("recovery", "closed form", "recovery"),
)


def points(line: Line, axis: str) -> list[Point]:
    """The points of one axis, the others at their base."""
    sizes = [BASE | {axis: size} for size in SIZES[axis]]
    return [Point(line.method, s["N"], s["L"], s["D"], line.options) for s in sizes]


def sweep(rounds: int, names: list[str], n_axis: list[int]) -> list[dict[str, Any]]:
    """All points of some lines; of several rounds the smallest time counts.

    Args:
        rounds: How often each is measured.
        names: Of the lines.
        n_axis: The numbers of items.
    """
    rows = []
    for line in (each for each in LINES if each.name in names):
        known: dict[tuple[int, ...], dict[str, Any]] = {}
        for axis, sizes in SIZES.items():
            for size, point in zip(sizes, points(line, axis), strict=True):
                if axis == "N" and size not in n_axis:
                    continue
                key = point.sizes
                if key not in known:
                    tries = [measure_apart(point) for _ in range(rounds)]
                    known[key] = min(tries, key=lambda found: found.get("epoch_s", math.inf))
                rows.append({"name": line.name, "axis": axis, "size": size, **known[key]})
                print(f"{line.name:14} {axis} = {size:>9,}  {_shown(known[key])}", flush=True)
    return rows


def _shown(found: dict[str, Any]) -> str:
    if "limit" in found:
        return str(found["limit"])
    return f"{found['epoch_s']:10.3f} s  {found['peak_mb']:8.0f} MB"


def exponent(rows: list[dict[str, Any]], key: str = "epoch_s") -> float | None:
    """The slope between the two largest measured sizes, both as logarithms."""
    done = [row for row in rows if key in row][-2:]
    if len(done) < 2:
        return None
    (low, high) = done
    return math.log(high[key] / low[key]) / math.log(high["size"] / low["size"])


def tables(rows: list[dict[str, Any]]) -> str:
    """The Markdown tables: seconds of an epoch with exponents, and memory."""
    of = {(row["name"], row["axis"], row["size"]): row for row in rows}
    lines = [line for line in LINES if any(row["name"] == line.name for row in rows)]
    text = []
    for place, (axis, sizes) in enumerate(SIZES.items()):
        rest = ", ".join(f"{name} = {size:,}" for name, size in BASE.items() if name != axis)
        heads = [f"{axis} = {size:,}" for size in sizes] + [f"time ~ {axis}^", "at most"]
        text += [f"Seconds of an epoch ({rest}):\n", *_head(heads)]
        for line in lines:
            own = [of.get((line.name, axis, size), {}) for size in sizes]
            slope = exponent(own)
            cells = [_cell(row, "epoch_s", ".3g") for row in own]
            cells += ["-" if slope is None else f"{slope:.2f}", f"{line.grows[place]:g}"]
            text.append(_row(line.name, cells))
        text.append("")
    text.append("Peak memory in MB, and bytes per label (N x L) more than `an` (L = 10,000):\n")
    shown = [("N", 10_000), ("N", 1_000_000), ("L", 10_000), ("D", 2_048)]
    text += _head([*(f"{axis} = {size:,}" for axis, size in shown), "bytes per label"])
    plain = of.get(("an", "L", 10_000), {}).get("peak_mb", math.nan)
    for line in lines:
        own = [of.get((line.name, *point), {}) for point in shown]
        beyond = (own[2].get("peak_mb", math.nan) - plain) * 2**20 / (BASE["N"] * 10_000)
        last = "-" if math.isnan(beyond) else f"{max(beyond, 0):.1f}"
        text.append(_row(line.name, [*(_cell(row, "peak_mb", ",.0f") for row in own), last]))
    limits = [row for row in rows if "limit" in row]
    if limits:
        text += ["", "Limits:", ""]
    text += [f"- `{r['name']}` at {r['axis']} = {r['size']:,}: {r['limit']}." for r in limits]
    return "\n".join(text)


def _head(cells: list[str]) -> list[str]:
    return ["| method | " + " | ".join(cells) + " |", "| --- |" + " ---: |" * len(cells)]


def _row(name: str, cells: list[str]) -> str:
    return f"| `{name}` | " + " | ".join(cells) + " |"


def _cell(row: dict[str, Any], key: str, form: str) -> str:
    return format(row[key], form) if key in row else "limit" if "limit" in row else "-"


def quick() -> list[dict[str, Any]]:
    """A few ratios for `make bench`."""
    at = {
        (n, width): min(
            (measure_apart(Point("an", n, width, 64)) for _ in range(2)), key=lambda f: f["step_s"]
        )
        for n, width in ((10_000, 100), (100_000, 100), (10_000, 1_000), (100_000, 1_000))
    }
    item = at[100_000, 100]["step_s"] / at[10_000, 100]["step_s"]
    label = at[10_000, 1_000]["step_s"] / at[10_000, 100]["step_s"] / 10
    table = (at[100_000, 1_000]["peak_mb"] - at[10_000, 1_000]["peak_mb"]) / (90_000 * 4000 / 2**20)
    # As of a million items: the seconds of more items, beyond what does not grow with them.
    fits = [
        measure_apart(Point("recovery", n, *MILLION[1:], landmarks=n_landmarks(*MILLION[:2])))
        for n in (20_000, 60_000)
    ]
    epoch = measure_apart(Point("gr", 20_000, *MILLION[1:]))["epoch_s"]
    more = (fits[1]["epoch_s"] - fits[0]["epoch_s"]) / 40_000
    beside = (fits[0]["epoch_s"] + more * (MILLION[0] - 20_000)) / (2 * epoch * MILLION[0] / 20_000)
    return [
        _ratio(
            "recovery over two epochs of gr, 1,000,000 x 1,000 x 512, extrapolated",
            beside,
            5,
            "a fit of 20,000 and of 60,000 items with the landmarks of 1,000,000",
        ),
        _ratio("cost per item, N = 100,000 over 10,000 (an)", item, 1.3, "100 classes, D = 64"),
        _ratio("cost per label, L = 1,000 over 100 (an)", label, 1.3, "10,000 items, D = 64"),
        _ratio(
            "memory that grows with N, over a float table [N, L] (an)",
            table,
            0.5,
            "10,000 to 100,000 items, 1,000 classes, D = 64",
        ),
    ]


def _ratio(name: str, value: float, goal: float, detail: str) -> dict[str, Any]:
    return {"name": name, "value": value, "goal": goal, "kind": "at most", "detail": detail}


def million(folder: Path, epochs: int, method: str) -> dict[str, Any]:
    """Trains on a million items through the command line; peaks of memory and seconds."""
    if not (folder / "x.ids.txt").exists():
        write_data(folder, *MILLION)
    run = folder / f"run-{time.time_ns()}"
    command = [str(Path(sys.executable).with_name("plusone")), "train", str(folder / "labels.npz")]
    command += ["--features", str(folder / "x.npy"), "-m", method, "--epochs", str(epochs)]
    command += ["--out", str(run)]
    started, peak = time.perf_counter(), {"VmHWM": 0, "RssAnon": 0, "RssFile": 0}
    process = subprocess.Popen(command)
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        for key in peak:
            if found := re.search(rf"{key}:\s+(\d+)", status):
                peak[key] = max(peak[key], int(found[1]))
        time.sleep(0.05)
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed")
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    return {
        "command": " ".join(["plusone", *command[1:]]),
        "seconds": time.perf_counter() - started,
        "training_seconds": metrics["seconds"],
        "peak_gb": peak["VmHWM"] / 1e6,
        "anonymous_gb": peak["RssAnon"] / 1e6,
        "file_gb": peak["RssFile"] / 1e6,
        "test_map": metrics["test_map"],
        "sampled": metrics.get("sampled"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few ratios, in a minute")
    parser.add_argument("--million", action="store_true", help="only the million items")
    parser.add_argument("--points", action="store_true", help="only the tables")
    parser.add_argument("--work", type=Path, help="folder for the million items' files, kept")
    parser.add_argument("--epochs", type=int, default=2, help="epochs over the million items")
    parser.add_argument("--method", default="gr", help="method for the million items")
    parser.add_argument("--rounds", type=int, default=1)
    names = [line.name for line in LINES]
    parser.add_argument("--lines", nargs="+", choices=names, default=names)
    parser.add_argument("--items", nargs="+", type=int, default=list(SIZES["N"]))
    parser.add_argument("--out", type=Path, help="folder for the figures")
    parser.add_argument("--draw", type=Path, help="draw these results instead of measuring")
    parser.add_argument("--json", type=Path, help="file for the figures as numbers")
    args = parser.parse_args()
    result: dict[str, Any] = {"ratios": []}
    if args.draw:
        result = json.loads(args.draw.read_text(encoding="utf-8"))
    elif args.quick:
        result["ratios"] = quick()
    else:
        if not args.million:
            result["points"] = sweep(args.rounds, args.lines, args.items)
        if not args.points:
            with tempfile.TemporaryDirectory() as spare:
                found = million(args.work or Path(spare), args.epochs, args.method)
            result["million"] = found
            detail = f"{found['command']}, {found['seconds']:.0f} s"
            name = "peak memory, 1,000,000 x 1,000 x 512, GB"
            goal = 4 if args.method == "recovery" else 6
            result["ratios"] = [_ratio(name, found["peak_gb"], goal, detail)]
    if "points" in result:
        print(tables(result["points"]))
        if args.out:
            from growth_plots import draw

            draw(result["points"], SIZES, BASE, LINES, args.out)
    if "million" in result:
        print(json.dumps(result["million"], indent=2))
    for row in result["ratios"]:
        print(f"{row['name']}: {row['value']:.2f} (goal {row['kind']} {row['goal']:g})")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
