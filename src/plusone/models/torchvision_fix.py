"""Makes torchvision importable beside a torch whose operators it was not compiled for.

torchvision's wheel for graphics cards beside a CPU-only torch cannot load its compiled operators,
and stops its own import because two of them are unknown. timm imports torchvision, so it fails too.
Nothing here uses those operators: declaring them is enough.
"""

from __future__ import annotations

import importlib
import sys

import torch

SYMPTOM = "operator torchvision::nms does not exist"
SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def import_torchvision() -> None:
    """Imports torchvision; on exactly the error above, declares the operators and tries again."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if SYMPTOM not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]  # what is half imported would not be imported again
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", SCHEMA)
        importlib.import_module("torchvision")
