"""Damaged files: refused in a sentence or read, by every reader; and what was found that way."""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.patience import HOUR

from plusone.compare.loop import Journal
from plusone.compare.search import import_optuna, open_storage
from plusone.compare.spec import read_spec
from plusone.data.features import read_features
from plusone.data.formats import read
from plusone.data.formats.csv_text import read_class_list
from plusone.data.images import decode
from plusone.errors import InputError, RunError
from plusone.models.weights import read_weights
from plusone.prediction import checkpoint
from plusone.prediction.run_folder import read_metrics, read_recipe
from plusone.probabilities.calibration import read_calibration
from plusone.probabilities.thresholds import read_thresholds
from plusone.recipe import parse_settings
from plusone.report.runs import read_epochs
from plusone.reviewing.opening import read_unlabelled
from plusone.reviewing.pictures import thumbnail
from plusone.reviewing.store import Store
from plusone.suggestions.folder import read_suggestions

TOOL = Path(__file__).parents[2] / "tools" / "fuzz.py"
DEEP = "[" * 100_000


@pytest.mark.slow
def test_damaged_inputs(tmp_path):
    told = tmp_path / "fuzz.json"
    command = [sys.executable, str(TOOL), "--inputs", "400", "--seed", "6", "--json", str(told),
               "--keep", str(tmp_path / "kept")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=HOUR)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(told.read_text())
    assert 400 <= found["total"]["inputs"] <= 430
    for count in found["readers"]:
        assert count["inputs"] == count["accepted"] + count["refused"], count
        assert count["refused"], f"no damaged input of {count['reader']} was refused"
    assert sum(count["accepted"] > 0 for count in found["readers"]) >= 20


def refusal(read_it):
    """What a reader says against its input; None if it accepts it."""
    try:
        read_it()
    except InputError as error:
        return str(error)
    return None


TEXTS = st.text(max_size=200) | st.text(
    st.sampled_from("image,labels|*-10\n\"\r é{}[]<>@%'\\=."), max_size=200
)
HEADS = {
    "labels.csv": ("", "image,labels\n", "image,labels,negatives,truth,split\n", "image,a,b\n"),
    "data.xml": ("", "<labels>", '<labels><label name="a"/></labels>'),
    "data.arff": ("", "@attribute a numeric\n@data\n", "@attribute 'a b' {0,1}\n@data\n"),
    "instances_train.json": ("", '{"images": [', '{"images": [], "categories": [], '),
    "recipe.toml": ("", 'method = "em"\n', "[[stages]]\n"),
    "bench.toml": ("", '[[data]]\npath = "digits"\n', "[settings]\n"),
    "classes.txt": ("", "a\n"),
    "records.jsonl": ("", '{"epoch": 1}\n'),
}


@pytest.mark.parametrize("name", HEADS)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_text_is_read_or_refused(name, data, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / f"text-{name}"
    folder.mkdir(exist_ok=True)
    text = data.draw(st.sampled_from(HEADS[name])) + data.draw(TEXTS)
    path = folder / name
    path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    if name == "data.xml":
        (folder / "data.arff").write_text("@attribute a {0,1}\n@attribute b numeric\n@data\n1,2\n")
    if name == "data.arff":
        (folder / "data.xml").write_text('<labels><label name="a"/></labels>')
    readers = {
        "recipe.toml": lambda: read_recipe(folder),
        "bench.toml": lambda: read_spec(path, {}, {}),
        "classes.txt": lambda: read_class_list(path),
        "records.jsonl": lambda: read_epochs(folder),
    }
    said = refusal(readers.get(name, lambda: read(path)))
    assert said is None or said.strip()
    assert len(said or "") < 20_000


@given(st.lists(TEXTS, max_size=3))
@settings(max_examples=100)
def test_any_setting_is_read_or_refused(texts):
    assert refusal(lambda: parse_settings(texts)) != ""


@pytest.mark.parametrize("content", [DEEP, '"\\ud800"', "9" * 5000, "[1]", '{"from": []}'])
def test_json_that_python_cannot_bear(tmp_path, content):
    """Nesting, half characters and long numbers, in every small file that is read as JSON."""
    names = ("metrics.json", "calibration.json", "thresholds.json", "about.json", "results.json")
    for name in names:
        (tmp_path / name).write_text(content)
    (tmp_path / "records.jsonl").write_text(f"{content}\n{content}\n")
    (tmp_path / "loop.jsonl").write_text('{"about": 1}\n' + content + "\n")
    (tmp_path / "optuna.journal").write_text(content + "\n")
    for refuse in (
        lambda: read_metrics(tmp_path),
        lambda: read_calibration(tmp_path, ("a",)),
        lambda: read_thresholds(tmp_path, ("a",)),
        lambda: read_suggestions(tmp_path),
        lambda: read_epochs(tmp_path) if content != '{"from": []}' else read_metrics(tmp_path),
        lambda: Journal(tmp_path / "loop.jsonl", {"about": 1}),
    ):
        with pytest.raises(InputError):
            refuse()


def test_a_damaged_study_is_refused(tmp_path):
    pytest.importorskip("optuna")
    (tmp_path / "optuna.journal").write_text(DEEP + "\n")
    with pytest.raises(InputError, match="cannot be read; delete it"):
        open_storage(import_optuna(), tmp_path, None)


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_npz_files_that_are_odd(tmp_path):
    path = tmp_path / "labels.npz"
    x, y = np.ones((2, 3)), np.eye(2, dtype=np.int8)
    odd = np.frombuffer(b"\xff\xff\xff\x7f" * 4, dtype="<U2")  # characters that do not exist
    for arrays, why in (
        ({"y": y, "ids": odd}, "invalid characters"),
        ({"y": y, "ids": np.zeros(2, dtype="V3")}, "does not hold names"),
        ({"y": y, "ids": np.array([b"\xff", b"a"])}, "does not hold names"),
        ({"y": y, "x": np.ones(2)}, "x has shape"),
        ({"xtr": x.astype("V3"), "ytr": y, "xte": x, "yte": y}, "not numbers"),
        ({"y": np.array([{}], dtype=object)}, "pickled"),
    ):
        with pytest.raises(InputError, match=why):
            read(npz(path, **arrays))
    with pytest.raises(InputError, match="does not hold names"):
        read_features([npz(path, x=x, ids=np.zeros(2, dtype="V3"))])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("y.npy", b"no array")
    with pytest.raises(InputError, match="is not a readable npz file"):
        read(path)


def test_parquet_that_is_not_text(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    labels = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), bad)
    pyarrow.parquet.write_table(pa.table({"id": ["a"], "labels": labels}), tmp_path / "l.parquet")
    with pytest.raises(InputError, match="not UTF-8"):
        read(tmp_path / "l.parquet")
    whole = pa.table({"id": ["a"], "labels": [["x"]]})
    for meta in ('{"classes": [1]}', '{"classes": "x"}', '{"default": 7}', "[]", DEEP):
        table = whole.replace_schema_metadata({b"plusone": meta.encode()})
        pyarrow.parquet.write_table(table, tmp_path / "l.parquet")
        with pytest.raises(InputError, match=r"metadata|nested"):
            read(tmp_path / "l.parquet")


def test_weights_files_that_are_odd(tmp_path):
    for name, content in (("w.pth", b"\x80\x02c"), ("w.pt", b"("), ("w.bin", b"\x80\x04.")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="are not read"):
            read_weights(tmp_path / name)
    import torch

    checkpoint.save(tmp_path / "c.safetensors", {"a": torch.ones(2)}, {})
    content = (tmp_path / "c.safetensors").read_bytes().replace(b"{}", b"[]", 1)
    (tmp_path / "c.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="is not a readable weights file"):
        checkpoint.load(tmp_path / "c.safetensors")


def test_names_that_are_too_long_or_hold_a_zero(tmp_path):
    (tmp_path / "classes.txt").write_text("a\n")
    (tmp_path / "new.csv").write_text("image\n" + "A" * 300 + "\n")
    assert len(read_unlabelled(tmp_path / "new.csv", tmp_path / "classes.txt")) == 1
    (tmp_path / "bench.toml").write_text('[[data]]\npath = "a\\u0000b"\n')
    with pytest.raises(InputError, match="zero byte"):
        read_spec(tmp_path / "bench.toml", {}, {})


def test_sentences_stay_short(tmp_path):
    (tmp_path / "labels.csv").write_text("image,labels\n" + "a,x|" + "y" * 90_000 + "|\n" * 30)
    (tmp_path / "labels.csv.classes.txt").write_text("x\n")
    (tmp_path / "recipe.toml").write_text("\n".join(f"{'n' * 900}{i} = 1" for i in range(60)))
    for refuse in (lambda: read(tmp_path / "labels.csv"), lambda: read_recipe(tmp_path)):
        with pytest.raises(InputError) as error:
            refuse()
        assert len(str(error.value)) < 20_000


def test_a_file_of_answers_that_somebody_prepared(tmp_path):
    """Its views and triggers would run with our statements; damaged pages are said."""
    path = tmp_path / "review.sqlite"
    Store(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TRIGGER t AFTER INSERT ON decision BEGIN DELETE FROM decision; END"
        )
    with pytest.raises(InputError, match="it holds the trigger 't'"):
        Store(path)
    path.unlink()
    store = Store(path)
    store._open.execute("PRAGMA journal_mode = DELETE")
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x05" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises((InputError, RunError), match=r"malformed|disk image"):
        Store(path).since()


def test_arff_cells(tmp_path):
    """Quotes and long runs of spaces are read in one pass."""
    from plusone.data.formats.mulan import split_items

    assert split_items("'a, b', \"c\\\"d\" ,x'y, ") == ["a, b", 'c"d', "x'y", ""]
    assert split_items("'" + " " * 200_000) == ["'"]
    assert len(split_items("'," * 50_000)) == 25_001


def test_archives_with_strange_members(tmp_path):
    path, out = tmp_path / "labels.npz", io.BytesIO()
    np.lib.format.write_array(out, np.eye(2))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../y.npy", out.getvalue())
    with pytest.raises(InputError, match="has no labels in it"):
        read(path)
    assert list(tmp_path.iterdir()) == [path]  # nothing is ever unpacked


def test_a_line_of_pixels_is_no_image(tmp_path):
    """Some hundred bytes of TIFF claimed 9 x 16,776,960 pixels and took seconds."""
    Image.new("1", (70_000, 1)).save(tmp_path / "line.png")
    with pytest.raises(InputError, match="no side may have more than 65,535"):
        decode(tmp_path / "line.png", 8)
    assert thumbnail(tmp_path / "line.png", 8) is None
