"""Models in other tools: one file per tool, each imported only by who uses the tool."""
