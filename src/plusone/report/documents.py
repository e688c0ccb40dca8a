"""The JSON files of commands that a report shows: each kind as a typed record, and their reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from plusone.analysis.gradients import Gradients
from plusone.analysis.surface import RunSurface
from plusone.errors import InputError
from plusone.io.readers import read_json
from plusone.results import Document, Number, Record

__all__ = [
    "Ablation",
    "AblationRow",
    "Bench",
    "BenchRow",
    "Interval",
    "Intervals",
    "Loop",
    "LoopRow",
    "Scored",
    "Sweep",
    "SweepRow",
    "read_documents",
    "split_of",
]

BEGINNING = 400  # characters within which a file of ours states its kind


class Scored(Record):
    """A row with a mean mAP over seeds.

    Args:
        test_map: On the test items; None without a test split.
        test_sd: Its standard deviation over seeds; None for one seed.
        val_map: On the validation items.
    """

    test_map: Number = None
    test_sd: Number = None
    val_map: Number = None

    @property
    def score(self) -> float | None:
        """Test mAP, or validation mAP without a test split."""
        return self.val_map if self.test_map is None else self.test_map


def split_of(rows: Sequence[Scored]) -> str:
    """What `score` is in some rows: test mAP, validation mAP, or some of each."""
    tested = [row.test_map is not None for row in rows]
    return "test mAP" if all(tested) else "mAP" if any(tested) else "validation mAP"


class BenchRow(Record):
    """A method in a comparison; see `plusone.compare.summary.Row`."""

    data: str
    method: str
    mode: str = ""
    lr: Number = None
    options: dict[str, Any] = Field(default_factory=dict)
    seeds: int | None = None
    val_map: float
    val_score: Number = None
    test_map: Number = None
    test_sd: Number = None
    if_negative: Number = None
    if_positive: Number = None
    recovery_map: Number = None
    seconds: Number = None
    keys: tuple[str, ...] = ()
    gap_closed: Number = None
    published: Number = None
    published_source: str | None = None
    best: bool = False
    within_noise: bool = False
    p_seeds: Number = None
    p_classes: Number = None

    @property
    def score(self) -> float:
        """Test mAP; without a test split, the validation score that settings were chosen by."""
        if self.test_map is not None:
            return self.test_map
        return self.val_map if self.val_score is None else self.val_score


class Titled(Document):
    """A document with a title and the command that made it."""

    title: str = ""
    command: str = ""


class BenchSettings(Record):
    """How settings were chosen in a comparison, in a sentence."""

    rule: str = ""


class Bench(Titled):
    """A comparison; `results.json`."""

    kind: ClassVar[str] = "bench"

    date: str = ""
    settings: BenchSettings = BenchSettings()
    rows: tuple[BenchRow, ...]


class SweepRow(Scored):
    """A method with one value of the setting; `labels` counts the seen labels, where they vary."""

    data: str
    method: str
    value: Any
    labels: int | None = None
    lr: Number = None
    seeds: int | None = None


class Baseline(Scored):
    """A method that was trained without the setting."""

    name: str


class Sweep(Titled):
    """One setting with several values; `sweep.json`."""

    kind: ClassVar[str] = "sweep"

    over: str
    label: str = ""
    values: tuple[Any, ...]
    default: Any = None
    baseline: Baseline | None = None
    rows: tuple[SweepRow, ...]


class AblationRow(Scored):
    """A method without some of its parts; `change` is against the whole method."""

    name: str
    paper: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    seeds: int | None = None
    change: Number = None


class Ablation(Titled):
    """A method with parts switched off; `ablation.json`."""

    kind: ClassVar[str] = "ablation"

    method: str
    data: str
    rows: tuple[AblationRow, ...]
    notes: tuple[str, ...] = ()


class LoopRow(Record):
    """mAP after some questions, asked in an order."""

    order: str
    questions: int
    yes: float
    test_map: float
    test_sd: Number
    gain: float
    over_random: Number = None


class Loop(Titled):
    """Training again with a reviewer's answers; `loop.json`."""

    kind: ClassVar[str] = "loop"

    data: str
    method: str
    items: int
    hidden: int
    seeds: tuple[int, ...]
    before: float
    before_sd: Number = None
    all_labels: float
    reference: str = "bce"
    rows: tuple[LoopRow, ...]


class Interval(Record):
    """The interval of k from samples of a size."""

    size: int
    low: float
    high: float


class Intervals(Document):
    """Intervals of k, the mean number of positives per item; `intervals.json`."""

    kind: ClassVar[str] = "intervals"

    data: str
    k: float
    level: float = 0.9
    rows: tuple[Interval, ...]


KINDS: dict[str, type[Document]] = {
    record.kind: record
    for record in (Bench, Sweep, Ablation, RunSurface, Gradients, Intervals, Loop)
}
FILES = {kind: f"{kind}.json" for kind in KINDS} | {Bench.kind: "results.json"}


def read_documents(folder: Path) -> Iterator[Document]:
    """The JSON files of ours in a folder: those that begin with a kind that is known.

    Files with other names may be somebody else's: they are skipped if they are not valid.

    Raises:
        InputError: If a file with one of our names is not what we write.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                if '"kind"' not in file.read(BEGINNING):
                    continue
            content = read_json(path)
        except (OSError, ValueError) as error:
            if path.name in FILES.values():
                raise InputError(f"{path}: is not valid JSON ({error})") from None
            continue
        kind = content.get("kind") if isinstance(content, dict) else None
        if not isinstance(kind, str) or kind not in KINDS:
            continue
        try:
            yield KINDS[kind].from_json(content, str(path))
        except InputError as error:
            if path.name == FILES[kind]:
                raise InputError(f"{error}; make it again or remove it") from None
