"""The command `priors`."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def audit(folder, tmp_path_factory):
    """The first 12 rows of the labels, as if somebody had checked them."""
    lines = (folder / "labels.csv").read_text().splitlines()[:13]
    path = tmp_path_factory.mktemp("audit") / "checked.csv"
    path.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    return path


def test_single_positives(cli, folder):
    answer = cli("priors", folder / "labels.csv", "-x", folder / "x.npz")
    assert answer.code == 0, answer.err
    for word in ("labels per item (k)", "ant", "bee", "cat", "all labels, known here"):
        assert word in answer.out
    assert "cannot be told from seen labels" in answer.err
    assert "label 50 items drawn at random" in answer.err
    assert "expected_positives" not in answer.err  # nobody knows k yet
    assert max(len(line) for line in answer.out.splitlines()) <= 80


def test_json_with_an_audit(cli, folder, audit):
    made = ("priors", folder / "labels.csv", "-x", folder / "x.npz", "--json")
    found = cli(*made, "--audit", audit).json
    assert found["classes"] == ["ant", "bee", "cat"]
    assert found["audit"]["items"] == 12
    rows = np.array([line.split(",")[1:] for line in audit.read_text().splitlines()[1:]], dtype=int)
    assert found["audit"]["k"] == found["k"] == pytest.approx(rows.sum(1).mean())
    single = found["single"]
    assert 1 <= single["low"] <= single["k"] <= single["high"] <= 3
    assert len(single["priors"]) == len(found["true"]["priors"]) == 3
    assert found["statement"]


def test_an_audit_alone_needs_no_features(cli, folder, audit):
    answer = cli("priors", folder / "labels.csv", "--audit", audit)
    assert answer.code == 0, answer.err
    assert "audit of 12 items" in answer.out
    assert "seen labels of" not in answer.out
    assert "train with --set expected_positives=" in answer.err


def test_an_audit_of_few_groups_says_that_it_has_no_interval(cli, folder, audit, tmp_path):
    lines = (folder / "labels.csv").read_text().splitlines()
    grouped = [f"{line},{'group' if not row else row // 6}" for row, line in enumerate(lines)]
    (tmp_path / "labels.csv").write_text("\n".join(grouped) + "\n")
    answer = cli("priors", tmp_path / "labels.csv", "--audit", audit)
    assert answer.code == 0, answer.err
    assert "no interval of k: the labelled items are of 3 groups" in answer.err
    assert "label items of more groups" in answer.err
    found = cli("priors", tmp_path / "labels.csv", "--audit", audit, "--json").json["audit"]
    assert (found["low"], found["high"], found["groups"]) == (None, None, 3)
    whole = cli("analyse", "intervals", tmp_path / "labels.csv", "--split", "all")
    assert "no interval of k: the labelled items are of" in whole.err


def test_bad_audits(cli, folder, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("image,ant,bee,cat\nnobody,1,0,0\n")
    answer = cli("priors", folder / "labels.csv", "--audit", path)
    assert (answer.code, "not in the data, such as 'nobody'" in answer.err) == (2, True)
    path.write_text("image,ant,wolf\nitem00,1,0\n")
    answer = cli("priors", folder / "labels.csv", "--audit", path)
    assert (answer.code, "no class 'wolf'" in answer.err) == (2, True)


def test_training_says_that_k_is_estimated(cli, folder, tmp_path):
    answer = cli(
        "train", folder / "labels.csv", "-x", folder / "x.npz", "-m", "epr", "--epochs", 1,
        "-s", "select_on=observed", "--no-report", "-o", tmp_path / "run",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "estimated from the seen labels" in answer.err
