"""Servers on this computer: who may reach them, how they start and stop."""
