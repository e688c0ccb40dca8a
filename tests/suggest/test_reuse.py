"""`suggest` takes the predictions of left-out items that a run kept, and fits only if it must."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.inputs.task import make_task
from plusone.prediction import checkpoint
from plusone.prediction.load import MEMORY
from plusone.recipe import Recipe, make_recipe
from plusone.suggestions.find import find, run_labels, run_recipe
from plusone.training import crossfit, reuse
from plusone.training.run import train

RECIPE = make_recipe({"method": "recovery", "seed": 0})


@pytest.fixture(scope="module")
def run(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reuse") / "run"
    train(make_task(small, RECIPE), RECIPE, folder)
    return folder


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The settings of every fit."""
    made: list[Recipe] = []
    real = crossfit.fit_for
    monkeypatch.setattr(
        crossfit, "fit_for", lambda task, recipe: made.append(recipe) or real(task, recipe)
    )
    return made


@pytest.fixture
def seen(run: Path, small: Dataset) -> Dataset:
    """The data with the labels that the run saw."""
    return replace(small, table=run_labels(run, small.table, run_recipe(run)))


def test_nothing_is_fitted_again_and_probabilities_are_those_of_a_fit(
    run: Path, seen: Dataset, fits: list[Recipe]
) -> None:
    recipe = run_recipe(run)
    kept = find(seen, recipe, run=run)
    assert not fits
    assert kept.reused
    fitted = find(seen, recipe)
    assert len(fits) == 1
    assert not fitted.reused
    np.testing.assert_allclose(
        kept.calibrated.probabilities, fitted.calibrated.probabilities, atol=1e-5
    )
    assert kept.suggestions().about["scores"] == "kept by the run"
    assert fitted.suggestions().about["scores"] == "fitted"


def test_other_labels_settings_or_features_are_fitted(
    run: Path, seen: Dataset, fits: list[Recipe]
) -> None:
    recipe = run_recipe(run)
    labels = seen.table.labels.dense()
    row = int(np.flatnonzero(labels[:, 0] == 0)[0])
    labels[row, 0] = -1
    one_more = replace(seen.table, labels=LabelMatrix.from_dense(labels))
    moved = np.array(seen.features)
    moved[3, 2] += 0.5
    for other, settings in (
        (replace(seen, table=one_more), recipe),
        (replace(seen, features=moved), recipe),
        (seen, recipe.model_copy(update={"gamma": 3.0})),
        (seen, recipe.model_copy(update={"picks": "uniform"})),
    ):
        before = len(fits)
        assert not find(other, settings, run=run).reused
        assert len(fits) == before + 1


def test_runs_that_kept_nothing_are_fitted(
    run: Path,
    small: Dataset,
    seen: Dataset,
    fits: list[Recipe],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tensors, plain = checkpoint.load(run / MEMORY)
    assert tensors[reuse.PREFIX + "log_odds"].shape == (300, 4)
    (tmp_path / "old").mkdir()
    left = {name: each for name, each in tensors.items() if not name.startswith(reuse.PREFIX)}
    checkpoint.save(tmp_path / "old" / MEMORY, left, {"version": plain["version"]})
    (tmp_path / "none").mkdir()
    for folder in ("old", "none"):
        assert not find(seen, run_recipe(run), run=tmp_path / folder).reused
    assert len(fits) == 2
    monkeypatch.setattr(reuse, "MOST_LABELS", 100)
    train(make_task(small, RECIPE), RECIPE, tmp_path / "large")
    assert not checkpoint.load(tmp_path / "large" / MEMORY, reuse.PREFIX)[0]


def test_runs_on_images_keep_scores_too(fits: list[Recipe], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(60, 3, 16, 16), dtype=np.uint8)
    data = Dataset.from_arrays(images, np.eye(3, dtype=int)[rng.integers(3, size=60)])
    recipe = make_recipe({"method": "recovery", "mode": "linear", "seed": 0})
    train(make_task(data, recipe), recipe, tmp_path / "run")
    assert find(data, recipe, run=tmp_path / "run").reused
    assert not fits
    other = replace(data, features=images[::-1].copy())
    assert not find(other, recipe, run=tmp_path / "run").reused
