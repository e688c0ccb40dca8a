"""Damaged input for every reader: `python tools/fuzz.py` runs it."""
