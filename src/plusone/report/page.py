"""The page: sections rendered as HTML, figures embedded as SVG or PNG."""

from __future__ import annotations

import base64
import html
import io
import re
import warnings
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from plusone.io.files import replacing
from plusone.report import style
from plusone.report.blocks import Section
from plusone.report.style import STYLE
from plusone.version import __version__
from plusone.web.templates import templates

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CHIPS = {
    "seen": ("●", "seen in training"),
    "found": ("✓", "hidden and found"),
    "missed": ("○", "hidden and missed"),
    "wrong": ("✕", "predicted but not true"),
    "likely": ("?", "likely; the truth is unknown"),
}


def render(title: str, sections: Sequence[Section], notes: Sequence[str] = ()) -> str:
    """The whole page."""
    return (
        templates("plusone.report")
        .get_template("page.html")
        .render(
            title=title,
            sections=sections,
            notes=notes,
            version=__version__,
            date=date.today().isoformat(),
            chips=CHIPS,
        )
    )


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
    """Saves a figure; returns its headline, and the figure without it as HTML."""
    png, svg = save_figure(figure, folder, name)
    title = style.plain(figure.get_suptitle(), 400)
    top = style.headline_height(figure)
    code = inline_svg(svg.read_text(encoding="utf-8"), name, title, top)
    if len(code) > LARGEST_SVG:
        code = _png(png, title, top / (72 * figure.get_figheight()))
    return title, code


def inline_svg(svg: str, name: str, title: str, top: float = 0.0) -> str:
    """An SVG file as an element: text stays text, colours are the page's, ids are unique.

    No other figure of the page has this name. The headline is cut off: `top` points.
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


SHARP = 160  # dots per inch of a PNG


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes a figure as `NAME.png` and `NAME.svg`; the same figure gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    png, svg = (Path(folder) / f"{name}.{kind}" for kind in ("png", "svg"))
    with rc_context(STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters that the font lacks
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)
        figure.set_layout_engine("none")  # the layout is final
        figure.set_dpi(SHARP)
        # The canvases themselves: Figure.savefig would draw everything twice.
        with replacing(png) as part:
            FigureCanvasAgg(figure).print_png(part, metadata={"Software": None})  # type: ignore[no-untyped-call]
        with replacing(svg) as part:
            FigureCanvasSVG(figure).print_svg(part, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return [png, svg]
