"""The JSON files of comparisons and of `plusone analyse intervals`, each kind as a typed record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from plusone.compare.rows import Outcome, Row
from plusone.methods import ALL_LABELS
from plusone.results import Document, Number, Record


class Titled(Document):
    """A document with a title and the command that made it."""

    title: str = ""
    command: str = ""


class BenchSettings(Record):
    """How settings were chosen in a comparison, in a sentence, and its seeds."""

    rule: str = ""
    seeds: tuple[int, ...] = ()


class Bench(Titled):
    """A comparison; `results.json`."""

    kind: ClassVar[str] = "bench"

    date: str = ""
    version: str = ""
    settings: BenchSettings = BenchSettings()
    rows: tuple[Row, ...]


class SweepRow(Outcome):
    """A method with one value of the setting; `labels` counts the seen labels, where they vary."""

    value: Any
    labels: int | None = None


class Baseline(Record):
    """A method that was trained without the setting."""

    name: str
    test_map: Number = None
    test_sd: Number = None
    val_map: Number = None

    @property
    def score(self) -> float | None:
        """Test mAP, or validation mAP without a test split."""
        return self.val_map if self.test_map is None else self.test_map


class Sweep(Titled):
    """One setting with several values; `sweep.json`.

    Args:
        label: The setting in words.
        baseline: The method to compare with, trained without the setting.
        default: The value without the sweep; None if the methods differ in it.
        runs: One entry per run, for `sweep.csv`.
    """

    kind: ClassVar[str] = "sweep"

    over: str
    label: str = ""
    values: tuple[Any, ...]
    baseline: Baseline | None = None
    default: Any = None
    rows: tuple[SweepRow, ...]
    version: str = ""
    runs: tuple[dict[str, Any], ...] = Field(default=(), exclude=True)


class AblationRow(Outcome):
    """A method without some of its parts."""

    name: str
    paper: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    change: Number = None
    published: Number = None  # of the paper's row, in per cent


class Ablation(Titled):
    """A method with parts switched off; `ablation.json`."""

    kind: ClassVar[str] = "ablation"

    method: str
    data: str
    rows: tuple[AblationRow, ...]
    notes: tuple[str, ...] = ()
    version: str = ""


class LoopRow(Record):
    """The effect of one order of questions, over seeds.

    Args:
        yes: How many of them were answered yes, mean.
        test_map: mAP on the test items after training with the answers, mean.
        test_sd: Its sample standard deviation; None for one seed.
        gain: `test_map` minus that before any question.
        over_random: `gain` minus that of as many random questions; None for those themselves.
    """

    order: str
    questions: int
    yes: float
    test_map: float
    test_sd: Number
    gain: float
    over_random: Number = None


class Loop(Titled):
    """The result of simulated reviews; `loop.json`.

    Args:
        items: How many items questions were asked about.
        hidden: How many of their positives were hidden.
        before: mAP on the test items without any answer.
        all_labels: mAP of the method `reference` trained with all labels; it has the learning
            rate and all other settings of the method, nothing is tuned for it.
        reference: `bce`, or the method itself if it has a closed form.
    """

    kind: ClassVar[str] = "loop"

    data: str
    method: str
    lr: Number = None
    items: int
    hidden: int
    seeds: tuple[int, ...]
    folds: int | None = None
    before: float
    before_sd: Number = None
    all_labels: float
    reference: str = ALL_LABELS
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


def split_of(rows: Sequence[Outcome]) -> str:
    """What `score` is in some rows: test mAP, validation mAP, or some of each."""
    tested = [row.test_map is not None for row in rows]
    return "test mAP" if all(tested) else "mAP" if any(tested) else "validation mAP"
