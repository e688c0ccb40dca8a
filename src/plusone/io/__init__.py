"""Files: atomic writes and locks, bounded readers, arrays, JSON lines, content keys."""
