"""Comparing methods: many trainings, one table."""
