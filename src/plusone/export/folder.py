"""A folder to pass on: the model of a run, what is needed to use it, and a card that tells of it.

| file | content |
| --- | --- |
| `README.md` | the model card |
| `config.json` | the same for programs: classes, input, thresholds, training, metrics |
| `model.safetensors` | the weights |
| `model.onnx` | the same as ONNX, if wanted |
| `recipe.toml`, `data.json`, `observed.npz`, `thresholds.json` | what `plusone predict` reads |

Items of the training data are not in it, nor their names, nor places on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from plusone.data.formats import write as write_table
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.export.card import make_card
from plusone.export.inputs import describe_input, some_inputs
from plusone.export.onnx import check_installed, export_onnx
from plusone.io.files import write_json, write_text
from plusone.io.readers import read_json
from plusone.methods import get_method
from plusone.recipe import Recipe
from plusone.training import checkpoint
from plusone.training.build import Predictor, build, load_run
from plusone.training.run_folder import read_description, read_metrics
from plusone.training.thresholds import Thresholds, as_dict, read_thresholds, write_thresholds
from plusone.types import TrainLabels
from plusone.version import __version__

KIND = "plusone"
TOLD = (
    "method", "data", "seed", "val_map", "val_score", "test_map", "test", "best_epoch",
    "selected_on", "selected_by", "k", "k_from", "observation", "items", "mode", "options",
    "recovery", "rules",
)  # fmt: skip


def make_config(
    predictor: Predictor, metrics: Mapping[str, Any], thresholds: Thresholds
) -> dict[str, Any]:
    """The content of `config.json`, in the manner of Hugging Face where it has one.

    Nothing in it tells where files are on the machine it was made on, nor what items are called.
    """
    classes = predictor.classes
    info = get_method(predictor.recipe.method)
    return {
        "model_type": KIND,
        "architectures": ["plusone.Classifier"],
        "problem_type": "multi_label_classification",
        "num_labels": len(classes),
        "id2label": {str(number): name for number, name in enumerate(classes)},
        "label2id": {name: number for number, name in enumerate(classes)},
        "input": describe_input(predictor),
        "backbone": predictor.recipe.backbone if predictor.images else None,
        "thresholds": {"from": thresholds.origin, "by_class": as_dict(classes, thresholds)},
        "training": {key: metrics[key] for key in TOLD if key in metrics},
        "paper": info.paper,
        "recipe": public_recipe(predictor.recipe).model_dump(mode="json", exclude_defaults=True),
        "plusone_version": __version__,
    }


def public_recipe(recipe: Recipe) -> Recipe:
    """The settings without places on the machine they were used on."""
    weights = recipe.weights if recipe.weights in ("auto", "random") else Path(recipe.weights).name
    return recipe.model_copy(update={"cache_dir": None, "weights": weights})


CHECKED = 16  # items that the ONNX file is checked on
STEPS = ("weights", "onnx", "card")


def export_run(
    run: Path,
    out: Path,
    *,
    onnx: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Writes the model of a complete run into a folder of its own.

    Args:
        run: The run folder.
        out: The folder to write; new, empty, or an older export.
        onnx: Whether to write `model.onnx` too.
        on_step: Called with the name of each step before it begins.

    Returns:
        `out`, `files`, and `onnx`: how it was checked, or None.

    Raises:
        InputError: If there is no complete run, or `out` holds something else.
    """
    check_out(out)
    if onnx:
        check_installed()
    begin = on_step or (lambda step: None)
    metrics, predictor = read_metrics(run).to_json(), load_run(run)
    thresholds = read_thresholds(run, predictor.classes)
    config = make_config(predictor, metrics, thresholds)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as temporary:
        part = Path(temporary)
        begin("weights")
        _write_model(predictor, read_description(run).to_json(), part)
        write_thresholds(part, predictor.classes, thresholds)
        checked = None
        if onnx:
            begin("onnx")
            sample, real = some_inputs(predictor, run, CHECKED)
            difference = export_onnx(predictor, part / "model.onnx", sample, _metadata(config))
            checked = {"difference": difference, "items": len(sample), "real": real}
        begin("card")
        write_json(part / "config.json", config | ({"onnx": checked} if checked else {}))
        name = f"{metrics['data']}-{metrics['method']}"
        write_text(part / "README.md", make_card(config, name, onnx=checked))
        _move(part, out)
    files = sorted(path.name for path in out.iterdir() if path.is_file())
    return {"out": str(out), "files": files, "onnx": checked}


def _move(part: Path, out: Path) -> None:
    """Puts a finished export in place, `config.json` first: it makes the folder an export."""
    out.mkdir(exist_ok=True)
    (out / "model.onnx").unlink(missing_ok=True)  # of an older export
    for path in sorted(part.iterdir(), key=lambda path: (path.name != "config.json", path.name)):
        path.replace(out / path.name)


def check_out(out: Path) -> None:
    """Refuses a folder that holds something else than an older export."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out}: is a file, not a folder; choose another --out")
    if not any(out.iterdir()):
        return
    try:
        old = read_json(out / "config.json")
    except (OSError, ValueError):
        old = None
    if not isinstance(old, dict) or old.get("model_type") != KIND:
        raise InputError(f"{out}: is not empty and holds no export; choose another --out")


def _write_model(predictor: Predictor, about: dict[str, Any], out: Path) -> None:
    """Writes what `load_run` reads, without anything of the training items."""
    n_classes = len(predictor.classes)
    labels = LabelMatrix.from_dense(np.eye(1, n_classes, dtype=np.int8), default=0)
    # A method may remember something of each item; of one made-up item that tells nothing.
    one = TrainLabels(labels, about["k"], predictor.recipe.seed, len(predictor.shape) > 1)
    _, blank = build(
        predictor.recipe, one, predictor.shape, images=predictor.images, weights="random"
    )
    trained = predictor.method.state_dict()
    kept = {
        name: trained[name] if trained[name].shape == value.shape else value
        for name, value in blank.state_dict().items()
    }
    tensors = {f"model.{name}": value for name, value in predictor.model.state_dict().items()}
    tensors |= {f"method.{name}": value for name, value in kept.items()}
    checkpoint.save(out / "model.safetensors", tensors, {"version": __version__})
    table = LabelTable(np.array(["none"]), predictor.classes, labels, split=np.array(["train"]))
    write_table(table, out / "observed.npz")
    public = {key: value for key, value in about.items() if key != "fingerprint"}
    write_json(out / "data.json", public | {"source": {}})
    write_text(out / "recipe.toml", public_recipe(predictor.recipe).to_toml())


def _metadata(config: dict[str, Any]) -> dict[str, Any]:
    """What the ONNX file says of itself."""
    told = config["training"]
    return {
        "classes": list(config["label2id"]),
        "thresholds": config["thresholds"]["by_class"],
        "input": config["input"],
        "output": "probabilities of the classes, in their order; not calibrated",
        "method": told["method"],
        "data": told["data"],
        "plusone_version": config["plusone_version"],
    }
