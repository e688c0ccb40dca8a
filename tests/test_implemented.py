"""docs/evidence/implemented.md: a line for every method, as the method table has it."""

import runpy
from pathlib import Path

from plusone.methods import METHODS

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "implemented.py"))


def without_ours(lines):
    """The rows but for what was measured, which may be newer."""
    return [line.rsplit("|", 2)[0].rstrip() for line in lines if line.startswith("| `")]


def test_the_page_is_that_of_the_method_table():
    page = TOOL["PAGE"].read_text(encoding="utf-8").splitlines()
    assert without_ours(page) == without_ours(TOOL["page"]().splitlines()), (
        "run python tools/implemented.py"
    )
    assert len(without_ours(page)) == len(METHODS)


def test_the_tests_it_names_exist_and_name_the_method():
    golden = (ROOT / "tests" / "losses" / "test_golden.py").read_text(encoding="utf-8")
    for name in METHODS:
        text = (ROOT / "tests" / TOOL["tested_in"](name)).read_text(encoding="utf-8")
        words = [name, *TOOL["SHARED"].get(name, ())]
        assert any(word in text for word in words), name
        if name in TOOL["RELEASED"] - {"lac"}:
            assert f'"{name}' in golden or name in ("asl", "asl_ps"), name
