"""The page of `plusone serve` in a browser: it needs no network, and its form works."""

from __future__ import annotations

import json
from threading import Thread

import numpy as np
import pytest
from tests.patience import HOUR, PATIENCE

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.run import train

pytestmark = pytest.mark.slow

CLASSES = ("<b>cat</b>", "dog & fox", "owl")


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
