"""The classifier on arrays that stay in their files."""

from pathlib import Path

import numpy as np
import pytest

from plusone import PlusOneClassifier
from plusone.data import lazy
from plusone.inputs import task
from plusone.inputs.loader import MappedInputs


@pytest.mark.parametrize("how", ["held out", "weights", "validation"])
def test_a_memmap_gives_what_an_array_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 6)).astype(np.float16)
    y = np.where(x[:, 0] > 0, "right", np.where(x[:, 1] > 0, "up", "down"))
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    more = {}
    if how == "weights":
        more["sample_weight"] = np.tile([1.0, 2.0], 150)
    if how == "validation":
        more["validation"] = (x[:50].copy(), y[:50])
    seen = []
    make = task.MappedInputs

    def watched(rows: lazy.LazyArray) -> MappedInputs:
        seen.append(len(rows))
        return make(rows)

    monkeypatch.setattr(task, "MappedInputs", watched)
    model = PlusOneClassifier("gr", epochs=2, lr=0.01, random_state=0)
    held = model.fit(x, y, **more).predict_proba(x)
    assert seen == []
    monkeypatch.setattr(task, "LARGE", 1)
    monkeypatch.setattr(lazy, "LARGE", 1)
    found = model.fit(mapped, y, **more).predict_proba(mapped)
    assert len(seen) == 2
    assert np.array_equal(held, found)
