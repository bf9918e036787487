"""Memory of a service after purges: `python -m tests.soak.purges [CYCLES] [BYTES]`.

Each cycle subscribes, sends two documents of up to so many bytes, removes the subscription with
`purge`, and prints the resident memory in MB.  The last line says how much more there is than after
the fifth cycle.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.plain_http import NO_CERTIFICATES

QUERY = "S//item[./title->t] FOLLOWED BY{t = u, 3 d} S//item[./title->u]"
ITEM = 145  # bytes of an item
MARKED = 4  # the cycle after this one is what the last is compared with
PORT = 8931


def ask(method: str, path: str, body: bytes | None = None) -> bytes:
    request = Request(f"http://127.0.0.1:{PORT}{path}", body, method=method)
    kind = "xml" if "documents" in path else "json"
    request.add_header("Content-Type", f"application/{kind}")
    with urlopen(request, timeout=300, context=NO_CERTIFICATES) as answer:
        found: bytes = answer.read()
    return found


def document(cycle: int, second: int, size: int, chosen: random.Random) -> bytes:
    """Return a document; each fiftieth item has the title of one of the other document."""
    items = "".join(
        f"<item><title>title {cycle} {second if place % 50 else 0} {place}</title><description>"
        f"{chosen.random()} a text of an item as long as they are {place}</description></item>"
        for place in range(size // ITEM)
    )
    return f"<rss>{items}</rss>".encode()


def resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def served(folder: str) -> Iterator[int]:
    """Run a service; yield its process."""
    command = [sys.executable, "-m", "xscl", "serve", "--data", folder, "--no-spark"]
    process = subprocess.Popen([*command, "--port", str(PORT)], stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                ask("GET", "/v1/status")
                break
            except URLError:
                time.sleep(0.3)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def main(cycles: int, size: int) -> None:
    chosen = random.Random(1)
    seen: list[float] = []
    with tempfile.TemporaryDirectory() as folder, served(folder) as process:
        for cycle in range(cycles):
            wanted = json.dumps({"query": QUERY, "history": False}).encode()
            ask("PUT", f"/v1/subscriptions/s{cycle}", wanted)
            length = chosen.randint(size // 3, size)
            for second in range(2):
                path = f"/v1/documents/S?id=d{cycle}-{second}"
                ask("POST", path, document(cycle, second, length, chosen))
            while json.loads(ask("GET", "/v1/status"))["service"]["documents"] < 2 * (cycle + 1):
                time.sleep(0.1)
            time.sleep(0.3)
            ask("DELETE", f"/v1/subscriptions/s{cycle}?purge=true")
            seen.append(resident(process))
            print(f"{cycle + 1:3} {seen[-1]:6.0f}", flush=True)
    if len(seen) > MARKED:
        print(f"{seen[-1] - seen[MARKED]:+.0f} MB since the fifth; most {max(seen):.0f}")


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    main(*(given + [50, 9_000_000][len(given) :]))
