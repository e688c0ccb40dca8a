"""docs/api.md is what the docstrings say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_reference_is_up_to_date():
    place = importlib.util.spec_from_file_location("api", ROOT / "tools" / "api_reference.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.reference(), (
        "run: python tools/api_reference.py"
    )


def test_every_public_name_has_a_text():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for part in page.split("\n### ")[1:]:
        title, _, text = part.partition("\n")
        assert len(text.strip().splitlines()) >= 1, title
