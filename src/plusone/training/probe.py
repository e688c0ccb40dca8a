"""What a machine can do, measured in seconds: products, copies, decoding, a backbone.

`plusone doctor` prints these figures; `plusone.training.cost` turns them into estimates of time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from plusone.data.images import decode
from plusone.device import CPU
from plusone.models.backbones import backbone_for, feature_dim
from plusone.models.heads import Head

SIDE = 1024  # of the matrices that are multiplied
COPIED = 1 << 26  # bytes, more than a processor's cache holds
TABLE = (256, 1024)  # a batch of logits
SMALL = 16  # numbers of a small operation, whose cost is the call
CALLS = 200  # small operations that are timed together
PHOTO = (500, 375)  # pixels of the JPEG file that is decoded
BATCH = 8  # images that the backbone is given at once, fewer if it is slow
LEAST = 3  # repeats, however long they take


@dataclass(frozen=True)
class Speeds:
    """Five speeds of a device, to which the coefficients of `plusone.training.cost` are relative.

    Args:
        product: Floating point operations per second of a product of float32 matrices.
        copy: Bytes per second, read and written, of copying an array larger than the cache.
        table: Bytes per second of a table of logits whose sigmoid is computed.
        call: Seconds of an operation on a few numbers: what calling it costs.
        fresh: Bytes per second of filling a large new tensor. On a CPU its memory is taken from the
            system page by page, which is far slower than a copy.
    """

    product: float
    copy: float
    table: float
    call: float
    fresh: float


@dataclass(frozen=True)
class BackboneSpeed:
    """What a backbone costs on a device.

    Args:
        name: The backbone.
        size: Side of its images.
        width: Length of its feature vectors.
        weights: How many numbers it learns.
        forward: Images per second in prediction.
        train: Images per second forwards and backwards; None if there was no time left.
        activations: Bytes that one image needs until the backward pass.
    """

    name: str
    size: int
    width: int
    weights: int
    forward: float
    train: float | None
    activations: int


def best_time(
    run: Callable[[], object],
    seconds: float,
    device: torch.device = CPU,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The shortest time of a call in seconds, over as many as fit (at least three)."""
    times: list[float] = []
    ends = clock() + seconds
    while len(times) < LEAST or clock() < ends:
        started = clock()
        run()
        synchronize(device)
        times.append(clock() - started)
    return min(times)


def synchronize(device: torch.device) -> None:
    """Waits until a device has done what was asked of it."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


@torch.no_grad()
def measure_speeds(
    device: torch.device = CPU,
    seconds: float = 1.0,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Speeds:
    """The speeds of a device, with torch's present number of threads.

    Args:
        device: The device.
        seconds: How long to measure, about.
        clock: Gives the time; `time.process_time` is that of the processor, for one thread.
    """
    each = seconds / 5
    a, b = (torch.ones(SIDE, SIDE, device=device) for _ in range(2))
    product = torch.empty_like(a)
    source = torch.zeros(COPIED // 4, device=device)
    copy, table = torch.empty_like(source), torch.zeros(TABLE, device=device)
    scores, few = torch.empty_like(table), torch.ones(SMALL, device=device)

    def sigmoid() -> None:
        torch.sigmoid(table, out=scores)

    def calls() -> None:
        for _ in range(CALLS):
            few.add(1.0)

    def new() -> None:
        torch.ones_like(source)

    return Speeds(
        product=2 * SIDE**3 / best_time(lambda: torch.mm(a, b, out=product), each, device, clock),
        copy=2 * COPIED / best_time(lambda: copy.copy_(source), each, device, clock),
        table=4 * table.numel() / best_time(sigmoid, each, device, clock),
        call=best_time(calls, each, device, clock) / CALLS,
        fresh=COPIED / best_time(new, each, device, clock),
    )


def decode_speed(size: int, seconds: float = 1.0, paths: tuple[Path, ...] = ()) -> float:
    """Images per second that one worker decodes and resizes.

    Args:
        size: Side of the result.
        seconds: How long to measure, about.
        paths: Image files to decode; by default one that is made up, of the size of a VOC photo.
    """
    with tempfile.TemporaryDirectory() as folder:
        if not paths:
            paths = (Path(folder) / "photo.jpg",)
            draw = np.random.default_rng(0)
            small = draw.integers(0, 256, (PHOTO[1] // 8, PHOTO[0] // 8, 3), dtype=np.uint8)
            Image.fromarray(small).resize(PHOTO, Image.Resampling.BICUBIC).save(paths[0])
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in a worker
        try:
            times: list[float] = []
            ends = time.perf_counter() + seconds
            while len(times) < LEAST or time.perf_counter() < ends:
                started = time.perf_counter()
                decode(paths[len(times) % len(paths)], size)
                times.append(time.perf_counter() - started)
        finally:
            torch.set_num_threads(threads)
    return 1 / (sum(times) / len(times) if len(paths) > 1 else median(times))


def backbone_speed(
    name: str,
    device: torch.device = CPU,
    seconds: float = 4.0,
    *,
    size: int | None = None,
    channels: int = 3,
    train: bool = True,
) -> BackboneSpeed:
    """Images per second of a backbone, and the memory that training it needs.

    Args:
        name: The backbone, see `plusone.models.backbones`.
        device: The device.
        seconds: How long to measure, about.
        size: Side of the images; the backbone's own by default.
        channels: Of the images.
        train: Whether to measure the backward pass as well.
    """
    row = backbone_for(name)
    size = size or row.size
    net = row.build(channels, size, "random").to(device).eval()

    def forward(count: int) -> Tensor:
        images = torch.zeros(count, channels, size, size, dtype=torch.uint8, device=device)
        return Head().pool(net(images.contiguous(memory_format=torch.channels_last)))

    def both(count: int) -> None:
        net.zero_grad()
        forward(count).sum().backward()  # type: ignore[no-untyped-call]

    with torch.inference_mode():
        forward(1)  # the first call is slower
        speed = _images_per_second(forward, seconds / 2, device)
    backward = None
    if train:
        net.train()
        both(2)
        backward = _images_per_second(both, seconds / 2, device)
    return BackboneSpeed(
        name=name,
        size=size,
        width=feature_dim(net),
        weights=sum(weight.numel() for weight in net.parameters()),
        forward=speed,
        train=backward,
        activations=activation_bytes(net, channels, size) if train else 0,
    )


def _images_per_second(run: Callable[[int], object], seconds: float, device: torch.device) -> float:
    """The best speed of a function of a number of images, in about so many seconds."""
    best, count, ends = 0.0, 2, time.perf_counter() + seconds
    while not best or time.perf_counter() < ends:
        synchronize(device)
        started = time.perf_counter()
        run(count)
        synchronize(device)
        took = time.perf_counter() - started
        best = max(best, count / took)
        if took > ends - time.perf_counter():  # another one would take too long
            break
        count = max(2, min(BATCH, int(best * seconds / LEAST)))
    return best


def activation_bytes(net: nn.Module, channels: int, size: int) -> int:
    """Bytes that the forward pass of one image keeps for the backward pass, weights not counted.

    Args:
        net: The backbone.
        channels: Of the images.
        size: Their side.
    """
    where = next(net.parameters()).device
    images = torch.zeros(2, channels, size, size, dtype=torch.uint8, device=where)
    own = {weight.untyped_storage().data_ptr() for weight in net.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        net(images)
    return sum(kept.values()) // len(images)
