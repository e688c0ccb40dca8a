"""`predict --precision` and `--recall`, from seen labels and an audit to predicted labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

NAMES = ("ant", "bee", "cat", "dog")
TRAINED, NEW = 500, 600


def truth_and_features() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(TRAINED + NEW, 8)).astype("float32")
    truth = x[:, :4] + 0.25 * rng.normal(size=(len(x), 4)) > 0.4
    truth[~truth.any(axis=1), 0] = True
    return truth, x


@pytest.fixture(scope="module")
def made(cli, tmp_path_factory) -> Path:
    """A run on items with one seen label each, an audit of some of them, and new items."""
    folder = tmp_path_factory.mktemp("guarantees")
    (truth, x), rng = truth_and_features(), np.random.default_rng(1)
    ids = np.array([f"i{row:04d}" for row in range(len(x))])
    seen = (truth * rng.random(truth.shape)).argmax(axis=1)
    lines = [f"{ids[row]},{NAMES[seen[row]]}" for row in range(TRAINED)]
    (folder / "seen.csv").write_text("\n".join(["image,labels", *lines, ""]))
    for name, rows in (("audit", rng.permutation(TRAINED)[:200]), ("new", range(TRAINED, len(x)))):
        lines = [",".join([ids[row], *map(str, truth[row].astype(int))]) for row in rows]
        (folder / f"{name}.csv").write_text("\n".join([f"image,{','.join(NAMES)}", *lines, ""]))
    np.savez(folder / "x.npz", x=x[:TRAINED], ids=ids[:TRAINED])
    np.savez(folder / "new.npz", x=x[TRAINED:], ids=ids[TRAINED:])
    answer = cli(
        "train", folder / "seen.csv", "-x", folder / "x.npz", "--out", folder / "run", "--no-report"
    )
    assert answer.code == 0, answer.err
    return folder


def predicted(answer) -> np.ndarray:
    assert answer.code == 0, answer.err
    return np.array([[name in one["labels"] for name in NAMES] for one in answer.json["items"]])


def test_a_precision_and_a_recall_are_reached_on_new_items(cli, made):
    truth = truth_and_features()[0][TRAINED:]
    arguments = ("predict", made / "run", made / "new.npz", "--json")
    answer = cli(*arguments, "--precision", 0.9, "--audit", made / "audit.csv")
    assert truth[predicted(answer)].mean() >= 0.9
    assert answer.json["guarantee"]["confidence"] == 0.9
    assert answer.json["from"] == "precision"
    assert "90 % confidence" in answer.err
    answer = cli(*arguments, "--recall", 0.9)
    assert predicted(answer)[truth].mean() >= 0.9
    answer = cli(*arguments, "--recall", 0.8, "--per-class")
    chosen = predicted(answer)
    recalls = [chosen[truth[:, label], label].mean() for label in range(4)]
    assert np.mean(recalls) >= 0.8
    assert min(recalls) >= 0.75  # each with 90 % confidence: one of four may fall short
    assert len(set(answer.json["thresholds"].values())) == 4


def test_raw_scores_get_the_same_labels(cli, made):
    arguments = ("predict", made / "run", made / "new.npz", "--json", "--recall", 0.9)
    assert (predicted(cli(*arguments)) == predicted(cli(*arguments, "--raw"))).all()


def test_classes_that_the_audit_says_too_little_about_are_never_predicted(cli, made):
    few = made / "few.csv"
    few.write_text("\n".join((made / "audit.csv").read_text().splitlines()[:121]) + "\n")
    arguments = ("predict", made / "run", made / "new.npz", "--json", "--audit", few)
    answer = cli(*arguments, "--precision", 0.7, "--per-class")
    without = answer.json["guarantee"]["without"]
    chosen = predicted(answer)
    for label, name in enumerate(NAMES):
        assert chosen[:, label].any() == (name not in without)


def test_what_cannot_be_guaranteed_is_refused_with_what_would_help(bad, made):
    arguments = ("predict", made / "run", made / "new.npz")
    assert "--audit FILE" in bad(*arguments, "--precision", 0.9).err
    few = made / "ten.csv"
    few.write_text("\n".join((made / "audit.csv").read_text().splitlines()[:11]) + "\n")
    assert "10 audited items" in bad(*arguments, "--precision", 0.8, "--audit", few).err
    assert "held out" in bad(*arguments, "--precision", 0.9, "--audit", made / "new.csv").err
    assert "cannot be guaranteed" in bad(*arguments, "--recall", 0.999).err
    assert "exclude" in bad(*arguments, "--recall", 0.9, "--threshold", 0.5).err
    assert "exclude" in bad(*arguments, "--recall", 0.9, "--precision", 0.5).err
    assert "--per-class" in bad(*arguments, "--per-class").err
    (made / "run" / "memory.safetensors").rename(made / "run" / "hidden")
    assert "held-out" in bad(*arguments, "--recall", 0.9).err
    (made / "run" / "hidden").rename(made / "run" / "memory.safetensors")
