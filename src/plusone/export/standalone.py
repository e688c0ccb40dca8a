"""Predicts with the model.onnx in this folder, without plusone and without torch.

pip install onnxruntime numpy pillow
python predict.py photo.jpg more-photos > tags.csv
python predict.py features.npz > tags.csv            (a model on features: x and ids)

From Python:

    from predict import Model
    model = Model("model.onnx")
    model.labels(model.probabilities([model.read("photo.jpg")]))

plusone writes this file beside model.onnx. Images are prepared as in training: upright, RGB, cut
and resized to the input of the model; the graph scales them and gives calibrated probabilities.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

MODEL = Path(__file__).with_name("model.onnx")
BATCH = 16
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
KINDS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
MIDDLE = 224 / 256  # share of the short side that "crop" keeps


class Model:
    """The model of an ONNX file that plusone wrote."""

    def __init__(self, path: str | Path = MODEL) -> None:
        import onnxruntime

        self.session: Any = onnxruntime.InferenceSession(
            str(path), providers=["CPUExecutionProvider"]
        )
        about = self.session.get_modelmeta().custom_metadata_map
        self.input = json.loads(about["input"])
        self.classes: list[str] = json.loads(about["classes"])
        thresholds = json.loads(about["thresholds"])
        self.thresholds = np.array([thresholds[name] for name in self.classes])
        self.images = self.input["type"] == "uint8"

    def read(self, path: str | Path) -> npt.NDArray[np.uint8]:
        """One image file as the input of the model: `[3, H, W]`, or `[crops, 3, H, W]`."""
        channels, height, width = self.input["shape"][-3:]
        with Image.open(path, formats=KINDS) as file:
            deep = file.mode[:4] == "I;16" or (file.mode == "I" and file.format == "PNG")
            file.load()
            image = _eight_bits(ImageOps.exif_transpose(file), deep)
        image = image.convert("RGB" if channels == 3 else "L")
        crops = self.input.get("crops") or [[0, 0, 1, 1]]
        views = [self._view(image, crop, (width, height)) for crop in crops]
        return np.stack(views) if len(views) > 1 else views[0]

    def _view(
        self, image: Image.Image, crop: Sequence[float], size: tuple[int, int]
    ) -> npt.NDArray[np.uint8]:
        """A crop of an image as bytes `[C, H, W]`."""
        sides = (image.width, image.height, image.width, image.height)
        part = image.crop([round(share * side) for share, side in zip(crop, sides, strict=True)])  # type: ignore[arg-type]
        if self.input.get("aspect") == "crop":
            # The middle square, as `plusone.data.images.middle` cuts it.
            side = max(1, round(min(part.size) * size[0] / round(size[0] / MIDDLE)))
            left, top = (part.width - side) // 2, (part.height - side) // 2
            part = part.crop((left, top, left + side, top + side))
        pixels = np.asarray(part.resize(size, Image.Resampling.BILINEAR))
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)

    def probabilities(self, items: Sequence[npt.ArrayLike]) -> npt.NDArray[np.float32]:
        """Calibrated probabilities `[N, L]` of N inputs."""
        batch = np.ascontiguousarray(np.stack(items), dtype=self.input["type"])
        (result,) = self.session.run(None, {self.input["name"]: batch})
        return np.asarray(result, dtype=np.float32)

    def labels(self, probabilities: npt.NDArray[np.float32]) -> list[list[str]]:
        """The classes above their thresholds, most likely first, for each row of `[N, L]`."""
        scores = probabilities.astype(np.float64)
        above = scores > self.thresholds
        return [
            [self.classes[c] for c in np.argsort(-row, kind="stable") if chosen[c]]
            for row, chosen in zip(scores, above, strict=True)
        ]


def _eight_bits(image: Image.Image, sixteen_bits: bool) -> Image.Image:
    """Grey of more than 8 bits per pixel as bytes: 16 bits by their full range."""
    if image.mode[0] not in "IF":
        return image
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    if sixteen_bits or values.max() > 255:
        values /= 257
    elif image.mode == "F" and values.max() <= 1:
        values *= 255
    return Image.fromarray(values.clip(0, 255).round().astype(np.uint8))


def items(model: Model, arguments: Sequence[str]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Names and inputs of what the arguments lead to; files that cannot be read are named."""
    for argument in map(Path, arguments):
        if not model.images:
            with np.load(argument, allow_pickle=False) as file:
                yield from zip(map(str, file["ids"]), file["x"].astype(np.float32), strict=True)
            continue
        found = sorted(argument.rglob("*")) if argument.is_dir() else [argument]
        for path in found:
            if argument.is_dir() and path.suffix.lower() not in SUFFIXES:
                continue
            name = path.relative_to(argument).as_posix() if argument.is_dir() else str(path)
            try:
                yield name, model.read(path)
            except Exception as error:  # broken files make decoders fail in many ways
                print(f"skipped {name}: {error}", file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """Writes a line per item: its name, its labels, a probability per class."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__, file=sys.stderr)
        return 2
    model = Model()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["image", "labels", *model.classes])
    pending: list[tuple[str, npt.NDArray[Any]]] = []
    done = 0

    def write() -> None:
        probabilities = model.probabilities([item for _, item in pending])
        labels = model.labels(probabilities)
        for (name, _), row, tags in zip(pending, probabilities, labels, strict=True):
            writer.writerow([name, "|".join(tags), *(f"{value:.4f}" for value in row)])
        pending.clear()

    for item in items(model, arguments):
        pending.append(item)
        done += 1
        if len(pending) == BATCH:
            write()
    if pending:
        write()
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
