"""State between two polls of a feed: validators, and credentials for its own origin only."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FeedState:
    """State of a feed that a poll needs; `repr` hides the credentials.

    `etag` and `last_modified` hold the bytes of the headers as Latin-1;
    `validated_by` is the address that sent them, `unchanged` the number of answers "not modified"
    since.  `headers`, and user name and password of `url`, belong to the origin of `given_for`,
    else to that of `url`.
    """

    url: str = field(repr=False)
    etag: str | None = None
    last_modified: str | None = None
    validated_by: str = field(default="", repr=False)
    unchanged: int = 0
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    given_for: str = field(default="", repr=False)


def basic(name: str, password: str) -> str:
    """The value of an `Authorization` header with a user name and a password."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode("ascii")
