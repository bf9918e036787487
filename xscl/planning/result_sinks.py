"""Matches that subscriptions publish as documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from cep_core.plan import VALUES, Batch, Members, Operator, Row
from xscl.documents.composite_events import Composite
from xscl.documents.results import Subscription
from xscl.planning.operators.reader import Reader


def composite_in(row: Row) -> Composite:
    """Return the composite that a row carries."""
    return cast(Composite, row[VALUES])


PublishedMatches: TypeAlias = "tuple[Subscription, list[Composite]]"


class PublishQueue:
    """The subscriptions that publish, and their matches; `run` publishes those of a round at once.

    `streams` are those that they publish on, by the keys of the subscriptions.
    """

    depth = 4

    def __init__(self, batch: Batch, publish: Callable[[Sequence[PublishedMatches]], None]) -> None:
        self.streams: dict[str, str] = {}
        self.seconds = 0.0
        self._batch = batch
        self._publish = publish
        self._readers: dict[str, Reader] = {}
        self._reads: dict[str, Sequence[str]] = {}
        self._levels: dict[str, int] = {}
        self._queue: dict[str, PublishedMatches] = {}

    def add(
        self, root: Operator, subscription: Subscription, composite: Callable[[Row], Composite]
    ) -> None:
        """Publish the composites of the rows of an operator if the subscription publishes."""
        key, stream = subscription.key, subscription.publish
        if stream is None:
            return

        def put(row: Row, members: Members) -> None:
            self._queue.setdefault(key, (subscription, []))[1].append(composite(row))
            self._batch.touch(self)

        self.streams[key], self._reads[key] = stream, subscription.reads
        self._levels.clear()
        self._readers[key] = Reader("publish", root, put)

    def remove(self, key: str) -> None:
        """Stop publishing for a subscription, if it publishes."""
        if key in self._readers:
            self._readers.pop(key).close()
            del self.streams[key], self._reads[key]
            self._levels.clear()

    def level(self, stream: str) -> int:
        """Return how many streams are published one from the other, up to this one."""
        if stream not in self._levels:
            makers = [key for key, made in self.streams.items() if made == stream]
            below = (self.level(one) for key in makers for one in self._reads[key])
            self._levels[stream] = 1 + max(below, default=0) if makers else 0
        return self._levels[stream]

    def run(self) -> None:
        """Publish the queued matches."""
        queue, self._queue = self._queue, {}
        self._publish(list(queue.values()))
