"""Species: methods and baselines on records of people."""

import numpy as np
import pytest

from plusone.compare.species import BASELINES, figures_of, learning_methods, measure, table_of
from plusone.methods import METHODS


def write_places(folder, names=("north", "south"), n=160):
    """Two species on either side of a gradient, and background sites all along it."""
    for number, name in enumerate(names):
        rng = np.random.default_rng(number)
        x, test_x = (rng.normal(size=(n, 3)).astype(np.float32) for _ in range(2))
        np.savez(
            folder / f"{name}.npz",
            x=x,
            species=(x[:, 0] > 0).astype(np.int16),
            site=np.arange(n, dtype=np.int32),
            background=rng.normal(size=(200, 3)).astype(np.float32),
            test_x=test_x,
            test_y=np.stack([test_x[:, 0] <= 0, test_x[:, 0] > 0], axis=1).astype(np.int8),
            names=np.array(["shade", "sun"]),
        )
    return [folder / f"{name}.npz" for name in names]


def test_all_learn_and_finished_runs_are_read(tmp_path):
    files, methods = write_places(tmp_path), ["ridge", "maxent", *BASELINES]
    figures = measure(files, methods, [0], tmp_path / "out", background=30, settings={"epochs": 15})
    assert len(figures) == 2 * len(methods)
    for figure in figures:  # fifteen epochs of steps are few
        assert figure.auc > (0.7 if figure.method == "maxent" else 0.9), figure
    again = measure(files, methods, [0], tmp_path / "out", background=30, settings={"epochs": 15})
    assert again == figures  # with their times
    header, cells = table_of(figures)
    assert header == ["method", "north", "south", "mean", "seconds"]
    assert [float(row[3]) for row in cells] == sorted(
        (float(row[3]) for row in cells), reverse=True
    )


def test_methods_that_need_more_than_seen_labels_are_left_out():
    assert {"recovery", "maxent", "gr"} <= set(learning_methods())
    left_out = METHODS.keys() - set(learning_methods())
    assert {"bce", "vlpl", "ignore"} <= left_out


@pytest.mark.slow
def test_recovery_is_ahead_of_the_baselines_on_two_sets(shared, tmp_path):
    files = [shared / "data" / "species" / f"{name}.npz" for name in ("awt_bird", "awt_plant")]
    figures = measure(files, ["recovery", "maxent-like"], [0], tmp_path)
    auc = {name: figures_of(figures, name) for name in ("recovery", "maxent-like")}
    assert auc["recovery"] > auc["maxent-like"] > 0.65
