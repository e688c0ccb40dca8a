"""Methods from outside the package: files that the user names, and installed packages.

A plug-in is written like a file of this package: it ends with `INFO`, a `MethodInfo`, or with
`INFOS`, several of them; a file may have observation schemes too, `SCHEMES`. It is code that runs
with all rights of the user, so only the user names it (`--plugin FILE`, an installed package).
Recipes and run folders, which may come from others, say which plug-in a method belongs to, and
nothing is loaded because of that.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Iterable, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from plusone.data.observation import add_schemes
from plusone.errors import InputError
from plusone.methods._base import MethodInfo

GROUP = "plusone.methods"  # of entry points
FILES = "PLUSONE_PLUGINS"  # environment variable: files for processes that are started from here
NAME = re.compile(r"[a-z][a-z0-9_]*")


class Plugins:
    """The plug-ins of a method table.

    Args:
        table: The methods by name; plug-ins add theirs.
    """

    def __init__(self, table: MutableMapping[str, MethodInfo]) -> None:
        self._table = table
        self._origins: dict[str, str] = {}
        self._loaded: dict[Path, tuple[str, ...]] = {}

    def origin(self, method: str) -> str | None:
        """The plug-in that a method comes from, a file name or a package; None for our own."""
        return self._origins.get(method)

    def load_file(self, path: Path) -> tuple[str, ...]:
        """Adds the methods and observation schemes of a Python file; returns their names.

        The file ends with `INFO`, a `MethodInfo`, or `INFOS`, several of them; or with `SCHEMES`,
        observation schemes by name; or with both. It is run: load only files that you trust.
        Processes that this one starts find the methods too.

        Raises:
            InputError: It cannot be run, has neither, or a name is taken.
        """
        path = path.resolve()
        if path in self._loaded:
            return self._loaded[path]
        if not path.is_file():
            raise InputError(f"{path}: there is no such plug-in; --plugin names a Python file")
        module = self._run(path)
        schemes = getattr(module, "SCHEMES", None)
        names = () if schemes is None else add_schemes(schemes, str(path))
        if schemes is None or hasattr(module, "INFO") or hasattr(module, "INFOS"):
            names += self._add(_infos(module, str(path)), path.name, str(path))
        self._loaded[path] = names
        known = [text for text in os.environ.get(FILES, "").split(os.pathsep) if text]
        if str(path) not in known:
            os.environ[FILES] = os.pathsep.join([*known, str(path)])
        return self._loaded[path]

    def load_installed(self) -> None:
        """Adds the methods of installed packages, and of the files that the environment names.

        A package that cannot be loaded is left out with a warning: other methods need it not.
        """
        for entry in entry_points(group=GROUP):
            name = _package(entry)
            try:
                self._add(_infos(entry.load(), name), name, name)
            except Exception as error:
                warnings.warn(f"the plug-in {name} is left out: {_first(error)}", stacklevel=2)
        for text in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
            self.load_file(Path(text))

    def _run(self, path: Path) -> ModuleType:
        name = "plusone_plugin_" + re.sub(r"\W", "_", path.stem)
        if name in sys.modules:
            raise InputError(f"{path}: a plug-in with this file name is loaded already; rename it")
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise InputError(f"{path}: a plug-in is a Python file (.py)")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise InputError(f"{path}: the plug-in cannot be loaded: {_first(error)}") from error
        return module

    def _add(self, infos: Iterable[MethodInfo], origin: str, source: str) -> tuple[str, ...]:
        names = []
        for info in infos:
            if not NAME.fullmatch(info.name):
                raise InputError(
                    f"{source}: the method name {info.name!r} is not in lower case letters, digits "
                    "and underscores"
                )
            if info.name in self._table:
                owner = self._origins.get(info.name)
                whose = "plusone itself" if owner is None else f"the plug-in {owner}"
                raise InputError(
                    f"{source}: the method {info.name!r} is in {whose} already; choose another name"
                )
            self._table[info.name] = info
            self._origins[info.name] = origin
            names.append(info.name)
        return tuple(names)


def _infos(value: object, source: str) -> tuple[MethodInfo, ...]:
    """The methods of a plug-in: a `MethodInfo`, several, or a module that has them."""
    if isinstance(value, ModuleType):
        value = getattr(value, "INFOS", None) or getattr(value, "INFO", None)
    infos = (value,) if isinstance(value, MethodInfo) else value
    if not isinstance(infos, tuple | list) or not infos:
        raise InputError(
            f"{source}: the plug-in has no INFO, the MethodInfo of a method, and no SCHEMES"
        )
    for info in infos:
        if not isinstance(info, MethodInfo):
            raise InputError(f"{source}: {type(info).__name__} in INFOS is not a MethodInfo")
    return tuple(infos)


def _package(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _first(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
