"""Files: atomic writes, readers with stated limits."""
