"""Checks of redirects after forms."""

from __future__ import annotations


def on_site(path: str) -> str:
    """Return a path of this site; "/" for a text that could lead to another one.

    Browsers read a backslash as a slash and drop tabs and line ends, so that `//evil`, `/\\evil`
    and `/<tab>/evil` all name another host.
    """
    plain = path.startswith("/") and not path.startswith("//")
    if not plain or "\\" in path or any(ord(c) < 33 or ord(c) == 127 for c in path):
        return "/"
    return path
