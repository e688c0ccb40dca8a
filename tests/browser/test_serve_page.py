"""The page of `plusone serve` in a browser: it needs no network, and its form works."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
from tests.patience import HOUR, PATIENCE

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.run import train

pytestmark = pytest.mark.slow

SCRIPT = "'\"><script>document.title=1</script>"
CLASSES = ("<img src=x onerror=document.title=1>", "dog & fox", SCRIPT)


@pytest.fixture
def server(tmp_path):
    app = pytest.importorskip("plusone.serve.app", reason="needs the extra serve")
    from plusone.serve.model import load_model

    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    labels = (x[:, :3] > 0.3).astype(int)
    data = Dataset.from_arrays(x, labels, classes=CLASSES, complete=True)
    recipe = make_recipe({"method": "an", "epochs": 1})
    train(make_task(data, recipe), recipe, tmp_path / "<i>run")
    made = app.make_server(load_model(tmp_path / "<i>run", "cpu"))
    thread = Thread(target=made.run, args=(HOUR,), daemon=True)
    thread.start()
    yield made
    made.stop()
    thread.join(timeout=PATIENCE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_describes_and_tries_the_service(browser, server, artifacts, scheme):
    width = {"light": 1100, "dark": 390}[scheme]
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    trouble = []
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: trouble.append(request.url)
            if not request.url.startswith(server.keys.address) else None)  # fmt: skip
    page.goto(server.keys.page)
    page.wait_for_selector("#try")
    assert server.keys.token not in page.url + page.content()
    assert page.locator("h1").inner_text() == "<i>run"
    assert page.locator(".endpoint").count() == 5
    assert "4 numbers" in page.locator("header").inner_text()
    page.fill("#features", json.dumps([0.5, -1, 2, 0]))
    page.click("#try button")
    page.wait_for_selector("#result:not([hidden])")
    names = page.locator("#rows tr td:first-child").all_inner_texts()
    assert sorted(names) == sorted(CLASSES)
    page.screenshot(path=artifacts / f"serve-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert trouble == []
    page.fill("#features", "[1, 2]")
    page.click("#try button")
    page.wait_for_selector("#trouble:not([hidden])")
    assert page.locator("#trouble").inner_text() == "features must be a list of 4 numbers"
    context.close()


class Attacker(BaseHTTPRequestHandler):
    """A page of another site."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>attack</title>")

    def log_message(self, *_):
        pass


BODY = '{"features": [1, 2, 3, 4]}'
SENDS = """async ([path, type, body]) => {
  const options = {method: type ? "POST" : "GET", credentials: "include", mode: "no-cors"};
  if (type) Object.assign(options, {body, headers: {"content-type": type}});
  try {
    return await (await fetch(path, options)).text();
  } catch (error) {
    return "";
  }
}"""


def test_pages_of_other_sites_reach_nothing(browser, server):
    """CSRF from another port and another name, frames, and a name that leads here (rebinding)."""
    other = ThreadingHTTPServer(("127.0.0.1", 0), Attacker)
    Thread(target=other.serve_forever, daemon=True).start()
    context = browser.new_context()
    metrics = server._at_end.__self__.metrics
    try:
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(server.keys.page)  # the cookie is there
        page.wait_for_selector("#try")
        own = page.url
        before = metrics.items
        for host in ("127.0.0.1", "localhost"):
            tab = context.new_page()
            tab.set_default_timeout(1000 * PATIENCE)
            tab.goto(f"http://{host}:{other.server_port}/")
            for path in (own, f"{own}predict", f"{server.keys.address}/predict"):
                for kind in (None, "text/plain"):
                    assert tab.evaluate(SENDS, [path, kind, BODY]) == "", (path, kind)
            form = f"""<form method=post enctype=text/plain action="{own}predict">
                <input name='{{"features": [1, 2, 3, 4], "x": "' value='"}}'></form>"""
            tab.set_content(form)
            with tab.expect_navigation():
                tab.evaluate("document.forms[0].submit()")
            assert "from other sites" in tab.content() or "token" in tab.content()
            tab.goto(f"http://{host}:{other.server_port}/")
            tab.set_content(f"<iframe src='{own}'></iframe>")
            tab.wait_for_timeout(300)
            assert all("Try it" not in frame.content() for frame in tab.frames[1:])
            tab.close()
        assert metrics.items == before
        assert page.title() != "1"  # no script in the name of a class ran
    finally:
        context.close()
        other.shutdown()
        other.server_close()


def test_a_name_that_leads_here_is_refused(browser, server):
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    for where in (f"/?token={server.keys.token}", server.keys.path, "/health"):
        reply = page.goto(f"http://evil.test:{server.port}{where}")
        assert reply.status == 421, where
    page.close()
