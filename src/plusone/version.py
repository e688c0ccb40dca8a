"""The version of the package, and what to say about files of a later one."""

from plusone.errors import InputError

__version__ = "0.1.0"


def refuse_newer(source: str, form: object, known: int, made_by: object = None) -> None:
    """Refuses a file whose format is later than this version knows.

    Args:
        source: The file, to be named.
        form: The number of its format, if it has one.
        known: The latest number that can be read.
        made_by: The version that wrote it, if that is known.
    """
    if isinstance(form, int) and form > known:
        maker = f"plusone {made_by}" if isinstance(made_by, str) else "a newer plusone"
        raise InputError(
            f"{source}: was made by {maker} (format {form}); this is plusone {__version__}, which "
            f"reads up to format {known}: upgrade it"
        )


def is_newer(version: object) -> bool:
    """Whether a version is later than this one.

    >>> is_newer("99.0"), is_newer("0.0.1"), is_newer("nonsense")
    (True, False, False)
    """
    return isinstance(version, str) and _numbers(version) > _numbers(__version__)


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
