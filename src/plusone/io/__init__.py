"""Files: atomic writes and locks, bounded readers, arrays, JSON lines, content keys; text.

Import from the modules: some of them load numpy, which most commands can start without.
"""

__all__ = ["arrays", "files", "jsonl", "keys", "readers", "text"]
