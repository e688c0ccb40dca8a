"""Small runs on images and features, a real server on a free port, and a client for it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.patience import HOUR, PATIENCE

from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.run import train


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """18 images of two classes, wider than high, in a folder for each class."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(18):
        name = ("red", "blue")[number % 2]
        (folder / name).mkdir(exist_ok=True)
        pixels = rng.integers(0, 120, (30, 41, 3)).astype(np.uint8)
        pixels[:, :, 0 if name == "red" else 2] += 120
        Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def image_run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is shown five crops of every image."""
    to = tmp_path_factory.mktemp("runs") / "photos"
    settings = {"backbone": "cnn", "image_size": 16, "crops": "five", "epochs": 1, "workers": 0}
    recipe = make_recipe({"method": "em", "mode": "linear"} | settings)
    train(make_task(load_source(str(photos)), recipe), recipe, to)
    return to


@pytest.fixture(scope="session")
def features() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)


@pytest.fixture(scope="session")
def feature_run(features: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on features; names of classes that need care."""
    to = tmp_path_factory.mktemp("runs") / "features"
    names = ["=a", 'b "c"', "<b>d</b>"]
    labels = (features[:, :3] > 0.3).astype(int)
    data = Dataset.from_arrays(features, labels, classes=names, complete=True)
    recipe = make_recipe({"method": "em", "epochs": 2})
    train(make_task(data, recipe), recipe, to)
    return to


class Client:
    """A program with the token."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.token, self.port = server.keys.token, server.port
        self.host = f"127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str | None
    ) -> http.client.HTTPResponse:
        """Sends a request; a header given as None is left out."""
        sent = {"Host": self.host, "Authorization": f"Bearer {self.token}"}
        sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
        to = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        to.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                to.putheader(name, value)
        if body is not None and "Content-Length" not in sent:
            to.putheader("Content-Length", str(len(body)))
        self.text = b""
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before it was read
            to.endheaders(body)
        reply = to.getresponse()
        with suppress(ConnectionResetError):
            self.text = reply.read()
        to.close()
        return reply

    def get(self, path: str, **headers: str | None) -> int:
        return self.ask("GET", path, **headers).status

    def post(self, path: str, body: bytes, kind: str) -> dict[str, Any]:
        reply = self.ask("POST", path, body, content_type=kind)
        assert reply.status == 200, (reply.status, self.text)
        found = json.loads(self.text)
        assert isinstance(found, dict)
        return found


def form(contents: dict[str, bytes], boundary: str = "xyz") -> tuple[bytes, str]:
    """A body with files, and its type."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="images"; filename="{name}"\r\n'
        f"Content-Type: image/png\r\n\r\n".encode()
        + content
        + b"\r\n"
        for name, content in contents.items()
    ]
    return b"".join(
        parts
    ) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


@contextmanager
def serving() -> Iterator[Callable[..., Client]]:
    """Serves models on free ports, each bounded in time, and stops them."""
    app = pytest.importorskip("plusone.serve.app", reason="needs the extra serve")
    from plusone.serve.model import load_model

    running = []

    def begin(folder: Path, **settings: Any) -> Client:
        made = app.make_server(load_model(folder, "cpu"), **settings)
        thread = Thread(target=made.run, args=(HOUR,), daemon=True)
        thread.start()
        running.append((made, thread))
        return Client(made)

    try:
        yield begin
    finally:
        for made, thread in running:
            made.stop()
            thread.join(timeout=PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def serve() -> Iterator[Callable[..., Client]]:
    """`serve(folder)` starts a server and gives a client that has the token."""
    with serving() as begin:
        yield begin
