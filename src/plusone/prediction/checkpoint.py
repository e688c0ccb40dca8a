"""Weights and training state on disk: safetensors with a JSON header, never pickle."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from plusone.device import CPU
from plusone.errors import InputError
from plusone.io.files import replacing
from plusone.io.readers import parse_json


def save(path: Path, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
    """Writes tensors and plain values into one file, atomically."""
    contiguous = {
        key: value.detach().to(CPU).contiguous().clone() for key, value in tensors.items()
    }
    with replacing(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata={"plusone": json.dumps(plain)})
        except SafetensorError as error:
            raise _system_error(error) from None


def _system_error(error: SafetensorError) -> Exception:
    """The `OSError` behind an error of safetensors, such as a full disk."""
    number = re.search(r"os error (\d+)", str(error))
    return error if number is None else OSError(int(number[1]), os.strerror(int(number[1])))


def load(path: Path, prefix: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads what `save` wrote, or the tensors of it whose names start with a prefix."""
    try:
        with safe_open(path, framework="pt") as file:
            plain = parse_json((file.metadata() or {}).get("plusone", "{}"))
            keys = [key for key in file.keys() if key.startswith(prefix)]  # noqa: SIM118
            tensors = {key: file.get_tensor(key) for key in keys}
    except (OSError, SafetensorError, ValueError, RuntimeError, TypeError) as error:
        raise InputError(f"{path}: is not a readable weights file ({error})") from None
    if not isinstance(plain, dict):
        raise InputError(f"{path}: is not a readable weights file (its header is not plusone's)")
    return tensors, plain
