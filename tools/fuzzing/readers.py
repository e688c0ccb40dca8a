"""Every reader of the package, with sound files to damage.

`seeds(folder)` writes sound files and says which of them are damaged, and how; `read(folder)` is
what a command would do with them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data.dataset import Dataset
from plusone.data.features import read_features, write_features
from plusone.data.formats import read, write
from plusone.data.formats.csv_text import read_class_list
from plusone.data.inspect import summarise
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable

from . import mutate
from .mutate import Mutate

Seeds = Mapping[str, Mutate]


@dataclass(frozen=True)
class Reader:
    """One reader.

    Args:
        name: What it reads.
        seeds: Writes sound files; names those to damage, below the folder, with the damage.
        read: Reads them; may raise `InputError` and `RunError` only.
        weight: How many inputs it gets compared with others: less where reading is slow.
    """

    name: str
    seeds: Callable[[Path], Seeds]
    read: Callable[[Path], object]
    weight: float = 1.0


def table(root: Path | None = None) -> LabelTable:
    """Five items, three classes, a truth, all splits."""
    ids = np.array([f"pets/{row}.png" for row in range(5)])
    truth = LabelMatrix.from_lists([[0], [1, 2], [2], [0, 2], [1]], 3, default=-1)
    seen = LabelMatrix.from_lists([[0], [1], [2], [0], [1]], 3, negatives=[[1], [], [], [], []])
    split = np.array(["train", "train", "train", "val", "test"])
    about = {"scheme": "single()", "seed": 1, "digest": seen.digest()}
    return LabelTable(ids, ("cat", "dog", "ü owl"), seen, truth, split, root, about, ("a note",))


def use(data: Dataset) -> None:
    """What every command does with labels: count them, show them, write them."""
    found = summarise(data.table)
    json.dumps(dict(data.table.observation))
    "\n".join((*data.table.classes, *data.table.notes, str(found))).encode("utf-8")
    data.table.labels.dense(np.arange(min(8, len(data.table))))


def read_labels(name: str) -> Callable[[Path], object]:
    """Reads one label file, as `plusone inspect` does."""
    return lambda folder: use(read(folder / name))


def csv_long(folder: Path) -> Seeds:
    """Writes sound files."""
    write(table(), folder / "labels.csv")
    return {"labels.csv": mutate.csv_text}


def csv_sides(folder: Path) -> Seeds:
    """Writes sound files."""
    write(table(), folder / "labels.csv")
    return {
        "labels.csv.classes.txt": mutate.damage,
        "labels.csv.observation.json": mutate.json_text,
    }


def csv_wide(folder: Path) -> Seeds:
    """Writes sound files."""
    plain = table()
    write(Dataset(LabelTable(plain.ids, plain.classes, plain.labels, split=plain.split)),
          folder / "labels.csv", format="csv-wide")  # fmt: skip
    return {"labels.csv": mutate.csv_text}


def npz_own(folder: Path) -> Seeds:
    """Writes sound files."""
    write(Dataset(table(), np.ones((5, 4), dtype=np.float16)), folder / "labels.npz")
    return {"labels.npz": mutate.zipped_arrays}


def npz_arrays(folder: Path) -> Seeds:
    """Writes sound files."""
    x, y = np.ones((5, 4), dtype=np.float32), np.eye(5, 3, dtype=np.int8)
    np.savez(folder / "labels.npz", x=x, y=y, ids=table().ids, split=table().split,
             classes=np.array(["a", "b", "c"]))  # fmt: skip
    np.savez(folder / "parts.npz", xtr=x, ytr=y, xte=x, yte=y, labels=np.array(["a", "b", "c"]))
    return {"labels.npz": mutate.zipped_arrays, "parts.npz": mutate.zipped_arrays}


def read_both_npz(folder: Path) -> None:
    """Reads them as a command does."""
    use(read(folder / "labels.npz"))
    use(read(folder / "parts.npz"))


def features(folder: Path) -> Seeds:
    """Writes sound files."""
    write_features(folder / "a.npz", table().ids, np.ones((5, 4), np.float16), {"backbone": "cnn"})
    np.savez_compressed(folder / "b.npz", x=np.ones((2, 4)), names=np.array(["u", "v"]))
    return {"a.npz": mutate.zipped_arrays, "b.npz": mutate.zipped_arrays}


def parquet(folder: Path) -> Seeds:
    """Writes sound files."""
    write(table(), folder / "labels.parquet")
    return {"labels.parquet": mutate.damage}


def png() -> bytes:
    """A small image."""
    import io

    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.full((3, 4, 3), 90, np.uint8)).save(stream, format="PNG")
    return stream.getvalue()


def tar_shards(folder: Path) -> Seeds:
    """Writes sound files."""
    import io
    import tarfile

    labels = {
        "a.cls": b"cat",
        "b.txt": b"dog\ncat",
        "c.json": b'{"labels": ["dog"], "negatives": ["cat"]}',
    }
    with tarfile.open(folder / "x-000.tar", "w") as archive:
        for name, content in labels.items():
            for member, bytes_ in ((name, content), (f"{name[0]}.png", png())):
                info = tarfile.TarInfo(member)
                info.size = len(bytes_)
                archive.addfile(info, io.BytesIO(bytes_))
    return {"x-000.tar": mutate.damage}


def image_table() -> Any:
    """Three rows with images and numbers of classes, as `datasets` writes them."""
    import pyarrow as pa

    names = {"_type": "ClassLabel", "names": ["cat", "dog"]}
    meta = {"info": {"features": {"image": {"_type": "Image"}, "labels": [names]}}}
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    cells = [{"bytes": png(), "path": f"{row}.png"} for row in range(3)]
    columns = {"image": pa.array(cells, image), "labels": pa.array([[0], [0, 1], []])}
    return pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(meta)})


def arrow_folder(folder: Path) -> Seeds:
    """Writes sound files."""
    import pyarrow as pa

    table = image_table()
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data-0.arrow"}]}')
    with pa.ipc.new_stream(str(folder / "data-0.arrow"), table.schema) as writer:
        writer.write_table(table)
    return {"data-0.arrow": mutate.damage, "state.json": mutate.json_text}


def image_parquet(folder: Path) -> Seeds:
    """Writes sound files."""
    import pyarrow.parquet as pq

    pq.write_table(image_table(), folder / "x.parquet", row_group_size=2)
    return {"x.parquet": mutate.damage}


def read_shards(folder: Path) -> None:
    """Reads labels and images, as `plusone train` does."""
    from plusone.data import _arrow, shards
    from plusone.data.images import fault

    # Files of one name are written faster than their time stamps change.
    for kept in (*vars(shards).values(), *vars(_arrow).values()):
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()
    data = read(folder)
    use(data)
    if data.table.root is not None:
        for row in range(min(8, len(data.table))):
            fault(data.table.path(row))


def coco(folder: Path) -> Seeds:
    """Writes sound files."""
    whole = {
        "images": [{"id": n, "file_name": f"{n}.jpg", "width": 3} for n in range(4)],
        "categories": [{"id": 3, "name": "cat"}, {"id": 7, "name": "dog"}],
        "annotations": [
            {"id": n, "image_id": n % 4, "category_id": (3, 7)[n % 2], "bbox": [0, 0, 1, 1]}
            for n in range(6)
        ],
    }
    text = json.dumps(whole)
    (folder / "instances_train.json").write_text(text)
    (folder / "instances_val.json").write_text(text.replace(".jpg", "v.jpg"))
    return {"instances_train.json": mutate.json_text, "instances_val.json": mutate.json_text}


def voc(folder: Path) -> Seeds:
    """Writes sound files."""
    lists = folder / "VOC2012" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    names = []
    for kind in ("cat", "dog"):
        for split in ("train", "val"):
            name = f"{kind}_{split}.txt"
            (lists / name).write_text(f"{split}_01  1\n{split}_02 -1\n{split}_03  0\n")
            names.append(f"VOC2012/ImageSets/Main/{name}")
    return dict.fromkeys(names, mutate.damage)


def mulan(folder: Path) -> Seeds:
    """Writes sound files."""
    (folder / "m.xml").write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">'
        '\n<label name="amazed"></label><label name="calm"/>\n</labels>\n'
    )
    head = ("@relation 'm: -C 2'\n% a word\n@attribute f1 numeric\n@attribute 'f 2' {a,'b c'}\n"
            "@attribute amazed {0,1}\n@attribute calm {0,1}\n@data\n")  # fmt: skip
    (folder / "m-train.arff").write_text(head + "0.5,a,1,0\n-1e3,'b c',0,1\n")
    (folder / "m-test.arff").write_text(head + "{0 2.5, 2 1}\n{1 'b c',3 1}\n")
    return dict.fromkeys(("m.xml", "m-train.arff", "m-test.arff"), mutate.damage)


def cub(folder: Path) -> Seeds:
    """Writes sound files."""
    home = folder / "CUB_200_2011"
    (home / "attributes").mkdir(parents=True)
    (home / "images.txt").write_text("1 a/1.jpg\n2 a/2.jpg\n3 b/3.jpg\n")
    (home / "train_test_split.txt").write_text("1 1\n2 0\n3 1\n")
    (folder / "attributes.txt").write_text("1 has_bill::curved\n2 has_bill::long\n")
    (home / "attributes" / "image_attribute_labels.txt").write_text(
        "1 1 1 3 27.7\n1 2 0 3 27\n2 1 0 1 1\n2 2 1 1 1\n3 1 1 4 2\n3 2 1 4 2\n"
    )
    names = ("images.txt", "train_test_split.txt", "attributes/image_attribute_labels.txt")
    return dict.fromkeys(("attributes.txt", *(f"CUB_200_2011/{n}" for n in names)), mutate.damage)


def read_cub(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.data.public import cub as module

    use(Dataset(module.read(folder)))


def nuswide(folder: Path) -> Seeds:
    """Writes sound files."""
    names = {"Concepts81.txt": "sky\nsea\n"}
    for part in ("Train", "Test"):
        names[f"{part}Imagelist.txt"] = f"{part}\\1_a.jpg\n{part}\\2_b.jpg\n"
        for concept in ("sky", "sea"):
            names[f"Labels_{concept}_{part}.txt"] = "1\n0\n"
    places = {"Conc": "ConceptsList", "Trai": "ImageList", "Test": "ImageList"}
    found = {}
    for name, text in names.items():
        place = folder / places.get(name[:4], "TrainTestLabels") / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        found[place.relative_to(folder).as_posix()] = mutate.damage
    return found


def read_nuswide(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.data.public import nuswide as module

    use(Dataset(module.read(folder)))


def names_of_files(folder: Path) -> Seeds:
    """The names of folders and files are the input: each line of a list becomes a file."""
    (folder / "names").write_bytes(b"train/cat/1.jpg\ntest/dog/2.png\ntrain/dog/a b.JPG\n")
    return {"names": mutate.damage}


def read_folders(folder: Path) -> None:
    """Reads them as a command does."""
    import shutil

    root = folder / "tree"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for line in (folder / "names").read_bytes().split(b"\n")[:20]:
        parts = [part[:100] for part in line.split(b"/")[:4] if part not in (b"", b".", b"..")]
        if parts and b"\0" not in line:
            place = root / Path(*(part.decode("utf-8", "surrogateescape") for part in parts))
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
    use(read(root))


def class_list(folder: Path) -> Seeds:
    """Writes sound files."""
    (folder / "classes.txt").write_text("cat\ndog\n")
    (folder / "new.csv").write_text("image\na.jpg\nb.jpg\n")
    return {"classes.txt": mutate.damage, "new.csv": mutate.csv_text}


def read_new_items(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.reviewing.opening import read_unlabelled

    read_class_list(folder / "classes.txt")
    use(Dataset(read_unlabelled(folder / "new.csv", folder / "classes.txt")))


def audit(folder: Path) -> Seeds:
    """Writes sound files."""
    (folder / "audit.csv").write_text(
        "image,labels,negatives\npets/0.png,cat,dog\npets/1.png,dog,*\n"
    )
    return {"audit.csv": mutate.csv_text}


def read_audit(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.probabilities.answers import answers_from

    answers_from(read(folder / "audit.csv", labels="seen").table, table())


def images(folder: Path) -> Seeds:
    """Writes sound files."""
    from PIL import Image

    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (7, 9, 3), dtype=np.uint8))
    made = {
        "a.png": picture, "b.jpg": picture, "c.gif": picture.convert("P"), "d.bmp": picture,
        "e.webp": picture, "f.tif": picture, "g.png": picture.convert("P"),
        "h.tiff": picture.convert("CMYK"), "i.png": picture.convert("I;16"),
    }  # fmt: skip
    for name, image in made.items():
        image.save(folder / name)
    return dict.fromkeys(made, mutate.damage)


def read_images(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.data.images import decode
    from plusone.reviewing.pictures import encode, thumbnail

    for path in sorted(folder.glob("*.*")):
        shown = thumbnail(path, 32)
        if shown is not None:
            encode(shown)
    for path in sorted(folder.glob("*.*")):
        decode(path, 8)


def of(name: str, text: Callable[[], str], change: Mutate) -> Callable[[Path], Seeds]:
    """Seeds that are one text file."""

    def seeds(folder: Path) -> Seeds:
        (folder / name).write_text(text())
        return {name: change}

    return seeds


def recipe_text() -> str:
    """A sound file."""
    from plusone.recipe import make_recipe

    stages = [{"inputs": "features", "epochs": 2, "lr": 0.1, "options": {"alpha": 0.3}}]
    given = {"method": "em", "options": {"alpha": 0.2}, "expected_positives": 1.5, "stages": stages}
    return make_recipe(given).to_toml()


def read_recipe_file(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.methods import get_method
    from plusone.prediction.run_folder import read_recipe

    recipe = read_recipe(folder)
    get_method(recipe.method).make_options(recipe.options)
    recipe.to_toml().encode("utf-8")


def bench_text() -> str:
    """A sound file."""
    return (
        'methods = ["an", "em"]\nseeds = [0, 1]\nmodes = ["linear"]\nlr = [1e-3, 1e-4]\n'
        'tune = true\nsearch = "optuna"\ntrials = 3\nworkers = 1\n\n[settings]\nbatch_size = 16\n'
        '\n[[data]]\npath = "digits-features"\nname = "d"\nsettings = { epochs = 2 }\n'
        "\n[method.em]\noptions = { alpha = 0.2 }\n"
    )


def read_bench(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.compare.spec import read_spec

    spec = read_spec(folder / "bench.toml", {}, {"epochs": 3})
    spec.to_toml(folder).encode("utf-8")


ROW = {
    "key": "k", "source": {"data": "d", "features": [], "format": "auto", "labels": "auto"},
    "stacked": 1, "method": "an", "seed": 0, "val_map": 0.5, "test_map": 0.4, "best_epoch": 2,
    "selected_on": "truth", "seconds": 1.0, "data": "d", "lr": 0.001, "options": {},
    "mode": "linear", "k": None, "recipe": {"method": "an", "seed": 0}, "version": "1",
    "epochs": [],
    "observation": {"scheme": "single()", "seed": 1}, "items": {"train": 3, "val": 1, "test": 1},
}  # fmt: skip
EPOCH = {
    "stage": 0, "epoch": 1, "losses": {"loss": 0.5}, "val_map": 0.5, "seconds": 0.1,
    "selected_on": "truth", "best": True, "weights": "raw",
}  # fmt: skip


def run_texts(folder: Path) -> Seeds:
    """The small files that a run, a bench and a loop leave behind."""
    (folder / "metrics.json").write_text(json.dumps(ROW))
    (folder / "records.jsonl").write_text("\n".join(json.dumps(EPOCH) for _ in range(3)) + "\n")
    (folder / "journal.jsonl").write_text("\n".join(json.dumps(ROW) for _ in range(2)) + "\n")
    (folder / "thresholds.json").write_text(
        json.dumps({"from": "truth", "thresholds": {"cat": 0.5, "dog": 0.25}})
    )
    curve = {"from": "seen", "note": "n", "k": 1.5, "knots": [0.5], "slopes": [2.0, 1.0]}
    curve |= {"offsets": {"cat": 0.5, "dog": -1.0}}
    (folder / "calibration.json").write_text(json.dumps(curve))
    (folder / "loop.jsonl").write_text('{"about": 1}\n{"key": "a", "value": {"x": 1}}\n')
    results = {"kind": "bench", "rows": [{"data": "d", "method": "an", "val_map": 0.5}]}
    (folder / "results.json").write_text(json.dumps(results))
    plane = {"kind": "surface", "method": "an", "extent": 1.0, "steps": 2, "seed": 0}
    plane |= {"train_items": 3, "alphas": [0, 1], "betas": [0, 1], "loss": [[1, 2], [3, 4]]}
    (folder / "surface.json").write_text(json.dumps(plane))
    lines = dict.fromkeys(("records.jsonl", "journal.jsonl", "loop.jsonl"), mutate.json_lines)
    names = (
        "metrics.json", "thresholds.json", "calibration.json", "results.json", "surface.json",
    )  # fmt: skip
    return lines | dict.fromkeys(names, mutate.json_text)


def read_run_texts(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.compare.jobs import read_journal
    from plusone.compare.loop import Journal
    from plusone.errors import InputError
    from plusone.prediction.run_folder import read_metrics
    from plusone.probabilities.calibration import read_calibration
    from plusone.probabilities.thresholds import read_thresholds
    from plusone.report.material import read_documents
    from plusone.report.runs import read_epochs
    from plusone.report.surfaces import read_surface

    refused: list[InputError] = []
    for read_one in (
        lambda: list(read_journal(folder / "journal.jsonl")),
        lambda: read_surface(folder),
        lambda: read_metrics(folder),
        lambda: read_epochs(folder),
        lambda: read_thresholds(folder, ("cat", "dog")),
        lambda: read_calibration(folder, ("cat", "dog")),
        lambda: Journal(folder / "loop.jsonl", {"about": 1}),
        lambda: list(read_documents(folder)),
    ):
        try:
            read_one()
        except InputError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def data_set() -> Dataset:
    """Two dozen feature vectors of three classes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 4)).astype(np.float32)
    y = (x[:, :3] > 0).astype(np.int8)
    split = np.repeat(["train", "val", "test"], 8)
    return Dataset.from_arrays(x, y, complete=True, split=split)


def settings() -> dict[str, Any]:
    """Of a short training."""
    return {"method": "em_apl", "epochs": 3, "batch_size": 4, "expected_positives": 1.5}


def run_folder(folder: Path) -> Seeds:
    """Writes sound files."""
    from plusone.inputs.task import make_task
    from plusone.recipe import make_recipe
    from plusone.training.run import train

    recipe = make_recipe(settings())
    train(make_task(data_set(), recipe), recipe, folder)
    return {
        "recipe.toml": mutate.toml_text,
        "data.json": mutate.json_text,
        "observed.npz": mutate.zipped_arrays,
        "model.safetensors": mutate.safetensors,
        "thresholds.json": mutate.json_text,
        "calibration.json": mutate.json_text,
    }


def read_run(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.inputs.loader import ArrayInputs
    from plusone.prediction.load import load_run
    from plusone.probabilities.thresholds import read_thresholds

    predictor = load_run(folder)
    read_thresholds(folder, predictor.classes)
    if not predictor.images and len(predictor.shape) == 1:
        import torch

        predictor.probabilities(ArrayInputs(torch.zeros(2, *predictor.shape)))


def checkpoint_folder(folder: Path) -> Seeds:
    """Writes sound files."""
    from plusone.inputs.task import make_task
    from plusone.prediction import checkpoint
    from plusone.recipe import make_recipe
    from plusone.training.closed_fit import fit_for

    recipe = make_recipe(settings() | {"ema": 0.9})
    training = fit_for(make_task(data_set(), recipe), recipe)
    next(iter(training.epochs()))
    tensors, plain = training.state()
    checkpoint.save(folder / "checkpoint.safetensors", tensors, plain | {"seconds": 1.0})
    (folder / "records.jsonl").write_text(json.dumps(EPOCH) + "\n")
    return {"checkpoint.safetensors": mutate.safetensors, "records.jsonl": mutate.json_lines}


def read_checkpoint(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.inputs.task import make_task
    from plusone.recipe import make_recipe
    from plusone.training.closed_fit import fit_for
    from plusone.training.run import _restore

    recipe = make_recipe(settings() | {"ema": 0.9})
    _restore(fit_for(make_task(data_set(), recipe), recipe), folder)


def weights(folder: Path) -> Seeds:
    """Writes sound files."""
    import torch
    from safetensors.torch import save_file

    net = torch.nn.Linear(3, 2)
    save_file(net.state_dict(), folder / "w.safetensors")
    return {"w.safetensors": mutate.safetensors}


def read_weight_files(folder: Path) -> None:
    """Reads them as a command does."""
    import torch

    from plusone.models.weights import load_weights

    load_weights(torch.nn.Linear(3, 2), folder / "w.safetensors")


def suggestions(folder: Path) -> Seeds:
    """Writes sound files."""
    from plusone.reviewing.store import Answer, Store
    from plusone.suggestions import Suggestions, write_suggestions

    row, label = np.array([0, 1, 3]), np.array([1, 2, 2], dtype=np.int32)
    p = np.array([0.5, 0.25, 1.0], dtype=np.float32)
    plain = table(folder)
    write_suggestions(Suggestions(plain, row, label, p, p, {"method": "gr"}), folder)
    store = Store(folder / "review.sqlite")
    store.append("a" * 16, "b" * 16, [Answer("pets/0.png", "dog", "yes")])
    store.undo("a" * 16, "c" * 16)
    store._open.execute("PRAGMA journal_mode = DELETE")
    store.close()
    return {
        "about.json": mutate.json_text,
        "seen.npz": mutate.zipped_arrays,
        "suggestions.csv": mutate.csv_text,
        "review.sqlite": mutate.damage,
    }


def read_review(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.reviewing import class_counts, reviewed_table
    from plusone.reviewing.opening import open_suggestions

    desk = open_suggestions(folder)
    try:
        desk.next_item("d" * 16, 0, None)
        reviewed_table(desk)
        class_counts(desk)
    finally:
        desk.store.close()
        for name in ("review.sqlite-wal", "review.sqlite-shm", "review.sqlite-journal"):
            (folder / name).unlink(missing_ok=True)


def study(folder: Path) -> Seeds:
    """Writes sound files."""
    import optuna

    from plusone.compare.search import JOURNAL, open_storage

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = optuna.create_study(study_name="s", storage=open_storage(optuna, folder, None))
    trial = made.ask()
    trial.suggest_float("lr", 1e-4, 1e-2, log=True)
    made.tell(trial, 0.5)
    return {JOURNAL: mutate.json_lines}


def read_study(folder: Path) -> None:
    """Reads them as a command does."""
    import optuna

    from plusone.compare.search import open_storage

    open_storage(optuna, folder, None)


def words(folder: Path) -> Seeds:
    """Writes sound files."""
    (folder / "set").write_text("lr=1e-3\noptions.alpha=[0.2, 'x']\nmode=linear\nseed=0x10")
    (folder / "scheme").write_text("biased(weights=[1, 2, 0.5])")
    (folder / "labels.csv").write_text("image,labels\na,x\n")
    return {"set": mutate.damage, "scheme": mutate.damage}


def read_words(folder: Path) -> None:
    """Reads them as a command does."""
    from plusone.data.observation import parse_scheme
    from plusone.recipe import make_recipe, parse_settings

    parse_scheme((folder / "scheme").read_bytes().decode("utf-8", "surrogateescape"))
    given = (folder / "set").read_bytes().decode("utf-8", "surrogateescape").split("\n")
    make_recipe(parse_settings(given))


READERS = (
    Reader("csv, long form", csv_long, read_labels("labels.csv")),
    Reader("csv, wide form", csv_wide, read_labels("labels.csv")),
    Reader("files beside a csv", csv_sides, read_labels("labels.csv")),
    Reader("class list, new items", class_list, read_new_items),
    Reader("audit csv", audit, read_audit),
    Reader("npz, our own", npz_own, read_labels("labels.npz"), 0.7),
    Reader("npz, made elsewhere", npz_arrays, read_both_npz, 0.5),
    Reader("tar files with images", tar_shards, read_shards),
    Reader("arrow files with images", arrow_folder, read_shards),
    Reader("parquet files with images", image_parquet, read_shards),
    Reader("feature files", features, lambda f: read_features([f / "a.npz", f / "b.npz"]), 0.7),
    Reader("parquet", parquet, read_labels("labels.parquet")),
    Reader("COCO json", coco, lambda folder: use(read(folder))),
    Reader("PASCAL VOC lists", voc, lambda folder: use(read(folder))),
    Reader("MULAN xml and arff", mulan, lambda folder: use(read(folder))),
    Reader("CUB lists", cub, read_cub),
    Reader("NUS-WIDE lists", nuswide, read_nuswide),
    Reader("names of folders", names_of_files, read_folders, 0.5),
    Reader("images", images, read_images, 0.3),
    Reader("recipe toml", of("recipe.toml", recipe_text, mutate.toml_text), read_recipe_file),
    Reader("bench toml", of("bench.toml", bench_text, mutate.toml_text), read_bench),
    Reader("settings and schemes", words, read_words),
    Reader("small files of runs", run_texts, read_run_texts, 0.7),
    Reader("run folder", run_folder, read_run, 0.2),
    Reader("checkpoint", checkpoint_folder, read_checkpoint, 0.1),
    Reader("weights files", weights, read_weight_files, 0.3),
    Reader("suggestions and answers", suggestions, read_review, 0.2),
    Reader("study journal", study, read_study, 0.3),
)
