"""The demonstration of a cluster: two executors on this machine, one of which is killed.

1,000 subscriptions lie in 4 cells.  Batches of orders arrive; before one of them the demonstration
kills the executor of a cell.  At the end it compares the matches with those of one engine.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from feeds.documents import Document
from xscl.client import Client, calls
from xscl.engine.facade import Engine
from xscl.errors import XsclError
from xscl.server.serve import ClusterSettings, ServeSettings, Service
from xscl.server.termination import stopped_by_signals
from xscl.store.data_directory import DataDirectory
from xscl.subscriptions.match import Match

MASTER = "local-cluster[2,1,1024]"
CELLS = 4
SUBSCRIPTIONS = 1_000
BATCHES, ORDERS = 6, 200
"""Batches, and documents in each."""
KILLED_BEFORE = 4
"""The batch before which an executor is killed."""
PATIENCE = 180.0
"""Seconds until Spark has started, and until a batch is committed."""


def demonstrate_cluster(home: DataDirectory, tell: Callable[[str], None]) -> int:
    """Run the demonstration in a new data directory, and return the number of matches.

    Raises XsclError if they are not those of one engine, or if a batch is not committed in time.
    """
    queries = dict(_queries())
    with home.hold("demo"), Engine(home.database) as engine:
        engine.subscribe_many(queries.items())
    batches = [_orders(number) for number in range(1, BATCHES + 1)]
    with Engine() as engine:
        engine.subscribe_many(queries.items())
        expected = [[match.id for match in engine.push(batch)] for batch in batches]
    found: list[Match] = []
    with _serving(home, found, tell) as (service, client):
        tell(f"{SUBSCRIPTIONS:,} subscriptions in {CELLS} cells on two executors of this machine")
        for number, batch in enumerate(batches, 1):
            if number == KILLED_BEFORE:
                tell(_kill_an_executor(service))
            before, began = len(found), time.monotonic()
            for one in batch:
                when = datetime.fromtimestamp(one.timestamp / 1e6, UTC)
                client.send(calls.push("orders", one.xml, id=one.id, time=when))
            total = sum(map(len, expected[:number]))
            _wait(found, total, f"batch {number} is not committed")
            tell(
                f"batch {number}: {len(batch)} documents, {len(found) - before} matches,"
                f" {time.monotonic() - began:.1f} s"
            )
    if sorted(match.id for match in found) != sorted(chain.from_iterable(expected)):
        raise XsclError(f"the {len(found)} matches of the cells are not those of one engine")
    tell(f"{len(found)} matches, the same as those of one engine; none is lost, none came twice")
    return len(found)


def _queries() -> Iterator[tuple[str, str]]:
    """Yield queries: an order of one product, again by the same customer."""
    for number in range(SUBSCRIPTIONS):
        product, hours = f"p{number % 100}", 1 + number // 100
        side = f'orders//order[./product="{product}"]'
        yield (
            f"again-{number}",
            f"{side}[./customer->a] FOLLOWED BY{{a = b, {hours} h}} {side}[./customer->b]",
        )


def _orders(batch: int) -> list[Document]:
    """Return the orders of a batch; some customers order the same product again."""
    found = []
    for place in range(ORDERS):
        number = batch * ORDERS + place
        xml = (
            f"<order><product>p{number * 7 % 100}</product>"
            f"<customer>c{number % 40}</customer></order>"
        )
        time = 1_700_000_000_000_000 + number * 60_000_000
        found.append(Document("orders", f"o{number}", time, xml.encode()))
    return found


@contextmanager
def _serving(
    home: DataDirectory, found: list[Match], tell: Callable[[str], None]
) -> Iterator[tuple[Service, Client]]:
    """Run a service over cells while the block runs; yield it with a client."""
    # Of the extra `service`.
    from xscl.service.installation import ServiceSettings

    started, failures, addresses = threading.Event(), list[BaseException](), list[str]()

    def collect(matches: Sequence[Match]) -> None:
        found.extend(matches)

    def consuming(seconds: float) -> None:
        tell(f"Spark has started in {seconds:.0f} s")
        started.set()

    def listening(address: str) -> None:
        addresses.append(address)
        tell(f"the page is at {address}/status, with the cells")

    serving = ServeSettings(
        master=MASTER,
        poll_interval=0.1,
        listen=ServiceSettings(port=0),
        cluster=ClusterSettings(home.path / "shared", CELLS),
    )
    service = Service(home, serving, collect, listening, consuming)

    def run() -> None:
        try:
            service.run()
        except BaseException as error:
            failures.append(error)
            started.set()

    thread = threading.Thread(target=run, name="service")
    with stopped_by_signals(service.stop):
        tell("Spark starts in some ten seconds")
        thread.start()
        try:
            if not started.wait(PATIENCE):
                raise XsclError("Spark has not started in time")
            if not failures:
                with Client(addresses[0]) as client:
                    yield service, client
        finally:
            service.stop()
            thread.join()
    if failures:
        raise failures[0]


def _wait(found: Sequence[Match], total: int, what: str) -> None:
    """Wait for a number of matches."""
    end = time.monotonic() + PATIENCE
    while len(found) < total:
        if time.monotonic() > end:
            raise XsclError(f"{what} after {PATIENCE:.0f} s")
        time.sleep(0.05)


def _kill_an_executor(service: Service) -> str:
    """Kill the Java process whose Python process has a cell; return what was killed."""
    cell = next(one for one in service.cells() or () if one.process)
    executor = _parent(_parent(cell.process))  # above it is the daemon that forks workers
    os.kill(executor, signal.SIGKILL)
    return f"killed the executor of cell {cell.cell}, process {executor}"


def _parent(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return int(fields[1])
