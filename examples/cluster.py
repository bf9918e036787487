"""A service whose subscriptions lie in four cells, each an engine of its own.

    python examples/cluster.py                          the cells are in the process of the service
    python examples/cluster.py 'local-cluster[2,1,1024]'    on two executors of Spark

Each cell evaluates its share of the subscriptions.  The service commits what all of them answer for
a batch, so its pages, its API and its SQL are those of one engine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from xscl.client import Client

CELLS = 4
CITIES = ("Bergen", "Bodø", "Molde", "Narvik", "Oslo", "Tromsø")
QUERY = (
    'orders//order[./city="{city}"][./product->p] FOLLOWED BY{{p = q, 2 d}}'
    ' returns//return[./city="{city}"][./product->q]'
)
"""Of one city: a product is ordered, and one of its kind comes back within two days."""
ORDERED, RETURNED = datetime(2026, 3, 2, 8, tzinfo=UTC), datetime(2026, 3, 3, 8, tzinfo=UTC)
PATIENCE = 300.0
"""Seconds after which the program gives up: Spark may take a minute to start."""


@contextmanager
def service(master: str | None, folder: Path) -> Iterator[str]:
    """Run `xscl serve` over cells on a free port; yield its address."""
    where = ["--no-spark"] if master is None else ["--master", master]
    options = ["--data", str(folder / "data"), "--port", "0", *where]
    cells = ["--shared", str(folder / "shared"), "--cells", str(CELLS)]
    (folder / "shared").mkdir(mode=0o700)
    command = [sys.executable, "-m", "xscl", "serve", *options, *cells]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"the page is at (http://\S+)/,", line):
                    yield found[1]
                    break
        finally:
            process.terminate()
            process.stderr.read()


def found(master: str | None = None) -> tuple[Sequence[str], int]:
    """Return the subscriptions that have matched, and the number of cells that evaluate."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        client = stack.enter_context(Client(stack.enter_context(service(master, Path(folder)))))
        for city in CITIES:
            client.subscribe(city.lower(), QUERY.format(city=city))
        for number, city in enumerate(CITIES):
            inside = f"<city>{city}</city><product>p{number % 2}</product>"
            client.push("orders", f"<order>{inside}</order>", time=ORDERED)
            if number % 2:
                client.push("returns", f"<return>{inside}</return>", time=RETURNED)
        names = matched(client, len(CITIES) // 2)
        return names, len(client.ask("GET", "/v1/status").json()["service"]["cells"])


def matched(client: Client, count: int) -> Sequence[str]:
    """Wait for a number of matches; return their subscriptions."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        names = sorted(match.subscription for match in client.all_matches())
        if len(names) >= count:
            return names
        time.sleep(0.2)
    raise TimeoutError(f"there are no {count} matches after {PATIENCE:.0f} s")


if __name__ == "__main__":
    names, cells = found(*sys.argv[1:2])
    print(f"{cells} cells: matches of {', '.join(names)}")
