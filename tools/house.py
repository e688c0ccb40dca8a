"""Checks the rules of the house over the sources and documents, and prints how large they are.

python tools/house.py

`make check` runs it; a finding is an error. The table of sizes is no limit: it shows what a change
added, and what it removed.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "plusone"

# Packages and root modules; a package knows only what stands before it, and those on one line may
# not import each other.
ORDER = (
    ("errors", "seeds"),
    ("version", "io", "device", "web"),
    ("extras",),
    ("data", "results"),
    ("types", "metrics"),
    ("losses", "models"),
    ("probabilities",),
    ("closed_form",),
    ("methods", "recipe"),
    ("autorecipe", "build"),
    ("parallel",),
    ("inputs",),
    ("features",),
    ("prediction",),
    ("training",),
    ("estimator", "export", "suggestions"),
    ("reviewing", "serve"),
    ("batch", "compare", "integrations"),
    ("commands",),
    ("report",),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
ANYWHERE = {"plusone", "__main__"}  # the public names, and `python -m plusone`

LAST_RELEASE = ("0.2.0", {"files": 283, "lines": 52938, "code lines": 34847, "functions > 80": 12})
LONGEST_BODY = 80  # lines of a command, without its signature and docstring
LONG = 80  # lines of a function that is counted as long
SAME_FIELDS = 0.8  # records that share more of their fields are one record
FEW_FIELDS = 6  # below it, the same fields say little

# Where the name of a method may stand outside methods/, recipes and documents, and why.
NAMED = {
    "autorecipe.py": "chooses the method of a recipe that names none",
    "recipe.py": "the method of a recipe that names none",
    "compare/reproduce.py": "the methods of published tables",
    "losses/__init__.py": "functions with the names that the papers gave them",
    "report/style.py": "methods with a colour of their own",
}
# Names of methods that are also ordinary words: they count only where something is called a method.
ORDINARY = {"ignore", "recovery", "softmax", "focal", "hill", "role"}

# Modules that share a name with another one for a reason.
SHARED = {
    "coco": "a file format, and the data set",
    "voc": "a file format, and the data set",
    "base": "what the formats share, and what the data sets share",
    "negatives": "losses of methods, and the methods",
}

# Words of the glossary: what to look for, and what to write instead. "training" as an adjective
# ("a training item") and as an activity ("during training") is fine.
AFTER = (
    r"(?=[.,;:)\"'|]|$| (?:and|at|can|did|does|ends?|from|had|has|in|is|keeps?|may|needs?|of|on|or|"
    r"reached|reads?|stops?|takes?|that|to|was|which|will|with)\b)"
)
WORDS = {
    rf"\b(?i:a|one|another|each|every|this|fifth|second) training{AFTER}": "a run",
    r"\b[Tt]rainings\b": "runs",
    r"is not there on": "is not supported on",
    r"plusone predict takes them": "are saved and can be used with `plusone predict`",
    r"without effect on": "ignored (...)",
    r"found out is said": "failed probes are reported and skipped",
    r"\bof strangers\b|\bfrom strangers\b": "untrusted",
    r"whoever listens": "sends metrics to",
    r"that nobody gave are": "reasons for the automatic settings",
    r"stays so far from": "probabilities are clipped to",
    r"is at least so many times": "lower bound, as a multiple of",
    r"Of several processes all must": "all ranks must",
}
DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)


@dataclass(frozen=True)
class Rule:
    """A rule and where it is broken.

    Attributes:
        name: What must hold.
        findings: Places, one line each.
    """

    name: str
    findings: list[str]


def files() -> list[Path]:
    """All sources, in order."""
    return sorted(SOURCE.rglob("*.py"))


def short(path: Path) -> str:
    """The name of a source within the package, or of a document within the repository."""
    return path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT).as_posix()


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The syntax of a source."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def module_name(path: Path) -> str:
    """The dotted name of a source."""
    parts = ("plusone", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def package(module: str) -> str:
    """The package, or root module, of a dotted name."""
    return [*module.split("."), "plusone"][1]


@cache
def all_modules() -> frozenset[str]:
    """The dotted names of all sources."""
    return frozenset(map(module_name, files()))


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules of ours that a source imports, inside functions too."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    modules = all_modules()
    return modules & {name if name in modules else name.rpartition(".")[0] for name in names}


def wrong_layers() -> Iterator[str]:
    """Imports of what stands later in `ORDER`, and packages without a place in it."""
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    for name in sorted((packages | modules) ^ RANK.keys()):
        yield f"{name}: is {'not in ORDER' if name not in RANK else 'in ORDER, but not there'}"
    for path in files():
        here = package(module_name(path))
        for module in sorted(imports(path)) if here not in ANYWHERE else ():
            there = package(module)
            if there != here and RANK.get(there, len(ORDER)) >= RANK.get(here, len(ORDER)):
                yield f"{module_name(path)} imports {module}"


def cycles() -> Iterator[str]:
    """Packages that reach themselves through the packages they import."""
    edges: dict[str, set[str]] = defaultdict(set)
    for path in files():
        here = package(module_name(path))
        if here not in ANYWHERE:
            edges[here] |= {package(module) for module in imports(path)} - {here}
    for start in sorted(edges):
        reached: set[str] = set()
        todo = [start]
        while todo:
            for other in edges[todo.pop()] - reached:
                reached.add(other)
                todo.append(other)
        if start in reached:
            yield f"{start} reaches itself through {sorted(reached - {start})}"


def method_names() -> Iterator[str]:
    """Names of methods as literals outside methods/ and the places of `NAMED`."""
    from plusone.methods import METHODS

    for path in files():
        name = short(path)
        if name.startswith("methods/") or name in NAMED:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in nodes(path):
            if isinstance(node, ast.Constant) and node.value in METHODS:
                line = lines[node.lineno - 1].strip()
                if node.value not in ORDINARY or "method" in line.lower():
                    yield f"{name}:{node.lineno} {node.value!r}"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a source, nested ones too."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.AST) -> int:
    """The number of lines of a function, its decorators left out."""
    return int(node.end_lineno or 0) - int(node.lineno) + 1  # type: ignore[attr-defined]


def body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The number of lines of a function without its signature and docstring."""
    statements = function.body[1:] if ast.get_docstring(function) else function.body
    if not statements:
        return 0
    return int(statements[-1].end_lineno or 0) - statements[0].lineno + 1


def long_commands() -> Iterator[str]:
    """Functions of the command line whose body is longer than `LONGEST_BODY` lines."""
    for path in files():
        if short(path).startswith("cli/"):
            for function in functions(path):
                if body(function) > LONGEST_BODY:
                    yield f"{short(path)}:{function.lineno} {function.name} {body(function)} lines"


def records(path: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """Classes with annotated fields, and the names of the fields."""
    for node in nodes(path):
        if isinstance(node, ast.ClassDef):
            fields = {
                part.target.id
                for part in node.body
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            }
            if len(fields) >= FEW_FIELDS:
                yield f"{short(path)} {node.name}", frozenset(fields)


def repeated_records() -> Iterator[str]:
    """Pairs of records with nearly the same fields."""
    every = [record for path in files() for record in records(path)]
    for (left, a), (right, b) in combinations(every, 2):
        if len(a & b) / len(a | b) >= SAME_FIELDS:
            yield f"{left} and {right} share {len(a & b)} of {len(a | b)} fields"


def repeated_names() -> Iterator[str]:
    """Module names that occur more than once; those of commands and `SHARED` left out."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files():
        own = path.stem in {"__init__", "__main__", *SHARED} or short(path).startswith("cli/")
        if not own:
            places[path.stem].append(short(path.parent))
    for name, where in sorted(places.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        if len(where) > 1:
            yield f"{name}: {', '.join(where)}"


def words(paths: Iterable[Path]) -> Iterator[str]:
    """Words that the glossary replaces."""
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if path.name == "CONTRIBUTING.md" and line.startswith("| run, run folder |"):
                continue  # the glossary itself
            for pattern, better in WORDS.items():
                for found in re.finditer(pattern, line):
                    yield f"{short(path)}:{number} {found[0]!r}: {better}"


def code_lines(path: Path) -> int:
    """Lines of a source with code: neither empty nor comments nor docstrings."""
    text = path.read_text(encoding="utf-8")
    kept: set[int] = set()
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skip and token.type != tokenize.ENDMARKER:
            kept |= set(range(token.start[0], token.end[0] + 1))
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            kept -= set(range(node.lineno, int(node.end_lineno or 0) + 1))
    return len(kept)


def sizes() -> dict[str, int]:
    """Files, lines and code lines of the package, and its long functions."""
    every = [function for path in files() for function in functions(path)]
    return {
        "files": len(files()),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files()),
        "code lines": sum(code_lines(path) for path in files()),
        f"functions > {LONG}": sum(length(function) > LONG for function in every),
    }


def longest(count: int = 8) -> list[str]:
    """The longest functions and classes."""
    found = [
        (length(node), f"{short(path)} {node.name}")
        for path in files()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    return [f"{lines:5d}  {name}" for lines, name in sorted(found, reverse=True)[:count]]


def rules() -> list[Rule]:
    """All rules."""
    return [
        Rule("imports go one way", list(wrong_layers())),
        Rule("no cycles between packages", list(cycles())),
        Rule("names of methods in methods/ only", list(method_names())),
        Rule(f"commands of at most {LONGEST_BODY} lines", list(long_commands())),
        Rule("one definition per record", list(repeated_records())),
        Rule("module names are unique", list(repeated_names())),
        Rule("words of the glossary in sources", list(words(files()))),
        Rule("words of the glossary in documents", list(words(DOCUMENTS))),
    ]


def main() -> int:
    """Prints sizes and findings; 1 if a rule is broken."""
    checked = rules()
    for rule in checked:
        print(f"{'WRONG' if rule.findings else 'ok':6s}{rule.name}")
        for finding in rule.findings:
            print(f"      {finding}")
    version, before = LAST_RELEASE
    print(f"\n{'':16s}{'now':>8s}{version:>8s}")
    for name, count in sizes().items():
        print(f"{name:16s}{count:8,d}{before[name]:8,d}")
    print("\nlongest functions and classes\n" + "\n".join(longest()))
    return int(any(rule.findings for rule in checked))


if __name__ == "__main__":
    sys.exit(main())
