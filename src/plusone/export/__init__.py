"""Exporting a trained model: weights, thresholds, a model card, and ONNX."""

from plusone.export.publish import Exported, export_run

__all__ = ["Exported", "export_run"]
