"""Drawn scenes: small colour pictures of a landscape, and what they show.

They stand for photos where none can be shipped: each shows one to six of ten kinds of things, of
random size, place and colour, partly hidden by each other. The same number draws the same scene.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from plusone.data.images import open_image

# Drawn in this order: what is behind comes first.
CLASSES = (
    "sun", "cloud", "mountain", "house", "tree", "boat", "car", "person", "flower", "bird",
)  # fmt: skip
WIDTH, HEIGHT = 192, 144
SCALE = 2  # drawn larger, for smooth edges
LIKELY = 0.32  # share of scenes with a class
LEAST = 0.004  # share of the picture that must be seen of a thing
GROUNDS = ((104, 150, 72), (130, 170, 86), (196, 176, 120), (150, 140, 120), (226, 230, 236))
SKIES = (
    ((90, 150, 220), (200, 225, 245)),
    ((70, 90, 150), (240, 180, 130)),
    ((150, 160, 175), (215, 218, 222)),
    ((110, 180, 230), (235, 240, 225)),
)
BRIGHT = (
    (200, 50, 50), (40, 90, 170), (230, 190, 60), (60, 60, 66), (235, 235, 235), (90, 150, 90),
    (150, 70, 140),
)  # fmt: skip
GREENS = ((40, 110, 50), (70, 130, 60), (110, 120, 40), (150, 100, 40), (30, 85, 65))
SKIN = ((240, 205, 175), (205, 155, 115), (140, 95, 65), (95, 65, 45))

Colour = tuple[int, int, int]
Points = Sequence[tuple[float, float]]


class _Canvas:
    """A picture, and which thing each of its pixels shows.

    Points are given in heights of a thing, from the middle of its foot: x to the right, y up.
    """

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw = draw
        size = (WIDTH * SCALE, HEIGHT * SCALE)
        self.image, self.owner = Image.new("RGB", size), Image.new("L", size)
        self.on = (ImageDraw.Draw(self.image), ImageDraw.Draw(self.owner))
        self.number, self.x, self.y, self.size = 0, 0.0, 0.0, 1.0

    def pick(self, colours: Sequence[Colour]) -> Colour:
        """One of some colours, a little changed."""
        colour = np.array(colours[int(self.draw.integers(len(colours)))])
        shift = self.draw.integers(-14, 15, 3)
        r, g, b = np.clip(colour + shift, 0, 255).tolist()
        return r, g, b

    def polygon(self, points: Points, colour: Colour) -> None:
        """A filled polygon."""
        places = [(self.x + self.size * x, self.y - self.size * y) for x, y in points]
        self.on[0].polygon(places, fill=colour)
        self.on[1].polygon(places, fill=self.number)

    def box(self, left: float, bottom: float, right: float, top: float, colour: Colour) -> None:
        """A filled rectangle."""
        self.polygon([(left, bottom), (right, bottom), (right, top), (left, top)], colour)

    def disc(self, x: float, y: float, radius: float, colour: Colour, flat: float = 1.0) -> None:
        """A filled circle, or an ellipse that is `flat` times as high."""
        angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        ring = zip(x + radius * np.cos(angle), y + flat * radius * np.sin(angle), strict=True)
        self.polygon([(float(a), float(b)) for a, b in ring], colour)


def _sun(c: _Canvas) -> None:
    yellow = c.pick([(250, 215, 80), (245, 150, 60)])
    for turn in np.linspace(0, 2 * np.pi, 12, endpoint=False):
        tips = [(0.5, turn), (0.3, turn + 0.12), (0.3, turn - 0.12)]
        c.polygon([(r * np.cos(a), 0.5 + r * np.sin(a)) for r, a in tips], yellow)
    c.disc(0, 0.5, 0.33, yellow)


def _cloud(c: _Canvas) -> None:
    white = c.pick([(245, 246, 248), (205, 208, 214)])
    for _ in range(7):
        x, y = c.draw.uniform(-0.9, 0.9), c.draw.uniform(0.2, 0.5)
        c.disc(float(x), float(y), float(c.draw.uniform(0.25, 0.45)), white)
    c.disc(0, 0.25, 1.1, white, 0.25)


def _mountain(c: _Canvas) -> None:
    rock = c.pick([(110, 110, 125), (125, 105, 90), (90, 105, 120)])
    top = float(c.draw.uniform(-0.3, 0.3))
    c.polygon([(-1.3, 0), (top, 1), (1.2, 0)], rock)
    snow = [(top, 1), (top - 0.3, 0.76), (top - 0.1, 0.8), (top + 0.05, 0.7), (top + 0.28, 0.77)]
    c.polygon(snow, (244, 246, 250))


def _house(c: _Canvas) -> None:
    wall, roof = c.pick([(225, 205, 170), (190, 110, 90), (235, 235, 225)]), c.pick(BRIGHT)
    c.box(-0.5, 0, 0.5, 0.6, wall)
    c.polygon([(-0.62, 0.6), (0, 1), (0.62, 0.6)], roof)
    c.box(0.28, 0.75, 0.4, 1.0, (120, 80, 70))
    c.box(-0.1, 0, 0.1, 0.34, (105, 70, 45))
    for x in (-0.32, 0.32):
        c.box(x - 0.1, 0.25, x + 0.1, 0.45, (90, 125, 160))


def _tree(c: _Canvas) -> None:
    green = c.pick(GREENS)
    c.box(-0.06, 0, 0.06, 0.45, (100, 72, 48))
    if c.draw.random() < 0.5:
        for low in (0.2, 0.42, 0.64):
            wide = 0.42 - 0.4 * low
            c.polygon([(-wide, low), (0, low + 0.4), (wide, low)], green)
        return
    for _ in range(6):
        x, y = c.draw.uniform(-0.2, 0.2), c.draw.uniform(0.5, 0.78)
        c.disc(float(x), float(y), 0.2, green)


def _boat(c: _Canvas) -> None:
    label, c.number = c.number, 0  # the water is no part of it
    c.box(-99, -0.5, 99, 0.08, c.pick([(60, 110, 170), (70, 140, 160)]))
    c.number = label
    c.polygon([(-0.55, 0.22), (0.6, 0.22), (0.4, 0), (-0.4, 0)], c.pick(BRIGHT))
    c.box(-0.02, 0.2, 0.02, 1, (90, 70, 50))
    c.polygon([(0.05, 0.3), (0.05, 0.97), (0.52, 0.3)], (246, 244, 236))
    c.polygon([(-0.05, 0.3), (-0.05, 0.85), (-0.4, 0.3)], c.pick(BRIGHT))


def _car(c: _Canvas) -> None:
    paint = c.pick(BRIGHT)
    c.box(-1.1, 0.2, 1.1, 0.6, paint)
    c.polygon([(-0.7, 0.6), (-0.45, 1), (0.4, 1), (0.75, 0.6)], paint)
    c.polygon([(-0.58, 0.62), (-0.4, 0.92), (-0.04, 0.92), (-0.04, 0.62)], (175, 205, 225))
    c.polygon([(0.04, 0.62), (0.04, 0.92), (0.35, 0.92), (0.6, 0.62)], (175, 205, 225))
    for x in (-0.65, 0.65):
        c.disc(x, 0.2, 0.22, (35, 35, 38))
        c.disc(x, 0.2, 0.1, (170, 170, 175))


def _person(c: _Canvas) -> None:
    skin, shirt, trousers = c.pick(SKIN), c.pick(BRIGHT), c.pick(BRIGHT)
    for x in (-0.07, 0.07):
        c.box(x - 0.055, 0, x + 0.055, 0.45, trousers)
    c.box(-0.14, 0.42, 0.14, 0.8, shirt)
    reach = float(c.draw.uniform(-0.1, 0.35))
    for side in (-1, 1):
        arm = [(side * 0.13, 0.8), (side * 0.33, 0.48 + reach), (side * 0.27, 0.44 + reach)]
        c.polygon([*arm, (side * 0.13, 0.66)], skin)
    c.disc(0, 0.9, 0.1, skin)
    c.polygon([(-0.1, 0.92), (-0.08, 1.0), (0.08, 1.0), (0.1, 0.92)], c.pick(((60, 40, 30),)))


def _flower(c: _Canvas) -> None:
    petals = c.pick([(225, 60, 80), (240, 200, 60), (170, 90, 190), (250, 250, 250)])
    c.box(-0.025, 0, 0.025, 0.7, (60, 130, 60))
    c.polygon([(0, 0.15), (0.25, 0.4), (0.05, 0.35)], (60, 140, 60))
    for turn in np.linspace(0, 2 * np.pi, 6, endpoint=False):
        c.disc(float(0.17 * np.cos(turn)), float(0.75 + 0.17 * np.sin(turn)), 0.12, petals)
    c.disc(0, 0.75, 0.1, (235, 180, 40))


def _bird(c: _Canvas) -> None:
    feathers = c.pick([(50, 50, 60), (110, 85, 65), (225, 225, 228), (70, 110, 160)])
    lift = float(c.draw.uniform(0.1, 0.5))
    c.disc(0, 0.4, 0.35, feathers, 0.5)
    c.disc(0.38, 0.52, 0.14, feathers)
    c.polygon([(0.5, 0.56), (0.68, 0.5), (0.5, 0.47)], (235, 160, 50))
    c.polygon([(-0.3, 0.45), (-0.7, 0.55), (-0.65, 0.35)], feathers)
    for side in (-0.25, 0.1):
        c.polygon([(side - 0.15, 0.45), (side - 0.45, 0.5 + lift), (side + 0.2, 0.45)], feathers)
    c.disc(0.42, 0.55, 0.03, (20, 20, 20))


THINGS: dict[str, Callable[[_Canvas], None]] = {
    "sun": _sun, "cloud": _cloud, "mountain": _mountain, "house": _house, "tree": _tree,
    "boat": _boat, "car": _car, "person": _person, "flower": _flower, "bird": _bird,
}  # fmt: skip
# Where the foot of a thing may be, and its height: shares of the picture's height, from the top.
PLACES = {
    "sun": (0.18, 0.4, 0.12, 0.3), "cloud": (0.12, 0.35, 0.08, 0.2),
    "mountain": (0.55, 0.58, 0.25, 0.5), "boat": (0.62, 0.95, 0.15, 0.5),
    "bird": (0.15, 0.6, 0.08, 0.3),
}  # fmt: skip
ON_THE_GROUND = (0.6, 1.0, 0.15, 0.6)


def draw_scene(number: int) -> tuple[Image.Image, npt.NDArray[np.uint8]]:
    """A scene, and the class of each pixel at `SCALE` times its size, `[H, W]`, from 1, or 0."""
    draw = np.random.default_rng((2026, number))
    present = draw.random(len(CLASSES)) < LIKELY
    if not present.any():
        present[draw.integers(len(CLASSES))] = True
    canvas = _Canvas(draw)
    _background(canvas)
    for label in np.flatnonzero(present).tolist():
        high, low, least, most = PLACES.get(CLASSES[label], ON_THE_GROUND)
        canvas.number = label + 1
        # Most things are small, and a few fill the picture.
        canvas.size = HEIGHT * SCALE * (least + (most - least) * float(draw.beta(1, 2)))
        canvas.x = WIDTH * SCALE * float(draw.uniform(0.12, 0.88))
        canvas.y = HEIGHT * SCALE * float(draw.uniform(high, low))
        THINGS[CLASSES[label]](canvas)
    shown = np.array(canvas.owner)
    if not shares(shown).any():
        return draw_scene(number + 1_000_000)
    image = canvas.image.resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    noise = draw.normal(0, 4, (HEIGHT, WIDTH, 1))
    pixels = np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels), shown


def shares(shown: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Which share of a scene each class covers, `[L]`; 0 for what is not there."""
    counts = np.bincount(shown.ravel(), minlength=len(CLASSES) + 1)
    share = counts[1:] / counts.sum()
    share[share < LEAST] = 0
    return np.asarray(share)


@lru_cache(maxsize=2)
def draw_scenes(first: int, count: int) -> tuple[tuple[bytes, ...], npt.NDArray[np.float64]]:
    """Some scenes as JPEG files, and which share of each its classes cover, `[N, L]`."""
    files, covered = [], np.zeros((count, len(CLASSES)))
    for row in range(count):
        image, shown = draw_scene(first + row)
        covered[row] = shares(shown)
        file = BytesIO()
        image.save(file, "JPEG", quality=88)
        files.append(file.getvalue())
    return tuple(files), covered


def grey(file: bytes) -> npt.NDArray[np.uint8]:
    """A scene in grey and half its size, `[72, 96]`."""
    image = open_image(file).convert("L")
    return np.asarray(image.resize((WIDTH // 2, HEIGHT // 2), Image.Resampling.BOX))


def _background(canvas: _Canvas) -> None:
    """Sky and ground."""
    draw = canvas.draw
    high, low = (np.array(colour) for colour in SKIES[int(draw.integers(len(SKIES)))])
    rows = np.linspace(0, 1, HEIGHT * SCALE)[:, None]
    sky = (high + (low - high) * rows).astype(np.uint8)
    canvas.image.paste(Image.fromarray(np.repeat(sky[:, None], WIDTH * SCALE, axis=1)))
    canvas.size, canvas.x, canvas.y = HEIGHT * SCALE, 0, HEIGHT * SCALE
    canvas.box(0, 0, WIDTH / HEIGHT, float(draw.uniform(0.4, 0.48)), canvas.pick(GROUNDS))
