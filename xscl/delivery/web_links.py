"""Addresses that are safe as targets of links."""

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
