"""Figures as parts of a page: inline SVG that follows the page's colours, or a PNG."""

from __future__ import annotations

import base64
import html
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from plusone.report import style
from plusone.report.save import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_SVG = 150_000  # characters; a larger one is embedded as PNG

INKS = {
    style.INK: "currentColor",
    style.MUTED: "var(--muted)",
    style.GRID: "var(--grid)",
    style.PAPER: "var(--card)",
    style.BLUE: "var(--blue)",
    style.GREEN: "var(--green)",
    style.PINK: "var(--pink)",
    style.ORANGE: "var(--orange)",
    style.SKY: "var(--sky)",
    style.VERMILLION: "var(--vermillion)",
}


def embed(figure: Figure, folder: Path, name: str) -> tuple[str, str]:
    """Saves a figure and gives its headline and the rest of it as HTML.

    Args:
        figure: With a headline, which the page shows as text.
        folder: Where the files go.
        name: A name that no other figure of the page has.
    """
    png, svg = save_figure(figure, folder, name)
    title = style.plain(figure.get_suptitle(), 400)
    top = style.headline_height(figure)
    code = inline_svg(svg.read_text(encoding="utf-8"), name, title, top)
    if len(code) > LARGEST_SVG:
        code = _png(png, title, top / (72 * figure.get_figheight()))
    return title, code


def inline_svg(svg: str, name: str, title: str, top: float = 0.0) -> str:
    """An SVG file as an element: text stays text, inks are the page's, ids are its own.

    Args:
        svg: What matplotlib wrote.
        name: A name that no other figure of the page has.
        title: What the figure shows, for those who cannot see it.
        top: Height of the headline, which is cut off, in points.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = svg.replace(f'<g id="{style.HEADLINE}"', '<g display="none"')
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    svg = re.sub(r"<[^>]+>", lambda found: _tag(found[0], name, used), svg)
    svg = re.sub(r">\s+<", "><", svg)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert box is not None
    width, height = float(box[1]), float(box[2])
    place = f"0 {top:.1f} {width:g} {height - top:.1f}"
    label = html.escape(title)
    inches = f"--inches: {width / 72:.2f}"
    head = f'<svg role="img" aria-label="{label}" style="{inches}" viewBox="{place}">'
    return head + svg[svg.index(">") + 1 :].strip()


def _tag(tag: str, name: str, used: set[str]) -> str:
    """One tag with the page's inks, ids of its own where they are used, and short numbers."""
    tag = re.sub(
        r' id="([^"]+)"',
        lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "",
        tag,
    )
    tag = re.sub(r'(url\(|href=")#', rf"\g<1>#{name}-", tag)
    tag = re.sub(r"(\d+\.\d\d)\d+", r"\1", tag)
    for colour, ink in INKS.items():
        tag = re.sub(rf"(?i)(: ?){colour}", rf"\g<1>{ink}", tag)
    return tag


def _png(path: Path, title: str, top: float) -> str:
    """A PNG file as an element, without the share of it at the top that is the headline."""
    stream = io.BytesIO()
    with Image.open(path) as image:
        cut = image.crop((0, round(top * image.height), image.width, image.height))
        cut.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(stream, format="PNG")
    code = base64.b64encode(stream.getvalue()).decode("ascii")
    return f'<img class="plot" alt="{html.escape(title)}" src="data:image/png;base64,{code}">'
