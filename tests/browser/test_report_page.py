"""The report in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BACKGROUND = "getComputedStyle(document.body).backgroundColor"
EXAMPLE = Path(__file__).parents[2] / "docs" / "example-report.html"
FIRST_COLUMN = "table => [...table.tBodies[0].rows].map(row => row.cells[0].textContent.trim())"


@pytest.fixture
def visit(browser, report):
    """Opens the report and watches everything it says and asks for."""
    opened = []

    def open_page(path=report, **settings):
        page = browser.new_page(**({"viewport": {"width": 1200, "height": 900}} | settings))
        page.trouble = []
        page.on("console", lambda message: page.trouble.append(message.text))
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("request", lambda request: page.trouble.append(request.url)
                if not request.url.startswith(("file:", "data:")) else None)  # fmt: skip
        page.goto(path.as_uri())
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        assert page.trouble == []
        page.close()


def test_every_figure_can_be_seen(visit, report, artifacts):
    page = visit()
    figures = page.query_selector_all("figure")
    assert len(figures) >= 10
    for figure in figures:
        box = figure.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 80
        (drawn,) = figure.query_selector_all("svg[role=img], img.plot")
        inner = drawn.bounding_box()
        assert inner["width"] > 200
        assert inner["height"] > 60
        assert figure.query_selector("h3").inner_text()
    images = page.query_selector_all("img")
    assert len(images) >= 12  # the examples
    assert all(image.evaluate("one => one.naturalWidth") > 0 for image in images)
    labels = page.eval_on_selector_all("svg[role=img]", "all => all.map(one => one.ariaLabel)")
    assert all(labels)
    page.screenshot(path=artifacts / "report-light.png", full_page=True)


def test_links_lead_to_sections(visit):
    page = visit()
    for link in page.query_selector_all("nav a"):
        assert page.query_selector(link.get_attribute("href")) is not None


def test_text_in_figures_stays_inside_them(visit):
    page = visit()
    outside = page.evaluate("""() => {
      const all = [...document.querySelectorAll("svg[role=img]")];
      return all.flatMap(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll("text")].filter(text => {
          const own = text.getBoundingClientRect();
          return own.width && (own.left < box.left - 2 || own.right > box.right + 2
            || own.top < box.top - 2 || own.bottom > box.bottom + 2);
        }).map(text => svg.ariaLabel + ": " + text.textContent);
      });
    }""")
    assert outside == []


def test_tables_sort_by_click_and_by_keyboard(visit):
    page = visit()
    table = page.query_selector("#results table")
    score = page.query_selector("#results th:nth-child(2)")
    before = table.evaluate(FIRST_COLUMN)
    score.query_selector("button").click()
    assert score.get_attribute("aria-sort") == "descending"
    down = table.evaluate(FIRST_COLUMN)
    values = table.evaluate(
        "table => [...table.tBodies[0].rows].map(row => Number(row.cells[1].dataset.value))"
    )
    assert values == sorted(values, reverse=True)
    score.query_selector("button").focus()
    page.keyboard.press("Enter")
    assert score.get_attribute("aria-sort") == "ascending"
    assert table.evaluate(FIRST_COLUMN) == down[::-1] != down
    name = page.query_selector("#results th:nth-child(1)")
    name.query_selector("button").focus()
    page.keyboard.press("Space")
    assert name.get_attribute("aria-sort") == "ascending"
    assert score.get_attribute("aria-sort") == "none"
    assert table.evaluate(FIRST_COLUMN) == sorted(before)


def test_dark_follows_the_system_and_the_button(visit, artifacts):
    light, dark = visit(), visit(color_scheme="dark")
    day, night = light.evaluate(BACKGROUND), dark.evaluate(BACKGROUND)
    assert day != night
    dark.screenshot(path=artifacts / "report-dark.png", full_page=True)
    text = "getComputedStyle(document.querySelector('svg[role=img] text')).fill"
    assert light.evaluate(text) != dark.evaluate(text)
    light.click("#theme")
    assert light.evaluate(BACKGROUND) == night
    light.click("#theme")
    assert light.evaluate(BACKGROUND) == day


def test_a_phone_needs_no_sideways_scrolling(visit, artifacts):
    page = visit(viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    inside = "document.querySelector('#results .scroll')"
    assert page.evaluate(f"{inside}.scrollWidth > {inside}.clientWidth")  # in its own box
    for kind, fits in (("figure.narrow", True), ("figure:not(.narrow)", False)):
        box = f"document.querySelector('{kind} .plotbox')"
        assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth") == fits
        hint = f"getComputedStyle(document.querySelector('{kind} figcaption'), '::after').content"
        assert ("scroll sideways" in page.evaluate(hint)) != fits
    page.screenshot(path=artifacts / "report-phone.png", full_page=True)


def test_print_is_light_and_has_no_buttons(visit, artifacts):
    page = visit(color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
    assert not page.query_selector("#theme").is_visible()
    assert not page.query_selector("nav").is_visible()
    assert page.query_selector("#results table").is_visible()
    page.screenshot(path=artifacts / "report-print.png", full_page=True)


def test_the_example_is_a_report_of_today_and_its_picture_shows_it(visit, picture):
    example = visit(EXAMPLE, viewport={"width": 1200, "height": 860})
    titles = "all => all.map(one => one.textContent.trim())"
    today = visit().eval_on_selector_all("nav a", titles)
    shown = example.eval_on_selector_all("nav a", titles)
    assert [title for title in today if title in shown] == shown
    assert EXAMPLE.stat().st_size < 1_000_000
    picture(example, "report.png", "nav, section:first-of-type")
