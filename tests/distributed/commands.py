"""Several commands in the same processes: commands.py FILE, a JSON list of their arguments.

Before each, its number is printed to both outputs of every process. RANK in an argument stands for
the number of the process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from plusone.cli.app import main
from plusone.features import extraction as features
from plusone.features import parts
from plusone.training import crossfit


def run(commands: list[list[str]]) -> None:
    codes = []
    for number, arguments in enumerate(commands):
        for stream in (sys.__stdout__, sys.__stderr__):
            stream.write(f"command {number}\n")
            stream.flush()
        try:
            main([argument.replace("RANK", os.environ["RANK"]) for argument in arguments])
        except SystemExit as left:
            codes.append(left.code)
    sys.exit("failed" if any(codes[:-1]) else codes[-1])


if __name__ == "__main__":
    crossfit.MOST_LABELS = 0  # of a closed form they are computed when they are asked for
    parts.ITEMS_PER_PART = features.BATCH = 4  # few pictures make several parts
    run(json.loads(Path(sys.argv[1]).read_text()))
