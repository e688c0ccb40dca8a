"""FiftyOne, Label Studio and cleanlab read what we write; skipped where they are not installed.

The code for FiftyOne and cleanlab is that of docs/other-tools.md.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from plusone.data.dataset import Dataset
from plusone.recipe import make_recipe
from plusone.suggestions import Suggestions
from plusone.suggestions.find import Found, find
from plusone.suggestions.outputs import write_as

CLASSES = ("ant", 'bee "x"', "cat & co")


@pytest.fixture(scope="module")
def found() -> Found:
    """90 items of one class each; the seen labels of the first six are wrong."""
    rng = np.random.default_rng(0)
    truth = np.eye(3, dtype=int)[np.arange(90) % 3]
    x = (3 * truth + 0.3 * rng.normal(size=truth.shape)).astype(np.float32)
    seen = truth.copy()
    seen[:6] = np.roll(truth[:6], 1, axis=1)
    split = ["train"] * 87 + ["test"] * 3
    data = Dataset.from_arrays(x, seen, classes=list(CLASSES), split=split)
    return find(data, make_recipe({"method": "recovery"}), folds=3)


@pytest.fixture(scope="module")
def with_images(found: Found, tmp_path_factory: pytest.TempPathFactory) -> tuple[Suggestions, Path]:
    root = tmp_path_factory.mktemp("tools") / "a b"
    root.mkdir()
    names = np.array([f"{number}.x.png" for number in range(len(found.table))])
    for name in names:
        Image.new("RGB", (8, 8)).save(root / name)
    suggestions = found.suggestions(least=0.001)
    table = replace(suggestions.table, ids=names, root=root)
    return replace(suggestions, table=table), root.parent / "suggestions"


def expected(suggestions: Suggestions) -> tuple[dict[str, list[str]], dict[str, dict[str, float]]]:
    """Seen labels and suggestions with their probabilities, by the name of the image."""
    table = suggestions.table
    names = [str(name) for name in table.ids]
    seen = {
        name: [table.classes[label] for label in table.labels.positives(row)]
        for row, name in enumerate(names[:87])
    }
    suggested: dict[str, dict[str, float]] = {name: {} for name in seen}
    for row, label, p in zip(
        suggestions.row, suggestions.label, suggestions.probability, strict=True
    ):
        suggested[names[row]][table.classes[label]] = pytest.approx(float(p), abs=1e-6)
    return seen, suggested


def from_page(module: str, leave_out: str = "") -> dict[str, Any]:
    """Runs the block of the page that imports a module; returns its variables."""
    text = (Path(__file__).parents[2] / "docs" / "other-tools.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (block,) = [block for block in blocks if module in block]
    assert leave_out in block
    names: dict[str, Any] = {}
    exec(compile(block.replace(leave_out, ""), "other-tools.md", "exec"), names)
    return names


def test_fiftyone_imports_the_folder(with_images, monkeypatch) -> None:
    fo = pytest.importorskip("fiftyone", reason="FiftyOne is not installed")
    from fiftyone.utils.data.importers import FiftyOneImageClassificationDatasetImporter

    suggestions, folder = with_images
    write_as(suggestions, folder, "fiftyone")
    seen, suggested = expected(suggestions)

    def imported(labels: str) -> dict[str, dict[str, float | None]]:
        importer = FiftyOneImageClassificationDatasetImporter(
            dataset_dir=str(folder / "fiftyone"), data_path="data.json", labels_path=labels
        )
        with importer:
            return {
                Path(path).name: {one.label: one.confidence for one in label.classifications}
                for path, _, label in importer
            }

    truth = {name: dict.fromkeys(names) for name, names in seen.items()}
    assert imported("labels.json") == truth
    assert imported("predictions.json") == {name: p for name, p in suggested.items() if p}
    try:
        fo.list_datasets()
    except Exception as error:
        pytest.skip(f"the importer ran; FiftyOne has no database here ({type(error).__name__})")
    monkeypatch.chdir(folder.parent)
    dataset = from_page("fiftyone", leave_out="fo.launch_app(dataset)\n")["dataset"]
    try:
        assert len(dataset) == 87
        assert dataset.default_classes == list(CLASSES)
        for sample in dataset:
            name = Path(sample.filepath).name
            assert [one.label for one in sample.ground_truth.classifications] == seen[name]
            predictions = sample.predictions.classifications if sample.predictions else []
            assert {one.label: one.confidence for one in predictions} == suggested[name]
    finally:
        dataset.delete()


def test_label_studio_takes_config_and_tasks(with_images) -> None:
    interface = pytest.importorskip(
        "label_studio_sdk.label_interface", reason="the package label-studio-sdk is not installed"
    )
    suggestions, folder = with_images
    write_as(suggestions, folder, "label-studio", image_prefix="/data/local-files/?d=")
    config = interface.LabelInterface((folder / "label-studio.xml").read_text())
    config.validate()
    assert set(config.get_control("labels").labels) == set(CLASSES)
    tasks = json.loads((folder / "label-studio.json").read_text())
    assert len(tasks) == len(np.unique(suggestions.row)) > 0
    seen, _ = expected(suggestions)
    for task in tasks:
        assert config.validate_task({"data": task["data"]})
        (annotation,), (prediction,) = task["annotations"], task["predictions"]
        assert config.validate_annotation(annotation)
        assert config.validate_prediction(prediction)
        name = task["data"]["image"].removeprefix("/data/local-files/?d=")
        assert annotation["result"][0]["value"]["choices"] == seen[name]
    wrong = json.loads(json.dumps(tasks[0]["annotations"][0]))
    wrong["result"][0]["value"]["choices"] = ["dog"]
    assert not config.validate_annotation(wrong)


def test_cleanlab_finds_wrong_labels(found: Found, tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    monkeypatch.chdir(tmp_path)
    Path("suggestions").mkdir()
    found.write_probabilities(Path("suggestions"))
    page = from_page("cleanlab")
    assert page["file"]["scores"].shape == (87, 3)
    assert set(page["issues"]) == set(range(6))
    assert set(np.argsort(page["quality"])[:6]) == set(range(6))
    assert np.flatnonzero(page["table"]["is_label_issue"]).tolist() == list(range(6))
