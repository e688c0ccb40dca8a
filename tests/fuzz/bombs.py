"""Files that claim or become far more than they are, each read within little memory and time.

A script of its own: the bound on memory holds for the whole process. It prints what readers said.
"""

import io
import json
import os
import resource
import signal
import struct
import sys
import tarfile
import zipfile
import zlib
from importlib.util import find_spec
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch  # noqa: F401 (before the bound)

from plusone.data.features import read_features
from plusone.data.formats import read, write
from plusone.data.images import decode
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.prediction import checkpoint
from plusone.prediction.load import load_run
from plusone.prediction.run_folder import (
    read_description,
    read_metrics,
    read_observed,
    read_recipe,
)
from plusone.recipe import make_recipe
from plusone.reviewing.pictures import thumbnail
from plusone.suggestions.folder import read_suggestions
from plusone.training.run import train

ROOM = 2**30 + 2**29
SECONDS = 8.0  # of processor time for each


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


def equal_ids(path):
    path.write_text("image,labels\n" + "same,x\n" * 100_000)


def equal_ids_in_npz(path):
    np.savez_compressed(path, y=np.ones((200_000, 2), np.int8), ids=np.array(["same"] * 200_000))


def many_splits(path):
    path.write_text("image,labels,split\n" + "".join(f"{n},x,s{n}\n" for n in range(50_000)))


def many_groups(path):
    rows = "".join(f"{n},x,g{n}\x01\n" for n in range(50_000))
    path.write_text("image,labels,group\n" + rows)


def pax_of_digits(path):
    header, body = tarfile.TarInfo("x"), b"0" * 100_000
    header.type, header.size = tarfile.XHDTYPE, len(body)
    path.write_bytes(header.tobuf() + body + bytes(-len(body) % 512) + bytes(1024))


def pax_without_end(path):
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 2**32
    path.write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def empty_array(shape, kind="|i1", name="y"):
    def make(path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{name}.npy", array(shape, b"", kind))

    return make


def equal_hashes(path):
    images = [{"id": n * (2**61 - 1), "file_name": f"{n}.jpg"} for n in range(50_000)]
    content = {"images": images, "annotations": [], "categories": [{"id": 1, "name": "x"}]}
    path.write_text(json.dumps(content))


def voc_of_short_lists(path):
    lists = path / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "a_train.txt").write_text("".join(f"{n} 1\n" for n in range(200_000)))
    for number in range(300):
        (lists / f"b{number}_train.txt").write_text("0 1\n")


def dense_arff(path):
    path.with_name("bomb.xml").write_text('<labels><label name="a0"/></labels>')
    head = "".join(f"@attribute a{number} numeric\n" for number in range(25_000))
    path.write_text(head + "@data\n" + "{}\n" * 15_000)


def heic_grid(path):
    """A HEIC file whose grid claims 60,000 x 60,000 pixels."""
    pillow_heif = __import__("pillow_heif")
    picture = pillow_heif.from_bytes("RGB", (64, 64), bytes(64 * 64 * 3))
    picture.save(path)
    size = struct.pack(">II", 64, 64)
    path.write_bytes(
        path.read_bytes().replace(
            b"ispe\0\0\0\0" + size, b"ispe\0\0\0\0" + struct.pack(">II", 60_000, 60_000)
        )
    )


def small_run(path, shape=(4,), items=None):
    huge_model(path)
    about = json.loads((path / "data.json").read_text()) | {"shape": shape}
    (path / "data.json").write_text(json.dumps(about | ({"items": items} if items else {})))


def huge_inputs(path):
    small_run(path, (3, 40_000, 40_000))


def more_items(path):
    """A run whose labels are those of 200,000 items."""
    small_run(path)
    classes = json.loads((path / "data.json").read_text())["classes"]
    write(LabelTable(
        np.arange(200_000).astype(str), tuple(classes),
        LabelMatrix.from_entries([0], [0], 1, (200_000, len(classes))),
    ), path / "observed.npz")  # fmt: skip


def huge_memory(path):
    """A run of 200,000 items and 20,000 classes in 2 MB, which a method would remember."""
    small_run(path)
    shape = (200_000, 20_000)
    about = json.loads((path / "data.json").read_text())
    about |= {"classes": [f"c{n}" for n in range(shape[1])], "items": {"train": shape[0]}}
    (path / "data.json").write_text(json.dumps(about))
    write(LabelTable(
        np.arange(shape[0]).astype(str), tuple(about["classes"]),
        LabelMatrix.from_entries([0], [0], 1, shape), split=np.repeat("train", shape[0]),
    ), path / "observed.npz")  # fmt: skip


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
    "run whose inputs are enormous": (huge_inputs, "", read_description),
    "run with the labels of others": (more_items, "", read_observed),
    "run of 4 billion labels": (huge_memory, "", lambda p: load_run(p, memory=True)),
    "csv of one id": (equal_ids, "bomb.csv", read),
    "npz of one id": (equal_ids_in_npz, "bomb.npz", read),
    "csv of many splits": (many_splits, "bomb.csv", read),
    "csv of many groups": (many_groups, "bomb.csv", read),
    "pax header of digits": (pax_of_digits, "bomb.tar", read),
    "pax header of 4 GB": (pax_without_end, "bomb.tar", read),
    "npz with (n, 0) values": (empty_array((10**12, 0)), "bomb.npz", read),
    "npz with (0, n) values": (empty_array((0, 10**12)), "bomb.npz", read),
    "ids of no byte": (empty_array((10**12,), "|S0", "ids"), "bomb.npz", read),
    "COCO ids of one hash": (equal_hashes, "bomb.json", read),
    "VOC lists of one line": (voc_of_short_lists, "", read),
    "arff of 1.5 GB": (dense_arff, "bomb.arff", read),
    "HEIC of 60,000 x 60,000": (heic_grid, "bomb.heic", lambda p: decode(p, 8)),
}


def stop(*_):
    raise TimeoutError(f"more than {SECONDS:g} seconds of processor time")


if __name__ == "__main__":
    if find_spec("pillow_heif") is None:
        del BOMBS["HEIC of 60,000 x 60,000"]
    made = {}
    for number, (name, (make, file, _)) in enumerate(BOMBS.items()):
        folder = Path(sys.argv[1]) / str(number)
        folder.mkdir()
        made[name] = folder / file if file else folder
        make(made[name])
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, stop)
    said = {}
    for name, (_, _, reader) in BOMBS.items():
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            reader(made[name])
            said[name] = "ACCEPTED"
        except InputError as error:
            said[name] = f"InputError: {error}"
        except BaseException as error:
            said[name] = f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    assert thumbnail(made["image of 30,000 x 30,000"], 100) is None
    print(json.dumps(said))
