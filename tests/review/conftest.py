"""A small review on generated images, a real server on a free port, and a client for it."""

from __future__ import annotations

import http.client
import json
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from tests.patience import HOUR, PATIENCE

from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.reviewing.desk import Desk
from plusone.suggestions import Suggestions, write_suggestions

CLASSES = ("cat", "dog", "fox", "owl")


def make_suggestions(root: Path | None, items: int = 6) -> Suggestions:
    """Item i is seen with class i % 4; the two classes after it are suggested."""
    ids = np.array([f"photos/{row}.png" for row in range(items)])
    labels = LabelMatrix.from_lists([[row % 4] for row in range(items)], 4)
    table = LabelTable(ids, CLASSES, labels, root=root)
    row = np.repeat(np.arange(items), 2)
    label = (row + np.tile([1, 2], items)) % 4
    p = np.tile([0.8, 0.4], items) + 0.01 * row
    return Suggestions(
        table,
        row,
        label.astype(np.int32),
        p.astype(np.float32),
        p.astype(np.float32),
        {"method": "gr"},
    )


def draw_images(found: Suggestions, root: Path) -> None:
    rng = np.random.default_rng(0)
    for name in found.table.ids.tolist():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def suggestions(tmp_path: Path) -> Path:
    """A folder with twelve suggestions about six images."""
    found = make_suggestions(tmp_path / "images")
    draw_images(found, tmp_path / "images")
    write_suggestions(found, tmp_path / "s")
    return tmp_path / "s"


class Client:
    """A browser's manners without a browser: cookie, origin, JSON."""

    def __init__(self, url: str) -> None:
        self.url = urlsplit(url)
        assert self.url.hostname == "127.0.0.1"
        self.port = int(self.url.port or 0)
        self.host = f"127.0.0.1:{self.port}"
        self.session = secrets.token_hex(16)
        self.base = ""
        reply = self.ask("GET", f"/?{self.url.query}", cookie=None)
        self.set_cookie = reply.getheader("set-cookie") or ""
        self.cookie = self.set_cookie.partition(";")[0]
        found = re.search(rb'content="0;url=(/[^/"]+)/"', self.text)
        assert found is not None
        self.base = found[1].decode()

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str | None
    ) -> http.client.HTTPResponse:
        """Sends a request below the secret path; a header given as None is left out."""
        path = path if path.startswith("/?") else self.base + path
        sent = {"Host": self.host, "Cookie": getattr(self, "cookie", None)}
        if method == "POST":
            sent |= {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
        to = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        to.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                to.putheader(name, value)
        if body is not None and "Content-Length" not in sent:
            to.putheader("Content-Length", str(len(body)))
        to.endheaders(body)
        reply = to.getresponse()
        self.text = b""
        # A server that refuses a request without reading its body may reset the connection
        # before the client has read the answer's text: the status line has then arrived.
        with suppress(ConnectionResetError):
            self.text = reply.read()
        to.close()
        return reply

    def get(self, path: str, **headers: str | None) -> int:
        return self.ask("GET", path, **headers).status

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        reply = self.ask("POST", path, json.dumps({"session": self.session} | body).encode())
        assert reply.status == 200, (reply.status, self.text)
        found = json.loads(self.text)
        assert isinstance(found, dict)
        return found

    def answer(self, row: int, label: int, action: str, step: str | None = None) -> dict[str, Any]:
        answers = [{"row": row, "label": label, "action": action}]
        return self.post("/api/answer", step=step or secrets.token_hex(16), answers=answers)


@contextmanager
def serving() -> Iterator[Callable[[Desk], Client]]:
    """Serves reviews on free ports, each bounded in time, and stops them."""
    server = pytest.importorskip(
        "plusone.reviewing.review_page", reason="needs fastapi and uvicorn"
    )
    running = []

    def begin(desk: Desk) -> Client:
        made = server.make_server(desk, title="<b>test</b>")
        thread = Thread(target=made.run, args=(HOUR,), daemon=True)
        thread.start()
        running.append((made, thread))
        return Client(made.url)

    yield begin
    for made, thread in running:
        made.stop()
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive()


@pytest.fixture
def serve() -> Iterator[Callable[[Desk], Client]]:
    """`serve(desk)` starts a server and gives a client that has the key."""
    with serving() as begin:
        yield begin
