"""Figures as files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from plusone.files import replacing
from plusone.report.style import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARP = 160  # dots per inch of a PNG


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes a figure as `NAME.png` and `NAME.svg`; the same figure gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    png, svg = (Path(folder) / f"{name}.{kind}" for kind in ("png", "svg"))
    with rc_context(STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # signs the drawing font does not have
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # everything has its place now: do not find it again
        figure.set_dpi(SHARP)
        # The canvases themselves: Figure.savefig would draw everything twice.
        with replacing(png) as part:
            FigureCanvasAgg(figure).print_png(part, metadata={"Software": None})  # type: ignore[no-untyped-call]
        with replacing(svg) as part:
            FigureCanvasSVG(figure).print_svg(part, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return [png, svg]
