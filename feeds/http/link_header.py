"""The header `Link` (RFC 8288): addresses by relation."""

from __future__ import annotations

import re
from collections.abc import Sequence

from feeds.formats.entries import link

LONGEST = 8_192
"""Characters of the header that are read."""

_VALUE = re.compile(r"<([^<>]*)>([^<]*)")
_RELATION = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s\",;]+))", re.IGNORECASE)


def links_of(values: Sequence[str], base: str) -> dict[str, str]:
    """Return the absolute address of each relation, the first one if there are several."""
    found: dict[str, str] = {}
    for reference, parameters in _VALUE.findall(", ".join(values)[:LONGEST]):
        named = _RELATION.search(parameters)
        address = link(reference, base)
        if named and address:
            for relation in (named[1] or named[2]).lower().split():
                found.setdefault(relation, address)
    return found
