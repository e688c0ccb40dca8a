"""Inputs: batches of images and features, where they are, and forward passes over them."""
