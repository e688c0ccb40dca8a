"""kill -9 at random moments: every file stays whole, and the result is the uninterrupted one.

python tools/kills.py --kills 50 --seed 0          prints a table; exit code 1 on any damage
python tools/kills.py --only train,review --json   some of the commands, one JSON object

Each command is run once to its end. Then it is run again and again on the same data and killed
after a time drawn evenly between 0 and the time the first run took; after each kill every file it
left is opened and read. After one to three kills it may go on to its end, and what it leaves is
compared with the first run: everything but times must be equal, weights bit for bit. The review
server gets answers until it is killed, and must hold every one that it acknowledged.

The commands run in forks of this process, which has loaded the libraries already: otherwise most
kills would meet a process that is still loading them.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import os
import random
import re
import secrets
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import cycle
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 300.0  # seconds for a command to end
ANSWERING = 2.0  # seconds that a server may get answers
MOST_KILLS = 3  # of one life, before it may go on to its end
LOADED = (
    "torch", "torch._dynamo", "PIL.Image", "sklearn.datasets", "uvicorn", "safetensors.torch",
    "plusone.compare.bench",
    "plusone.cli.bench", "plusone.features.extraction",
    "plusone.training.run", "plusone.probabilities.k",
    "plusone.reviewing.review_page", "plusone.suggestions.find",
    "plusone.suggestions.outputs",
)  # fmt: skip
TIMES = re.compile(r"seconds|date|alone|stacked")  # what may differ between two runs


@dataclass
class Count:
    """What happened to one command."""

    command: str
    kills: int = 0
    at_work: int = 0
    ends: int = 0
    files: int = 0
    damage: list[str] = field(default_factory=list)


def main() -> None:
    """Runs the commands, prints the table, and ends with 1 if anything was damaged."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="kills in all; default 50")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments; default 0")
    parser.add_argument("--only", default="", help=f"some of: {', '.join(COMMANDS)}")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    names = [name for name in given.only.split(",") if name] or list(COMMANDS)
    if unknown := sorted(set(names) - COMMANDS.keys()):
        parser.error(f"--only {', '.join(unknown)}: is not one of {', '.join(COMMANDS)}")
    os.environ |= {"OMP_NUM_THREADS": "1", "PLUSONE_CACHE": ""}
    for module in LOADED:
        import_module(module)
    sys.modules["torch"].set_num_threads(1)
    draw = random.Random(given.seed)
    shares = [given.kills // len(names) + (n < given.kills % len(names)) for n in range(len(names))]
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        root = Path(place)
        make_data(root)
        counts = [
            COMMANDS[name](root, share, draw) for name, share in zip(names, shares, strict=True)
        ]
    show(counts, given.seed, as_json=given.json)
    sys.exit(any(count.damage for count in counts))


def make_data(root: Path) -> None:
    """Pictures with one tag each, their embeddings, and a run to make suggestions from."""
    finish(["example", str(root / "data"), "--items", "200"], root / "log")
    run = ["train", *labels(root), "-m", "gr", "--epochs", "10", "-s", "expected_positives=2.5"]
    finish([*run, "--out", str(root / "run"), "--no-report", "--json"], root / "log")


def labels(root: Path) -> list[str]:
    """The labels and the embeddings of the pictures, as words of a command."""
    return [str(root / "data" / "labels.csv"), "-x", str(root / "data" / "embeddings.npz")]


def train(root: Path, kills: int, draw: random.Random) -> Count:
    """A linear model on embeddings."""
    words = ["train", *labels(root), "-m", "gr", "--epochs", "80", "-s", "batch_size=8", "--json"]
    words += ["-s", "expected_positives=2.5"]
    return lives("train", words, root / "train", kills, draw, again=["--resume"])


def finetune(root: Path, kills: int, draw: random.Random) -> Count:
    """A small network on the pictures, which two processes decode again in every epoch."""
    words = ["train", str(root / "data" / "photos"), "-m", "em", "--backbone", "cnn", "--json"]
    words += ["--mode", "finetune", "--epochs", "4", "-s", "expected_positives=2.5"]
    words += ["-s", "image_size=32", "-s", "cache_mb=0", "-s", "probe=on"]
    return lives("finetune", words, root / "finetune", kills, draw, again=["--resume"])


def bench(root: Path, kills: int, draw: random.Random) -> Count:
    """Two methods with two seeds, in two processes."""
    words = ["bench", *labels(root), "-m", "an,em", "--seeds", "0,1", "-s", "epochs=40"]
    return lives("bench", [*words, "--no-report", "--json"], root / "bench", kills, draw)


def suggest(root: Path, kills: int, draw: random.Random) -> Count:
    """Three folds of the run."""
    words = ["suggest", str(root / "run"), "--folds", "3", "--also", "json", "--json"]
    return lives("suggest", words, root / "suggest", kills, draw)


def features(root: Path, kills: int, draw: random.Random) -> Count:
    """Features of the pictures; the file is the only one in its folder."""
    words = ["features", str(root / "data" / "photos"), "--backbone", "cnn", "--size", "64"]
    return lives("features", [*words, "--json"], root / "features", kills, draw, file="x.npz")


def lives(
    name: str,
    words: Sequence[str],
    root: Path,
    kills: int,
    draw: random.Random,
    *,
    again: Sequence[str] = (),
    file: str = "",
) -> Count:
    """Kills a command `kills` times, over several lives.

    Args:
        name: What to call it.
        words: The command without where it writes to.
        root: A folder for all that it writes.
        kills: How often.
        draw: Draws the moments.
        again: Words that make it go on with what is there.
        file: What to write in the folder, if the command writes one file.
    """
    count = Count(name)
    straight = root / "straight"
    began = time.monotonic()
    finish([*words, "--out", str(straight / file)], root / "log")
    whole = time.monotonic() - began
    wanted = result(straight)
    while count.kills < kills and not count.damage:
        folder = root / f"life-{count.ends}"
        command = [*words, "--out", str(folder / file)]
        for _ in range(min(draw.randint(1, MOST_KILLS), kills - count.kills)):
            going = [*again] if (folder / "recipe.toml").exists() else []
            child = start([*command, *going], root / "log")
            if ended(child, draw.uniform(0, whole)) is not None:
                break  # it was faster than the first run
            kill(child, draw)
            count.kills += 1
            count.at_work += folder.exists()
            check(folder, count)
        going = [*again] if (folder / "recipe.toml").exists() else []
        finish([*command, *going], root / "log")
        count.ends += 1
        check(folder, count, at_rest=True)
        if (found := result(folder)) != wanted:
            count.damage.append(f"{folder.name}: not the same result: {differing(found, wanted)}")
        shutil.rmtree(folder)
    return count


def review(root: Path, kills: int, draw: random.Random) -> Count:
    """A server that gets answers; each that it acknowledged must be in its file afterwards."""
    count, folder = Count("review"), root / "review"
    finish(["suggest", str(root / "run"), "--folds", "2", "--out", str(folder)], root / "log")
    found = import_module("plusone.suggestions").read_suggestions(folder)
    asked = list(zip(found.row.tolist(), found.label.tolist(), strict=True))
    kept: list[str] = []
    said, whole = root / "said", 0.0
    while count.kills < kills and not count.damage:
        command = ["review", str(folder), "--no-browser", "--json", "--stop-after", "100"]
        began = time.monotonic()
        child = start(command, root / "log", said)
        end = began + (draw.uniform(0, whole) if whole else PATIENCE)
        while time.monotonic() < end and not said.read_text().endswith("\n"):
            time.sleep(0.005)
        before, tab = len(kept), None
        if said.read_text().endswith("\n"):
            url = json.loads(said.read_text())["url"]
            tab = Thread(target=answer_until_it_dies, args=(url, asked, kept))
            tab.start()
        while time.monotonic() < end and (whole or len(kept) == before):
            time.sleep(0.005)
        whole = whole or time.monotonic() - began + ANSWERING
        kill(child, draw)
        if tab is not None:
            tab.join()
        count.kills += 1
        count.at_work += len(kept) > before
        check(folder, count)
    with sqlite3.connect(folder / "review.sqlite") as database:
        held = {step for (step,) in database.execute("SELECT step FROM decision")}
    if lost := set(kept) - held:
        count.damage.append(f"{len(lost)} of {len(kept)} acknowledged answers are lost")
    finish(["review", str(folder), "--summary", "--json"], root / "log")
    count.ends = 1
    return count


def answer_until_it_dies(url: str, asked: Sequence[tuple[int, int]], kept: list[str]) -> None:
    """Answers questions as a page does; notes what was acknowledged."""
    to = urlsplit(url)
    host = f"127.0.0.1:{to.port}"
    line = http.client.HTTPConnection("127.0.0.1", int(to.port or 0), timeout=10)
    try:
        line.request("GET", f"/?{to.query}", headers={"Host": host})
        reply = line.getresponse()
        place = reply.read().decode().partition("url=")[2].partition('"')[0]
        cookie = (reply.getheader("set-cookie") or "").partition(";")[0]
        sent = {"Host": host, "Cookie": cookie, "Origin": f"http://{host}"}
        sent["Content-Type"] = "application/json"
        session = secrets.token_hex(16)
        for row, label in cycle(asked):
            step = secrets.token_hex(16)
            answer = {"row": row, "label": label, "action": secrets.choice(["yes", "no"])}
            body = {"session": session, "step": step, "answers": [answer]}
            line.request("POST", f"{place}api/answer", json.dumps(body), sent)
            reply = line.getresponse()
            if json.loads(reply.read()) and reply.status == 200:
                kept.append(step)
    except (OSError, ValueError, http.client.HTTPException):
        return  # the server is dead
    finally:
        line.close()


def start(words: Sequence[str], log: Path, out: Path | None = None) -> int:
    """Runs a command in a process of its own, with its own process group."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if out is not None:
        out.write_text("")
    child = os.fork()
    if child:
        return child
    os.setsid()
    for number, target in ((1, out or log), (2, log)):
        os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    code = 1
    try:
        import_module("plusone.cli.app").main(list(words))
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)


def ended(child: int, seconds: float) -> int | None:
    """The exit code of a process that ends within some seconds, else None."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def kill(child: int, draw: random.Random) -> None:
    """Kills a process alone, or with all that it started."""
    if draw.random() >= 0.5:
        with suppress(ProcessLookupError):  # it was killed before it had a group
            os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def finish(words: Sequence[str], log: Path) -> None:
    """Runs a command to its end; anything but success is an error of this script."""
    code = ended(child := start(words, log), PATIENCE)
    if code is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if code != 0:
        raise SystemExit(f"plusone {' '.join(words)}: exit code {code}\n{log.read_text()}")


def check(folder: Path, count: Count, *, at_rest: bool = False) -> None:
    """Opens and reads every file; at rest nothing temporary may be left either."""
    for path in sorted(folder.rglob("*")) if folder.exists() else ():
        if not path.is_file():
            continue
        temporary = path.name.endswith("-part")
        count.files += 1
        try:
            if at_rest and temporary:
                raise ValueError("was left behind")
            if not temporary:
                READERS.get(path.suffix, read_other)(path)
        except Exception as error:
            count.damage.append(f"{path.relative_to(folder.parent)}: {error}")


def read_arrays(path: Path) -> None:
    """An npz or npy file."""
    numpy = import_module("numpy")
    found = numpy.load(path, allow_pickle=False)
    for name in getattr(found, "files", ()):
        found[name]


def read_tensors(path: Path) -> None:
    """A safetensors file."""
    import_module("safetensors.torch").load_file(path)


def read_lines(path: Path) -> None:
    """JSON lines; a kill may cut the last."""
    for line in path.read_bytes().split(b"\n")[:-1]:
        json.loads(line)


def read_table(path: Path) -> None:
    """A CSV file with equally many cells in every line, the last line ended."""
    text = path.read_text(encoding="utf-8")
    if len({len(row) for row in csv.reader(text.splitlines())}) != 1 or not text.endswith("\n"):
        raise ValueError("is not a whole table")


def read_database(path: Path) -> None:
    """A SQLite file."""
    database = sqlite3.connect(path)
    if database.execute("PRAGMA integrity_check").fetchone() != ("ok",):
        raise ValueError("is damaged")
    database.close()


def read_other(path: Path) -> None:
    """Text with an end."""
    if path.suffix in (".md", ".tex", ".html") and not path.read_text().endswith("\n"):
        raise ValueError("has no end")


READERS: dict[str, Callable[[Path], object]] = {
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".toml": lambda path: tomllib.loads(path.read_text(encoding="utf-8")),
    ".jsonl": read_lines,
    ".npz": read_arrays,
    ".npy": read_arrays,
    ".safetensors": read_tensors,
    ".csv": read_table,
    ".sqlite": read_database,
}


def result(folder: Path) -> dict[str, Any]:
    """What a command leaves behind, without times and places."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            found[name] = timeless(json.loads(path.read_text().replace(str(folder), "")))
        elif path.suffix == ".jsonl":
            lines = map(json.loads, path.read_text().splitlines())
            found[name] = sorted(json.dumps(timeless(line), sort_keys=True) for line in lines)
        elif path.suffix == ".csv" and path.name == "results.csv":
            rows = csv.DictReader(path.read_text().splitlines())
            found[name] = [timeless(row) for row in rows]
        elif path.suffix not in (".toml", ".md", ".tex"):
            found[name] = path.read_bytes()
    return found


def timeless(value: Any) -> Any:
    """A JSON value without what may differ between two runs."""
    if isinstance(value, dict):
        return {key: timeless(entry) for key, entry in value.items() if not TIMES.fullmatch(key)}
    return [timeless(entry) for entry in value] if isinstance(value, list) else value


def differing(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The files that are not the same."""
    names = [name for name in sorted(one | other) if one.get(name) != other.get(name)]
    return ", ".join(names)


def show(counts: Sequence[Count], seed: int, *, as_json: bool) -> None:
    """Prints what was counted."""
    kills, damage = sum(c.kills for c in counts), [text for c in counts for text in c.damage]
    if as_json:
        rows = [vars(count) for count in counts]
        print(json.dumps({"seed": seed, "kills": kills, "damage": len(damage), "rows": rows}))
        return
    print(
        f"{'command':10s} {'kills':>6s} {'at work':>8s} {'ends':>5s} {'files':>6s} {'damage':>7s}"
    )
    total = Count(
        "all", kills, sum(c.at_work for c in counts), sum(c.ends for c in counts),
        sum(c.files for c in counts), damage,
    )  # fmt: skip
    for count in (*counts, total):
        print(
            f"{count.command:10s} {count.kills:6d} {count.at_work:8d} {count.ends:5d} "
            f"{count.files:6d} {len(count.damage):7d}"
        )
    for text in damage:
        print(text)


COMMANDS: dict[str, Callable[[Path, int, random.Random], Count]] = {
    "train": train,
    "finetune": finetune,
    "bench": bench,
    "suggest": suggest,
    "features": features,
    "review": review,
}

if __name__ == "__main__":
    main()
