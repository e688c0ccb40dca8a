"""What docs/analyses.md shows runs."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "analyses.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 3
    for code in blocks:
        exec(compile(code, "docs/analyses.md", "exec"), {})


def test_every_function_that_is_named_exists():
    table = [line for line in TEXT.splitlines() if line.startswith("| ")]
    names = re.findall(r"`(\w+)\.(\w+)`", "\n".join(table))
    assert len(names) > 8
    for module, name in names:
        assert hasattr(importlib.import_module(f"plusone.report.{module}"), name), name
