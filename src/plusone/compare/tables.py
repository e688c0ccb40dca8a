"""A comparison as tables and files.

| file | content |
| --- | --- |
| `journal.jsonl` | one line per finished training, see `plusone.compare.jobs` |
| `results.json` | the rows, the tests behind the marks, and how to repeat it |
| `results.csv` | tidy: one line per training |
| `table.md`, `table.tex` | the tables |
| `bench.toml` | the comparison, for `plusone bench bench.toml` |
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from plusone.compare.jobs import JobResult, maybe_features
from plusone.compare.spec import BenchSpec
from plusone.compare.summary import BACKBONE, Row, Summary, was_solved
from plusone.io.files import write_json, write_text
from plusone.version import __version__

COLUMNS = (
    "data", "method", "mode", "seed", "lr", "options", "val_map", "val_score", "selected_by",
    "test_map", "best_epoch", "seconds", "recovery_map", "hidden_map", "k", "stacked", "scheme",
    "observe_seed", "digest", "version", "key", "chosen",
    "if_negative", "if_positive",
)  # fmt: skip
FILES = ("results.json", "results.csv", "table.md", "table.tex", "bench.toml")
MARKS = (
    "bold: the best of the methods that see one positive per item; =: within noise of it; methods "
    "that see more labels are not ranked"
)
UNKNOWN = (
    "test mAP leaves unknown test labels out; if negative, if positive: if all of them were so"
)
ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def write_outputs(
    folder: Path,
    spec: BenchSpec,
    results: Sequence[JobResult],
    summary: Summary,
    *,
    title: str,
    command: str,
    rule: str,
) -> dict[str, Any]:
    """Writes all files but the journal; returns the content of `results.json`.

    Args:
        folder: The folder to write into.
        spec: The comparison.
        results: All trainings, including those of settings that were not chosen.
        summary: Their rows.
        title: A line for reports.
        command: The command that repeats it.
        rule: The rule by which settings were chosen.
    """
    inputs = {result.data: describe_inputs(result) for result in results}
    observations = {
        json.dumps([result.data, result.observation], sort_keys=True): {
            "data": result.data,
            **result.observation,
        }
        for result in results
    }
    whole = {
        "kind": "bench",
        "title": title,
        "command": command,
        "rows": [row.to_dict() for row in summary.rows],
        "tests": list(summary.tests),
        "settings": {
            "rule": rule,
            "inputs": inputs,
            "observations": list(observations.values()),
            **spec.model_dump(mode="json", exclude={"data", "workers", "storage"}),
            "data": [
                block.model_dump(mode="json", exclude={"path", "features"}) for block in spec.data
            ],
        },
        "alone": alone(results),
        "version": __version__,
        "date": date.today().isoformat(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(whole, allow_nan=False))
    notes = [
        f"settings: {rule}",
        *([UNKNOWN] if any(row.if_negative is not None for row in summary.rows) else []),
        *(
            f"noise, {test['data']}, {test['mode']}: the least significant difference is "
            f"{100 * test['lsd']:.2f} ({test['freedom']} degrees of freedom)"
            for test in summary.tests
        ),
        *(
            f"labels seen, {seen['data']}: {seen['scheme']}, seed {seen.get('seed', '-')}, digest "
            f"{seen['digest']}"
            for seen in observations.values()
        ),
        f"to repeat: plusone bench bench.toml, the file beside this one (plusone {__version__})",
    ]
    write_json(folder / "results.json", plain)
    write_text(folder / "results.csv", tidy(results, summary))
    write_text(folder / "table.md", markdown_tables(summary, inputs, notes))
    write_text(folder / "table.tex", latex_tables(summary, inputs, notes))
    write_text(folder / "bench.toml", spec.to_toml(folder))
    return plain


def tidy(results: Sequence[JobResult], summary: Summary) -> str:
    """CSV with one line per training; `chosen` ones contribute to a row of the table."""
    chosen = {key for row in summary.rows for key in row.keys}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for result in {result.key: result for result in results}.values():
        seen, recovery = result.observation, result.recovery or {}
        negative, positive = result.test_if_negative or {}, result.test_if_positive or {}
        writer.writerow(
            result.model_dump(include=set(COLUMNS))
            | {
                "data": safe_cell(result.data),
                "options": json.dumps(result.options, sort_keys=True),
                "recovery_map": recovery.get("recovery_map"),
                "hidden_map": recovery.get("hidden_map"),
                "scheme": seen["scheme"],
                "observe_seed": seen.get("seed"),
                "digest": seen["digest"],
                "chosen": str(result.key in chosen).lower(),
                "if_negative": negative.get("map"),
                "if_positive": positive.get("map"),
            }
        )
    return text.getvalue()


def safe_cell(text: str) -> str:
    """Text that a spreadsheet does not interpret as a formula.

    >>> safe_cell("=1+1"), safe_cell("dogs")
    ("'=1+1", 'dogs')
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def alone(results: Sequence[JobResult]) -> dict[str, str]:
    """Methods whose trainings could not be stacked, and why."""
    return {result.method: result.alone for result in results if result.alone is not None}


def describe_inputs(result: JobResult) -> str:
    """The inputs of the model: features of some file, or images through a backbone."""
    source = result.source
    assert source is not None, "a comparison knows its data"
    if source.features:
        return f"features {', '.join(Path(path).name for path in source.features)}"
    if maybe_features(source) and result.mode == "linear":
        return "features of the data set"
    backbone = result.recipe.get("backbone", "auto")
    crops = result.recipe.get("crops", "one")
    several = "" if crops == "one" else f", {crops} crops"
    return f"backbone {'cnn' if backbone == 'auto' else backbone}{several}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return (
        "\n".join(
            "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |"
            for line in lines
        )
        + "\n"
    )


def percent(value: float | None) -> str:
    """A share as per cent with two digits, or a dash."""
    return "-" if value is None else f"{100 * value:.2f}"


def spread(mean: float | None, sd: float | None, sign: str = "±") -> str:
    """A mean and its standard deviation, in per cent."""
    return percent(mean) + (f" {sign} {percent(sd)}" if sd is not None else "")


def options_text(options: Mapping[str, Any]) -> str:
    """Options in one cell."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in options.items()
    )


def markdown_tables(summary: Summary, inputs: Mapping[str, str], notes: Sequence[str]) -> str:
    """One Markdown table per data set and mode, then a legend.

    Args:
        summary: The rows.
        inputs: Data set -> the inputs of our models, to compare with published figures.
        notes: Lines to end with.
    """
    parts = [
        f"**{data}, {mode}**\n\n{_markdown(rows)}"
        for (data, mode), rows in summary.tables().items()
    ]
    lines = [MARKS, "p: against the best, over seeds (paired t-test) and over classes (Wilcoxon)"]
    lines += _published_notes(summary, inputs)
    return "\n".join(parts) + "\n" + "\n".join(f"- {line}" for line in (*lines, *notes)) + "\n"


def _markdown(rows: Sequence[Row]) -> str:
    columns = {
        "method": [f"**{row.method}**" if row.best else row.method for row in rows],
        "test mAP": [_marked(row) for row in rows],
        "if negative": [percent(row.if_negative) for row in rows],
        "if positive": [percent(row.if_positive) for row in rows],
        "val mAP": [percent(row.val_map) for row in rows],
        "val score": [row.chosen_by for row in rows],
        "recovered": [percent(row.recovery_map) for row in rows],
        "gap closed": [_gap(row) for row in rows],
        f"published ({BACKBONE})": [_figure(row) for row in rows],
        "p seeds": [_p(row.p_seeds) for row in rows],
        "p classes": [_p(row.p_classes) for row in rows],
        "lr": ["-" if was_solved(row.method, row.mode) else f"{row.lr:.3g}" for row in rows],
        "options": [options_text(row.options) for row in rows],
        "seconds": [f"{row.seconds:.1f}" for row in rows],
    }
    shown = {name: cells for name, cells in columns.items() if {*cells} - {"-", ""}}
    return markdown(list(shown), list(zip(*shown.values(), strict=True)))


def _marked(row: Row) -> str:
    text = spread(row.test_map, row.test_sd)
    if row.best and row.test_map is not None:
        return f"**{text}**"
    return f"{text} =" if row.within_noise else text


def latex_tables(summary: Summary, inputs: Mapping[str, str], notes: Sequence[str]) -> str:
    r"""One `booktabs` table per data set and mode; the best in bold, those within noise underlined.

    Args:
        summary: The rows.
        inputs: Data set -> the inputs of our models, to compare with published figures.
        notes: Lines to begin with, as comments.
    """
    tables = summary.tables().items()
    lines = [f"% {line}" for line in (*notes, r"needs \usepackage{booktabs}")]
    blocks = ["\n".join(lines), *(_latex(*key, rows, inputs) for key, rows in tables)]
    return "\n\n".join(blocks) + "\n"


def _latex(data: str, mode: str, rows: Sequence[Row], inputs: Mapping[str, str]) -> str:
    with_published = any(row.published is not None for row in rows)
    head = ["Method", "Test mAP", "Val mAP", "Recovered", r"Gap closed (\%)"]
    head += ["Published"] if with_published else []
    groups = ([row for row in rows if row.competes], [row for row in rows if not row.competes])
    body = "\n\\midrule\n".join(
        "\n".join(" & ".join(_latex_cells(row, with_published)) + r" \\" for row in group)
        for group in groups
        if group
    )
    caption = (
        f"{latex_text(data)}, {latex_text(mode)}: mAP (\\%), mean $\\pm$ sd over "
        f"{max(row.seeds for row in rows)} seed(s). Bold: best with one positive per item; "
        "underlined: within noise of it."
    )
    if with_published:
        caption += (
            f" Published figures are of {BACKBONE}; ours: {latex_text(inputs.get(data, ''))}."
        )
    return "\n".join(
        [
            r"\begin{table}", r"\centering", rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule",
            " & ".join(head) + r" \\", r"\midrule", body, r"\bottomrule", r"\end{tabular}",
            r"\end{table}",
        ]
    )  # fmt: skip


def _latex_cells(row: Row, with_published: bool) -> list[str]:
    score = spread(row.test_map, row.test_sd, r"$\pm$")
    if row.best:
        score = rf"\textbf{{{score}}}"
    elif row.within_noise:
        score = rf"\underline{{{score}}}"
    cells = [latex_text(row.method), score, percent(row.val_map), percent(row.recovery_map)]
    cells += ["-" if row.gap_closed is None else f"{100 * row.gap_closed:.0f}"]
    return cells + ([_figure(row)] if with_published else [])


def latex_text(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return "".join(ESCAPES.get(letter, letter) for letter in " ".join(text.split()))


def _published_notes(summary: Summary, inputs: Mapping[str, str]) -> list[str]:
    """Where the published figures come from, and what ours were computed with."""
    rows = [row for row in summary.rows if row.published is not None]
    by_source: dict[str, list[str]] = {}
    for row in rows:
        by_source.setdefault(str(row.published_source), []).append(row.method)
    lines = [
        f"published: {', '.join(dict.fromkeys(names))}: {source}"
        for source, names in by_source.items()
    ]
    ours = [f"{data}: {inputs[data]}" for data in dict.fromkeys(row.data for row in rows)]
    return [*lines, f"published figures are of {BACKBONE}; ours: {'; '.join(ours)}"] if rows else []


def _gap(row: Row) -> str:
    return "-" if row.gap_closed is None else f"{100 * row.gap_closed:.0f} %"


def _figure(row: Row) -> str:
    return "-" if row.published is None else f"{row.published:g}"


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
