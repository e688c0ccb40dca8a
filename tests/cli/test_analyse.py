"""gradients, intervals, surface: what the papers show without training."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from plusone.extras import install_command

pytestmark = pytest.mark.slow


def test_gradients_as_a_table(cli):
    answer = cli("analyse", "gradients", "em", "gr", "an", "ll_r", "--epochs", 4)
    assert answer.code == 0, answer.err
    assert "an unobserved label" in answer.out
    assert "gr, epoch 4" in answer.out
    assert "ll_r, epoch 4 (alone in its batch) *" in answer.out
    assert "* depends on the other labels" in answer.err
    lines = [line.split() for line in answer.out.splitlines() if line.split()[:1] == ["an"]]
    assert ["an", "0.050", "0.250", "0.500", "0.750", "0.950"] in lines
    assert max(len(line) for line in answer.out.splitlines()) <= 80


def test_gradients_for_machines_and_with_options(cli):
    answer = cli(
        "analyse",
        "gradients",
        "gr",
        "em",
        "--epoch",
        2,
        "--set",
        "gr.w=10",
        "-s",
        "em.alpha=0.2",
        "--json",
    )
    assert answer.code == 0, answer.err
    gr, em = answer.json["curves"]
    assert (gr["epoch"], gr["options"], em["options"]) == (2, {"w": 10}, {"alpha": 0.2})
    assert len(answer.json["p"]) == len(em["observed"]["loss"]) == 99


@pytest.mark.slow
def test_gradients_as_files(cli, tmp_path):
    pytest.importorskip("matplotlib")
    answer = cli("analyse", "gradients", "em", "an", "--out", tmp_path / "g")
    assert answer.code == 0, answer.err
    names = sorted(path.name for path in (tmp_path / "g").iterdir())
    assert names == ["gradients.json", "gradients.png", "gradients.svg"]
    assert json.loads((tmp_path / "g" / "gradients.json").read_text())["kind"] == "gradients"


@pytest.mark.slow
def test_figures_without_matplotlib_say_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from plusone.cli.app import main\n"
        f"main(['gradients', 'an', '--out', {str(tmp_path / 'g')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert install_command("plots") in done.stderr
    assert not (tmp_path / "g").exists()


def test_gradients_that_cannot_be(bad):
    assert "role has no such curve" in bad("analyse", "gradients", "em", "role").err
    assert "unknown method 'emm'; did you mean 'em'?" in bad("analyse", "gradients", "emm").err
    assert (
        "write it as method.option=value" in bad("analyse", "gradients", "gr", "--set", "w=2").err
    )
    assert "epoch 20 is not one" in bad("analyse", "gradients", "gr", "--epoch", 20).err


def test_intervals(cli, folder, tmp_path):
    answer = cli(
        "analyse", "intervals", folder / "labels.csv", "--out", tmp_path, "--sizes", "4,8", "--json"
    )
    assert answer.code == 0, answer.err
    found = answer.json
    assert json.loads((tmp_path / "intervals.json").read_text()) == found
    assert (found["kind"], found["items"], found["classes"]) == ("intervals", 40, 3)
    assert [row["size"] for row in found["rows"]] == [4, 8]
    assert found["rows"][0]["low"] < found["k"] < found["rows"][0]["high"]
    assert found["estimate"]["items"] == 40
    again = cli("analyse", "intervals", folder / "labels.csv", "--sizes", "4,8", "--json")
    assert again.json == found
    table = cli("analyse", "intervals", folder / "labels.csv", "--split", "test")
    assert table.code == 0
    assert "labelled items" in table.out
    assert "25" not in table.out  # there are only 20 items
    assert "--set expected_positives=" in table.err


def test_intervals_of_very_few_items(cli, tmp_path):
    few = tmp_path / "few.csv"
    few.write_text("image,cat,dog\na,1,0\nb,1,1\n")
    answer = cli("analyse", "intervals", few, "--labels", "complete", "--split", "all", "--json")
    assert answer.code == 0, answer.err
    assert [row["size"] for row in answer.json["rows"]] == [2]


def test_intervals_need_all_labels(bad, folder, tmp_path):
    seen = tmp_path / "seen.csv"
    seen.write_text("image,cat,dog\na,1,\nb,,1\n")
    assert "not all labels are known" in bad("analyse", "intervals", seen).err
    labels = folder / "labels.csv"
    assert "cannot draw 99 of 40 items" in bad("analyse", "intervals", labels, "--sizes", "99").err
    assert "write whole numbers" in bad("analyse", "intervals", labels, "--sizes", "5;6").err
    assert (
        "no items in the split 'val'" in bad("analyse", "intervals", labels, "--split", "val").err
    )


def test_surface_of_a_run(cli, run_folder, folder, tmp_path):
    run_folder = shutil.copytree(run_folder, tmp_path / "run")
    answer = cli("analyse", "surface", run_folder, "--steps", 3, "--json")
    assert answer.code == 0, answer.err
    found = answer.json
    assert json.loads((run_folder / "surface.json").read_text()) == found
    assert (found["kind"], found["steps"], len(found["loss"])) == ("surface", 3, 3)
    written = (run_folder / "surface.json").stat().st_mtime_ns
    table = cli("analyse", "surface", run_folder, "--steps", 3)
    assert "loss of the solution" in table.out
    assert (run_folder / "surface.json").stat().st_mtime_ns == written
    named = cli(
        "analyse", "surface", run_folder, folder / "labels.csv", "-x", folder / "x.npz",
        "--steps", 3, "--extent", 0.5, "--json",
    )  # fmt: skip
    assert named.json["extent"] == 0.5
    centre = found["loss"][1][1]
    assert named.json["loss"][1][1] == pytest.approx(centre)


def test_surfaces_that_cannot_be(bad, run_folder, folder, tmp_path):
    assert "not a run folder" in bad("analyse", "surface", tmp_path).err
    assert "odd number of steps" in bad("analyse", "surface", run_folder, "--steps", 4).err
    wide = bad("analyse", "surface", run_folder, folder / "labels.csv", "-x", folder / "wide.npz")
    assert "not those that" in wide.err
