"""What a training leaves behind, typed: `EpochRecord`, `RunResult`, `RunDescription`.

These are the lines of `records.jsonl`, the content of `metrics.json` and of `data.json`. They are
validated when they are read; numbers that JSON cannot hold (NaN, infinity) are None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from plusone.errors import InputError

__all__ = [
    "BINS",
    "Document",
    "EpochRecord",
    "Example",
    "LabelCounts",
    "Number",
    "Probe",
    "Record",
    "RunDescription",
    "RunResult",
    "finite",
]

LONGEST_SIDE = 2**24
LONGEST_NAME = 255  # of a plug-in
BINS = 100  # of the histograms of a probe


def finite(value: Any) -> Any:
    """None for numbers that JSON cannot hold, at any depth."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(finite)]
Numbers = Annotated[Mapping[str, float | None], BeforeValidator(finite)]


class Record(BaseModel):
    """A value that is written as JSON and validated when it is read back."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def to_json(self) -> dict[str, Any]:
        """The plain values that JSON holds."""
        return self.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def from_json(cls, value: object, source: str) -> Self:
        """A record from plain values.

        Raises:
            InputError: A value is missing or of another type.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "its content"
            problem = "is missing" if first["type"] == "missing" else "has a wrong value"
            raise InputError(f"{source}: is not what plusone writes ({name} {problem})") from None


class Document(Record):
    """The content of a JSON file that begins with its kind, such as `surface.json`."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The plain values that JSON holds, the kind first."""
        return {"kind": self.kind} | super().to_json()


class Probe(Record):
    """Probabilities of unobserved labels at one moment, as two histograms.

    They are those of the training items, or all labels of other items (`Recipe.probe_on`).

    Args:
        positives: How many hidden positives have a probability in each of 100 equal bins.
        negatives: The same for true negatives.
        distance: Wasserstein distance between the two distributions; None if one is empty.
        by_class: Both histograms of each class, where the recipe asks for them.
    """

    positives: tuple[int, ...]
    negatives: tuple[int, ...]
    distance: Number
    by_class: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] | None = None


class EpochRecord(Record):
    """One epoch; one line of `records.jsonl`.

    Args:
        stage: Number of the stage, from 0.
        epoch: Number of the epoch within the stage, from 1.
        losses: Mean of each loss term over the steps.
        val_map: mAP on the validation items, against the labels of `selected_on`; unknown ones
            count as `RunResult.val_against` says.
        selected_on: "truth" or "observed".
        best: Whether this is the best epoch of the stage so far.
        weights: "raw" or "ema", whichever scored better.
        seconds: Time taken, evaluation included.
        probe: Histograms of the unobserved labels' probabilities; None where the recipe does not
            ask for them or the truth is not known.
        probe_before: The same before the first step, where the recipe asks for it.
        val_score: What the best epoch is chosen by, higher is better.
        selected_by: "map", or the name of a score of `plusone.metrics.seen_labels`.
        remarks: What a user should know of settings and method, as sentences, after the first epoch
            that shows it.
    """

    stage: int
    epoch: int
    losses: Numbers
    val_map: float
    selected_on: str
    best: bool
    weights: str
    seconds: float
    probe: Probe | None = None
    probe_before: Probe | None = None
    val_score: Number = None
    selected_by: str = "map"
    remarks: tuple[str, ...] = ()


class Example(Record):
    """A training item with what was seen, what is true and the highest scores.

    Args:
        id: Its name.
        seen: Seen positive classes.
        truth: True classes; None where they are not known.
        scores: The highest probabilities, by class name.
    """

    id: str
    seen: tuple[str, ...]
    truth: tuple[str, ...] | None
    scores: Numbers


class LabelCounts(Record):
    """Positives per class of the training items: as seen, and in truth."""

    classes: tuple[str, ...]
    seen: tuple[int, ...]
    true: tuple[int, ...]


class RunResult(Record):
    """The result of a finished training; the content of `metrics.json`.

    Args:
        method: Name in the method table.
        seed: Seed of initial weights, batch order and augmentation.
        val_map: mAP on the validation items of the chosen epoch.
        val_score: What the epoch was chosen by; None in results of earlier versions.
        test_map: mAP on the test items; None without them, and if no more than some of their
            positives are known.
        best_epoch: The chosen epoch of the last stage, from 1.
        stage_val_map: The best validation mAP of each stage.
        compared: Validation mAP of each of the models that were compared at the end, where a
            network was fine-tuned on labels that a closed form recovered; the best one predicts.
        seconds: Duration of the training.
        run: The run folder; None where there is none.
        data: Name of the data set.
        lr: Learning rate.
        options: Options of the method.
        mode: "linear", "finetune", "linear_init" or "stages".
        head: What is trained on features: "linear", "kernel" (a linear layer in its space), or the
            name of a head of the method's own. Empty in results of earlier versions.
        learned: How many items it learned from: the training items, in closed forms validation
            items too. None in results of earlier versions.
        k: Expected positives per item that the method used.
        k_from: Where k comes from.
        recipe: All settings that are not defaults.
        selected_on: "truth" or "observed".
        selected_by: "map", or the name of a score on seen labels.
        val_against: What `val_map` is measured against: "truth"; "known" where some labels are
            unknown, which are left out; "seen" where no more than some positives are known, and
            everything else counts as negative. Empty in results of earlier versions.
        weights: "raw" or "ema".
        observation: Scheme, seed and digest of the seen labels.
        items: Number of items per split.
        version: The version of plusone.
        test: All metrics on the test items; unknown labels are left out.
        test_unknown: How many of their labels are unknown.
        test_if_negative: `test` if all unknown labels were negative; None if there are none.
        test_if_positive: `test` if all unknown labels were positive; None if there are none.
        test_ap: Average precision per class on the test items.
        test_map_by_level: Its mean over the classes of each level of a hierarchy, the top first.
        calibration: What the probabilities were calibrated on.
        test_calibrated: Metrics of the calibrated probabilities on the test items, with labels
            predicted by the run's thresholds; `test` is about the raw scores, and 0.5.
        examples: Some training items.
        labels: Positives per class.
        recovery: Metrics of the model on the hidden training labels.
        recovery_estimates: The same for the method's own estimates.
        sampled: Figures that were computed on a sample: how many items of how many.
        rules: Reasons for the automatic settings.
        about_labels: What is striking about the labels that people gave.
        epochs: Its epochs, in the journal of a comparison; empty where the run folder has them.
    """

    method: str
    seed: int
    val_map: float
    val_score: Number = None
    test_map: Number
    best_epoch: int
    stage_val_map: tuple[Number, ...] = ()
    compared: dict[str, float] = Field(default_factory=dict)
    seconds: float
    run: str | None = None
    data: str
    lr: float
    options: dict[str, Any] = Field(default_factory=dict)
    mode: str = "linear"
    head: str = ""
    learned: int | None = None
    k: Number = None
    k_from: str = "none"
    recipe: dict[str, Any] = Field(default_factory=dict)
    selected_on: str
    selected_by: str = "map"
    val_against: str = ""
    weights: str = "raw"
    observation: dict[str, Any] = Field(default_factory=dict)
    items: dict[str, int] = Field(default_factory=dict)
    version: str = ""
    test: Numbers | None = None
    test_unknown: int = 0
    test_if_negative: Numbers | None = None
    test_if_positive: Numbers | None = None
    test_ap: tuple[Number, ...] | None = None
    test_map_by_level: tuple[Number, ...] = ()
    calibration: dict[str, Any] | None = None
    test_calibrated: Numbers | None = None
    examples: tuple[Example, ...] = ()
    labels: LabelCounts | None = None
    recovery: Numbers | None = None
    recovery_estimates: Numbers | None = None
    sampled: dict[str, dict[str, int]] = Field(default_factory=dict)
    rules: tuple[str, ...] = ()
    about_labels: tuple[str, ...] = ()
    epochs: tuple[EpochRecord, ...] = ()

    def headline(self) -> str:
        """Validation and test mAP in one line, with what the validation labels were."""
        test = "" if self.test_map is None else f", test mAP {100 * self.test_map:.2f} %"
        test += self.test_note
        return f"val mAP {100 * self.val_map:.2f} % (against {self.val_labels}){test}"

    @property
    def against(self) -> str:
        """`val_against`, also of earlier versions: "truth", "known" or "seen"."""
        return self.val_against or ("truth" if self.selected_on == "truth" else "seen")

    @property
    def val_labels(self) -> str:
        """What `val_map` is measured against, in words."""
        words = {"truth": "all labels", "known": "the known labels", "seen": "the seen labels"}
        return words.get(self.against, self.against)

    @property
    def test_note(self) -> str:
        """What `test_map` would be if unknown labels were not left out; empty if there are none."""
        ends = [(each or {}).get("map") for each in (self.test_if_negative, self.test_if_positive)]
        if None in ends:
            return ""
        negative, positive = (f"{100 * end:.2f}" for end in ends if end is not None)
        return (
            f" ({self.test_unknown:,} unknown labels left out; {negative} if all were negative, "
            f"{positive} if all were positive)"
        )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        names = ("method", "data", "seed", "lr", "val_map", "test_map", "best_epoch", "run")
        return [(name, getattr(self, name)) for name in names]

    def _repr_html_(self) -> str:
        """A table for notebooks: what was trained, and how good it is."""
        items = ", ".join(f"{count} {split}" for split, count in self.items.items() if count)
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        rows = {
            "method": f"{self.method} ({options})" if options else self.method,
            "data": f"{self.data}: {items} items" if items else self.data,
            "result": self.headline(),
            "training": f"{self.mode}, learning rate {self.lr:g}, seed {self.seed}, "
            f"{self.seconds:.1f} s",
            "run": self.run,
        }
        lines = [
            f"<tr><th style='text-align:left'>{name}</th>"
            f"<td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in rows.items()
            if value is not None
        ]
        rules = "".join(f"<li>{escape(rule)}</li>" for rule in self.rules)
        chosen = f"<details><summary>chosen by rules</summary><ul>{rules}</ul></details>"
        return f"<table>{''.join(lines)}</table>" + (chosen if rules else "")

    @property
    def choice_score(self) -> float:
        """What settings are chosen by, higher is better; earlier versions chose by mAP."""
        return self.val_map if self.val_score is None else self.val_score


Side = Annotated[int, Field(gt=0, le=LONGEST_SIDE)]


class RunDescription(Record):
    """What a reader of a run must know of its data; the content of `data.json`.

    Args:
        format: Version of the file's format.
        data: Name of the data set.
        classes: Class names.
        images: Whether inputs are images.
        shape: Shape of one input.
        k: Expected positives per item, if the method has it.
        k_from: Where k comes from.
        source: How the data was read.
        observation: Scheme, seed and digest of the seen labels.
        items: Number of items per split.
        fingerprint: Hash of the items' names and of a sample of their inputs.
        made_by: What made the features (backbone, size, ...), as far as their file says.
        versions: Versions of plusone, torch, numpy and Python.
        plugin: The plug-in that has the method, a file name or a package; None for our own methods.
        side_information: What the method knows besides inputs and labels, such as similarities of
            the class names, and what that was made with; empty if nothing.
    """

    format: Literal[1] = 1
    data: str
    classes: tuple[str, ...] = Field(min_length=1)
    images: Annotated[bool, Field(strict=True)]
    shape: tuple[Side, ...] = Field(min_length=1, max_length=3)
    k: Annotated[float, Field(allow_inf_nan=False)] | None
    k_from: str = "none"
    source: dict[str, Any]
    observation: dict[str, Any]
    items: dict[str, int] = Field(default_factory=dict)
    fingerprint: str = ""
    made_by: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    plugin: Annotated[str, Field(max_length=LONGEST_NAME)] | None = None
    side_information: str = ""
