"""The service over real sockets: it says what predict says, and refuses the rest in a sentence."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from struct import pack
from threading import Event

import numpy as np
import pytest
from PIL import Image
from tests.patience import PATIENCE

from plusone.cli.app import main
from plusone.data.images import pixels_of
from plusone.errors import InputError
from plusone.export import export_run
from plusone.serve.model import ServedModel, load_model
from plusone.web.guard import Keys, RefusedError, Rules, inner_path

from .conftest import form, serving

JSON = "application/json"
PNG = "image/png"


def predicted(*arguments):
    """What `plusone predict --json` prints."""
    out = io.StringIO()
    words = ["predict", *map(str, arguments), "--json", "--device", "cpu"]
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
        pytest.raises(SystemExit) as left,
    ):
        main(words)
    assert left.value.code == 0
    return json.loads(out.getvalue())


def same(ours, theirs, within):
    """Whether two replies agree; probabilities are summed in other orders, and ONNX differs."""
    for one, other in zip(ours["items"], theirs["items"], strict=True):
        assert one["id"] == other["id"]
        assert list(one["probabilities"]) == list(other["probabilities"])
        distances = [
            abs(p - q)
            for p, q in zip(
                one["probabilities"].values(), other["probabilities"].values(), strict=True
            )
        ]
        assert max(distances) <= within
        assert one["labels"] == other["labels"]
    rest = [{k: v for k, v in reply.items() if k != "items"} for reply in (ours, theirs)]
    assert rest[0] == rest[1]


@pytest.fixture(scope="module")
def images(image_run):
    with serving() as begin:
        yield begin(image_run, max_body=300_000)


@pytest.fixture(scope="module")
def vectors(feature_run):
    with serving() as begin:
        yield begin(feature_run)


def test_images_get_what_predict_gives(images, image_run, photos, tmp_path):
    folder = tmp_path / "some"
    shutil.copytree(photos / "red", folder)
    (folder / "x-broken.png").write_bytes(b"no image")
    turned = Image.Exif()
    turned[0x0112] = 6
    with Image.open(folder / "0.png") as image:
        image.save(folder / "0-turned.jpg", exif=turned)
    contents = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    expected = predicted(image_run, folder)
    assert len(expected["skipped"]) == 1
    body, kind = form(contents)
    same(images.post("/predict/batch", body, kind), expected, 2e-6)
    for item in expected["items"][:3]:
        alone = images.post("/predict", contents[item["id"]], PNG)
        assert alone["labels"] == item["labels"]
        for name, value in alone["probabilities"].items():  # a batch is summed in another order
            assert abs(value - item["probabilities"][name]) <= 2e-6


def test_features_get_what_predict_gives(vectors, feature_run, features, tmp_path):
    np.savez(tmp_path / "x.npz", x=features[:9], ids=np.array([str(n) for n in range(9)]))
    expected = predicted(feature_run, tmp_path / "x.npz")
    body = json.dumps({"features": features[:9].tolist()}).encode()
    same(vectors.post("/predict/batch", body, JSON), expected, 2e-6)
    alone = json.dumps({"features": features[0].tolist()}).encode()
    assert vectors.post("/predict", alone, JSON)["labels"] == expected["items"][0]["labels"]


@pytest.mark.slow
def test_an_exported_folder_is_computed_by_onnx(serve, image_run, photos, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    export_run(image_run, tmp_path / "model", onnx=True)
    client = serve(tmp_path / "model")
    body, kind = form({path.name: path.read_bytes() for path in sorted(photos.glob("red/*"))})
    same(client.post("/predict/batch", body, kind), predicted(image_run, photos / "red"), 1e-4)
    client.get("/model")
    assert json.loads(client.text)["runtime"] == "onnx"
    thresholds = json.loads((tmp_path / "model" / "thresholds.json").read_text())
    thresholds["thresholds"]["red"] = 0.0  # the file may be edited
    (tmp_path / "model" / "thresholds.json").write_text(json.dumps(thresholds))
    changed = serve(tmp_path / "model").post("/predict", next(photos.glob("*/*")).read_bytes(), PNG)
    assert "red" in changed["labels"]
    for damaged in (b"", b"no model", (tmp_path / "model" / "model.onnx").read_bytes()[:5000]):
        (tmp_path / "model" / "model.onnx").write_bytes(damaged)
        with pytest.raises(InputError, match="is not what plusone export writes"):
            load_model(tmp_path / "model", "cpu")


def claimed(width, height):
    """A PNG of a few bytes that claims to be large."""

    def chunk(kind, content):
        return pack(">I", len(content)) + kind + content + pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(100_000)))


@pytest.mark.parametrize(
    ("path", "kind", "body", "status", "words"),
    [
        ("/predict", PNG, b"", 422, "the file is empty"),
        ("/predict", PNG, b"no image", 422, "it is of no known kind"),
        ("/predict", PNG, b"<svg xmlns='http://www.w3.org/2000/svg'/>", 422, "no known kind"),
        ("/predict", PNG, b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 422, "no known"),
        ("/predict", PNG, claimed(60_000, 60_000), 422, "pixels"),
        ("/predict", PNG, claimed(9_000, 9_000), 422, "64,000,000 allowed"),
        ("/predict", PNG, claimed(100, 100)[:60], 422, "cannot be read as an image"),
        ("/predict", PNG, bytes(400_000), 413, "must not be longer than 300000 bytes"),
        ("/predict", JSON, b"{}", 415, "the body must be an image"),
        ("/predict", None, b"x", 415, "the body must be an image"),
        ("/predict", "application/x-www-form-urlencoded", b"x", 415, "Content-Type: image/jpeg"),
        ("/predict/batch", PNG, b"x", 415, "multipart/form-data"),
        ("/predict/batch", "multipart/form-data", b"x", 400, "not a form"),
        ("/predict/batch", "multipart/form-data; boundary=xyz", b"x", 400, "not a form"),
        ("/predict/batch", "multipart/form-data; boundary=" + "x" * 500, b"x", 400, "not a form"),
        ("/predict/batch", *form({})[::-1], 422, "no image files"),
        ("/predict/batch", *form({str(n): b"x" for n in range(65)})[::-1], 413, "at most 64"),
        ("/predict/batch", *form({"a": b"x", "b": b""})[::-1], 422, "none of the 2 images"),
        ("/predict/batch", form({})[1], form({"a": b"x", "b": b"x" * 50})[0][:-40], 400, "its end"),
        ("/nothing", PNG, b"x", 404, "no such address"),
        ("/model", PNG, b"x", 405, "another method"),
    ],
)  # fmt: skip
def test_what_is_no_image_gets_a_sentence(images, path, kind, body, status, words):
    reply = images.ask("POST", path, body, content_type=kind)
    assert reply.status == status
    if images.text:  # a body that is refused unread may reset the connection before
        (sentence,) = json.loads(images.text).values()
        assert words in sentence
        assert "\n" not in sentence
        assert len(sentence) < 250


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b'{"features": ' + b"[" * 900 + b"]" * 900 + b"}", 422),
        (b"\xff\xfe", 400),
        (b'{"features": ' + b"9" * 5000 + b"}", 400),
        (b"[1]", 422),
        (b'{"features": [1, 2, 3, 4, 5, 6], "more": 1}', 422),
        (b'{"features": [1, 2, 3, 4, 5]}', 422),
        (b'{"features": [1, 2, 3, 4, 5, "6"]}', 422),
        (b'{"features": [1, 2, 3, 4, 5, null]}', 422),
        (b'{"features": [1, 2, 3, 4, 5, true]}', 200),  # JSON's true among numbers counts as 1
        (b'{"features": [1, 2, 3, 4, 5, [6]]}', 422),
        (b'{"features": [1, 2, 3, 4, 5, NaN]}', 422),
        (b'{"features": [1, 2, 3, 4, 5, 1e99]}', 422),
        (b'{"features": [1, 2, 3, 4, 5, 99999999999999999999999]}', 422),
        (b'{"features": {"0": 1}}', 422),
        (b'{"features": "123456"}', 422),
        (b'{"features": [true, true, true, true, true, true]}', 422),
        (b'{"features": [1, 2, 3, 4, 5, 6]}', 200),
    ],
)
def test_what_is_no_vector_gets_a_sentence(vectors, sent, status):
    assert vectors.ask("POST", "/predict", sent, content_type=JSON).status == status
    batch = sent.replace(b": [", b": [[", 1).replace(b"]", b"]]", 1) if b": [" in sent else sent
    assert vectors.ask("POST", "/predict/batch", batch, content_type=JSON).status == status
    if status != 200:
        assert len(json.loads(vectors.text)["error"]) < 120


def test_batches_of_vectors_are_bounded(vectors):
    for many, status in ((0, 422), (4097, 413)):
        body = json.dumps({"features": [[0] * 6] * many}).encode()
        assert vectors.ask("POST", "/predict/batch", body, content_type=JSON).status == status


def test_long_texts_among_vectors_take_no_memory(vectors):
    """NumPy would make an array of them, each as long as the longest."""
    texts = json.dumps(["x" * 20_000] + [""] * 600)
    tracemalloc.start()
    for path, features in (("/predict", texts), ("/predict/batch", f"[{texts}, {texts}]")):
        body = f'{{"features": {features}}}'.encode()
        assert vectors.ask("POST", path, body, content_type=JSON).status == 422
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6


def test_large_images_wait_for_each_other_and_small_ones_do_not(
    serve, image_run, photos, monkeypatch
):
    monkeypatch.setattr("plusone.serve.app.LARGE", 1000)
    gate, working, most = Event(), [], []
    decode = ServedModel.decoded

    def decoded(model, content):
        if pixels_of(content) > 1000:
            working.append(1)
            most.append(len(working))
            assert gate.wait(PATIENCE)
            working.pop()
        return decode(model, content)

    monkeypatch.setattr(ServedModel, "decoded", decoded)
    client = serve(image_run)
    large, small = next(photos.glob("red/*")).read_bytes(), io.BytesIO()
    Image.new("RGB", (10, 10)).save(small, "PNG")

    def ask(content):
        return type(client)(client.server).post("/predict", content, "image/png")

    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(ask, large) for _ in range(5)]
        try:
            while not working:
                time.sleep(0.01)
            assert ask(small.getvalue())["probabilities"]
            assert not any(one.done() for one in waiting)
        finally:
            gate.set()
        assert all(one.result()["probabilities"] for one in waiting)
    assert max(most) == 1


def test_too_many_requests_are_told_to_try_later(serve, feature_run):
    client = serve(feature_run, places=2)
    body = b'{"features": [1, 2, 3, 4, 5, 6]}'

    def ask(_):
        own = type(client)(client.server)
        reply = own.ask("POST", "/predict", body, content_type=JSON)
        return reply.status, reply.getheader("retry-after"), own.text

    model = client.server._at_end.__self__.model  # of the service
    with ThreadPoolExecutor(8) as pool:
        with model._lock:  # the model is busy
            waiting = [pool.submit(ask, n) for n in range(8)]
            end = time.monotonic() + PATIENCE
            while sum(one.done() for one in waiting) < 6:
                assert time.monotonic() < end
                time.sleep(0.01)
            refused = [one.result() for one in waiting if one.done()]
        assert [one.result()[0] for one in waiting].count(200) == 2
    assert [status for status, _, _ in refused] == [503] * 6
    assert {after for _, after, _ in refused} == {"1"}
    assert b"2 requests are in progress; try again" in refused[0][2]
    assert ask(0)[0] == 200
    client.get("/metrics")
    assert b'plusone_requests_total{path="/predict",status="503"} 6\n' in client.text


def test_metrics_are_in_the_format_of_prometheus(vectors):
    vectors.post("/predict", b'{"features": [1, 2, 3, 4, 5, 6]}', JSON)
    vectors.get("/a'made-up\"path")
    assert vectors.get("/metrics") == 200
    lines = vectors.text.decode().splitlines()
    series = r'[a-z_]+(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\})? [0-9.e+-]+'
    for line in lines:
        assert re.fullmatch(series, line) or re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line), line
    assert not [line for line in lines if "made-up" in line]
    count = next(line for line in lines if 'seconds_count{path="/predict"}' in line).split()[-1]
    last = next(line for line in lines if 'path="/predict",le="+Inf"' in line).split()[-1]
    assert int(count) == int(last) >= 1


def test_health_alone_needs_no_token(vectors):
    assert vectors.get("/health", authorization=None) == 200
    assert json.loads(vectors.text) == {"status": "ok"}
    for path in ("/health", "/"):
        assert vectors.ask("POST", path, b"", authorization=None).status == 401


def test_every_endpoint_is_behind_the_guard(vectors):
    """Those of the app itself, so that a new one is not forgotten."""
    vectors.get("/openapi.json")
    paths = [*json.loads(vectors.text)["paths"], "/", "/openapi.json", "/static/page.js", "/enter"]
    for path in paths:
        method = "POST" if "predict" in path else "GET"
        body = b'{"features": [1, 2, 3, 4, 5, 6]}' if method == "POST" else None

        def status(path=path, method=method, body=body, **headers):
            return vectors.ask(method, path, body, content_type=JSON, **headers).status

        assert status(host="evil.example") == 421
        assert status(host="[::1]:1") == 421
        assert status(host=None) in (400, 421)
        if path == "/health":
            continue
        for wrong in (None, "", "Bearer", "Bearer x", "Basic " + vectors.token, vectors.token,
                      f"Bearer {vectors.token}x", f"Bearer  {vectors.token}"):  # fmt: skip
            assert status(authorization=wrong) == 401, (path, wrong)
            assert b"Authorization: Bearer TOKEN" in vectors.text
        if path != "/":
            query = f"{path}?token={vectors.token}"
            assert status(path=query, authorization=None) == 401
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        assert vectors.ask(method, "/predict").status == 405


def test_the_page_needs_its_own_cookie_and_origin(vectors):
    keys = vectors.server.keys
    reply = vectors.ask("GET", f"/?token={keys.token}", authorization=None)
    cookie = (reply.getheader("set-cookie") or "").partition(";")[0]
    assert keys.token not in vectors.text.decode() + cookie
    own = {"authorization": None, "cookie": cookie}
    assert vectors.get(keys.path, **own) == 200
    page = vectors.text.decode()
    assert "&lt;b&gt;d&lt;/b&gt;" in page
    assert "<b>d" not in page
    assert page.count("<script") == page.count('<script type="module" src="static/page.js"') == 1
    assert vectors.get("/", **own) == 401  # the cookie works below its path only
    asked = {"origin": f"http://{vectors.host}", "content_type": JSON, **own}
    body = b'{"features": [1, 2, 3, 4, 5, 6]}'
    path = f"{keys.path}predict"

    def counted():
        vectors.get("/metrics")
        return int(re.search(rb'_count\{path="/predict"\} (\d+)', vectors.text)[1])

    vectors.post("/predict", body, JSON)
    before = counted()
    assert vectors.ask("POST", path, body, **asked).status == 200
    assert counted() == before + 1  # as a request of a program
    for wrong in ({"origin": "http://evil.example"}, {"origin": None}, {"cookie": None},
                  {"sec_fetch_site": "cross-site"},
                  {"origin": f"https://{vectors.host}"}):  # fmt: skip
        assert vectors.ask("POST", path, body, **asked | wrong).status in (401, 403)


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd",
     "/static/..%5capp.py", "/static/page.js%00.css", "/static/", "//etc/passwd", "/docs", "/redoc",
     "/predict/../../etc/passwd", "/../../etc/passwd"],
)  # fmt: skip
def test_paths_lead_nowhere_else(vectors, path):
    assert vectors.get(path) == 404
    assert b"root:" not in vectors.text


@pytest.mark.parametrize(
    "lines",
    [
        ["POST /predict HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"],
        ["POST /predict HTTP/1.1", "Content-Length: 5", "Content-Length: 50"],
        ["POST /predict HTTP/1.1", "Content-Length: -5"],
        ["POST /predict HTTP/1.1", "Transfer-Encoding: chunked"],
        ["GET http://evil.example/model HTTP/1.1"],
        ["GET /model HTTP/1.1", "Host: evil.example"],
        ["GET /model HTTP/1.1", "X-Long: " + "a" * 100_000],
        ["GET /" + "a" * 100_000 + " HTTP/1.1"],
        ["CONNECT evil.example:443 HTTP/1.1"],
        ["not http at all"],
    ],
)
def test_requests_that_are_not_clear_are_refused(vectors, lines):
    """Smuggled bodies, other servers' addresses, endless headers."""
    sent = [*lines, f"Host: {vectors.host}", f"Authorization: Bearer {vectors.token}",
            "Content-Type: application/json", "Connection: close"]  # fmt: skip
    with socket.create_connection(("127.0.0.1", vectors.port), timeout=PATIENCE) as to:
        with contextlib.suppress(ConnectionError):
            to.sendall(("\r\n".join(sent) + "\r\n\r\n").encode() + b"{}xxx")
            to.shutdown(socket.SHUT_WR)
        try:
            first = to.makefile("rb").readline()
        except ConnectionResetError:
            first = b""
    assert not first or first.split()[1] in (b"400", b"404", b"405", b"411", b"413", b"431")
    assert vectors.get("/health") == 200


def test_the_length_of_a_body_cannot_be_hidden(vectors):
    """Chunks beside a content length: the length would not count, and the body be unbounded."""
    body = b'{"features": [1, 2, 3, 4, 5, 6]}'
    chunks = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    for length in ("5", str(len(chunks))):
        sent = {"content_type": JSON, "content_length": length, "transfer_encoding": "chunked"}
        assert vectors.ask("POST", "/predict", chunks, **sent).status in (400, 411)
    assert vectors.get("/model", x_long="a" * 20_000) == 431
    assert vectors.get("/model", authorization=f"bearer {vectors.token}") == 200


def test_half_open_connections_and_slow_bodies_are_closed(serve, feature_run, monkeypatch):
    monkeypatch.setattr("plusone.web.server.REQUEST_SECONDS", 2.0)
    client = serve(feature_run, places=4)
    head = (
        f"POST /predict HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {client.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    ).encode()
    parts = [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST /predict HTTP/1.1\r\n",
    ]
    held = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(100)]
    for number, one in enumerate(held):
        one.sendall(parts[number % len(parts)])
    assert client.get("/health") == 200  # nobody waits for them
    slow = [
        socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) for _ in range(4)
    ]
    for one in slow:
        one.sendall(
            head
        )  # with the token, and never complete: they take all places for two seconds
    body = b'{"features": [1, 2, 3, 4, 5, 6]}'
    end = time.monotonic() + PATIENCE
    while client.ask("POST", "/predict", body, content_type=JSON).status != 200:
        assert time.monotonic() < end, "slow bodies keep their places"
        time.sleep(0.1)
    for one in (*held, *slow):
        one.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionResetError):
            assert one.recv(100) == b""  # closed by the server
        one.close()
    client.get("/metrics")
    assert b"plusone_requests_in_progress 0\n" in client.text


def test_connections_without_the_token_keep_nobody_out(vectors):
    """Silent ones, and those that were refused, which are closed."""
    refused = f"GET /model HTTP/1.1\r\nHost: {vectors.host}\r\n\r\n".encode()
    held = [socket.create_connection(("127.0.0.1", vectors.port)) for _ in range(300)]
    for one in held[::3]:
        one.sendall(refused)
    assert vectors.get("/model") == 200
    for one in held[297:]:
        one.settimeout(PATIENCE)
    assert held[297].recv(20).startswith(b"HTTP/1.1 401")
    while held[297].recv(1000):
        pass  # until the server closes it
    for one in held:
        one.close()


def test_replies_that_nobody_reads_end(serve, feature_run, monkeypatch):
    monkeypatch.setattr("plusone.web.server.REQUEST_SECONDS", 1.0)
    client = serve(feature_run)
    health = f"GET /health HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode()
    ended = False
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(PATIENCE)
        one.connect(("127.0.0.1", client.port))
        while not ended:
            try:
                one.sendall(health * 100)
            except (ConnectionResetError, BrokenPipeError):
                ended = True
    assert client.get("/health") == 200


def test_more_work_than_connections_is_refused_as_json(serve, feature_run, monkeypatch):
    monkeypatch.setattr("plusone.web.server.CONNECTIONS", 2)
    client = serve(feature_run)
    body = b'{"features": [1, 2, 3, 4, 5, 6]}'
    service = client.server._at_end.__self__

    def ask(_):
        return type(client)(client.server).post("/predict", body, JSON)

    with ThreadPoolExecutor(2) as pool:
        with service.model._lock:
            waiting = [pool.submit(ask, n) for n in range(2)]
            while service.metrics.in_progress < 2:
                time.sleep(0.01)
            reply = client.ask("GET", "/model")
        assert all(one.result() for one in waiting)
    assert (reply.status, reply.getheader("retry-after")) == (503, "1")
    assert "too many connections" in json.loads(client.text)["error"]


def test_a_long_body_may_take_its_time_and_not_trickle(serve, feature_run, monkeypatch):
    monkeypatch.setattr("plusone.web.server.REQUEST_SECONDS", 2.0)
    monkeypatch.setattr("plusone.web.server.LEAST_RATE", 300)
    client = serve(feature_run)
    body = b'{"features": [1, 2, 3, 4, 5, 6' + b" " * 40_000 + b"]}"

    def sent(token, piece):
        """The reply, and whether all of the body could be sent."""
        head = (
            f"POST /predict HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        with socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as to:
            to.sendall(head)
            end = time.monotonic() + PATIENCE
            try:
                for start in range(0, len(body), piece):
                    assert time.monotonic() < end, "it is never closed"
                    to.sendall(body[start : start + piece])
                    time.sleep(0.1)
                return to.recv(100)
            except ConnectionError:
                return b""

    assert b" 200 " in sent(client.token, 1000)  # for four seconds
    assert sent(client.token, 20) == b""
    refused = sent("wrong", 2000)  # at once: nobody waits for the rest, and the reply may be lost
    assert refused == b"" or b" 401 " in refused or b" 403 " in refused


def test_other_computers_need_a_token_of_the_user(vectors, feature_run):
    from plusone.serve.app import make_server

    model = load_model(feature_run, "cpu")
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(InputError, match=rf"--host {host} lets other.*--token-file"):
            make_server(model, host=host)
    with pytest.raises(InputError, match="not an IP address"):
        make_server(model, host="evil.example")
    with pytest.raises(InputError, match="no address of this computer"):
        make_server(model, host="192.0.2.1", token="t" * 20)
    with pytest.raises(InputError, match=f"port {vectors.port} is in use"):
        make_server(model, port=vectors.port)


def test_a_server_for_other_computers_answers_to_any_name_with_the_token():
    keys = Keys("serve", 80, token="t" * 20)
    rules = Rules((401, ""), 100, programs=True, any_host=True)
    headers = {"host": "any.example", "authorization": f"Bearer {keys.token}"}
    assert inner_path("GET", "/model", "", headers, keys, rules) == "/model"
    with pytest.raises(RefusedError):
        inner_path("GET", "/model", "", {"host": "any.example"}, keys, rules)
    with pytest.raises(RefusedError):
        inner_path("GET", "/model", "", headers, keys, replace(rules, any_host=False))
    page = {"host": "any.example", "cookie": f"{keys.cookie_name}={keys.cookie}"}
    page |= {"content-type": PNG, "content-length": "5"}
    for origin in ("http://any.example", "https://any.example"):  # a proxy may add TLS
        headers = page | {"origin": origin}
        assert inner_path("POST", f"{keys.path}predict", "", headers, keys, rules) == "/predict"
    for origin in ("https://evil.example", "https://any.example:8443", "null", "ftp://any.example"):
        with pytest.raises(RefusedError):
            inner_path("POST", f"{keys.path}predict", "", page | {"origin": origin}, keys, rules)


def test_every_token_that_is_allowed_opens_the_page():
    keys = Keys("serve", 80, token="a+b/c==d.e_f~g-h%")
    host, _, query = keys.page.removeprefix("http://").partition("/?")
    assert inner_path("GET", "/", query, {"host": host}, keys, Rules((401, ""), 1)) == "/enter"


@pytest.mark.skipif(os.name != "posix", reason="files have no modes")
def test_a_token_that_others_can_read_is_refused(tmp_path):
    from plusone.cli.checks import read_token

    path = tmp_path / "the token"
    path.write_text("a-token-of-the-user\n")
    for mode in (0o644, 0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(InputError, match=r"run chmod 600 '.*/the token'"):
            read_token(path)
    path.chmod(0o600)
    assert read_token(path) == "a-token-of-the-user"


def test_runs_that_no_request_can_feed_are_refused(feature_run, tmp_path):
    with pytest.raises(InputError, match="not a run folder"):
        load_model(tmp_path, "cpu")
    copy = tmp_path / "copy"
    shutil.copytree(feature_run, copy)
    recipe = (copy / "recipe.toml").read_text()
    off, on = "hint_features = false", "hint_features = true"
    assert off in recipe
    (copy / "recipe.toml").write_text(recipe.replace(off, on))
    with pytest.raises(InputError, match="plusone predict --hints"):
        load_model(copy, "cpu")


def test_the_graph_of_a_stranger_can_be_left_alone(feature_run, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    shutil.copytree(feature_run, tmp_path / "copy")
    (tmp_path / "copy" / "model.onnx").write_bytes(b"a program")
    with pytest.raises(InputError, match="is not what plusone export writes"):
        load_model(tmp_path / "copy", "cpu")
    assert load_model(tmp_path / "copy", "cpu", onnx=False).runtime == "torch"


@pytest.mark.slow
def test_without_the_extra_it_says_what_to_install(feature_run):
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from plusone.cli.app import main\n"
        f"main(['serve', {str(feature_run)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert done.stderr.startswith("plusone: serving needs a web server: pip install")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_it_stops_cleanly(feature_run, tmp_path, signal):
    import signal as signals

    (tmp_path / "token").write_text("a-token-of-the-user\n")
    (tmp_path / "token").chmod(0o600)
    command = [sys.executable, "-m", "plusone", "serve", feature_run, "--port", "0", "--json",
               "--stop-after", PATIENCE, "--token-file", tmp_path / "token"]  # fmt: skip
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    found = json.loads(process.stdout.readline())
    assert found["url"] == f"http://127.0.0.1:{found['port']}"
    assert "token" not in found  # the user has it; it may be logged here
    with socket.create_connection(("127.0.0.1", found["port"]), timeout=PATIENCE) as to:
        to.sendall(
            f"GET /model HTTP/1.1\r\nHost: 127.0.0.1:{found['port']}\r\n"
            "Authorization: Bearer a-token-of-the-user\r\nConnection: close\r\n\r\n".encode()
        )
        assert b" 200 " in to.makefile("rb").readline()
    process.send_signal(getattr(signals, signal))
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out == ""
    assert err.endswith("stopped\n")
    assert "a-token-of-the-user" not in err
    assert "Traceback" not in err
