"""A trained model to pass on: weights, thresholds, a model card, and ONNX."""

from plusone.export.folder import export_run

__all__ = ["export_run"]
