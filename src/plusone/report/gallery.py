"""A page of photos with their predicted tags: filtered by tag, sorted by doubt, one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
import numpy.typing as npt

from plusone.prediction.items import Skipped
from plusone.prediction.tags import Predictions
from plusone.probabilities.thresholds import Thresholds
from plusone.report.thumbnails import data_uri
from plusone.reviewing.pictures import thumbnail
from plusone.version import __version__
from plusone.web.templates import templates

SIDE = 240  # of a thumbnail
THREADS = 4  # that make thumbnails
NEXT = 2  # classes below their threshold that are shown
LIKELY_NEXT = 0.1  # and the probability from which on they are

Floats = npt.NDArray[np.float64]


def doubts(probabilities: Floats, thresholds: Floats) -> Floats:
    """The expected number of wrong labels of each item, if the probabilities are right.

    A predicted label is wrong with 1 - p, one that is not predicted with p. Shapes: `[N, L]` and
    `[L]` give `[N]`.

    >>> doubts(np.array([[0.9, 0.2], [0.5, 0.4]]), np.array([0.3, 0.3])).round(2).tolist()
    [0.3, 1.1]
    """
    above = probabilities > thresholds
    return np.asarray(np.where(above, 1 - probabilities, probabilities).sum(axis=1))


class GalleryTags:
    """Writes the page photo by photo, so that memory does not grow with their number."""

    def __init__(
        self, file: TextIO, title: str, classes: Sequence[str], thresholds: Thresholds
    ) -> None:
        self.file, self.classes, self.cuts = file, classes, thresholds.array
        self.counts: Counter[int] = Counter()
        self.shown = self.untagged = 0
        self.parts = cast("Any", templates("plusone.report").get_template("gallery.html").module)
        self.file.write(str(self.parts.head(title=title, version=__version__)))

    def add(self, predictions: Predictions) -> None:
        """Writes some photos."""
        scores = predictions.probabilities.double().numpy()
        doubt = doubts(scores, self.cuts)
        with ThreadPoolExecutor(THREADS) as pool:
            for row, image in enumerate(pool.map(_thumbnail, predictions.paths)):
                ranked = np.argsort(-scores[row], kind="stable")
                above = scores[row] > self.cuts
                tags = [(int(c), float(scores[row, c])) for c in ranked if above[c]]
                likely = [c for c in ranked if not above[c] and scores[row, c] >= LIKELY_NEXT]
                self.counts.update(c for c, _ in tags)
                self.untagged += not tags
                card = self.parts.card(
                    name=predictions.ids[row],
                    number=self.shown,
                    image=image,
                    tags=[(c, self.classes[c], p) for c, p in tags],
                    likely=[(self.classes[c], float(scores[row, c])) for c in likely[:NEXT]],
                    doubt=float(doubt[row]),
                )
                self.file.write(str(card))
                self.shown += 1

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Writes the list of tags, the skipped photos and the end of the page."""
        ranked = sorted(self.counts.items(), key=lambda pair: (-pair[1], pair[0]))
        tail = self.parts.tail(
            tags=[{"tag": c, "name": self.classes[c], "count": n} for c, n in ranked],
            untagged=self.untagged,
            skipped=[(one.id, one.reason) for one in skipped],
            version=__version__,
            date=date.today().isoformat(),
        )
        self.file.write(str(tail))


def _thumbnail(path: Path) -> str:
    """A small version of a photo as a data URI; "" if it can no longer be read."""
    image = thumbnail(path, SIDE)
    return "" if image is None else data_uri(image)
