"""Damaged files for every reader: it may refuse them in a sentence, and nothing else.

A finding is any other error, a wait of more than some seconds, more memory than allowed, or the end
of the process. Each input follows from the seed, the reader and its number alone; what failed is
kept in a folder, and `--replay FOLDER` reads it again.

Example: python tools/fuzz.py --inputs 100000 --seed 0 --json fuzz.json
Example: python tools/fuzz.py --inputs 5000 --only "COCO json"
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from fuzzing.mutate import damage
from fuzzing.readers import READERS, Reader

from plusone.errors import InputError, RunError

PATIENCE = 5.0
MEMORY = 3 * 2**30
KEPT = 20
BETWEEN = 200  # inputs between two reports of a child


class Hang(BaseException):
    """A reader took too long."""


@dataclass
class Count:
    """What happened to the inputs of one reader."""

    reader: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    findings: dict[str, int] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    seconds: float = 0.0


def main() -> None:
    """Prints a line for each reader; exit code 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="How many in all.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="READER", help="Part of the name of a reader.")
    parser.add_argument("--seconds", type=float, help="Stop each reader after so many seconds.")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="For what failed.")
    parser.add_argument("--replay", type=Path, help="Read kept findings again.")
    parser.add_argument("--json", type=Path, dest="to", help="Write the table here too.")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.replay:
        sys.exit(1 if replay(given.replay) else 0)
    readers = [r for r in READERS if not given.only or given.only.lower() in r.name.lower()]
    if not readers:
        parser.error(
            f"no reader has {given.only!r} in its name: {', '.join(r.name for r in READERS)}"
        )
    share = given.inputs / sum(reader.weight for reader in readers)
    counts = []
    for reader in readers:
        number = math.ceil(share * reader.weight)
        counts.append(in_child(reader, number, given.seed, given.seconds, given.keep))
        show(counts[-1])
    total = Count(
        "all", *(sum(getattr(c, n) for c in counts) for n in ("inputs", "accepted", "refused"))
    )
    total.seconds = sum(c.seconds for c in counts)
    for count in counts:
        for what, times in count.findings.items():
            total.findings[f"{count.reader}: {what}"] = times
    show(total)
    if given.to:
        text = {"seed": given.seed, "total": asdict(total), "readers": [asdict(c) for c in counts]}
        given.to.write_text(json.dumps(text, indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if total.findings else 0)


def show(count: Count) -> None:
    """One line of the table, and the findings below it."""
    print(
        f"{count.reader:<26}{count.inputs:>9,} inputs{count.accepted:>9,} accepted"
        f"{count.refused:>9,} refused{sum(count.findings.values()):>6} findings"
        f"{count.seconds:>8.1f} s",
        flush=True,
    )
    if count.reader != "all":
        for what, times in count.findings.items():
            print(f"    {times} x {what}", flush=True)


def in_child(reader: Reader, inputs: int, seed: int, seconds: float | None, keep: Path) -> Count:
    """Damages and reads in a process of its own, so that not even its end goes unnoticed."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory_disk()) as place:
        folder, report = Path(place) / "files", Path(place) / "report.json"
        folder.mkdir()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                fuzz(reader, inputs, seed, seconds, keep, folder, report)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        count = Count(reader.name)
        if report.exists():
            count = Count(**json.loads(report.read_text()))
        if status:
            how = f"the process ended (wait status {status})"
            count.findings[how] = count.findings.get(how, 0) + 1
            _keep(folder, keep, reader, -1, how)
    return count


def fuzz(
    reader: Reader,
    inputs: int,
    seed: int,
    seconds: float | None,
    keep: Path,
    folder: Path,
    report: Path,
) -> None:
    """Reads so many damaged inputs; `report` tells how far it came."""
    changes = reader.seeds(folder)
    sound = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    reader.read(folder)  # sound files must be read
    _restore(folder, sound, {})
    names = sorted(changes)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _too_long)
    count, started = Count(reader.name), time.perf_counter()
    for number in range(inputs):
        rng = Random(f"{seed} {reader.name} {number}")
        name = rng.choice(names)
        change = changes[name] if rng.random() < 0.9 else damage
        (folder / name).write_bytes(change(sound.get(name, b""), rng))
        what = judge(reader, folder, count)
        if what is not None:
            count.findings[what] = count.findings.get(what, 0) + 1
            if count.findings[what] <= 2 and len(count.kept) < KEPT:
                _restore(folder, sound, kept := {name: (folder / name).read_bytes()})
                (folder / name).write_bytes(kept[name])
                count.kept.append(_keep(folder, keep, reader, number, what))
        _restore(folder, sound, {})
        count.inputs, count.seconds = number + 1, time.perf_counter() - started
        over = seconds is not None and count.seconds > seconds
        if over or number % BETWEEN == 0 or number == inputs - 1:
            report.write_text(json.dumps(asdict(count)))
        if over:
            return


def judge(reader: Reader, folder: Path, count: Count) -> str | None:
    """Reads once; what is wrong with how it went, or None."""
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        reader.read(folder)
    except (InputError, RunError) as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        count.refused += 1
        return _fault_of(str(error))
    except Hang:
        return f"took more than {PATIENCE:g} s"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of other languages are no Exception
        signal.setitimer(signal.ITIMER_REAL, 0)
        last = traceback.extract_tb(error.__traceback__)
        ours = [f for f in last if "/plusone/" in f.filename] or last
        where = f"{Path(ours[-1].filename).name}:{ours[-1].name}"
        first = (str(error).splitlines() or [""])[0][:70].encode("ascii", "replace").decode()
        return f"{type(error).__name__} in {where}: {first}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    count.accepted += 1
    return None


def _fault_of(sentence: str) -> str | None:
    """A refusal must be a sentence that can be printed, and not a flood."""
    if not sentence.strip():
        return "a refusal without a word"
    if len(sentence) > 20_000:
        return "a refusal of more than 20,000 characters"
    return None


def _too_long(number: int, frame: FrameType | None) -> None:
    raise Hang


def _restore(folder: Path, sound: dict[str, bytes], besides: dict[str, bytes]) -> None:
    """Puts the sound files back and removes what a reader left."""
    for path in sorted(folder.rglob("*"), reverse=True):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() and not path.is_symlink():
            if not any(other.startswith(name + "/") for other in sound):
                shutil.rmtree(path, ignore_errors=True)
        elif name not in sound and name not in besides:
            path.unlink(missing_ok=True)
    for name, content in sound.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def _keep(folder: Path, keep: Path, reader: Reader, number: int, what: str) -> str:
    name = f"{reader.name.replace(' ', '-').replace(',', '')}-{number}"
    shutil.copytree(folder, keep / name / "files", dirs_exist_ok=True)
    about = {"reader": reader.name, "number": number, "what": what}
    (keep / name / "about.json").write_text(json.dumps(about))
    return name


def replay(keep: Path) -> int:
    """Reads everything that was kept; how many still fail."""
    signal.signal(signal.SIGALRM, _too_long)
    failing = 0
    warm: list[Reader] = []
    for about in sorted(keep.glob("*/about.json")):
        said = json.loads(about.read_text())
        reader = next(r for r in READERS if r.name == said["reader"])
        if reader not in warm:
            warm_up(reader)
            warm.append(reader)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "files"
            shutil.copytree(about.parent / "files", folder)
            what = judge(reader, folder, Count(reader.name))
        failing += what is not None
        print(f"{about.parent.name}: {what or 'is accepted or refused now'}")
    print(f"{failing} findings")
    return failing


def warm_up(reader: Reader) -> None:
    """Reads sound files once: what is imported then takes longer than any reading."""
    with tempfile.TemporaryDirectory() as place:
        reader.seeds(Path(place))
        reader.read(Path(place))


def _memory_disk() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    main()
