"""A trained model as a small web service."""
