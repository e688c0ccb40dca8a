"""Writes docs/api.md from the docstrings of the public names.

python tools/api_reference.py            writes it
python tools/api_reference.py --check    exit code 1 if it is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"

# What is promised to stay: module, what it is for, names.
PUBLIC: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("plusone", "Train and predict.", ("fit", "Fitted", "PlusOneClassifier", "evaluate")),
    (
        "plusone.data",
        "Labels in three states, and reading them.",
        ("Dataset", "LabelTable", "LabelMatrix", "observe"),
    ),
    ("plusone.data.formats", "Files.", ("read", "write")),
    ("plusone.priors", "The number of labels per item.", ()),
    ("plusone.suggest", "Finding missing labels.", ()),
    ("plusone.review", "From answers to labels.", ("order_questions", "apply_answers")),
    ("plusone.compare.choose", "Choosing without full labels.", ("choose", "Choice")),
    ("plusone.compare.loop", "The value of a reviewer's answers.", ("simulate", "Loop")),
    ("plusone.export", "Exporting models.", ()),
    ("plusone.metrics", "Exact metrics.", ()),
)


def main() -> None:
    """Writes the page, or checks it."""
    page = reference()
    if "--check" in sys.argv[1:]:
        sys.exit(PAGE.read_text(encoding="utf-8") != page)
    PAGE.write_text(page, encoding="utf-8")


def reference() -> str:
    """The whole page."""
    parts = [
        "# API reference\n\n"
        "Generated from the docstrings by `python tools/api_reference.py`. Labels are 1 (seen\n"
        "positive), 0 (unobserved) and -1 (seen negative); N items, L classes, D features. All\n"
        "methods are listed in [Methods](methods.md), commands by `plusone --help`.\n"
    ]
    for name, purpose, names in PUBLIC:
        module = import_module(name)
        parts.append(f"## {name}\n\n{purpose}\n")
        for entry in names or module.__all__:
            value = getattr(module, entry)
            if not isinstance(value, UnionType):  # type aliases
                parts.append(_entry(name, entry, value))
    return "\n".join(parts)


def _entry(module: str, name: str, value: Any) -> str:
    full = f"{module}.{name}"
    if inspect.isclass(value):
        return _class(full, value)
    if callable(value):
        return f"### {full}\n\n```text\n{name}{_signature(value)}\n```\n\n{_text(value)}\n"
    keys = ", ".join(f"`{key}`" for key in value) if isinstance(value, dict) else f"`{value!r}`"
    return f"### {full}\n\n{keys}\n"


def _class(full: str, kind: type) -> str:
    lines = [f"### {full}\n\n{_text(kind)}\n"]
    for name, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if name.startswith("_") or not inspect.isfunction(plain) or not plain.__doc__:
            continue
        lines.append(f"**`.{name}{_signature(plain)}`** {_text(plain)}\n")
    return "\n".join(lines)


def _signature(function: Any) -> str:
    """Names, kinds and defaults of the parameters; types are in the docstring."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(parameters))


def _text(value: Any) -> str:
    """A docstring as Markdown: its sections as lists, its examples as code."""
    out: list[str] = []
    section = ""
    code = False
    for line in (inspect.getdoc(value) or "").splitlines():
        stripped = line.strip()
        is_code = stripped.startswith((">>>", "...")) or (code and bool(stripped))
        if is_code and not code:
            out += ["", "```text"]
        if code and not is_code:
            out.append("```")
        code = is_code
        if stripped in ("Args:", "Returns:", "Raises:", "Yields:", "Attributes:"):
            section = stripped
            out += ["", f"{section.rstrip(':')}:", ""]
        elif stripped == "Example:":
            section = ""
        elif is_code:
            out.append(stripped)
        elif section and stripped:
            out.append(_item(line))
        else:
            out.append(line)
    text = "\n".join([*out, "```"] if code else out).strip()
    return re.sub(r"\n{3,}", "\n\n", text)


def _item(line: str) -> str:
    """A line of a section: a new name begins a list item, other lines belong to it."""
    name, colon, rest = line.strip().partition(": ")
    deep = len(line) - len(line.lstrip()) > 4
    if colon and not deep and " " not in name.removeprefix("**"):
        return f"- `{name}`: {rest}"
    return f"  {line.strip()}"


if __name__ == "__main__":
    main()
