"""What the documents show runs, and the commands they name are accepted.

Pages for practitioners run from top to bottom in `test_documents_run.py`; `ELSEWHERE` says how the
code of the others is checked.
"""

import re
import shlex
from pathlib import Path

import pytest
import typer

from plusone.cli.app import app

ROOT = Path(__file__).parents[1]
TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
DOCUMENTS = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


RUN = (
    "README.md",
    "docs/bench.md",
    "docs/digits.md",
    "docs/hierarchies.md",
    "docs/hints.md",
    "docs/metrics.md",
    "docs/observation.md",
    "docs/training.md",
)
# Pages with code that runs neither here nor in test_documents_run.py, and why. All their commands
# are parsed by test_commands_are_accepted.
ELSEWHERE = {
    "CONTRIBUTING.md": "test_contributing.py adds its methods to a copy of the package",
    "docs/analyses.md": "report/test_analyses_page.py; its sweeps take minutes, cli/test_sweep.py",
    "docs/api.md": "opens pages that wait for a person; cli/test_calls.py",
    "docs/batch.md": "needs a cluster; batch/test_batch.py",
    "docs/data.md": "needs shards of other programs; cli/test_shards.py",
    "docs/datasets.md": "needs VOC, and hours; cli/test_prepare.py, test_recipes.py",
    "docs/devices.md": "needs a GPU; tests/accelerator",
    "docs/distributed.md": "needs several cards or machines; tests/distributed",
    "docs/doctor.md": "measures speeds, which takes long; cli/test_doctor.py",
    "docs/losses.md": "test_losses_page.py",
    "docs/images.md": "needs VOC; models/test_timm.py",
    "docs/methods.md": "needs recordings; training/test_groups.py",
    "docs/methods/correcting.md": "needs the extra hints; training/test_hints.py",
    "docs/methods/unknown.md": "losses/test_unified.py",
    "docs/run-folder.md": "needs trackers; training/test_tracking.py",
    "docs/label-studio.md": "needs Label Studio; integrations/test_label_studio.py",
    "docs/other-tools.md": "suggest/test_other_tools.py",
    "docs/plugins.md": "needs the file of CONTRIBUTING.md; cli/test_plugin.py has it",
    "docs/scale.md": "a million items; training/test_scale.py has the same with fewer",
    "docs/evidence/crops.md": "commands of measurements, some hours long",
    "docs/evidence/duplicates.md": "commands of measurements, some hours long",
    "docs/evidence/hints.md": "commands of measurements, some hours long",
    "docs/evidence/picks.md": "commands of measurements, some hours long",
    "docs/evidence/probabilities.md": "commands of measurements, some hours long",
    "docs/evidence/finetuned.md": "commands of measurements, some hours long",
    "docs/evidence/guarantees.md": "commands of measurements, some hours long",
    "docs/evidence/promises.md": "commands of measurements, some hours long",
    "docs/evidence/protocols.md": "commands of measurements, some hours long",
    "docs/evidence/reliability.md": "commands of measurements, some hours long",
    "docs/evidence/results.md": "commands of measurements, some hours long",
    "docs/evidence/schemes.md": "commands of measurements, some hours long",
    "docs/evidence/species.md": "commands of measurements, some hours long",
    "docs/evidence/sweeps.md": "commands of measurements, some hours long",
    "docs/evidence/texts.md": "commands of measurements, some hours long",
    "docs/evidence/weights.md": "commands of measurements, some hours long",
    "docs/quickstart.md": "run from an installed wheel by test_wheel.py",
}


def test_every_page_with_code_is_checked():
    text = (ROOT / "tests" / "test_documents_run.py").read_text(encoding="utf-8")
    pages = re.findall(r'^    "([\w-]+)",$', text, re.MULTILINE)
    checked = [*RUN, *ELSEWHERE, *(f"docs/{page}.md" for page in pages)]
    assert len(checked) == len(set(checked))
    with_code = [path for path in DOCUMENTS if blocks(path, "python") or blocks(path, "bash")]
    assert {str(path.relative_to(ROOT)) for path in with_code} == set(checked)
    tests = re.findall(r"(?:\w+/)?test_\w+\.py|tests/\w+", " ".join(ELSEWHERE.values()))
    for name in tests:
        assert (ROOT / name if name.startswith("tests/") else ROOT / "tests" / name).exists(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_python_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / name, "python")
    assert found
    for code in found:
        exec(compile(code, name, "exec"), {})


def test_commands_are_accepted():
    commands = typer.main.get_command(app).commands
    for block in (block for path in DOCUMENTS for block in blocks(path, "bash")):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words and words[0] != "plusone" and "plusone" in words:
                words = words[1:]  # torchrun ... -m plusone train
            if words[:1] != ["plusone"] or "plusone" not in line.split("#")[0]:
                continue
            assert words[1] in commands, line
            command, rest = commands[words[1]], words[2:]
            if words[1] == "analyse":
                command, rest = command.commands[rest[0]], rest[1:]
            try:
                command.make_context(words[1], rest)
            except typer.Exit:  # --help
                continue
            except Exception as error:
                pytest.fail(f"{line}: {error}")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def test_links_resolve():
    broken = []
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            target, _, anchor = link.partition("#")
            page = path.parent / target if target else path
            if link.startswith("http") or (page.exists() and not anchor):
                continue
            if not page.exists() or anchor not in anchors(page):
                broken.append((path.name, link))
    assert broken == []


def test_files_named_in_documents_exist():
    files = r"`((?:src|tests|tools|benchmarks)/[\w/.-]+\.(?:py|toml))`"
    tests = r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`"
    missing = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        named = re.findall(files, text)
        if path.name != "CONTRIBUTING.md":  # it also shows tests of its examples
            named += [f"tests/{name}" for name in re.findall(tests, text)]
        missing += [(path.name, name) for name in named if not (ROOT / name).exists()]
    assert missing == []


def test_the_layout_lists_every_package():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Layout")[1].split("\n## ")[0]
    packages = {path.parent.name for path in (ROOT / "src" / "plusone").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)/` \|", section, re.MULTILINE)) == packages


TABLES = {"VOC 2012": "voc-linear", "UC Merced": "ucmerced-linear", "yeast": "yeast-linear"}


def test_choosing_repeats_what_was_measured():
    results = (ROOT / "docs" / "evidence" / "linear.md").read_text(encoding="utf-8")
    choosing = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    kernel, linear = choosing.split("### Linear heads")
    rows = re.findall(r"^\| `(\w+)`.*?\|(.*?)\|(.*?)\|(.*?)\|", linear, re.MULTILINE)
    assert len(rows) >= 8
    for place, name in enumerate(TABLES.values(), start=1):
        block = results.split(f"<!-- measured: {name} -->")[1].split(f"<!-- end of {name} -->")[0]
        measured = dict(re.findall(r"^\| \**(\w+)\** \| \**([\d.]+)", block, re.MULTILINE))
        for row in rows:
            assert row[place].strip() == measured[row[0]], (name, row)
    recovery = table_of((ROOT / "docs" / "recovery.md").read_text(encoding="utf-8"))
    shown = table_of(kernel)
    assert len(shown) >= 5
    for method, cells in shown.items():
        for data, cell in cells.items():
            assert cell.strip("*") == recovery[method][data].split()[0], (method, data)


def table_of(text):
    """The first table of a text whose rows begin with a method: method, column, cell."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    start = next(place for place, cells in enumerate(lines) if cells and cells[0].startswith("`"))
    header, rows = lines[start - 2], {}
    for cells in lines[start:]:
        if not cells:
            break
        rows.setdefault(
            cells[0].split("`")[1] if "`" in cells[0] else cells[0],
            dict(zip(header[1:], cells[1:], strict=True)),
        )
    return rows
