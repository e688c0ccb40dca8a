"""The version of the package, and a check for files of newer versions."""

from plusone.errors import InputError

__version__ = "0.2.0"


def refuse_newer(source: str, form: object, known: int, made_by: object = None) -> None:
    """Refuses a file with a newer format than this version can read.

    Args:
        source: The file, for the message.
        form: Its format number, if it has one.
        known: The newest format number that can be read.
        made_by: The version that wrote it, if known.
    """
    if isinstance(form, int) and form > known:
        maker = f"plusone {made_by}" if isinstance(made_by, str) else "a newer plusone"
        raise InputError(
            f"{source}: was made by {maker} (format {form}); this is plusone {__version__}, which "
            f"reads up to format {known}: upgrade it"
        )


def is_newer(version: object) -> bool:
    """Whether a version is newer than this one.

    >>> is_newer("99.0"), is_newer("0.0.1"), is_newer("nonsense")
    (True, False, False)
    """
    return isinstance(version, str) and _numbers(version) > _numbers(__version__)


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
