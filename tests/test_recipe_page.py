"""docs/recipe.md has every setting, as `Recipe` has it."""

import runpy
from pathlib import Path

from plusone.recipe import Recipe

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "recipe_page.py"))


def test_the_page_is_that_of_the_recipe():
    page = TOOL["PAGE"].read_text(encoding="utf-8")
    assert page == TOOL["page"](), "run python tools/recipe_page.py"
    missing = [name for name in Recipe.model_fields if f"| `{name}` |" not in page]
    assert missing == ["format"]
