"""The origin of modules: a check of the packages that xscl composes, and modules to hide.

The packages are in the directory in which xscl is installed.  Their names are common.  A module
`templates.py` in the folder of a script precedes ours on the module search path, and would be
imported in its place (docs/decisions/cli.md).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

COMPOSED = ("cep_core", "feeds", "templates")


class HiddenModules:
    """Import finder that hides modules that libraries load if installed, and only Spark uses.

    With pandas, which pyarrow loads, a command takes 0.3 s and 33 MB more; httpx takes twice as
    long with the other ones.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for a hidden module."""
        if name in ("pandas", "trio", "httpx._main"):
            raise ModuleNotFoundError(f"{name} is not used here", name=name)


def refuse_shadowed() -> None:
    """Raise ImportError if another module shadows a package that is installed beside this one."""
    beside = Path(__file__).resolve().parents[1]
    for name in COMPOSED:
        origin = _origin(name)
        if origin is None or Path(origin).resolve().parent != beside / name:
            raise ImportError(
                f"xscl needs its own package {name!r}, but Python finds"
                f" {origin or 'another module'} under that name: rename that one, or take its"
                " folder off sys.path",
                name=name,
                path=origin,
            )


def _origin(name: str) -> str | None:
    """Return the file from which a module is, or would be, imported."""
    try:
        spec = find_spec(name)
    except ValueError:  # a module that a program has made, which has no specification
        return None
    return spec.origin if spec else None
