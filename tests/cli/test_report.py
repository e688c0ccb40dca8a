"""report: one HTML file, or a Markdown table."""

from __future__ import annotations

import json
import shutil

import pytest

SMALL = ("-s", 'options={"width": 8, "heads": 2, "feedforward": 16}')


@pytest.fixture
def tables_only(monkeypatch):
    """As without matplotlib, which makes reports quick."""
    monkeypatch.setattr("plusone.report.writing.find_spec", lambda name: None)


@pytest.mark.usefixtures("tables_only")
def test_html_in_the_first_place(cli, run_folder, photo_run, tmp_path):
    place = tmp_path / "runs"
    shutil.copytree(run_folder, place / "a")
    answer = cli("report", place, photo_run)
    assert answer.code == 0, answer.err
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "photos" in answer.out
    assert answer.err.endswith(f"report: {place / 'report.html'}\n")
    page = (place / "report.html").read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert "photos" in page
    again = cli("report", place, "--out", tmp_path / "x.html", "--title", "Mine", "--json")
    assert again.json["report"] == str(tmp_path / "x.html")
    assert len(again.json["runs"]) == 1
    assert "<h1>Mine</h1>" in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_markdown(cli, run_folder, photo_run, tmp_path):
    to = tmp_path / "table.md"
    written = cli("report", run_folder, photo_run, "--out", to, "--json")
    assert len(written.json["runs"]) == 2
    assert written.err == f"2 runs in {to}\n"
    lines = to.read_text().splitlines()
    assert lines[0].startswith("| method | data | seed |")
    assert len(lines) == 4


def test_copies_are_listed_once(cli, run_folder, tmp_path):
    for name in ("a", "b", "figures", ".hidden"):
        shutil.copytree(run_folder, tmp_path / "runs" / name)
    answer = cli("report", tmp_path / "runs", "--out", tmp_path / "t.md", "--json")
    assert len(answer.json["runs"]) == 1


def test_without_a_finished_run(bad, run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "stopped")
    (tmp_path / "stopped" / "metrics.json").unlink()
    assert "holds no finished run" in bad("report", tmp_path).err
    assert "holds no finished run" in bad("report", tmp_path, "--out", tmp_path / "x.md").err
    assert not (tmp_path / "report.html").exists()


def test_places_that_cannot_be_written(bad, run_folder, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a folder, not a file" in bad("report", run_folder, "--out", tmp_path).err
    err = bad("report", run_folder, "-o", tmp_path / "r.html", "--figures", tmp_path / "file").err
    assert "file: is a file, not a folder; choose another --figures" in err


@pytest.mark.slow
def test_figures_and_attention_maps(cli, folder, tmp_path):
    run = tmp_path / "lac"
    trained = cli(
        "train", folder / "photos", "-m", "lac", "-o", run, "--epochs", 1,
        "--backbone", "cnn", "-s", "image_size=32", "-s", "workers=0", "--no-report", *SMALL,
    )  # fmt: skip
    assert trained.code == 0, trained.err
    out, figures = tmp_path / "r.html", tmp_path / "r-figures"
    answer = cli("report", run, "--out", out)
    assert answer.code == 0, answer.err
    page = out.read_text(encoding="utf-8")
    assert 'id="maps"' in page
    assert page.count("data:image/jpeg") >= 4
    assert (figures / "learning-1.png").exists()
    (kept,) = (tmp_path / ".report-cache").iterdir()
    kept.write_text(json.dumps([["data:image/jpeg;base64,AAAA", "from the cache"]]))
    assert cli("report", run, "--out", out).code == 0
    assert "from the cache" in out.read_text(encoding="utf-8")
    kept.write_text("half a")
    assert cli("report", run, "--out", out).code == 0
    assert "from the cache" not in out.read_text(encoding="utf-8")
    shutil.move(folder / "photos", folder / "elsewhere")
    try:
        kept.unlink()
        assert cli("report", run, "--out", out).code == 0
    finally:
        shutil.move(folder / "elsewhere", folder / "photos")
    assert "without maps (the data is not where it was" in out.read_text(encoding="utf-8")
