"""Weights and training state on disk: safetensors with a JSON header, never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from plusone.errors import InputError
from plusone.files import replacing


def save(path: Path, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
    """Writes tensors and plain values into one file, in one step."""
    whole = {key: value.detach().contiguous().clone() for key, value in tensors.items()}
    with replacing(path) as temporary:
        save_file(whole, temporary, metadata={"plusone": json.dumps(plain)})


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads what `save` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            plain = json.loads((file.metadata() or {}).get("plusone", "{}"))
            return {key: file.get_tensor(key) for key in file.keys()}, plain  # noqa: SIM118
    except (OSError, SafetensorError, json.JSONDecodeError, torch.OutOfMemoryError) as error:
        raise InputError(f"{path}: is not a readable weights file ({error})") from None
