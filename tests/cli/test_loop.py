import csv
import json

import pytest
from PIL import Image


def some_of_ucmerced(shared, folder, train, test):
    """The first items of both splits, beside a link to the images."""
    source = shared / "data" / "ucmerced"
    with (source / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    chosen = [row for row in rows if row["split"] == "train"][:: 1680 // train]
    chosen += [row for row in rows if row["split"] == "test"][:: 420 // test]
    for name in {row["image"].split("/")[0] for row in chosen}:
        (folder / name).symlink_to(source / name)
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(chosen)
    return folder / "labels.csv"


@pytest.mark.slow
def test_one_command_on_ucmerced(cli, shared, tmp_path):
    labels = some_of_ucmerced(shared, tmp_path, 100, 40)
    ask = ("--questions", "90", "--orders", "balanced", "--seed", "0", "--folds", "3")
    fast = ("--method", "gr", "--set", "epochs=12", "--set", "crops=one")
    answer = cli("loop", str(labels), *ask, *fast, "--out", str(tmp_path / "loop"))
    assert answer.code == 0, answer.err
    assert "random questions" in answer.out
    result = json.loads((tmp_path / "loop" / "loop.json").read_text())
    chosen, random = result["rows"]
    assert (chosen["questions"], random["questions"]) == (90, 90)
    assert chosen["yes"] > 1.25 * random["yes"]
    assert chosen["test_map"] > result["before"]
    page = (tmp_path / "loop" / "report.html").read_text()
    assert "What a reviewer" in page
    again = cli("loop", str(labels), *ask, *fast, "--out", str(tmp_path / "loop"), "--json")
    assert json.loads(again.out)["rows"] == result["rows"]


def test_data_without_all_labels_is_refused(cli, tmp_path):
    for name in ("x", "y"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name / "1.png")
    answer = cli("loop", str(tmp_path / "photos"), "-o", str(tmp_path / "o"))
    assert answer.code == 2
    assert "all labels are needed" in answer.err
    assert not (tmp_path / "o").exists()  # no features were extracted first
