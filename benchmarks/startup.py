"""How long `plusone --help` takes, beside a Python that does nothing.

    python benchmarks/startup.py [--repeats 9] [--json FILE]

Both take turns, each in a process of its own. Times are of the processor (user and system), so that
other work on the machine disturbs less; the least of the repeats counts. `import plusone` and a
command's own help are shown too, without a goal.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

GOAL = 0.3
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import plusone": ["-c", "import plusone"],
    "plusone --help": ["-m", "plusone", "--help"],
    "plusone train --help": ["-m", "plusone", "train", "--help"],
}


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def once(arguments: list[str]) -> tuple[float, float]:
    """Seconds of the processor and of the clock."""
    before, started = processor(), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return processor() - before, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(args.repeats):
        for name, arguments in COMMANDS.items():
            times[name].append(once(arguments))
    rows = []
    print("| command | processor, s: least | median | clock, s: least |")
    print("| --- | --- | --- | --- |")
    for name, found in times.items():
        used, clock = zip(*found, strict=True)
        rows.append({"command": name, "least_s": min(used), "median_s": median(used)})
        print(f"| `{name}` | {min(used):.3f} | {median(used):.3f} | {min(clock):.3f} |")
    bare, wanted = rows[0], rows[2]
    ratio = {
        "name": "plusone --help, seconds",
        "value": wanted["least_s"],
        "goal": GOAL,
        "kind": "at most",
        "detail": f"processor time, least of {args.repeats}; python alone {bare['least_s']:.3f} s",
    }
    if args.json:
        args.json.write_text(json.dumps({"ratios": [ratio], "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
