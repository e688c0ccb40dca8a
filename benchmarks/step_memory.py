"""Activations that a training step keeps for its backward pass, with the settings that save some.

    python benchmarks/step_memory.py

Counts the bytes of all tensors that autograd saves in one step, without the weights; they depend
on the network, the batch and torch's version, not on the machine. Weights are random, and so are
the images: 16 of 224 pixels.
"""

from __future__ import annotations

import numpy as np
import torch

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for

ITEMS, SIZE = 16, 224
BACKBONES = ("timm/resnet18", "timm/vit_tiny_patch16_224")
SETTINGS: tuple[dict[str, object], ...] = (
    {},
    {"accumulate": 4},
    {"checkpoint_activations": True},
    {"accumulate": 4, "checkpoint_activations": True},
)


def kept(backbone: str, settings: dict[str, object]) -> int:
    """Bytes kept at once in a step; pieces of a batch are kept one at a time."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, size=(ITEMS + 2, 3, SIZE, SIZE)).astype(np.uint8)
    y = np.ones((ITEMS + 2, 5), dtype=np.int8)
    split = np.where(np.arange(ITEMS + 2) < ITEMS, "train", "val")
    data = Dataset.from_arrays(x, y, complete=True, split=split)
    given = {"method": "an", "backbone": backbone, "weights": "random", "device": "cpu"}
    given |= {"batch_size": ITEMS, "epochs": 1, "image_size": SIZE}
    recipe = make_recipe(given, settings)
    training = fit_for(make_task(data, recipe), recipe)
    weights = {weight.untyped_storage().data_ptr() for weight in training.model.parameters()}
    saved: list[dict[int, int]] = [{}]

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[-1][storage.data_ptr()] = storage.nbytes()
        return tensor

    def next_graph(*_: object) -> None:
        saved.append({})

    training.model.backbone.register_forward_pre_hook(next_graph)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        training.train_epoch()
    return max(sum(graph.values()) for graph in saved)


def main() -> None:
    """Prints the table."""
    print(f"| setting | {' | '.join(BACKBONES)} |")
    print("| --- | --- | --- |")
    for settings in SETTINGS:
        name = ", ".join(f"`{key} = {str(value).lower()}`" for key, value in settings.items())
        cells = [f"{kept(backbone, settings) / 1e6:.0f} MB" for backbone in BACKBONES]
        print(f"| {name or 'defaults'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
