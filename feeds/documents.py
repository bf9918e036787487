"""The document: what every source yields and what the engine takes.

A document is a piece of XML with an identity and an event time.  Feed items,
posted documents and files all become documents; nothing after this point
knows where one came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, overload


@dataclass(frozen=True, slots=True)
class Document:
    """One XML document on one or several streams.

    `id` is unique on its streams (that of a feed item begins with its feed);
    `timestamp` is the event time in ticks, which are microseconds since the
    epoch (UTC) for all documents from outside.  `history` marks what a source already held when
    it was first read; `origin` names the source, for people.
    """

    stream: str | tuple[str, ...]
    id: str
    timestamp: int
    xml: bytes
    history: bool = False
    origin: str = ""

    def __post_init__(self) -> None:
        for name, value, kind, hint in (
            ("id", self.id, str, "it names the document, as 'orders-17'"),
            ("timestamp", self.timestamp, int, "count microseconds since 1970-01-01 UTC"),
            ("xml", self.xml, bytes, "encode it, such as text.encode()"),
            ("origin", self.origin, str, "it names the source"),
        ):
            if not isinstance(value, kind) or isinstance(value, bool):
                given = type(value).__name__
                raise TypeError(f"{name} of a Document is {kind.__name__}, not {given}: {hint}")
        names = self.stream if isinstance(self.stream, tuple) else (self.stream,)
        if not all(isinstance(one, str) for one in names):
            raise TypeError(
                f"stream of a Document is a name or a tuple of names, not {self.stream!r}"
            )

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams that this document belongs to, always a tuple."""
        return (self.stream,) if isinstance(self.stream, str) else self.stream


@dataclass(frozen=True, slots=True)
class DocumentColumns(Sequence[Document]):
    """Documents as columns; a `Document` is made only when an index is read.

    So thousands are read from a segment of the spool without making one.
    """

    streams: list[tuple[str, ...]]
    ids: list[str]
    timestamps: list[int]
    xml: list[bytes]
    history: list[bool]
    origins: list[str]

    @classmethod
    def of(cls, documents: Iterable[Document]) -> DocumentColumns:
        """Return documents as columns; an argument that is columns is returned itself."""
        if isinstance(documents, DocumentColumns):
            return documents
        rows = [(d.streams, d.id, d.timestamp, d.xml, d.history, d.origin) for d in documents]
        return cls(*map(list, zip(*rows, strict=True))) if rows else cls([], [], [], [], [], [])

    @classmethod
    def united(cls, parts: Sequence[DocumentColumns]) -> DocumentColumns:
        """Return all documents of several batches, one after the other."""
        if len(parts) == 1:
            return parts[0]
        each = (
            [*chain.from_iterable(column)]
            for column in zip(*(part._columns for part in parts), strict=True)
        )
        return cls(*each) if parts else cls.of(())

    def chosen(self, places: Sequence[int]) -> DocumentColumns:
        """Return the documents at `places`, which count from 0, in that order."""
        return DocumentColumns(*([column[at] for at in places] for column in self._columns))

    @property
    def _columns(self) -> tuple[list[Any], ...]:
        return self.streams, self.ids, self.timestamps, self.xml, self.history, self.origins

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> DocumentColumns: ...
    def __getitem__(self, index: int | slice) -> Document | DocumentColumns:
        if isinstance(index, slice):
            return DocumentColumns(*(column[index] for column in self._columns))
        names, *rest = (column[index] for column in self._columns)
        id_, timestamp, xml, history, origin = rest
        stream = names[0] if len(names) == 1 else names
        return Document(stream, id_, timestamp, xml, history, origin)
