"""`plusone serve` under load, beside the bare ONNX session.

    python benchmarks/serve.py [--seconds 6] [--rounds 3] [--json FILE]

A model of EfficientNet-Lite0 (224 pixels, random weights, 20 classes) is exported and served by a
process of its own on 127.0.0.1; clients in this process send JPEG files of 500 x 375 pixels, one at
a time (`/predict`) and 16 at a time (`/predict/batch`). The bare session of onnxruntime gets inputs
that are decoded already, in this process, while the server is idle. Bare session and server take
turns; client and server share the machine.

- requests/s: two clients ask again as soon as they are answered; the bare session runs in a loop.
- at half load: requests are due at even intervals, half as many per second as that. A time is
  counted from when its request was due, so that one that waits for a slow one before it counts.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

from plusone.data.images import decode
from plusone.data.source import load_source
from plusone.export import export_run
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.run import train

GOAL = 2.0
SIZE, CLASSES, PHOTOS, BATCH, CLIENTS = 224, 20, 40, 16, 2
LIMIT = 600  # seconds, after which the server stops by itself


def make_photos(folder: Path) -> list[Path]:
    """Photos as large as those of VOC, with detail at several scales so that JPEG has work."""
    rng = np.random.default_rng(0)
    paths = []
    for number in range(PHOTOS):
        total = np.zeros((375, 500, 3))
        for side in (5, 25, 125):
            noise = rng.integers(0, 256, (side * 3 // 4, side, 3)).astype(np.uint8)
            total += np.asarray(Image.fromarray(noise).resize((500, 375), Image.Resampling.BICUBIC))
        path = folder / f"class {number % CLASSES:02d}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((total / 3).astype(np.uint8)).save(path, quality=85)
        paths.append(path)
    return paths


def make_model(photos: Path, out: Path) -> None:
    recipe = make_recipe(
        {
            "method": "em", "mode": "linear", "backbone": "lite0", "weights": "random",
            "image_size": SIZE, "epochs": 1,
        }
    )  # fmt: skip
    train(make_task(load_source(str(photos)), recipe), recipe, out / "run")
    export_run(out / "run", out / "model", onnx=True)


def form(contents: list[bytes]) -> tuple[bytes, str]:
    parts = [
        b'--xyz\r\nContent-Disposition: form-data; name="images"; filename="a.jpg"\r\n'
        b"Content-Type: image/jpeg\r\n\r\n" + content + b"\r\n"
        for content in contents
    ]
    return b"".join(parts) + b"--xyz--\r\n", "multipart/form-data; boundary=xyz"


class Client:
    """One connection that stays open."""

    def __init__(self, found: dict[str, Any], path: str, kind: str) -> None:
        parts = urlsplit(found["url"])
        self.to = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        self.path = path
        self.headers = {"Authorization": f"Bearer {found['token']}", "Content-Type": kind}

    def ask(self, body: bytes) -> None:
        self.to.request("POST", self.path, body, self.headers)
        reply = self.to.getresponse()
        text = reply.read()
        assert reply.status == 200, text


def in_threads(work: Callable[[int], None]) -> None:
    threads = [Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bare(session: Any, inputs: list[np.ndarray], seconds: float) -> list[float]:
    """Times of the bare session in a loop."""
    name, times = session.get_inputs()[0].name, []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        session.run(None, {name: inputs[len(times) % len(inputs)]})
        times.append(time.perf_counter() - started)
    return times


def as_fast_as_possible(clients: list[Client], bodies: list[bytes], seconds: float) -> float:
    """Requests per second."""
    counts = [0] * CLIENTS
    started = time.perf_counter()

    def work(number: int) -> None:
        while time.perf_counter() - started < seconds:
            clients[number].ask(bodies[(CLIENTS * counts[number] + number) % len(bodies)])
            counts[number] += 1

    in_threads(work)
    return sum(counts) / (time.perf_counter() - started)


def at_rate(clients: list[Client], bodies: list[bytes], rate: float, seconds: float) -> list[float]:
    """Times of requests that are due at even intervals, from when they were due."""
    due: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(max(1, int(rate * seconds))):
        due.put(number)
    times: list[float] = []
    started = time.perf_counter() + 0.01

    def work(number: int) -> None:
        while True:
            try:
                place = due.get_nowait()
            except queue.Empty:
                return
            when = started + place / rate
            time.sleep(max(0.0, when - time.perf_counter()))
            clients[number].ask(bodies[place % len(bodies)])
            times.append(time.perf_counter() - when)

    in_threads(work)
    return times


def compare(
    size: int, session: Any, found: dict[str, Any], paths: list[Path], seconds: float, rounds: int
) -> list[dict[str, Any]]:
    """Bare session and server in turns, `size` images at a time."""
    contents = [path.read_bytes() for path in paths]
    decoded = np.stack([decode(path, SIZE).numpy() for path in paths])
    if size == 1:
        bodies, path, kind = contents, "/predict", "image/jpeg"
    else:
        body, kind = form(contents[:size])
        bodies, path = [body], "/predict/batch"
    inputs = [decoded[row : row + size] for row in range(0, PHOTOS - size + 1, size)]
    clients = [Client(found, path, kind) for _ in range(CLIENTS)]
    bare(session, inputs, 0.5)
    as_fast_as_possible(clients, bodies, 0.5)
    alone: list[float] = []
    half: list[float] = []
    rates = []
    for _ in range(rounds):
        alone += bare(session, inputs, seconds / 2)
        rates.append(as_fast_as_possible(clients, bodies, seconds))
        half += at_rate(clients, bodies, float(np.median(rates)) / 2, seconds)
    started = time.perf_counter()
    for one in contents:
        with Image.open(io.BytesIO(one)) as image:
            np.asarray(image)
    decoding = size * (time.perf_counter() - started) / len(contents)
    time_bare, rate = float(np.median(alone)), float(np.median(rates))
    p50, p99 = (float(np.percentile(half, level)) for level in (50, 99))
    worst = float(np.percentile(alone, 99))
    print(
        f"| {size} | {1 / time_bare:.1f} | {rate:.1f} | {1000 * time_bare:.1f} | "
        f"{1000 * worst:.1f} | {1000 * decoding:.1f} | {1000 * p50:.1f} | {1000 * p99:.1f} | "
        f"{len(half)} |",
        flush=True,
    )
    return [
        {
            "name": f"serve: requests/s of the bare session, batch {size}",
            "value": rate * time_bare,
            "goal": None,
            "kind": "at least",
            "detail": f"{rate:.1f}/s against {1 / time_bare:.1f}/s, decoding in the server only",
        },
        {
            "name": f"serve: p99 at half load over the bare time, batch {size}",
            "value": p99 / time_bare,
            "goal": GOAL,
            "kind": "at most",
            "detail": f"{1000 * p99:.1f} ms against {1000 * time_bare:.1f} ms (its p99 "
            f"{1000 * worst:.1f}), {len(half)} requests",
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="of each part of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    import onnxruntime

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "photos").mkdir()
        paths = make_photos(folder / "photos")
        make_model(folder / "photos", folder)
        command = [sys.executable, "-m", "plusone", "serve", str(folder / "model"), "--port", "0",
                   "--json", "--stop-after", str(LIMIT)]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                found = json.loads(process.stdout.readline())
                assert found["runtime"] == "onnx"
                session = onnxruntime.InferenceSession(
                    str(folder / "model" / "model.onnx"), providers=["CPUExecutionProvider"]
                )
                print("| batch | bare/s | serve/s | bare, ms | bare p99 | of it decoding, ms | "
                      "half load p50 | p99 | requests |")  # fmt: skip
                print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
                ratios = []
                for size in (1, BATCH):
                    ratios += compare(size, session, found, paths, args.seconds, args.rounds)
            finally:
                process.terminate()
    if args.json:
        args.json.write_text(json.dumps({"ratios": ratios}, indent=2) + "\n")


if __name__ == "__main__":
    main()
