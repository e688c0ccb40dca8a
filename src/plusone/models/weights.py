"""Weights of a backbone from a safetensors file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor, nn

from plusone.errors import InputError

PICKLED = (".pth", ".pt", ".bin")
SHOWN = 3

Adapt = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors by name from a safetensors file; others can hold code and are not read."""
    if path.suffix in PICKLED:
        raise InputError(
            f"weights {path}: files of this kind can hold code and are not read; write the weights "
            "with safetensors.torch.save_file, see docs/training.md"
        )
    if path.suffix != ".safetensors":
        raise InputError(
            f"weights {path}: is not a file that ends in .safetensors, nor auto, nor random"
        )
    try:
        return load_file(path)
    except Exception as error:  # damaged files fail in many ways
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"weights {path}: cannot be read as a weights file ({first})") from None


def load_weights(
    net: nn.Module, path: Path, *, classifier: Sequence[str] = (), adapt: Adapt | None = None
) -> None:
    """Fills a network with the weights of a file.

    The names in the file may all have a prefix in front (`module.`, `model.backbone.1.net.`).
    Every weight of the network must be there in its shape. Parts that the network does not have,
    such as a classifier, are ignored; more weights in a part it has mean another network.

    Args:
        net: The network.
        path: The file.
        classifier: Names of parts of the file to ignore even so.
        adapt: Brings the weights into the network's names and shapes.
    """
    tensors = read_weights(path)
    wanted = net.state_dict()
    prefix = _common_prefix(tensors, wanted)
    found = {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
    if adapt is not None:
        found = adapt(found)
    parts = {name.partition(".")[0] for name in wanted}
    skipped = tuple(f"{name}." for name in classifier)
    problems = [
        *(f"{n} is missing" for n in wanted if n not in found and not n.endswith("_tracked")),
        *(
            f"{n} is {_shape(found[n])}, not {_shape(wanted[n])}"
            for n in wanted
            if n in found and found[n].shape != wanted[n].shape
        ),
        *(
            f"{n} is too much"
            for n in found
            if n not in wanted and n.partition(".")[0] in parts and not n.startswith(skipped)
        ),
    ]
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise InputError(
            f"weights {path}: does not fit the backbone ({', '.join(problems[:SHOWN])}{more})"
        )
    net.load_state_dict(wanted | {name: found[name] for name in wanted if name in found})


def _common_prefix(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """What stands before the wanted names in a file, for as many of them as possible."""
    votes: Counter[str] = Counter()
    for name in tensors:
        pieces = name.split(".")
        for cut in range(len(pieces)):
            if ".".join(pieces[cut:]) in wanted:
                votes["".join(f"{piece}." for piece in pieces[:cut])] += 1
    return votes.most_common(1)[0][0] if votes else ""


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a number"
