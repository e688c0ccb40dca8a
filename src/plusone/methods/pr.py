"""PR: the seen positive ranks above every unobserved label.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR, the ranking baseline of
Appendix A.
"""

from __future__ import annotations

from plusone.losses import pairwise_ranking
from plusone.methods._base import MethodInfo, Options, PublishedFigure
from plusone.methods._papers import COLE, COLE_TABLE_A1
from plusone.methods._pointwise import pointwise

INFO = MethodInfo(
    name="pr",
    title="Pairwise ranking",
    build=pointwise(pairwise_ranking),
    options=Options,
    paper=COLE,
    year=2021,
    summary="rank the seen positive above every unobserved label",
    published=(
        PublishedFigure("linear", COLE_TABLE_A1, 84.2, 56.9),
        PublishedFigure("finetune", COLE_TABLE_A1, 81.5, 56.3),
    ),
)
