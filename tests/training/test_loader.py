"""Batches: inputs in memory and on disk, their views, labels, order and prefetching."""

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patience import PATIENCE
from torch import nn

from plusone.data.augment import draw_strong, strong
from plusone.data.images import decode
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.inputs import loader
from plusone.inputs._views import draw_views
from plusone.inputs.forward import predict
from plusone.inputs.loader import (
    THREAD,
    ArrayInputs,
    FileInputs,
    label_batches,
    prefetch,
    visiting_order,
)
from plusone.inputs.workers import ImageWorkers, Request, automatic_count
from plusone.parallel.division import Share
from plusone.seeds import generator
from plusone.types import Outputs

ORDER = torch.tensor([4, 0, 6, 2, 5, 1, 3])
SHARED_VIEWS = ("weak", "strong", "crop")


def gather(inputs, views=("plain",), seed=0, batch_size=3, order=ORDER):
    """All batches of each view, one below the other."""
    batches = list(inputs.batches(order, batch_size, views, seed))
    assert [len(batch[0]) for batch in batches] == [3, 3, 1]
    return [torch.cat(parts) for parts in zip(*batches, strict=True)]


def images(n=7):
    return torch.arange(n * 2 * 4 * 4).reshape(n, 2, 4, 4).to(torch.uint8)


def test_arrays_come_in_the_wanted_order():
    x = torch.randn(7, 5)
    (plain,) = gather(ArrayInputs(x))
    assert torch.equal(plain, x[ORDER])
    assert len(ArrayInputs(x)) == 7


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
def test_blocks_do_not_show(block, monkeypatch):
    expected = gather(ArrayInputs(images(), flip=True), ("weak", "weak"), 3)
    monkeypatch.setattr(loader, "GATHERED", block)
    found = gather(ArrayInputs(images(), flip=True), ("weak", "weak"), 3)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_float16_becomes_float32():
    x = torch.randn(7, 5).half()
    (plain,) = gather(ArrayInputs(x))
    assert plain.dtype == torch.float32
    assert torch.equal(plain, x.float()[ORDER])


def test_features_are_never_flipped():
    x = torch.randn(7, 5)
    (weak,) = gather(ArrayInputs(x, flip=True), ("weak",))
    assert torch.equal(weak, x[ORDER])


def sources(tmp_path, pictures):
    stored = torch.stack([decode(path, 8) for path in pictures])
    return [ArrayInputs(stored, flip=True), FileInputs(pictures, 8, flip=True)]


def test_flips(tmp_path, pictures):
    for inputs in sources(tmp_path, pictures):
        (plain,) = gather(inputs)
        (weak,) = gather(inputs, ("weak",), 1)
        turned = [torch.equal(a, b.flip(-1)) for a, b in zip(weak, plain, strict=True)]
        kept = [torch.equal(a, b) for a, b in zip(weak, plain, strict=True)]
        assert all(a != b for a, b in zip(turned, kept, strict=True))
        assert torch.equal(weak, gather(inputs, ("weak",), 1)[0])
        assert any(not torch.equal(weak, gather(inputs, ("weak",), s)[0]) for s in range(2, 5))


def test_two_weak_views_differ_and_plain_stays(tmp_path, pictures):
    for inputs in sources(tmp_path, pictures):
        first, second, plain = gather(inputs, ("weak", "weak", "plain"), 1)
        assert not torch.equal(first, second)
        assert torch.equal(plain, gather(inputs)[0])


def test_files_and_memory_agree(tmp_path, pictures):
    stored, files = sources(tmp_path, pictures)
    views = ("weak", "plain", "strong", "crop")
    assert torch.equal(stored.boxes(views, 7, 9), files.boxes(views, 7, 9))
    for a, b in zip(gather(stored, views, 9), gather(files, views, 9), strict=True):
        assert torch.equal(a, b)


def test_about_half_is_flipped():
    x = torch.zeros(2000, 1, 1, 2, dtype=torch.uint8)
    x[..., 1] = 1
    (batch,) = ArrayInputs(x, flip=True).batches(torch.arange(2000), 2000, ("weak",), 0)
    assert 900 < batch[0][..., 0].sum() < 1100


def test_no_flip_when_not_wanted(pictures):
    for inputs in (ArrayInputs(images()), FileInputs(pictures, 8, flip=False)):
        assert torch.equal(gather(inputs, ("weak",), 1)[0], gather(inputs)[0])


def test_the_flips_of_recorded_results():
    """Which items are mirrored for a seed must never change."""
    x = torch.zeros(7, 1, 1, 2, dtype=torch.uint8)
    x[..., 1] = 1
    first, second = gather(ArrayInputs(x, flip=True), ("weak", "weak"), 3)
    assert first[:, 0, 0, 0].tolist() == [0, 1, 1, 0, 0, 1, 1]
    assert second[:, 0, 0, 0].tolist() == [1, 0, 1, 0, 0, 1, 0]


def test_strong_views_depend_on_the_place_alone(pictures):
    views = ("strong", "weak", "strong")
    for inputs in sources(None, pictures):
        first, weak, second = gather(inputs, views, 4)
        assert torch.equal(weak, gather(inputs, ("plain", "weak"), 4)[1])
        assert not torch.equal(first, second)
        assert not torch.equal(first, gather(inputs, views, 5)[0])
        alone = [batch[0] for batch in inputs.batches(ORDER, 1, views, 4)]
        assert torch.equal(torch.cat(alone), first)
        changed = [not torch.equal(a, b) for a, b in zip(first, gather(inputs)[0], strict=True)]
        assert all(changed)


def test_strong_is_flip_then_the_strong_steps():
    x = images()
    (found,) = gather(ArrayInputs(x, flip=True), ("strong",), 4)
    mirrored = torch.rand(7, generator=generator(4, "strong")) < 0.5
    assert 0 < mirrored.sum() < 7
    for place, (item, draws) in enumerate(zip(ORDER, draw_strong(7, 4).tolist(), strict=True)):
        image = x[item].flip(-1) if mirrored[place] else x[item]
        assert torch.equal(found[place], strong(image, draws))


@pytest.mark.parametrize("shape", [(7, 5), (7, 3, 5), (7, 5, 4, 4)])
def test_features_and_feature_maps_are_the_same_in_every_view(shape):
    x = torch.randn(shape)
    for part in gather(ArrayInputs(x, flip=True), ("strong", "weak", "plain")):
        assert torch.equal(part, x[ORDER])


def test_files_are_cropped_if_wanted(pictures):
    (found,) = gather(FileInputs(pictures, 8, aspect="crop"))
    expected = torch.stack([decode(pictures[row], 8, "crop") for row in ORDER])
    assert torch.equal(found, expected)
    assert not torch.equal(found, gather(FileInputs(pictures, 8))[0])


def running() -> set[int]:
    """The worker processes of this process."""
    return {child.pid for child in multiprocessing.active_children()}


def test_workers_change_nothing_and_stay_from_pass_to_pass(pictures):
    before = running()
    train = FileInputs(pictures, 8, workers=ImageWorkers(2))
    val = FileInputs(pictures[::-1], 8, flip=False, workers=train.workers)
    chance, pids = torch.get_rng_state(), []
    for inputs, views, seed in ((train, ("weak", "strong"), 5), (val, ("plain",), 0),
                                (train, ("weak", "strong"), 6)):  # fmt: skip
        alone = gather(replace(inputs, workers=ImageWorkers()), views, seed)
        helped = gather(inputs, views, seed)
        assert all(torch.equal(a, b) for a, b in zip(alone, helped, strict=True))
        pids.append(running() - before)
    assert pids[0] == pids[1] == pids[2]
    assert len(pids[0]) == 2
    assert torch.equal(torch.get_rng_state(), chance)
    train.workers.close()
    assert running() == before
    gather(train)  # starts new ones
    assert len(running() - before) == 2
    assert not running() & pids[0]
    del train, val, inputs
    assert running() == before


def test_passes_that_are_abandoned_or_nested(pictures):
    before, inputs = running(), FileInputs(pictures, 8, workers=ImageWorkers(1))
    list(inputs.batches(ORDER[:1], 3, ("plain",), 0))
    assert running() == before  # a single image is decoded in this process
    (expected,) = gather(FileInputs(pictures, 8))
    outer = inputs.batches(ORDER, 3, ("plain",), 0)
    found = [next(outer)[0]]
    assert torch.equal(gather(inputs)[0], expected)
    assert len(running() - before) == 2  # one for each of them
    found += [batch for (batch,) in outer]
    assert torch.equal(torch.cat(found), expected)
    for _ in range(2):
        next(inputs.batches(ORDER, 3, ("plain",), 0))
        assert torch.equal(gather(inputs)[0], expected)
    assert len(running() - before) == 2
    held = inputs.batches(ORDER, 3, ("plain",), 0)
    next(held)
    inputs.workers.close()  # also those of a pass that somebody still holds
    assert running() == before


def test_a_pass_begins_before_its_first_batch_is_asked_for(pictures):
    workers, read = ImageWorkers(1), []
    (view,) = draw_views(("plain",), 4, 0, flip=False)

    def requests() -> Iterator[list[Request]]:
        for place in range(4):
            read.append(place)
            yield [Request(pictures[place], 8, "stretch", "one", (view.of_item(place),))]

    begun = workers.batches(requests)
    assert read == [0, 1]
    workers.close()  # it begins anew
    assert len(list(begun)) == 4
    assert read == [0, 1, 0, 1, 2, 3]
    begun = workers.batches(requests)
    next(begun)
    workers.close()
    with pytest.raises(RuntimeError, match="closed before the last batch"):
        next(begun)


def test_workers_in_a_reference_cycle_end(pictures):
    before, inputs = running(), FileInputs(pictures, 8, workers=ImageWorkers(2))
    gather(inputs)
    held = inputs.batches(ORDER, 3, ("plain",), 0)
    next(held)
    cycle: list[object] = [inputs, held]
    cycle.append(cycle)
    del inputs, held, cycle
    gc.collect()
    assert running() == before


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_file_is_named_in_one_line(pictures, workers):
    good, before = pictures[5].read_bytes(), running()
    pictures[5].write_bytes(good[:60])
    inputs = FileInputs(pictures, 8, workers=ImageWorkers(workers))
    with pytest.raises(InputError, match=r"^\S+p5\.png: cannot be read as an image") as caught:
        gather(inputs)
    assert "\n" not in str(caught.value)
    pictures[5].write_bytes(good)
    assert torch.equal(gather(inputs)[0], gather(FileInputs(pictures, 8))[0])  # they are well
    inputs.workers.close()
    assert running() == before


def test_a_killed_worker_is_an_error_and_new_ones_start(pictures):
    before, inputs = running(), FileInputs(pictures, 8, workers=ImageWorkers(1))
    held = inputs.batches(ORDER, 3, ("plain",), 0)
    next(held)
    (pid,) = running() - before

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)
        time.sleep(PATIENCE)  # torch raises the error as soon as it ends

    with pytest.raises(RuntimeError, match="DataLoader worker"):  # `cli.app` knows these words
        kill()
    inputs.workers.close()
    assert running() == before
    assert torch.equal(gather(inputs)[0], gather(FileInputs(pictures, 8))[0])
    inputs.workers.close()
    assert running() == before


def test_a_batch_lost_with_its_worker_is_the_same_error(pictures, monkeypatch):
    def lost(*_: object, **__: object) -> Iterator[None]:
        raise ConnectionResetError(104, "Connection reset by peer")
        yield

    monkeypatch.setattr("plusone.inputs.workers.DataLoader", lost)
    with pytest.raises(RuntimeError, match="DataLoader worker exited unexpectedly"):
        gather(FileInputs(pictures, 8))


@pytest.mark.parametrize(
    ("cores", "processes", "on_cpu", "on_accelerator"),
    [(1, 1, 0, 1), (2, 1, 1, 1), (8, 1, 4, 7), (8, 4, 1, 1), (64, 2, 4, 16)],
)
def test_workers_by_the_machine(cores, processes, on_cpu, on_accelerator, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert (automatic_count(False), automatic_count(True)) == (on_cpu, on_accelerator)
    assert ImageWorkers("auto").count == on_cpu


@pytest.mark.parametrize(("kind", "pinned"), [("cuda", True), ("mps", False), ("cpu", False)])
def test_memory_is_pinned_for_cuda(kind, pinned, monkeypatch):
    monkeypatch.setattr("plusone.inputs.workers.resolve", lambda _: torch.device(kind))
    assert ImageWorkers(0, "auto").pin == pinned


def test_unknown_views_are_refused(pictures):
    for inputs in (ArrayInputs(images()), FileInputs(pictures, 8)):
        with pytest.raises(ValueError, match="unknown view 'strange'; known: plain, weak, strong"):
            next(iter(inputs.batches(ORDER, 3, ("strange",), 0)))


class Double(nn.Module):
    def forward(self, x):
        return Outputs(2 * x, x)


@pytest.mark.parametrize("n", [1, 5, 6, 13])
def test_prediction_drops_nothing(n, monkeypatch):
    monkeypatch.setattr("plusone.inputs.forward.ROWS", {"features": 5, "images": 5})
    x, done, net = torch.randn(n, 3), [], Double().train()
    found = predict(net, net, ArrayInputs(x), kind="features", tick=done.append)
    assert torch.equal(found, 2 * x)
    assert sum(done) == n
    assert net.training


def test_prediction_is_in_evaluation_mode():
    net = nn.Dropout(0.5).train()
    x = torch.ones(50, 2)
    assert torch.equal(predict(net, net, ArrayInputs(x), kind="features"), x)


def test_arrays_from_numpy_views():
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32))
    (plain,) = gather(ArrayInputs(torch.from_numpy(x)))
    assert plain.numpy().tolist() == x[ORDER.numpy()].tolist()


def shared_batches(inputs, order, batch_size, size):
    """Batches put together from the rows of each process."""
    shares = [
        list(inputs.batches(order, batch_size, SHARED_VIEWS, 5, Share(rank, size)))
        for rank in range(size)
    ]
    for number in range(max(map(len, shares))):
        parts = [share[number] for share in shares if number < len(share)]
        yield tuple(torch.cat(views) for views in zip(*parts, strict=True))


@pytest.mark.parametrize(("batch_size", "size"), [(4, 2), (3, 2), (5, 3), (1, 2), (50, 3)])
def test_shares_make_up_the_batches(batch_size, size):
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (13, 1, 6, 6), dtype=torch.uint8, generator=draw)
    inputs, order = ArrayInputs(x, flip=True), torch.randperm(13, generator=draw)
    found = list(shared_batches(inputs, order, batch_size, size))
    whole = list(inputs.batches(order, batch_size, SHARED_VIEWS, 5))
    assert len(found) == len(whole)
    for mine, theirs in zip(found, whole, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_shares_of_files_make_up_the_batches(pictures, workers):
    inputs = FileInputs(pictures, 8, workers=ImageWorkers(workers))
    order = torch.tensor([3, 0, 6, 2, 1, 5, 4])
    found = list(shared_batches(inputs, order, 3, 2))
    whole = list(inputs.batches(order, 3, SHARED_VIEWS, 5))
    assert len(found) == len(whole) == 3
    for mine, theirs in zip(found, whole, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@settings(max_examples=60)
@given(st.data())
def test_label_batches_are_the_dense_rows(data):
    n, n_classes = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 6))
    seed, default = data.draw(st.integers(0, 999)), data.draw(st.sampled_from([0, 1, -1]))
    dense = np.random.default_rng(seed).integers(-1, 2, (n, n_classes)).astype(np.int8)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    batch_size = data.draw(st.integers(1, n + 2))
    matrix = LabelMatrix.from_dense(dense).with_default(default)
    batches = list(label_batches(matrix, order, batch_size))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert torch.cat(batches).dtype == torch.float32
    assert torch.cat(batches).tolist() == dense[order.numpy()].tolist()


@pytest.mark.parametrize("block", [1, 7, 12, 1 << 18])
def test_blocks_of_labels_do_not_show(block, monkeypatch):
    monkeypatch.setattr(loader, "LABELS_AT_ONCE", block)
    dense = np.random.default_rng(0).integers(-1, 2, (11, 3)).astype(np.int8)
    dense[[0, 4, 10]] = 0
    batches = list(label_batches(LabelMatrix.from_dense(dense), torch.arange(11), 4))
    assert [len(batch) for batch in batches] == [4, 4, 3]
    assert torch.cat(batches).tolist() == dense.tolist()


def test_labels_of_some_rows_and_of_a_row_twice():
    matrix = LabelMatrix.from_dense([[1, 0], [0, -1], [0, 0]])
    (batch,) = label_batches(matrix, torch.tensor([2, 0, 0]), 8)
    assert batch.tolist() == [[0, 0], [1, 0], [1, 0]]


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_without_weights_it_is_a_permutation():
    expected = torch.randperm(50, generator=draw())
    assert torch.equal(visiting_order(50, None, draw()), expected)
    assert torch.equal(visiting_order(50, np.full(50, 3.0), draw()), expected)


@pytest.mark.parametrize("seed", range(5))
def test_visits_are_the_share_rounded_down_or_up(seed):
    weights = np.random.default_rng(seed).exponential(size=200) * (np.arange(200) % 5 > 0)
    order = visiting_order(200, weights, draw(seed)).numpy()
    assert len(order) == 200
    visits, share = np.bincount(order, minlength=200), 200 * weights / weights.sum()
    assert (visits >= np.floor(share - 1e-9)).all()
    assert (visits <= np.ceil(share + 1e-9)).all()
    assert not visits[weights == 0].any()


def test_shares_are_met_on_average_and_neighbours_are_mixed():
    weights = np.array([1.0, 2.0, 0.5, 1.5])
    visits = np.zeros(4)
    for seed in range(400):
        visits += np.bincount(visiting_order(4, weights, draw(seed)).numpy(), minlength=4)
    assert visits / 400 == pytest.approx(4 * weights / weights.sum(), abs=0.08)
    first = {visiting_order(4, weights, draw(seed))[0].item() for seed in range(50)}
    assert first == {0, 1, 2, 3}
    heavy = np.where(np.arange(20) == 7, 20.0, 1.0)  # about ten of twenty visits
    for seed in range(5):
        visits = np.flatnonzero(visiting_order(20, heavy, draw(seed)).numpy() == 7)
        assert visits[-1] - visits[0] >= len(visits), "all visits of an item in a row"


def prefetching() -> int:
    return sum(thread.name.startswith(THREAD) for thread in threading.enumerate())


def test_prefetching_gives_the_same_batches():
    x = torch.randint(0, 256, (37, 3, 8, 8), dtype=torch.uint8)
    order = torch.randperm(37, generator=torch.Generator().manual_seed(0))
    arguments = (order, 8, ("weak", "strong"), 5)
    inputs = ArrayInputs(x, flip=True)
    found = list(prefetch(inputs.batches(*arguments)))
    for ours, theirs in zip(found, inputs.batches(*arguments), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert prefetching() == 0


def test_prefetching_stops_at_its_depth():
    made, second = [], threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 4:
                second.set()
            yield number

    batches = prefetch(items(), depth=3)
    assert [next(batches), next(batches)] == [0, 1]
    assert second.wait(PATIENCE)  # 2, 3 and 4 are prefetched
    batches.close()
    assert len(made) <= 6
    assert prefetching() == 0


def test_an_error_comes_where_the_batch_would_have():
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more of these")

    batches = prefetch(items())
    assert next(batches) == 1
    with pytest.raises(ValueError, match="no more of these"):
        next(batches)
    assert prefetching() == 0


def test_prefetching_restores_the_threads_of_torch():
    before = torch.get_num_threads()
    seen = []

    def items() -> Iterator[int]:
        seen.append(torch.get_num_threads())
        yield 1

    assert list(prefetch(items())) == [1]
    assert seen == [1]
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *later] == [before, before]


def test_crops_show_their_boxes():
    """A picture whose colours are its coordinates: a view has the colours of its box."""
    side = 64
    ramp = (torch.arange(side) * 255 / (side - 1)).round().to(torch.uint8)
    picture = torch.stack([ramp.expand(side, side), ramp[:, None].expand(side, side)])
    inputs = ArrayInputs(picture.expand(7, -1, -1, -1), flip=True)
    boxes = inputs.boxes(("weak", "crop"), 7, 4)
    assert boxes.shape == (7, 2, 4)
    views = gather(inputs, ("weak", "crop"), 4)
    centres = (torch.arange(side) + 0.5) / side
    for number, view in enumerate(views):
        left, top, right, bottom = boxes[:, number].T[..., None]
        x, y = left + centres * (right - left), top + centres * (bottom - top)
        for channel, values in enumerate((x, y)):
            expected = 255 * (values * side - 0.5).clamp(0, side - 1) / (side - 1)
            found = view[:, channel].float().mean(1 if channel == 0 else 2)
            assert (found - expected).abs().max() < 4  # edges are whole pixels
    assert (boxes[:, 1, 0] > boxes[:, 1, 2]).any()
    assert (boxes[:, 0, :2] + boxes[:, 0, 2:] == 1).all()
