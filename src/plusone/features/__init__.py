"""Features and hints: vectors of images from a backbone, scores from zero-shot models."""
