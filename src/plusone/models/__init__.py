"""Backbones, heads, and the classifier that combines them."""

__all__ = ["backbones", "classifier", "ema", "fused", "heads", "weights"]
