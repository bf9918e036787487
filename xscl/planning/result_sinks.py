"""Where rows leave the plan: as results of subscriptions, and as published documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from cep_core.plan import VALUES, Batch, Members, Operator, Port, Row
from xscl.documents.composite_events import Composite
from xscl.documents.results import Subscription


def composite_in(row: Row) -> Composite:
    """Return the composite that a row carries."""
    return cast(Composite, row[VALUES])


class Outlet:
    """Takes the rows of one stream of composites as results, for all who subscribe to it."""

    label = "results"

    def __init__(self, root: Operator, number: int, found: list[tuple[int, Composite]]) -> None:
        self.uses = 0
        self._root = root
        self._number = number
        self._found = found
        self._port = Port(self, self.receive)
        root.channel.connect(self._port, root.slot)

    def receive(self, row: Row, members: Members) -> None:
        """Take a row in."""
        self._found.append((self._number, composite_in(row)))

    def close(self) -> None:
        """Take no more rows."""
        self._root.channel.disconnect(self._port, self._root.slot)


Published: TypeAlias = "tuple[Subscription, list[Composite]]"


class Publishing:
    """Has the matches of all subscriptions that publish made documents of, round by round."""

    depth = 4

    def __init__(self, batch: Batch, publish: Callable[[Sequence[Published]], None]) -> None:
        self._batch = batch
        self._publish = publish
        self._found: dict[str, Published] = {}

    def take(self, subscription: Subscription, composite: Composite) -> None:
        """Take in what a subscription has found."""
        self._found.setdefault(subscription.name, (subscription, []))[1].append(composite)
        self._batch.touch(self)

    def run(self) -> None:
        """Publish what has come."""
        found, self._found = self._found, {}
        self._publish(list(found.values()))


class Publisher:
    """Takes the rows of one stream for a subscription that publishes them."""

    label = "publish"

    def __init__(
        self,
        root: Operator,
        subscription: Subscription,
        publishing: Publishing,
        composite: Callable[[Row], Composite],
    ) -> None:
        self._root = root
        self._subscription = subscription
        self._publishing = publishing
        self._composite = composite
        self._port = Port(self, self.receive)
        root.channel.connect(self._port, root.slot)

    def receive(self, row: Row, members: Members) -> None:
        """Take a row in."""
        self._publishing.take(self._subscription, self._composite(row))

    @property
    def stream(self) -> str:
        """The stream that the rows are published on."""
        assert self._subscription.publish is not None
        return self._subscription.publish

    def close(self) -> None:
        """Take no more rows."""
        self._root.channel.disconnect(self._port, self._root.slot)
