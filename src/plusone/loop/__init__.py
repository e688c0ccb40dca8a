"""The loop of training, suggesting and reviewing, with a reviewer played by the truth."""

from plusone.loop.simulate import Loop, simulate

__all__ = ["Loop", "simulate"]
