"""Extras: how to install one, from where this package came from, and importing torchvision."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE = Path(__file__).parent
# torchvision's compiled operators may not match torch's version; no model uses them.
NMS_ERROR = "operator torchvision::nms does not exist"
NMS_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def install_command(extra: str) -> str:
    """The command that installs an extra beside this installation.

    Args:
        extra: Its name in `pyproject.toml`, such as "plots"; several with commas between them.
    """
    return join(["pip", "install", *_words(extra, PACKAGE, _installed())])


def import_torchvision() -> None:
    """Imports torchvision; if its operators are missing, declares them and tries again."""
    import torch

    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if NMS_ERROR not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]  # half-imported modules would not be imported again
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", NMS_SCHEMA)
        importlib.import_module("torchvision")


def _installed() -> Distribution | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("plusone")
    except PackageNotFoundError:
        return None


def _words(extra: str, package: Path, installed: Distribution | None) -> list[str]:
    """What to write after `pip install`.

    Args:
        extra: Name of the extra.
        package: The folder of the package that runs.
        installed: What pip knows of it; None if it was never installed.
    """
    from plusone.io.readers import parse_json

    record = None if installed is None else installed.read_text("direct_url.json")
    origin = parse_json(record or "{}")
    url, checkout = str(origin.get("url", "")), package.parents[1]
    if (checkout / "pyproject.toml").is_file():  # the package runs from its source
        return _from_checkout(checkout, extra, editable=installed is not None)
    if "vcs_info" in origin:
        version = origin["vcs_info"]
        at = f"{version['vcs']}+{url}@{version['commit_id']}"
        return [f"plusone[{extra}] @ {at}"]
    if url.startswith("file:"):
        from urllib.parse import urlparse
        from urllib.request import url2pathname

        source = Path(url2pathname(urlparse(url).path))
        if source.is_dir():
            return _from_checkout(source, extra, editable=False)
        if source.is_file():
            return [f"{source}[{extra}]"]
        return _packages(extra, installed)  # it has gone
    if url:
        return [f"plusone[{extra}] @ {url}"]
    return [f"plusone[{extra}]"]


def _from_checkout(folder: Path, extra: str, *, editable: bool) -> list[str]:
    bounds, source = folder / "constraints.txt", str(folder)
    if folder.resolve() == Path.cwd():
        bounds, source = Path("constraints.txt"), "."
    known = ["-c", str(bounds)] if bounds.is_file() else []
    return [*known, *(["-e"] if editable else []), f"{source}[{extra}]"]


def _packages(extra: str, installed: Distribution | None) -> list[str]:
    """The packages that the extra brings."""
    found = []
    wanted = {f'extra == "{name}"' for name in extra.split(",")}
    for line in (installed.requires if installed is not None else None) or ():
        requirement, _, condition = line.partition(";")
        if condition.replace("'", '"').strip() in wanted:
            found.append(requirement.strip())
    return found
