"""`Recipe`: every setting of a run, strict, readable from TOML and written beside the result."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from plusone.errors import InputError
from plusone.io.readers import read_text
from plusone.metrics.seen_labels import score_name
from plusone.types import MOST_EPOCHS, Picks, Stage, given
from plusone.version import __version__, refuse_newer

__all__ = [
    "FORMAT",
    "Recipe",
    "first_of",
    "make_recipe",
    "parse_settings",
    "read_toml",
    "shortened",
    "to_toml_value",
]

FORMAT = 1
# What they change is speed and memory alone.
MACHINE_SETTINGS = (
    "device", "memory", "workers", "threads", "checkpoint_activations", "cache_dir",
)  # fmt: skip
MOST_PROCESSES = 256  # a file must not start thousands
SHOWN = 200
MOST = 10


def _known_score(name: str) -> str:
    score_name(name)
    return name


Precision = Literal["float32", "bf16", "fp16"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
MethodOptions = Annotated[dict[str, Any], AfterValidator(given)]


class Recipe(BaseModel):
    """Settings of a run. Every field can be set in TOML or by `--set name=value`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    method: str = Field(default="gr", description="name in the method table")
    options: MethodOptions = Field(default={}, description="options of the method")
    seed: int = Field(
        default=0, description="seed of initial weights, batch order and augmentation"
    )

    observe: str = Field(
        default="auto",
        description="observation scheme where all labels are known; auto = the method's own; "
        "given = use the labels as they are",
    )
    observe_seed: int = Field(default=1200, description="seed of the simulated annotator")
    val_share: float = Field(
        default=0.2, gt=0, lt=1, description="share of training held out if no val"
    )
    split_seed: int = Field(
        default=1200, description="seed of the held-out share and of train_share"
    )
    train_share: float = Field(
        default=1.0, gt=0, le=1, description="share of the training items that is learned from"
    )
    seen_negatives: Literal["weighted", "full"] = Field(
        default="weighted",
        description="what a seen negative (an answer no) weighs: weighted = as much as its "
        "probability exceeds that of the class's unobserved labels; full = 1, as the formulas have "
        "it; the references bce, iun and iu always have 1",
    )
    unobserved: Literal["full", "weighted"] = Field(
        default="full",
        description="what an unobserved label weighs, in methods trained by gradient steps from "
        "one positive per item: full = 1, as the formulas have it; weighted = the probability "
        "that it is absent, by labels that recovery recovers from features before the run",
    )
    select_on: Literal["auto", "truth", "observed"] = Field(
        default="auto",
        description="labels the best epoch is chosen on; auto = truth where it is known",
    )
    select_by: Annotated[str, AfterValidator(_known_score)] = Field(
        default="auto",
        description="score that chooses where the choice is on observed labels, such as seen_auc; "
        "auto = the one with the least regret, see docs/selection.md",
    )
    empty: Literal["zero", "skip"] = Field(
        default="zero", description="mAP of a class without positives: 0 (the papers) or left out"
    )
    expected_positives: Positive | Literal["truth", "estimate"] | None = Field(
        default=None,
        description="positives per item (k); 'truth' counts them on the training items, as the "
        "papers do; 'estimate' estimates them from single positives; default, for methods that "
        "need k: counted on validation items with all labels, else estimated",
    )
    picks: Picks = Field(
        default="auto",
        description="how annotators pick the label they name: uniform = any label of an item with "
        "the same probability; salience = each class by a salience that is learned; auto = learned",
    )
    class_priors: tuple[Share, ...] | Literal["truth", "estimate"] | None = Field(
        default=None,
        description="share of items that have each class, in the order of the classes, for crisp; "
        "'truth' counts them on the training items; 'estimate' takes the estimate of plusone "
        "priors; default: the method's own, for crisp best-bin estimation (BBE) every epoch",
    )

    probe: Literal["auto", "on", "full", "off"] = Field(
        default="auto",
        description="after each epoch, look at what the model says about hidden training labels, "
        "for reports; auto = where only a head is trained, which makes it cheap; full = also "
        "before training, and for each class",
    )
    probe_on: Literal["training", "validation", "test"] = Field(
        default="training",
        description="whose labels the probe looks at: the hidden ones of the training items, or "
        "all labels of validation or test items, as GR and LASD do",
    )

    hint_features: bool = Field(
        default=False,
        description="append the hints of an item to its feature vector; predictions need them too",
    )
    mode: Literal["auto", "linear", "finetune", "linear_init"] = Field(
        default="auto", description="linear on fixed features, finetune all, or one after the other"
    )
    head: Literal["auto", "linear", "kernel", "labelwise"] = Field(
        default="auto",
        description="linear = a linear model; kernel = a linear model in the space of a kernel, on "
        "fixed features; labelwise = an embedding for each class by attention, as LAC has it; auto "
        "= kernel for methods with a closed form on fixed features, else the method's own: linear "
        "for most",
    )
    head_options: MethodOptions = Field(
        default={},
        description="sizes of the labelwise head: width, heads, feedforward, encoder_layers, "
        "decoder_layers, dropout; default as those of lac",
    )
    kernel: Literal["auto", "cosine", "rbf"] = Field(
        default="auto",
        description="cosines of embeddings, or distances of standardized features (rbf); auto = "
        "the one that predicts seen labels best",
    )
    gamma: Positive | None = Field(
        default=None,
        description="narrowness of the kernel; default: the one of 0.75, 1.5 and 3 that predicts "
        "seen labels best",
    )
    standardize: bool = Field(
        default=False,
        description="on fixed features: bring each feature to mean 0 and spread 1 on the items "
        "that are learned from; the trained model takes the features as they were given",
    )
    use_validation: bool = Field(
        default=True,
        description="learn from the seen labels of validation items too, where the method needs "
        "none to choose by",
    )
    epochs: int | None = Field(
        default=None, ge=1, le=MOST_EPOCHS, description="epochs; default 25 linear, 10 finetune"
    )
    lr: float = Field(default=1e-3, gt=0, description="learning rate")
    finetune_epochs: int = Field(
        default=5, ge=1, le=MOST_EPOCHS, description="epochs of the second stage of linear_init"
    )
    finetune_lr: float | None = Field(
        default=None, gt=0, description="its learning rate; default lr / 10"
    )
    stages: tuple[Stage, ...] = Field(
        default=(), max_length=100, description="explicit stages instead of a mode"
    )
    batch_size: int = Field(default=16, ge=1, le=2**20, description="items per step")
    accumulate: int = Field(
        default=1,
        ge=1,
        description="pieces that a batch of images is computed in, one after the other, to save "
        "memory; the step is that of the whole batch, but for batch norm",
    )
    group_weight: float = Field(
        default=0.0,
        ge=0,
        description="weight of the consistency of items of a group: their probabilities should be "
        "near the running mean of the group; needs a group column; 0 = off",
    )
    group_rate: float = Field(
        default=0.001,
        gt=0,
        le=1,
        description="share of the running mean of a group that an item replaces",
    )
    clip: Positive | None = Field(
        default=None,
        description="highest norm of the model's gradient; a larger one is scaled down",
    )
    optimizer: Literal["adam", "adamw", "sgd"] = Field(default="adam", description="optimizer")
    weight_decay: float = Field(default=0.0, ge=0, description="weight decay")
    head_lr_mult: float = Field(default=1.0, gt=0, description="learning rate of the head over lr")
    schedule: Literal["constant", "one_cycle"] = Field(
        default="constant", description="course of the learning rate over a stage"
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        description="epochs without a better one that end a stage; default: never",
    )
    ema: float | None = Field(default=None, gt=0, lt=1, description="decay of averaged weights")

    backbone: str = Field(
        default="auto",
        description="backbone for images: cnn (= auto), lite0, lite1, lite2, or timm/NAME",
    )
    weights: str = Field(
        default="auto",
        description="weights of the backbone: auto = its own, random, or a local safetensors file",
    )
    freeze: tuple[str, ...] = Field(
        default=(),
        description="parts of the backbone that stay as they are, such as ['conv1', 'layer1']",
    )
    freeze_norm: bool = Field(
        default=False, description="keep all batch norms of the backbone as they are"
    )
    precision: Precision = Field(
        default="float32",
        description="numbers the backbone computes with; weights, head and loss are float32",
    )
    tf32: bool = Field(
        default=False, description="let CUDA round the factors of float32 matrix products to TF32"
    )
    checkpoint_activations: bool = Field(
        default=False,
        description="keep fewer activations of the backbone and compute the others again, which "
        "takes longer and saves memory; for backbones of timm",
    )
    image_size: int | None = Field(
        default=None, ge=16, le=2048, description="side; default the backbone's"
    )
    aspect: Literal["stretch", "crop"] = Field(
        default="stretch",
        description="how images become square: stretch, or crop = short side to 256/224 of the "
        "size, then the middle",
    )
    crops: Literal["one", "five"] = Field(
        default="one",
        description="parts of an image whose features are averaged, for the mode linear: one = "
        "the whole, five = the whole and four overlapping tiles of 60 % of each side",
    )
    flip: bool = Field(default=True, description="mirror training images at random")
    workers: Annotated[int, Field(ge=0, le=MOST_PROCESSES)] | Literal["auto"] = Field(
        default="auto",
        description="processes that decode images not held in memory; auto = by the cores, at most "
        "4 if the model runs on the CPU and 16 on an accelerator",
    )
    cache_mb: int = Field(
        default=2000,
        ge=0,
        le=10_000_000,
        description="decoded images up to this size stay in memory",
    )
    cache_dir: str | None = Field(
        default=None, description="folder for decoded images, written once and used by later runs"
    )
    device: str = Field(
        default="auto",
        description="what computes: auto = the accelerator that torch finds, else the CPU; or cpu, "
        "cuda, cuda:1, mps, xpu",
    )
    memory: Literal["device", "host"] = Field(
        default="device",
        description="where a method keeps its tables with a row per item (role, ll_cp, em_apl, en, "
        "recovery): on the device, or in the memory of the CPU, for tables larger than the device",
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="torch threads; default: torch's own"
    )
    compile: bool = Field(
        default=False,
        description="compile loss and model with torch.compile where a compiler is there",
    )

    @property
    def portable(self) -> Recipe:
        """The same training, with the defaults for what depends on the machine alone.

        Two recipes that agree in this give the same result, up to the rounding of a device.
        """
        return self.model_copy(
            update={name: Recipe.model_fields[name].default for name in MACHINE_SETTINGS}
        )

    def resolved_stages(
        self, *, images: bool, phases: Sequence[Mapping[str, Any]] = ({},)
    ) -> tuple[Stage, ...]:
        """The stages of this recipe.

        Args:
            images: Whether the data set has images, or features.
            phases: Options of each phase of the method, see `MethodInfo`; stages that the recipe
                spells out are left as they are.
        """
        if self.stages:
            stages = list(self.stages)
        else:
            mode = self.mode if self.mode != "auto" else ("finetune" if images else "linear")
            first: Literal["features", "images"] = "images" if mode == "finetune" else "features"
            epochs = self.epochs or (10 if mode == "finetune" else 25)
            stages = [
                Stage(inputs=first, epochs=epochs, options=dict(options)) for options in phases
            ]
            if mode == "linear_init":
                lr = self.finetune_lr or self.lr / 10
                stages[1:] = [
                    Stage(epochs=self.finetune_epochs, lr=lr, options=dict(options))
                    for options in phases
                ]
        if not images and any(stage.inputs == "images" for stage in stages):
            raise InputError(
                "this data has features, or texts that become features by a fixed encoder, but "
                "no images, so only the mode linear works on it"
            )
        return tuple(stages)

    def to_toml(self) -> str:
        """The recipe as TOML; reading it back gives an equal recipe."""
        plain = self.model_dump(exclude_none=True)
        stages = plain.pop("stages")
        lines = [f"{key} = {to_toml_value(value)}" for key, value in plain.items()]
        for stage in stages:
            lines += ["", "[[stages]]"]
            lines += [
                f"{key} = {to_toml_value(value)}"
                for key, value in stage.items()
                if value is not None
            ]
        return "\n".join(lines) + "\n"


def make_recipe(*layers: Mapping[str, Any], source: str = "recipe") -> Recipe:
    """Lays settings over each other, later ones winning; `options` are merged key by key."""
    merged: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for layer in layers:
        merged |= layer
        if isinstance(layer.get("options"), Mapping):
            options |= layer["options"]
            merged["options"] = options
    refuse_newer(source, merged.get("format"), FORMAT)
    try:
        return Recipe(**merged)
    except ValidationError as error:
        raise InputError(f"{source}: {explain(error)}") from None


def explain(error: ValidationError) -> str:
    """What is wrong with settings, in one line a person can act on."""
    parts = []
    for problem in error.errors():
        inside = problem["loc"][:1] == ("stages",)
        name = ".".join(str(part) for part in problem["loc"][: 3 if inside else 1])
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            fields = Stage.__dataclass_fields__ if inside else Recipe.model_fields
            known = ", ".join(fields)
            newer = f"a newer plusone than this one ({__version__}) may know it"
            parts.append(f"unknown setting {name!r}; settings: {known}; {newer}")
        else:
            parts.append(f"{name} = {shortened(problem['input'])}: {_reason(problem['msg'])}")
    return first_of(parts)


def first_of(parts: Sequence[str]) -> str:
    """The first different sentences in one, and how many more there are."""
    different = list(dict.fromkeys(parts))
    more = [f"and {len(different) - MOST} more"] if len(different) > MOST else []
    return "; ".join(different[:MOST] + more)


def shortened(value: object) -> str:
    """A value as Python writes it, the end left out if it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _reason(message: str) -> str:
    """The message of pydantic about a value, without its prefix."""
    ours = message.removeprefix("Value error, ")
    return message.lower() if ours == message else ours


def read_toml(path: Path) -> dict[str, Any]:
    """Settings from a TOML file."""
    try:
        return tomllib.loads(read_text(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not valid TOML ({error})") from None


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Settings from `name=value` texts; `options.name=value` sets a method option.

    >>> parse_settings(["lr=1e-4", "options.alpha=0.2", "mode=linear"])
    {'lr': 0.0001, 'mode': 'linear', 'options': {'alpha': 0.2}}
    """
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set {text!r}: write it as name=value")
        target, key = settings, name.strip()
        if key.startswith("options."):
            target, key = options, key.removeprefix("options.")
        target[key] = _value(value.strip())
    return settings | ({"options": options} if options else {})


def _value(text: str) -> Any:
    """A Python literal, `true` / `false` / `none` in any case, or else the text itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def to_toml_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        inner = ", ".join(
            f"{json.dumps(key)} = {to_toml_value(entry)}" for key, entry in value.items()
        )
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(to_toml_value(entry) for entry in value)}]"
    return json.dumps(value, ensure_ascii=False)
