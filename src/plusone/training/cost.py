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
| with a memory per item (`ll_cp`, `en`, `em_apl`) | the same, and N L after the epoch | N L |
| `role` with its dense estimate | the same, and N/B times N L: its optimizer moves all rows | N L |
| label-wise head (`lac`) | N L w with w its width, and N/B comparisons | B L w |
| a network for each class (`mime`) | N L w (D + h), N/B L w (D + h) weights | L w (D + h) |
| closed form | m³, n m (D + m + L) (once, no epochs) | n m, n L |
| training a backbone | images, at the measured speed | weights, B activations |

For the closed form, n counts validation items too, and m is the number of landmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from plusone.build import head_of
from plusone.closed_form.folds import FOLDS, MANY
from plusone.closed_form.gamma import GAMMAS, SAMPLED
from plusone.closed_form.kernel import n_landmarks
from plusone.closed_form.ridge import BLOCK, PENALTIES
from plusone.data.images import CROPS
from plusone.data.lazy import LARGE
from plusone.data.matrix import LabelMatrix
from plusone.inputs.sampling import VALIDATION_LABELS
from plusone.inputs.workers import Count, automatic_count
from plusone.methods import get_method
from plusone.methods.lac import CAPACITY, LacOptions
from plusone.methods.mime import MimeOptions
from plusone.methods.recovery import HALVINGS, SEARCHED
from plusone.recipe import Recipe
from plusone.training.probe import BackboneSpeed, Speeds
from plusone.training.rates import FACTORS, MOST_ITEMS
from plusone.training.step import SMALL_STEP
from plusone.types import TrainLabels

Terms = dict[str, float]

FLOAT = 4  # bytes
EMBEDDING = 64  # width of a label-wise head, or of a network for each class, on feature vectors
OUTPUTS = 2 * MimeOptions.latent  # of a network for each class
# The C library gives memory of this size back to the system when it is freed, so that every new
# tensor takes fresh pages; that of smaller ones is used again.
MAPPED = 1 << 25
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
    """Seconds of the parts of the steps of one epoch of a head, before coefficients.

    - calls: one small operation per step; the coefficient counts the operations of a step.
    - products: logits, and the gradient of the weights.
    - labels: one pass over the logits `[B, L]` of all steps.
    - weights: one pass over the weights `[L, D]` in every step: gradients and the optimizer.
    - inputs: gathering the rows of all batches.
    - estimate: one pass over a table `[N, L]` in every step.
    - fresh: the pages of such a table, if it is new in every step and large.
    - embeddings: one pass over the embeddings `[B, L, w]` of all steps.
    - contrast: one pass over the table in which `lac` compares the labels of both views with each
      other and with its queue, in every step.
    - networks: products of the first layers of the networks that each class has.
    - network_weights: one pass over the weights of both layers in every step.
    - network_outputs: one pass over their outputs for all items.
    - network_fresh: the pages of the outputs of a batch, if they are large.
    """
    n, classes, width, steps = sizes.items, sizes.classes, sizes.width, sizes.steps
    hidden = classes * EMBEDDING
    return {
        "calls": steps * speeds.call,
        "products": 4 * n * width * classes / speeds.product,
        "labels": FLOAT * n * classes / speeds.table,
        "weights": steps * FLOAT * width * classes / speeds.copy,
        "inputs": FLOAT * n * width / speeds.copy,
        "estimate": steps * FLOAT * n * classes / speeds.copy,
        "fresh": steps * _pages(FLOAT * n * classes) / speeds.fresh,
        "embeddings": FLOAT * n * classes * EMBEDDING / speeds.table,
        "contrast": steps * FLOAT * COMPARED[0] * COMPARED[1] / speeds.table,
        "networks": 4 * n * width * hidden / speeds.product,
        "network_weights": steps * FLOAT * hidden * (width + OUTPUTS) / speeds.copy,
        "network_outputs": FLOAT * n * classes * OUTPUTS / speeds.table,
        "network_fresh": steps
        * _pages(FLOAT * min(sizes.batch, n) * classes * OUTPUTS)
        / speeds.fresh,
    }


def after_terms(sizes: Sizes, speeds: Speeds) -> Terms:
    """Seconds of the parts of what a method does with all labels after an epoch.

    - tables: one pass over a table `[N, L]`.
    - fresh: its pages, if it is large.
    - sorting: sorting it by items.
    - predictions: logits of all items.
    - networks, network_outputs: the networks of each class for all items, see `step_terms`.
    """
    n, classes = sizes.items, sizes.classes
    return {
        "tables": FLOAT * n * classes / speeds.table,
        "fresh": _pages(FLOAT * n * classes) / speeds.fresh,
        "sorting": FLOAT * n * classes * math.log2(max(n, 2)) / speeds.table,
        "predictions": 2 * n * sizes.width * classes / speeds.product,
        "networks": 2 * n * sizes.width * classes * EMBEDDING / speeds.product,
        "network_outputs": FLOAT * n * classes * OUTPUTS / speeds.table,
    }


def _pages(size: float) -> float:
    """Bytes of a new tensor whose pages are taken from the system."""
    return size if size >= MAPPED else 0.0


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


def map_terms(sizes: Sizes, speeds: Speeds, host: Speeds | None = None) -> Terms:
    """Seconds of the parts of the map of a closed form and of its choice, before coefficients.

    The terms are those of `solution_terms`.
    """
    n, classes, width = sizes.items, sizes.classes, sizes.width
    m, rest = _rank(sizes), FLOAT * n * width
    if not sizes.kernel:  # principal axes of the features
        products, cubes, passes = 4.0 * n * m * m, float(m**3), 3.0 * rest
    else:
        some = min(n, SAMPLED)  # of which gamma is chosen
        each = _solving(some, some, classes, 0)
        products = len(GAMMAS) * (2 * some * some * width + each["products"])
        passes = len(GAMMAS) * each["vectors"] + 3 * rest
        cubes = len(GAMMAS) * some**3 + float(m**3)
        if m == n:  # exact
            products += 2 * n * n * width
            passes += 4 * FLOAT * n * n
        else:  # kernel, whitened, its axes, rotated; Cholesky factor and inverse in float64
            products += 2 * n * m * (width + 3 * m) + 2 * m**3 + 4 * m**3 / 3 * 2
            passes += 6 * FLOAT * n * m
    fresh = _pages(FLOAT * n * m) + 3 * _pages(rest)
    if sizes.kernel and m < n:  # kernel, whitened, centred, weighted and rotated, in blocks
        fresh += 9 * _block_pages(n, m)
    return {
        "products": products / speeds.product,
        "cubes": cubes / (host or speeds).product,
        "vectors": passes / speeds.copy,
        "fresh": fresh / speeds.fresh,
    }


def solution_terms(sizes: Sizes, speeds: Speeds, host: Speeds | None = None) -> Terms:
    """Seconds of the parts of the solution of a closed form and of its folds, before coefficients.

    - products: products of matrices: for each penalty and round with the labels, for each fold with
      its principal axes.
    - cubes: m³ operations for each decomposition of an `[m, m]` matrix, on the processor (`host`)
      also where there is an accelerator.
    - vectors: one pass over the vectors `[n, m]` for each leverage.
    - tables: one pass over a table `[n, L]` for each solution.
    - search: one pass over the sampled labels for each halving.
    - fresh: the pages of large tables and vectors.
    """
    n, classes, m = sizes.items, sizes.classes, _rank(sizes)
    folds = (min(FOLDS, n) if n <= MANY else 2) if sizes.folds else 0
    times = max(folds, 1)  # the whole once, and folds - 1 times in parts
    own = _solving(n, m, classes, sizes.rounds)
    in_parts = max(folds - 1, 0)
    searched = HALVINGS * sizes.rounds * times * min(n * classes, SEARCHED)
    # The vectors of a fold are gathered twice, centred and rotated; in blocks for their axes.
    fresh = times * own["fresh"] + in_parts * (4 * _pages(FLOAT * n * m) + 2 * _block_pages(n, m))
    return {
        "products": (times * own["products"] + in_parts * 4 * n * m * m) / speeds.product,
        "cubes": folds * m**3 / (host or speeds).product,
        "vectors": (times * own["vectors"] + in_parts * 4 * FLOAT * n * m) / speeds.copy,
        "tables": times * own["tables"] / speeds.copy,
        "search": FLOAT * searched / speeds.table,
        "fresh": fresh / speeds.fresh,
    }


def _block_pages(n: int, m: int) -> float:
    """Bytes of new pages where all vectors `[n, m]` are computed block by block."""
    return FLOAT * n * m if FLOAT * min(n, BLOCK) * m >= MAPPED else 0.0


def _rank(sizes: Sizes) -> int:
    """m, the length of the vectors of a closed form."""
    return n_landmarks(sizes.items) if sizes.kernel else sizes.width


def _solving(n: int, m: int, classes: int, rounds: int) -> Terms:
    """Operations and bytes of all penalties and rounds for n vectors of length m."""
    solutions = len(PENALTIES) + 1 + rounds
    return {
        "products": 2.0 * n * m * classes * (solutions + 1 + rounds),
        "vectors": float(FLOAT * n * m * solutions),
        "tables": float(FLOAT * n * classes * solutions),
        "fresh": solutions * (_block_pages(n, m) + _pages(FLOAT * n * classes)),
    }


def memory_terms(sizes: Sizes, *, closed_form: bool = False) -> Terms:
    """Bytes of the parts of training a head, before coefficients.

    - process: Python, torch and this package; the coefficient is in bytes.
    - items: ids, split and sparse labels; the coefficient is bytes per item.
    - features: as in the file and in float32; a file of `LARGE` bytes or more stays on disk.
    - logits: of one batch.
    - evaluation: logits of the held-out items.
    - memory: of a pass over all labels `[N, L]` after an epoch.
    - embeddings, contrast: of one batch, and the table in which `lac` compares its labels.
    - network_outputs: of the networks that each class has, of one batch.
    - vectors, tables: of a closed form: `[n, m]` and `[n, L]`.
    - squares, doubles: `[m, m]` of its map; in float64 where landmarks are some of the items.
    - folds, fold_squares: the vectors of a fold, beside those of all items, and its axes.

    The state of head and method is counted by `state_bytes`.
    """
    n, classes, width = sizes.items, sizes.classes, sizes.width
    held = n * width * (sizes.number + FLOAT) if n * width * sizes.number < LARGE else 0
    terms = {"process": 1.0, "items": n + sizes.held_out, "features": float(held)}
    if closed_form:
        m = _rank(sizes)
        if not held:
            terms["features"] = float(n * width * FLOAT)  # read into memory for the map
        square = float(FLOAT * m * m)
        return terms | {
            "vectors": float(FLOAT * n * m),
            "tables": float(FLOAT * n * classes),
            "squares": square,
            "doubles": 2 * square * (sizes.kernel and m < n),
            "folds": float(FLOAT * n * m * sizes.folds),
            "fold_squares": square * sizes.folds,
        }
    return terms | {
        "logits": float(FLOAT * min(sizes.batch, n) * classes),
        "evaluation": float(FLOAT * sizes.held_out * classes),
        "memory": float(FLOAT * n * classes),
        "embeddings": float(FLOAT * min(sizes.batch, n) * classes * EMBEDDING),
        "contrast": float(FLOAT * COMPARED[0] * COMPARED[1]),
        "network_outputs": float(FLOAT * min(sizes.batch, n) * classes * OUTPUTS),
    }


def state_bytes(method: str, options: Mapping[str, Any], sizes: Sizes) -> float:
    """Bytes of what head and method learn and remember, with gradients, moments and the best epoch.

    The method is built for a few items and for a few more, so this holds for any method that learns
    from feature vectors.

    Args:
        method: Its name.
        options: Its options.
        sizes: N, L and D.
    """
    info = get_method(method)

    def bytes_for(items: int) -> int:
        seen = LabelMatrix.from_entries([0], [0], 1, (items, sizes.classes))
        labels = TrainLabels(seen, 1.0, places=False)
        built = info.build(labels, info.make_options(options))
        head = built.make_head(sizes.width)
        built.begin_training(lambda: torch.zeros(items, sizes.width))
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
    """The sum of terms times their coefficients; a term without one is left out.

    >>> total({"calls": 2.0, "labels": 3.0, "memory": 5.0}, {"calls": 10.0, "labels": 1.0})
    23.0
    """
    return sum(factor * terms.get(name, 0.0) for name, factor in coefficients.items())


# Fitted by `python benchmarks/cost.py --fit`.
SHARED: Mapping[str, float] = {"products": 1.0, "weights": 7.688, "inputs": 1.0}
TIME: Mapping[str, Mapping[str, float]] = {
    "an": {"calls": 219.4, "labels": 10.46},
    "an_als": {"calls": 239.7, "labels": 40.39},
    "an_ls": {"calls": 256.7, "labels": 33.4},
    "asl": {"calls": 302.4, "labels": 32.25},
    "asl_ps": {"calls": 246.4, "labels": 53.06},
    "bce": {"calls": 237.6, "labels": 34.25},
    "bce_ls": {"calls": 258.2, "labels": 31.95},
    "crisp": {"calls": 264.0, "labels": 38.0},
    "em": {"calls": 314.2, "labels": 50.83},
    "em_apl": {"calls": 409.2, "labels": 61.86},
    "en": {"calls": 338.3, "labels": 54.01},
    "en_cl": {"calls": 350.3, "labels": 85.02},
    "entmin": {"calls": 306.2, "labels": 50.57},
    "epr": {"calls": 277.1, "labels": 35.96},
    "focal": {"calls": 205.8, "labels": 45.3},
    "gr": {"calls": 399.2, "labels": 59.01},
    "gr_learned": {"calls": 341.1, "labels": 57.09},
    "hill": {"calls": 373.1, "labels": 46.06},
    "iu": {"calls": 316.1, "labels": 32.41},
    "iun": {"calls": 396.4, "labels": 29.86},
    "l1r": {"calls": 214.2, "labels": 13.04},
    "l2r": {"calls": 212.3, "labels": 14.22},
    "lac": {"contrast": 50.2, "embeddings": 520.2},
    "las": {"calls": 463.4, "labels": 31.08},
    "lasd": {"calls": 633.9, "labels": 56.92},
    "ll_cp": {"calls": 389.4, "labels": 57.4},
    "ll_ct": {"calls": 263.6, "labels": 49.73},
    "ll_r": {"calls": 343.8, "labels": 56.04},
    "mime": {
        "networks": 1.0,
        "network_weights": 1.0,
        "network_outputs": 30.05,
        "network_fresh": 10.46,
    },
    "n_ls": {"calls": 355.4, "labels": 32.32},
    "pr": {"calls": 254.9, "labels": 13.17},
    "role": {"calls": 766.2, "labels": 104.9, "estimate": 7.072, "fresh": 1.0},
    "softmax": {"calls": 366.7, "labels": 34.09},
    "splc": {"calls": 515.8, "labels": 59.96},
    "wan": {"calls": 217.7, "labels": 23.9},
    "wan_sampled": {"calls": 341.2, "labels": 42.82},
}
AFTER_TIME: Mapping[str, Mapping[str, float]] = {
    "en": {"tables": 0.0, "sorting": 9.116, "fresh": 6.881},
    "em_apl": {"tables": 52.12, "predictions": 1.785, "fresh": 1.189},
    "crisp": {"tables": 127.5, "predictions": 0.0},
    "mime": {"networks": 1.909, "network_outputs": 7.83},
    "en_cl": {"tables": 0.0, "sorting": 9.116, "fresh": 6.881},
    "en_scl": {"tables": 0.0, "sorting": 9.116, "fresh": 6.881},
}
EVALUATION_TIME: Mapping[str, float] = {"calls": 445.1, "products": 1.287, "tables": 29.14}
CLOSED_FORM_TIME: Mapping[str, float] = {
    "products": 1.246,
    "cubes": 13.11,
    "vectors": 6.607,
    "fresh": 1.016,
    "tables": 0.0,
    "search": 24.31,
}
MEMORY: Mapping[str, float] = {
    "process": 319400000.0,
    "items": 251.8,
    "features": 1.13,
    "logits": 48.17,
    "evaluation": 1.775,
}
OWN_MEMORY: Mapping[str, Mapping[str, float]] = {
    "en": {"memory": 0.261},
    "em_apl": {"memory": 2.466},
    "lac": {"embeddings": 43.55, "contrast": 11.61},
    "mime": {"network_outputs": 13.0},
}
CLOSED_FORM_MEMORY: Mapping[str, Mapping[str, float]] = {
    "map": {
        "process": 319400000.0,
        "items": 251.8,
        "features": 1.13,
        "vectors": 1.129,
        "squares": 4.975,
        "doubles": 4.259,
    },
    "solution": {
        "process": 319400000.0,
        "items": 251.8,
        "features": 1.13,
        "tables": 7.0,
        "vectors": 1.0,
        "folds": 1.896,
        "fold_squares": 8.637,
    },
}


def epoch_seconds(method: str, sizes: Sizes, speeds: Speeds) -> float:
    """Seconds of one epoch of a head on features, without its evaluation."""
    steps = total(step_terms(sizes, speeds), {**SHARED, **TIME.get(method, TIME[USUAL])})
    return steps + total(after_terms(sizes, speeds), AFTER_TIME.get(method, {}))


def evaluation_seconds(sizes: Sizes, speeds: Speeds) -> float:
    """Seconds of evaluating the held-out items once."""
    return total(evaluation_terms(sizes, speeds), EVALUATION_TIME)


def closed_form_seconds(sizes: Sizes, speeds: Speeds, host: Speeds | None = None) -> float:
    """Seconds of a closed form; `host` are the speeds of the processor beside an accelerator."""
    parts = map_terms(sizes, speeds, host), solution_terms(sizes, speeds, host)
    return sum(total(terms, CLOSED_FORM_TIME) for terms in parts)


def head_bytes(method: str, options: Mapping[str, Any], sizes: Sizes) -> float:
    """Bytes of the process while a head is trained on features, at its peak."""
    if get_method(method).closed_form:
        terms = memory_terms(sizes, closed_form=True)
        parts = CLOSED_FORM_MEMORY if sizes.folds else {"map": CLOSED_FORM_MEMORY["map"]}
        return max(total(terms, own) for own in parts.values())  # one after the other
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


def n_passes(recipe: Recipe) -> tuple[int, int]:
    """Views of an image that the method learns from, and forward passes without gradients."""
    info = get_method(recipe.method)
    seen = LabelMatrix.from_entries([0], [0], 1, (1, 2))
    method = info.build(TrainLabels(seen, 1.0), info.make_options(recipe.options))
    views = len(method.views)
    return views, (views if method.teacher is not None else 0) + int(method.looks_again)


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
    views, more = n_passes(recipe)
    network = epochs * (
        views * data.train / net.train + (more * data.train + data.val) / net.forward
    )
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
