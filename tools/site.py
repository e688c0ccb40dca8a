"""Hooks of mkdocs: documents from outside `docs`, notebooks, the commands, and links to them.

The documents are written for a reader of the repository. Here `README.md` becomes the first page,
and links between documents lead to their pages. A notebook becomes a page with its stored outputs;
nothing is run. What is not on the site (recipes, sources) is named instead of linked.
"""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Pages of the site that are files of another name or place.
ELSEWHERE = {
    "index.md": ROOT / "README.md",
    "overview.md": DOCS / "README.md",
    "CONTRIBUTING.md": ROOT / "CONTRIBUTING.md",
    "CHANGELOG.md": ROOT / "CHANGELOG.md",
}
NOTEBOOKS = {
    f"notebooks/{path.stem}.md": path for path in sorted((DOCS / "notebooks").glob("*.ipynb"))
}
PLACES = {path: name for name, path in {**ELSEWHERE, **NOTEBOOKS}.items()}
CODE = re.compile(r"(^```.*?^```|^<!--.*?-->)", re.DOTALL | re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[\d;]*m")
OUTPUT = '```text title="Output"'
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the documents from outside, the notebooks and the commands."""
    files.remove(files.get_file_from_path("README.md"))  # it is overview.md
    pages = {name: path.read_text(encoding="utf-8") for name, path in ELSEWHERE.items()}
    pages["commands.md"] = commands()
    pictures: dict[str, bytes] = {}
    for name, path in NOTEBOOKS.items():
        pages[name], drawn = notebook(path)
        pictures |= drawn
    for name, content in {**pages, **pictures}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Makes the links of a document those of its page."""
    here = page.file.src_uri
    source = ELSEWHERE.get(here, DOCS / here)
    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(lambda link: _link(link, here, source), text) for text in parts[::2]]
    return "".join(parts)


def _link(link: re.Match[str], here: str, source: Path) -> str:
    """A link of a document as a link of its page on the site."""
    image, text, target = link.groups()
    name, mark, anchor = target.partition("#")
    if not name or "://" in name:
        return link[0]
    path = (source.parent / name).resolve()
    if path in PLACES:
        place = PLACES[path]
    elif path.is_relative_to(DOCS):
        place = path.relative_to(DOCS).as_posix()
    elif path.is_relative_to(ROOT) and path.exists():
        return f"{text} (`{path.relative_to(ROOT).as_posix()}`)"
    else:
        return link[0]  # mkdocs reports it
    relative = Path(os.path.relpath(place, Path(here).parent)).as_posix()
    return f"{image}[{text}]({relative}{mark}{anchor})"


def notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown with its stored outputs, and its pictures by their place."""
    blocks: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
            continue
        command = source.removeprefix("%%bash\n")
        language = "python" if command == source else "bash"
        blocks.append(f"```{language}\n{command}\n```")
        printed = "".join("".join(part.get("text", "")) for part in cell["outputs"])
        printed = COLOURS.sub("", printed)
        if printed:
            blocks.append(f"{OUTPUT}\n{printed.rstrip()}\n```")
        for data in (part["data"] for part in cell["outputs"] if "data" in part):
            if "image/png" in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[f"notebooks/{name}"] = base64.b64decode("".join(data["image/png"]))
                blocks.append(f"![Figure {len(pictures)}]({name})")
            elif "text/html" in data:
                blocks.append("".join(data["text/html"]))
            else:
                plain = "".join(data["text/plain"])
                blocks.append(f"{OUTPUT}\n{plain}\n```")
    blocks.append(f'<a href="{path.name}" download>Download this notebook</a>')
    return "\n\n".join(blocks) + "\n", pictures


def commands() -> str:
    """A page with every command and its options, from the program itself."""
    import typer

    from plusone.cli.app import app

    group: Any = typer.main.get_command(app)
    parts = ["# Commands\n\nEach command prints this with `--help`.\n"]
    listed = dict(group.commands)
    analyses = listed.pop("analyse").commands
    listed |= {f"analyse {name}": command for name, command in analyses.items()}
    for name, command in listed.items():
        context = typer.Context(command, info_name=f"plusone {name}")
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        parts.append(f"## {name}\n\n```text\n{usage}\n```\n\n{_help(command.help)}\n")
        rows = [_row(context, parameter) for parameter in command.params]
        table = [row for row in rows if row is not None]
        parts.append("\n".join(["| option | meaning |", "| --- | --- |", *table]) + "\n")
    return "\n".join(parts)


def _help(text: str | None) -> str:
    """The text of a command; its examples are code."""
    text = re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", text or "", flags=re.DOTALL)
    return re.sub(r"^Example: ", "- ", text, flags=re.MULTILINE)


def _row(context: Any, parameter: Any) -> str | None:
    """A row of the table of options; None for those that are not shown."""
    record = parameter.get_help_record(context)
    if record is None or "--help" in parameter.opts:
        return None
    names, text = (str(part).replace("|", "\\|") for part in record)
    return f"| `{names}` | {text} |"
