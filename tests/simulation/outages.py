"""Faults of the network and of its sites, during which the service answers as quickly as ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.simulation.clients import Act, Part
from tests.simulation.network import Network
from tests.simulation.sites import ILL, FeedServer, Receiver

OUTAGES = 2.5
"""An hour."""


@dataclass(eq=False)
class Outages(Part):
    """Makes one site or the whole network fail for a while."""

    _network: Network
    _feed: FeedServer
    _receiver: Receiver

    def acts(self) -> Sequence[Act]:
        """Return the outages as a client."""
        return [("outages", OUTAGES, self._strike)]

    def _strike(self) -> None:
        kinds: tuple[Callable[[], None], ...] = (
            *(self._break_feed, self._break_receiver, self._slow_receiver, self._break_network),
        )
        fault = self._draw.choice(kinds)
        self._model.counts["faults"] += 1
        self._host.journal.note(fault.__name__.strip("_"))
        fault()

    def _last(self) -> None:
        time.sleep(self._draw.uniform(10, 600))

    def _break_feed(self) -> None:
        self._feed.fault = self._draw.choice(ILL)
        self._last()
        self._feed.fault = None

    def _break_receiver(self) -> None:
        refusals = Receiver.REFUSALS
        self._receiver.refusals = self._draw.choice([refusals, (self._draw.choice(refusals),)])
        self._last()
        self._receiver.refusals = ()

    def _slow_receiver(self) -> None:
        self._receiver.slow = self._draw.uniform(1, 29)
        self._last()
        self._receiver.slow = 0.0

    def _break_network(self) -> None:
        self._network.lost, self._network.latency = self._draw.random(), self._draw.uniform(0, 30)
        self._last()
        self._network.lost, self._network.latency = 0.0, 0.05
