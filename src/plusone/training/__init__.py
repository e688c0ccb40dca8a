"""Fitting a model: the loop, its step, the fit in closed form, and the files of a run."""
