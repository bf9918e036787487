"""The version of the newest automaton in a directory, without reading it.

Planning processes use it; they import nothing of stage 1.
"""

from __future__ import annotations

from pathlib import Path

CURRENT = "current"
"""The file that names the version of the newest automaton."""


def current(directory: Path) -> str | None:
    """Return the version of the newest automaton in a directory, None if there is none yet."""
    try:
        return (directory / CURRENT).read_text("ascii")
    except (FileNotFoundError, NotADirectoryError):
        return None
