"""One composer: the same data gets the same settings from every door, and each can say why."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import plusone
from plusone import autorecipe
from plusone.autorecipe import Facts, compose, facts_of
from plusone.cli.app import main
from plusone.compare import bench
from plusone.compare.jobs import make_jobs
from plusone.compare.spec import make_spec, merge_settings, read_spec
from plusone.data import Dataset
from plusone.data.source import DATA_DEFAULTS, Source, load_source
from plusone.errors import InputError
from plusone.methods import COMPARED, METHODS, get_method
from plusone.prediction.run_folder import read_metrics, read_recipe
from plusone.recipe import Recipe, make_recipe
from plusone.training.rates import rates_around

SAME = ("backbone", "mode", "method", "lr", "batch_size", "epochs", "head_lr_mult")
SPECS = Path(__file__).parents[1] / "benchmarks" / "results"


def settings(recipe: Recipe) -> dict[str, object]:
    return {name: getattr(recipe, name) for name in SAME}


def labels_file(folder: Path, names: list[str], classes: int = 3) -> Path:
    lines = ["image,labels", *(f"{name},c{row % classes}" for row, name in enumerate(names))]
    path = folder / "labels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def features(folder: Path, count: int) -> tuple[str, list[str]]:
    x = np.random.default_rng(0).normal(size=(count, 6), scale=3).astype(np.float32)
    names = [f"{row:05d}" for row in range(count)]
    np.savez(folder / "x.npz", x=x, ids=np.array(names))
    return str(labels_file(folder, names)), [str(folder / "x.npz")]


def image_files(folder: Path, count: int) -> tuple[str, list[str]]:
    rng = np.random.default_rng(0)
    names = [f"{row:05d}.png" for row in range(count)]
    for name in names:
        pixels = rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return str(labels_file(folder, names)), []


@pytest.mark.parametrize(
    ("make", "count"),
    [(features, 60), (image_files, 30)],
    ids=["features", "image files"],
)
def test_the_same_data_gets_the_same_settings_from_every_door(make, count, tmp_path, monkeypatch):
    monkeypatch.setattr(autorecipe, "installed_lite", lambda: None)
    data, files = make(tmp_path, count)
    words = [word for path in files for word in ("-x", path)]
    short = {"epochs": 1, "workers": 0}

    arguments = [data, *words, "--out", str(tmp_path / "run"), "--epochs", "1"]
    with pytest.raises(SystemExit) as left:
        main(["train", *arguments, "-s", "workers=0", "--json"])
    assert not left.value.code
    trained, rules = read_recipe(tmp_path / "run"), read_metrics(tmp_path / "run").rules
    assert rules

    dataset = load_source(data, features=[Path(path) for path in files])
    fitted = plusone.fit(dataset, **short)
    assert settings(fitted.training.recipe) == settings(trained)
    assert fitted.rules == fitted.result.rules == rules

    source = Source(data, tuple(files))
    (job,) = make_jobs(source, [trained.method], [0], {trained.method: [{}]}, short, rules=True)
    assert settings(job.recipe) == settings(trained)
    assert set(job.rules) == {text for text in rules if not text.startswith("method")}

    if make is features:
        x, seen = np.asarray(dataset.features), dataset.table.labels.dense()
        model = plusone.PlusOneClassifier(epochs=1, random_state=0).fit(x, seen)
        assert settings(model.recipe_) == settings(trained) | {"mode": model.recipe_.mode}
        assert model.recipe_.mode in ("auto", "linear")
        assert model.rules_ == rules

    assert settings(plusone.fit(dataset, rules=False, **short).training.recipe) == (
        settings(Recipe(epochs=1))
    )


def test_images_in_memory():
    """Files hold no such data: only `fit` takes it, and the embedded digits are of this kind."""
    x = np.random.default_rng(0).integers(0, 255, (40, 1, 32, 32), dtype=np.uint8)
    data = Dataset.from_arrays(x, np.eye(3, dtype=int)[np.arange(40) % 3])
    fitted = plusone.fit(data, epochs=1)
    made = compose(lambda share: facts_of(data, share), {"epochs": 1})
    assert fitted.training.recipe == made.recipe
    assert (made.recipe.backbone, made.recipe.mode, made.recipe.method) == ("cnn", "finetune", "em")
    assert fitted.rules == made.rules


def test_layers_lie_over_each_other_in_the_documented_order():
    def facts(share):
        assert share == 0.3
        return Facts("features", 5000, classes=20, width=1280, scale=260.0)

    file, flags = {"val_share": 0.3, "batch_size": 8, "lr": 0.5}, {"lr": 0.25}
    made = compose(facts, file, flags)
    assert (made.recipe.method, made.recipe.lr, made.recipe.batch_size) == ("recovery", 0.25, 8)
    assert [text.split(" ")[0] for text in made.rules] == ["method", "head"]
    assert made.chosen == {"method", "head"}
    assert compose(None, file, flags).recipe == make_recipe(file, flags)
    assert not compose(None, file, flags).rules


def test_the_rules_respect_the_defaults_of_the_method():
    def facts(share):
        return Facts("features", 5000, scale=260.0)

    for name, info in METHODS.items():
        made = compose(facts, {"method": name})
        for setting, value in info.defaults.items():
            assert make_recipe({setting: value}).model_dump()[setting] == getattr(
                made.recipe, setting
            )
            assert not any(text.startswith(f"{setting} ") for text in made.rules)


def test_options_without_a_method_belong_to_the_method_that_is_chosen():
    features, photos = Facts("features", 100, scale=1.0), Facts("files", 100)
    made = compose(lambda share: features, {"options": {"rounds": 2}})
    assert (made.recipe.method, made.recipe.options) == ("recovery", {"rounds": 2})
    assert "method" in made.chosen
    assert compose(lambda share: photos, {"options": {"alpha": 0.3}}).recipe.method == "em"
    assert compose(None, {"options": {"q3": 1.5}}).recipe.method == Recipe().method == "gr"
    with pytest.raises(InputError, match=r"options are those of recovery.*an option of .*gr"):
        compose(lambda share: features, {"options": {"q3": 1.5}})
    with pytest.raises(InputError, match="did you mean alpha"):  # before the data is looked at
        compose(lambda share: 1 / 0, {"options": {"alhpa": 1.5}})


def test_a_swept_value_changes_nothing_else():
    few = Facts("features", 100, scale=1.0)
    plain, large = (compose(lambda share: few, over=over) for over in ({}, {"batch_size": 1}))
    assert large.recipe == plain.recipe.model_copy(update={"batch_size": 1})
    assert not any(text.startswith("batch_size") for text in large.rules)


def test_wrong_settings_are_refused_before_the_data_is_looked_at():
    def facts(share):
        raise AssertionError("looked at")

    for wrong in ({"epoch": 1}, {"method": "magic"}, {"options": {"magic": 1}}):
        with pytest.raises(InputError, match="unknown"):
            compose(facts, wrong)


@pytest.mark.parametrize("name", DATA_DEFAULTS)
def test_embedded_data_has_fixed_settings(name):
    made = compose(lambda share: Facts("features", 10), name=name)
    assert made.recipe == make_recipe(DATA_DEFAULTS[name], get_method("gr").defaults)
    assert not made.rules


@pytest.mark.parametrize("path", sorted(SPECS.glob("*-*.toml")), ids=lambda path: path.stem)
def test_the_protocols_of_the_results_are_what_their_files_say(path, monkeypatch):
    """A file describes a comparison in full: no rule looks at the data."""
    monkeypatch.setattr(bench, "make_source", lambda data, *rest, **more: Source(data))
    monkeypatch.setattr(bench, "_check_modes", lambda *rest: None)
    monkeypatch.setattr(bench, "_has_images", lambda source: False)
    spec = read_spec(path, {}, {})
    assert not spec.rules
    for entry in bench.make_entries(spec):
        rates = entry.rates(spec.lr)
        for tried in rates:
            own = merge_settings(spec.settings, spec.data[0].settings)
            own = merge_settings(own, spec.method.get(entry.method, {}))
            modes = {"mode": entry.mode} if spec.modes else {}
            fixed = modes | {"method": entry.method, "seed": spec.seeds[0]}
            (job,) = entry.jobs([tried], spec.seeds[:1])
            assert job.recipe == make_recipe(get_method(entry.method).defaults, own, tried, fixed)
            assert not job.rules


def test_the_demo_has_the_settings_of_the_digits():
    values = {"data": [{"path": "digits"}], "methods": COMPARED, "seeds": [0], "rules": True}
    values["protocol"] = "product"
    for entry in bench.make_entries(make_spec(values, source="demo")):
        (job,) = entry.jobs([{}], [0])
        fixed = {"method": entry.method, "seed": 0}
        defaults = get_method(entry.method).defaults
        assert job.recipe == make_recipe(DATA_DEFAULTS["digits"], defaults, fixed)


@pytest.mark.usefixtures("in_this_process")
def test_a_comparison_says_why_and_can_leave_the_defaults(tmp_path, capsys):
    data, (path,) = features(tmp_path, 60)

    def bench(folder: str, *flags: str) -> dict:
        arguments = [data, "-x", path, "-m", "an", "--seed", "0", "--no-report", "--json", *flags]
        with pytest.raises(SystemExit) as left:
            main(["bench", *arguments, "--out", str(tmp_path / folder), "-s", "epochs=1"])
        assert not left.value.code
        capsys.readouterr()
        lines = (tmp_path / folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    by_rules, (plain,) = bench("rules", "--no-extend"), bench("plain", "--no-rules")
    given = compose(partial(facts_of, load_source(data, features=[Path(path)])), {"method": "an"})
    assert [run["lr"] for run in by_rules] == rates_around(given.recipe.lr)  # as train tries them
    assert plain["lr"] == Recipe().lr
    assert "rules" not in plain
    again = tmp_path / "rules" / "bench.toml"
    assert read_spec(again, {}, {}).rules
