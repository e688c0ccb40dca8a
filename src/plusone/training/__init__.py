"""Training, prediction and the files of a run."""

from __future__ import annotations
