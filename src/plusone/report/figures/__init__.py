"""The figures: every function takes numbers and returns a matplotlib `Figure`."""
