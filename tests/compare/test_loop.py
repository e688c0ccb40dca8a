import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plusone.compare.loop import Journal, _measure, simulate, steps
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.metrics import mean_average_precision
from plusone.recipe import make_recipe
from plusone.suggestions import read_suggestions
from plusone.training.closed_fit import fit_for

pytestmark = pytest.mark.slow


def data(n: int = 400) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 8)).astype("float32")
    truth = (x[:, :5] + 0.3 * rng.normal(size=(n, 5)) > 0.3).astype(int)
    truth[np.arange(n), rng.integers(5, size=n)] = 1
    split = np.where(np.arange(n) < n - 100, "train", "test")
    return Dataset.from_arrays(x, truth, complete=True, split=split)


RECIPE = make_recipe({"method": "an", "epochs": 6, "lr": 1e-2})
ASK = {"questions": (50, 100), "orders": ("worth",), "seeds": (0, 1), "folds": 2}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loop")
    steps_done: list[str] = []
    result = simulate(data(), RECIPE, folder, **ASK, on_progress=steps_done.append)
    assert len(steps_done) == steps(ASK["questions"], ASK["orders"], ASK["seeds"])
    (folder / "result.json").write_text(json.dumps(result.to_json()))
    return folder


def test_every_order_is_measured_after_every_number_of_questions(played: Path) -> None:
    result = json.loads((played / "result.json").read_text())
    measured = [(row["order"], row["questions"]) for row in result["rows"]]
    assert measured == [("worth", 50), ("worth", 100), ("any", 50), ("any", 100)]
    assert result["kind"] == "loop"
    assert result["items"] == 300
    truth = data().table.truth
    assert truth is not None
    assert result["hidden"] == truth.take(np.arange(300)).per_item(1).sum() - 300
    for row in result["rows"]:
        assert 0 < row["yes"] < row["questions"]
        assert row["gain"] == pytest.approx(row["test_map"] - result["before"])
    for chosen, random in zip(result["rows"][:2], result["rows"][2:], strict=True):
        assert chosen["over_random"] == pytest.approx(chosen["test_map"] - random["test_map"])
        assert random["over_random"] is None
    assert result["all_labels"] > result["before"]


def test_questions_are_about_unobserved_labels_of_items_that_are_not_for_testing(
    played: Path,
) -> None:
    suggestions = read_suggestions(played / "suggestions-seed0")
    assert suggestions.row.max() < 300
    seen = suggestions.table.labels.dense(suggestions.row)
    assert (seen[np.arange(len(suggestions)), suggestions.label] == 0).all()


def test_a_stopped_simulation_goes_on_to_the_same_result(played: Path, tmp_path: Path) -> None:
    lines = (played / "answers.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "answers.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:10])
    result = simulate(data(), RECIPE, tmp_path, **ASK)
    assert json.loads(json.dumps(result.to_json())) == json.loads(
        (played / "result.json").read_text()
    )
    assert (tmp_path / "answers.jsonl").read_bytes() == (played / "answers.jsonl").read_bytes()


def test_other_settings_are_refused(played: Path) -> None:
    other = RECIPE.model_copy(update={"lr": 1e-3})
    with pytest.raises(InputError, match="other settings"):
        simulate(data(), other, played, **ASK)


def test_other_features_are_refused(played: Path) -> None:
    before = data()
    other = Dataset(before.table, before.features * 2, before.name)
    with pytest.raises(InputError, match="other data"):
        simulate(other, RECIPE, played, **ASK)


def test_fewer_or_more_questions_may_be_asked_later(played: Path, tmp_path: Path) -> None:
    shutil.copytree(played, tmp_path / "copy")
    once = {"orders": (), "seeds": (0,), "folds": 2}
    lines = len((played / "answers.jsonl").read_text().splitlines())
    simulate(data(), RECIPE, tmp_path / "copy", questions=(50,), **once)
    simulate(data(), RECIPE, tmp_path / "copy", questions=(100, 120), **once)
    journal = (tmp_path / "copy" / "answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in journal[lines:]] == ["seed 0: 120 any"]
    once["orders"] = ("worth",)
    for questions in ((50, 100), (50, 120)):  # other reviews: their first 50 questions differ
        simulate(data(), RECIPE, tmp_path / "copy", questions=questions, **once)
    later = (tmp_path / "copy" / "answers.jsonl").read_text().splitlines()[len(journal) :]
    assert "seed 0: 50 of 120 worth" in [json.loads(line)["key"] for line in later]


def test_seeds_draw_other_labels(played: Path) -> None:
    seen = [read_suggestions(played / f"suggestions-seed{seed}").table.labels for seed in (0, 1)]
    assert seen[0].digest() != seen[1].digest()


def test_more_questions_than_labels_to_ask_about_are_refused(played: Path) -> None:
    unobserved = 300 * 5 - 300
    with pytest.raises(InputError, match=f"there are {unobserved} labels .*--questions 1200"):
        simulate(data(), RECIPE, played, **(ASK | {"orders": (), "questions": (1201,)}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"orders": ("best",)}, "unknown order 'best'"),
        ({"questions": (0,)}, "at least 1 question"),
        ({"seeds": ()}, "at least 1 seed"),
    ],
)
def test_bad_wishes_are_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        simulate(data(), RECIPE, tmp_path, **(ASK | change))


@pytest.mark.parametrize(
    ("change", "words"),
    [({"train_share": 0.5}, "train_share must stay 1"), ({"method": "bce"}, "sees more labels")],
)
def test_settings_that_make_no_sense_are_refused(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        simulate(data(), RECIPE.model_copy(update=change), tmp_path, **ASK)


def test_data_without_truth_or_test_items_is_refused(tmp_path: Path) -> None:
    x = np.zeros((4, 2), dtype="float32")
    seen = Dataset.from_arrays(x, np.eye(4, 2), name="seen")
    with pytest.raises(InputError, match="all labels are needed"):
        simulate(seen, RECIPE, tmp_path)
    untested = Dataset.from_arrays(x, np.ones((4, 2), dtype=int), complete=True, name="untested")
    with pytest.raises(InputError, match="no test split"):
        simulate(untested, RECIPE, tmp_path)


def test_unknown_labels_are_left_out_of_test_items_and_refused_elsewhere(tmp_path: Path) -> None:
    whole = data()
    assert whole.table.truth is not None
    hide = np.random.default_rng(0).random((400, 5)) < 0.4
    hide[:300] = False
    states = np.where(hide, 0, whole.table.truth.dense())

    def with_truth(states: np.ndarray) -> Dataset:
        return replace(whole, table=replace(whole.table, truth=LabelMatrix.from_dense(states)))

    partly = with_truth(states)
    found = _measure(partly, partly.table, RECIPE)
    training = fit_for(make_task(partly, RECIPE), RECIPE)
    for _ in training.epochs():
        pass
    assert training.task.test is not None
    z = training.log_odds(training.task.test)
    assert found == mean_average_precision(z, states[300:], RECIPE.empty, "masked")
    assert found != mean_average_precision(z, states[300:], RECIPE.empty, "negative")
    states[:2, 0] = 0
    with pytest.raises(InputError, match="2 labels of its items are unknown"):
        simulate(with_truth(states), RECIPE, tmp_path, **ASK)


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("{}\nnot json\n")
    with pytest.raises(InputError, match="is damaged"):
        Journal(tmp_path / "j", {})
