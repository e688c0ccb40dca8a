"""The whole report as a file."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from plusone.methods import METHODS
from plusone.report import writing
from plusone.report.material import collect
from plusone.report.writing import default_title, write_report

SECTIONS = ["summary", "results", "examples", "classes", "learning", "recovery", "hidden",
            "missing", "sweeps", "ablations", "intervals", "surfaces", "settings",
            "regimes"]  # fmt: skip
NASTY = "<script>alert(1)</script>'\"&$x_{$ ünï 漢\x07"


class Page(HTMLParser):
    """What a browser would find."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("href", "src", "xlink:href") if name in found]

    def handle_data(self, data):
        self.text += data


@pytest.mark.slow
def test_every_section_is_there_and_complete(bench, tmp_path):
    steps = []
    out = write_report([bench], tmp_path / "r.html", on_progress=lambda *step: steps.append(step))
    page = Page(out)
    assert [name for name in page.ids if name in SECTIONS] == SECTIONS
    assert len(page.ids) == len(set(page.ids))
    inner = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inner) <= set(page.ids)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert page.tags.count("script") == 1
    assert "base-uri 'none'; form-action 'none'" in out.read_text(encoding="utf-8")
    assert steps[0][1:] == (0, len(steps) - 1)
    assert steps[-1] == ("report", len(steps) - 1, len(steps) - 1)
    figures = {path.name for path in (tmp_path / "r-figures").iterdir()}
    drawn = page.tags.count("figure")
    assert len(figures) == 2 * drawn
    assert drawn == len(steps) - 2  # one step is the examples, one the end
    assert {"scores-1.png", "scores-1.svg"} <= figures
    for words in (
        "pets: lasd",
        "pets: 26 % of the training positives are missing, most of ant (44 %)",
        "mAP of em varies by 8.0 points with alpha; it is best at 0.1",
        "On features nothing is augmented.",
        "pets: mean rise of the loss halfway to the border: an 0.32, em 0.095",
    ):
        assert words in page.text


def test_a_report_of_one_run_begins_with_the_result_and_photos(make, tmp_path):
    """As after `plusone train`: what was reached, photos, classes; formulas come last."""
    folder, classes = tmp_path / "moved", ["ant", "bee", "cat", "dog"]
    folder.mkdir()
    description = {
        "data": "pets", "classes": classes, "images": False, "shape": [2], "k": None,
        "source": {"data": "digits-features"}, "observation": {},
    }  # fmt: skip
    levels = dict(zip(classes, (0.25, 0.95, 0.5, 0.5), strict=True))
    scores = {"bee": 0.9, "ant": 0.3, "cat": 0.2}
    example = {"id": "scene-00001", "seen": ["dog"], "truth": None, "scores": scores}
    result = make.result("gr", examples=[example], run="gone", best_epoch=2)
    for name, content in (
        ("data.json", description),
        ("thresholds.json", {"from": "seen", "thresholds": levels}),
        ("metrics.json", result),
    ):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    out = write_report([folder], tmp_path / "r.html")
    page = Page(out)
    shown = [name for name in page.ids if name in SECTIONS]
    assert shown[:4] == ["summary", "results", "examples", "classes"]
    assert shown[-2:] == ["settings", "regimes"]
    words = " ".join(page.text.split())
    assert words.count("65.0 % validation mAP; epoch 2 was kept") > 1  # also above the curves
    chips = re.findall(r'class="chip likely">.*?</span> (\w+)', out.read_text(encoding="utf-8"))
    assert chips[1:] == ["ant"]  # after the legend; bee is below its threshold, cat below its own
    assert "bee 5 95.0 62.0" in re.sub(r"[–\s]+", " ", words)  # seen, threshold, test AP


@pytest.mark.slow
def test_hostile_names_stay_names(make, tmp_path):
    """Of data, classes, items and sweeps, and of methods and options that no table knows."""
    labels = {"classes": [NASTY, "b", "c", "d"], "seen": [5] * 4, "true": [9] * 4}
    example = {"id": NASTY, "seen": [NASTY], "truth": [NASTY, "b"], "scores": {NASTY: 0.9}}
    other = {"data": NASTY, "labels": labels, "examples": [example]}
    results = [make.result(name, seed, **other) for name in ("an", "gr") for seed in (0, 1)]
    results.append(make.result("an", 0, key="x") | {"method": NASTY})
    folder = make.journal(tmp_path / NASTY.replace("/", "_"), results)
    row = {"data": "pets", "method": NASTY, "mode": "linear", "val_map": 0.1, "test_map": 0.2,
           "lr": 1e-3, "options": {NASTY: NASTY}, "seeds": 1, "keys": ["x"]}  # fmt: skip
    make.document(folder, {"kind": "bench", "rows": [row], "title": "t"})
    make.document(folder / "s", make.sweep | {"over": NASTY, "label": NASTY, "title": NASTY})
    out = write_report([folder], tmp_path / "r.html", title=NASTY)
    page = Page(out)
    assert page.tags.count("script") == 1
    assert "<script>alert(1)</script>" in page.text  # as text
    assert "漢" in page.text


def test_without_matplotlib_there_are_tables_and_a_sentence(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    page = Page(write_report([bench], tmp_path / "r.html"))
    assert "matplotlib, the extra plots, was not installed" in page.text
    assert "figure" not in page.tags
    assert page.tags.count("table") >= 4
    assert not (tmp_path / "figures").exists()
    assert set(page.ids) & set(SECTIONS) == {
        "summary", "results", "recovery", "sweeps", "ablations", "examples", "settings"
    }  # fmt: skip


def test_images_that_may_not_be_passed_on_are_left_out(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "find_spec", lambda name: None)  # figures hold no images
    assert "examples" in Page(write_report([bench], tmp_path / "all.html")).ids
    page = Page(write_report([bench], tmp_path / "r.html", images=False))
    assert "examples" not in page.ids
    assert "results" in page.ids
    assert "data:image/jpeg" not in (tmp_path / "r.html").read_text()


def test_a_report_of_one_kind_alone(make, tmp_path):
    make.document(tmp_path, make.intervals)
    page = Page(write_report([tmp_path], tmp_path / "r.html"))
    assert "25 items" not in page.text
    assert "pets: 5 labelled items give k to within 0.5" in page.text
    assert [name for name in page.ids if name in SECTIONS] == ["summary", "intervals"]


def test_the_title_and_the_place_of_figures(make, tmp_path):
    make.journal(tmp_path / "a", [make.result("an"), make.result("gr")])
    assert default_title(collect([tmp_path])) == "2 methods on pets"
    make.document(tmp_path / "k", make.intervals)
    out = tmp_path / "r.html"
    write_report([tmp_path / "k"], out, title="A < B", figures=tmp_path / "elsewhere")
    assert "<title>A &lt; B</title>" in out.read_text(encoding="utf-8")
    assert (tmp_path / "elsewhere" / "k-intervals.png").exists()


def test_a_failed_report_leaves_the_old_one(make, tmp_path, monkeypatch):
    make.document(tmp_path, make.intervals)
    out = write_report([tmp_path], tmp_path / "r.html")
    before = out.read_bytes()

    def fail(*_: object, **__: object) -> str:
        raise RuntimeError("no")

    monkeypatch.setattr(writing, "render", fail)
    with pytest.raises(RuntimeError):
        write_report([tmp_path], out)
    assert out.read_bytes() == before


@pytest.mark.slow
def test_size_of_a_large_bench(make, tmp_path):
    """All methods on a data set stay under 1 MB."""
    classes = [f"class {number}" for number in range(80)]
    labels = {"classes": classes, "seen": [5] * 80, "true": [9] * 80}
    results = [
        make.result(name, seed, labels=labels, test_ap=[0.5] * 80)
        for name in METHODS
        for seed in (0, 1)
    ]  # fmt: skip
    for result in results:
        result["epochs"] = [epoch | {"epoch": n} for n, epoch in enumerate(result["epochs"] * 8, 1)]
    make.journal(tmp_path, results)
    out = write_report([tmp_path], tmp_path / "r.html")
    assert out.stat().st_size < 1_000_000


def test_the_download_holds_the_trainings(make, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    make.journal(tmp_path, [make.result("an", 0), make.result("gr", 0, options={"w": 3.0})])
    text = write_report([tmp_path], tmp_path / "r.html").read_text(encoding="utf-8")
    code = re.search(r"data:text/csv;charset=utf-8;base64,([\w+/=]+)", text)[1]
    lines = base64.b64decode(code).decode().splitlines()
    assert len(lines) == 3
    assert json.dumps({"w": 3.0}).replace('"', '""') in lines[2]


def test_the_download_holds_no_formulas(make, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    make.journal(tmp_path, [make.result("an", 0, data="=1+1")])
    text = write_report([tmp_path], tmp_path / "r.html").read_text(encoding="utf-8")
    code = re.search(r"data:text/csv;charset=utf-8;base64,([\w+/=]+)", text)[1]
    assert base64.b64decode(code).decode().splitlines()[1].startswith("'=1+1,an,linear,0,")
