"""Training, prediction and the files of a run."""
