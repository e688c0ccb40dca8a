"""Colours, names and places that every figure shares."""

import re

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

from plusone.report import style
from plusone.report.page import embed, inline_svg, save_figure


@style.styled
def drawn(name: str = "p") -> Figure:
    figure, (axes,) = style.canvas(2.0)
    axes.plot([0, 1], [0.125, 0.975], color=style.BLUE, label=name)
    axes.set_xlabel(name)
    axes.text(0.5, 0.5, "0.123456")
    style.headline(figure, "A finding that is long enough to need more than a single line " * 2)
    return figure


@given(st.lists(st.floats(0, 10), min_size=1, max_size=12), st.floats(0.01, 3))
def test_spread_keeps_order_and_distance(values, gap):
    places = style.spread(sorted(values), gap, 0.0, 10.0)
    wanted = min(gap, 10 / max(len(values) - 1, 1))
    assert np.all(np.diff(places) >= wanted - 1e-6)
    assert min(places) >= -1e-6
    assert max(places) <= 10 + 1e-6


def test_what_needs_no_moving_stays():
    assert style.spread([1.0, 4.0, 9.0], 2.0, 0.0, 10.0) == [1.0, 4.0, 9.0]


def test_colours_are_different_and_known_methods_keep_theirs():
    few = style.colours(["pr", "gr", "an", "bce", "em"])
    assert len(set(few.values())) == 5
    assert few["gr"] == style.colours(["gr"])["gr"] == style.BLUE
    many = style.colours([f"m{number}" for number in range(9)])
    assert list(many.values())[5:] == [style.MUTED] * 4


@pytest.mark.parametrize("text", ["a\nb\tc", "a\x00b\x1bc", "x" * 500, "$\\frac{", "漢字"])
def test_names_can_be_drawn(text):
    name = style.plain(text, 20)
    assert len(name) <= 20
    assert name.isprintable()


def test_the_style_leaves_no_trace():
    before = dict(mpl.rcParams)
    drawn()
    assert dict(mpl.rcParams) == before


def test_figures_are_saved_twice_the_same(tmp_path):
    first = [path.read_bytes() for path in save_figure(drawn(), tmp_path / "a", "f")]
    again = [path.read_bytes() for path in save_figure(drawn(), tmp_path / "b", "f")]
    assert first == again
    with Image.open(tmp_path / "a" / "f.png") as image:
        assert image.width == round(160 * style.WIDTH)


def test_inline_figures(tmp_path):
    title, svg = embed(drawn("a $b$ <c> #0072b2"), tmp_path, "one")
    assert title.startswith("A finding that is long")
    assert "\n" not in title
    assert svg.startswith('<svg role="img" aria-label="A finding')
    assert "0.123456</text>" in svg  # numbers in words stay whole
    assert not re.search(r"\d\.\d{3}", re.sub(r">[^<]*<", "><", svg))  # coordinates do not
    assert "a $b$ &lt;c&gt; #0072b2</text>" in svg
    assert "var(--blue)" in svg
    assert "currentColor" in svg
    ids = set(re.findall(r' id="([^"]+)"', svg))
    assert ids
    assert all(name.startswith("one-") for name in ids)
    assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= ids
    assert "<style" not in svg  # it would hold for the whole page


def test_the_headline_is_cut_off(tmp_path):
    _, path = save_figure(drawn(), tmp_path, "one")
    heights = []
    for top in (0.0, 20.0):
        svg = inline_svg(path.read_text(encoding="utf-8"), "one", "t", top)
        heights.append(float(re.search(r'viewBox="0 [\d.]+ [\d.]+ ([\d.]+)"', svg)[1]))
    assert heights == [144.0, 124.0]
    figure = drawn()
    save_figure(figure, tmp_path, "two")
    assert 20 < style.headline_height(figure) < 50  # two lines of it


def test_large_figures_become_png(tmp_path, monkeypatch):
    monkeypatch.setattr("plusone.report.page.LARGEST_SVG", 100)
    _, image = embed(drawn(), tmp_path, "one")
    assert image.startswith('<img class="plot" alt="A finding')
