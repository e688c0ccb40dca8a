"""Comparing methods: many runs, one table.

`bench` compares methods, `sweep` the values of a setting, `ablate` the parts of a method; `choose`
picks a method by seen labels alone, and `loop` measures what a reviewer's answers are worth.
`reproduce` trains the rows of the papers' tables.
"""
