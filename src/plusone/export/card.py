"""The model card: a README.md in the layout of Hugging Face, made from `config.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plusone.training.thresholds import ORIGINS

SHOWN_CLASSES = 200
MEASURES = (
    ("map", "mean average precision"),
    ("cf1", "macro F1 (CF1) at threshold 0.5"),
    ("of1", "micro F1 (OF1) at threshold 0.5"),
    ("ece", "calibration error (ECE)"),
)


def make_card(config: Mapping[str, Any], name: str, *, onnx: Mapping[str, Any] | None) -> str:
    """The text of the card.

    Args:
        config: What `make_config` gave.
        name: What to call the model.
        onnx: How the ONNX file was checked; None if there is none.
    """
    parts = [
        front_matter(config, name),
        f"# {_plain(name)}\n\n{_summary(config)}",
        _use(config, onnx),
        _training(config),
        _results(config),
        _thresholds(config),
        LIMITS,
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def front_matter(config: Mapping[str, Any], name: str) -> str:
    """What Hugging Face reads: YAML between two lines of dashes. The licence is yours to choose."""
    told, images = config["training"], "before" in config["input"]
    task = "image-classification" if images else "tabular-classification"
    lines = [
        "---",
        "# license: choose one, such as apache-2.0; the data may ask for a certain one",
        "library_name: plusone",
        f"pipeline_tag: {task}",
        "tags:",
        *(f"- {_text(tag)}" for tag in TAGS),
        f"- {_text(told['method'])}",
    ]
    found = [(key, label, value) for key, label, value in _measured(told) if key == "map"]
    if found:
        lines += [
            "metrics:",
            "- mean_average_precision",
            "model-index:",
            f"- name: {_text(name)}",
            "  results:",
            "  - task:",
            f"      type: {task}",
            "    dataset:",
            f"      name: {_text(told['data'])}",
            f"      type: {_text(told['data'])}",
            "      split: test",
            "    metrics:",
        ]
        for _, label, value in found:
            lines += [
                "    - type: mean_average_precision",
                f"      name: {_text(label)}",
                f"      value: {value:.4f}",
            ]
    return "\n".join([*lines, "---", ""])


NO_TEST = "\nNo test items with all labels: nothing here says how often it is right.\n"
TAGS = ("multi-label-classification", "single-positive-labels", "plusone")

LIMITS = """## Limits

- It was trained from incomplete labels: what was not seen may still be there. The probabilities
  order labels; they are **not calibrated**, and 0.8 does not mean "right in eight of ten cases".
- Figures measured against seen labels only are too low or too high by an unknown amount; only
  figures against all labels say how often the model is right.
- It knows the classes listed above and no others, and only data like that it was trained on.
- Rare classes had few examples; look at their predictions before relying on them.
- It was not tested for fairness between groups of people, nor against inputs made to mislead it.
"""


def _summary(config: Mapping[str, Any]) -> str:
    told, n = config["training"], config["num_labels"]
    what = "images" if "before" in config["input"] else "feature vectors"
    seen = str(told.get("observation", {}).get("scheme", "given"))
    how = (
        "the labels that were given"
        if seen == "given"
        else f"labels of which all but some were hidden ({_plain(seen)})"
    )
    return (
        f"Gives the probabilities of {n} labels for {what}. Trained by the method "
        f"`{told['method']}` ({_plain(config['paper'])}) on {_plain(told['data'])}, from {how}."
    )


def _use(config: Mapping[str, Any], onnx: Mapping[str, Any] | None) -> str:
    given = config["input"]
    shape = " x ".join(map(str, given["shape"]))
    lines = [
        "## How to use it",
        "",
        "```bash",
        "pip install plusone",
        "plusone predict THIS_FOLDER photos --out tags.csv"
        if "before" in given
        else "plusone predict THIS_FOLDER features.npz --out tags.csv",
        "```",
        "",
        "```python",
        "from pathlib import Path",
        "",
        "from plusone.training.build import load_run",
        "",
        'predictor = load_run(Path("THIS_FOLDER"))',
        "```",
        "",
        f"- Input: `{given['name']}`, {given['type']}, {shape}: {given['meaning']}.",
    ]
    if "before" in given:
        lines.append(f"- Before: {given['before']}.")
        lines.append(f"- Inside the model: {given['inside']}{_numbers(given)}.")
    lines.append("- Output: `probabilities`, one per class, in the order of `id2label`.")
    if onnx is not None:
        kind = "items of its data" if onnx["real"] else "made-up items"
        lines.append(
            f"- `model.onnx` gives the same: the largest difference to torch was "
            f"{onnx['difference']:.1g} on {onnx['items']} {kind}. Its metadata holds classes, "
            "thresholds and this description of the input."
        )
    return "\n".join([*lines, ""])


def _numbers(given: Mapping[str, Any]) -> str:
    return f" (mean {given['mean']}, spread {given['std']})" if "mean" in given else ""


def _training(config: Mapping[str, Any]) -> str:
    told = config["training"]
    items = told.get("items", {})
    rows = [
        ("data", told["data"]),
        ("items", ", ".join(f"{count} {split}" for split, count in items.items())),
        ("labels seen", told.get("observation", {}).get("scheme", "given")),
        ("method", told["method"]),
        ("options", _inline(told.get("options") or {}) or "defaults"),
        ("mode", told.get("mode", "-")),
        ("backbone", config["backbone"] or "none: features are the input"),
        ("seed", told["seed"]),
        ("expected positives per item", _expected(told)),
        ("best epoch", told["best_epoch"]),
        ("chosen by", _chosen(told)),
        ("plusone", config["plusone_version"]),
    ]
    text = f"## Training\n\n{_table(('what', ''), rows)}\n\nAll settings are in `recipe.toml`.\n"
    if told.get("rules"):
        text += "\nWhat was not set was chosen by rules:\n\n"
        text += "\n".join(f"- {_plain(rule)}" for rule in told["rules"]) + "\n"
    return text


def _results(config: Mapping[str, Any]) -> str:
    told = config["training"]
    rows = [(f"test, {label}", f"{value:.4f}") for _, label, value in _measured(told)]
    if told.get("val_map") is not None:
        against = f"against {_labels(told['selected_on'])}"
        label = f"validation, mean average precision {against}"
        rows.append((label, f"{told['val_map']:.4f}"))
    note = "" if _measured(told) else NO_TEST
    return f"## Results\n\n{_table(('measure', 'value'), rows)}\n{note}"


def _thresholds(config: Mapping[str, Any]) -> str:
    found = config["thresholds"]
    rows = list(found["by_class"].items())
    shown = [(name, _cut(value)) for name, value in rows[:SHOWN_CLASSES]]
    more = len(rows) - len(shown)
    rest = f"\n{more} more classes are in `config.json`.\n" if more > 0 else ""
    return (
        f"## Classes and thresholds\n\nA label counts above its threshold; these are "
        f"{ORIGINS[found['from']]}.\n\n{_table(('class', 'threshold'), shown)}\n{rest}"
    )


def _measured(told: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    test = told.get("test") or {}
    return [(key, label, test[key]) for key, label in MEASURES if test.get(key) is not None]


def _cut(value: float) -> str:
    """A threshold with four digits, or more where these would make it 0 or 1."""
    short = f"{value:.4f}"
    return short if 0 < float(short) < 1 else f"{value:.8f}"


def _expected(told: Mapping[str, Any]) -> str:
    k, origin = told.get("k"), told.get("k_from", "")
    return "not used" if k is None else f"{k:.3g} ({origin})" if origin else f"{k:.3g}"


def _chosen(told: Mapping[str, Any]) -> str:
    by = told.get("selected_by", "map")
    score = "mean average precision" if by == "map" else by
    return f"{score} on {_labels(told['selected_on'])} of the validation items"


def _labels(selected_on: str) -> str:
    return "all labels" if selected_on == "truth" else "the seen labels"


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    lines += [f"| {' | '.join(_plain(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _inline(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())


def _text(value: object) -> str:
    """A text as YAML that means this text whatever is in it."""
    return json.dumps(str(value), ensure_ascii=True)


def _plain(value: object) -> str:
    """A text that Markdown and HTML show as it is, on one line."""
    text = " ".join(str(value).split())
    for mark, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(mark, safe)
    return "".join(f"\\{letter}" if letter in "\\|*`[]" else letter for letter in text)
