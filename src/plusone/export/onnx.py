"""A model as ONNX: bytes or features in, probabilities out, checked against torch."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plusone.errors import InputError, RunError, first_line
from plusone.export.inputs import NAME
from plusone.extras import install_command
from plusone.io.files import replacing
from plusone.models.classifier import Classifier
from plusone.prediction.load import Predictor

OUTPUT = "probabilities"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-4
LARGEST = 1_900_000_000  # bytes; one ONNX file cannot hold more than 2 GB


@dataclass(frozen=True)
class OnnxCheck:
    """How the ONNX file was checked."""

    difference: float
    items: int
    real: bool  # items of the run's data, or random ones


class _Probabilities(nn.Module):
    """A model that returns calibrated probabilities instead of logits."""

    def __init__(self, model: Classifier, predictor: Predictor) -> None:
        super().__init__()
        self.model, self.predictor = model, predictor

    def forward(self, inputs: Tensor) -> Tensor:
        """Probabilities `[B, L]`."""
        return torch.sigmoid(self.predictor.from_logits(self.model(inputs).logits))


def check_installed() -> None:
    """Fails early if packages are missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise InputError(
            f"ONNX needs {', '.join(missing)}: install them with {install_command('onnx')}"
        )


def export_onnx(
    predictor: Predictor, path: Path, sample: Tensor, about: Mapping[str, Any]
) -> float:
    """Writes a model as ONNX; returns the largest difference of a probability to torch.

    The batch size is dynamic. The backbone computes in float32, even if trained in bfloat16. If the
    probabilities are others, no file is left.
    """
    check_installed()
    size = sum(value.nbytes for value in predictor.model.state_dict().values())
    if size > LARGEST:
        raise InputError(f"the model has {size / 1e9:.1f} GB; one ONNX file holds at most 2 GB")
    model = copy.deepcopy(predictor.model).eval()
    model.precision = "float32"
    module = _Probabilities(model, predictor)
    with replacing(path) as temporary:
        _write(module, temporary, sample, about)
        difference = _compare(module, temporary, sample)
        if not difference <= TOLERANCE:
            raise RunError(
                f"the ONNX model differs from torch by {difference:.2g}, more than {TOLERANCE:g}; "
                "nothing was written"
            )
    return difference


def _write(module: nn.Module, path: Path, sample: Tensor, about: Mapping[str, Any]) -> None:
    # A batch size of 1 would be fixed.
    items = sample[:2] if len(sample) > 1 else torch.cat([sample, sample])
    dynamic = {NAME: {0: torch.export.Dim("batch")}}
    if sample.ndim == 3:
        dynamic[NAME][1] = torch.export.Dim("places")
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # users cannot act on what the exporter logs
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module,
                (items,),
                dynamo=True,
                verbose=False,
                input_names=[NAME],
                output_names=[OUTPUT],
                dynamic_shapes=dynamic,
            )
            assert program is not None
            parts: tuple[Any, ...] = (program.model.graph, *program.model.functions.values())
            for part in parts:
                for node in part.all_nodes():  # stack traces, with paths of this machine
                    node.metadata_props.clear()
                    node.doc_string = None
            for key, value in about.items():
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                program.model.metadata_props[key] = text
            program.save(str(path), external_data=False)
    except Exception as error:  # the exporter fails in many ways
        raise RunError(f"this model cannot be written as ONNX ({first_line(error)})") from error
    finally:
        logging.disable(level)


def _compare(module: nn.Module, path: Path, sample: Tensor) -> float:
    """The largest difference to torch, for all inputs together and for one alone."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    largest = 0.0
    for inputs in (sample, sample[:1]):
        (probabilities,) = session.run([OUTPUT], {NAME: inputs.numpy()})
        with torch.inference_mode():
            expected = module(inputs)
        difference = (torch.from_numpy(probabilities) - expected).abs().max()
        largest = max(largest, float(difference))
    return largest
