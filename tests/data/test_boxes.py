"""Annotators who look at objects: boxes of COCO and VOC, and what is picked by them."""

import json

import numpy as np
import pytest

from plusone.data.boxes import read_boxes
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import describe_scheme, observe, observe_table, parse_scheme
from plusone.data.table import LabelTable
from plusone.errors import InputError

N = 3000
CLASSES = ("ant", "bee", "cat")
# Left, top, width, height in an image of 100 x 60: ant has two, 30 % of the area in all.
OBJECTS = [("ant", (0, 0, 20, 30)), ("ant", (10, 0, 40, 30)), ("bee", (70, 15, 20, 30))]


@pytest.fixture
def table():
    """Images with an ant and a bee, and a cat that has no box; the last one has no boxes at all."""
    truth = np.ones((N, 3), dtype=np.int8)
    ids = [f"train2014/image_{number}.jpg" for number in range(N)]
    return LabelTable.complete(ids, CLASSES, LabelMatrix.from_dense(truth, default=-1))


@pytest.fixture
def coco(tmp_path):
    content = {
        "categories": [{"id": 7, "name": "ant"}, {"id": 9, "name": "bee"}, {"id": 1, "name": "x"}],
        "images": [
            {"id": n, "file_name": f"image_{n}.jpg", "width": 100, "height": 60}
            for n in range(N - 1)
        ],
        "annotations": [
            {"image_id": n, "category_id": {"ant": 7, "bee": 9}[name], "bbox": box}
            for n in range(N - 1)
            for name, box in OBJECTS
        ],
    }
    (tmp_path / "instances_train2014.json").write_text(json.dumps(content))
    return tmp_path / "instances_train2014.json"


def voc(folder, count=2):
    folder.mkdir()
    for n in range(count):
        objects = "".join(
            f"<object><name>{name}</name><bndbox><xmin>{x}</xmin><ymin>{y}</ymin>"
            f"<xmax>{x + w}</xmax><ymax>{y + h}</ymax></bndbox>"
            "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part></object>"
            for name, (x, y, w, h) in OBJECTS
        )
        (folder / f"image_{n}.xml").write_text(
            f"<annotation><size><width>100</width><height>60</height></size>{objects}</annotation>"
        )
    return folder


def test_areas_and_distances_of_both_kinds_of_files(table, coco, tmp_path):
    half = np.hypot(100, 60) / 2
    nearest = np.hypot(30 - 50, 15 - 30) / half  # the centre of the second ant
    (tmp_path / "VOC2012").mkdir()
    annotations = voc(tmp_path / "VOC2012" / "Annotations")
    for source in (coco, coco.parent, annotations, annotations.parent):
        boxes = read_boxes(source, table)
        assert boxes.area[1].tolist() == pytest.approx([0.1 + 0.2, 0.1, 0.0])
        assert boxes.distance[1, :2].tolist() == pytest.approx([nearest, 30 / half])
        assert np.isinf(boxes.distance[1, 2])
        assert not boxes.area[N - 1].any()


def test_labels_are_picked_by_size_by_location_or_the_largest(table, coco):
    def share(scheme):
        seen = observe_table(table, f"{scheme}('{coco}')", 3)
        assert seen.observation["scheme"] == f"{scheme}(boxes='{coco}')"
        assert (seen.labels.per_item(1) == 1).all()  # also the item without boxes
        assert seen.observation["without_boxes"] == 1
        assert seen.observation["first_without"] == table.ids[-1]
        return seen.labels.per_class(1) / N

    near, far = 1 / np.hypot(20, 15), 1 / 30
    assert share("size")[:2] == pytest.approx([0.75, 0.25], abs=0.03)
    assert share("location")[:2] == pytest.approx(
        [near / (near + far), far / (near + far)], abs=0.03
    )
    assert share("dominant")[0] >= (N - 1) / N
    assert share("size")[2] <= 1 / N  # a cat has no box


def test_items_with_boxes_or_a_single_positive_are_not_counted_as_without(table, coco):
    truth = np.ones((N, 3), dtype=np.int8)
    truth[-1] = (0, 1, 0)  # nothing to pick from
    other = LabelTable.complete(table.ids, CLASSES, LabelMatrix.from_dense(truth, default=-1))
    assert "without_boxes" not in observe_table(other, f"size('{coco}')").observation


def test_a_box_of_a_class_that_the_truth_denies_is_not_picked(table, coco):
    truth = np.ones((N, 3), dtype=np.int8)
    truth[:, 0] = 0
    denied = LabelTable.complete(table.ids, CLASSES, LabelMatrix.from_dense(truth, default=-1))
    seen = observe_table(denied, f"dominant('{coco}')").labels.per_class(1)
    assert seen[0] == 0
    assert seen[1] >= N - 1


def test_frequent_and_named_classes(tmp_path):
    rng = np.random.default_rng(0)
    truth = (rng.random((8000, 3)) < (0.8, 0.4, 0.2)).astype(np.int8)
    both = truth[:, :2].all(axis=1) & (truth[:, 2] == 0)
    for power, odds in ((0.0, 1.0), (1.0, 2.0), (-1.0, 0.5)):
        seen = observe(truth, f"frequent({power})", 1)[both]
        assert seen[:, 0].sum() / seen[:, 1].sum() == pytest.approx(odds, rel=0.15)
    (tmp_path / "w.csv").write_text("class,weight\ncat,1\nant,3\nbee,1\n")
    ids = [str(number) for number in range(8000)]
    table = LabelTable.complete(ids, CLASSES, LabelMatrix.from_dense(truth, default=-1))
    seen = observe_table(table, f"named('{tmp_path / 'w.csv'}')", 1).labels.dense()[both]
    assert (seen[:, 0] == 1).sum() / (seen[:, 1] == 1).sum() == pytest.approx(3, rel=0.15)
    assert parse_scheme(describe_scheme(parse_scheme("frequent(-0.5)"))).power == -0.5


def corners(left, right):
    """An annotation of VOC with one box."""
    box = f"<xmin>{left}</xmin><ymin>0</ymin><xmax>{right}</xmax><ymax>9</ymax>"
    return f"<a><object><name>ant</name><bndbox>{box}</bndbox></object></a>"


def annotated(box):
    """A COCO instances file with one box."""
    return json.dumps(
        {
            "categories": [{"id": 7, "name": "ant"}],
            "images": [],
            "annotations": [{"image_id": 4, "category_id": 7, "bbox": box}],
        }
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{}", "is not a COCO instances file with boxes (has no 'categories')"),
        ("a.json", "[", "is not a COCO instances file with boxes"),
        ("a.xml", "<annotation></annotation>", "is not an annotation of VOC (has no 'size/width'"),
        ("a.xml", "<annotation><size><width>0</width></size></annotation>", "a side of 0"),
        ("a.xml", "<a><object><name>ant</name></object></a>", "the object 'ant' has no box of"),
        ("a.xml", "<a><object></object></a>", "a.xml: an object has no name"),
        ("a.xml", corners("9", "1"), "a.xml: the box of 'ant' ends before it begins"),
        ("a.xml", corners("1", "nan"), "a.xml: the box of 'ant' is not finite"),
        ("a.json", annotated(None), "a.json, image_id 4: the object 'ant' has no box of four"),
        ("a.json", annotated([1, 2, 3]), "a.json, image_id 4: the object 'ant' has no box of four"),
        ("a.json", annotated([1, 2, -3, 4]), "image_id 4: the box of 'ant' ends before it begins"),
        ("a.xml", "<!DOCTYPE x []><x/>", "has a document type or entities in it"),
        ("other.xml", "<a><size><width>9</width><height>9</height></size></a>", "no item of the"),
    ],
)
def test_malformed_boxes_are_rejected(table, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        observe_table(table, f"size('{tmp_path / name}')")
    assert message in str(error.value)


def test_other_mistakes_are_named(table, tmp_path):
    for scheme, message in (
        ("size('nowhere')", "nowhere: has no boxes; name a COCO instances JSON"),
        ("named('nowhere.csv')", "nowhere.csv: is not readable"),
        (f"named('{tmp_path / 'a.csv'}')", "row 1: needs the columns class,weight"),
        (f"named('{tmp_path / 'b.csv'}')", "row 2: ['ant', 'x'] is not a class and a number"),
        (f"named('{tmp_path / 'c.csv'}')", "has no weight for the class 'bee'"),
    ):
        (tmp_path / "a.csv").write_text("name,weight\n")
        (tmp_path / "b.csv").write_text("class,weight\nant,x\n")
        (tmp_path / "c.csv").write_text("class,weight\nant,1\n")
        with pytest.raises(InputError) as error:
            observe_table(table, scheme)
        assert message in str(error.value)
    with pytest.raises(InputError, match="need a table with the names of its items"):
        observe(np.ones((2, 2)), "size('boxes.json')")
