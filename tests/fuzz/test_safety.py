"""What a stranger's file cannot do: run code, fill the memory, reach outside its folder."""

from __future__ import annotations

import ast
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.patience import HOUR

import plusone
from plusone.data.formats import read
from plusone.errors import InputError
from plusone.models.weights import read_weights
from plusone.prediction import checkpoint

SOURCE = Path(plusone.__file__).parent

FORBIDDEN = re.compile(
    r"^(pickle|cPickle|dill|cloudpickle|joblib|shelve|marshal|yaml|tarfile|telnetlib|ftplib)(\.|$)"
    r"|^xml\.(etree|dom|sax)|^(eval|exec|compile|__import__)$"
    r"|^os\.(system|popen|exec\w*|spawn\w*)$|^subprocess(\.|$)"
    r"|\.(extractall|extract|load_module|exec_module|loads_pickle)$|^(torch\.hub|pandas\.read_pickle|pd\.\w+)"
)
# Where a forbidden word is right, and why.
ALLOWED: dict[tuple[str, str], str] = {
    ("data/_tar.py", "tarfile"): "it reads headers; nothing is extracted",
    ("data/_tar.py", "tarfile.open"): "it reads headers; nothing is extracted",
    ("export/xmp.py", "xml.sax.saxutils.escape"): "it replaces characters and parses nothing",
    ("export/xmp.py", "xml.sax.saxutils.unescape"): "it replaces characters and parses nothing",
    (
        "integrations/label_studio/backend.py",
        "subprocess",
    ): "it trains in a process of its own, by this Python and on paths of the user's",
    ("integrations/label_studio/backend.py", "subprocess.Popen"): "the same",
    ("integrations/mlflow.py", "pd.DataFrame"): "a type",
    ("methods/_plugins.py", "spec.loader.exec_module"): "a plug-in, which the user names",
} | {
    (
        "parallel/worker_pool.py",
        word,
    ): "what a process and its own workers send each other by a pipe"
    for word in ("pickle", "pickle.dumps", "pickle.loads")
}
# Calls that must name an argument.
NEEDED = {
    "np.load": ("allow_pickle", False),
    "torch.load": ("weights_only", True),
}
# Files that read JSON by themselves: each reads only what this very process made.
OWN_JSON = {
    "io/readers.py",  # the reader itself
    "report/surfaces.py",
    "compare/results_files.py",
    "export/standalone.py",  # runs without plusone, on the user's own exported folder
    "parallel/processes.py",  # what the processes of one run tell each other
    "training/run.py",
}
# Files that open images by themselves.
OWN_IMAGES = {
    "data/images.py",  # the opener itself
    "export/standalone.py",  # runs without plusone, on the user's own images
    "report/page.py",  # the figures of this very process
}


def name_of(node: ast.expr) -> str:
    """`a.b.c` of an expression, or nothing."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


def constant(call: ast.Call, name: str) -> object:
    found = next((word.value for word in call.keywords if word.arg == name), None)
    return found.value if isinstance(found, ast.Constant) else None


def trees():
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_nothing_in_the_source_runs_what_it_reads():
    seen, faults = 0, []
    for name, tree in trees():
        for node in ast.walk(tree):
            words: list[str] = []
            if isinstance(node, ast.Import):
                words = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                words = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Call):
                seen += 1
                words = [called := name_of(node.func)]
                needed = NEEDED.get(called)
                if needed and constant(node, needed[0]) is not needed[1]:
                    faults.append(f"{name}:{node.lineno}: {called} without {needed[0]}")
                if called == "Image.open" and name not in OWN_IMAGES:
                    faults.append(f"{name}:{node.lineno}: {called}; take data.images.open_image")
                if called in ("json.loads", "json.load") and name not in OWN_JSON:
                    faults.append(f"{name}:{node.lineno}: {called}; take plusone.io.readers")
            faults += [
                f"{name}:{node.lineno}: {word}"
                for word in words
                if FORBIDDEN.search(word) and (name, word) not in ALLOWED
            ]
    assert seen > 1000
    assert not faults, "\n".join(faults)


class Payload:
    """Unpickled, it leaves a file behind."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


def test_pickles_are_not_run(tmp_path):
    marker = tmp_path / "marker"
    evil = Payload(marker)
    pickle.loads(pickle.dumps(evil)).close()
    assert marker.exists(), "the payload must be able to do harm"
    marker.unlink()
    np.savez(tmp_path / "y.npz", y=np.array([evil], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "s.npz", plusone=np.array([("a", evil)], dtype=[("n", "U1"), ("o", "O")]))
    torch.save({"w": evil}, tmp_path / "w.pth")
    torch.save({"w": evil}, tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    for name in ("w.bin", "w.safetensors"):
        (tmp_path / name).write_bytes(pickle.dumps(evil))
    for reader, names in (
        (read, ("y.npz", "s.npz")),
        (read_weights, ("w.pth", "w.pt", "w.bin", "w.safetensors")),
        (checkpoint.load, ("w.safetensors", "w.pth")),
    ):
        for name in names:
            with pytest.raises(InputError):
                reader(tmp_path / name)
    assert not marker.exists()


@pytest.mark.slow
def test_bombs_are_refused_in_little_memory(tmp_path):
    pytest.importorskip("pyarrow")
    script = Path(__file__).with_name("bombs.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=HOUR
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert len(said) >= 38
    wrong = {name: text for name, text in said.items() if not text.startswith("InputError: ")}
    assert not wrong
    for name, words in {
        "npz that unpacks to 3 GB": "more than 100 times the file",
        "npz whose array claims a petabyte": "claims",
        "csv with one long id": "one has 1000 characters",
        "csv with stars for 400 million labels": r"'\*' in 20,000 rows stands for more",
        "arrow with images that unpacks": "it is compressed",
        "parquet that repeats one long id": "becomes more than",
        "parquet that repeats a text of 10 MB": "becomes more than",
        "parquet with a list of 4 GB": "becomes more than",
        "parquet of rows without values": "becomes more than",
        "arrow of rows without values": "has no column of images",
        "sparse arff": "30,000 attributes need",
        "xml of entities": "document type",
        "metrics.json of 8 GB": "more than the",
        "run of a model that is not in it": "far larger model",
        "run whose inputs are enormous": "larger than",
        "run with the labels of others": "200,000 items",
        "run of 4 billion labels": "far larger model",
        "csv of one id": "occurs twice",
        "pax header of digits": "digits in a row",
        "npz with (n, 0) values": "without a byte",
        "VOC lists of one line": "199998 more",
    }.items():
        assert re.search(words, said[name]), (name, said[name])


@pytest.mark.parametrize("name", ["../out.png", "/etc/out.png", "a/../../out.png", "C:/out.png"])
def test_ids_stay_in_their_folder(tmp_path, name):
    (tmp_path / "labels.csv").write_text(f"image,labels\n{name},x\n")
    (tmp_path / "wide.csv").write_text(f"image,x\n{name},1\n")
    np.savez(tmp_path / "labels.npz", y=np.eye(1), ids=np.array([name]))
    coco = {
        "images": [{"id": 1, "file_name": name}],
        "categories": [{"id": 1, "name": "x"}],
        "annotations": [{"image_id": 1, "category_id": 1}],
    }
    (tmp_path / "instances_train.json").write_text(json.dumps(coco))
    names = ["labels.csv", "wide.csv", "labels.npz", "instances_train.json"]
    try:
        import pyarrow.parquet

        table = pyarrow.table({"id": [name], "labels": [["x"]]})
        pyarrow.parquet.write_table(table, tmp_path / "labels.parquet")
        names.append("labels.parquet")
    except ImportError:
        pass
    for file in names:
        with pytest.raises(InputError, match="leaves its folder"):
            read(tmp_path / file)
