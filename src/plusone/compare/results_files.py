"""The files of a comparison.

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
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from plusone.compare.jobs import JobResult, maybe_features
from plusone.compare.results_table import UNKNOWN, latex_tables, markdown_tables
from plusone.compare.rows import Row, Summary
from plusone.compare.spec import BenchSpec
from plusone.data.observation import SCHEMES
from plusone.io.files import write_json, write_text
from plusone.methods import plugin_of
from plusone.prediction.tags import for_spreadsheet
from plusone.version import __version__

RUN_COLUMNS = (
    "data", "method", "mode", "seed", "lr", "options", "val_map", "val_score", "selected_by",
    "test_map", "best_epoch", "seconds", "recovery_map", "hidden_map", "k", "stacked", "scheme",
    "observe_seed", "digest", "version", "key", "chosen",
    "if_negative", "if_positive", "head", "learned", "searched", "protocol",
)  # fmt: skip
FILES = ("results.json", "results.csv", "table.md", "table.tex", "bench.toml")


def write_outputs(
    folder: Path,
    spec: BenchSpec,
    results: Sequence[JobResult],
    summary: Summary,
    *,
    title: str,
    command: str,
    rule: str,
    remarks: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Writes all files but the journal; returns the content of `results.json`.

    `remarks` has sentences about each data set.
    """
    inputs = {result.data: describe_inputs(result) for result in results}
    observations = {
        json.dumps([result.data, result.observation], sort_keys=True): {
            "data": result.data,
            **result.observation,
        }
        for result in results
    }
    plugins = plugins_of(results)
    repeat = "plusone bench bench.toml" + "".join(f" --plugin {name}" for name in plugins)
    whole = {
        "kind": "bench",
        "title": title,
        "command": command,
        "rows": [row.to_dict() for row in summary.rows],
        "tests": list(summary.tests),
        "settings": {
            "rule": rule,
            "inputs": inputs,
            "remarks": {data: list(sentences) for data, sentences in (remarks or {}).items()},
            "plugins": plugins,
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
        *labels_seen(observations.values()),
        *(
            f"{data}: {sentence}"
            for data, sentences in (remarks or {}).items()
            for sentence in sentences
        ),
        f"to repeat: {repeat}, the file beside this one (plusone {__version__})",
    ]
    write_json(folder / "results.json", plain)
    write_text(folder / "results.csv", runs_csv(results, summary.rows))
    write_text(folder / "table.md", markdown_tables(summary, inputs, notes))
    write_text(folder / "table.tex", latex_tables(summary, inputs, notes))
    write_text(folder / "bench.toml", spec.to_toml(folder, plugins))
    return plain


def runs_csv(
    results: Iterable[JobResult], rows: Sequence[Row], columns: Sequence[str] = RUN_COLUMNS
) -> str:
    """CSV with one line per run; `chosen` ones contribute to a row of the table."""
    chosen = {key for row in rows for key in row.keys}
    by_method = {(row.data, row.method, row.mode): row for row in rows}
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for result in {result.key: result for result in results}.values():
        seen, recovery = result.observation, result.recovery or {}
        row = by_method.get((result.data, result.method, result.mode))
        negative, positive = result.test_if_negative or {}, result.test_if_positive or {}
        writer.writerow(
            result.model_dump(include=set(columns))
            | {name: for_spreadsheet(getattr(result, name)) for name in ("data", "method", "mode")}
            | {
                "options": json.dumps(result.options, sort_keys=True),
                "recovery_map": recovery.get("recovery_map"),
                "hidden_map": recovery.get("hidden_map"),
                "scheme": seen.get("scheme"),
                "observe_seed": seen.get("seed"),
                "digest": seen.get("digest"),
                "chosen": str(result.key in chosen).lower(),
                "if_negative": negative.get("map"),
                "if_positive": positive.get("map"),
                "searched": row.searched if row else "",
                "protocol": row.protocol if row else "",
            }
        )
    return text.getvalue()


def alone(results: Sequence[JobResult]) -> dict[str, str]:
    """Methods whose runs could not be stacked, and why."""
    return {result.method: result.alone for result in results if result.alone is not None}


def labels_seen(observations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which labels were observed, a sentence for each data set and scheme; equal draws once."""
    draws: dict[tuple[str, str], dict[str, str]] = {}
    for seen in observations:
        same = draws.setdefault((seen["data"], str(seen.get("scheme"))), {})
        same.setdefault(str(seen.get("digest")), str(seen.get("seed", "-")))
    return [
        f"labels seen, {data}: {scheme}, "
        + ", ".join(f"seed {seed}, digest {digest}" for digest, seed in found.items())
        for (data, scheme), found in draws.items()
    ]


def plugins_of(results: Iterable[JobResult]) -> list[str]:
    """The plug-ins of methods and schemes: names of files, or of installed packages."""
    names: dict[str | None, None] = {}
    for result in results:
        names[plugin_of(result.method)] = None
        scheme = SCHEMES.get(str(result.observation.get("scheme")).partition("(")[0])
        file = getattr(sys.modules.get(getattr(scheme, "__module__", "")), "__file__", None)
        own = scheme is None or scheme.__module__.startswith("plusone.")
        names[None if own or file is None else Path(file).name] = None
    return [name for name in names if name is not None]


def describe_inputs(result: JobResult) -> str:
    """The inputs of the model: features of some file, or images through a backbone."""
    source = result.source
    assert source is not None, "a comparison knows its data"
    if source.features:
        return f"features {', '.join(Path(path).name for path in source.features)}"
    images = not maybe_features(source) if result.images is None else result.images
    if not images and result.mode == "linear":
        return "features of the data set"
    backbone = result.recipe.get("backbone", "auto")
    crops = result.recipe.get("crops", "one")
    several = "" if crops == "one" else f", {crops} crops"
    return f"backbone {'cnn' if backbone == 'auto' else backbone}{several}"
