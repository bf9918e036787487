"""The streams of documents: their lateness, and the attributes that event queries read.

A stream exists once it is named.  A published stream has the largest lateness of its inputs, and
the attributes that its query constructs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from cep_core import Schema, is_calendar
from xscl.documents.document_validation import check_stream
from xscl.documents.results import Subscription
from xscl.errors import QueryError, StreamInUse, XsclError
from xscl.language.names import EVERYTHING
from xscl.language.parser import MAX_LATENESS, parse_window
from xscl.planning.compile import MOST, CompiledQuery, QueryPlan
from xscl.planning.event_queries import (
    StreamAttributes,
    published_schema,
    schema_as_text,
    schema_from,
    schema_of,
)
from xscl.store.queries.feeds import has_feeds_on
from xscl.store.queries.rows import delete_prefixed, delete_rows, rows_of
from xscl.store.store import Store
from xscl.subscriptions.subscriptions import Subscriptions


@dataclass(frozen=True, slots=True)
class StreamDeclaration:
    """The declaration of a stream: its lateness in ticks, and its attributes (`schema`) or None.

    Documents of a `live` stream arrive as they happen, within its lateness.
    """

    name: str
    lateness: int
    live: bool
    schema: Schema | None


class StreamDefinitions:
    """Stores the declarations of streams, and derives the properties of published streams."""

    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        compiled: Callable[[str], CompiledQuery],
        prepared: Callable[[str], QueryPlan],
    ) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._compiled = compiled
        self._delays = lru_cache(MOST)(lambda query: prepared(query).delays())
        self._declared: dict[str, StreamDeclaration] = {}
        self._changes = 0
        self._live = lru_cache(1)(self._live_at)
        self._table: tuple[tuple[int, ...], pa.Table | None] = ((), None)
        for row in rows_of(store, "stream"):
            text = row.pop("attributes")
            schema = None if text is None else schema_from(text)
            self._declared[row["name"]] = StreamDeclaration(**row, schema=schema)

    def checked(
        self, name: str, lateness: str | int, live: bool, attributes: StreamAttributes | None
    ) -> StreamDeclaration:
        """Return a valid declaration of a stream; `declare` writes it.

        `lateness` is a duration (`"1 h"`) or ticks; without `attributes` those declared before
        stay.  Raises StreamInUse if a property would change on which the state of readers depends,
        XsclError for an invalid argument.
        """
        if not is_calendar(name):
            check_stream(name)
        ticks = lateness if isinstance(lateness, int) else parse_window(lateness)
        if not 0 <= ticks <= MAX_LATENESS:
            raise XsclError(
                f"the lateness {ticks} is out of range", hint="a duration such as 1 h, or ticks"
            )
        schema = self.declared(name) if attributes is None else schema_of(attributes)
        self._refuse_changes(name, ticks, schema)
        return StreamDeclaration(name, ticks, live, schema)

    def declare(self, *declared: StreamDeclaration) -> None:
        """Store declarations; each replaces the earlier one of its stream."""
        rows = [
            {
                "name": one.name,
                "lateness": one.lateness,
                "live": one.live,
                "attributes": schema_as_text(one.schema),
            }
            for one in declared
        ]
        self._store.insert_rows("stream", rows, replace=True)
        self._changes += 1
        self._declared.update((one.name, one) for one in declared)

    def _declaration(self, name: str, *, live: bool) -> StreamDeclaration:
        """Return the declaration of a stream, or one with lateness 0 and no attributes.

        `live` is for the latter only.
        """
        return self._declared.get(name) or StreamDeclaration(name, 0, live, None)

    def raised(
        self, needed: Mapping[str, int], schema: Schema | None
    ) -> tuple[list[StreamDeclaration], list[str]]:
        """Return declarations to write, and the names of the streams that cannot have one.

        A declaration raises the lateness of a stream to what is `needed`, in ticks by stream, and
        makes it live then.  It gives a stream without attributes the `schema`, if that is not None
        and no event query reads the stream.  The other value has the streams whose lateness is too
        small and fixed, as subscriptions read them.
        """
        made, fixed = [], []
        for name, ticks in needed.items():
            is_short, readers = self._own(name) < ticks, list(self._subscriptions.readers(name))
            if is_short and readers:
                fixed.append(name)
                continue
            one = self._declaration(name, live=True)
            is_event = any(self._subscriptions[reader].relational for reader in readers)
            is_bare = schema is not None and one.schema is None and not is_event
            if is_short:
                one = replace(one, lateness=ticks, live=True)
            if is_bare:
                one = replace(one, schema=schema)
            if is_short or is_bare:
                made.append(one)
        return made, fixed

    def keep_lateness(self, stream: str, lateness: int) -> None:
        """Keep the lateness of a stream with readers from falling below `lateness`, in ticks.

        It is called after a publisher of the stream was removed, from which the value may come.
        """
        if self._subscriptions.readers(stream) and self.lateness(stream) < lateness:
            self.declare(replace(self._declaration(stream, live=False), lateness=lateness))

    def has(self, declaration: StreamDeclaration) -> bool:
        """Return True if an equal declaration of its stream is stored."""
        return self._declared.get(declaration.name) == declaration

    def forget(self, streams: Collection[str]) -> list[str]:
        """Delete the declarations of those `streams` that have no readers; return their names."""
        declared = self._declared.keys() & streams
        unread = [name for name in declared if not self._subscriptions.readers(name)]
        delete_rows(self._store, "stream", name=unread)
        for name in unread:
            del self._declared[name]
        self._changes += 1
        return unread

    def erase(self, prefix: str) -> None:
        """Delete the declarations of the streams whose names begin with a prefix."""
        delete_prefixed(self._store, "stream", "name", prefix)
        self._declared = {
            name: one for name, one in self._declared.items() if not name.startswith(prefix)
        }
        self._changes += 1

    def _refuse_changes(self, name: str, ticks: int, schema: Schema | None) -> None:
        readers = self._subscriptions.readers(name)
        if readers and ticks != self.lateness(name):
            raise StreamInUse(
                f"the lateness of {name!r} cannot change while subscriptions read it",
                hint="set it before the first subscription",
            )
        if schema is None or schema == self.schema(name):
            return
        for reader in readers:
            if self._subscriptions[reader].relational:
                raise StreamInUse(
                    f"the attributes of {name!r} cannot change while {reader!r} reads them",
                    hint="set them before the first subscription",
                )

    def known(self) -> set[str]:
        """Return the names of the streams that are declared or published."""
        return {*list(self._declared), *self._subscriptions.published()}

    def is_known(self, stream: str) -> bool:
        """Return True if a stream is declared or published."""
        return stream in self._declared or bool(self._subscriptions.publishers(stream))

    def declared(self, stream: str) -> Schema | None:
        """Return the declared attributes of a stream; None without."""
        found = self._declared.get(stream)
        return None if found is None else found.schema

    def schema(self, stream: str) -> Schema | None:
        """Return the attributes of a stream: declared, or from the query in XSCL that publishes it.

        None if it has neither.
        """
        if (declared := self.declared(stream)) is not None:
            return declared
        for publisher in self._subscriptions.publishers(stream):
            if not publisher.relational:
                with suppress(QueryError):  # raised if this release refuses the query
                    return published_schema(self._compiled(publisher.query))
        return None

    def lateness(self, stream: str) -> int:
        """Return the lateness of a stream in ticks: the declared one, 0 without.

        A published stream has at least that of its inputs, plus the windows of absences in between.
        """
        own = self._own(stream)
        publishers = self._subscriptions.publishers(stream)
        if not publishers:
            return own
        inputs = [
            self.latest(publisher.reads)
            if publisher.relational
            else max(self.lateness(read) + time for read, time in self._delayed(publisher))
            for publisher in publishers
        ]
        return max(own, *inputs)

    def _delayed(self, publisher: Subscription) -> tuple[tuple[str, int], ...]:
        """Return (stream, delay) for each input of a publisher.

        The delay is the sum of the windows of absences above it, in ticks; 0 if this release
        refuses the query.
        """
        try:
            return self._delays(publisher.query)
        except QueryError:
            return tuple((stream, 0) for stream in publisher.reads)

    def _own(self, stream: str) -> int:
        """Return the declared lateness of a stream in ticks, 0 without."""
        return self._declared[stream].lateness if stream in self._declared else 0

    def latest(self, streams: Iterable[str]) -> int:
        """Return the largest lateness of some streams, in ticks."""
        return max(map(self.lateness, streams))

    def is_live(self, stream: str) -> bool:
        """Return True if a stream is declared as live; a published one is live if all inputs are.

        A calendar counts as live: its instants occur whether documents arrive or not.
        """
        if is_calendar(stream):
            return True
        publishers = self._subscriptions.publishers(stream)
        if not publishers:
            return stream in self._declared and self._declared[stream].live
        return all(self.is_live(read) for publisher in publishers for read in publisher.reads)

    def not_live(self, streams: Iterable[str]) -> list[str]:
        """Return those of some streams that are not live.

        A published stream is replaced by its inputs, as far as these are not live.
        The stream of all items is left out: it becomes live before a subscription reads it.
        """
        found: dict[str, None] = {}
        for stream in streams:
            publishers = self._subscriptions.publishers(stream)
            if publishers:
                found |= dict.fromkeys(
                    self.not_live(r for publisher in publishers for r in publisher.reads)
                )
            elif stream != EVERYTHING and not self.is_live(stream):
                found[stream] = None
        return list(found)

    @property
    def state(self) -> tuple[int, ...]:
        """A value that is another one after each declaration, registration, edit and removal."""
        return self._changes, *self._subscriptions.state

    def live_readers(self) -> Sequence[Subscription]:
        """Return the subscriptions with operators over time all of whose streams are live.

        It is the same object until streams or subscriptions change.
        """
        return self._live(self.state)

    def _live_at(self, state: tuple[int, ...]) -> Sequence[Subscription]:
        ordered = [one for one in self._subscriptions if one.ordered or one.relational]
        reads = {one.reads for one in ordered}
        live = {streams for streams in reads if all(map(self.is_live, streams))}
        return [one for one in ordered if one.reads in live]

    @property
    def cached_table(self) -> pa.Table | None:
        """The answer of the last `table`, None if streams or subscriptions have changed since."""
        state, table = self._table
        return table if state == self.state else None

    def table(self) -> pa.Table:
        """Return a table of the streams that are declared, read or published, sorted by name.

        The columns are stream, lateness (in ticks) and live.
        """
        if (known := self.cached_table) is not None:
            return known
        state = self.state
        names = sorted({*self.known(), *self._subscriptions.streams()})
        columns = {
            "stream": pa.array(names, pa.string()),
            "lateness": pa.array(map(self.lateness, names), pa.int64()),
            "live": pa.array(map(self.is_live, names), pa.bool_()),
        }
        made = pa.table(columns)
        self._table = state, made
        return made

    def refuse_publisher(self, name: str, stream: str | None) -> None:
        """Raise StreamInUse if feeds have their items on a stream that a query would publish.

        `name` is that of the query, `stream` may be None.
        """
        if stream is not None and (stream == EVERYTHING or has_feeds_on(self._store, stream)):
            raise StreamInUse(
                f"{name!r} would publish the stream {stream!r}, which has the items of feeds",
                hint="publish under another name",
            )

    def refuse_later(self, stream: str | None, lateness: int) -> None:
        """Raise StreamInUse if a publisher of `stream` would raise its lateness above the present.

        `lateness`, in ticks, is that of the publisher.  A stream without readers is not refused.
        """
        if stream is None or not self._subscriptions.readers(stream):
            return
        if lateness > self.lateness(stream):
            raise StreamInUse(
                f"publishing {stream!r} from later streams would change what its readers keep",
                hint="subscribe the publisher before its readers",
            )
