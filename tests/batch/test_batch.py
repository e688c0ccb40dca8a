"""Features and tags of items on any storage: every engine gives what the ordinary commands give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.batch import FeatureBatches, Job, TagBatches, run_job
from plusone.batch.engines import Engine, ray_data
from plusone.cli.app import main
from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.errors import InputError
from plusone.features.extraction import extract_to_file
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training.run import train

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

BACKBONE = (("backbone", "cnn"), ("size", 32))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Nine pictures, and a file that is none."""
    folder, rng = tmp_path / "photos", np.random.default_rng(0)
    (folder / "a").mkdir(parents=True)
    for number in range(9):
        pixels = rng.integers(0, 255, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "a" / f"{number}.png")
    (folder / "broken.jpg").write_bytes(b"no image")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A run on vectors, and some of them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)).astype(np.float32)
    data = Dataset.from_arrays(x, np.eye(3, dtype=int)[x[:, :3].argmax(1)])
    folder = tmp_path_factory.mktemp("batch") / "run"
    recipe = make_recipe({"method": "recovery"})
    train(make_task(data, recipe), recipe, folder)
    return folder, x


def results(folder: Path) -> Any:
    return pq.read_table(folder).sort_by("id")


def test_features_of_images(photos: Path, tmp_path: Path) -> None:
    job = Job("features", BACKBONE, str(photos), str(tmp_path / "out"), rows=4)
    pieces, held, done = run_job(job, workers=0)
    assert (pieces, held, sum(one.rows for one in done)) == (3, 0, 10)
    table = results(tmp_path / "out")
    assert table.column("id").to_pylist() == [f"a/{n}.png" for n in range(9)] + ["broken.jpg"]
    assert [bool(error) for error in table.column("error").to_pylist()] == [False] * 9 + [True]
    labels = photos / "labels.csv"
    labels.write_text("image,labels\n" + "".join(f"a/{n}.png,x\n" for n in range(9)))
    file = tmp_path / "x.npz"
    extract_to_file(load_source(str(labels)), file, "cnn", 32, workers=0)
    own = np.array(table.column("features").to_pylist()[:9])
    np.testing.assert_allclose(own, np.load(file)["x"], atol=2e-3)  # float16


def agree_and_continue(photos: Path, folder: Path, engine: Engine) -> None:
    """An engine gives what this process gives, and computes only what is missing."""
    outs = [folder / "here", folder / "there"]
    here, there = (Job("features", BACKBONE, str(photos), str(out), rows=4) for out in outs)
    list(run_job(here, workers=0)[2])
    list(run_job(there, engine, workers=1)[2])
    assert results(outs[0]).equals(results(outs[1]))
    (outs[1] / "part-000001.parquet").unlink()
    pieces, held, done = run_job(there, engine, workers=1)
    assert (pieces, held, [one.part for one in done]) == (3, 2, ["part-000001.parquet"])
    assert results(outs[0]).equals(results(outs[1]))


@pytest.mark.slow
def test_processes(photos: Path, tmp_path: Path) -> None:
    agree_and_continue(photos, tmp_path, "processes")


def vectors(x: np.ndarray) -> Any:
    return pa.table({"id": [f"i{row}" for row in range(len(x))], "vector": list(x)})


def test_tags_on_another_storage(run: tuple[Path, np.ndarray]) -> None:
    """The parts are the predictions of the run, in row groups of the source."""
    fsspec = pytest.importorskip("fsspec")
    folder, x = run
    with fsspec.open("memory://plusone-in/x.parquet", "wb") as file:
        pq.write_table(vectors(x), file, row_group_size=25)
    settings = (("run", str(folder)),)
    job = Job("tags", settings, "memory://plusone-in", "memory://plusone-out")
    assert sum(one.rows for one in run_job(job, workers=0)[2]) == 60
    with fsspec.open("memory://plusone-out/part-000002.parquet", "rb") as file:
        table = pq.read_table(file)
    predictor = load_run(folder)
    expected = predictor.probabilities(ArrayInputs(torch.from_numpy(x[50:])))
    np.testing.assert_allclose(table.column("probabilities").to_pylist(), expected, atol=1e-6)
    assert table.schema.metadata[b"classes"].decode().split("\n") == list(predictor.classes)
    assert list(run_job(job, workers=0)[2]) == []
    with pytest.raises(InputError, match="other items or settings"):
        run_job(Job("tags", (*settings, ("threshold", 0.9)), job.source, job.out), workers=0)


def test_rows_that_cannot_be_read(run: tuple[Path, np.ndarray]) -> None:
    folder, x = run
    tag, nan = TagBatches(folder), x[:3].copy()
    nan[1, 2] = np.nan
    errors = tag(vectors(nan)).column("error").to_pylist()
    assert [error is None for error in errors] == [True, False, True]
    assert all("takes 5" in error for error in tag(vectors(x[:2, :4])).column("error").to_pylist())
    with pytest.raises(InputError, match="no column of vectors"):
        tag(pa.table({"id": ["a"]}))
    with pytest.raises(InputError, match="no column with names"):
        tag(pa.table({"vector": list(x[:2])}))
    with pytest.raises(InputError, match="no column of images"):
        FeatureBatches("cnn", 32)(vectors(x))


@pytest.mark.slow
def test_ray(photos: Path, tmp_path: Path, run: tuple[Path, np.ndarray]) -> None:
    """As an engine, and as the page says: `map_batches` with the function itself."""
    pytest.importorskip("ray")
    folder, x = run
    with ray_data() as data:
        agree_and_continue(photos, tmp_path, "ray")
        rows = data.from_arrow(vectors(x)).map_batches(
            TagBatches,
            fn_constructor_args=[str(folder)],
            batch_format="pyarrow",
            batch_size=16,
            compute=data.ActorPoolStrategy(size=1),
        )
        labels = {row["id"]: list(row["labels"]) for row in rows.iter_rows()}
    expected = TagBatches(folder)(vectors(x))
    names = expected.column("id").to_pylist()
    assert labels == dict(zip(names, expected.column("labels").to_pylist(), strict=True))


def test_the_command(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    words = ["batch", str(photos), "--backbone", "cnn", "--size", "32", "--out", out]
    for held in (0, 1):
        with pytest.raises(SystemExit) as stop:
            main([*words, "--workers", "0", "--json"])
        assert stop.value.code == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["parts"], report["held"]) == (1, held)
    with pytest.raises(SystemExit) as stop:
        main([*words[:2], "--out", out])
    assert stop.value.code == 2
    assert "--run" in capsys.readouterr().err
