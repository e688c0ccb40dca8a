"""Names that columns have in data from elsewhere, in lower case: ids, labels, and the rest.

All readers use them, so that a column that is an id or a label for one is no feature for another.
Where several are present, the first of a list is taken.
"""

from __future__ import annotations

ID_COLUMNS = ("image", "id", "item", "file", "filename", "path", "image_id", "file_name")
ID_ARRAYS = ("ids", "names", "image_ids")  # in npz files
LABEL_COLUMNS = ("labels", "label", "tags", "classes", "class", "categories", "category", "cls")
OTHER_COLUMNS = ("negatives", "truth", "split", "group")  # of the long form
