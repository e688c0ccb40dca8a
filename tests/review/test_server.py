"""The server against those who should not reach it: over real sockets, bounded in time."""

from __future__ import annotations

import io
import json
import secrets
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from PIL import Image
from tests.patience import PATIENCE

from plusone.errors import InputError
from plusone.reviewing.opening import open_new_items, open_suggestions
from plusone.suggestions import read_suggestions, write_suggestions
from plusone.web.guard import Keys

from .conftest import draw_images, make_suggestions, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """One server for all that leave no answer behind."""
    root = tmp_path_factory.mktemp("review")
    found = make_suggestions(root)
    draw_images(found, root)
    write_suggestions(found, root / "s")
    with serving() as begin:
        yield begin(open_suggestions(root / "s"))


def body(client, **more):
    return json.dumps({"session": client.session} | more).encode()


def test_the_token_becomes_a_strict_cookie(client):
    assert client.cookie.startswith(f"plusone_review_{client.port}=")
    for word in ("HttpOnly", "SameSite=strict", f"Path={client.base}/;"):
        assert word in client.set_cookie
    assert client.get("/") == 200
    token, value = client.url.query.partition("=")[2], client.cookie.partition("=")[2]
    assert len(client.base) >= 22
    assert len(token) >= 43
    assert len(value) >= 43
    assert value != token
    assert token.encode() not in client.text
    assert value.encode() not in client.text


def test_the_first_page_leads_on_without_the_token(client):
    assert client.get(f"/?{client.url.query}", cookie=None) == 200
    token = client.url.query.partition("=")[2]
    assert token.encode() not in client.text
    assert token not in client.set_cookie


def test_path_and_cookie_are_both_needed(client):
    assert client.get("/static/page.js") == 200
    assert client.get("/static/page.js", cookie=None) == 403
    base, client.base = client.base, "/" + "A" * 22
    try:
        for wrong in (client.base, "", "/enter", f"{base}x", base[:-1], f"/{base}"):
            client.base = wrong
            assert client.get("/static/page.js") == 403
    finally:
        client.base = base


def test_connections_that_never_say_what_they_want_are_closed(serve, suggestions, monkeypatch):
    monkeypatch.setattr("plusone.web.server.REQUEST_SECONDS", 2.0)
    client = serve(open_suggestions(suggestions))
    parts = [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "]
    parts.append(
        f"POST {client.base}/api/hold HTTP/1.1\r\nHost: {client.host}\r\n"
        f"Cookie: {client.cookie}\r\n"
        f"Origin: http://{client.host}\r\nContent-Type: application/json\r\n"
        "Content-Length: 50\r\n\r\n{".encode()
    )
    held = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(230)]
    for number, one in enumerate(held):
        one.sendall(parts[number % len(parts)])
    end = time.monotonic() + PATIENCE
    while client.get("/") != 200:
        assert time.monotonic() < end, "half-open connections block the reviewer"
        time.sleep(0.1)
    for one in held:
        one.close()


@pytest.mark.parametrize(
    "path",
    ["/", "/grid", "/static/page.js", "/image/large/0", "/api/classes", "/?token=wrong",
     "/?token=", "/?token=a&token=b", "/grid?token=wrong", "/none", "/enter"],
)  # fmt: skip
def test_without_the_key_nothing_is_shown(client, path):
    for cookie in (None, f"plusone_review_{client.port}=wrong", "plusone_review_1=x", "=;;,,"):
        assert client.get(path, cookie=cookie) == 403
        assert client.text.startswith(b"open the address that plusone review printed")


def test_every_endpoint_is_behind_the_guard(tmp_path, suggestions, client):
    """Those of the app itself, so that a new one is not forgotten."""
    from plusone.reviewing.review_page import make_app

    app = make_app(open_suggestions(suggestions), title="", keys=Keys("review", port=1)).app
    routes = [(method, route.path) for route in app.routes for method in route.methods]
    assert ("POST", "/api/selection") in routes
    before = client.post("/api/hold")["progress"]
    sent = body(client, order="likely", budget=1, least=0.0)
    for method, path in routes:
        inside = path.format(name="page.js", size="large", row=0)
        content = sent if method == "POST" else None
        assert client.ask(method, inside, content, cookie=None).status == 403, path
        assert client.ask(method, inside, content, host="evil.example").status == 421, path
        assert client.ask(method, inside, content, sec_fetch_site="cross-site").status == 403, path
        if method == "POST":
            assert client.ask(method, inside, content, origin="http://evil.example").status == 403
            assert client.ask(method, inside, content, content_type="text/plain").status == 415
    assert client.post("/api/hold")["progress"] == before


@pytest.mark.parametrize(
    "wrong",
    [{"order": "best"}, {"budget": 0}, {"budget": 1.5}, {"least": -0.1}, {"least": 2},
     {"least": float("nan")}, {"least": "0"}, {"seed": 1}],
)  # fmt: skip
def test_the_choice_of_questions_is_checked(client, wrong):
    sent = body(client, **({"order": "likely", "budget": None, "least": 0} | wrong))
    assert client.ask("POST", "/api/selection", sent).status in (404, 422)
    assert client.get("/api/selection") == 200
    assert json.loads(client.text) == {
        "order": "item", "budget": None, "least": 0.0, "suggestions": 12
    }  # fmt: skip


def test_the_token_opens_the_first_page_only(client):
    assert client.get(f"/grid?{client.url.query}", cookie=None) == 403
    assert client.ask("POST", f"/?{client.url.query}", body(client), cookie=None).status == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}",
     "127.0.0.1:{port}.evil", "[::1]:{port}", "LOCALHOST:{port}@evil", "", None],
)  # fmt: skip
def test_another_host_name_is_refused(client, host):
    """DNS rebinding: the name of another site is made to point here."""
    given = None if host is None else host.format(port=client.port)
    for path in ("/", f"/?{client.url.query}", "/image/large/0"):
        assert client.get(path, host=given) in (400, 421)
    reply = client.ask("POST", "/api/next", body(client), host=given)
    assert reply.status in (400, 421)


def test_localhost_is_a_name_of_ours(client):
    assert client.get("/", host=f"localhost:{client.port}") == 200


def test_two_hosts_in_one_request_are_refused(client):
    with socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as to:
        to.sendall(
            f"GET {client.base}/ HTTP/1.1\r\nHost: evil.example\r\nHost: {client.host}\r\n"
            f"Cookie: {client.cookie}\r\nConnection: close\r\n\r\n".encode()
        )
        assert b" 400 " in to.makefile("rb").readline()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": None}, 403),
        ({"origin": "https://{host}"}, 403),
        ({"origin": "http://localhost:{port}"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": None}, 415),
        ({"cookie": None}, 403),
        ({"content_length": "99999999"}, 413),
        ({"content_length": "9" * 400}, 400),
        ({"sec_fetch_site": "same-origin"}, 200),
    ],
)
def test_posts_from_other_sites_are_refused(client, headers, status):
    given = {
        name: value and value.format(host=client.host, port=client.port)
        for name, value in headers.items()
    }
    before = client.post("/api/hold")["progress"]["last"]
    answers = [{"row": 0, "label": 1, "action": "skip"}]
    sent = body(client, step=secrets.token_hex(16), answers=answers)
    assert client.ask("POST", "/api/answer", sent, **given).status == status
    after = client.post("/api/hold")["progress"]["last"]
    assert after == before + (1 if status == 200 else 0)


def test_cross_site_reads_are_refused(client):
    assert client.get("/", sec_fetch_site="none") == 200
    for site in ("cross-site", "same-site"):
        for path in ("/", "/image/large/0", "/api/classes"):
            assert client.get(path, sec_fetch_site=site) == 403
        assert (
            client.get(f"/?{client.url.query}", sec_fetch_site=site) == 200
        )  # a link with the key


def test_bodies_are_bounded(client):
    long = body(client, step="0" * 70_000)
    assert client.ask("POST", "/api/undo", long).status == 413
    chunked = client.ask("POST", "/api/next", None, transfer_encoding="chunked")
    assert chunked.status == 411
    sent = b"5\r\n{   }\r\n0\r\n\r\n"
    both = client.ask("POST", "/api/next", sent, transfer_encoding="chunked", content_length="5")
    assert both.status in (400, 411)  # chunks would overrule the length


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(client, method):
    assert client.ask(method, "/").status == 405


def test_web_sockets_and_other_protocols_get_nothing(client):
    reply = client.ask(
        "GET", "/", connection="Upgrade", upgrade="websocket", sec_websocket_version="13",
        sec_websocket_key="AAAAAAAAAAAAAAAAAAAAAA==", sec_fetch_site="cross-site",
    )  # fmt: skip
    assert reply.status == 403
    reply = client.ask("GET", "/", connection="Upgrade, HTTP2-Settings", upgrade="h2c")
    assert reply.status == 200  # answered as plain HTTP
    assert reply.getheader("upgrade") is None


@pytest.mark.parametrize(
    "lines",
    [
        ["POST /api/hold HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"],
        ["POST /api/hold HTTP/1.1", "Content-Length: 5", "Content-Length: 50"],
        ["POST /api/hold HTTP/1.1", "Content-Length: -5"],
        ["GET http://evil.example/ HTTP/1.1"],
        ["GET / HTTP/1.1", "X-Long: " + "a" * 100_000],
        ["GET /" + "a" * 100_000 + " HTTP/1.1"],
        ["CONNECT evil.example:443 HTTP/1.1"],
        ["not http at all"],
    ],
)
def test_requests_that_are_not_clear_change_nothing(client, lines):
    """Smuggled bodies, other servers' addresses, endless headers."""
    before = client.post("/api/hold")["progress"]["last"]
    sent = [*lines, f"Host: {client.host}", f"Origin: http://{client.host}",
            "Content-Type: application/json", "Connection: close"]  # fmt: skip
    with socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as to:
        to.sendall(("\r\n".join(sent) + "\r\n\r\n").encode() + b"{}xxx")
        to.shutdown(socket.SHUT_WR)
        first = to.makefile("rb").readline()
    assert not first or first.split()[1] in (b"400", b"403", b"404", b"405", b"411", b"413", b"431")
    assert client.post("/api/hold")["progress"]["last"] == before


def test_every_reply_is_guarded(client):
    for path in ("/", "/grid", "/static/review.css", "/image/large/0", "/none", "/api/classes"):
        for cookie in (client.cookie, None):
            reply = client.ask("GET", path, cookie=cookie)
            policy = reply.getheader("content-security-policy") or ""
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert reply.getheader("referrer-policy") == "no-referrer"
            assert reply.getheader("x-content-type-options") == "nosniff"
            assert reply.getheader("cache-control") == "no-store"
            assert reply.getheader("x-frame-options") == "DENY"
            assert reply.getheader("cross-origin-resource-policy") == "same-origin"
            assert reply.getheader("cross-origin-opener-policy") == "same-origin"
            assert "form-action 'none'" in policy
            assert "base-uri 'none'" in policy
            assert reply.getheader("access-control-allow-origin") is None
            assert reply.getheader("server") is None


def test_pages_hold_no_script_of_their_own_and_escape_the_title(client):
    for path in ("/", "/grid"):
        client.get(path)
        page = client.text.decode()
        assert "&lt;b&gt;test&lt;/b&gt;" in page
        assert "<b>test" not in page
        assert page.count("<script") == page.count('<script type="module" src="static/') == 1
        assert "http" not in page.replace("http-equiv", "")  # nothing from elsewhere
    for name in ("page.js", "items.js", "grid.js", "labels.js", "zoom.js", "annotate.js",
                 "review.css"):  # fmt: skip
        assert client.get(f"/static/{name}") == 200
        assert b"://" not in client.text
        assert b"innerHTML" not in client.text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/image/large/../../../etc/passwd",
        "/image/large/..%2f..%2fetc%2fpasswd",
        "/image/large/photos%2f0.png",
        "/image/huge/0",
        "/image/large/-1",
        "/image/large/6",
        "/image/large/99999999999999999999999",
        "/image/large/0x0",
        "/image/large/0%00",
        "/image/large/0%2500",
        "/image/large/%252e%252e%252fsecret.png",
        "/image/large/0/../../../etc/passwd",
        "/static/%252e%252e%252fapp.py",
        "/static/page.js%00.css",
        "/static/..%5capp.py",
        "/static/%c0%ae%c0%ae/app.py",
        "/static/",
        "//127.0.0.1/static/page.js",
        "/docs",
        "/openapi.json",
        "/redoc",
        "/annotate",
    ],
)
def test_paths_lead_nowhere_else(client, path):
    assert client.get(path) in (400, 404, 422)
    assert b"root:" not in client.text


def test_images_are_sent_as_pixels(client):
    for size in ("large", "small"):
        reply = client.ask("GET", f"/image/{size}/0")
        assert reply.getheader("content-type") == "image/png"
        assert Image.open(io.BytesIO(client.text)).size == (32, 24)


def serve_names(serve, root, names):
    found = make_suggestions(root, items=len(names))
    found = replace(found, table=replace(found.table, ids=np.array(names)))
    write_suggestions(found, root / "s")
    return serve(open_suggestions(root / "s"))


def test_only_images_inside_the_folder_are_sent(serve, tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside.png"
    root.mkdir()
    Image.new("RGB", (8, 8)).save(outside)
    Image.new("RGB", (8, 8)).save(root / "good.png")
    (root / "out.png").symlink_to(outside)
    (root / "in.png").symlink_to(root / "good.png")
    (root / "text.png").write_text("<script>alert(1)</script>")
    (root / "page.html").write_text("<script>alert(1)</script>")
    (root / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (root / "folder.png").mkdir()
    (root / "empty.png").write_bytes(b"")
    (root / "private.dat").write_bytes((root / "good.png").read_bytes())
    names = ["good.png", "in.png", "out.png", "text.png", "page.html", "drawing.svg",
             "folder.png", "empty.png", "none.png", "private.dat"]  # fmt: skip
    client = serve_names(serve, root, names)
    states = [client.get(f"/image/large/{row}") for row in range(len(names))]
    assert states == [200, 200] + [404] * 8


def test_files_that_are_not_what_their_names_say(serve, tmp_path):
    """A drawing with a script, a PostScript program and a page, each called a photograph."""
    script = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    program = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) print\n%%EOF\n"
    for name, text in (("a.png", script), ("b.jpg", program), ("c.gif", "<html></html>")):
        (tmp_path / name).write_text(text)
    picture = Image.new("RGB", (8, 8), "red")
    picture.save(tmp_path / "d.png", format="JPEG", comment=b"<script>alert(1)</script>")
    client = serve_names(serve, tmp_path, ["a.png", "b.jpg", "c.gif", "d.png"])
    assert [client.get(f"/image/large/{row}") for row in range(4)] == [404, 404, 404, 200]
    assert b"script" not in client.text  # decoded and encoded again: only pixels are left


def test_ids_that_leave_the_folder_are_refused_twice(serve, tmp_path, suggestions):
    """Once by the reader of the folder; and where they come in all the same, by the server."""
    Image.new("RGB", (8, 8)).save(tmp_path / "secret.png")
    desk = open_suggestions(suggestions)
    desk.pictures._ids = ["../secret.png", str(tmp_path / "secret.png"), "photos/\0.png"]
    client = serve(desk)
    assert [client.get(f"/image/large/{row}") for row in range(3)] == [404] * 3
    found = read_suggestions(suggestions)
    ids = found.table.ids.copy()
    ids[0] = "../a.png"
    write_suggestions(replace(found, table=replace(found.table, ids=ids)), suggestions)
    with pytest.raises(InputError, match="leaves its folder"):
        open_suggestions(suggestions)


def test_large_and_odd_images_are_bounded(serve, tmp_path, monkeypatch):
    Image.new("RGB", (3000, 1000), "red").save(tmp_path / "wide.jpg")
    Image.new("CMYK", (300, 300)).save(tmp_path / "print.jpg")
    Image.fromarray(np.arange(90000, dtype=np.uint16).reshape(300, 300)).save(tmp_path / "s.png")
    Image.new("P", (300, 300)).save(tmp_path / "p.gif")
    client = serve_names(serve, tmp_path, ["wide.jpg", "print.jpg", "s.png", "p.gif"])
    sizes = []
    for row in range(4):
        assert client.get(f"/image/large/{row}") == 200
        sizes.append(Image.open(io.BytesIO(client.text)).size)
    assert sizes == [(1600, 533)] + [(300, 300)] * 3
    assert client.get("/image/small/0") == 200
    assert max(Image.open(io.BytesIO(client.text)).size) == 360
    monkeypatch.setattr("plusone.data.images.MAX_PIXELS", 1000)
    other = serve_names(serve, tmp_path, ["wide.jpg"])
    assert other.get("/image/large/0") == 404


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"[]",
        b"{",
        b'{"session": "short"}',
        b'{"session": "' + b"a" * 16 + b'", "extra": 1}',
        b'{"session": "' + b"a" * 16 + b'", "again": -1}',
        b'{"session": "' + b"a" * 16 + b'", "row": 1e99}',
        b'{"session": "' + b"a" * 16 + b'\\n"}',
        b"[" * 20000,
        b'{"session": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
    ],
)
def test_nonsense_is_refused_without_a_word_of_it(client, sent):
    reply = client.ask("POST", "/api/next", sent)
    assert reply.status in (400, 422)
    assert b"Traceback" not in client.text
    assert len(client.text) < 200


def test_answers_to_what_is_not_asked_are_refused(client):
    for row, label, action, status in (
        (0, 4, "yes", 404),
        (5000, 1, "yes", 404),
        (0, 1, "undo", 422),
        (0, 1, "maybe", 422),
        (True, 1, "yes", 422),
    ):
        answers = [{"row": row, "label": label, "action": action}]
        sent = body(client, step="0" * 16, answers=answers)
        assert client.ask("POST", "/api/answer", sent).status == status
    too_many = [{"row": 0, "label": 1, "action": "yes"}] * 201
    sent = body(client, step="0" * 16, answers=too_many)
    assert client.ask("POST", "/api/answer", sent).status == 422
    assert client.post("/api/hold")["progress"]["answered"] == 0


def test_no_path_is_ever_said(serve, suggestions, tmp_path):
    client = serve(open_suggestions(suggestions))
    for path in ("/", "/grid", "/api/classes", "/image/large/77", "/none"):
        client.get(path)
        assert str(tmp_path).encode() not in client.text
    client.post("/api/next")
    assert str(tmp_path).encode() not in client.text


def test_a_review_over_the_wire(serve, suggestions):
    client = serve(open_suggestions(suggestions))
    item = client.post("/api/next")
    assert item["row"] == 0
    assert client.answer(0, 1, "yes", step="1" * 16)["progress"]["yes"] == 1
    assert client.answer(0, 1, "yes", step="1" * 16)["progress"]["yes"] == 1  # sent again
    assert client.answer(0, 2, "no")["progress"]["left"] == 10
    assert client.post("/api/undo", step="2" * 16)["undone"][0]["action"] == "no"
    page = client.post("/api/page", label=2)
    assert [tile["row"] for tile in page["tiles"]] == [5, 1, 4, 0]
    second = serve(open_suggestions(suggestions))  # another process on the same file
    assert second.post("/api/hold")["progress"]["yes"] == 1


def test_new_items_over_the_wire(serve, tmp_path, suggestions):
    (tmp_path / "classes.txt").write_text("<script>alert(1)</script>\n\"quoted' & co\n")
    client = serve(open_new_items(tmp_path / "images", tmp_path / "classes.txt"))
    assert client.get("/") == 200
    assert b'data-mode="annotate"' in client.text
    assert client.get("/grid") == 404
    item = client.post("/api/next")
    assert item["classes"] == 2
    now = client.answer(item["row"], item["label"], "yes")["progress"]
    assert (now["answered"], now["left"]) == (1, 5)
    assert client.answer(1, -1, "skip")["progress"]["skipped"] == 1


def test_a_port_in_use_is_said(suggestions, client):
    from plusone.reviewing.review_page import make_server

    with pytest.raises(InputError, match=f"port {client.port} is in use"):
        make_server(open_suggestions(suggestions), title="x", port=client.port)


def test_the_server_is_not_reachable_from_other_interfaces(client):
    with socket.socket() as probe:
        probe.settimeout(5)
        try:
            probe.connect(("127.0.0.2", client.port))
        except OSError:
            return
    pytest.fail("the server listens beyond 127.0.0.1")


def test_the_page_does_without_torch():
    code = (
        "import sys, plusone.reviewing.opening, plusone.reviewing.review_page\n"
        "heavy = {'torch', 'sklearn', 'matplotlib', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_browser_gets_the_key_in_a_file_for_one_person(tmp_path, monkeypatch):
    from plusone.reviewing import review_page

    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(review_page.webbrowser, "open", opened.append)
    with review_page.opened_in_browser("http://127.0.0.1:1/?token=k", tmp_path / "review.sqlite"):
        (address,) = opened
        assert "token" not in address
        path = Path(unquote(urlsplit(address).path))
        assert path.parent == tmp_path
        assert path.stat().st_mode & 0o077 == 0
        assert "token=k" in path.read_text()
    assert not path.exists()
