"""Compute what the papers analyse beside their tables of figures.

Example: [bold]plusone analyse gradients em gr hill an[/bold]
"""
