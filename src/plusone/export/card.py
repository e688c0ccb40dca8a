"""The description of an exported model: `config.json`, and the model card made from it.

Both follow the conventions of Hugging Face.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plusone.export.inputs import NAME, InputSpec
from plusone.export.onnx import OnnxCheck
from plusone.probabilities.calibration import Calibration
from plusone.probabilities.thresholds import ORIGINS, Thresholds
from plusone.recipe import Recipe
from plusone.results import RunResult
from plusone.version import __version__

KIND = "plusone"
PUBLISHED = (
    "method", "data", "seed", "val_map", "val_score", "test_map", "test", "best_epoch",
    "selected_on", "selected_by", "val_against", "k", "k_from", "observation", "items", "mode",
    "options", "recovery", "rules", "test_calibrated", "test_unknown", "test_if_negative",
    "test_if_positive",
)  # fmt: skip

SHOWN_CLASSES = 200
MEASURES = (
    ("map", "mean average precision"),
    ("cf1", "macro F1 (CF1)"),
    ("of1", "micro F1 (OF1)"),
    ("ece", "calibration error (ECE)"),
    ("mean_probability", "mean probability"),
    ("true_rate", "share of labels that are true"),
)


@dataclass(frozen=True)
class ModelConfig:
    """The content of `config.json`: no paths of this machine, and no names of items.

    Args:
        backbone: Name of the backbone; None if features are the input.
        result: Result of the training; the entries in `PUBLISHED` are written.
        recipe: The settings, without paths.
        onnx: How the ONNX file was checked; None if there is none.
    """

    classes: tuple[str, ...]
    input: InputSpec
    backbone: str | None
    thresholds: Thresholds
    calibration: Calibration
    result: RunResult
    paper: str
    recipe: Recipe
    onnx: OnnxCheck | None = None

    @property
    def name(self) -> str:
        """Name of the model."""
        return f"{self.result.data}-{self.result.method}"

    def to_json(self) -> dict[str, Any]:
        """The content of `config.json`."""
        result = self.result.to_json()
        by_class = self.thresholds.by_name(self.classes)
        config = {
            "model_type": KIND,
            "architectures": ["plusone.Classifier"],
            "problem_type": "multi_label_classification",
            "num_labels": len(self.classes),
            "id2label": {str(number): name for number, name in enumerate(self.classes)},
            "label2id": {name: number for number, name in enumerate(self.classes)},
            "input": self.input.to_json(),
            "backbone": self.backbone,
            "thresholds": {"from": self.thresholds.origin, "by_class": by_class},
            "calibration": self.calibration.about(),
            "training": {key: result[key] for key in PUBLISHED if key in result},
            "paper": self.paper,
            "recipe": self.recipe.model_dump(mode="json", exclude_defaults=True),
            "plusone_version": __version__,
        }
        return config | ({} if self.onnx is None else {"onnx": asdict(self.onnx)})

    def metadata(self) -> dict[str, Any]:
        """Metadata of the ONNX file."""
        return {
            "classes": list(self.classes),
            "thresholds": self.thresholds.by_name(self.classes),
            "input": self.input.to_json(),
            "output": "probabilities of the classes, in their order",
            "calibration": self.calibration.sentence(),
            "method": self.result.method,
            "data": self.result.data,
            "plusone_version": __version__,
        }


def make_card(config: ModelConfig) -> str:
    """The text of the card, a README.md."""
    parts = [
        front_matter(config),
        f"# {_plain(config.name)}\n\n{_summary(config)}",
        _use(config),
        _training(config),
        _results(config),
        _thresholds(config),
        _limits(config),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def front_matter(config: ModelConfig) -> str:
    """The YAML header that Hugging Face reads; the licence is left for users to choose."""
    result = config.result
    task = TASKS[_kind(config.input)]
    lines = [
        "---",
        "# license: choose one, such as apache-2.0; the data may ask for a certain one",
        "library_name: plusone",
        f"pipeline_tag: {task}",
        "tags:",
        *(f"- {_text(tag)}" for tag in TAGS),
        f"- {_text(result.method)}",
    ]
    values = [(label, value) for key, label, value in _measured(result) if key == "map"]
    if values:
        lines += [
            "metrics:",
            "- mean_average_precision",
            "model-index:",
            f"- name: {_text(config.name)}",
            "  results:",
            "  - task:",
            f"      type: {task}",
            "    dataset:",
            f"      name: {_text(result.data)}",
            f"      type: {_text(result.data)}",
            "      split: test",
            "    metrics:",
        ]
        for label, value in values:
            lines += [
                "    - type: mean_average_precision",
                f"      name: {_text(label)}",
                f"      value: {value:.4f}",
            ]
    return "\n".join([*lines, "---", ""])


TASKS = {
    "images": "image-classification",
    "texts": "text-classification",
    "feature vectors": "tabular-classification",
}
CALLS = {  # the items of a command, and a call
    "images": ("photos", 'tags = model("photo.jpg")'),
    "texts": ("texts.csv", 'tags = model("a text")'),
    "feature vectors": ("features.npz", "tags = model(features)  # [D] or [N, D]"),
}
NO_TEST = "\nNo test items with all labels: nothing here says how often it is right.\n"
TAGS = ("multi-label-classification", "single-positive-labels", "plusone")

LIMITS = """## Limits

- It was trained from incomplete labels. {calibration}{picks}
- Figures measured against seen labels only are too low or too high by an unknown amount; only
  figures against all labels say how often the model is right.
- It knows the classes listed above and no others, and only data like that it was trained on.
- Rare classes had few examples; look at their predictions before relying on them.
- It was not tested for fairness between groups of people, nor against inputs made to mislead it.
"""


NOT_CALIBRATED = (
    "The probabilities rank labels; they are **not calibrated**, and 0.8 does not\n"
    '  mean "right in eight of ten cases" ({note}).'
)
CALIBRATED = "The probabilities are calibrated on {note}.\n  They hold for items like these."


def _kind(spec: InputSpec) -> str:
    """What the items of a model are, in words."""
    if spec.images:
        return "images"
    return "feature vectors" if spec.encoder is None else "texts"


def _limits(config: ModelConfig) -> str:
    calibration = config.calibration
    words = CALIBRATED if calibration.calibrated else NOT_CALIBRATED
    finding, salience = "", calibration.salience
    if salience is not None and salience.p_value is not None:
        finding = f"\n- How annotators pick: {_plain(salience.finding(config.classes))}."
    return LIMITS.format(calibration=words.format(note=_plain(calibration.note)), picks=finding)


def _summary(config: ModelConfig) -> str:
    result = config.result
    what = _kind(config.input)
    scheme = _scheme(result)
    labels = (
        "the labels that were given"
        if scheme == "given"
        else f"labels of which all but some were hidden ({_plain(scheme)})"
    )
    return (
        f"Gives the probabilities of {len(config.classes)} labels for {what}. "
        f"Trained by the method `{result.method}` ({_plain(config.paper)}) on "
        f"{_plain(result.data)}, from {labels}."
    )


def _scheme(result: RunResult) -> str:
    return str(result.observation.get("scheme", "given"))


def _use(config: ModelConfig) -> str:
    spec, onnx = config.input, config.onnx
    shape = " x ".join(map(str, spec.shape))
    items, call = CALLS[_kind(spec)]
    lines = [
        "## How to use it",
        "",
        f"With plusone {__version__} or newer:",
        "",
        "```bash",
        f"plusone predict THIS_FOLDER {items} --out tags.csv",
        "```",
        "",
        "```python",
        "from plusone import PlusOneModel",
        "",
        'model = PlusOneModel.from_pretrained("THIS_FOLDER")  # or the name of its repository',
        call,
        "```",
        "",
        f"- Input: `{NAME}`, {spec.type}, {shape}: {spec.meaning}.",
    ]
    if spec.images:
        lines.append(f"- Before: {spec.before}.")
        numbers = "" if spec.mean is None else f" (mean {_list(spec.mean)}, std {_list(spec.std)})"
        lines.append(f"- Inside the model: {spec.inside}{numbers}.")
    lines.append("- Output: `probabilities`, one per class, in the order of `id2label`.")
    if onnx is not None:
        kind = "items of its data" if onnx.real else "random items"
        lines.append(
            f"- `model.onnx` gives the same: the largest difference to torch was "
            f"{onnx.difference:.1g} on {onnx.items} {kind}. Its metadata holds classes, "
            "thresholds and this description of the input."
        )
        kind = "photos" if spec.images else "features.npz"
        lines.append(
            f"- Without plusone: `pip install onnxruntime numpy pillow`, then `python predict.py "
            f"{kind} > tags.csv`."
        )
    if spec.encoder is not None:
        lines.append(
            f"- Vectors of texts: `plusone features texts.csv --encoder {spec.encoder['name']} "
            "--out features.npz`, or by the package of the encoder."
        )
    return "\n".join([*lines, ""])


def _list(values: Iterable[float] | None) -> str:
    return str(list(values or ()))


def _training(config: ModelConfig) -> str:
    result = config.result
    options = ", ".join(f"{name} {value}" for name, value in result.options.items())
    k = "not used" if result.k is None else f"{result.k:.3g} ({result.k_from})"
    score = "mean average precision" if result.selected_by == "map" else result.selected_by
    labels = "all labels" if result.selected_on == "truth" else "the seen labels"
    rows = [
        ("data", result.data),
        ("items", ", ".join(f"{count} {split}" for split, count in result.items.items())),
        ("labels seen", _scheme(result)),
        ("method", result.method),
        ("options", options or "defaults"),
        ("mode", result.mode),
        ("backbone", config.backbone or "none: features are the input"),
        ("seed", result.seed),
        ("expected positives per item", k),
        ("best epoch", result.best_epoch),
        ("chosen by", f"{score} on {labels} of the validation items"),
        ("plusone", __version__),
    ]
    text = f"## Training\n\n{_table(('what', ''), rows)}\n\nAll settings are in `recipe.toml`.\n"
    if result.rules:
        text += "\nSettings that were not given were chosen by rules:\n\n"
        text += "\n".join(f"- {_plain(rule)}" for rule in result.rules) + "\n"
    return text


def _results(config: ModelConfig) -> str:
    result = config.result
    measured = _measured(result)
    rows = [(f"test, {label}", f"{value:.4f}") for _, label, value in measured]
    ends = {"negative": result.test_if_negative, "positive": result.test_if_positive}
    for end, values in ends.items():
        if values is not None and (value := values.get("map")) is not None:
            what = f"the {result.test_unknown} unknown labels, left out above, were {end}"
            rows.append((f"test, mean average precision if {what}", f"{value:.4f}"))
    label = f"validation, mean average precision against {result.val_labels}"
    rows.append((label, f"{result.val_map:.4f}"))
    note = "" if measured else NO_TEST
    return f"## Results\n\n{_table(('measure', 'value'), rows)}\n{note}"


def _thresholds(config: ModelConfig) -> str:
    rows = list(zip(config.classes, config.thresholds.values, strict=True))
    shown = [(name, _cut(value)) for name, value in rows[:SHOWN_CLASSES]]
    more = len(rows) - len(shown)
    rest = f"\n{more} more classes are in `config.json`.\n" if more > 0 else ""
    return (
        f"## Classes and thresholds\n\nA label is predicted above its threshold; these are "
        f"{ORIGINS[config.thresholds.origin]}.\n\n{_table(('class', 'threshold'), shown)}\n{rest}"
    )


def _measured(result: RunResult) -> list[tuple[str, str, float]]:
    """Key, name and value of the measures on the test items."""
    test = {**(result.test or {}), **(result.test_calibrated or {})}
    at = "" if result.test_calibrated else " at 0.5 for raw scores"
    values = [(key, label + at * (key in ("cf1", "of1")), test.get(key)) for key, label in MEASURES]
    return [(key, label, value) for key, label, value in values if value is not None]


def _cut(value: float) -> str:
    """A threshold with four digits, or more where these would make it 0 or 1."""
    short = f"{value:.4f}"
    return short if 0 < float(short) < 1 else f"{value:.8f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    lines += [f"| {' | '.join(_plain(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _text(value: object) -> str:
    """A text as YAML that means this text whatever is in it."""
    return json.dumps(str(value), ensure_ascii=True)


def _plain(value: object) -> str:
    """A text that Markdown and HTML show as it is, on one line."""
    text = " ".join(str(value).split())
    for mark, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(mark, safe)
    return "".join(f"\\{letter}" if letter in "\\|*`[]" else letter for letter in text)
