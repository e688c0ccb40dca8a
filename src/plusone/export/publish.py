"""A folder to share: the model of a run, the files needed to use it, and a model card.

| file | content |
| --- | --- |
| `README.md` | the model card |
| `config.json` | the same for programs: classes, input, thresholds, training, metrics |
| `model.safetensors` | the weights |
| `model.onnx`, `predict.py` | on request: the model as ONNX, and a program that needs no plusone |
| `recipe.toml`, `data.json` | what `plusone predict` reads |
| `observed.npz` | a blank row in place of the training labels |
| `calibration.json`, `thresholds.json` | probabilities and labels from scores |

It contains no training items, no names of items, and no paths of this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data.classes_file import CLASSES, write_parents
from plusone.data.formats import write as write_table
from plusone.data.table import LabelTable
from plusone.data.text_encoder import describe_encoder
from plusone.data.text_features import MADE_BY as ENCODER
from plusone.errors import InputError
from plusone.export.card import KIND, ModelConfig, make_card
from plusone.export.inputs import describe_input, some_inputs
from plusone.export.onnx import OnnxCheck, check_installed, export_onnx
from plusone.io.files import alone_in, part_folder, write_json, write_text
from plusone.io.readers import read_json
from plusone.methods import get_method
from plusone.prediction import checkpoint
from plusone.prediction.load import Predictor, load_run
from plusone.prediction.run_folder import read_description, read_metrics
from plusone.probabilities.calibration import write_calibration
from plusone.probabilities.thresholds import Thresholds, read_thresholds, write_thresholds
from plusone.recipe import Recipe
from plusone.results import RunDescription, RunResult
from plusone.version import __version__

CHECKED = 16  # items that the ONNX file is checked on
CONFIG = "config.json"
PROGRAM = "predict.py"
PROGRAMS = (PROGRAM, "model.onnx")  # for programs without plusone
MODELS = (*PROGRAMS, "model.safetensors")
FILES = (  # all that an export may have
    "README.md", CONFIG, "recipe.toml", "data.json", "observed.npz", "calibration.json",
    "thresholds.json", *MODELS,
)  # fmt: skip
STEPS = ("weights", "onnx", "card")


@dataclass(frozen=True)
class Exported:
    """An exported model."""

    out: Path
    files: tuple[str, ...]
    onnx: OnnxCheck | None

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"out": str(self.out), "files": list(self.files)}


def make_config(predictor: Predictor, result: RunResult, thresholds: Thresholds) -> ModelConfig:
    """The content of `config.json`."""
    recipe = predictor.recipe
    return ModelConfig(
        classes=predictor.classes,
        input=describe_input(predictor),
        backbone=recipe.backbone if predictor.images else None,
        thresholds=thresholds,
        calibration=predictor.calibration,
        result=result,
        paper=get_method(recipe.method).paper,
        recipe=public_recipe(recipe),
    )


def public_recipe(recipe: Recipe) -> Recipe:
    """The settings without paths of this machine."""
    weights = recipe.weights if recipe.weights in ("auto", "random") else Path(recipe.weights).name
    return recipe.portable.model_copy(update={"weights": weights})


def export_run(
    run: Path,
    out: Path,
    *,
    onnx: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> Exported:
    """Writes the model of a complete run into a folder to share.

    Args:
        run: The run folder.
        out: The folder to write; new, empty, or an older export.
        onnx: Whether to write `model.onnx` as well.
        on_step: Called with the name of each step before it begins.
    """
    check_out(out)
    if onnx:
        check_installed()
    begin = on_step or (lambda step: None)
    result, predictor = read_metrics(run), load_run(run, "cpu")
    thresholds = read_thresholds(run, predictor.classes)
    config = make_config(predictor, result, thresholds)
    with part_folder(out) as part:
        begin("weights")
        _write_model(predictor, read_description(run), part)
        write_thresholds(part, predictor.classes, thresholds)
        write_calibration(part, predictor.classes, predictor.calibration)
        if onnx:
            begin("onnx")
            sample, real = some_inputs(predictor, run, CHECKED)
            difference = export_onnx(predictor, part / "model.onnx", sample, config.metadata())
            config = replace(config, onnx=OnnxCheck(difference, len(sample), real))
            source = resources.files("plusone.export") / "standalone.py"
            write_text(part / PROGRAM, source.read_text(encoding="utf-8"))
        begin("card")
        write_json(part / CONFIG, config.to_json())
        write_text(part / "README.md", make_card(config))
        move_export(part, out)
    files = sorted(path.name for path in out.iterdir() if path.is_file())
    return Exported(out, tuple(files), config.onnx)


def move_export(part: Path, out: Path) -> None:
    """Moves a finished export into place, which has never files of two models.

    Models of an older export go first and the new ones come last, so that a kill leaves the old
    export, the new one, or a folder without a model. `config.json` marks the folder as an export.
    """
    with alone_in(out):
        for name in (*MODELS, *({CLASSES} - {path.name for path in part.iterdir()})):
            (out / name).unlink(missing_ok=True)
        names = [path.name for path in part.iterdir() if path.name not in MODELS]
        for name in (*sorted(names, key=lambda name: name != CONFIG), *MODELS):
            if (part / name).exists():
                (part / name).replace(out / name)


def check_out(out: Path) -> None:
    """Refuses a folder with content other than an older export."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out}: is a file, not a folder; choose another --out")
    if not any(out.iterdir()):
        return
    try:
        old = read_json(out / CONFIG)
    except (OSError, ValueError):
        old = None
    if not isinstance(old, dict) or old.get("model_type") != KIND:
        raise InputError(f"{out}: is not empty and holds no export; choose another --out")


def _write_model(predictor: Predictor, description: RunDescription, out: Path) -> None:
    """Writes the files that `load_run` reads, without data of the training items."""
    tensors = {f"model.{name}": value for name, value in predictor.model.state_dict().items()}
    state = predictor.method.state_dict()  # its tables have one blank item
    tensors |= {f"method.{name}": value for name, value in state.items()}
    checkpoint.save(out / "model.safetensors", tensors, {"version": __version__})
    labels = predictor.method.labels.observed
    table = LabelTable(np.array(["none"]), predictor.classes, labels, split=np.array(["train"]))
    write_table(table, out / "observed.npz")
    public = {k: v for k, v in description.to_json().items() if k != "fingerprint"} | {"source": {}}
    if ENCODER in description.made_by:
        name = describe_encoder(description.made_by[ENCODER])["name"]
        public["made_by"] = {**description.made_by, ENCODER: name}
    write_json(out / "data.json", public)
    if predictor.hierarchy is not None:
        write_parents(out / CLASSES, predictor.classes, predictor.hierarchy)
    write_text(out / "recipe.toml", public_recipe(predictor.recipe).to_toml())
