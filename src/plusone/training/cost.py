"""What a training costs, in seconds and bytes, from a few formulas.

A cost is a sum of terms. Each term is a quantity that follows from the code (multiplications, bytes
that are read and written, calls), divided by the speed of the machine at that kind of work
(`plusone.training.probe.Speeds`), times a coefficient. A coefficient is a plain number: how often
the work is done, and how much slower than the probe. Coefficients are fitted to measured trainings
by `benchmarks/cost.py`, which also says how well they predict others. They are relative to the
probe, so they are used on other machines and devices as they are.

With N items, L classes, width D and batches of B, the families are:

| family | seconds of an epoch grow with | bytes grow with |
| --- | --- | --- |
| head with a pointwise loss | N/B calls, N D L products, N L labels, N/B D L weights | N D, D L |
| with a memory per item (`ll_cp`, `en`, `em_apl`) | the same, with more for N L labels | N L |
| `role` with its dense estimate | the same, and N/B times N L: its optimizer moves all rows | N L |
| label-wise head (`lac`) | N L w with w its width, and N/B comparisons | B L w |
| closed form | n m (D + m + L), m³ (once, no epochs) | n m, n L |
| training a backbone | images, at the measured speed | weights, B activations |

For the closed form, n counts validation items too, and m is the number of landmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from plusone.data.images import CROPS
from plusone.data.lazy import LARGE
from plusone.data.matrix import LabelMatrix
from plusone.methods import get_method
from plusone.methods.lac import CAPACITY, LacOptions
from plusone.methods.recovery import HALVINGS, SEARCHED
from plusone.models.kernel import n_landmarks
from plusone.models.ridge import PENALTIES
from plusone.recipe import Recipe
from plusone.training._sampling import VALIDATION_LABELS
from plusone.training._workers import Count, automatic_count
from plusone.training.build import head_of
from plusone.training.closed_form import FOLDS, MANY
from plusone.training.gamma import GAMMAS, SAMPLED
from plusone.training.probe import BackboneSpeed, Speeds
from plusone.training.rates import FACTORS, MOST_ITEMS
from plusone.training.step import SMALL_STEP
from plusone.types import TrainLabels

Terms = dict[str, float]

FLOAT = 4  # bytes
EMBEDDING = 64  # width of a label-wise head on feature vectors
COMPARED = (2 * CAPACITY, 2 * CAPACITY + LacOptions.queue)  # labels that `lac` compares in a step
USUAL = "gr"  # whose coefficients a method has that was not measured
# Copies of a tensor: the weights, their gradients, two moments of Adam and the best epoch's; rows
# that move alone have neither a whole gradient nor a whole second moment; a buffer has two copies.
LEARNED, ROWWISE, REMEMBERED = 5, 3, 2
FEW, SOME = 8, 16  # items that a method is built with to see how its state grows


@dataclass(frozen=True)
class Sizes:
    """What the cost of training a head depends on.

    Args:
        items: N, items that are learned from; a closed form learns from the held-out ones too.
        classes: L.
        width: D, length of a feature vector.
        batch: B, items per step, over all ranks.
        held_out: Items that are evaluated after each epoch.
        number: Bytes of a number in the file of features.
        rounds: Of a closed form, 0 for `ridge`.
        folds: Whether a closed form predicts folds, see `MethodInfo.leave_one_out`.
        kernel: Whether the head of a closed form is a kernel.
    """

    items: int
    classes: int
    width: int
    batch: int = 256
    held_out: int = 0
    number: int = 4
    rounds: int = 5
    folds: bool = True
    kernel: bool = True

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return -(-self.items // self.batch)


def step_terms(sizes: Sizes, speeds: Speeds) -> Terms:
    """Seconds of the parts of one epoch of a head, before coefficients.

    - calls: one small operation per step; the coefficient counts the operations of a step.
    - products: logits, and the gradient of the weights.
    - labels: one pass over the logits `[B, L]` of all steps, or over a memory `[N, L]` after them.
    - weights: one pass over the weights `[L, D]` in every step: gradients and the optimizer.
    - inputs: gathering the rows of all batches.
    - sorting: sorting a table `[N, L]` by items, after the epoch.
    - predictions: logits of all items, after the epoch.
    - estimate: one pass over a table `[N, L]` in every step.
    - embeddings: one pass over the embeddings `[B, L, w]` of all steps.
    - contrast: one pass over the table in which `lac` compares the labels of both views with each
      other and with its queue, in every step.
    """
    n, classes, width, steps = sizes.items, sizes.classes, sizes.width, sizes.steps
    return {
        "calls": steps * speeds.call,
        "products": 4 * n * width * classes / speeds.product,
        "labels": FLOAT * n * classes / speeds.table,
        "weights": steps * FLOAT * width * classes / speeds.copy,
        "inputs": FLOAT * n * width / speeds.copy,
        "sorting": FLOAT * n * classes * math.log2(max(n, 2)) / speeds.table,
        "predictions": 2 * n * width * classes / speeds.product,
        "estimate": steps * FLOAT * n * classes / speeds.copy,
        "embeddings": FLOAT * n * classes * EMBEDDING / speeds.table,
        "contrast": steps * FLOAT * COMPARED[0] * COMPARED[1] / speeds.table,
    }


def evaluation_terms(sizes: Sizes, speeds: Speeds) -> Terms:
    """Seconds of the parts of evaluating the held-out items, before coefficients.

    - calls: one small operation.
    - products: their logits.
    - tables: one pass over their logits, which are also sorted.
    """
    labels = sizes.held_out * sizes.classes
    return {
        "calls": speeds.call,
        "products": 2 * labels * sizes.width / speeds.product,
        "tables": FLOAT * labels / speeds.table,
    }


def closed_form_terms(sizes: Sizes, speeds: Speeds, host: Speeds | None = None) -> Terms:
    """Seconds of the parts of a closed form, before coefficients.

    - products: kernel, vectors, their axes, and one product `[n, m] x [m, L]` for each penalty and
      twice for each round; all again for each fold, and some for the choice of gamma.
    - cubes: m³ operations for each decomposition of an `[m, m]` matrix, on the processor (`host`)
      also where there is an accelerator.
    - tables: one pass over a table `[n, L]` for each solution.
    - vectors: one pass over the vectors `[n, m]` for each solution.
    - search: one pass over the sampled labels for each halving.
    """
    n, classes, width = sizes.items, sizes.classes, sizes.width
    m = n_landmarks(n) if sizes.kernel else width
    folds = (min(FOLDS, n) if n <= MANY else 2) if sizes.folds else 0
    times = max(folds, 1)  # the whole once, and folds - 1 times in parts
    solutions = len(PENALTIES) + 2 + 2 * sizes.rounds
    products = 2 * n * m * (width * sizes.kernel + 2 * m + m * sizes.kernel)
    products += 2 * n * m * classes * solutions * times + 4 * n * m * m * max(folds - 1, 0)
    cubes = (1.0 + folds) * m**3
    if sizes.kernel:
        some = min(n, SAMPLED)
        alone = 2 * some * some * (width + 3 * some + classes * (len(PENALTIES) + 2))
        products += len(GAMMAS) * alone
        cubes += len(GAMMAS) * some**3
    searched = HALVINGS * sizes.rounds * times * min(n * classes, SEARCHED)
    return {
        "products": products / speeds.product,
        "cubes": cubes / (host or speeds).product,
        "tables": FLOAT * n * classes * times * solutions / speeds.copy,
        "vectors": FLOAT * n * m * times * solutions / speeds.copy,
        "search": FLOAT * searched / speeds.table,
    }


def memory_terms(sizes: Sizes, *, closed_form: bool = False) -> Terms:
    """Bytes of the parts of training a head, before coefficients.

    - process: Python, torch and this package; the coefficient is in bytes.
    - items: ids, split and sparse labels; the coefficient is bytes per item.
    - features: as in the file and in float32; a file of `LARGE` bytes or more stays on disk.
    - logits: of one batch.
    - evaluation: logits of the held-out items.
    - memory: of a pass over all labels `[N, L]` after an epoch.
    - embeddings: of one batch.
    - vectors, tables, squares: of a closed form: `[n, m]`, `[n, L]` and `[m, m]`.

    The state of head and method is counted by `state_bytes`.
    """
    n, classes, width = sizes.items, sizes.classes, sizes.width
    held = n * width * (sizes.number + FLOAT) if n * width * sizes.number < LARGE else 0
    terms = {"process": 1.0, "items": n + sizes.held_out, "features": float(held)}
    if closed_form:
        m = n_landmarks(n) if sizes.kernel else width
        if not held:
            terms["features"] = float(n * width * FLOAT)  # read into memory for the map
        return terms | {
            "vectors": float(FLOAT * n * m),
            "tables": float(FLOAT * n * classes),
            "squares": float(FLOAT * m * m),
        }
    return terms | {
        "logits": float(FLOAT * min(sizes.batch, n) * classes),
        "evaluation": float(FLOAT * sizes.held_out * classes),
        "memory": float(FLOAT * n * classes),
        "embeddings": float(FLOAT * min(sizes.batch, n) * classes * EMBEDDING),
    }


def state_bytes(method: str, options: Mapping[str, Any], sizes: Sizes) -> float:
    """Bytes of what head and method learn and remember, with gradients, moments and the best epoch.

    The method is built for a few items and for a few more, so this holds for any method.

    Args:
        method: Its name.
        options: Its options.
        sizes: N, L and D.
    """
    info = get_method(method)

    def bytes_for(items: int) -> int:
        seen = LabelMatrix.from_entries([0], [0], 1, (items, sizes.classes))
        built = info.build(TrainLabels(seen, 1.0), info.make_options(options))
        head = built.make_head(sizes.width)
        sparse = {
            part.weight
            for part in built.modules()
            if isinstance(part, nn.Embedding) and part.sparse
        }
        count = sum(REMEMBERED * buffer.nbytes for buffer in built.buffers())
        for weight in (*head.parameters(), *built.parameters()):
            count += (ROWWISE if weight in sparse else LEARNED) * weight.nbytes
        return count

    few, some = bytes_for(FEW), bytes_for(SOME)
    return few + (some - few) / (SOME - FEW) * (sizes.items - FEW)


def total(terms: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    """The sum of the terms that have a coefficient.

    >>> total({"calls": 2.0, "labels": 3.0, "memory": 5.0}, {"calls": 10.0, "labels": 1.0})
    23.0
    """
    return sum(factor * terms[name] for name, factor in coefficients.items())


# Fitted by `python benchmarks/cost.py --fit`.
SHARED: Mapping[str, float] = {"products": 1.0, "weights": 12.47, "inputs": 6.903}
TIME: Mapping[str, Mapping[str, float]] = {
    "an": {"calls": 178.6, "labels": 15.18},
    "gr": {"calls": 299.2, "labels": 60.99},
    "ll_cp": {"calls": 509.0, "labels": 42.35},
    "en": {"calls": 193.0, "labels": 0.0, "sorting": 21.81},
    "em_apl": {"calls": 336.0, "labels": 143.0, "predictions": 1.171},
    "role": {"calls": 373.1, "labels": 181.0, "estimate": 13.65},
    "lac": {"contrast": 101.5, "embeddings": 155.7},
}
EVALUATION_TIME: Mapping[str, float] = {"calls": 333.0, "products": 1.711, "tables": 19.9}
CLOSED_FORM_TIME: Mapping[str, float] = {
    "products": 2.584,
    "cubes": 13.24,
    "tables": 0.0,
    "vectors": 0.0,
    "search": 3.317,
}
MEMORY: Mapping[str, float] = {
    "process": 316600000.0,
    "items": 273.6,
    "features": 1.056,
    "logits": 48.05,
    "evaluation": 2.032,
}
OWN_MEMORY: Mapping[str, Mapping[str, float]] = {
    "en": {"memory": 4.162},
    "em_apl": {"memory": 2.388},
    "lac": {"embeddings": 88.48},
}
CLOSED_FORM_MEMORY: Mapping[str, float] = {
    "process": 324500000.0,
    "items": 273.6,
    "features": 1.0,
    "vectors": 1.137,
    "tables": 4.0,
    "squares": 12.96,
}


def epoch_seconds(method: str, sizes: Sizes, speeds: Speeds) -> float:
    """Seconds of one epoch of a head on features, without its evaluation."""
    return total(step_terms(sizes, speeds), {**SHARED, **TIME.get(method, TIME[USUAL])})


def evaluation_seconds(sizes: Sizes, speeds: Speeds) -> float:
    """Seconds of evaluating the held-out items once."""
    return total(evaluation_terms(sizes, speeds), EVALUATION_TIME)


def closed_form_seconds(sizes: Sizes, speeds: Speeds, host: Speeds | None = None) -> float:
    """Seconds of a closed form; `host` are the speeds of the processor beside an accelerator."""
    return total(closed_form_terms(sizes, speeds, host), CLOSED_FORM_TIME)


def head_bytes(method: str, options: Mapping[str, Any], sizes: Sizes) -> float:
    """Bytes of the process while a head is trained on features, at its peak."""
    if get_method(method).closed_form:
        return total(memory_terms(sizes, closed_form=True), CLOSED_FORM_MEMORY)
    terms = memory_terms(sizes)
    own = {**MEMORY, **OWN_MEMORY.get(method, {})}
    return total(terms, own) + state_bytes(method, options, sizes)


def communication_bytes(weights: int, sizes: Sizes, ranks: int) -> Terms:
    """Bytes that every rank receives in a step, see docs/distributed.md.

    - gradients: of all trained weights, summed over the ranks in a ring.
    - outputs: logits and features of the other ranks' rows, because each computes the whole loss.

    Args:
        weights: Numbers that are trained.
        sizes: L, D and the batch, over all ranks.
        ranks: How many processes there are.
    """
    others = (ranks - 1) / ranks
    return {
        "gradients": 2 * FLOAT * weights * others,
        "outputs": FLOAT * sizes.batch * (sizes.classes + sizes.width) * others,
    }


@dataclass(frozen=True)
class Machine:
    """What an estimate needs to know of a machine.

    Args:
        one: Speeds of one thread of the processor, on which small steps run.
        all: Speeds of all threads, or of the accelerator.
        cores: Cores of the processor.
        on_cpu: Whether the backbone runs on these cores too.
        decode: Images per second that one worker decodes.
        backbone: Speed of the recipe's backbone.
    """

    one: Speeds
    all: Speeds
    cores: int
    on_cpu: bool = True
    decode: float | None = None
    backbone: BackboneSpeed | None = None


@dataclass(frozen=True)
class Data:
    """What an estimate needs to know of a data set.

    Args:
        train: Training items.
        val: Validation items.
        test: Test items.
        classes: L.
        width: D of given features; None for images.
        number: Bytes of a number of given features.
        files: Whether images are files, to be decoded.
        size: Side of images.
        channels: Of images.
    """

    train: int
    val: int
    test: int
    classes: int
    width: int | None = None
    number: int = 4
    files: bool = True
    size: int | None = None
    channels: int = 3

    @property
    def items(self) -> int:
        """Items of all splits."""
        return self.train + self.val + self.test


@dataclass(frozen=True)
class Cost:
    """A part of a training.

    Args:
        what: Its name.
        seconds: How long it takes; None if the backbone was not measured.
        bytes: Memory that it needs at its peak; for a head on an accelerator that of the processor
            and of the accelerator together.
        device_bytes: Memory of the accelerator beside that, for a backbone.
    """

    what: str
    seconds: float | None
    bytes: float
    device_bytes: float = 0.0


def estimate(
    recipe: Recipe, data: Data, machine: Machine, *, rate_open: bool = False
) -> tuple[Cost, ...]:
    """The parts of a training, in their order.

    Reading the data, the metrics and the calibration at the end, and the report are not counted.

    Args:
        recipe: All settings.
        data: The data set.
        machine: The machine.
        rate_open: Whether the learning rate is chosen by trying several.
    """
    images, info = data.width is None, get_method(recipe.method)
    width = data.width or (machine.backbone.width if machine.backbone else 0)
    solves = info.closed_form
    val = min(data.val, max(VALIDATION_LABELS // data.classes, 1000))
    sizes = Sizes(
        items=data.train + val if solves and recipe.use_validation else data.train,
        classes=data.classes,
        width=width,
        batch=recipe.batch_size,
        held_out=0 if solves and recipe.use_validation else val,
        number=FLOAT if images else data.number,
        rounds=int(recipe.options.get("rounds", 5)) if recipe.method == "recovery" else 0,
        folds=not info.leave_one_out,
        kernel=solves and head_of(recipe, images=images) == "kernel",
    )
    costs = []
    stages = recipe.resolved_stages(images=images, phases=info.phases)
    if images and any(stage.inputs == "features" for stage in stages):
        costs.append(_extraction(recipe, data, machine))
    small = sizes.batch * width * data.classes < SMALL_STEP
    speeds = machine.one if small and machine.on_cpu and not recipe.threads else machine.all
    host = machine.all if machine.on_cpu else machine.one
    for number, stage in enumerate(stages):
        name = f"stage {number + 1}: " if len(stages) > 1 else ""
        if stage.inputs == "images":
            costs.append(_finetuning(name, recipe, data, machine, stage.epochs))
            continue
        peak = head_bytes(recipe.method, recipe.options, sizes)
        if solves:
            seconds = closed_form_seconds(sizes, machine.all, host)
            costs.append(Cost(f"{name}closed form", seconds, peak))
            continue
        each = epoch_seconds(recipe.method, sizes, speeds) + evaluation_seconds(sizes, speeds)
        if rate_open and info.stacks and data.train <= MOST_ITEMS:
            costs.append(Cost("trying learning rates", len(FACTORS) * stage.epochs * each, peak))
        costs.append(Cost(f"{name}{stage.epochs} epochs of the head", stage.epochs * each, peak))
    return tuple(costs)


def n_views(recipe: Recipe) -> int:
    """How many views of an image the method is shown."""
    info = get_method(recipe.method)
    seen = LabelMatrix.from_entries([0], [0], 1, (1, 2))
    return len(info.build(TrainLabels(seen, 1.0), info.make_options(recipe.options)).views)


def _decoding(images: float, data: Data, machine: Machine, count: Count) -> float:
    """Seconds of the workers for so many images."""
    if not data.files or machine.decode is None:
        return 0.0
    workers = automatic_count(not machine.on_cpu) if count == "auto" else count
    return images / (machine.decode * min(max(workers, 1), machine.cores))


def _together(network: float, decoding: float, machine: Machine) -> float:
    """Seconds of network and workers: on the same cores one after the other, else side by side."""
    return network + decoding if machine.on_cpu else max(network, decoding)


def _extraction(recipe: Recipe, data: Data, machine: Machine) -> Cost:
    """Features of all images by a fixed backbone."""
    net = machine.backbone
    if net is None:
        return Cost("features of the images", None, 0.0)
    crops = len(CROPS[recipe.crops])
    network = data.items * crops / net.forward
    decoding = _decoding(data.items, data, machine, recipe.workers)
    held = FLOAT * net.weights + FLOAT * data.items * net.width
    seconds = _together(network, decoding, machine)
    return Cost("features of the images", seconds, MEMORY["process"] + held)


def _finetuning(name: str, recipe: Recipe, data: Data, machine: Machine, epochs: int) -> Cost:
    """Training the backbone for some epochs."""
    what, net = f"{name}{epochs} epochs of the backbone", machine.backbone
    if net is None or net.train is None:
        return Cost(what, None, 0.0)
    views = n_views(recipe)
    network = epochs * (views * data.train / net.train + data.val / net.forward)
    pixels = data.channels * net.size**2 * data.items
    cached = pixels <= recipe.cache_mb * 1_000_000
    passes = 1 if cached else epochs
    decoding = _decoding(passes * (data.train + data.val), data, machine, recipe.workers)
    own: float = LEARNED * FLOAT * net.weights + views * recipe.batch_size * net.activations
    sizes = Sizes(data.train, data.classes, net.width, recipe.batch_size)
    own += state_bytes(recipe.method, recipe.options, sizes)
    host = MEMORY["process"] + (pixels if cached or not data.files else 0)
    seconds = _together(network, decoding, machine)
    on_device = 0.0 if machine.on_cpu else own
    return Cost(what, seconds, host + (own if machine.on_cpu else 0.0), on_device)
