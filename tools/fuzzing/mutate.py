"""Damaging files: byte by byte, and by what their form means."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1,
           2**63, 2**64, -(2**31), -(2**63), 10**20, 10**400)  # fmt: skip
WORDS = ("", " ", "0", "-1", "1e999", "nan", "inf", "None", "null", "*", "|", "a|b", "..", "../x",
         "/etc/passwd", "C:\\x", "\x00", "\ud800", "\ufeff", "é", "𝒳", "'", '"', "\\", "\n", "\r\n",
         ",", ";", "\t", "%", "{", "}", "[", "]", "<", ">", "&", "<!DOCTYPE x>", "<![CDATA[",
         "@data", "train", "labels", "image", "__class__", "{{7*7}}", "A" * 300, "9" * 5000,
         " " * 2000, "(" * 2000, "true", "=", "#", "1.jpg", "dog")  # fmt: skip
BEGINNINGS = (b"", b"\xff\xfe", b"PK\x05\x06" + bytes(18), b"\x93NUMPY", b"PAR1", b"\x80\x04",
              b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"SQLite format 3\0")  # fmt: skip
Mutate = Callable[[bytes, Random], bytes]


def damage(data: bytes, rng: Random) -> bytes:
    """One to four byte-level changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(BYTE_CHANGES)(data, rng)
    return data


def _place(data: bytes, rng: Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _byte(data: bytes, rng: Random) -> bytes:
    at = _place(data, rng)
    return (
        data[:at]
        + bytes([rng.choice((0, 1, 9, 10, 13, 32, 34, 44, 127, 128, 255))])
        + data[at + 1 :]
    )


def _insert(data: bytes, rng: Random) -> bytes:
    at = _place(data, rng)
    return data[:at] + rng.randbytes(rng.choice((1, 2, 8, 64))) + data[at:]


def _word(data: bytes, rng: Random) -> bytes:
    at = _place(data, rng)
    return data[:at] + rng.choice(WORDS).encode("utf-8", "surrogatepass") + data[at:]


def _delete(data: bytes, rng: Random) -> bytes:
    at = _place(data, rng)
    return data[:at] + data[at + rng.choice((1, 1, 2, 4, 16, 100)) :]


def _repeat(data: bytes, rng: Random) -> bytes:
    at = _place(data, rng)
    piece = data[at : at + rng.choice((1, 4, 16, 200))]
    return data[:at] + piece * rng.choice((2, 3, 50)) + data[at + len(piece) :]


def _move(data: bytes, rng: Random) -> bytes:
    at, to, size = _place(data, rng), _place(data, rng), rng.choice((1, 4, 32, 200))
    return data[:to] + data[at : at + size] + data[to:]


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: _place(data, rng)]


def _integer(data: bytes, rng: Random) -> bytes:
    at, size = _place(data, rng), rng.choice((1, 2, 4, 8))
    number = rng.choice(NUMBERS) % 2 ** (8 * size)
    return data[:at] + number.to_bytes(size, rng.choice(("little", "big"))) + data[at + size :]


def _decimal(data: bytes, rng: Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data[:20_000]))
    if not found:
        return _byte(data, rng)
    hit = rng.choice(found)
    return data[: hit.start()] + str(rng.choice(NUMBERS)).encode() + data[hit.end() :]


def _lines(data: bytes, rng: Random) -> bytes:
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    change = rng.randrange(3)
    if change == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif change == 1:
        lines.insert(one, lines[other])
    else:
        del lines[one]
    return b"\n".join(lines)


def _other(data: bytes, rng: Random) -> bytes:
    return rng.choice(BEGINNINGS) + data


BYTE_CHANGES: tuple[Mutate, ...] = (
    _flip, _flip, _byte, _insert, _word, _word, _delete, _repeat, _move, _cut, _integer, _decimal,
    _decimal, _lines, _other,
)  # fmt: skip


def value(rng: Random) -> Any:
    """Something that is rarely expected."""
    deep: Any = 0
    for _ in range(200):
        deep = [deep]
    made = (None, True, False, -1, 0, 1.5, float("nan"), float("inf"), "", [], {}, [[]], deep,
            {"a": 1}, ["a", "a"], [1, "a"], rng.choice(NUMBERS[:-1]),
            rng.choice(WORDS))  # fmt: skip
    return rng.choice(made)


def change_tree(tree: Any, rng: Random) -> Any:
    """A JSON value with one thing in it changed."""
    if not isinstance(tree, (dict, list)) or not tree or rng.random() < 0.1:
        return value(rng)
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key, copied = rng.choice(keys), tree.copy()
    change = rng.random()
    if change < 0.12:
        del copied[key]
    elif change < 0.2 and isinstance(copied, list):
        copied.append(copied[key])
    elif change < 0.2:
        copied[rng.choice(WORDS)] = copied.pop(key)
    else:
        copied[key] = change_tree(tree[key], rng)
    return copied


def json_text(data: bytes, rng: Random) -> bytes:
    """JSON with a changed value, or damaged bytes."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return damage(data, rng)
    if rng.random() < 0.3:
        return damage(data, rng)
    if rng.random() < 0.01:
        return b"[" * 100_000
    for _ in range(rng.choice((1, 1, 2))):
        tree = change_tree(tree, rng)
    return json.dumps(tree).encode()


def json_lines(data: bytes, rng: Random) -> bytes:
    """Lines of JSON, one of them changed."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = json_text(lines[at], rng)
    return b"\n".join(lines) if rng.random() < 0.8 else damage(data, rng)


def csv_text(data: bytes, rng: Random) -> bytes:
    """A table with a changed cell, row or column, or damaged bytes."""
    if rng.random() < 0.4:
        return damage(data, rng)
    rows = list(csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline="")))
    rows = [row for row in rows if row] or [[""]]
    for _ in range(rng.choice((1, 1, 2, 3))):
        row = rng.choice(rows)
        change = rng.randrange(5)
        if change <= 2 and row:
            row[rng.randrange(len(row))] = rng.choice(WORDS)
        elif change == 3:
            rows.append(list(row))
        else:
            at = rng.randrange(max(1, len(rows[0])))
            for each in rows:
                del each[at : at + 1]
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=rng.choice(("\n", "\r\n"))).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def toml_text(data: bytes, rng: Random) -> bytes:
    """A line with another value, or damaged bytes."""
    if rng.random() < 0.4:
        return damage(data, rng)
    lines = data.decode("utf-8", "replace").split("\n")
    at = rng.randrange(len(lines))
    name, equals, _ = lines[at].partition("=")
    tokens = (*map(str, NUMBERS[:-1]), "''", '"none"', "nan", "inf", "[]", "{}", "true", "[[1]]",
              "1979-05-27", "{a = {b = 1}}", '"\\ud800"', '"\\u0000"', "1e400",
              "[" * 500)  # fmt: skip
    if equals:
        lines[at] = f"{name}= {rng.choice(tokens)}"
    else:
        lines[at] = f"{rng.choice(WORDS)} = {rng.choice(tokens)}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def zipped_arrays(data: bytes, rng: Random) -> bytes:
    """An npz file whose arrays are changed inside a sound zip file, or damaged bytes."""
    if rng.random() < 0.3:
        return damage(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    change = rng.random()
    if change < 0.1:
        del members[name]
    elif change < 0.2:
        members[
            rng.choice(("x", "y", "ids", "labels", "plusone", "../x", "truth_shape")) + ".npy"
        ] = members[name]
    elif change < 0.55:
        members[name] = _array(members[name], rng)
    else:
        members[name] = damage(members[name], rng)
    out = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", kind) as archive:
        warnings.simplefilter("ignore")
        for key, content in members.items():
            archive.writestr(key, content)
    return out.getvalue()


def _array(data: bytes, rng: Random) -> bytes:
    """Another sound array in place of one."""
    import numpy as np

    array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    kinds = (
        "<f4",
        "<f8",
        "<i8",
        "<u1",
        "?",
        "<U3",
        "S4",
        "<c8",
        "<M8[s]",
        "<f2",
        ">i4",
        "<m8[D]",
        "V3",
    )
    made: Any = array
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            change = rng.randrange(6)
            if change == 0:
                made = array.astype(rng.choice(kinds))
            elif change == 1:
                made = array[..., None] if rng.random() < 0.5 else array.reshape(-1)
            elif change == 2:
                made = array[: rng.choice((0, 1, -1))]
            elif change == 3 and array.size:
                made = array.copy()
                made.flat[rng.randrange(array.size)] = rng.choice(
                    (*NUMBERS[:17], float("nan"), float("inf"), *WORDS[:30])
                )
            elif change == 4:
                made = np.array(value(rng), dtype=object)
            else:
                made = np.array(rng.choice((*NUMBERS[:15], *WORDS[:30])))
        except (ValueError, TypeError, OverflowError, IndexError):
            made = array
    out = io.BytesIO()
    try:
        np.lib.format.write_array(out, made, allow_pickle=True)
    except RuntimeError:  # too many dimensions for it
        return data
    return out.getvalue()


def safetensors(data: bytes, rng: Random) -> bytes:
    """A weights file with a changed header, or damaged bytes."""
    if rng.random() < 0.3 or len(data) < 8:
        return damage(data, rng)
    (size,) = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    about = header.get("__metadata__", {})
    if "plusone" in about and rng.random() < 0.4:
        about["plusone"] = json_text(about["plusone"].encode(), rng).decode("utf-8", "replace")
    else:
        header = change_tree(header, rng)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + rest
