"""An ML backend of Label Studio: predictions for its tasks, and training on its annotations."""
