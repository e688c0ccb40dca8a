"""The errors that users see, and a collector for the problems of one file."""

from __future__ import annotations

from pathlib import Path

SHOWN_PROBLEMS = 20
SHOWN_CHARACTERS = 400


class InputError(ValueError):
    """Something the user gave is wrong: bad data, bad settings, bad usage (exit code 2)."""


class RunError(RuntimeError):
    """A run that started could not finish (exit code 1)."""


class DivergedError(RunError):
    """Training diverged: a loss or a weight is not finite."""

    def __init__(self, what: str, advice: str = "a smaller lr may help") -> None:
        super().__init__(f"{what}; {advice}")
        self.what = what


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class Problems:
    """Collects everything wrong with one file, so that a user sees all of it at once.

    Args:
        source: The file or folder that is being read; it is named in every sentence.
    """

    def __init__(self, source: Path | str) -> None:
        self.source = str(source)
        self.sentences: list[str] = []
        self.count = 0

    def add(self, what: str, *, row: int | None = None, source: Path | str | None = None) -> None:
        """Records one problem; `row` is the 1-based line in the file, as an editor shows it."""
        self.count += 1
        if len(self.sentences) < SHOWN_PROBLEMS:
            where = str(source) if source is not None else self.source
            what = what if len(what) <= SHOWN_CHARACTERS else f"{what[:SHOWN_CHARACTERS]}..."
            self.sentences.append(f"{where}{f', row {row}' if row is not None else ''}: {what}")

    def __bool__(self) -> bool:
        return self.count > 0

    def report(self) -> str:
        """The first problems, one sentence a line, then how many more there are."""
        more = self.count - len(self.sentences)
        return "\n".join([*self.sentences, *([f"... and {more} more problems."] if more else [])])

    def raise_if_any(self) -> None:
        """Raises one `InputError` that lists the problems, if there are any."""
        if self:
            raise InputError(self.report())
