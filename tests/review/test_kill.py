"""kill -9 while answers come in: what was acknowledged is there, and the file is whole."""

from __future__ import annotations

import http.client
import json
import os
import random
import secrets
import sqlite3
import subprocess
import sys
import time
from threading import Thread

import pytest
from tests.patience import PATIENCE

from plusone.reviewing.opening import open_suggestions

from .conftest import Client

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("PLUSONE_KILLS", "3"))


def start(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "plusone", "review", str(folder), "--no-browser", "--json",
         "--stop-after", str(PATIENCE)],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    line = process.stdout.readline()
    assert line, "the server did not start"
    return process, json.loads(line)["url"]


def answer_until_it_dies(client, kept):
    """Answers and takes back as fast as it goes; notes each step that was acknowledged."""
    try:
        while True:
            for row in range(6):
                step = secrets.token_hex(16)
                client.answer(row, (row + 1) % 4, random.choice(["yes", "no"]), step=step)
                kept.append(step)
            step = secrets.token_hex(16)
            client.post("/api/undo", step=step)
            kept.append(step)
    except (OSError, http.client.HTTPException):
        return


@pytest.mark.slow
def test_nothing_acknowledged_is_lost(suggestions):
    kept: list[str] = []
    for _ in range(KILLS):
        process, url = start(suggestions)
        try:
            before = len(kept)
            tabs = [Thread(target=answer_until_it_dies, args=(Client(url), kept)) for _ in range(2)]
            for tab in tabs:
                tab.start()
            end = time.monotonic() + PATIENCE
            while len(kept) < before + 20 and time.monotonic() < end:
                time.sleep(0.005)
            time.sleep(random.random() * 0.05)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        for tab in tabs:
            tab.join(timeout=PATIENCE)
            assert not tab.is_alive()
        assert len(kept) >= before + 20
    database = sqlite3.connect(suggestions / "review.sqlite")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = {step for (step,) in database.execute("SELECT step FROM decision")}
    assert set(kept) <= found
    assert len(found - set(kept)) <= 2 * KILLS  # the answers that were under way
    database.close()
    now = open_suggestions(suggestions).progress()
    assert now["questions"] == 12
    assert 0 < now["answered"] <= 6
