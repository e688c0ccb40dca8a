"""Loading the weights of a backbone from a safetensors file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor, nn

from plusone.errors import InputError, first_line

PICKLED = (".pth", ".pt", ".bin")
SHOWN = 3

Adapt = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def load_weights(
    net: nn.Module, path: Path, *, classifier: Sequence[str] = (), adapt: Adapt | None = None
) -> None:
    """Loads the weights of a file into a network.

    The names in the file may share a prefix (`module.`, `model.backbone.1.net.`).
    Every weight of the network must be in the file, in its shape. Modules that the network does not
    have, such as a classifier, are ignored; additional weights in a module it has are an error.

    Args:
        net: The network.
        path: The file.
        classifier: Names of modules to ignore in any case.
        adapt: Converts the weights to the network's names and shapes.
    """
    tensors = read_weights(path)
    expected = net.state_dict()
    prefix = _common_prefix(tensors, expected)
    given = {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
    if adapt is not None:
        given = adapt(given)
    parts = {name.partition(".")[0] for name in expected}
    skipped = tuple(f"{name}." for name in classifier)
    problems = [
        *(f"{n} is missing" for n in expected if n not in given and not n.endswith("_tracked")),
        *(
            f"{n} is {_shape(given[n])}, not {_shape(expected[n])}"
            for n in expected
            if n in given and given[n].shape != expected[n].shape
        ),
        *(
            f"{n} is unexpected"
            for n in given
            if n not in expected and n.partition(".")[0] in parts and not n.startswith(skipped)
        ),
    ]
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise InputError(
            f"weights {path}: does not fit the backbone ({', '.join(problems[:SHOWN])}{more})"
        )
    net.load_state_dict(expected | {name: given[name] for name in expected if name in given})


def read_weights(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a safetensors file; pickled files can hold code and are refused."""
    if path.suffix in PICKLED:
        raise InputError(
            f"weights {path}: files of this kind can hold code and are not read; write the weights "
            "with safetensors.torch.save_file, see docs/images.md"
        )
    if path.suffix != ".safetensors":
        raise InputError(
            f"weights {path}: is not a file that ends in .safetensors, nor auto, nor random"
        )
    try:
        return load_file(path)
    except Exception as error:  # damaged files fail in many ways
        raise InputError(
            f"weights {path}: cannot be read as a weights file ({first_line(error)})"
        ) from None


def _common_prefix(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """The prefix under which a file has most of the expected names."""
    votes: Counter[str] = Counter()
    for name in tensors:
        pieces = name.split(".")
        for cut in range(len(pieces)):
            if ".".join(pieces[cut:]) in expected:
                votes["".join(f"{piece}." for piece in pieces[:cut])] += 1
    return votes.most_common(1)[0][0] if votes else ""


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a number"
