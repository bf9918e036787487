"""The document: what every source yields and what the engine takes.

A document is a piece of XML with an identity and an event time.  Feed items,
posted documents and files all become documents; nothing after this point
knows where one came from.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """One XML document on one or several streams.

    `id` is unique in an engine (sources prefix theirs); `timestamp` is the
    event time in ticks, microseconds since the epoch (UTC) for everything
    that comes from outside.  `history` marks what a source already held when
    it was first read; `origin` names the source, for people.
    """

    stream: str | tuple[str, ...]
    id: str
    timestamp: int
    xml: bytes
    history: bool = False
    origin: str = ""

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams that this document belongs to, always a tuple."""
        return (self.stream,) if isinstance(self.stream, str) else self.stream
