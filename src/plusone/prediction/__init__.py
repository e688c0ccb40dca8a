"""Using a trained model: loading it, the items to predict, tags, evaluation."""
