"""Models on the Hugging Face Hub: a folder, and a server that speaks its protocol."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.patience import PATIENCE

from plusone import PlusOneModel
from plusone.errors import InputError
from plusone.export.publish import FILES, export_run
from plusone.inputs.loader import ArrayInputs
from plusone.prediction.load import load_run

COMMIT = "c" * 40


class Hub(BaseHTTPRequestHandler):
    """What the Hub answers when a repository is made, filled by one commit, and downloaded."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]
    asked: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        reply: dict[str, Any] = {}
        if self.path == "/api/repos/create":
            reply = {"url": f"http://{self.headers['host']}/me/birds", "private": True}
            self.asked.append(body.decode())
        elif "/preupload/" in self.path:
            paths = [file["path"] for file in json.loads(body)["files"]]
            mode = {"uploadMode": "regular", "shouldIgnore": False}
            reply = {"files": [{"path": path} | mode for path in paths]}
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.files[line["value"]["path"]] = content
            url = f"http://{self.headers['host']}/me/birds/commit/{COMMIT}"
            reply = {"commitUrl": url, "commitOid": COMMIT}
        self.reply(json.dumps(reply).encode(), {"content-type": "application/json"})

    def do_GET(self) -> None:
        if "/resolve/" not in self.path:
            listed = [(name, len(content)) for name, content in self.files.items()]
            siblings = [{"rfilename": name, "size": size} for name, size in listed]
            about: Any = {"id": "me/birds", "sha": COMMIT, "siblings": siblings}
            if "/tree/" in self.path:
                kind = {"type": "file", "oid": "0" * 40}
                about = [{"path": name, "size": size} | kind for name, size in listed]
            self.reply(json.dumps(about).encode(), {"content-type": "application/json"})
            return
        content = self.files[name := self.path.rpartition("/")[2]]
        self.asked.append(name)
        tag = {"etag": f'"{hashlib.sha256(content).hexdigest()}"', "x-repo-commit": COMMIT}
        self.reply(content, tag)

    def do_HEAD(self) -> None:
        self.do_GET()

    def reply(self, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in (headers | {"content-length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[ThreadingHTTPServer]:
    handler = type("OneHub", (Hub,), {"files": {}, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(timeout=PATIENCE)


PROGRAM = """
import json, sys
import numpy as np
from plusone import PlusOneModel
run, x = sys.argv[1], np.load(sys.argv[2])
PlusOneModel.from_pretrained(run).push_to_hub("me/birds", private=True, token="hf_x")
print(json.dumps(PlusOneModel.from_pretrained("me/birds", token="hf_x")(x)))
"""


@pytest.mark.slow
def test_push_and_download(hub, feature_run, features, tmp_path):
    pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    np.save(tmp_path / "x.npy", features[:5])
    handler = hub.RequestHandlerClass
    handler.files |= {"pytorch_model.bin": b"a pickle", "predict.py": b"a program"}
    address = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(feature_run), str(tmp_path / "x.npy")],
        env=os.environ | address | {"HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    tags = json.loads(done.stdout.splitlines()[-1])
    wanted = load_run(feature_run).probabilities(ArrayInputs(torch.from_numpy(features[:5])))
    got = [list(one["probabilities"].values()) for one in tags]
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    exported = export_run(feature_run, tmp_path / "export")
    assert set(exported.files) == handler.files.keys() - {"pytorch_model.bin", "predict.py"}
    for name in exported.files:
        assert handler.files[name] == (tmp_path / "export" / name).read_bytes()
    made, *downloaded = handler.asked
    wish = json.loads(made)
    assert wish.get("private") is True or wish["visibility"] == "private"
    assert set(downloaded) == set(exported.files)


def test_a_folder_called_on_images(image_run, photos, tmp_path):
    from plusone.prediction.items import find_items
    from plusone.prediction.tags import predict_all

    model = PlusOneModel.from_pretrained(image_run, device="cpu")
    model.save_pretrained(tmp_path / "saved")
    again = PlusOneModel.from_pretrained(tmp_path / "saved", device="cpu")
    files = sorted((photos / "red").iterdir())[:3]
    predictor = load_run(image_run)
    parts = predict_all(predictor, find_items(predictor, [*map(str, files)]))
    wanted = np.concatenate([part.probabilities for part in parts])
    for one in (model, again):
        tags = one([str(files[0]), files[1].read_bytes(), Image.open(files[2])])
        assert [list(tag["probabilities"]) for tag in tags] == [["blue", "red"]] * 3
        got = [list(tag["probabilities"].values()) for tag in tags]
        np.testing.assert_allclose(got, wanted, atol=2e-6)
    assert again(files[1])["labels"] == tags[1]["labels"]
    assert model.classes == ("blue", "red")
    every = PlusOneModel(image_run, threshold=0.0, device="cpu")(files[0])
    assert set(every["labels"]) == {"blue", "red"}


def test_saving_replaces_an_export_and_nothing_else(feature_run, tmp_path):
    model = PlusOneModel.from_pretrained(feature_run)
    export = export_run(feature_run, tmp_path / "a").out
    (export / "model.onnx").write_bytes(b"of the older model")
    model.save_pretrained(export)
    assert {path.name for path in export.iterdir()} == set(FILES) - {"model.onnx", "predict.py"}
    saved = PlusOneModel.from_pretrained(export)
    with pytest.raises(InputError, match="folder of this model"):
        saved.save_pretrained(export)
    with pytest.raises(InputError, match="not empty"):
        model.save_pretrained(feature_run)
    assert saved(np.zeros(6)) == model([[0.0] * 6])[0]


@pytest.mark.parametrize(
    ("items", "why"),
    [
        (np.zeros((2, 5)), "list of 6 numbers"),
        ([[0.0] * 5 + [float("nan")]], "finite"),
        ([[0.0], [0.0, 1.0]], "numbers"),
        (["a.jpg"], "numbers"),
    ],
)
def test_vectors_that_do_not_fit(feature_run, items, why):
    with pytest.raises(InputError, match=why):
        PlusOneModel(feature_run)(items)


def test_images_that_cannot_be_read(image_run, tmp_path):
    model = PlusOneModel(image_run)
    with pytest.raises(InputError, match=r"item 1: must be a path.* int"):
        model([Image.new("RGB", (4, 4)), 3])
    with pytest.raises(InputError, match="item 0"):
        model(tmp_path / "none.jpg")
