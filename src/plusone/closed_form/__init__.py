"""Closed-form regression: kernel maps, ridge, and predictions of items that were left out."""
