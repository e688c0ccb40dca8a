"""Files that claim or become far more than they are, each read within little memory.

A script of its own: the bound on memory holds for the whole process. It prints what readers said.
"""

import io
import json
import os
import resource
import struct
import sys
import zipfile
import zlib
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch  # noqa: F401 (before the bound)

from plusone.data.features import read_features
from plusone.data.formats import read
from plusone.data.images import decode
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.prediction import checkpoint
from plusone.prediction.load import load_run
from plusone.prediction.run_folder import read_metrics, read_recipe
from plusone.recipe import make_recipe
from plusone.review.pictures import thumbnail
from plusone.suggest.folder import read_suggestions
from plusone.training.run import train

ROOM = 2**30 + 2**29


def array(shape, rest=b"\0" * 64, kind="|i1"):
    """The bytes of an npy file that claims a shape."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return out.getvalue() + rest


def forged_zip(path, content, claimed):
    """An npz file whose directory claims so many bytes for its array, as a real bomb's does."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", content)
    data = bytearray(path.read_bytes())
    place = data.rfind(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", claimed)
    path.write_bytes(data)


def npz_that_unpacks(path):
    forged_zip(path, array((3_000_000_000,)), 3_000_000_128)


def npz_header(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("y.npy", array((2**40, 2**10)))


def npz_stored_twice(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("y.npy", array((64,)))
    data = bytearray(path.read_bytes())
    place = data.rfind(b"PK\x01\x02")
    data[place + 20 : place + 28] = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(data)


def feature_header(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", array((2**30, 2**20), kind="<f4"))
        archive.writestr("ids.npy", array((1,), rest=b"a\0\0\0", kind="<U1"))


def csv_of_wide_ids(path):
    rows = "".join(f"{row},x\n" for row in range(600_000))
    path.write_text("image,labels\n" + "a" * 1000 + ",x\n" + rows)


def csv_of_stars(path):
    names = "|".join(f"c{number}" for number in range(20_000))
    path.write_text(f"image,labels,negatives\nfirst,{names},\n" + "".join(
        f"{row},,*\n" for row in range(20_000)
    ))  # fmt: skip


def arrow_that_unpacks(path):
    image = pa.array([bytes(2**22)] * 12)
    table = pa.table({"image": image, "label": ["x"] * 12})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(str(path), table.schema, options=options) as writer:
        writer.write_table(table)


def parquet_of_repeats(path):
    rows = 100_000
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["a" * 1000])
    labels = pa.ListArray.from_arrays(
        pa.array(np.zeros(rows + 1, np.int32)), pa.array([], pa.string())
    )
    piece = pa.table({"id": ids.cast(pa.string()), "labels": labels})
    with pq.ParquetWriter(path, piece.schema, compression="zstd") as writer:
        for _ in range(14):
            writer.write_table(piece)


def repeated(text, count):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [text])


def parquet_of_long_text(path):
    pq.write_table(pa.table({"id": repeated("a" * 10_000_000, 2000)}), path, store_schema=False)


def parquet_of_long_list(path):
    texts = repeated("a" * 40_000, 100_000)
    labels = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    pq.write_table(pa.table({"id": ["a"], "labels": labels}), path, store_schema=False)


def parquet_of_empty_rows(path):
    rows = pa.nulls(20_000_000)
    pq.write_table(pa.table({"id": rows, "labels": rows}), path)


def arrow_of_empty_rows(path):
    table = pa.table({"x": pa.nulls(20_000_000)})
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)


def sparse_arff(path):
    path.with_name("bomb.xml").write_text('<labels><label name="a0"/></labels>')
    head = "".join(f"@attribute a{number} numeric\n" for number in range(30_000))
    path.write_text(head + "@data\n" + "{}\n" * 20_000)


def laughing_xml(path):
    path.with_name("bomb.arff").write_text("@attribute a {0,1}\n@data\n1\n")
    entities = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
    path.write_text(f'<!DOCTYPE x [<!ENTITY l0 "lol">{entities}]><labels>&l9;</labels>')


def deep_coco(path):
    path.write_text("[" * 5_000_000)


def large_metrics(path):
    (path / "metrics.json").touch()
    os.truncate(path / "metrics.json", 2**33)


def deep_recipe(path):
    (path / "recipe.toml").write_text("a = " + "[" * 100_000)


def large_suggestions(path):
    (path / "about.json").touch()
    os.truncate(path / "about.json", 2**33)


def weights_header(path):
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")


def weights_shape(path):
    about = {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}
    text = json.dumps(about).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(64))


def picture(path, side):
    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(10_000)))
        + chunk(b"IEND", b"")
    )  # fmt: skip


def huge_model(path):
    """A run that is sound, but for the size of its inputs."""
    from plusone.data.dataset import Dataset

    x = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
    y = (np.arange(24)[:, None] % 200 == np.arange(200)).astype(np.int8)
    data = Dataset.from_arrays(x, y, complete=True, split=np.repeat(["train", "val", "test"], 8))
    recipe = make_recipe({"method": "an", "epochs": 1})
    train(make_task(data, recipe), recipe, path)
    about = json.loads((path / "data.json").read_text())
    (path / "data.json").write_text(json.dumps(about | {"shape": [2**24]}))


def huge_picture(path):
    picture(path, 30_000)


BOMBS = {
    "npz that unpacks to 3 GB": (npz_that_unpacks, "bomb.npz", read),
    "npz whose array claims a petabyte": (npz_header, "bomb.npz", read),
    "npz that claims more than the file": (npz_stored_twice, "bomb.npz", read),
    "features that claim a petabyte": (feature_header, "bomb.npz", lambda p: read_features([p])),
    "csv with one long id": (csv_of_wide_ids, "bomb.csv", read),
    "csv with stars for 400 million labels": (csv_of_stars, "bomb.csv", read),
    "arrow with images that unpacks": (arrow_that_unpacks, "bomb.arrow", read),
    "parquet that repeats one long id": (parquet_of_repeats, "bomb.parquet", read),
    "parquet that repeats a text of 10 MB": (parquet_of_long_text, "bomb.parquet", read),
    "parquet with a list of 4 GB": (parquet_of_long_list, "bomb.parquet", read),
    "parquet of rows without values": (parquet_of_empty_rows, "bomb.parquet", read),
    "arrow of rows without values": (arrow_of_empty_rows, "bomb.arrow", read),
    "sparse arff": (sparse_arff, "bomb.arff", read),
    "xml of entities": (laughing_xml, "bomb.xml", read),
    "deeply nested COCO json": (deep_coco, "bomb.json", read),
    "metrics.json of 8 GB": (large_metrics, "", read_metrics),
    "about.json of 8 GB": (large_suggestions, "", read_suggestions),
    "deeply nested recipe": (deep_recipe, "", read_recipe),
    "weights with a header of 2^62 bytes": (weights_header, "bomb.safetensors", checkpoint.load),
    "weights that claim 4 TB": (weights_shape, "bomb.safetensors", checkpoint.load),
    "image of 30,000 x 30,000": (huge_picture, "bomb.png", lambda p: decode(p, 8)),
    "run of a model that is not in it": (huge_model, "", load_run),
}

if __name__ == "__main__":
    made = {}
    for number, (name, (make, file, _)) in enumerate(BOMBS.items()):
        folder = Path(sys.argv[1]) / str(number)
        folder.mkdir()
        made[name] = folder / file if file else folder
        make(made[name])
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    said = {}
    for name, (_, _, reader) in BOMBS.items():
        try:
            reader(made[name])
            said[name] = "ACCEPTED"
        except InputError as error:
            said[name] = f"InputError: {error}"
        except BaseException as error:
            said[name] = f"{type(error).__name__}: {error}"
    assert thumbnail(made["image of 30,000 x 30,000"], 100) is None
    print(json.dumps(said))
