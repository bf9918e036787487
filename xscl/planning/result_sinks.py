"""Sinks of the plan: results of subscriptions, and documents that subscriptions publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from cep_core.plan import VALUES, Batch, Members, Operator, Port, Row
from xscl.documents.composite_events import Composite
from xscl.documents.results import Subscription


def composite_in(row: Row) -> Composite:
    """Return the composite that a row carries."""
    return cast(Composite, row[VALUES])


class ResultSink:
    """Appends the rows of one stream of composites to the results, for all its subscribers."""

    label = "results"

    def __init__(self, root: Operator, qid: int, results: list[tuple[int, Composite]]) -> None:
        self._root = root
        self._qid = qid
        self._results = results
        self._port = Port(self, self.receive)
        root.channel.connect(self._port, root.slot)

    def receive(self, row: Row, members: Members) -> None:
        """Append a row to the results."""
        self._results.append((self._qid, composite_in(row)))

    def close(self) -> None:
        """Disconnect from the channel."""
        self._root.channel.disconnect(self._port, self._root.slot)


Published: TypeAlias = "tuple[Subscription, list[Composite]]"


class PublishQueue:
    """Matches to publish as documents; `run` publishes those of a round at once."""

    depth = 4

    def __init__(self, batch: Batch, publish: Callable[[Sequence[Published]], None]) -> None:
        self._batch = batch
        self._publish = publish
        self._queue: dict[str, Published] = {}

    def put(self, subscription: Subscription, composite: Composite) -> None:
        """Add a match of a subscription, and schedule `run` in this batch."""
        self._queue.setdefault(subscription.name, (subscription, []))[1].append(composite)
        self._batch.touch(self)

    def run(self) -> None:
        """Publish the queued matches."""
        queue, self._queue = self._queue, {}
        self._publish(list(queue.values()))


class PublishSink:
    """Puts the rows of one stream into the queue, for a subscription that publishes them."""

    label = "publish"

    def __init__(
        self,
        root: Operator,
        subscription: Subscription,
        queue: PublishQueue,
        composite: Callable[[Row], Composite],
    ) -> None:
        self._root = root
        self._subscription = subscription
        self._queue = queue
        self._composite = composite
        self._port = Port(self, self.receive)
        root.channel.connect(self._port, root.slot)

    def receive(self, row: Row, members: Members) -> None:
        """Put the composite of a row into the queue."""
        self._queue.put(self._subscription, self._composite(row))

    def close(self) -> None:
        """Disconnect from the channel."""
        self._root.channel.disconnect(self._port, self._root.slot)


class PublishSinks:
    """The sinks of all subscriptions that publish, by name."""

    def __init__(self, queue: PublishQueue) -> None:
        self._queue = queue
        self.by_name: dict[str, tuple[PublishSink, str]] = {}

    @property
    def streams(self) -> set[str]:
        """The streams that matches are published on."""
        return {stream for _, stream in self.by_name.values()}

    def add(
        self, root: Operator, subscription: Subscription, composite: Callable[[Row], Composite]
    ) -> None:
        """Publish the rows of an operator if the subscription publishes."""
        if subscription.publish is not None:
            sink = PublishSink(root, subscription, self._queue, composite)
            self.by_name[subscription.name] = sink, subscription.publish

    def remove(self, name: str) -> None:
        """Close the sink of a subscription, if it has one."""
        if name in self.by_name:
            self.by_name.pop(name)[0].close()
