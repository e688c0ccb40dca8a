"""Writes the tables of docs/recipe.md: every setting, from `Recipe` itself.

python tools/recipe_page.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plusone.recipe import Recipe, to_toml_value

PAGE = Path(__file__).resolve().parents[1] / "docs" / "recipe.md"
START, END = "<!-- settings -->\n", "<!-- end of settings -->"
COLUMNS = ("setting", "default", "values", "meaning")
# A group ends where the next one begins; the order is that of the fields.
GROUPS = {
    "method": "Method",
    "observe": "Labels and parts of the data",
    "select_on": "Selection and metrics",
    "expected_positives": "Number of labels",
    "probe": "Model and epochs",
    "batch_size": "Steps",
    "backbone": "Images and precision",
    "workers": "Machine",
}
TYPES = {"number": "number", "integer": "integer", "string": "text", "boolean": "true, false"}
SIGNS = {"≥": "minimum", ">": "exclusiveMinimum", "≤": "maximum", "<": "exclusiveMaximum"}
LIMIT = 10_000  # upper bounds from here on only keep nonsense out


def values(schema: dict[str, Any]) -> str:
    """The values that a setting takes, from its JSON schema."""
    if "anyOf" in schema:
        found = [values(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return ", ".join(found)
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        inner = schema["items"]
        return "blocks" if "$ref" in inner else f"list: {values(inner)}"
    if schema.get("type") == "object":
        return "table"
    bounds = [
        f"{sign} {schema[key]:g}"
        for sign, key in SIGNS.items()
        if schema.get(key) is not None and schema[key] < LIMIT
    ]
    return f"{TYPES[schema['type']]} {' and '.join(bounds)}".strip()


def row(name: str, schema: dict[str, Any]) -> list[str]:
    """A row of a table."""
    default = schema.get("default")
    shown = f"`{to_toml_value(default)}`" if default is not None else ""
    return [f"`{name}`", shown, values(schema), schema["description"].replace("|", "\\|")]


def tables() -> str:
    """The tables of all settings, a heading before each."""
    schema = Recipe.model_json_schema()
    parts: dict[str, list[list[str]]] = {}
    for name in Recipe.model_fields:
        if name in GROUPS:
            parts[GROUPS[name]] = []
        if parts:  # before the first group is the number of the format
            parts[[*parts][-1]].append(row(name, schema["properties"][name]))
    stages = schema["$defs"]["Stage"]["properties"]
    parts["Stages"] = [row(name, stages[name]) for name in stages]
    return "\n".join(f"### {title}\n\n{table(rows)}" for title, rows in parts.items())


def table(rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page() -> str:
    """The page with the tables of today."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n{tables().strip()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
