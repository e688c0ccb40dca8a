"""Writes the table of docs/evidence/implemented.md: one line for each method.

python tools/implemented.py
"""

from __future__ import annotations

import re
from pathlib import Path

from plusone.compare.results_table import markdown
from plusone.methods import METHODS, MethodInfo

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "implemented.md"
# Pages, the heading after their figures of VOC, and the features of VOC there.
MEASURED = (("reproduced.md", "### ROLE", "ResNet-50"), ("linear.md", "## UC Merced", "lite0"))
COLUMNS = (
    "method",
    "paper",
    "formula tested in",
    "values of the authors' program",
    "published VOC",
    "ours, VOC linear",
)
# Methods whose values and gradients are compared with those that the authors' program gave.
RELEASED = {
    "bce", "bce_ls", "iun", "iu", "pr", "an", "an_ls", "wan", "epr", "em", "gr", "hill", "asl",
    "asl_ps", "role", "em_apl", "ll_r", "ll_ct", "ll_cp", "splc", "lac",
}  # fmt: skip
# Where a formula is tested, if not among the loops of tests/losses/registry.py.
ELSEWHERE = {
    "maxent": "methods/test_maxent.py",
    "sinr": "methods/test_presence_only.py",
    "full_weighted": "methods/test_presence_only.py",
    "nnpu": "methods/test_presence_only.py",
    "vpu": "methods/test_presence_only.py",
    "neighbours": "methods/test_presence_only.py",
    "wan_sampled": "methods/test_sampled.py",
    "l1r": "methods/test_weight_norm.py",
    "l2r": "methods/test_weight_norm.py",
    "epr": "losses/test_special_cases.py",
    "role": "methods/test_role.py",
    "las": "losses/test_correcting.py",
    "lasd": "losses/test_correcting.py",
    "ll_r": "losses/test_correcting.py",
    "ll_ct": "losses/test_correcting.py",
    "ll_cp": "losses/test_correcting.py",
    "splc": "losses/test_correcting.py",
    "class_graph": "methods/test_class_graph.py",
    "em_apl": "losses/test_correcting.py",
    "en": "methods/test_en.py",
    "en_cl": "methods/test_en_consistent.py",
    "en_scl": "methods/test_en_spatial.py",
    "gr_learned": "methods/test_gr_learned.py",
    "lac": "losses/test_contrastive.py",
    "recovery": "methods/test_recovery.py",
    "ridge": "methods/test_recovery.py",
    "crisp": "methods/test_crisp.py",
    "mime": "methods/test_mime.py",
    "smile": "methods/test_smile.py",
    "ignore": "methods/test_ignore.py",
    "vlpl": "methods/test_hints.py",
    "gpr": "methods/test_hints.py",
}
# The formula that a method shares with others, by its name in the tests.
SHARED = {
    "iun": ("observed_bce",),
    "iu": ("observed_bce",),
    "l1r": ("l1",),
    "l2r": ("l2",),
    "epr": ("expected_positive",),
    "las": ("leveraged_asymmetric",),
    "lasd": ("leveraged_asymmetric",),
    "lac": ("label_aware_contrast",),
    "wan_sampled": ("sampled",),
}


def paper(info: MethodInfo) -> str:
    """Authors, venue and year."""
    return info.paper if info.paper.startswith("no paper") else f"{info.paper} {info.year}"


def tested_in(name: str) -> str:
    """The test file of a formula, below tests/."""
    return ELSEWHERE.get(name, "losses/registry.py")


def published(info: MethodInfo) -> str:
    """The first figure of each mode on VOC."""
    modes = {"finetune": "f", "linear": "l"}
    shown = []
    for mode, letter in modes.items():
        figures = [f.voc for f in info.published if f.mode == mode and f.voc is not None]
        shown += [f"{figures[0]:g} ({letter})"] if figures else []
    return ", ".join(shown) or "-"


def ours() -> dict[str, str]:
    """Method -> its first figure of VOC on the measured pages."""
    found: dict[str, str] = {}
    for page, end, features in MEASURED:
        text = (ROOT / "docs" / "evidence" / page).read_text(encoding="utf-8").split(end, 1)[0]
        row = r"^\| \W*(\w+)\W* \| \**([\d.]+(?: ± [\d.]+)?)\** \|"
        for name, value in re.findall(row, text, re.MULTILINE):
            found.setdefault(name, f"{value} ({features})")
    return found


def rows() -> list[list[str]]:
    """A row for each method."""
    measured = ours()
    return [
        [
            f"`{name}`",
            paper(info),
            f"`{tested_in(name)}`",
            "yes" if name in RELEASED else "-",
            published(info),
            measured.get(name, "-"),
        ]
        for name, info in METHODS.items()
    ]


def page() -> str:
    """The whole page: its text, and the table anew."""
    text = PAGE.read_text(encoding="utf-8")
    return text[: text.index(f"| {COLUMNS[0]} |")] + markdown(COLUMNS, rows())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
