"""Images in tar, arrow and parquet files, written by `webdataset`, `datasets` and pyarrow."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from plusone.data import _arrow
from plusone.data.broken import find_faults
from plusone.data.formats import detect, read, write
from plusone.data.formats._sharded import Sharded
from plusone.data.images import decode, open_image
from plusone.data.shards import shards_of
from plusone.errors import InputError
from plusone.inputs._views import ItemView
from plusone.inputs.workers import ImageWorkers, Request
from plusone.io.keys import file_state

COLOURS = np.array([(200, 0, 0), (0, 200, 0), (0, 0, 200)], dtype=np.uint8)
NAMES = ["red", "green", "blue"]


def picture(kind: int) -> Image.Image:
    return Image.fromarray(np.broadcast_to(COLOURS[kind % 3], (12, 10, 3)).copy())


def encoded(kind: int) -> bytes:
    stream = io.BytesIO()
    picture(kind).save(stream, format="PNG")
    return stream.getvalue()


def write_shards(pattern: Path, samples: list[dict[str, object]], most: int = 3) -> None:
    wds = pytest.importorskip("webdataset")
    with wds.ShardWriter(str(pattern), maxcount=most, verbose=0) as writer:
        for number, sample in enumerate(samples):
            writer.write({"__key__": f"{number:04d}", "png": picture(number), **sample})


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def colour_of(path: Path) -> int:
    return int(np.asarray(open_image(path)).mean(axis=(0, 1)).argmax())


def table_of(count: int, **columns: object) -> object:
    """A data set of `datasets`, with images and the given columns and features."""
    datasets = pytest.importorskip("datasets")
    features = {name: kind for name, (kind, _) in columns.items()}
    values = {name: cells for name, (_, cells) in columns.items()}
    return datasets.Dataset.from_dict(
        {"image": [picture(number) for number in range(count)], **values},
        features=datasets.Features({"image": datasets.Image(), **features}),
    )


def test_webdataset_numbers_with_a_class_list(tmp_path: Path) -> None:
    write_shards(tmp_path / "train-%06d.tar", [{"cls": number % 3} for number in range(5)])
    write_shards(tmp_path / "val-%06d.tar", [{"cls": 1}])
    (tmp_path / "classes.txt").write_text("red\ngreen\nblue\n")
    assert detect(tmp_path) == "webdataset"
    table = read(tmp_path).table
    assert table.classes == ("red", "green", "blue")
    assert table.ids.tolist()[2:4] == ["train-000000.tar/0002.png", "train-000001.tar/0003.png"]
    assert table.labels.dense().argmax(1).tolist() == [0, 1, 2, 0, 1, 1]
    assert table.split is not None
    assert table.split.tolist() == ["train"] * 5 + ["val"]
    assert [colour_of(table.path(row)) for row in range(5)] == [0, 1, 2, 0, 1]
    # The table can be written elsewhere: the images are found again.
    (tmp_path / "elsewhere").mkdir()
    write(table, tmp_path / "elsewhere" / "labels.csv")
    again = read(tmp_path / "elsewhere" / "labels.csv").table
    assert again.root == tmp_path
    assert colour_of(again.path(2)) == 2
    (tmp_path / "val-000000.tar").rename(tmp_path / "more.tar")
    with pytest.raises(InputError, match=r"more.tar: is not of the split train, val or test"):
        read(tmp_path)
    (tmp_path / "more.tar").unlink()
    (tmp_path / "classes.txt").write_text("red\ngreen\n")
    with pytest.raises(InputError, match=r"000000.tar/0002.png: class number 2 is none of the 2"):
        read(tmp_path)


def test_webdataset_names_states_and_groups(tmp_path: Path) -> None:
    write_shards(
        tmp_path / "a-%03d.tar",
        [
            {"json": {"labels": ["red", "big"], "negatives": ["blue"], "group": "g1"}},
            {"json": {"tags": "green", "group": "g2"}, "cls": 7},
            {"txt": "blue, big\n", "json": {"group": "g2"}},
            {"json": {"category": "red | big", "negatives": [-1, None], "group": "g3"}},
            {"cls": -1, "json": {"group": "g3"}},
        ],
        most=2,
    )
    data = read(tmp_path / "a-{000..002}.tar")
    table = data.table
    assert table.classes == ("big", "blue", "green", "red")
    assert table.labels.dense().tolist() == [
        [1, -1, 0, 1],
        [0, 0, 1, 0],
        [1, 1, 0, 0],
        [1, 0, 0, 1],
        [0, 0, 0, 0],
    ]
    assert table.groups is not None
    assert table.groups.tolist() == ["g1", "g2", "g2", "g3", "g3"]
    assert table.notes == (
        "labels from .cls of 1 images",
        "labels from .json of 3 images",
        "labels from .txt of 1 images",
    )
    assert table.split is None
    assert len(read(tmp_path / "a-*0.tar").table) == 2
    with pytest.raises(InputError, match=r"a-003.tar: no such file, one of .*\{000..003\}"):
        read(tmp_path / "a-{000..003}.tar")


def test_a_tar_file_of_a_stranger(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"

    class Never:
        def __reduce__(self) -> object:
            return (print, ("unpickled",))

    write_tar(path, {"a.png": encoded(0), "a.pyd": pickle.dumps(Never())})
    with pytest.raises(InputError, match=r"no image has labels.*Python objects .* are never read"):
        read(path)
    write_tar(path, {"./a.png": encoded(0), "/a.cls": b"red"})
    assert read(path).table.ids.tolist() == ["x.tar/a.png"]
    assert colour_of(path / "a.png") == 0
    write_tar(path, {"../../up.png": encoded(0), "../../up.cls": b"red"})
    with pytest.raises(InputError, match=r"leaves its folder"):
        read(path)
    write_tar(path, {"a.png": encoded(0), "a.jpg": encoded(0), "a.cls": b"red"})
    with pytest.raises(InputError, match=r"sample 'a' has two images, 'a.png' and 'a.jpg'"):
        read(path)
    write_tar(path, {"a.mask.png": encoded(1), "a.png": encoded(0), "a.cls": b"red|big"})
    table = read(path).table
    assert (table.ids.tolist(), table.classes) == (["x.tar/a.png"], ("red|big",))
    write_tar(path, {"2024.000.png": encoded(0), "2024.001.png": encoded(1), "2024.cls": b"red"})
    with pytest.raises(InputError, match=r"'2024.000.png' and '2024.001.png' are images of one sa"):
        read(path)
    write_tar(path, {"a.png": encoded(0), "a.json": b"[1.5]"})
    with pytest.raises(InputError, match=r"x.tar/a.png: labels has '1.5', which is neither"):
        read(path)
    write_tar(path, {"a.png": encoded(0), "a.cls": b"red"})
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("b.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(InputError, match=r"member 'b.png' is a link"):
        read(path)
    write_tar(path, {"a.png": encoded(0), "a.cls": b"red", "b.png": encoded(1)})
    with tarfile.open(path, "a") as archive:
        again = tarfile.TarInfo("a.png")
        archive.addfile(again, io.BytesIO())
    with pytest.raises(InputError, match=r"member 'a.png' occurs twice"):
        read(path)
    path.write_bytes(b"\x1f\x8b" + bytes(600))
    with pytest.raises(InputError, match=r"is compressed \(gzip\)"):
        read(path)


def test_a_truncated_shard_and_a_broken_image_are_named(tmp_path: Path) -> None:
    samples = {"a.png": encoded(0), "a.cls": b"red", "b.png": b"no image", "b.cls": b"green"}
    write_tar(tmp_path / "x.tar", {**samples, "c.cls": b"blue", "c.png": bytes(40_000)})
    table = read(tmp_path / "x.tar").table
    paths = [table.path(row) for row in range(3)]
    assert set(find_faults(paths)) == {1, 2}
    with pytest.raises(InputError, match=r"x.tar/b.png: cannot be read as an image \(it is of no"):
        decode(paths[1], 8)
    with pytest.raises(InputError, match=r"x.tar/d.png: .*no such name in it"):
        decode(tmp_path / "x.tar" / "d.png", 8)
    content = (tmp_path / "x.tar").read_bytes()
    last = content.index(b"c.png")  # its header
    for end, reason in ((20_000, "the file ends in 'c.png'"), (last + 300, "no member")):
        (tmp_path / "x.tar").write_bytes(content[:end])
        with pytest.raises(InputError, match=f"x.tar: is truncated .* after 'c.cls' .*{reason}"):
            read(tmp_path / "x.tar")
    assert file_state(paths[0]) == file_state(tmp_path / "x.tar")
    assert file_state(tmp_path / "missing" / "a.png") is None


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_huggingface(tmp_path: Path, kind: str) -> None:
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=NAMES)
    train = table_of(6, label=(label, [0, 1, 2, 0, 1, -1]))
    test = table_of(2, label=(label, [0, 1]))
    if kind == "arrow":
        datasets.DatasetDict({"train": train, "test": test}).save_to_disk(
            tmp_path / "set", num_shards={"train": 2, "test": 1}
        )
    else:
        (tmp_path / "set" / "data").mkdir(parents=True)
        train.to_parquet(tmp_path / "set/data/train-00000-of-00001.parquet", batch_size=4)
        test.to_parquet(tmp_path / "set/data/test-00000-of-00001.parquet")
    assert detect(tmp_path / "set") == "huggingface"
    table = read(tmp_path / "set").table
    assert table.classes == tuple(NAMES)
    assert table.split is not None
    order = [0, 1, 2, 3, 4, 5, 0, 1]
    rows = sorted(range(8), key=lambda row: (table.split[row] == "test", row))
    assert table.split[rows].tolist() == ["train"] * 6 + ["test"] * 2
    seen = table.labels.dense()[rows]
    assert seen.argmax(1)[:5].tolist() == [0, 1, 2, 0, 1]
    assert seen[5].tolist() == [0, 0, 0]
    assert [colour_of(table.path(row)) for row in rows] == [number % 3 for number in order]


def test_huggingface_lists_names_and_groups(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    text, many = datasets.Value("string"), datasets.Sequence(datasets.ClassLabel(names=NAMES))
    data = table_of(
        3,
        id=(text, ["a", "b.png", "c d"]),
        labels=(many, [[0, 2], [], [1]]),
        negatives=(datasets.Sequence(text), [["green"], ["*"], []]),
        split=(datasets.ClassLabel(names=["train", "validation"]), [0, 0, 1]),
        group=(datasets.Value("int64"), [7, 7, 8]),
    )
    data.to_parquet(tmp_path / "x.parquet")
    table = read(tmp_path / "x.parquet").table
    assert table.ids.tolist() == ["x.parquet/a", "x.parquet/b.png", "x.parquet/c d"]
    assert table.labels.dense().tolist() == [[1, -1, 1], [-1, -1, -1], [0, 1, 0]]
    assert table.groups is not None
    assert table.groups.tolist() == ["7", "7", "8"]
    assert table.split is not None
    assert table.split.tolist() == ["train", "train", "val"]
    names = table_of(2, tags=(text, ["red|big", "blue"]))
    names.save_to_disk(tmp_path / "names")
    assert read(tmp_path / "names").table.labels.dense().tolist() == [[1, 0, 1], [0, 1, 0]]
    numbers = datasets.Sequence(datasets.Value("int64"))
    for name, kind in (("plain", numbers), ("named", many)):
        data = table_of(3, label=(kind, [[0, 1], [-1], []]))
        data.to_parquet(tmp_path / f"{name}.parquet")
        table = read(tmp_path / f"{name}.parquet").table
        assert table.classes[:2] == (("0", "1") if name == "plain" else ("red", "green"))
        assert table.labels.dense()[:, :2].tolist() == [[1, 1], [0, 0], [0, 0]]


def test_damaged_and_foreign_columns(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    def write_parquet(name: str, **columns: object) -> Path:
        images = [{"bytes": encoded(0), "path": None}, {"bytes": None, "path": "/etc/passwd"}]
        image = pa.array(images, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
        pq.write_table(pa.table({"image": image, **columns}), tmp_path / name)
        return tmp_path / name

    path = write_parquet("a.parquet", label=pa.array(["red", "blue"]))
    table = read(path).table
    assert find_faults([table.path(0), table.path(1)]).keys() == {1}
    with pytest.raises(InputError, match=r"a.parquet/000001: .*row 1 has no bytes of an image"):
        open_image(table.path(1))
    with pytest.raises(InputError, match=r"no column of labels; .*\(found: image, caption\)"):
        read(write_parquet("b.parquet", caption=pa.array(["a", "b"])))
    with pytest.raises(InputError, match="column 'label' does not hold lists of names"):
        read(write_parquet("b.parquet", label=pa.array([0.5, 1.5])))
    numbers = pa.field("label", pa.int64())
    image = pa.field("image", pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    cells = [{"bytes": b"", "path": None}], [3]
    for names, message in (
        (["red"], r"c.parquet/000000: class number 3 is none of the 1"),
        (["red", "red"], r"c.parquet, names of column 'label': class 'red' occurs twice"),
        ([1], r"c.parquet: the classes of column 'label' have no list of names"),
    ):
        meta = {"info": {"features": {"label": {"_type": "ClassLabel", "names": names}}}}
        schema = pa.schema([image, numbers], {"huggingface": json.dumps(meta)})
        pq.write_table(pa.table(list(map(pa.array, cells)), schema=schema), tmp_path / "c.parquet")
        with pytest.raises(InputError, match=message):
            read(tmp_path / "c.parquet")
    # Rows that take no room: they are not even named.
    rows = pa.table({"x": pa.nulls(100_000)})
    with pa.ipc.new_stream(str(tmp_path / "rows.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    with pytest.raises(InputError, match=r"rows.arrow: has no column of images \(found: x\)"):
        Sharded.find(tmp_path / "rows.arrow")
    nulls = pa.table({"id": pa.array(["a"] * 100_000), "image": pa.nulls(100_000, pa.binary())})
    pq.write_table(nulls, tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"rows.parquet: .*it claims 100,000 rows of images"):
        Sharded.find(tmp_path / "rows.parquet")
    # A file that only starts well, and one that would unpack to anything.
    flat = pa.table({"image": pa.array([encoded(0)] * 50), "label": pa.array(["red"] * 50)})
    for codec, message in ((None, "is not a readable arrow file"), ("zstd", "it is compressed")):
        options = pa.ipc.IpcWriteOptions(compression=codec)
        out = str(tmp_path / "d.arrow")
        with pa.ipc.new_stream(out, flat.schema, options=options) as writer:
            writer.write_table(flat)
        if codec is None:
            assert len(read(tmp_path / "d.arrow").table) == 50
            content = (tmp_path / "d.arrow").read_bytes()
            (tmp_path / "d.arrow").write_bytes(content[:-200])
        with pytest.raises(InputError, match=message):
            read(tmp_path / "d.arrow")


def test_what_datasets_wrote_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../other.arrow"}]}')
    with pytest.raises(InputError, match=r"'../other.arrow' is not the name of a file in the"):
        shards_of(tmp_path)
    (tmp_path / "state.json").write_text('{"_data_files": 3}')
    with pytest.raises(InputError, match=r"JSON files are not those of datasets"):
        shards_of(tmp_path)


def test_workers_read_shards(tmp_path: Path) -> None:
    write_shards(tmp_path / "x-%03d.tar", [{"cls": 0} for _ in range(8)], most=4)
    table_of(8).to_parquet(tmp_path / "y.parquet", batch_size=3)
    for source in (tmp_path, tmp_path / "y.parquet"):
        images = Sharded.find(source)
        assert images is not None
        paths = [images.root / name for name in images.ids()]
        view = ItemView(flipped=False, draws=None, box=None)
        requests = [Request(path, 8, "stretch", "one", (view,)) for path in paths]
        workers = ImageWorkers(2)
        halves = partial(iter, [requests[:4], requests[4:]])
        batches = [batch[0] for batch in workers.batches(halves)]
        workers.close()
        seen = [int(image.float().mean((1, 2)).argmax()) for batch in batches for image in batch]
        assert seen == [number % 3 for number in range(8)]


def test_a_row_group_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, and by threads that want it at once."""
    table_of(9).to_parquet(tmp_path / "y.parquet", batch_size=3)
    _arrow._group.cache_clear()
    for row in range(9):
        _arrow.image_bytes(tmp_path / "y.parquet", row)
    assert _arrow._group.cache_info().misses == 3
    _arrow._group.cache_clear()
    images = _arrow._images
    monkeypatch.setattr(_arrow, "_images", lambda *given: (time.sleep(0.05), images(*given))[1])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(_arrow.image_bytes, tmp_path / "y.parquet"), [0, 1, 2, 0]))
    assert _arrow._group.cache_info().misses == 1


def test_a_shard_that_is_named_twice_is_refused(tmp_path):
    """Each name would be read again: 200,000 names of one shard took ten seconds."""
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "a.arrow"}] * 2}))
    with pytest.raises(InputError, match="name a shard twice"):
        read(tmp_path)
