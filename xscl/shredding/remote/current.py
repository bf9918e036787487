"""Which automaton in a directory of artefacts is the newest: what can be asked without any of them.

Processes that plan for others ask it; they do without all that stage 1 needs.
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
