"""Near duplicates: which copies of photos are found, and which pairs of different photos.

    python benchmarks/near_duplicates.py FOLDER

FOLDER has ucmerced (2,100 photos of 256 pixels) and VOCdevkit (3,000 drawn photos with a short side
of 128 pixels, seed 0). To all photos of a set a copy of each of the first 700 is added, of one kind
at a time: the same file, saved again with JPEG quality 60, half the size (quality 85), mirrored, or
the middle 90 % or 75 % of each side (quality 90). Recall is the share of the 700 pairs that are
found. "Others" are pairs of different photos that are found among the photos alone; precision takes
them for wrong (`--sheet FILE` draws some). Features are those of lite0 at 224 and 128 pixels;
`--keep FOLDER` keeps them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps

from plusone.compare.results_table import markdown
from plusone.data.duplicates import Pairs, image_hash, near_features, near_hashes
from plusone.data.images import cut, open_image
from plusone.data.source import load_source
from plusone.features.encoder import Encoder

COPIES = 700
SETS = {"ucmerced": ("ucmerced/labels.csv", 224, 2100), "voc": ("VOCdevkit", 128, 3000)}


def saved(image: Image.Image, quality: int) -> Image.Image:
    """An image as a JPEG file shows it."""
    file = BytesIO()
    image.save(file, "JPEG", quality=quality)
    return open_image(file.getvalue())


def middle(image: Image.Image, share: float) -> Image.Image:
    """The middle of an image, by share of its sides."""
    width, height = round(share * image.width), round(share * image.height)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def halved(image: Image.Image) -> Image.Image:
    """An image of half the size."""
    return image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS)


KINDS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "the same file": lambda image: image,
    "saved again, quality 60": lambda image: saved(image, 60),
    "half the size": lambda image: saved(halved(image), 85),
    "mirrored": ImageOps.mirror,
    "middle 90 % of each side": lambda image: saved(middle(image, 0.9), 90),
    "middle 75 % of each side": lambda image: saved(middle(image, 0.75), 90),
}


def features_of(images: list[Image.Image], encoder: Encoder) -> np.ndarray:
    """Features `[N, D]` of images."""
    parts, size = [], (encoder.size, encoder.size)
    for start in range(0, len(images), encoder.rows):
        pixels = [np.array(image) for image in images[start : start + encoder.rows]]
        views = [cut(torch.from_numpy(one).permute(2, 0, 1)[None], "one", size) for one in pixels]
        parts.append(encoder(torch.cat([view[:, 0] for view in views])))
    return np.concatenate(parts)


def found(pairs: Pairs) -> set[tuple[int, int]]:
    """All pairs."""
    return {pair for part in pairs for pair in zip(*map(np.ndarray.tolist, part), strict=True)}


def main() -> None:
    """Prints a table for each set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--sheet", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, (place, size, number) in SETS.items():
        table = load_source(str(args.folder / place), check_images=False).table
        rng = np.random.default_rng(0)
        rows = np.sort(rng.permutation(len(table))[:number])
        images = [open_image(table.path(row)) for row in rows]
        encoder, kept = Encoder("lite0", size), args.keep / f"near-duplicates-{name}.npz"
        arrays = dict(np.load(kept)) if kept.exists() else {}
        for kind, change in {"": KINDS["the same file"], **KINDS}.items():
            if f"x {kind}" not in arrays:
                some = images if not kind else [change(image) for image in images[:COPIES]]
                arrays[f"x {kind}"] = features_of(some, encoder)
                arrays[f"h {kind}"] = np.stack([image_hash(image) for image in some])
                np.savez(kept, **arrays)
                print(name, kind or "photos", flush=True)
        table_rows = []
        ways: dict[str, Callable[[np.ndarray], Pairs]] = {"x": near_features, "h": near_hashes}
        others = {way: found(pairs(arrays[f"{way} "])) for way, pairs in ways.items()}
        for kind in KINDS:
            cells = []
            for way, pairs in ways.items():
                both = np.concatenate([arrays[f"{way} "], arrays[f"{way} {kind}"]])
                all_pairs = found(pairs(both))
                right = sum((row, number + row) in all_pairs for row in range(COPIES))
                precision = right / max(right + len(others[way]), 1)
                cells += [f"{100 * right / COPIES:.1f}", f"{100 * precision:.1f}"]
            table_rows.append((kind, *cells))
        n_pairs = number * (number - 1) // 2
        print(f"\n{name}: {number:,} photos, {n_pairs:,} pairs; others found: "
              f"{len(others['x'])} by features, {len(others['h'])} by images")  # fmt: skip
        columns = ("copy", "features: recall %", "precision %", "images: recall %", "precision %")
        print(markdown(columns, table_rows), flush=True)
        if args.sheet is not None:
            for way in ways:
                path = args.sheet.with_stem(f"{args.sheet.stem}-{name}-{way}")
                draw_pairs(sorted(others[way]), images, path)


def draw_pairs(pairs: list[tuple[int, int]], images: list[Image.Image], path: Path) -> None:
    """Draws at most 40 pairs, evenly taken."""
    some = pairs[:: max(1, -(-len(pairs) // 40))]
    sheet = Image.new("RGB", (8 * 250, 5 * 125))
    for place, pair in enumerate(some):
        for side, row in enumerate(pair):
            small = images[row].copy()
            small.thumbnail((120, 120))
            sheet.paste(small, (place % 8 * 250 + 122 * side, place // 8 * 125))
    sheet.save(path)


if __name__ == "__main__":
    main()
