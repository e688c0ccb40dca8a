"""What users get wrong: one clear sentence and exit code 2, before any work is done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from plusone.io.files import LEFTOVER


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("trian",), "No such command 'trian'. Did you mean 'train'?"),
        (("train", "--sead", "1"), "No such option: --sead"),
        (("train", "--seed", "x"), "--seed"),
        (("observe",), "Missing"),
        (("train", "-m", "grr"), "unknown method 'grr'; did you mean 'gr'? known: "),
        (("methods", "AN-LS"), "unknown method 'AN-LS'; did you mean 'an_ls'?"),
        (("methods", "zzzzzz"), "unknown method 'zzzzzz'; known: "),
        (("bench", "-m", "an,bcee"), "unknown method 'bcee'; did you mean 'bce'?"),
        (("train", "--mode", "linaer"), "mode = 'linaer': input should be 'auto', 'linear'"),
        (("train", "--epochs", "0"), "epochs = 0: input should be greater than or equal to 1"),
        (("train", "--lr", "-1"), "lr = -1.0: input should be greater than 0"),
        (("train", "-s", "foo"), "--set 'foo': write it as name=value"),
        (("train", "-s", "foo=1"), "unknown setting 'foo'"),
        (
            ("train", "-s", "options.alhpa=1"),
            "unknown method option 'alhpa'; options of gr: mu, sigma, w_start",
        ),
        (
            ("train", "-m", "em", "-s", "options.alhpa=1"),
            "unknown method option 'alhpa' (did you mean alpha?); options of em: alpha",
        ),
        (("train", "-m", "em", "-s", "options.alpha=abc"), "option alpha cannot be 'abc'"),
        (("train", "-r", "none.toml"), "none.toml: cannot be read (No such file or directory)"),
        (("train", "nowhere"), "nowhere: no such file or folder"),
        (("inspect", "nowhere"), "nowhere: no such file or folder"),
        (("bench", "nowhere", "-m", "an"), "nowhere: no such file or folder"),
        (("bench", "--seeds", "a"), "--seeds 'a': write whole numbers separated by commas"),
        (("bench", "--lr", ","), "--lr ',': write numbers separated by commas"),
        (("bench", "--lr", "0"), "lr = 0.0: input should be greater than 0"),
        (("bench", "-m", ","), "--methods ',': write names separated by commas"),
        (("bench", "--workers", "0"), "--workers"),
        (("evaluate", "nowhere"), "nowhere: is not a run folder"),
        (("predict", "nowhere", "x.npz"), "nowhere: is not a run folder"),
        (("report", "nowhere"), "nowhere: no such folder"),
        (("predict", "nowhere", "x.npz", "--out", "/dev/null"), "/dev/null: is a device, not a"),
        (("features", "digits", "--out", "/dev/zero"), "choose another --out"),
        (("observe", "digits", "--out", "/dev"), "/dev: is a folder, not a file"),
    ],
)
def test_usage(bad, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    answer = bad(*arguments)
    assert sentence in " ".join(answer.err.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_an_output_is_no_input(bad, cli, folder, run_folder, tmp_path):
    """Neither under its own name nor through a link; what a killed command left there goes."""
    x, labels = tmp_path / "x.npz", tmp_path / "labels.csv"
    shutil.copy(folder / "x.npz", x)
    shutil.copy(folder / "labels.csv", labels)
    (tmp_path / "link.npz").symlink_to(x)
    before = {path: path.read_bytes() for path in (x, labels)}
    for command in (
        ("predict", run_folder, x, "--out", x),
        ("predict", run_folder, x, "--out", tmp_path / "link.npz"),
        ("observe", labels, "--out", labels),
    ):
        assert "would be replaced; choose another --out" in bad(*command).err
    assert {path: path.read_bytes() for path in (x, labels)} == before
    leftover = tmp_path / f".tags.csv.0{LEFTOVER}"
    leftover.touch()
    assert cli("predict", run_folder, x, "--out", tmp_path / "tags.csv").code == 0
    assert not leftover.exists()


def test_words_that_are_not_in_a_list(bad, folder, run_folder):
    csv = folder / "labels.csv"
    assert "format 'cvs' is not one of auto, csv-long" in bad("train", csv, "--format", "cvs").err
    assert "labels 'x' is not one of auto, seen" in bad("train", csv, "--labels", "x").err
    assert "unknown observation scheme 'foo'" in bad("train", csv, "--observe", "foo").err
    answer = bad("evaluate", run_folder, "--split", "tset")
    assert "the split 'tset' is not one of train, val, test, all" in answer.err
    assert "--threshold" in bad("evaluate", run_folder, "--threshold", 2).err
    answer = bad("features", folder / "photos", "--out", "f.npz", "--backbone", "resnet")
    assert "unknown backbone 'resnet'; known: cnn, lite0" in answer.err


def test_data_of_no_known_form_lists_the_forms(bad, tmp_path):
    (tmp_path / "readme.txt").write_text("hello")
    err = bad("train", tmp_path / "readme.txt").err
    assert f"{tmp_path / 'readme.txt'}: the format of this file is not known" in err
    for form in ("csv-long", "csv-wide", "npz", "voc", "mulan", "coco", "a folder per class"):
        assert form in err
    assert err.count("\n") == 1
    assert f"{tmp_path}: has no images in it, only .txt" in bad("train", tmp_path).err


def test_data_and_method_that_do_not_fit(bad, folder, tmp_path):
    csv, x = folder / "labels.csv", ("-x", folder / "x.npz")
    assert "give the features with --features FILE" in bad("train", csv).err
    unknown = ("-s", "select_on=observed", "-s", "train_share=0.3")
    answer = bad("train", csv, *x, "-m", "epr", "-o", tmp_path / "r", *unknown)
    assert "--set expected_positives=1.5" in answer.err
    answer = bad("bench", csv, *x, "-m", "epr", "--seed", 0, "-o", tmp_path / "b", *unknown)
    assert "the method epr needs the expected number of positives" in answer.err
    answer = bad("train", csv, *x, "--mode", "finetune", "-o", tmp_path / "r")
    assert "only the mode linear works" in answer.err
    answer = bad("features", csv, "-o", tmp_path / "f.npz")
    assert "has no image files to extract features from" in answer.err


def test_bad_features(bad, folder, tmp_path):
    train = ("train", folder / "labels.csv", "-o", tmp_path / "r", "-x")
    answer = bad(*train, folder / "nan.npz")
    assert f"{folder / 'nan.npz'}, row 7: the features of 'item07' have a NaN" in answer.err
    assert "none.npz: no such file" in bad(*train, folder / "none.npz").err
    assert list(tmp_path.iterdir()) == []


def outputs(folder: Path, run_folder: Path, to: Path) -> list[tuple[object, ...]]:
    data = (folder / "labels.csv", "-x", folder / "x.npz")
    return [
        ("demo", "--out", to),
        ("bench", *data, "-m", "an", "--out", to),
        ("train", *data, "--out", to),
        ("observe", folder / "labels.csv", "--out", to / "seen.csv"),
        ("features", folder / "photos", "--backbone", "cnn", "--out", to / "f.npz"),
        ("predict", run_folder, folder / "x.npz", "--out", to / "tags.csv"),
        ("report", run_folder, "--out", to / "table.md"),
    ]


def test_output_below_a_file_is_refused_before_any_work(bad, folder, run_folder, tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "deeper"):
        for arguments in outputs(folder, run_folder, place):
            err = bad(*arguments).err
            assert err == (
                f"plusone: {tmp_path / 'file'}: is a file, not a folder; choose another --out\n"
            )
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_output_in_a_folder_that_is_not_ours(bad, folder, run_folder, tmp_path):
    tmp_path.chmod(0o500)
    for arguments in outputs(folder, run_folder, tmp_path / "new"):
        assert f"{tmp_path}: cannot be written to; choose another --out" in bad(*arguments).err
    tmp_path.chmod(0o700)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody can write")
def test_output_the_system_refuses(bad, folder):
    data = (folder / "labels.csv", "-x", folder / "x.npz")
    err = bad("train", *data, "--epochs", 1, "--out", "/proc/plusone").err
    assert "plusone: /proc/plusone: " in err.splitlines()[-1]


def test_a_folder_is_no_file(bad, folder, run_folder, tmp_path):
    answer = bad("predict", run_folder, folder / "x.npz", "--out", tmp_path)
    assert answer.err == (f"plusone: {tmp_path}: is a folder, not a file; choose another --out\n")
    answer = bad("observe", folder / "labels.csv", "--out", tmp_path / "x.txt")
    assert "the suffix '.txt' is not .csv, .npz or .parquet" in answer.err


def test_surprises_are_one_sentence_and_exit_code_1(cli, folder, monkeypatch):
    def surprise(*_: object, **__: object) -> None:
        raise KeyError("nobody\nexpected this")

    monkeypatch.setattr("plusone.data.source.load_source", surprise)
    answer = cli("inspect", folder / "labels.csv")
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert "KeyError" in answer.err
    assert "PLUSONE_TRACEBACK=1" in answer.err
    monkeypatch.setenv("PLUSONE_TRACEBACK", "1")
    with pytest.raises(KeyError):
        cli("inspect", folder / "labels.csv")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (OSError(28, "No space left on device", "a.npz"), 1, "a.npz: could not be written, the"),
        (PermissionError(13, "Permission denied", "a.csv"), 2, "a.csv: Permission denied"),
        (MemoryError(), 1, "there is not enough memory"),
        (RuntimeError("CUDA out of memory. Tried\nto"), 1, "there is not enough memory (CUDA out"),
    ],
)
def test_errors_of_the_system(cli, folder, monkeypatch, error, code, sentence):
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("plusone.data.source.load_source", refuse)
    answer = cli("inspect", folder / "labels.csv")
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith(f"plusone: {sentence}")


@pytest.mark.slow
def test_an_ascii_locale_changes_nothing(cli, tmp_path):
    (tmp_path / "l.csv").write_text("image,labels\na,caf\u00e9\nb,\u732b\n", encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "plusone", "inspect", str(tmp_path / "l.csv")]
    done = subprocess.run(
        command, capture_output=True, env=os.environ | ascii_only, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    found = done.stdout.decode("utf-8")
    assert found == cli("inspect", tmp_path / "l.csv").out
    assert "caf\u00e9" in found
    assert "\u732b" in found
