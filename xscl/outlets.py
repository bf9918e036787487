"""Where rows leave the plan: as results of subscriptions, and as published documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from cep_core.channels import Members, Port
from cep_core.events import VALUES, Row
from cep_core.mop import Operator
from cep_core.runtime import Batch
from xscl.composites import Composite
from xscl.results import Subscription


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


class Publisher:
    """Has the matches of a subscription published as documents, round by round."""

    label = "publish"
    depth = 4

    def __init__(
        self,
        root: Operator,
        subscription: Subscription,
        batch: Batch,
        publish: Callable[[Subscription, list[Composite]], None],
        composite: Callable[[Row], Composite],
    ) -> None:
        self._root = root
        self._subscription = subscription
        self._batch = batch
        self._publish = publish
        self._composite = composite
        self._composites: list[Composite] = []
        self._port = Port(self, self.receive)
        root.channel.connect(self._port, root.slot)

    def receive(self, row: Row, members: Members) -> None:
        """Take a row in."""
        self._composites.append(self._composite(row))
        self._batch.touch(self)

    def run(self) -> None:
        """Publish what has come."""
        composites, self._composites = self._composites, []
        self._publish(self._subscription, composites)

    def close(self) -> None:
        """Publish no more."""
        self._root.channel.disconnect(self._port, self._root.slot)
