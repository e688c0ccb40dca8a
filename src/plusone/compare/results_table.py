"""The columns and notes of a results table, defined once for every output."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from plusone.compare.protocol import PROTOCOLS, spread_of, warnings_about
from plusone.compare.rows import BACKBONE, Row, Summary
from plusone.io.text import percent

Output = Literal["terminal", "markdown", "latex", "report"]

NARROW, MEDIUM, WIDE = 80, 100, 120  # widths of the terminal from which more columns are shown
EDGE = " !"  # behind a learning rate at the edge of those tried
NEAR = "= "  # before a figure that is within noise of the best, in the terminal
MARKS: Mapping[Output, tuple[str, str]] = {  # of the best figure, and of those within noise of it
    "terminal": ("{}", NEAR + "{}"),  # the line of the best is bold
    "markdown": ("**{}**", "{} ="),
    "latex": (r"\textbf{{{}}}", r"\underline{{{}}}"),
    "report": ("{}", "{} ="),
}
LEGEND = (
    "bold: the best of the methods that see the observed labels; =: within noise of it; methods "
    "that see others, such as all labels, are not ranked"
)
LATEX = {"p seeds": "$p$ (seeds)", "p classes": "$p$ (classes)", "lr": "learning rate"}
UNKNOWN = (
    "test mAP leaves unknown test labels out; if negative, if positive: if all of them were so"
)
ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "±": r"$\pm$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def spread(mean: float | None, sd: float | None, sign: str = "±") -> str:
    """A mean and its standard deviation, in per cent."""
    return percent(mean) + (f" {sign} {percent(sd)}" if sd is not None else "")


def options_text(options: Mapping[str, Any]) -> str:
    """Options in one cell."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in options.items()
    )


def latex_text(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return "".join(ESCAPES.get(letter, letter) for letter in " ".join(text.split()))


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


@dataclass(frozen=True)
class Column:
    """A column of results tables.

    Args:
        field: The field of `Row` that it shows.
        form: A value of the field as text.
        hint: What it is, in reports.
        outputs: Where it is shown, if any row has a value.
        always: Where it is shown also if none has.
        width: Width of the terminal from which it is shown.
        unit: Follows the figure; in LaTeX it is in the heading.
        detail: In brackets behind the heading, in Markdown.
    """

    field: str
    heading: str
    form: Callable[[Any], str]
    hint: str = ""
    outputs: tuple[Output, ...] = ("terminal", "markdown", "report")
    always: tuple[Output, ...] = ()
    width: int = 0
    unit: str = ""
    detail: str = ""

    def value(self, row: Row) -> Any:
        """The value of a row; None where there is nothing to show."""
        if self.field == "lr" and row.solved:
            return None
        if self.field == "val_score" and row.val_score == row.val_map:
            return None
        value = getattr(row, self.field)
        return None if value in ({}, "") else value

    def title(self, output: Output) -> str:
        """The heading in an output."""
        if output == "latex":
            unit = f" ({latex_text(self.unit)})" if self.unit else ""
            heading = LATEX.get(self.heading, self.heading)
            return heading[0].upper() + heading[1:] + unit
        detail = f" ({self.detail})" if self.detail and output == "markdown" else ""
        return self.heading + detail

    def text(self, row: Row, output: Output) -> str:
        """The cell of a row, with its mark."""
        value = self.value(row)
        if value is None:
            return "-"
        text = self.form(value)
        if self.field == "lr" and row.at_edge:
            text += EDGE
        if self.field == "test_map" and output != "terminal":  # which has a column for it
            text = spread(value, row.test_sd, r"$\pm$" if output == "latex" else "±")
        if self.unit and output != "latex":
            text += f" {self.unit}"
        if self.field == "method" and output in ("markdown", "latex"):
            text = row.paper_name
        if output == "latex" and isinstance(value, str):
            return latex_text(text)
        if self.field == "method":
            return f"**{text}**" if row.best and output == "markdown" else text
        if self.field == row.ranked_by and (row.best or row.within_noise):
            text = MARKS[output][0 if row.best else 1].format(text)
        return text


EVERYWHERE: tuple[Output, ...] = ("terminal", "markdown", "latex", "report")
COLUMNS = (
    Column("method", "method", str, "its name in the method table", EVERYWHERE),
    Column("test_map", "test mAP", percent, "mean ± standard deviation over seeds, in %",
           EVERYWHERE, always=("terminal", "latex")),
    Column("test_sd", "sd", percent, outputs=("terminal",), width=NARROW),
    Column("if_negative", "if negative", percent,
           "test mAP if all unknown test labels, which are left out beside, were negative, in %"),
    Column("if_positive", "if positive", percent,
           "test mAP if all unknown test labels were positive, in %"),
    Column("val_map", "val mAP", percent, "on the validation items, in %", EVERYWHERE,
           width=MEDIUM),
    Column("val_score", "val score", "{:.4f}".format,
           "score on the validation items that settings were chosen by"),
    Column("recovery_map", "recovered", percent,
           "mAP on the training items against all their labels, hidden ones included, in %",
           EVERYWHERE, always=("terminal", "latex")),
    Column("gap_closed", "gap closed", lambda value: f"{100 * value:.0f}",
           "0 % is an (assume negative), 100 % is bce (all labels)", EVERYWHERE,
           always=("latex",), unit="%"),
    Column("published", "published", "{:g}".format,
           f"published mAP for the same data, labels and mode, with a {BACKBONE}, in %",
           EVERYWHERE, width=WIDE, detail=BACKBONE),
    Column("p_seeds", "p seeds", _p, "paired t-test over seeds against the best",
           ("markdown", "latex", "report")),
    Column("p_classes", "p classes", _p,
           "Wilcoxon's signed-rank test over classes against the best",
           ("markdown", "latex", "report")),
    Column("seeds", "seeds", str, "number of runs", ("report",)),
    Column("head", "head", str,
           "what is trained on features: a linear layer on them, or in the space of a kernel",
           EVERYWHERE),
    Column("learned", "items", "{:,}".format, "items that were learned from", EVERYWHERE),
    Column("searched", "searched", str,
           "how many learning rates and options were tried, of which validation chose", EVERYWHERE),
    Column("lr", "lr", "{:.3g}".format,
           "learning rate; !: the lowest or highest of those tried", EVERYWHERE, width=NARROW),
    Column("options", "options", options_text,
           "options of the method that differ from its defaults", width=WIDE),
    Column("seconds", "seconds", "{:.1f}".format, "mean time of one run", width=MEDIUM),
)  # fmt: skip


def shown_columns(rows: Sequence[Row], output: Output, width: int = WIDE) -> list[Column]:
    """The columns of a table: those of the output that have a value and fit."""
    return [
        column
        for column in COLUMNS
        if output in column.outputs
        and (output != "terminal" or width >= column.width)
        and (output in column.always or any(column.value(row) is not None for row in rows))
    ]


def cells_of(
    rows: Sequence[Row], output: Output, width: int = WIDE
) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of a table, see `shown_columns`."""
    columns = shown_columns(rows, output, width)
    return (
        [column.title(output) for column in columns],
        [[column.text(row, output) for column in columns] for row in rows],
    )


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


def markdown_tables(summary: Summary, inputs: Mapping[str, str], notes: Sequence[str]) -> str:
    """One Markdown table per data set and mode with its notes, then a legend and the general notes.

    `inputs` describes the inputs of our models on each data set, to compare with published figures.
    """
    parts = []
    for (data, mode), rows in summary.tables().items():
        own = "".join(f"- {line}\n" for line in table_notes(rows))
        table = markdown(*cells_of(rows, "markdown"))
        parts.append(f"**{data}, {mode}**\n\n{table}" + (f"\n{own}" if own else ""))
    lines = [LEGEND, "p: against the best, over seeds (paired t-test) and over classes (Wilcoxon)"]
    lines += _published_notes(summary, inputs)
    return "\n".join(parts) + "\n" + "\n".join(f"- {line}" for line in (*lines, *notes)) + "\n"


def table_notes(rows: Sequence[Row]) -> list[str]:
    """What a table compares, what its spread contains, and what to know before citing it."""
    protocols = dict.fromkeys(PROTOCOLS[row.protocol] for row in rows if row.protocol)
    spread = spread_of(rows)
    return [
        *(f"protocol: {protocol}" for protocol in protocols),
        *([spread] if spread else []),
        *(f"note: {warning}" for warning in warnings_about(rows)),
    ]


def latex_tables(summary: Summary, inputs: Mapping[str, str], notes: Sequence[str]) -> str:
    r"""One `booktabs` table per data set and mode: best in bold, those within noise underlined."""
    tables = summary.tables().items()
    lines = [f"% {line}" for line in (*notes, r"needs \usepackage{booktabs}")]
    blocks = ["\n".join(lines), *(_latex(*key, rows, inputs) for key, rows in tables)]
    return "\n\n".join(blocks) + "\n"


def _latex(data: str, mode: str, rows: Sequence[Row], inputs: Mapping[str, str]) -> str:
    head, cells = cells_of(rows, "latex")
    groups: dict[bool, list[str]] = {True: [], False: []}
    for row, line in zip(rows, cells, strict=True):
        groups[row.competes].append(" & ".join(line) + r" \\")
    body = "\n\\midrule\n".join("\n".join(lines) for lines in groups.values() if lines)
    caption = (
        f"{latex_text(data)}, {latex_text(mode)}: mAP (\\%), mean $\\pm$ sd over "
        f"{max(row.seeds for row in rows)} seed(s). Bold: best that sees the observed labels; "
        "underlined: within noise of it."
    )
    if any(row.published is not None for row in rows):
        caption += (
            f" Published figures are of {BACKBONE}; ours: {latex_text(inputs.get(data, ''))}."
        )
    for note in table_notes(rows):
        text = note.removeprefix("note: ")
        caption += f" {latex_text(text[0].upper() + text[1:])}."
    return latex_table(head, body, caption, label_of(data, mode))


def latex_table(head: Sequence[str], body: str, caption: str, label: str) -> str:
    """A `booktabs` table: headings, lines, caption and the label to refer to it by."""
    return "\n".join(
        [
            r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\label{{{label}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule",
            " & ".join(head) + r" \\", r"\midrule", body, r"\bottomrule", r"\end{tabular}",
            r"\end{table}",
        ]
    )  # fmt: skip


def label_of(*names: str) -> str:
    """The label of a LaTeX table.

    >>> label_of("VOC 2012", "linear")
    'tab:plusone-voc-2012-linear'
    """
    plain = re.sub(r"[^a-z0-9]+", "-", "-".join(names).lower()).strip("-")
    return f"tab:plusone-{plain}"


def _published_notes(summary: Summary, inputs: Mapping[str, str]) -> list[str]:
    """Where the published figures come from, and what ours were computed with."""
    rows = [row for row in summary.rows if row.published is not None]
    by_source = published_sources(rows)
    lines = [f"published: {', '.join(names)}: {source}" for source, names in by_source.items()]
    ours = [f"{data}: {inputs[data]}" for data in dict.fromkeys(row.data for row in rows)]
    return [*lines, f"published figures are of {BACKBONE}; ours: {'; '.join(ours)}"] if rows else []


def published_sources(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The methods of each source of published figures."""
    by_source: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.published is not None:
            by_source.setdefault(str(row.published_source), {})[row.method] = None
    return {source: list(names) for source, names in by_source.items()}
