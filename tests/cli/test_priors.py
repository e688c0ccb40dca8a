"""The command `priors`."""

import json

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


def test_picks_among_the_labels_of_audited_items_are_tested(cli, tmp_path):
    """Of three labels per item `a` is always named, which seen labels alone cannot show."""
    rng = np.random.default_rng(0)
    truth = rng.random((80, 4)) < 0.5
    truth[:, 0] = True
    names = [f"item{n}" for n in range(80)]
    rows = [f"{name},{'a' if n % 8 else 'bcd'[n % 3]}" for n, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["image,labels", *rows]) + "\n")
    every = [f"{names[n]},{','.join(map(str, truth[n].astype(int)))}" for n in range(60)]
    (tmp_path / "all.csv").write_text("\n".join(["image,a,b,c,d", *every]) + "\n")
    x = (truth + 0.5 * rng.normal(size=truth.shape)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, ids=np.array(names))
    data = ("priors", tmp_path / "labels.csv", "-x", tmp_path / "x.npz")
    found = cli(*data, "--audit", tmp_path / "all.csv", "--json").json["single"]["salience"]
    assert found["p_value"] <= 0.05
    assert found["audited"] >= 40
    assert "audited items" in cli(*data, "--audit", tmp_path / "all.csv").err
    assert cli(*data, "--json").json["single"]["salience"]["audited"] is None


def test_bad_audits(cli, folder, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("image,ant,bee,cat\nnobody,1,0,0\n")
    answer = cli("priors", folder / "labels.csv", "--audit", path)
    assert (answer.code, "not in the data, such as 'nobody'" in answer.err) == (2, True)
    path.write_text("image,ant,wolf\nitem00,1,0\n")
    answer = cli("priors", folder / "labels.csv", "--audit", path)
    assert (answer.code, "no class 'wolf'" in answer.err) == (2, True)


def test_priors_train_predict_and_suggest_say_the_same_k(cli, tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.random((200, 4)) < 0.35
    truth[np.arange(200), rng.integers(4, size=200)] = True
    x = (truth + 0.5 * rng.normal(size=truth.shape)).astype(np.float32)
    label = (truth * rng.random(truth.shape)).argmax(axis=1)
    lines = ["image,labels", *(f"item{n},{'abcd'[c]}" for n, c in enumerate(label))]
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    np.savez(tmp_path / "x.npz", x=x, ids=np.array([f"item{n}" for n in range(200)]))
    data, run = (tmp_path / "labels.csv", "-x", tmp_path / "x.npz"), tmp_path / "run"
    single = cli("priors", *data, "--json").json["single"]
    assert cli("train", *data, "--out", run, "--no-report").code == 0
    found = cli("suggest", run, "--out", tmp_path / "s", "--json").json["calibration"]
    own = json.loads((run / "calibration.json").read_text())
    assert own["k"] == pytest.approx(single["k"], rel=0.1)  # of a model of four fifths of the items
    for name in ("k", "k_range", "salience"):
        assert found[name] == own[name]
    in_words = f"{own['k']:.3g} labels"
    assert in_words in found["sentence"]
    predicted = cli("predict", run, *data, "--out", tmp_path / "p.csv")
    assert in_words in predicted.out + predicted.err
    low, high = own["k_range"]
    assert f"{low:.3g} to {high:.3g}" in found["sentence"]


def test_training_says_that_k_is_estimated(cli, folder, tmp_path):
    answer = cli(
        "train", folder / "labels.csv", "-x", folder / "x.npz", "-m", "epr", "--epochs", 1,
        "-s", "select_on=observed", "--no-report", "-o", tmp_path / "run",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "estimated from the seen labels" in answer.err
