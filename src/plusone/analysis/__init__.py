"""The papers' analyses, each a function that returns numbers; `plusone.report` draws them.

They are imported from the modules here, one per idea (docs/analyses.md lists them). Only
`gradients`, `directions`, `surface` and `run_surface` need torch.
"""
