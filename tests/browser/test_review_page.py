"""The review page in a real browser: keys, undo, reload, two tabs, hostile names."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from tests.patience import HOUR, PATIENCE

from plusone.data.example import write_example
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.data.table import LabelTable
from plusone.recipe import make_recipe
from plusone.suggestions import Suggestions, suggest, write_suggestions

pytestmark = pytest.mark.slow

CLASSES = ("cat", "dog", "fox", "owl")
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
IDLE = "body:not([aria-busy])"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def make_suggestions(root, items=9):
    """Item i is seen with class i % 4; the two classes after it are suggested."""
    names = [f"photos/{row}.png" for row in range(items)]
    labels = LabelMatrix.from_lists([[row % 4] for row in range(items)], 4)
    row = np.repeat(np.arange(items), 2)
    label = ((row + np.tile([1, 2], items)) % 4).astype(np.int32)
    p = np.tile([0.83, 0.4], items).astype(np.float32)
    return Suggestions(
        LabelTable(np.array(names), CLASSES, labels, root=root), row, label, p, p, {}
    )


def draw(found, root):
    rng = np.random.default_rng(1)
    for name in found.table.ids.tolist():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        hue = rng.integers(40, 215, 3)
        y, x = np.mgrid[0:150, 0:200]
        light = 0.55 + 0.45 * np.sin(x / 30 + hue[0]) * np.cos(y / 25 + hue[1])
        Image.fromarray((light[..., None] * hue).clip(0, 255).astype(np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path):
    found = make_suggestions(tmp_path / "images")
    draw(found, tmp_path / "images")
    write_suggestions(found, tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture
def serve():
    """Serves a review, bounded in time; the key is in the address it gives."""
    server = pytest.importorskip(
        "plusone.reviewing.review_page", reason="needs fastapi and uvicorn"
    )
    running = []

    def begin(desk, title="animals"):
        made = server.make_server(desk, title=title)
        thread = Thread(target=made.run, args=(HOUR,), daemon=True)
        thread.start()
        running.append((made, thread))
        return made.url

    yield begin
    for made, thread in running:
        made.stop()
        thread.join(timeout=PATIENCE)


@pytest.fixture
def visit(browser, serve):
    """Opens an address in a tab; nothing may go wrong in it or leave this computer."""
    contexts = []

    def open_tab(url, context=None, **settings):
        if context is None:
            context = browser.new_context(
                **({"viewport": {"width": 1200, "height": 800}} | settings)
            )
            context.trouble = []
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda message: context.trouble.append(message.text))
        page.on("pageerror", lambda error: context.trouble.append(str(error)))
        page.on("request", lambda request: context.trouble.append(request.url)
                if not request.url.startswith("http://127.0.0.1:") else None)  # fmt: skip
        page.goto(url)
        page.wait_for_selector("#work:not([hidden]), #done:not([hidden])")
        page.wait_for_selector(IDLE)
        return page

    yield open_tab
    for context in contexts:
        assert context.trouble == []
        context.close()


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_selector(IDLE)


def texts(page, selector):
    return page.eval_on_selector_all(selector, "all => all.map(one => one.textContent)")


def now(page):
    """The item on the screen and the label that is asked about."""
    return page.inner_text("#name"), page.inner_text("#questions [aria-current] .class")


def wait_for_leases(folder, count):
    """Waits until so many questions are on screens."""
    end = time.monotonic() + PATIENCE
    with closing(sqlite3.connect(folder / "review.sqlite")) as database:
        while database.execute("SELECT count(*) FROM lease").fetchone() != (count,):
            assert time.monotonic() < end, "the closed tab gave nothing back"
            time.sleep(0.02)


def confirm(page):
    """Confirms a page of one class when all its images are there."""
    page.eval_on_selector_all("#tiles img", "all => Promise.all(all.map(one => one.decode()))")
    press(page, "x", "Enter")


def desk_of(folder, order="item", **options):
    from plusone.reviewing.opening import open_suggestions
    from plusone.reviewing.questions import Selection

    return open_suggestions(folder, selection=Selection(order, **options))


def test_a_review_by_keyboard_alone(visit, serve, folder, artifacts):
    desk = desk_of(folder)
    page = visit(serve(desk))
    assert page.url.endswith("/")  # the token is not in the address any more
    assert "token" not in page.url
    assert now(page) == ("photos/0.png", "dog")
    assert texts(page, "#labels .chip span") == ["cat"]
    assert texts(page, "#questions .percent") == ["83 %", "40 %"]
    page.wait_for_selector("#image")
    page.locator("#image").evaluate("image => image.decode()")
    assert page.locator("#image").evaluate("image => image.naturalWidth") == 200
    box = page.locator("#image").bounding_box()
    assert box["width"] > 600
    assert box["height"] > 500
    press(page, "y")
    assert now(page) == ("photos/0.png", "fox")
    page.screenshot(path=artifacts / "review-items.png")
    press(page, "n")
    assert now(page) == ("photos/1.png", "fox")
    press(page, "s")
    assert now(page) == ("photos/1.png", "owl")
    press(page, "ArrowUp")
    assert now(page) == ("photos/1.png", "fox")
    press(page, "y", "ArrowRight")  # corrects the skip; the rest of the item is skipped
    assert now(page) == ("photos/2.png", "owl")
    assert page.inner_text("#counts") == "3 of 18 questions answered · 1 skipped"
    shown = page.inner_text("#agreement")
    assert shown.startswith("yes to 2 of 3 (67 %), expected 69 % · agreement 100 % · corrected: ")
    assert desk.progress()["yes"] == 2
    assert [entry.action for entry in desk.store.since()] == ["yes", "no", "skip", "yes", "skip"]


def test_undo_goes_back_over_items_and_reloads(visit, serve, folder):
    desk = desk_of(folder)
    page = visit(serve(desk))
    press(page, "y", "n", "y")
    page.reload()
    page.wait_for_selector("#work:not([hidden])")
    page.wait_for_selector(IDLE)
    assert now(page) == ("photos/1.png", "owl")
    press(page, "u")
    assert now(page) == ("photos/1.png", "fox")
    press(page, "u")
    assert now(page) == ("photos/0.png", "fox")
    assert texts(page, "#questions .mark") == ["✓", ""]
    press(page, "u", "u")
    assert now(page) == ("photos/0.png", "dog")
    assert page.inner_text("#last") == "nothing to undo in this tab"
    assert desk.progress()["answered"] == 0
    assert len(desk.store.since()) == 6  # the history stays


def test_keys_held_down_or_with_control_do_nothing(visit, serve, folder):
    desk = desk_of(folder)
    page = visit(serve(desk))
    page.keyboard.down("y")
    page.wait_for_selector(IDLE)
    for _ in range(5):
        page.keyboard.down("y")  # the keyboard repeats
    page.keyboard.up("y")
    press(page, "Control+u", "x", "Escape")
    assert desk.progress()["answered"] == 1


def test_two_tabs_do_not_clash(visit, serve, folder):
    desk = desk_of(folder)
    url = serve(desk)
    one = visit(url)
    other = visit(url, one.context)
    assert now(one)[0] == "photos/0.png"
    assert now(other)[0] == "photos/1.png"
    press(other, "y", "y")
    assert now(other)[0] == "photos/2.png"
    press(one, "n", "n")
    assert now(one)[0] == "photos/3.png"
    press(other, "u")
    assert now(other) == ("photos/1.png", "owl")
    progress = desk.progress()
    assert (progress["yes"], progress["no"], progress["repeated"]) == (1, 2, 0)
    other.close()  # what it had on its screen is asked elsewhere
    wait_for_leases(folder, 2)  # the two questions of photos/3.png
    press(one, "y", "y")
    assert now(one) == ("photos/1.png", "owl")


def test_a_duplicated_tab_is_another_tab(visit, serve, folder):
    desk = desk_of(folder)
    one = visit(serve(desk))
    with one.context.expect_page() as opened:
        one.evaluate("open('./')")  # as duplicating does, it copies what the tab remembers
    other = opened.value
    other.wait_for_selector("#work:not([hidden])")
    other.wait_for_selector(IDLE)
    assert (now(one)[0], now(other)[0]) == ("photos/0.png", "photos/1.png")
    press(one, "y")
    press(other, "u")  # of its own answers there are none
    assert desk.progress()["yes"] == 1


def test_the_end_and_the_skipped_again(visit, serve, folder):
    desk = desk_of(folder, order="likely", budget=2)
    page = visit(serve(desk))
    press(page, "s", "y")
    assert page.is_visible("#done")
    assert page.inner_text("#done-text") == "1 question answered, 1 skipped."
    press(page, "r")
    assert now(page) == ("photos/0.png", "dog")
    press(page, "s")
    assert page.is_visible("#done")
    press(page, "u", "n")
    assert not page.is_visible("#again")
    assert desk.progress()["answered"] == 2


def test_one_class_at_a_time(visit, serve, folder, artifacts):
    desk = desk_of(folder)
    page = visit(serve(desk))
    page.click("text=One class at a time")
    page.wait_for_selector("#tiles li")
    page.wait_for_selector(IDLE)
    first = page.inner_text("#class")
    count = page.locator("#tiles li").count()
    assert count == sum(one["left"] for one in desk.classes() if one["name"] == first)
    press(page, "Space", "ArrowRight", "ArrowRight", "s")
    page.locator("#tiles li").nth(3).click()
    page.wait_for_selector(IDLE)
    marks = page.eval_on_selector_all("#tiles li", "all => all.map(one => one.ariaChecked)")
    assert marks[:4] == ["true", "false", "mixed", "true"]
    assert page.inner_text("#confirm") == f"Confirm: 2 yes, 0 no, 1 skipped, {count - 3} open"
    page.eval_on_selector_all("#tiles img", "all => Promise.all(all.map(one => one.decode()))")
    press(page, "Enter")  # one key makes no negatives
    assert "open" in page.inner_text("#last")
    assert desk.progress()["answered"] == 0
    press(page, "x")
    assert page.inner_text("#confirm") == f"Confirm: 2 yes, {count - 3} no, 1 skipped"
    page.screenshot(path=artifacts / "review-grid.png")
    confirm(page)
    progress = desk.progress()
    assert (progress["yes"], progress["skipped"]) == (2, 1)
    assert page.inner_text("#class") != first  # that class is finished
    press(page, "u")
    assert page.inner_text("#class") == first
    marks = page.eval_on_selector_all("#tiles li", "all => all.map(one => one.ariaChecked)")
    assert marks[:4] == ["true", "false", "mixed", "true"]
    press(page, "a")
    assert page.inner_text("#confirm") == f"Confirm: {count} yes, 0 no"
    press(page, "]")
    second = page.inner_text("#class")
    assert second != first
    page.reload()
    page.wait_for_selector("#tiles li")
    page.wait_for_selector(IDLE)
    assert page.inner_text("#class") == second
    for _ in range(4):
        confirm(page)
    assert page.is_visible("#done")
    assert desk.progress()["left"] == 0


def test_texts_are_shown_and_found(visit, serve, tmp_path, artifacts):
    found = make_suggestions(None)
    texts = [f"Letter {row}: {EVIL} my (first) note" for row in range(8)] + ["A parcel, Parcel."]
    write_suggestions(replace(found, table=replace(found.table, texts=tuple(texts))), tmp_path)
    page = visit(serve(desk_of(tmp_path)))
    assert page.inner_text("#text") == texts[0]  # as it is, markup and all
    assert not page.is_visible("#image")
    press(page, "/")
    page.keyboard.type("parcel y")  # y is typed, not taken as a key
    page.wait_for_selector("text=0 texts")
    for _ in range(2):
        page.keyboard.press("Backspace")
    page.wait_for_selector("#found button")
    assert page.inner_text("#found li:last-child") == "1 text"
    page.screenshot(path=artifacts / "review-texts.png")
    press(page, "Enter")
    page.wait_for_selector("#text mark")
    assert page.inner_text("#name") == "photos/8.png"
    assert page.eval_on_selector_all("#text mark", "all => all.map(one => one.textContent)") == [
        "parcel", "Parcel"
    ]  # fmt: skip
    press(page, "y")
    assert page.inner_text("#last") == "dog: yes"
    page.fill("#search input", "(FIRST)")
    page.wait_for_selector("text=8 texts")
    page.keyboard.press("Escape")
    assert not page.is_visible("#found")
    page.click("text=One class at a time")
    page.wait_for_selector("#tiles .excerpt")
    shown = page.eval_on_selector_all("#tiles .excerpt", "all => all.map(one => one.textContent)")
    assert {*shown} <= {*texts}
    press(page, "z")
    assert page.inner_text("#zoom-text") in texts


def test_a_seen_label_is_wrong_and_one_is_added_by_keyboard(visit, serve, folder, artifacts):
    desk = desk_of(folder)
    page = visit(serve(desk))
    press(page, "w")
    assert texts(page, "#labels .chip") == ["cat wrong"]
    assert now(page) == ("photos/0.png", "dog")  # the question stays
    assert "1 seen label wrong" in page.inner_text("#agreement")
    press(page, "l")
    page.keyboard.type("own")
    press(page, "Enter")
    assert page.inner_text("#last") == "no class has this name"
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.keyboard.type("wl")  # w is typed, not taken as a key
    press(page, "Enter")
    assert texts(page, "#labels .chip") == ["cat wrong", "owl added"]
    assert "1 added" in page.inner_text("#agreement")
    page.screenshot(path=artifacts / "review-corrected.png")
    press(page, "l")
    page.keyboard.type("fox")  # which is also asked: its question is answered
    press(page, "Enter")
    assert texts(page, "#questions .mark") == ["", "✓"]
    assert [(one.label, one.action) for one in desk.store.since()] == [
        ("cat", "no"), ("owl", "yes"), ("fox", "yes")
    ]  # fmt: skip
    press(page, "u", "u", "u")
    assert texts(page, "#labels .chip") == ["cat wrong?"]
    assert desk.progress()["wrong"] == desk.progress()["added"] == 0
    press(page, "y", "n", "y", "y", "u")
    assert now(page) == ("photos/1.png", "owl")
    page.click("#labels button.chip")  # dog, by a click
    page.wait_for_selector(IDLE)
    press(page, "y")
    page.keyboard.press("u")
    page.keyboard.press("u")
    page.wait_for_selector(IDLE)
    press(page, "u")
    assert texts(page, "#labels .chip") == ["dog wrong?"]


def test_zoom_by_key_click_and_touch(visit, serve, folder, artifacts):
    desk = desk_of(folder)
    url = serve(desk)
    page = visit(url)
    press(page, "z")
    page.locator("#zoom-image").evaluate("image => image.decode()")
    fitted = page.locator("#zoom-image").bounding_box()
    assert fitted["width"] == 1200
    page.screenshot(path=artifacts / "review-zoom.png")
    page.mouse.click(900, 200)
    assert page.locator("#zoom-image").bounding_box()["width"] == 3 * fitted["width"]
    assert page.evaluate("document.getElementById('zoom-sheet').scrollLeft") > 1200
    press(page, "ArrowRight", "-", "z")
    assert not page.is_visible("#zoom")
    assert desk.progress()["answered"] == desk.progress()["skipped"] == 0
    press(page, "z", "Escape", "z", "y")  # an answer closes it
    assert not page.is_visible("#zoom")
    assert desk.progress()["yes"] == 1
    page.click("#image")
    assert page.is_visible("#zoom")
    page.close()
    phone = visit(url, viewport={"width": 390, "height": 844}, has_touch=True)
    phone.goto(phone.url + "grid")
    phone.wait_for_selector("#tiles li")
    phone.wait_for_selector(IDLE)
    phone.locator("#tiles .enlarge").nth(1).tap()
    assert phone.is_visible("#zoom")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    phone.locator("#zoom-labels button.chip").first.tap()
    phone.wait_for_selector("#zoom-labels .wrong")
    phone.wait_for_selector(IDLE)
    phone.screenshot(path=artifacts / "review-phone-zoom.png")
    phone.tap("#zoom-close")
    assert desk.progress()["wrong"] == 1
    assert "marked-yes" not in phone.locator("#tiles li").nth(1).get_attribute("class")
    phone.locator("#tiles li").nth(0).tap()
    phone.tap("text=Undo")  # takes the correction back, and keeps the marks
    phone.wait_for_selector(IDLE)
    assert desk.progress()["wrong"] == 0
    assert phone.locator("#tiles li").nth(0).get_attribute("class") == "marked-yes"


def test_the_grid_begins_with_the_most_probable(visit, serve, tmp_path):
    found = make_suggestions(None, items=12)
    p = np.linspace(0.25, 0.9, len(found)).astype(np.float32)
    write_suggestions(replace(found, probability=p), tmp_path / "s")
    page = visit(serve(desk_of(tmp_path / "s")))
    page.goto(page.url + "grid")
    page.wait_for_selector("#tiles li")
    shown = [int(text[:-2]) for text in texts(page, "#tiles .below span:last-child")]
    assert shown == sorted(shown, reverse=True)
    assert len(shown) == 6


def test_order_and_number_of_questions_are_chosen_on_the_page(visit, serve, folder, artifacts):
    desk = desk_of(folder, least=0.5)
    page = visit(serve(desk))
    assert page.inner_text("#counts") == "0 of 9 questions answered"
    page.click("#choose")
    page.wait_for_selector("#selection[open]")
    assert page.inner_text("#selection-now") == "0 of 9 questions answered, of 18 suggestions."
    assert (page.input_value("#order"), page.input_value("#least")) == ("item", "50")
    page.screenshot(path=artifacts / "review-selection.png")
    press(page, "y")  # no answer while the window is open
    page.select_option("#order", "likely")
    page.fill("#least", "0")
    page.fill("#budget", "4")
    page.click("#apply")
    page.wait_for_selector(IDLE)
    assert page.inner_text("#counts") == "0 of 4 questions answered"
    assert desk.questions.selection.order == "likely"
    page.click("#choose")
    page.fill("#budget", "-1")  # not sent
    page.click("#apply")
    assert page.is_visible("#selection")
    page.fill("#budget", "")
    page.keyboard.press("Enter")
    page.wait_for_selector(IDLE)
    assert page.inner_text("#counts") == "0 of 18 questions answered"
    page.click("#choose")
    page.wait_for_selector("#selection[open]")
    press(page, "Escape")
    page.wait_for_selector("#selection", state="hidden")
    press(page, "y")
    assert desk.progress()["yes"] == 1


def test_a_page_fits_the_screen_so_that_nothing_unseen_becomes_a_no(visit, serve, tmp_path):
    write_suggestions(make_suggestions(None, items=200), tmp_path / "s")
    url = serve(desk_of(tmp_path / "s"))
    shown = []
    for width, height in ((390, 844), (1200, 800), (1920, 1080)):
        page = visit(url, viewport={"width": width, "height": height})
        page.goto(page.url + "grid")
        page.wait_for_selector("#tiles li")
        last = page.locator("#tiles li").last.bounding_box()
        bar = page.locator(".buttons").bounding_box()
        assert last["y"] + last["height"] <= bar["y"] + 1
        shown.append(page.locator("#tiles li").count())
        page.close()
    assert 5 < shown[0] < shown[1] < shown[2]


def test_nobody_answers_an_image_that_is_not_there_yet(visit, serve, folder):
    desk = desk_of(folder)
    url = serve(desk)
    page = visit(url)
    held = []
    page.route("**/image/large/1", lambda route: held.append(route))
    page.keyboard.press("y")
    page.wait_for_selector(IDLE)
    page.keyboard.press("y")
    page.wait_for_selector("#image[src$='/1']")
    for _ in range(3):
        page.keyboard.press("y")
    page.wait_for_timeout(200)
    assert desk.progress()["answered"] == 2
    for route in held:
        route.continue_()
    page.wait_for_selector(IDLE)
    press(page, "y")
    assert desk.progress()["answered"] == 3
    page.route("**/image/small/*", lambda route: held.append(route))
    page.goto(page.url + "grid")
    page.wait_for_selector("#tiles li")
    press(page, "Enter")
    assert page.inner_text("#last") == "the images are still loading"
    assert desk.progress()["answered"] == 3


def test_an_image_that_cannot_be_shown_is_said(visit, serve, folder, tmp_path):
    (tmp_path / "images" / "photos" / "0.png").write_text("no image")
    page = visit(serve(desk_of(folder)))
    assert page.inner_text("#noimage") == "This image cannot be shown."
    press(page, "y", "y", "u")
    assert page.inner_text("#noimage") == "This image cannot be shown."
    page.context.trouble[:] = [line for line in page.context.trouble if "404" not in line]


def test_hostile_names_are_only_text(visit, serve, tmp_path):
    root = tmp_path / "images"
    found = make_suggestions(root, items=2)
    names = ['"><img src=x onerror="document.title=\'owned\'">.png', "'a' ..%2f&#47;?#%00 .png"]
    table = replace(
        found.table,
        ids=np.array(names),
        classes=(EVIL, "{{ 7 * 7 }}", "a' \"b", "&lt;b&gt;"),
    )
    found = replace(found, table=table)
    draw(found, root)
    write_suggestions(found, tmp_path / "s")
    url = serve(desk_of(tmp_path / "s"))
    page = visit(url)
    assert page.inner_text("#name") == names[0]
    page.locator("#image").evaluate("image => image.decode()")
    assert page.locator("#image").get_attribute("alt") == names[0]
    assert texts(page, "#labels .chip span") == [EVIL]
    assert texts(page, "#questions .class") == ["{{ 7 * 7 }}", "a' \"b"]
    press(page, "y", "y")
    assert page.inner_text("#name") == names[1]
    page.locator("#image").evaluate("image => image.decode()")
    assert texts(page, "#questions .class") == ["a' \"b", "&lt;b&gt;"]
    page.goto(page.url + "grid")
    page.wait_for_selector("#tiles li")
    press(page, "]", "[")
    assert page.locator("main script, main img[src=x]").count() == 0
    assert page.title() == "animals · plusone review"


def test_items_without_images_show_their_name(visit, serve, tmp_path):
    write_suggestions(make_suggestions(None), tmp_path / "s")
    page = visit(serve(desk_of(tmp_path / "s")))
    assert page.inner_text("#noimage") == "photos/0.png"
    assert not page.is_visible("#image")
    press(page, "y")
    assert now(page)[1] == "fox"


def test_new_items_until_a_yes(visit, serve, folder, tmp_path, artifacts):
    from plusone.reviewing.opening import open_new_items

    (tmp_path / "classes.txt").write_text("\n".join([*CLASSES[:3], EVIL]) + "\n")
    desk = open_new_items(tmp_path / "images", tmp_path / "classes.txt")
    page = visit(serve(desk))
    names = [*CLASSES[:3], EVIL]
    order = [names[label] for label in desk.items.order(0)]
    for place, key in enumerate(("n", "s", "y")):
        assert page.inner_text("#name") == "photos/0.png"
        assert page.inner_text("#asked-class") == order[place]
        assert page.inner_text("#number") == f"question {place + 1} of at most 4"
        press(page, key)
    assert page.inner_text("#name") == "photos/1.png"
    press(page, "u")
    assert page.inner_text("#name") == "photos/0.png"
    assert page.inner_text("#asked-class") == order[2]
    press(page, "y", "ArrowRight")
    assert page.inner_text("#name") == "photos/2.png"
    assert page.inner_text("#counts") == "1 of 9 items answered · 1 skipped"
    too_narrow = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
    assert page.eval_on_selector_all(".buttons button", too_narrow) == 0
    page.screenshot(path=artifacts / "review-annotate.png")
    assert page.title() == "animals · plusone review"


def test_dark_and_phone(visit, serve, folder, artifacts):
    url = serve(desk_of(folder))
    light, dark = visit(url), visit(url, color_scheme="dark")
    assert light.evaluate(BACKGROUND) != dark.evaluate(BACKGROUND)
    dark.screenshot(path=artifacts / "review-dark.png")
    night = dark.evaluate(BACKGROUND)
    light.click("#theme")
    assert light.evaluate(BACKGROUND) == night
    light.reload()
    light.wait_for_selector("#work:not([hidden])")
    assert light.evaluate(BACKGROUND) == night  # it is remembered
    phone = visit(url, viewport={"width": 390, "height": 844}, has_touch=True)
    start = phone.url
    for path in ("", "grid"):
        phone.goto(start + path)
        phone.wait_for_selector("#work:not([hidden])")
        phone.wait_for_selector(IDLE)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        for button in phone.query_selector_all(".buttons button"):
            box = button.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            assert box["y"] + box["height"] <= 844
        phone.screenshot(path=artifacts / f"review-phone-{path or 'items'}.png")


def test_a_server_that_is_gone_is_said_and_the_answer_is_kept_when_it_is_back(visit, serve, folder):
    desk = desk_of(folder)
    page = visit(serve(desk))
    gone, tries = True, []

    def answer(route):
        tries.append(route.request.post_data)
        route.abort() if gone else route.continue_()

    page.route("**/api/answer", answer)
    page.keyboard.press("y")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "not kept yet" in page.inner_text("#trouble")
    gone = False  # only now: however slow the machine is, the trouble was there to be seen
    page.wait_for_selector(IDLE)
    assert not page.is_visible("#trouble")
    assert len(tries) > 1
    assert len(set(tries)) == 1  # the same step each time
    assert desk.progress()["yes"] == 1
    page.context.trouble[:] = [line for line in page.context.trouble if "ERR_FAILED" not in line]


class Eavesdropper(BaseHTTPRequestHandler):
    """Another server on this computer, which keeps what browsers send to it."""

    received: ClassVar[list[str]] = []

    def do_GET(self):
        self.received.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>another server</title>")

    def log_message(self, *_):
        pass


def test_another_server_on_this_computer_learns_nothing(visit, serve, folder):
    """Cookies ignore ports: a key in a cookie of `/` is sent to every server on 127.0.0.1."""
    url = serve(desk_of(folder))
    page = visit(url)
    other = ThreadingHTTPServer(("127.0.0.1", 0), Eavesdropper)
    Thread(target=other.serve_forever, daemon=True).start()
    try:
        (cookie,) = page.context.cookies(page.url)
        place = urlsplit(page.url).path
        assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == (place, True, "Strict")
        tab = page.context.new_page()
        for host in ("127.0.0.1", "localhost"):
            tab.goto(f"http://{host}:{other.server_port}/some/page")
            tab.evaluate("fetch('/more')")
        assert tab.title() == "another server"
        assert tab.evaluate("document.cookie") == ""
        tab.close()
    finally:
        other.shutdown()
        other.server_close()
    received = "".join(Eavesdropper.received)
    assert "/some/page" in received
    token = url.partition("token=")[2]
    for secret in (token, cookie["value"], place.strip("/")):
        assert secret not in received
    assert "plusone" not in received
    assert token not in cookie["value"]
    press(page, "y")  # and the review goes on
    assert now(page) == ("photos/0.png", "fox")


def test_the_picture_in_the_documents_shows_this_page(visit, serve, tmp_path, picture):
    example, folder = tmp_path / "example", tmp_path / "suggestions"
    write_example(example, 600)
    data = load_source(str(example / "labels.csv"), features=[example / "embeddings.npz"])
    recipe = make_recipe({"method": "recovery", "head": "kernel"})
    write_suggestions(suggest(data, recipe, folds=3, positives=2.6), folder)
    url = serve(desk_of(folder, order="likely", least=0.2), "suggestions")
    page = visit(url, viewport={"width": 1416, "height": 744})
    press(page, "y")
    page.locator("#image").evaluate("image => image.decode()")
    picture(page, "review.png", "body")


def test_an_audit_asks_for_all_labels_and_says_what_it_could_promise(visit, serve, tmp_path):
    from plusone.reviewing.opening import open_audit

    write_suggestions(make_suggestions(None, items=12), tmp_path / "s")
    desk = open_audit(tmp_path / "s", lambda table: f"promise of {len(table)}")
    page = visit(serve(desk), viewport={"width": 390, "height": 844})
    assert not page.is_visible("nav")  # item by item alone
    question = page.inner_text("#now")
    assert question.startswith(now(page)[1])
    above, buttons = (page.locator(one).bounding_box() for one in ("#now", ".buttons .yes"))
    assert above["y"] + above["height"] <= buttons["y"] < 844 - buttons["height"]
    press(page, "y", "x")
    assert (desk.progress()["yes"], desk.progress()["no"], desk.progress()["items"]) == (1, 1, 1)
    press(page, *["x"] * 9)
    page.wait_for_function("document.getElementById('promise').textContent === 'promise of 10'")
    assert page.inner_text("#agreement").startswith("10 of 12 items done")
    press(page, "u")
    assert desk.progress()["items"] == 9
