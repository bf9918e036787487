"""Hashes of the substrings of one length of a text, computed on columns."""

from __future__ import annotations

import numpy as np

from templates.columns.columns import Column

_FACTOR = np.uint32(0x9E3779B1)  # odd, near 2**32 divided by the golden ratio


def gram_hashes(text: str, length: int) -> Column:
    """Return a 32-bit hash of each substring of `length` characters, in their order."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    count = len(points) - length + 1
    if count <= 0:
        return np.empty(0, np.uint32)
    found = points[:count] + np.uint32(1)
    for at in range(1, length):
        found = found * _FACTOR + points[at : at + count]
    found = (found ^ (found >> np.uint32(15))) * _FACTOR
    mixed: Column = found ^ (found >> np.uint32(13))
    return mixed
