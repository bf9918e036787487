"""A simulated world: clients, sites and faults around one service, and a model to compare with."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.simulation import database, disk, files
from tests.simulation.bounds import exceeded, unfinished
from tests.simulation.checks import compare_service, compare_store
from tests.simulation.clients import Clients
from tests.simulation.faults import Faults
from tests.simulation.histories import Histories
from tests.simulation.host import Host
from tests.simulation.journal import Journal, ServiceLog
from tests.simulation.model import Model
from tests.simulation.network import Network
from tests.simulation.operation import Operation
from tests.simulation.outages import Outages
from tests.simulation.schedule import Schedule
from tests.simulation.scheduler import Scheduler
from tests.simulation.service import Refused
from tests.simulation.sites import FEED, HOOK, FeedServer, Receiver
from xscl.ingestion.data_directory import DataDirectory

HOUR = 3600.0
CALM = 900.0
"""Virtual seconds without faults at the end, in which the service has to become healthy."""
NAME = "xscl.example"


class World:
    """One simulation: `run` returns the violations.

    The services of odd seeds have a name, so that requests need a token.
    """

    def __init__(self, scheduler: Scheduler, root: Path, schedule: Schedule) -> None:
        self._scheduler = scheduler
        self._schedule = schedule
        self.journal = Journal(scheduler)
        self.model = Model()
        network = Network(self._random("network"))
        feed = FeedServer(self.model)
        receiver = Receiver(self.model, self._random("receiver"))
        network.sites = {HOOK: receiver, FEED: feed}
        network.install()
        names = (NAME,) if scheduler.seed % 2 == 1 else ()
        host = self.host = Host(scheduler, root, network, self.journal, names)
        logging.getLogger().addHandler(ServiceLog(self.journal, lambda: host.is_disturbed))
        parts = host, self.model
        self._clients = Clients(*parts, self._random("clients"))
        self._histories = Histories(*parts, self._random("histories"))
        self._operation = Operation(*parts, self._random("operation"))
        pace = database.Connection.pace = files.install(scheduler)
        self._faults = Faults(*parts, self._random("faults"), pace)
        self._outages = Outages(*parts, self._random("outages"), network, feed, receiver)

    def _random(self, name: str) -> random.Random:
        """Return random numbers of one part, which do not depend on what other parts draw."""
        return random.Random(f"{name} {self._scheduler.seed}")

    def run(self) -> list[str]:
        """Run the simulation for its virtual hours; return the violations."""
        self.host.install()
        self._operation.prepare()
        parts = (self._clients, self._histories, self._operation, self._faults, self._outages)
        acts = [act for part in parts for act in part.acts()]
        acts.append(("bounds", 12.0, self._check_bounds))
        threads = [threading.Thread(target=self._act, args=act, name=act[0]) for act in acts]
        supervisor = threading.Thread(target=self.host.supervise, name="supervisor")
        for thread in [*threads, supervisor]:
            thread.start()
        for thread in threads:
            thread.join()
        self._calm()
        self.host.is_over = True
        supervisor.join()
        return self.journal.violations

    def _act(self, name: str, rate: float, act: Callable[[], None]) -> None:
        """Act so often an hour: at a drawn time within each of as many equal parts of it."""
        draw, began = random.Random(f"{name} {self._scheduler.seed}"), time.monotonic()
        hours = self._schedule.hours
        times = math.ceil(rate * hours)
        part = hours * HOUR / times
        for number in range(times):
            due = began + (number + draw.random()) * part
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                act()
            except Refused:
                self.model.counts["refused"] += 1

    def _check_bounds(self) -> None:
        self.journal.record(exceeded(self.host, self.model))

    def _calm(self) -> None:
        """End all faults, wait until the service is healthy, and compare it with the model."""
        disk.fail(0, 0, 0)
        self.host.is_faulty = False
        try:
            self._operation.repair()
            time.sleep(CALM)
            self.journal.record(compare_service(self.host, self.model))
            self.journal.record(exceeded(self.host, self.model))
            self.journal.record(unfinished(self.host, self.model))
        except (AssertionError, Refused) as error:
            self.journal.wrong(f"the service does not answer after the faults: {error!r}")
        ended = self.host.stop()
        if ended is not None:
            self.journal.record(compare_store(DataDirectory(ended.data).database, self.model))
