"""Reports: the results of runs and the papers' analyses, as numbers, figures and one page.

`plusone.report.writing.write_report` makes a page from what `material` collects. Every topic
(`overview`, `ranking_table`, `curves`, `training_labels`, `hidden`, `sweeps`, `loops`, `gradients`,
`k_intervals`, `surfaces`, `classes`, `examples`, `maps`, `settings`) is one file: functions that
return numbers, the figures, and a section of the page. `docs/analyses.md` lists the numbers with
the figures of the papers; matplotlib is imported only to draw. `blocks` are what sections consist
of, `page` turns them into HTML, `style` is that of all figures. `gallery` is a page of its own:
photos with their predicted tags.
"""

__all__ = ["material", "page", "writing"]
