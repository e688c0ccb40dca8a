"""A real browser, and a real report for it to show."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from plusone.compare.jobs import Job, run_jobs
from plusone.data.source import Source
from plusone.recipe import make_recipe
from plusone.report.writing import write_report

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP evil.test 127.0.0.1",  # as a name that is rebound to this computer
]  # fmt: skip


@pytest.fixture(scope="module")  # its event loop must not outlive the tests of the browser
def browser() -> Iterator[Any]:
    """Chromium, where it and playwright are installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium; Debian's package of that name brings it")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """Where screenshots are kept: PLUSONE_ARTIFACTS, or `artifacts` beside the tests."""
    given = os.environ.get("PLUSONE_ARTIFACTS")
    folder = Path(given) if given else Path(__file__).parents[1] / "artifacts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def picture(agree: Callable[..., None], rewrite: bool) -> Callable[[Any, str, str], None]:
    """Compares a page with its picture in the documents; `make pictures` takes it anew.

    Pixels depend on the fonts of a machine, so the text of the page is kept in the picture
    and compared.
    """

    def check(page: Any, name: str, selector: str) -> None:
        path = Path(__file__).parents[2] / "docs" / "figures" / name
        text = page.inner_text(selector)
        assert text
        if rewrite:
            note = PngInfo()
            note.add_itxt("Description", text)
            with Image.open(BytesIO(page.screenshot())) as taken:
                taken.convert("RGB").save(path, pnginfo=note, optimize=True)
        with Image.open(path) as stored:
            assert stored.size == (page.viewport_size["width"], page.viewport_size["height"])
            agree(text, stored.info["Description"])

    return check


@pytest.fixture(scope="module")
def report(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of four methods with two seeds, a sweep and an ablation."""
    folder = tmp_path_factory.mktemp("bench")
    jobs = [
        Job(
            Source("digits-features"),
            make_recipe({"method": method, "seed": seed, "epochs": 3, "batch_size": 128}),
        )
        for method in ("an", "em", "gr", "bce")
        for seed in (0, 1)
    ]
    results = run_jobs(jobs, folder / "journal.jsonl", workers=1)
    sweep = {
        "kind": "sweep",
        "title": "batch size of an",
        "command": "plusone sweep digits-features -m an --over batch_size=64,128",
        "over": "batch_size",
        "label": "batch size",
        "values": [64, 128],
        "baseline": None,
        "default": 16,
        "rows": [
            {"data": "digits-features", "method": "an", "value": value, "test_sd": None,
             "test_map": results[seed].test_map, "val_map": results[seed].val_map,
             "seeds": 1, "lr": 1e-3, "keys": []}
            for value, seed in ((64, 0), (128, 1))
        ],
    }  # fmt: skip
    ablation = {
        "kind": "ablation",
        "title": "parts of gr",
        "command": "plusone ablate digits-features -m gr",
        "method": "gr",
        "data": "digits-features",
        "rows": [
            {"data": "digits-features", "method": "gr", "name": name, "options": {},
             "test_map": result.test_map, "test_sd": None,
             "val_map": result.val_map, "seeds": 1, "keys": [],
             "change": result.test_map - results[4].test_map}
            for name, result in (("none: AN", results[0]), ("all of it", results[4]))
        ],
    }  # fmt: skip
    for document in (sweep, ablation):
        (folder / str(document["kind"])).mkdir()
        path = folder / str(document["kind"]) / f"{document['kind']}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
    return write_report([folder], folder / "report.html")
