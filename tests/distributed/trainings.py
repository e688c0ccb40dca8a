"""Small trainings of every kind, to be run in one process or by torchrun in several.

As a script it writes `RANK.pt` into the folder it is given: for each case, or for those named after
the folder, the state and the losses.

`EQUAL` are the cases in which several processes end where one does: networks without batch norm in
training and without dropout, or with synchronised batch norm. In the `OTHERS` they need not.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.parallel import ddp, processes
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for

FEATURES = {"data": "features", "epochs": 2, "batch_size": 10}  # the last batch has 7
IMAGES = {"data": "images", "epochs": 2, "batch_size": 9, "optimizer": "sgd", "flip": True}
AVERAGED = IMAGES | {"ema": 0.9}
TWO_STAGES = IMAGES | {"mode": "linear_init", "epochs": 1, "finetune_epochs": 1}

EQUAL: dict[str, dict[str, Any]] = {
    name: FEATURES | {"method": name}
    for name in sorted(METHODS)
    if METHODS[name].trains_on(["features"])
}
# On images: what has a memory, parameters, a head or a teacher of its own; a count; a penalty.
EQUAL |= {
    f"{name} images": AVERAGED
    | {"method": name, "mode": "linear" if info.inputs == "vectors" else "auto"}
    for name, info in METHODS.items()
    if info.alone or name in ("an", "epr", "l2r")
}
EQUAL |= {
    "role factored": FEATURES | {"method": "role", "options": {"estimator": "factored", "rank": 3}},
    "role network": IMAGES | {"method": "role", "options": {"estimator": "network", "hidden": 5}},
    "two stages": TWO_STAGES | {"method": "an"},
    "two stages with phases": TWO_STAGES | {"method": "lac"},
    "tokens": {
        "data": "tokens",
        "epochs": 2,
        "batch_size": 7,
        "method": "lac",
        "optimizer": "sgd",
    },
    "one item a batch": FEATURES | {"method": "an", "batch_size": 1, "epochs": 1},
    "one item in the last batch": IMAGES | {"method": "epr", "batch_size": 56},
    "kept norms": IMAGES | {"method": "an", "layers": "norms", "freeze_norm": True},
    "synchronised norms": AVERAGED | {"method": "an", "layers": "norms"},
    "one cycle": FEATURES | {"method": "gr", "schedule": "one_cycle", "weight_decay": 0.01},
    "chosen by seen labels": FEATURES | {"method": "em", "select_on": "observed"},
    "seen negatives": FEATURES | {"method": "em", "observe": "positives_and_negatives(1, 1)"},
    "bf16": IMAGES | {"method": "an", "precision": "bf16", "epochs": 1},
    "fp16 and clip": IMAGES | {"method": "an", "precision": "fp16", "clip": 0.1, "epochs": 1},
    # 9 rows, of which each process computes its own in pieces.
    "pieces": IMAGES | {"method": "epr", "accumulate": 2},
    "pieces, a teacher and a penalty": IMAGES | {"method": "en_cl", "accumulate": 3, "ema": 0.9},
    "pieces, a penalty and a norm": IMAGES | {"method": "l2r", "accumulate": 2, "clip": 0.1},
    "pieces of two stages": TWO_STAGES | {"method": "role", "accumulate": 4},
    "pieces that are looked at again": IMAGES | {"method": "ignore", "accumulate": 2},
    "adamw": FEATURES | {"method": "epr", "optimizer": "adamw"},
    "recovery in groups": FEATURES | {"data": "groups", "method": "recovery"},
}
NORMED = {"layers": "norms and dropout"}
OTHERS: dict[str, dict[str, Any]] = {
    "norms and dropout": AVERAGED | NORMED | {"method": "an"},
    "norms, a memory and a penalty": AVERAGED | NORMED | {"method": "ll_cp"},
    "norms, a teacher and pieces": AVERAGED | NORMED | {"method": "en_cl", "accumulate": 3},
    "norms that are looked at again": IMAGES | NORMED | {"method": "ignore", "accumulate": 2},
    "norms of two stages": TWO_STAGES | NORMED | {"method": "role"},
    "norms with one item in the last batch": IMAGES | NORMED | {"method": "an", "batch_size": 56},
}
CASES = EQUAL | OTHERS


class Backbone(nn.Module):
    """Two convolutions, with batch norms and dropout where a case says so."""

    dim = 8

    def __init__(self, layers: str) -> None:
        super().__init__()
        norms = "norms" in layers
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=4, bias=False),
            nn.BatchNorm2d(8) if norms else nn.Identity(),
            nn.ReLU(inplace=True),
            nn.Dropout(0.3) if "dropout" in layers else nn.Identity(),
            nn.Conv2d(8, 8, 1, bias=False),
            nn.BatchNorm2d(8, momentum=None) if norms else nn.Identity(),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images.float() / 255)


def data(kind: str) -> Dataset:
    rng = np.random.default_rng(0)
    split = np.where(np.arange(90) < 71, "train", "test")  # 57 to learn from: an odd number
    if kind == "images":
        y = (rng.random((90, 3)) < 0.5).astype(np.int8)
        x = rng.integers(0, 100, (90, 1, 16, 16))
        x[:, 0] += 50 * y[:, :1, None] * (np.arange(16) % 2)
        x[:, 0] += 50 * y[:, 1, None, None] + 50 * y[:, 2:, None] * (np.arange(16) > 7)
        hints = rng.random(y.shape)
        return Dataset.from_arrays(x.astype(np.uint8), y, complete=True, split=split, hints=hints)
    x = rng.normal(size=(90, 5, 8) if kind == "tokens" else (90, 8)).astype(np.float32)
    y = (x.reshape(90, -1, 8).mean(1) @ rng.normal(size=(8, 4)) > 0.4).astype(np.int8)
    hints = rng.random(y.shape)
    groups = np.arange(90) // 4 if kind == "groups" else None
    return Dataset.from_arrays(x, y, complete=True, split=split, hints=hints, groups=groups)


def training(case: str, on_step: Any):
    about = {"layers": ""} | CASES[case]
    kind, layers = about.pop("data"), about.pop("layers")
    info = METHODS[about["method"]]
    options = dict(info.quick)
    if case in EQUAL and hasattr(info.options, "dropout"):  # of its head
        options["dropout"] = 0.0
    general = {"expected_positives": 1.7, "lr": 0.02, "options": options, "seed": 3}
    recipe = make_recipe(general, about)
    task = make_task(data(kind), recipe)
    if kind != "images":
        return fit_for(task, recipe, on_step=on_step)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        backbone = Backbone(layers)
    return fit_for(task, recipe, backbone=backbone, on_step=on_step)


def trained(case: str) -> dict[str, Any]:
    """What a case leaves behind."""
    drawn: list[float] = []
    made = training(case, lambda _: drawn.append(float(torch.rand(()))))
    before = {name: weight.detach().clone() for name, weight in made.model.named_parameters()}
    records = list(made.epochs())
    after = dict(made.model.named_parameters())
    tensors = {key: value.clone() for key, value in made.state()[0].items()}
    tensors["test"] = made.predict(made.task.test).clone()
    return {
        "items": len(made.task.train),
        "held": {key: len(x) for key, x in made.method.state_dict().items() if x.ndim},
        "tensors": tensors,
        "drawn": drawn,  # by torch's global generator after each step
        "trained": [name for name, old in before.items() if not torch.equal(old, after[name])],
        "norms": [type(part).__name__ for part in made.model.modules() if is_norm(part)],
        "losses": [dict(record.losses) for record in records],
        "val_map": [record.val_map for record in records],
    }


def is_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._BatchNorm)


def all_trained(cases: Iterable[str] = CASES) -> dict[str, dict[str, Any]]:
    torch.set_num_threads(1)
    ends = {}
    for case in cases:
        ddp.SYNCED = ("cpu",) if case == "synchronised norms" else ()
        ends[case] = trained(case)
    return ends


def norms_of_gpus() -> Any:
    """Lets `nn.SyncBatchNorm` run on the CPU."""
    spec = importlib.util.spec_from_file_location(
        "gpu_norms", Path(__file__).with_name("gpu_norms.py")
    )
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    return kernels.register()


if __name__ == "__main__":
    processes.start()
    keep = norms_of_gpus()
    ends = all_trained(sys.argv[2:] or CASES)
    torch.save(ends, Path(sys.argv[1]) / f"{processes.world()[0]}.pt")
    processes.wait_for_main_process()
