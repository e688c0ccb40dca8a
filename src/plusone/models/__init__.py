"""Backbones, heads and their combination."""
