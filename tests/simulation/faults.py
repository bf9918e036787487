"""Faults of the disk, the machine, the clock and the network."""

from __future__ import annotations

import errno
import random
import time

from tests.simulation import disk
from tests.simulation.host import Host
from tests.simulation.network import Answer, Network
from tests.simulation.scheduler import NS
from tests.simulation.sites import FeedServer, Receiver

FAULTS = 6
"""Faults an hour."""


class Faults:
    """Makes one fault after another; each lasts for some virtual time."""

    def __init__(
        self,
        host: Host,
        network: Network,
        feed: FeedServer,
        receiver: Receiver,
        draw: random.Random,
    ) -> None:
        self._host = host
        self._network = network
        self._feed = feed
        self._receiver = receiver
        self._draw = draw

    def strike(self) -> None:
        """Make a drawn fault, and end it."""
        fault = self._draw.choice(
            [
                *(self._lose_power, self._kill, self._stop, self._break_disk, self._fill_disk),
                *(self._step_clock, self._break_receiver, self._break_feed, self._break_network),
            ]
        )
        self._host.journal.note(fault.__name__)
        self._host.begin_disturbance()
        fault()
        self._host.end_disturbance()

    def end(self) -> None:
        """End the faults that last beyond `strike`."""
        disk.fail(0, 0, 0)
        self._host.is_faulty = False

    def _lose_power(self) -> None:
        self._host.crash(self._draw.uniform(0.1, 20), power=True)

    def _kill(self) -> None:
        self._host.crash(self._draw.uniform(0.1, 20), power=False)

    def _stop(self) -> None:
        if self._host.process is not None:
            self._host.process.stop()

    def _break_disk(self) -> None:
        disk.fail(errno.EIO, self._draw.randrange(40), self._draw.choice([1, 1, 2, 5]))

    def _fill_disk(self) -> None:
        disk.fail(errno.ENOSPC, self._draw.randrange(40), self._draw.choice([1, 3, 20]))

    def _step_clock(self) -> None:
        seconds = self._draw.choice([-3600, -60, -2, 2, 60, 3600, 86_400])
        self._host.scheduler.wall_offset += seconds * NS
        time.sleep(self._draw.uniform(1, 400))
        self._host.scheduler.wall_offset -= seconds * NS

    def _break_receiver(self) -> None:
        self._receiver.is_broken = True
        time.sleep(self._draw.uniform(1, 300))
        self._receiver.is_broken = False

    def _break_feed(self) -> None:
        self._feed.fault = self._draw.choice(
            [
                *(Answer(status=500), Answer(status=None), Answer(b"<rss", cut=2)),
                *(Answer(b"no feed"), Answer(status=429, headers={"Retry-After": "60"})),
                Answer(b'<rss version="2.0"><channel><item><title>cut', delay=10),
            ]
        )
        time.sleep(self._draw.uniform(60, 900))
        self._feed.fault = None

    def _break_network(self) -> None:
        self._network.lost, self._network.latency = self._draw.random(), self._draw.uniform(0, 30)
        time.sleep(self._draw.uniform(1, 300))
        self._network.lost, self._network.latency = 0.0, 0.05
