"""Models on the Hugging Face Hub: the folder of `plusone export`, safetensors and card as they are.

Nothing that is downloaded is unpickled, and no program of a repository is run: the weights are
safetensors, and torch computes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from plusone.errors import InputError, first_line
from plusone.export.publish import CONFIG, FILES, PROGRAMS, check_out, export_run, move_export
from plusone.extras import install_command
from plusone.inputs.task import same_kind
from plusone.io.files import part_folder
from plusone.serve.model import ServedModel, load_model

AT_ONCE = 64  # inputs in memory


class PlusOneModel:
    """A trained model from a folder or a repository: called on items, it gives their tags.

    Args:
        folder: A run folder, or one that `plusone export` made.
        device: What it computes on: "auto", "cpu", "cuda", ...
        threshold: A probability above which a label is given, one for all classes; those of the
            folder if None.

    Attributes:
        classes: Class names.
        thresholds: Probability above which each class is given, by name.

    Example:
        ```python
        model = PlusOneModel.from_pretrained("someone/birds")   # or a folder
        model("photo.jpg")            # {"labels": ["heron"], "probabilities": {"heron": 0.93, ...}}
        model(["a.jpg", "b.jpg"])     # a list of them
        model.push_to_hub("me/birds", private=True)
        ```
    """

    def __init__(
        self, folder: str | Path, *, device: str = "auto", threshold: float | None = None
    ) -> None:
        self.folder = Path(folder)
        self._model = load_model(self.folder, device, threshold, onnx=False)
        self.classes = self._model.classes
        self.thresholds = self._model.thresholds.by_name(self.classes)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        device: str = "auto",
        threshold: float | None = None,
        revision: str | None = None,
        **download: Any,
    ) -> PlusOneModel:
        """Loads a model from a folder, or downloads it.

        Only the files of an export are downloaded, without its ONNX graph and its program.

        Args:
            name: A folder, or the name of a repository on the Hub.
            device: What it computes on.
            threshold: A probability above which a label is given; those of the folder if None.
            revision: A branch, a tag or a commit of the repository.
            **download: Further arguments of `huggingface_hub.snapshot_download`: `token`,
                `cache_dir`, `local_files_only`, ...
        """
        folder = Path(name)
        if not folder.is_dir():
            files = [name for name in FILES if name not in PROGRAMS]
            snapshot = _hub().snapshot_download
            try:
                path = snapshot(str(name), revision=revision, allow_patterns=files, **download)
            except ValueError as error:  # no name of a repository, or it is out of reach
                why = first_line(error)
                raise InputError(f"{name}: is no folder, nor can it be downloaded: {why}") from None
            folder = Path(path)
        return cls(folder, device=device, threshold=threshold)

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes the folder to share: new, empty, or over an older export."""
        to = Path(folder)
        check_out(to)
        if to.resolve() == self.folder.resolve():
            raise InputError(f"{to}: is the folder of this model; choose another")
        if not (self.folder / CONFIG).is_file():  # a run
            export_run(self.folder, to)
            return
        with part_folder(to) as part:
            for name in FILES:
                if (self.folder / name).is_file():
                    shutil.copyfile(self.folder / name, part / name)
            move_export(part, to)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | bool | None = None,
        **upload: Any,
    ) -> str:
        """Uploads the folder to share in one commit, and returns the address of the commit.

        Args:
            repo_id: The name of the repository, `me/birds`; it is made if there is none.
            private: Whether a new repository is private; by default it is public.
            token: A token of the Hub that may write; by default that of `hf auth login`.
            **upload: Further arguments of `HfApi.upload_folder`: `revision`, `commit_message`, ...
        """
        api = _hub().HfApi(token=token)
        to = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        with TemporaryDirectory() as temporary:
            self.save_pretrained(temporary)
            commit = api.upload_folder(repo_id=to, folder_path=temporary, **upload)
        return str(commit.commit_url)

    def __call__(self, items: Any) -> Any:
        """Tags of one item, or a list with those of several.

        Args:
            items: For images: a path, the bytes of a file, a PIL image, or a list of these. For
                texts: a text, or a list of them. For vectors: an array or lists of numbers `[D]`
                or `[N, D]`.

        Returns:
            For each item a dict: `labels`, the classes above their thresholds, most likely first,
            and `probabilities`, the calibrated probability of every class.
        """
        model = self._model
        single, listed = _listed(items, model)
        tags = []
        for start in range(0, len(listed), AT_ONCE):
            part = [*enumerate(listed[start : start + AT_ONCE], start)]
            if model.encoder is None:
                inputs: Sequence[Tensor] = [self._input(item, row) for row, item in part]
            else:
                inputs = model.encoded([_text(item, row) for row, item in part])
            predictions = model.predict([""] * len(inputs), inputs)
            tags += [predictions.to_json(row, model.thresholds.array) for row in range(len(inputs))]
        return tags[0] if single else tags

    def _input(self, item: Any, row: int) -> Tensor:
        """An item as the input of the model."""
        if isinstance(item, torch.Tensor):
            if not same_kind(tuple(item.shape), self._model.shape) or not item.isfinite().all():
                raise InputError(f"item {row}: must be {self._model.what}, all of them finite")
            return item
        decoded = self._model.decoded(_file(item, row))
        if isinstance(decoded, str):
            raise InputError(f"item {row}: {decoded}")
        return decoded


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise InputError(f"the Hub needs huggingface_hub: {install_command('hub')}") from None
    return huggingface_hub


def _listed(items: Any, model: ServedModel) -> tuple[bool, Sequence[Any]]:
    """Whether it is a single item, and a list of the items; vectors are tensors."""
    if model.images or model.encoder is not None:
        single = not isinstance(items, list | tuple)
        return single, [items] if single else items
    try:
        vectors = torch.as_tensor(np.asarray(items, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise InputError(f"vectors must be numbers, [D] or [N, D] ({error})") from None
    single = vectors.ndim == len(model.shape)
    return single, [*(vectors[None] if single else vectors)]


def _text(item: Any, row: int) -> str:
    if not isinstance(item, str) or not item.strip():
        raise InputError(f"item {row}: must be a text that is not empty")
    return item.strip()


def _file(item: Any, row: int) -> Path | bytes:
    """An image as a file, or the bytes of one."""
    if isinstance(item, bytes):
        return item
    if isinstance(item, str | Path):
        return Path(item)
    if isinstance(item, Image.Image):
        content = BytesIO()
        ImageOps.exif_transpose(item).save(content, "TIFF")  # of any mode, and nothing is lost
        return content.getvalue()
    what = "a path, the bytes of an image file or a PIL image"
    raise InputError(f"item {row}: must be {what}, not {type(item).__name__}")
