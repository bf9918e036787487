"""Name resolution: stream names in a user's query are rewritten to the engine's names.

A name refers to the user's own stream if there is one, else to the public stream.  For an own
stream the owner prefix is inserted into the text and nothing else changes.  Positions in errors of
the engine can therefore be mapped back to the text that the user wrote.

Parsing a query takes a millisecond.  Texts of the operator, who imports a hundred thousand, stay as
they are and are parsed by the engine alone.  Users have at most some thousand each; their names are
cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, assert_never

from xscl.engine.facade import Engine
from xscl.errors import QueryError
from xscl.inspection.vocabulary import CachedReading, reused
from xscl.language.constants import TextShape, split
from xscl.language.grammar import admit
from xscl.language.names import EVERYTHING
from xscl.language.parser import parse, refuse_bare_windows
from xscl.language.syntax import Block, Fold, Join, Next, Query, StreamExpression
from xscl.service.accounts import Account, Accounts
from xscl.service.names import MINE, refuse_reserved

SUSPECT = re.compile(rf"(?<![\w.-]){MINE.pattern}")
"""A name in a query that may have an owner prefix."""
REMEMBERED = 2_000
"""Maximum number of users' texts whose stream names are cached: twice the texts of a page."""


class StreamReference(NamedTuple):
    """A stream name in a text: its offsets, and whether the query publishes to it."""

    start: int
    end: int
    published: bool


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A query with the engine's names (`text`) and as the user has `written` it.

    `prefix` was inserted before the offsets `insertions` of the written text.  `publishes` is the
    user's name of the stream to which the query publishes.
    """

    text: str
    written: str
    prefix: str = ""
    insertions: tuple[int, ...] = ()
    publishes: str | None = None

    @contextmanager
    def as_written(self) -> Iterator[None]:
        """Change query errors of the block: their positions become those in the written text."""
        try:
            yield
        except QueryError as error:
            if error.source != self.text or not self.insertions:
                raise
            lines = self.text.split("\n")
            before = sum(len(line) + 1 for line in lines[: error.line - 1])
            offset = self._back(before + error.column - 1)
            at = QueryError.at(offset, error.message, self.written)
            raise type(error)(
                error.message, self.written, at.line, at.column, error.hint
            ) from error

    def _back(self, offset: int) -> int:
        """Return the offset in the written text of an offset in the engine's text."""
        passed = 0
        for place in self.insertions:
            if place + passed >= offset:
                break
            passed += len(self.prefix)
        return max(0, offset - passed)


class Resolver:
    """Resolves stream names; `is_public` returns True for the name of a public stream."""

    def __init__(self, accounts: Accounts, is_public: Callable[[str], bool]) -> None:
        self._accounts = accounts
        self._is_public = is_public

    def resolve(self, account: Account, text: str) -> ResolvedQuery:
        """Resolve the names in a user's query; raises QueryError, ReservedName."""
        admit(text)
        if account.is_operator and SUSPECT.search(text) is None:
            refuse_bare_windows(text)
            return ResolvedQuery(text, text)
        own, publishes = [], None
        for place in _places(text):
            name = text[place.start : place.end]
            refuse_reserved(name)
            if place.published:
                publishes = name
            if not account.is_operator and self._is_own(account, name, place, text):
                own.append(place.start)
        prefix = "" if account.is_operator else account.qualify("")
        insertions = tuple(sorted(own))
        return ResolvedQuery(_with(text, prefix, insertions), text, prefix, insertions, publishes)

    def written(self, account: Account, text: str) -> str:
        """Return the text of an engine query without this user's prefix before stream names."""
        if account.is_operator:
            return text
        prefix = account.qualify("")
        pieces, last = [], 0
        for place in sorted(_places(text)):
            if text.startswith(prefix, place.start):
                pieces.append(text[last : place.start])
                last = place.start + len(prefix)
        return "".join([*pieces, text[last:]])

    def stream(self, account: Account, name: str) -> str | None:
        """Return the engine's name of the user's own or public stream of a name; None without."""
        refuse_reserved(name)
        if not account.is_operator and self._accounts.has_stream(account, name):
            return account.qualify(name)
        return name if self._is_public(name) else None

    def _is_own(self, account: Account, name: str, place: StreamReference, text: str) -> bool:
        if place.published:
            if name == EVERYTHING:
                raise QueryError.at(
                    place.start,
                    f"the stream {name!r} is that of all items of feeds",
                    text,
                    "publish under another name",
                )
            return True
        if self._accounts.has_stream(account, name):
            return True
        if not self._is_public(name):
            raise QueryError.at(
                place.start,
                f"there is no stream {name!r}",
                text,
                f"'PUT /v1/streams/{name}' makes one of your own; 'GET /v1/streams' lists those"
                " that there are",
            )
        return False


@lru_cache(REMEMBERED)
def _places(text: str) -> tuple[StreamReference, ...]:
    """Locate the stream names in a query; raises QueryError, also for windows without a unit."""
    refuse_bare_windows(text)
    return tuple(_named(parse(text), text))


def _named(expression: StreamExpression, text: str) -> Iterator[StreamReference]:
    match expression:
        case Block() if expression.is_calendar:
            return  # a calendar reads no stream
        case Block(stream, _, span):
            assert text[span.start : span.end] == stream
            yield StreamReference(span.start, span.end, False)
        case Query(inner, publish=publish, span=span):
            yield from _named(inner, text)
            if publish is not None:
                start = span.end - len(publish)
                assert text[start : span.end] == publish
                yield StreamReference(start, span.end, True)
        case Join() | Next() | Fold():
            yield from _named(expression.left, text)
            yield from _named(expression.right, text)
        case _:
            assert_never(expression)


def _with(text: str, prefix: str, offsets: Sequence[int]) -> str:
    parts, last = [], 0
    for offset in offsets:
        parts += [text[last:offset], prefix]
        last = offset
    return "".join([*parts, text[last:]])


WARNING = "warning: "
"""The prefix of the lines of an explanation that are warnings."""


class RegistrationWarnings:
    """The warnings of queries, cached by user and shape of the text until a document arrives.

    The warnings are the names that were never seen, and those of the query's explanation.
    """

    def __init__(self, engine: Engine, resolver: Resolver) -> None:
        self._engine = engine
        self._resolver = resolver
        self._shapes: dict[tuple[int, TextShape], CachedReading[list[str]]] = {}

    def of(self, account: Account, query: str) -> list[str]:
        """Return the warnings of a user's query in XSCL; raises QueryError."""
        cut = split(query)
        if cut is None:
            return self._found(account, query)
        key = account.number, cut[0]
        return reused(self._shapes, key, self._arrived, lambda: self._found(account, query))

    @property
    def _arrived(self) -> int:
        return self._engine.state.documents.next

    def _found(self, account: Account, query: str) -> list[str]:
        queries = self._engine.queries
        seen = queries.unseen_names(query, account.visible)
        names = [one for one in seen if one.kind != "comparison"]
        unknown = [f"the stream {name.name!r} yet" for name in names if name.kind == "stream"]
        resolved = self._resolver.resolve(account, query).text
        explained = account.shown(queries.explain(resolved, seen=lambda _: False)).splitlines()
        warnings = [line.removeprefix(WARNING) for line in explained if line.startswith(WARNING)]
        return [
            *(f"{name.message}: {name.hint}" if name.hint else name.message for name in names),
            *(line for line in warnings if not line.endswith(tuple(unknown))),
        ]
