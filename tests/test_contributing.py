"""CONTRIBUTING.md: its example methods are added to a copy of the package and tested there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.patience import HOUR

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", TEXT, re.DOTALL))
ROWS = re.findall(r"<!-- row: docs/methods/simple.md -->\n```markdown\n(.*?)```", TEXT, re.DOTALL)
NAMES = [Path(name).stem for name in FILES if name.startswith("src/")]
EVERY_METHOD = (  # files with a case for each method of the table
    "methods/test_contract",
    "training/test_every_method",
    "training/test_linear",
    "accelerator/test_every_method",
    "compare/test_search",
    "export/test_folder",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the package, its tests and the page of methods, with the examples added."""
    root = tmp_path_factory.mktemp("contributed")
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for name, code in FILES.items():
        assert not (root / name).exists(), name
        (root / name).write_text(code, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "methods", root / "docs" / "methods")
    with (root / "docs" / "methods" / "simple.md").open("a", encoding="utf-8") as page:
        page.write("\n" + "".join(ROWS))
    table = root / "src" / "plusone" / "methods" / "__init__.py"
    code = table.read_text(encoding="utf-8")
    imports = (f"    {name},\n" for name in NAMES)
    entries = (f"        {name}.INFO,\n" for name in NAMES)
    for last, added in (("    lac,\n", imports), ("        lac.INFO,\n", entries)):
        assert code.count(last) == 1
        code = code.replace(last, last + "".join(added))
    table.write_text(code, encoding="utf-8")
    return root


def run(copy: Path, *arguments: object) -> str:
    """Runs Python inside the copy; returns what it prints."""
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=copy,
        env=environment,
        timeout=HOUR,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_is_one_of_each_kind():
    assert len(NAMES) == len(ROWS) == 3
    assert {f"tests/methods/test_{name}.py" for name in NAMES} < FILES.keys()


def test_they_pass_the_tests_of_every_method(copy):
    """Contract, training, resume, stacking, another device, ablation, export, and the page.

    What answers do to a method is measured of those that the package has.
    """
    files = [f"tests/{name}.py" for name in EVERY_METHOD]
    files += [name for name in FILES if name.startswith("tests/")]
    chosen = " or ".join((*NAMES, "documentation", "every_space"))
    said = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", chosen)
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said


def test_two_processes_end_where_one_does(copy, tmp_path):
    script = copy / "tests" / "distributed" / "trainings.py"
    cases = [*NAMES, "self_taught images", "cosine images"]
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    run(copy, script, one, *cases)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    run(copy, *torchrun, script, two, *cases)
    alone = torch.load(one / "0.pt", weights_only=True)
    ranks = [torch.load(two / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for case in cases:
        for key, value in alone[case]["tensors"].items():
            mine, theirs = (ends[case]["tensors"].get(key) for ends in ranks)
            torch.testing.assert_close(mine, value, rtol=1e-3, atol=1e-5)
            if theirs is None:
                assert key.endswith("method.targets")  # its rows are divided, rank 0 has all
            else:
                assert torch.equal(mine, theirs), key
