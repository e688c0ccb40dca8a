"""A page of photos with their predicted tags: filtered by tag, sorted by doubt, one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import Any, TextIO, cast

import numpy as np
import numpy.typing as npt

from plusone.prediction.clearest import MEANING, Box, clearest
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
    """Writes the page photo by photo, so that memory does not grow with their number.

    Args:
        file: The page.
        title: Its title.
        classes: Names of the classes.
        thresholds: Above which probability a class is a tag.
        box_of: Gives the part of a photo that a crop shows, from the number of the crop and the
            size of the photo; needed where predictions have crops.
    """

    def __init__(
        self,
        file: TextIO,
        title: str,
        classes: Sequence[str],
        thresholds: Thresholds,
        box_of: Callable[[int, tuple[int, int]], Box | None] | None = None,
    ) -> None:
        self.file, self.classes, self.cuts = file, classes, thresholds.array
        self.box_of = box_of
        self.counts: Counter[int] = Counter()
        self.shown = self.untagged = self.outlined = 0
        self.parts = cast("Any", templates("plusone.report").get_template("gallery.html").module)
        self.file.write(str(self.parts.head(title=title, version=__version__)))

    def add(self, predictions: Predictions) -> None:
        """Writes some photos."""
        scores = predictions.probabilities.double().numpy()
        doubt = doubts(scores, self.cuts)
        crops = None if predictions.crops is None else clearest(predictions.crops)
        with ThreadPoolExecutor(THREADS) as pool:
            for row, image in enumerate(pool.map(partial(thumbnail, side=SIDE), predictions.paths)):
                ranked = np.argsort(-scores[row], kind="stable")
                above = scores[row] > self.cuts
                tags = [(int(c), float(scores[row, c])) for c in ranked if above[c]]
                boxes: list[Box | None] = [None] * len(tags)
                if image is not None and crops is not None and self.box_of is not None:
                    boxes = [self.box_of(int(crops[row, c]), image.size) for c, _ in tags]
                self.outlined += any(boxes)
                likely = [c for c in ranked if not above[c] and scores[row, c] >= LIKELY_NEXT]
                self.counts.update(c for c, _ in tags)
                self.untagged += not tags
                card = self.parts.card(
                    name=predictions.ids[row],
                    number=self.shown,
                    image="" if image is None else data_uri(image),
                    first_part=next(filter(None, boxes), None),
                    tags=[
                        (c, self.classes[c], p, box)
                        for (c, p), box in zip(tags, boxes, strict=True)
                    ],
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
            meaning=MEANING if self.outlined else "",
            version=__version__,
            date=date.today().isoformat(),
        )
        self.file.write(str(tail))
