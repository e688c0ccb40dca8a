"""The gallery of predicted tags in a real browser."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from plusone.prediction.tags import Predictions
from plusone.probabilities.thresholds import Thresholds
from plusone.report.gallery import GalleryTags

pytestmark = pytest.mark.slow

CLASSES = ("cat", "dog", "<b>sea</b>")
SCORES = [[0.9, 0.1, 0.1], [0.6, 0.4, 0.1], [0.8, 0.9, 0.0], [0.1, 0.1, 0.1], [0.0, 0.0, 0.95]]


@pytest.fixture
def page(browser, tmp_path):
    """A page of five photos."""
    paths = tuple(tmp_path / f"{name}.png" for name in "abcde")
    for number, path in enumerate(paths):
        Image.new("RGB", (300, 200), (50 * number, 90, 120)).save(path)
    names = tuple(path.name for path in paths)
    with (tmp_path / "g.html").open("w", encoding="utf-8") as file:
        sink = GalleryTags(file, "Tags", CLASSES, Thresholds.same(0.5, 3))
        sink.add(Predictions(names, CLASSES, torch.tensor(SCORES), (), paths))
        sink.end(())
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    trouble = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto((tmp_path / "g.html").as_uri())
    yield page
    assert trouble == []
    page.close()


def names(page):
    return "".join(text[0] for text in page.locator("article:visible .item").all_text_contents())


def test_photos_are_filtered_by_tag_and_sorted_by_doubt(page, artifacts):
    assert names(page) == "abcde"
    choices = page.locator("#tag option").all_inner_texts()
    assert choices == ["all (5)", "cat (3)", "dog (1)", "<b>sea</b> (1)", "without a tag (1)"]
    page.select_option("#order", "doubtful")  # 0.9, 0.3, 0.3, 0.3, 0.05
    assert names(page) == "bacde"
    page.select_option("#tag", "0")
    assert names(page) == "bac"
    page.select_option("#order", "tag")
    assert names(page) == "acb"
    assert page.locator("#count").inner_text() == "3 of 5 photos"
    page.locator("[data-tag='1']:visible").click()
    assert names(page) == "c"
    page.locator("[data-tag='1']:visible").click()  # again: all
    assert names(page) == "abcde"
    page.select_option("#tag", "none")
    assert names(page) == "d"
    page.fill("#name", "zzz")
    assert page.locator("#none").is_visible()
    page.fill("#name", "")
    page.select_option("#tag", "all")
    widths = page.eval_on_selector_all("img", "all => all.map(one => one.naturalWidth)")
    assert widths == [240] * 5
    page.screenshot(path=artifacts / "gallery.png")
