"""Multi-label learning from one positive label per item."""

from plusone.version import __version__

__all__ = ["__version__"]
