"""The walk of a newcomer with a folder of photos, as the README tells it, with the real commands.

`PLUSONE_WALK=500 pytest -s tests/walks` walks it with 500 photos and prints the time of each step.
"""

from __future__ import annotations

import json
import os
import shutil
import time

import numpy as np
import pytest

from plusone.cli.app import main
from plusone.data.shards import photo_key
from plusone.reviewing.opening import open_suggestions

FEW = 32
CLASSES = ("airplane", "beach", "forest", "harbor")


@pytest.mark.slow
def test_from_photos_to_a_better_model(shared, stored, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    count = int(os.environ.get("PLUSONE_WALK", FEW))
    photos = sorted((shared / "data" / "ucmerced" / "data").rglob("*.jpg"))
    classes = {path.parent.name for path in photos} if count > FEW else {*CLASSES}
    photos = [path for path in photos if path.parent.name in classes]
    chosen = [photos[at] for at in np.linspace(0, len(photos) - 1, count).astype(int)]
    for path in chosen:
        (tmp_path / "photos" / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / "photos" / path.parent.name)
    shutil.copytree(tmp_path / "photos" / sorted(classes)[0], tmp_path / "new")

    def run(*words):
        start = time.perf_counter()
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert left.value.code == 0, said.err
        if count > FEW:
            with capsys.disabled():
                print(f"{time.perf_counter() - start:6.1f} s  plusone {' '.join(map(str, words))}")
        return said

    fast = ("--set", "crops=one", "--no-report") if count <= FEW else ()
    assert json.loads(run("inspect", "photos", "--json").out)["items"] == count
    first = run("train", "photos", "--out", "run", *fast)
    assert "plusone suggest run" in first.err
    assert (tmp_path / "run" / "report.html").exists() == (count > FEW)
    run("predict", "run", "new", "--out", "tags.csv")
    assert (tmp_path / "tags.csv").read_text().count("\n") > 1
    before = stored()
    assert {photo for _, photo in before} >= {photo_key(path) for path in chosen}
    run("suggest", "run", "--out", "suggestions")
    assert stored() == before
    desk = open_suggestions(tmp_path / "suggestions")
    missing = int(np.flatnonzero(desk.table.labels.dense([0])[0] == 0)[0])
    desk.answer("a" * 16, "0" * 16, [(0, missing, "yes")])
    desk.store.close()
    run("review", "suggestions", "--export", "better.csv")
    assert "|" in (tmp_path / "better.csv").read_text()  # an item with two labels
    run("train", "better.csv", "--out", "again", *(fast or ("--no-report",)))
    run("export", "again", "--onnx", "--out", "model")
    assert (tmp_path / "model" / "model.onnx").exists()
    assert json.loads(run("predict", "model", "new", "--json").out)
    assert stored() == before  # every photo was computed once, by the first training
