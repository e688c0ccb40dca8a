"""Models in MLflow: the folder of `plusone export` as an `mlflow.pyfunc` model, without a pickle.

The model that MLflow stores names this module as its loader and holds the exported folder as it is;
loading it reads safetensors and JSON. A DataFrame of features, paths of images or texts goes in,
and one with a column for each class comes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.text_features import MADE_BY
from plusone.errors import InputError
from plusone.export.publish import CONFIG, PROGRAMS
from plusone.extras import install_command
from plusone.integrations.hub import PlusOneModel
from plusone.prediction.run_folder import read_description, read_recipe
from plusone.recipe import Recipe
from plusone.results import RunDescription
from plusone.version import __version__

PYFUNC = "mlflow.pyfunc"
FOLDER = "plusone"  # in the model that MLflow stores
OUTPUT = "output"  # a parameter of `predict`
PROBABILITIES, LABELS = "probabilities", "labels"  # its values


class PyFunc:
    """A model as MLflow calls it.

    Args:
        folder: An exported folder.
    """

    def __init__(self, folder: Path) -> None:
        self.model = PlusOneModel(folder)
        description = read_description(folder)
        self.one_column = description.images or MADE_BY in description.made_by

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """A DataFrame with a column for each class, and a row for each item.

        Args:
            model_input: For images or texts one column: paths or contents of files, or texts. For
                vectors an array or DataFrame `[N, D]`.
            params: `{"output": "labels"}` for 1 and 0 by the thresholds of the classes instead of
                probabilities.
        """
        import pandas as pd

        wanted = (params or {}).get(OUTPUT, PROBABILITIES)
        if wanted not in (PROBABILITIES, LABELS):
            raise InputError(f"{OUTPUT} {wanted!r} is neither {PROBABILITIES} nor {LABELS}")
        items: Any = np.asarray(model_input)
        if self.one_column:
            items = _one_column(items)
        tags = self.model(items) if len(items) else []
        index = model_input.index if isinstance(model_input, pd.DataFrame) else None
        p = pd.DataFrame(
            [tag["probabilities"] for tag in tags], columns=[*self.model.classes], index=index
        )
        return p if wanted == PROBABILITIES else (p > self.model.thresholds).astype(np.int64)


def _one_column(items: npt.NDArray[Any]) -> list[Any]:
    if items.ndim == 2 and items.shape[1] == 1:
        items = items[:, 0]
    if items.ndim != 1:
        raise InputError(f"the input has the shape {items.shape}; it must be one column")
    return list(items.tolist())


def _load_pyfunc(path: str) -> PyFunc:
    """Called by MLflow with the folder that it has stored."""
    return PyFunc(Path(path))


def save_model(run: str | Path, path: str | Path, **settings: Any) -> None:
    """Writes a model in MLflow's format into a new folder.

    Args:
        run: A run folder, or one that `plusone export` made.
        path: The folder to write.
        **settings: Further arguments of `mlflow.pyfunc.save_model`: `metadata`, `input_example`,
            `pip_requirements`, ...
    """
    with TemporaryDirectory() as temporary:
        _module(PYFUNC).save_model(
            path=str(path), **_arguments(Path(run), Path(temporary), settings)
        )


def log_model(run: str | Path, name: str = FOLDER, **settings: Any) -> Any:
    """Logs a model to the active run of MLflow; returns what MLflow knows of it.

    Args:
        run: A run folder, or one that `plusone export` made.
        name: What MLflow calls it.
        **settings: Further arguments of `mlflow.pyfunc.log_model`: `registered_model_name`, ...
    """
    with TemporaryDirectory() as temporary:
        return _module(PYFUNC).log_model(
            name=name, **_arguments(Path(run), Path(temporary), settings)
        )


def load_model(uri: str, **download: Any) -> PlusOneModel:
    """Loads a model that `save_model` or `log_model` stored, as `PlusOneModel`.

    `mlflow.pyfunc.load_model` gives the same model as MLflow's own object.

    Args:
        uri: A folder, `runs:/...`, `models:/...` and so on.
        **download: Further arguments of `mlflow.artifacts.download_artifacts`.
    """
    download_artifacts = _module("mlflow.artifacts").download_artifacts
    folder = Path(download_artifacts(artifact_uri=str(uri), **download)) / "data" / FOLDER
    if not (folder / CONFIG).is_file():
        raise InputError(f"{uri}: is no model of plusone")
    return PlusOneModel(folder)


def _arguments(run: Path, temporary: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What MLflow is given; it would guess requirements by running the model."""
    types = _module("mlflow.types")
    exported = temporary / FOLDER
    PlusOneModel(run).save_pretrained(exported)
    for name in PROGRAMS:
        (exported / name).unlink(missing_ok=True)
    parameter = types.ParamSpec(OUTPUT, "string", PROBABILITIES)
    description = read_description(run)
    columns = types.Schema([types.ColSpec("double", name) for name in description.classes])
    signature = _module("mlflow.models").ModelSignature(
        inputs=_inputs(description), outputs=columns, params=types.ParamSchema([parameter])
    )
    requirements = _requirements(description, read_recipe(run))
    own = {"signature": signature, "pip_requirements": requirements}
    fixed = {"loader_module": __name__, "data_path": str(exported)}
    return own | dict(settings) | fixed


def _inputs(description: RunDescription) -> Any:
    """The columns of the input; None for images, as a column has one type: paths or contents."""
    types = _module("mlflow.types")
    if description.images or len(description.shape) > 1:
        return None
    if MADE_BY in description.made_by:
        return types.Schema([types.ColSpec("string", "text")])
    return types.Schema([types.ColSpec("double")] * description.shape[0])


def _requirements(description: RunDescription, recipe: Recipe) -> list[str]:
    """What a model needs: plusone, with the extra that has its network or encoder."""
    extra = ""
    if description.images and recipe.backbone not in ("auto", "cnn"):
        extra = "[image]" if recipe.backbone.startswith("timm/") else f"[{recipe.backbone}]"
    elif MADE_BY in description.made_by:
        extra = "[sentences]"
    return [f"plusone{extra}=={__version__}", "pandas"]


def _module(name: str) -> Any:
    """A module of MLflow."""
    try:
        return import_module(name)
    except ImportError as error:
        what = install_command("mlflow")
        raise InputError(f"MLflow models need mlflow and pandas ({error}): {what}") from None
