"""docs/api.md names what is public, for mkdocstrings to show."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import plusone
from plusone.results import Record

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


def names():
    return re.findall(r"^::: (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_name_exists_and_has_a_text():
    assert len(names()) == len(set(names())) > 40
    for name in names():
        module, _, last = name.rpartition(".")
        value = getattr(import_module(module), last)
        assert inspect.getdoc(value), name


def test_functions_and_classes_of_the_package_are_there():
    values = {name: getattr(plusone, name) for name in plusone.__all__}
    public = {
        f"plusone.{name}"
        for name, value in values.items()
        if inspect.isfunction(value) or (inspect.isclass(value) and not _is_record(value))
    }
    assert len(public) >= 5
    assert public <= set(names())


def _is_record(value):
    """Records and recipes: their fields are described where their files are."""
    return issubclass(value, Record) or value is plusone.Recipe
