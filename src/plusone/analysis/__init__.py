"""The papers' analyses: functions that return numbers, which `plusone.report` draws.

Each module is one analysis; `docs/analyses.md` lists them with the figures of the papers. Only
`gradients` and `surface` import torch.
"""

__all__ = ["counts", "curves", "gradients", "hidden", "recovery", "runs", "surface"]
