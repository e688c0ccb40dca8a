"""How a scene looks: every knob of its difficulty."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """Everything that decides how a scene looks; part of the cache's file name.

    Attributes:
        counts: Probability of 1, 2, ... 5 distinct classes on a scene.
        twice: Chance that one more digit of a class already on the scene is added.
        weights: Relative weight of each class, before the theme.
        themes: Groups of classes that like to appear together.
        theme_shares: Probability of each theme.
        theme_pull: Factor on the weight of a class that belongs to the scene's theme.
        height: Smallest and largest height of a digit in pixels.
        aspect: Smallest and largest width / height factor.
        turn: Largest rotation in radians, either way.
        shear: Largest horizontal shear, either way.
        ink: Smallest and largest brightness of a digit above the background.
        overlap: Share of a digit's box that others may cover before another place is tried.
        tries: Places tried per digit; the least covered one is taken.
        fragments: Smallest and largest number of clutter pieces (torn from digits).
        fragment_ink: Smallest and largest brightness of a clutter piece.
        ground: Largest brightness of the uneven background.
        noise: Smallest and largest standard deviation of the pixel noise.
    """

    counts: tuple[float, ...] = (0.19, 0.32, 0.28, 0.14, 0.07)
    twice: float = 0.2
    weights: tuple[float, ...] = (0.95, 2.6, 0.75, 1.7, 0.62, 1.0, 0.42, 2.0, 1.2, 0.8)
    themes: tuple[tuple[int, ...], ...] = ((1, 7, 4), (3, 8, 5), (0, 6, 9, 2), ())
    theme_shares: tuple[float, ...] = (0.3, 0.25, 0.2, 0.25)
    theme_pull: float = 5.0
    height: tuple[float, float] = (16.0, 29.0)
    aspect: tuple[float, float] = (0.8, 1.15)
    turn: float = 0.2
    shear: float = 0.15
    ink: tuple[float, float] = (0.36, 0.95)
    overlap: float = 0.12
    tries: int = 5
    fragments: tuple[int, int] = (2, 5)
    fragment_ink: tuple[float, float] = (0.2, 0.65)
    ground: float = 0.25
    noise: tuple[float, float] = (0.02, 0.085)


LOOK = Look()
PLACES = len(LOOK.counts) + 1
