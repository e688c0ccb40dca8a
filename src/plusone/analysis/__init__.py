"""The papers' analyses, each a function that returns numbers; `plusone.report` draws them."""
