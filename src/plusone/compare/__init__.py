"""Comparing methods: many trainings, one table."""

from __future__ import annotations
