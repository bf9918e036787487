"""The streams of documents: how late they may be, and which attributes relational queries read.

A stream exists once it is named.  A published one is as late as the latest that it is made of, and
its attributes are those that its query constructs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cep_core import Schema
from xscl.compile import CompiledQuery
from xscl.errors import StreamInUse, XsclError
from xscl.language.normalform import lateness_of
from xscl.language.parser import MAX_LATENESS, parse_window
from xscl.relational import (
    Attributes,
    published_schema,
    schema_as_text,
    schema_from,
    schema_of,
)
from xscl.results import Subscription
from xscl.store import Store
from xscl.subscriptions import Subscriptions


@dataclass(frozen=True, slots=True)
class Declared:
    """What is known of a stream: its lateness in ticks, its attributes if any are."""

    name: str
    lateness: int
    live: bool
    schema: Schema | None


class Streams:
    """What is declared of streams, and what follows for published ones."""

    def __init__(
        self, store: Store, subscriptions: Subscriptions, compiled: Callable[[str], CompiledQuery]
    ) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._compiled = compiled
        self._latenesses: dict[str, int] = {}
        self._declared: dict[str, Schema] = {}
        rows = store.fetch("SELECT name, lateness, attributes FROM state.stream")
        for name, lateness, attributes in rows:
            self._latenesses[name] = lateness
            if attributes is not None:
                self._declared[name] = schema_from(attributes)

    def checked(
        self, name: str, lateness: str | int, live: bool, attributes: Attributes | None
    ) -> Declared:
        """Return what is to be known of a stream.

        Raises StreamInUse if that would change what readers keep.
        """
        ticks = lateness if isinstance(lateness, int) else parse_window(lateness)
        if not 0 <= ticks <= MAX_LATENESS:
            raise XsclError(
                f"the lateness {ticks} is out of range", hint="a duration such as 1 h, or ticks"
            )
        schema = self._declared.get(name) if attributes is None else schema_of(attributes)
        self._refuse_changes(name, ticks, schema)
        return Declared(name, ticks, live, schema)

    def declare(self, one: Declared) -> None:
        """Set what is known of a stream."""
        self._store.fetch(
            "INSERT INTO state.stream VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET lateness = excluded.lateness, live = excluded.live,"
            " attributes = excluded.attributes",
            [one.name, one.lateness, one.live, schema_as_text(one.schema)],
        )
        self._latenesses[one.name] = one.lateness
        if one.schema is not None:
            self._declared[one.name] = one.schema

    def keep_lateness(self, stream: str, lateness: int) -> None:
        """Let a stream that is read stay as late as its readers have been told.

        It may have lost a publisher that was the reason.
        """
        if self._subscriptions.readers(stream) and self.lateness(stream) < lateness:
            self._store.fetch(
                "INSERT INTO state.stream (name, lateness, live) VALUES (?, ?, false)"
                " ON CONFLICT (name) DO UPDATE SET lateness = excluded.lateness",
                [stream, lateness],
            )
            self._latenesses[stream] = lateness

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

    def schema(self, stream: str) -> Schema | None:
        """Return what is known of the attributes of a stream of documents."""
        if stream in self._declared:
            return self._declared[stream]
        for publisher in self._subscriptions.publishers(stream):
            if not publisher.relational:
                return published_schema(self._compiled(publisher.query))
        return None

    def lateness(self, stream: str) -> int:
        """Return a stream's lateness; a published one has the largest of its inputs."""
        inputs = [
            max(map(self.lateness, publisher.reads))
            if publisher.relational
            else lateness_of(self._compiled(publisher.query).normal, self.lateness)
            for publisher in self._subscriptions.publishers(stream)
        ]
        return max([*inputs, self._latenesses.get(stream, 0)])

    def refuse_late(self, publisher: Subscription, before: int) -> None:
        """Raise if a new publisher makes a stream later than its readers have been told."""
        stream = publisher.publish
        if stream is None or not self._subscriptions.readers(stream):
            return
        if self.lateness(stream) > before:
            raise StreamInUse(
                f"publishing {stream!r} from later streams would change what its readers keep",
                hint="subscribe the publisher before its readers",
            )
