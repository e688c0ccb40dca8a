"""The documentation site: it builds without a broken link, and asks nobody for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    listed = set(re.findall(r": (\S+\.md)$", nav, re.MULTILINE))
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    notebooks = {f"notebooks/{path.stem}.md" for path in (docs / "notebooks").glob("*.ipynb")}
    assert notebooks
    assert pages - {"README.md"} | notebooks <= listed, "add the page to nav in mkdocs.yml"


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "-f", ROOT / "mkdocs.yml", "-d"]
    done = subprocess.run([*command, tmp_path / "site"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "quickstart.html", "api.html", "evidence/results.html"} <= pages
    for name in ("index.html", "api.html", "commands.html", "notebooks/photos.html"):
        text = (tmp_path / "site" / name).read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="(http[^"]+)"', text)
        assert loaded == []
    api = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    assert 'id="plusone.fit"' in api
    assert 'id="plusone.PlusOneClassifier.predict_proba"' in api
    commands = (tmp_path / "site" / "commands.html").read_text(encoding="utf-8")
    assert "--gallery" in commands
    notebook = (tmp_path / "site" / "notebooks" / "photos.html").read_text(encoding="utf-8")
    assert "400 pictures with one tag each" in notebook  # the output of its first cell
    for picture in re.findall(r'<img alt="Figure \d" src="([^"]+)"', notebook):
        assert (tmp_path / "site" / "notebooks" / picture).stat().st_size > 1000
