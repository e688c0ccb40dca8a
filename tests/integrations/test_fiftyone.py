"""Suggestions in FiftyOne and answers from it; needs FiftyOne with its database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.integrations.fiftyone import add_suggestions, read_answers
from plusone.suggestions.folder import Suggestions, write_suggestions

CLASSES = ("cat", "dog", "sea")


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[Any]:
    """A dataset of three images, one of which has no item; the folder of suggestions is beside."""
    names = np.array(["a.png", "b.png", "c.png"])
    for name in (*names, "other.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    labels = LabelMatrix.from_lists([[0], [1], [2]], 3)
    table = LabelTable(names, CLASSES, labels, root=tmp_path)
    row, label = np.array([0, 0, 1, 2]), np.array([1, 2, 0, 0])
    p = np.array([0.9, 0.3, 0.8, 0.7])
    found = Suggestions(table, row, label.astype(np.int32), p.astype(np.float32), p, {})
    write_suggestions(found, tmp_path / "suggestions")
    try:
        import fiftyone as fo

        made = fo.Dataset()
    except ModuleNotFoundError:
        pytest.skip("FiftyOne is not installed")
    except Exception as error:  # after MLflow it cannot be imported (importlib_metadata)
        pytest.skip(f"FiftyOne cannot begin, or has no database here ({type(error).__name__})")
    made.add_samples([fo.Sample(filepath=str(tmp_path / name)) for name in ("b.png", "a.png")])
    made.add_sample(fo.Sample(filepath=str(tmp_path / "other.png")))
    yield made
    made.delete()


def test_answers_come_back(dataset, tmp_path):
    assert add_suggestions(dataset, tmp_path / "suggestions") == 3
    shown = {
        Path(sample.filepath).name: [
            (one.label, round(one.confidence, 6)) for one in sample.suggestions.classifications
        ]
        for sample in dataset
        if sample.suggestions is not None
    }
    assert shown == {"a.png": [("dog", 0.9), ("sea", 0.3)], "b.png": [("cat", 0.8)]}
    unanswered = read_answers(dataset, tmp_path / "suggestions")
    assert unanswered.labels.dense().tolist() == np.eye(3).tolist()
    for sample in dataset.match({"suggestions": {"$ne": None}}):
        for one in sample.suggestions.classifications:
            one.tags.append("no" if one.label == "sea" else "yes")
        sample.save()
    answered = read_answers(dataset, tmp_path / "suggestions")
    assert answered.labels.dense().tolist() == [[1, 1, -1], [1, 1, 0], [0, 0, 1]]
    assert answered.observation["answers"] == 3
    assert answered.named is not None
    assert answered.named.dense().tolist() == np.eye(3).tolist()
    sample = dataset.first()
    sample.suggestions.classifications[0].tags.append("no")
    sample.save()
    with pytest.raises(InputError, match=r"b\.png: cat is tagged both yes and no"):
        read_answers(dataset, tmp_path / "suggestions")


def test_other_images_are_refused(dataset, tmp_path):
    dataset.delete_samples([one.id for one in dataset if not one.filepath.endswith("other.png")])
    with pytest.raises(InputError, match="no sample of the dataset"):
        add_suggestions(dataset, tmp_path / "suggestions")
