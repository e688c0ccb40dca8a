"""The tables of the papers: what to train for each row, and our figures beside the published ones.

A table is a set of published figures (`MethodInfo.published`) of one paper. Its rows are trained
with the settings of `recipes/`, one comparison (`plusone.compare.bench`) for each mode and searched
batch size. The tables `ABLATIONS` are the rows of a method's ablation instead, trained with its
recipe (`plusone.compare.ablate`), and the tables `COUNTS` are counted on the labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from plusone.compare.ablate import run_ablation
from plusone.compare.bench import Bench
from plusone.compare.documents import Ablation
from plusone.compare.jobs import Runner, Settings
from plusone.compare.results_files import describe_inputs
from plusone.compare.results_table import label_of, latex_table, latex_text, markdown, spread
from plusone.compare.rows import BACKBONE, Row, Summary
from plusone.compare.spec import BenchSpec, make_spec, merge_settings
from plusone.data.formats import write
from plusone.data.public import Prepared, prepare
from plusone.data.source import make_source
from plusone.errors import InputError
from plusone.io.files import write_json, write_text
from plusone.io.keys import file_key
from plusone.methods import METHODS, PublishedFigure, _papers, get_method
from plusone.probabilities.intervals import k_intervals
from plusone.recipe import Recipe, make_recipe, read_toml
from plusone.version import __version__

TABLES: dict[str, tuple[str, ...]] = {
    "cole": (_papers.COLE_TABLE_1, _papers.COLE_TABLE_A1),
    "cole-2": (_papers.COLE_TABLE_2,),
    "em": (_papers.ZHOU_TABLE,),
    "lasd": (_papers.LASD_TABLE_2,),
    "gr": (_papers.CHEN_TABLE_2,),
    "lac": (_papers.XIE_TABLE_2, _papers.XIE_TABLE_2_RESNET),
}
ABLATIONS = {"lasd-3": "lasd", "gr-3": "gr", "lac-3": "lac"}  # table -> method
COUNTS = ("cole-a2", "cole-a3")
RECIPES = {
    "linear": "linear/{}.toml",
    "finetune": "{}.toml",
    "linear_init": "{}_linear_init.toml",
    "labelwise": "labelwise/{}.toml",  # fine-tuned with that head
}
PLAIN = {"linear_init": "an_ls"}  # method with a typical recipe, where it is not an
OWN = ("options", "expected_positives")  # settings of a recipe that belong to its method
RATES, BATCHES = (1e-2, 1e-3, 1e-4, 1e-5), (8, 16)  # what Cole et al. search
BATCH_RULE = "batch size: the one with the better validation score, mean over the seeds"
FEATURES = ("features.npz", "features")  # below the root, used where the images are missing
FILES = ("table.md", "table.tex", "reproduction.json")


@dataclass(frozen=True)
class Part:
    """One comparison of a table.

    Args:
        batch_size: The batch size, where several are searched.
        figures: Method -> its published figure; None for a method that the table does not list.
        notes: Rows that cannot be trained, and settings that were left out.
    """

    mode: str
    batch_size: int | None
    figures: Mapping[str, PublishedFigure | None]
    spec: BenchSpec
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.mode if self.batch_size is None else f"{self.mode}-batch{self.batch_size}"


@dataclass(frozen=True)
class Line:
    """A row of a reproduced table.

    Args:
        by_batch: The result with each batch size.
        batch_size: The one with the best validation score, mean over the seeds.
        published: The published mAP in per cent, if the table lists the method.
        scores: On which labels both are: "test" items, or "training labels".
    """

    method: str
    mode: str
    by_batch: Mapping[int, Row]
    batch_size: int
    published: float | None
    source: str | None
    scores: str = "test"

    @property
    def row(self) -> Row:
        """The result with the chosen batch size."""
        return self.by_batch[self.batch_size]

    def score(self, row: Row) -> float | None:
        """What is compared with the published figure."""
        return row.test_map if self.scores == "test" else row.recovery_map

    @property
    def difference(self) -> float | None:
        """Ours less the published figure, in points."""
        ours = self.score(self.row)
        return None if self.published is None or ours is None else 100 * ours - self.published

    def to_dict(self) -> dict[str, Any]:
        """The line for JSON."""
        return {
            "method": self.method,
            "mode": self.mode,
            "published": self.published,
            "difference": self.difference,
            "source": self.source,
            "scores": self.scores,
            "batch_size": self.batch_size,
            "by_batch": {str(size): row.to_dict() for size, row in self.by_batch.items()},
        }


def prepare_labels(
    data: str, root: Path, to: Path, features: Sequence[Path], *, images: bool = True
) -> tuple[Prepared, list[Path]]:
    """Writes the labels of a public data set; returns them, and the features to train on.

    A file with the same labels is left alone: the journals belong to it. Without features, the
    images are trained on, and where these are missing the features below the root. Without `images`
    nothing is trained on them.
    """
    files = list(features)
    try:
        prepared = prepare(data, root, missing="keep" if files or not images else None)
    except InputError as error:
        if files:
            raise
        prepared = prepare(data, root, missing="keep")  # raises if more than images is missing
        files = [root / name for name in FEATURES if (root / name).exists()]
        if not files:
            raise InputError(f"{error}; with --features the linear rows need no image") from None
    new = to.with_name(f"new-{to.name}")
    write(prepared.table, new)
    if to.exists() and file_key(to) == file_key(new):
        new.unlink()
    else:
        new.replace(to)
    return prepared, files


def recipes() -> Path:
    """The folder of the recipes: in the installed package, or beside its source."""
    package = Path(__file__).parents[1]
    for folder in (package / "recipes", package.parents[1] / "recipes"):
        if folder.is_dir():
            return folder
    raise InputError("the recipes are missing: neither in the package nor beside its source")


def settings_of(data: str, method: str, mode: str) -> Settings:
    """The settings of a row, without method and mode.

    A method without a recipe in this mode is trained as others are, with its own options and k of
    its recipe in another mode, if it has one.
    """
    folder = recipes() / data
    own = {other: folder / name.format(method) for other, name in RECIPES.items()}
    if own[mode].exists():
        settings = read_toml(own[mode])
    else:
        plain = read_toml(folder / RECIPES[mode].format(PLAIN.get(mode, "an")))
        settings = {name: value for name, value in plain.items() if name not in OWN}
        if other := next((file for file in own.values() if file.exists()), None):
            settings |= {name: value for name, value in read_toml(other).items() if name in OWN}
    return {name: value for name, value in settings.items() if name not in ("method", "mode")}


def adapt(own: Settings, given: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Settings of a recipe that suit the given ones, and a note on what was left out.

    The frozen parts of a recipe are those of its backbone; another one has other parts.
    """
    name = own.get("backbone")
    if not own.get("freeze") or "freeze" in given or given.get("backbone", name) == name:
        return own, ()
    note = (
        f"freeze = {list(own['freeze'])} of the recipe was left out: these are parts of {name}, "
        f"not of {given['backbone']}"
    )
    return {key: value for key, value in own.items() if key != "freeze"}, (note,)


def figures_of(table: str, data: str) -> dict[str, dict[str, PublishedFigure]]:
    """Mode -> method -> figure of the rows that a table has for a data set."""
    figures: dict[str, dict[str, PublishedFigure]] = {mode: {} for mode in RECIPES}
    for name, info in METHODS.items():
        for figure in info.published:
            if figure.source in TABLES[table] and getattr(figure, data) is not None:
                figures[figure.mode][name] = figure
    return {mode: rows for mode, rows in figures.items() if rows}


def make_parts(
    table: str,
    data: str,
    block: Mapping[str, Any],
    *,
    methods: Sequence[str] = (),
    modes: Sequence[str] = (),
    seeds: Sequence[int] = (0, 1, 2),
    rates: Sequence[float] = (),
    batches: Sequence[int] = (),
    settings: Settings | None = None,
    workers: int = 2,
) -> list[Part]:
    """The comparisons of a table; unknown names and wrong settings are refused.

    `block` has the fields of a `DataSpec`; its features are for the mode linear alone. Methods and
    modes are those of the table by default, "all" is every method; methods that the table does not
    list are trained too, and have no published figure. Learning rates and batch sizes to choose
    from are by default those of the papers in the mode linear, and those of the recipe in others.
    `settings` take precedence over the recipes.
    """
    for mode in modes:
        if mode not in RECIPES:
            raise InputError(f"{mode!r} is no mode; choose among {', '.join(RECIPES)}")
    if table not in TABLES:
        raise InputError(
            f"{table!r} is no table; choose one of {', '.join([*TABLES, *ABLATIONS, *COUNTS])}"
        )
    names = [get_method(name).name for name in (METHODS if "all" in methods else methods)]
    listed = figures_of(table, data)
    anywhere = {name for rows in listed.values() for name in rows}
    given = dict(settings or {})
    for key, tried in (("lr", rates), ("batch_size", batches)):
        if tried and key in given:
            raise InputError(f"{key} is given by --set and as a list to search; give one of them")
    parts = []
    for mode in modes or listed:
        rows = listed.get(mode, {})
        figures: dict[str, PublishedFigure | None] = dict(rows)
        if names:
            extra = [name for name in names if not rows or name not in anywhere]
            figures = {name: rows.get(name) for name in names if name in rows or name in extra}
        linear = mode == "linear"
        fixed = [] if linear else [n for n in figures if get_method(n).inputs == "vectors"]
        notes = [
            f"{name} was not trained: it needs a fixed vector for each item, and these rows train "
            f"the backbone{_published(figures.pop(name), data)}"
            for name in fixed
        ]
        lr = tuple(rates) or (RATES if linear and "lr" not in given else ())
        sizes = tuple(batches) or (BATCHES if linear and "batch_size" not in given else ())
        searched = {"lr": bool(lr), "batch_size": bool(sizes)}
        by_method = {}
        for name in figures:
            own, left_out = adapt(settings_of(data, name, mode), given)
            notes += left_out
            own_settings = {key: value for key, value in own.items() if not searched.get(key)}
            by_method[name] = merge_settings(own_settings, given)
            info = get_method(name)
            info.make_options(make_recipe(info.defaults, by_method[name], source=name).options)
        for size in sizes or (None,):
            values: dict[str, Any] = {
                "data": [dict(block) | ({} if linear else {"features": ()})],
                "methods": list(figures),
                "seeds": seeds,
                "modes": ["finetune" if mode == "labelwise" else mode],
                "lr": lr,
                "settings": ({"head": "linear"} if linear else {})
                | ({} if size is None else {"batch_size": size}),
                "method": by_method,
                "workers": workers,
                "extend": False,  # the papers' grid
            } | ({"tune": True, "search": "rate"} if len(lr) > 1 else {})
            if figures:
                spec = make_spec(values, source="settings")
                parts.append(Part(mode, size, figures, spec, tuple(dict.fromkeys(notes))))
    if not parts:
        has = ", ".join(f"{mode} ({len(rows)})" for mode, rows in listed.items())
        raise InputError(
            f"the table {table} has no such row for {data}; its rows are of the modes {has}. "
            "Methods that --methods names are trained without a row too"
        )
    return parts


def _published(figure: PublishedFigure | None, data: str) -> str:
    return "" if figure is None else f"; published: {getattr(figure, data):g}"


def with_figures(bench: Bench, part: Part, data: str) -> Bench:
    """The comparison with the published figures of its table, whatever the counts are."""
    rows = []
    for row in bench.summary.rows:
        figure = part.figures[row.method]
        if figure is not None and figure.scores != "test":
            figure = None  # the rows of a comparison are scored on the test items
        value, source = (getattr(figure, data), figure.source) if figure else (None, None)
        figures = {"published": value, "published_source": source}
        rows.append(row.model_copy(update=figures))
    return replace(bench, summary=Summary(tuple(rows), bench.summary.tests))


def lines_of(done: Sequence[tuple[Part, Bench]], data: str) -> list[Line]:
    """One line per mode and method, with the batch size that validation prefers."""
    default = Recipe.model_fields["batch_size"].default
    rows: dict[tuple[str, str], dict[int, Row]] = {}
    figures: dict[tuple[str, str], PublishedFigure | None] = {}
    for part, bench in done:
        sizes = {run.key: run.recipe.get("batch_size", default) for run in bench.results}
        for row in bench.summary.rows:
            rows.setdefault((part.mode, row.method), {})[sizes[row.keys[0]]] = row
            figures[part.mode, row.method] = part.figures[row.method]
    listed = {figure.scores for figure in figures.values() if figure is not None}
    scores = listed.pop() if len(listed) == 1 else "test"
    lines = []
    for (mode, method), by_batch in rows.items():
        best = max(by_batch, key=lambda size: by_batch[size].choice_score)
        figure = figures[mode, method]
        value, source = (getattr(figure, data), figure.source) if figure else (None, None)
        lines.append(Line(method, mode, by_batch, best, value, source, scores))
    return lines


def table_of(lines: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the lines of one mode."""
    sizes = sorted({size for line in lines for size in line.by_batch})
    searched = sizes if any(len(line.by_batch) > 1 for line in lines) else []
    tested = all(line.scores == "test" for line in lines)
    measure = "test mAP" if tested else "mAP of the training labels"
    header = ["method", measure, "published", "difference", "lr", "batch"]
    header += [f"batch {size}" for size in searched]
    cells = [
        [
            line.method,
            spread(line.score(line.row), line.row.test_sd if tested else None),
            "-" if line.published is None else f"{line.published:g}",
            "-" if line.difference is None else f"{line.difference:+.2f}",
            "-" if line.row.solved else f"{line.row.lr:g}",
            "-" if line.row.solved else str(line.batch_size),
            *(
                spread(line.score(row), row.test_sd if tested else None)
                if (row := line.by_batch.get(size))
                else "-"
                for size in searched
            ),
        ]
        for line in lines
    ]
    return header, cells


def write_reproduction(
    folder: Path,
    done: Sequence[tuple[Part, Bench]],
    prepared: Prepared,
    data: str,
    *,
    title: str,
    command: str,
) -> tuple[list[Line], dict[str, Any]]:
    """Writes the table as Markdown and JSON; returns its lines and the content of the JSON file."""
    lines, benches = lines_of(done, data), [bench for _, bench in done]
    results = [run for bench in benches for run in bench.results]
    modes = list(dict.fromkeys(line.mode for line in lines))
    inputs = dict.fromkeys(f"{run.mode}: {describe_inputs(run)}" for run in results)
    sources = dict.fromkeys(line.source for line in lines if line.source)
    notes = [
        "difference: ours less the published figure, in points of mAP; ± is the standard deviation "
        f"over the seeds {', '.join(str(seed) for seed in sorted({run.seed for run in results}))}",
        *(f"published ({BACKBONE}): {source}" for source in sources),
        f"ours: {'; '.join(inputs)}",
        f"why ours differ: other inputs and weights than the published {BACKBONE} where the line "
        "above says so, chance (±), and where settings were searched, our search",
        *(f"settings: {rule}" for rule in dict.fromkeys(bench.rule for bench in benches)),
        *([BATCH_RULE] if any(len(line.by_batch) > 1 for line in lines) else []),
        *dict.fromkeys(note for part, _ in done for note in part.notes),
        *remarks(prepared),
        f"to repeat: {command} (plusone {__version__})",
    ]
    tables = {
        f"{title}, {mode}": table_of([line for line in lines if line.mode == mode])
        for mode in modes
    }
    records = [line.to_dict() for line in lines]
    names = {line.method: line.row.paper_name for line in lines}
    return lines, _write(folder, tables, records, notes, title=title, command=command, names=names)


def remarks(prepared: Prepared) -> list[str]:
    """What a reader of our figures should know about the labels."""
    return [
        *prepared.table.notes,
        *(
            f"{count.sentence}: the figures cannot be compared with the published ones"
            for count in prepared.differences
        ),
    ]


def _write(
    folder: Path,
    tables: Mapping[str, tuple[list[str], list[list[str]]]],
    lines: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    *,
    title: str,
    command: str,
    names: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Writes tables, a heading for each; `names` are those of rows in the LaTeX file."""
    document: dict[str, Any] = {
        "kind": "reproduction",
        "title": title,
        "command": command,
        "lines": list(lines),
        "notes": list(notes),
        "version": __version__,
        "date": date.today().isoformat(),
    }
    texts = [f"**{heading}**\n\n{markdown(*cells)}" for heading, cells in tables.items()]
    table, tex, record = FILES
    write_text(folder / table, "\n".join([*texts, "".join(f"- {note}\n" for note in notes)]))
    lines_of_notes = "".join(f"% {note}\n" for note in (*notes, r"needs \usepackage{booktabs}"))
    blocks = [
        latex_table(
            [latex_text(name) for name in header],
            "\n".join(
                " & ".join(map(latex_text, ((names or {}).get(row[0], row[0]), *row[1:]))) + r" \\"
                for row in cells
            ),
            latex_text(f"{heading}. {notes[0]}"),
            label_of(heading),
        )
        for heading, (header, cells) in tables.items()
    ]
    write_text(folder / tex, "\n".join([lines_of_notes, *blocks]) + "\n")
    write_json(folder / record, document)
    return document


def reproduce_ablation(
    table: str,
    data: str,
    labels: Path,
    features: Sequence[Path],
    folder: Path,
    *,
    mode: str,
    seeds: Sequence[int],
    rates: Sequence[float] = (),
    settings: Settings | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    run: Runner | None = None,
) -> Ablation:
    """Trains the rows of a table of `ABLATIONS`, with the recipe of its method for this data."""
    method, given = ABLATIONS[table], settings or {}
    own, left_out = adapt(settings_of(data, method, mode), given)
    return run_ablation(
        make_source(str(labels), features, "auto", "auto"),
        method,
        folder,
        seeds=seeds,
        rates=tuple(rates) or (None,),
        settings=merge_settings(own, given) | {"mode": mode},
        data=data,
        notes=(*left_out, *notes),
        command=command,
        run=run,
    )


def reproduce_counts(
    table: str, prepared: Prepared, folder: Path, *, title: str, command: str, draws: int = 100_000
) -> tuple[dict[str, Any], list[str], list[list[str]]]:
    """Counts a table of `COUNTS` on the training items, and writes it.

    Returns:
        The content of the JSON file, and the table's header and cells.
    """
    labels, expected = prepared.table, prepared.expected
    positives = labels.labels.take(labels.rows_of("train")).per_item(1)
    cells: list[list[str]]
    if table == "cole-a2":
        n, header = 2, ["labelled items", "k from", "to", "published from", "to"]
        sizes = [size for size in expected.intervals if size <= len(positives)]
        cells = [
            [str(row.size), f"{row.low:.2f}", f"{row.high:.2f}", *map(str, published)]
            for row in k_intervals(positives, sizes, draws=draws).rows
            for published in [expected.intervals[row.size]]
        ]
    else:
        n, header = 1, ["", "here", "published"]
        most, least, mean = expected.per_item
        cells = [
            ["classes", str(len(labels.classes)), str(expected.classes)],
            ["most positives of an item", str(positives.max()), str(most)],
            ["fewest", str(positives.min()), str(least)],
            ["mean", f"{positives.mean():.2f}", str(mean)],
        ]
    lines = [{"row": row[0], "here": row[1 : n + 1], "published": row[n + 1 :]} for row in cells]
    source = "Cole et al. 2021, Table " + table.rpartition("-")[2].upper()
    notes = [f"published: {source}", "counted on the training items", *remarks(prepared)]
    tables = {title: (header, cells)}
    return _write(folder, tables, lines, notes, title=title, command=command), header, cells
