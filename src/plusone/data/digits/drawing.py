"""Putting digits on a canvas: shape, place, ink."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plusone.data.digits.look import PLACES, Look
from plusone.data.digits.sources import SIZE, SOURCE_SIDE


def render(
    digits: npt.NDArray[np.float32],
    width: npt.NDArray[np.float32],
    height: npt.NDArray[np.float32],
    turn: npt.NDArray[np.float32],
    shear: npt.NDArray[np.float32],
    side: int,
) -> npt.NDArray[np.float32]:
    """Draws digits enlarged, turned and sheared, by bilinear sampling.

    Args:
        digits: float32 [M, 10, 10], 8 x 8 digits with an empty border.
        width: float32 [M] width of the drawn 8 x 8 square in pixels.
        height: float32 [M] height of it.
        turn: float32 [M] rotation in radians.
        shear: float32 [M] horizontal shear.
        side: Side of the square patch that is returned.

    Returns:
        float32 [M, side, side], the digit centred in the patch.
    """
    m = len(digits)
    axis = np.arange(side, dtype=np.float32) - np.float32((side - 1) / 2)
    v, u = axis[None, :, None], axis[None, None, :]
    cos, sin = np.cos(turn)[:, None, None], np.sin(turn)[:, None, None]
    row = (cos * v - sin * u) * (SOURCE_SIDE / height)[:, None, None]
    column = (cos * u + sin * v) * (SOURCE_SIDE / width)[:, None, None]
    column += shear[:, None, None] * row
    middle, last = np.float32((SOURCE_SIDE + 1) / 2), np.float32(SOURCE_SIDE + 1 - 1e-3)
    row, column = np.clip(row + middle, 0, last), np.clip(column + middle, 0, last)
    top, left = row.astype(np.int32), column.astype(np.int32)
    row -= top
    column -= left
    stride = SOURCE_SIDE + 2
    at = top * stride + left + (np.arange(m, dtype=np.int32) * stride**2)[:, None, None]
    flat = digits.reshape(-1)
    upper = flat[at] * (1 - column) + flat[at + 1] * column
    lower = flat[at + stride] * (1 - column) + flat[at + stride + 1] * column
    drawn: npt.NDArray[np.float32] = upper * (1 - row) + lower * row
    return drawn


def uniform(
    rng: np.random.Generator, bounds: tuple[float, float], shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    """Uniform float32 numbers between two bounds."""
    return rng.uniform(bounds[0], bounds[1], shape).astype(np.float32)


def find_places(
    rng: np.random.Generator,
    present: npt.NDArray[np.bool_],
    width: npt.NDArray[np.float32],
    height: npt.NDArray[np.float32],
    look: Look,
) -> npt.NDArray[np.float32]:
    """Finds a place for every digit: the first try covered little enough, else the least covered.

    Args:
        rng: Source of the tries.
        present: bool [chunk, 6], where there is a digit.
        width: float32 [chunk, 6] in pixels.
        height: float32 [chunk, 6] in pixels.
        look: Gives the number of tries and the overlap that is accepted.

    Returns:
        float32 [chunk, 6, 4] centre x, centre y, width, height.
    """
    tries = rng.random((*present.shape, look.tries, 2), dtype=np.float32)
    half = np.stack([width, height], -1)[:, :, None, :] / 2
    inset = 0.85 * half  # the outermost columns of a digit are mostly empty
    centres = inset + tries * (SIZE - 2 * inset)
    boxes = np.concatenate([centres[:, :, 0], 2 * half[:, :, 0]], -1)
    for j in range(1, PLACES):
        centre = centres[:, j, :, None, :]  # [chunk, tries, 1, 2]
        other = boxes[:, None, :j]
        reach = half[:, j, :, None, :] + other[..., 2:] / 2 - np.abs(centre - other[..., :2])
        smaller = np.minimum(2 * half[:, j, :, None, :], other[..., 2:])
        common = np.clip(np.minimum(reach, smaller), 0, None).prod(-1)
        area = np.minimum((width * height)[:, j, None, None], other[..., 2:].prod(-1))
        cover = (common / area * present[:, None, :j]).max(-1)
        best = np.where(cover <= look.overlap, -1.0, cover).argmin(-1)
        boxes[:, j, :2] = centres[np.arange(len(present)), j, best]
    return boxes.astype(np.float32)


def paste(
    canvas: npt.NDArray[np.float32],
    scene: npt.NDArray[np.int64],
    patches: npt.NDArray[np.float32],
    x: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
) -> None:
    """Lays patches [M, side, side] over canvases [chunk, 64 + 2 side, ...]; bright ink wins."""
    side = patches.shape[-1]
    tops = np.round(y - side / 2).astype(int) + side
    lefts = np.round(x - side / 2).astype(int) + side
    for i, top, left, patch in zip(
        scene.tolist(), tops.tolist(), lefts.tolist(), patches, strict=True
    ):
        window = canvas[i, top : top + side, left : left + side]
        np.maximum(window, patch, out=window)
