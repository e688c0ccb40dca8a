"""Reports: the results of trainings and analyses as one page with tables and figures.

`plusone.report.build.write_report` makes a page. `material` and `documents` collect what there is;
every topic (`summary`, `comparison`, `curves`, `labels`, `hidden`, `sweeps`, `loop`, `gradients`,
`intervals`, `surfaces`, `classes`, `examples`, `maps`, `settings`) is a section and its figures;
`blocks` are what sections consist of, `page` turns them into HTML, `style` and `lines` draw.
`gallery` is a page of its own: photos with their predicted tags.
"""

__all__ = ["build", "documents", "material", "page"]
