"""A simulated world: clients, sites and faults around one service, and a model to compare with."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.simulation.checks import compare_service, compare_store
from tests.simulation.clients import Clients
from tests.simulation.faults import FAULTS, Faults
from tests.simulation.host import Host
from tests.simulation.journal import Journal
from tests.simulation.model import Model
from tests.simulation.network import Network
from tests.simulation.scheduler import NS, Scheduler
from tests.simulation.service import Refused
from tests.simulation.sites import FEED, HOOK, FeedServer, Receiver

HOUR = 3600.0
CALM = 900.0
"""Virtual seconds without faults at the end, in which the service has to become healthy."""


class World:
    """One simulation: `run` returns the violations."""

    def __init__(self, scheduler: Scheduler, root: Path, hours: float) -> None:
        self._scheduler = scheduler
        self._hours = hours
        draw = random.Random(f"world {scheduler.seed}")
        network = Network(random.Random(f"network {scheduler.seed}"))
        self.journal = Journal(scheduler)
        self.model = Model()
        self.host = Host(scheduler, root, network, self.journal)
        feed, receiver = FeedServer(self.model), Receiver(self.model, draw)
        network.sites = {HOOK: receiver, FEED: feed}
        network.install()
        self._clients = Clients(self.host, self.model, draw)
        self._faults = Faults(self.host, network, feed, receiver, draw)

    def run(self) -> list[str]:
        """Run the simulation for its virtual hours; return the violations."""
        self.host.boot()
        self._clients.prepare()
        acts = [*self._clients.acts(), ("faults", FAULTS, self._strike)]
        threads = [
            threading.Thread(target=self._act, args=act, name=act[0], daemon=True) for act in acts
        ]
        supervisor = threading.Thread(target=self.host.supervise, name="supervisor", daemon=True)
        for thread in [*threads, supervisor]:
            thread.start()
        for thread in threads:
            thread.join()
        self._calm()
        self.host.is_over = True
        supervisor.join()
        return self.journal.violations

    def _act(self, name: str, rate: float, act: Callable[[], None]) -> None:
        """Act so often an hour, at drawn times, until the hours are over."""
        draw = random.Random(f"{name} {self._scheduler.seed}")
        while True:
            time.sleep(draw.uniform(0, 2 * HOUR / rate))
            if self._scheduler.now / NS > self._hours * HOUR:
                return
            try:
                act()
            except Refused:
                self.model.counts["refused"] += 1

    def _strike(self) -> None:
        self.model.counts["faults"] += 1
        self._faults.strike()

    def _calm(self) -> None:
        """End all faults, wait until the service is healthy, and compare it with the model."""
        self._faults.end()
        time.sleep(CALM)
        try:
            for text in compare_service(self.host, self.model):
                self.journal.wrong(text)
        except (AssertionError, Refused) as error:
            self.journal.wrong(f"the service does not answer after the faults: {error!r}")
        ended = self.host.stop()
        if ended is not None:
            for text in compare_store(ended.data / "state.duckdb", self.model):
                self.journal.wrong(text)
