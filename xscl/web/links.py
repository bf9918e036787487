"""Checks of link targets and of redirects after forms."""

from __future__ import annotations

from urllib.parse import urlsplit


def link(address: str) -> str | None:
    """Return a URL that is safe as a link target: absolute and HTTP(S); else None.

    A feed's `javascript:` or `data:` URL is never linked.
    """
    text = address.strip()
    if any(character.isspace() or ord(character) < 32 for character in text):
        return None
    try:
        parts = urlsplit(text)
        fine = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return None
    return text if fine else None


def on_site(path: str) -> str:
    """Return a path of this site; "/" for a text that could lead to another one.

    Browsers read a backslash as a slash and drop tabs and line ends, so that `//evil`, `/\\evil`
    and `/<tab>/evil` all name another host.
    """
    plain = path.startswith("/") and not path.startswith("//")
    if not plain or "\\" in path or any(ord(c) < 33 or ord(c) == 127 for c in path):
        return "/"
    return path
