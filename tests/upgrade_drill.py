"""Drill: a data directory of 0.2 moves to this version, and nothing old is delivered again.

    python -m tests.upgrade_drill CHECKOUT --feeds FOLDER

CHECKOUT is a working tree of 0.2 (`git worktree add`).  Its program follows and polls every feed
below the folder, and one that grows, served on a loopback address; it has users, subscriptions and
a webhook.  Its export is imported into a new directory, which this version polls twice.  The drill
fails unless all that was set up is there, nothing is delivered until the feed grows again, and then
the new item alone.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

PROJECT = Path(__file__).resolve().parents[1]
GROWING = "growing.xml"
QUERIES = {
    "all": "feeds//item[./title->x]",
    "grown": "growing//item[./title->x]",
    "pairs": "growing//item[./title->x] FOLLOWED BY{x=y, 1 d} feeds//item[./title->y]",
}
SOME_FAILED = (0, 1, 2)
"""Codes of commands on many feeds, some of which cannot be read."""
VARYING = {
    "subscription": ("number",),
    "feed": ("title", "site_url", "added"),
    "endpoint": ("position", "failures", "next_try", "note"),
}
"""The columns to which an import gives new values, by table of an export."""


@dataclass
class Site:
    """Feeds of a folder and one with so many items; and what a webhook has received."""

    folder: Path
    items: int = 2
    port: int = 0
    received: list[str] = field(default_factory=list)

    def growing(self) -> bytes:
        """Return the feed that grows."""
        items = "".join(
            f"<item><guid>g{number}</guid><title>grown {number}</title></item>"
            for number in range(self.items)
        )
        return f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; no validators, so that each poll reads the whole answer."""

    def __init__(self, *arguments: Any, site: Site) -> None:
        self._site = site
        super().__init__(*arguments, directory=str(site.folder))

    def do_GET(self) -> None:
        if self.path != f"/{GROWING}":
            super().do_GET()
            return
        body = self._site.growing()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._site.received.append(json.loads(body)["data"]["matches"][0]["documents"][0])
        self.send_response(204)
        self.end_headers()

    def send_header(self, keyword: str, value: str) -> None:
        if keyword.lower() != "last-modified":
            super().send_header(keyword, value)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def serving(site: Site) -> Iterator[None]:
    """Serve a site on a loopback address."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Handler, site=site)
    )
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Release:
    """The program of a checkout, on a data directory."""

    checkout: Path
    data: Path
    port: int

    def command(self, *arguments: str) -> list[str]:
        """Return the words of a command."""
        return [sys.executable, "-m", "xscl", *arguments, "--data", str(self.data)]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a command."""
        allowed = f"127.0.0.1:{self.port}"
        return {**os.environ, "PYTHONPATH": str(self.checkout), "XSCL_ALLOW_ADDRESS": allowed}

    def run(self, *arguments: str, codes: Collection[int] = (0,)) -> str:
        """Return the output of a command; ends the drill if it fails."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in codes:
            raise SystemExit(f"drill: {' '.join(arguments)}: {done.stderr[-2_000:]}")
        return done.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the rows that a command lists: an array, or an object a line."""
        text = self.run(*arguments, "--json")
        if text.startswith("["):
            return list(json.loads(text))
        return [json.loads(line) for line in text.splitlines()]

    def poll(self) -> dict[str, tuple[int, int]]:
        """Poll all feeds, consume and deliver; return items and versions by address."""
        self.run("feeds", "poll", "--all", codes=SOME_FAILED)
        self.run("serve", "--once", "--no-spark")
        feeds = self.rows("feeds", "list")
        return {feed["url"]: (feed["items"], feed["versions"]) for feed in feeds}

    @contextmanager
    def served(self) -> Iterator[httpx.Client]:
        """Run the service while the block runs; yield a client of it."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = self.command("serve", "--no-spark", "--port", str(port))
        with (
            subprocess.Popen(
                command,
                cwd=self.checkout,
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as service,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
        ):
            try:
                for _ in range(600):
                    try:
                        client.get("/v1/health")
                        break
                    except httpx.HTTPError:
                        time.sleep(0.1)
                yield client
            finally:
                service.send_signal(signal.SIGTERM)

    def set_up(self, addresses: Sequence[str]) -> None:
        """Make users, subscriptions, feeds and an endpoint."""
        listed = self.data.with_name("feeds.txt")
        listed.write_text("".join(f"{one}\n" for one in addresses))
        self.run("feeds", "import", str(listed), codes=SOME_FAILED)
        growing = f"http://127.0.0.1:{self.port}/{GROWING}"
        self.run("feeds", "add", growing, "--stream", "growing", codes=SOME_FAILED)
        for name, query in QUERIES.items():
            self.run("subscribe", name, query)
        self.run("tag", "grown", "drill")
        self.run("token", "create", "--user", "alice")
        with self.served() as client:
            hook = {"kind": "webhook", "url": f"http://127.0.0.1:{self.port}/hook"}
            made = client.post("/v1/subscriptions/all/endpoints", json=hook)
            made.raise_for_status()

    def exported(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of an export, without what an import makes anew."""
        file = self.data.with_name(f"{self.data.name}.json")
        self.run("export", str(file))
        tables: Mapping[str, list[dict[str, Any]]] = {
            name: rows for name, rows in json.loads(file.read_text()).items() if name != "format"
        }
        return {
            name: sorted(
                ({k: v for k, v in row.items() if k not in VARYING.get(name, ())} for row in rows),
                key=str,
            )
            for name, rows in tables.items()
        }


def drill(before: Release, after: Release, site: Site, files: Sequence[Path]) -> Iterator[str]:
    """Yield what is wrong; print what is done."""
    before.set_up([f"http://127.0.0.1:{site.port}/{file}" for file in files])
    before.poll()
    site.items += 1
    first = before.poll()
    items, versions = (sum(column) for column in zip(*first.values(), strict=True))
    print(f"0.2 read {items} items, {versions} versions, of {len(first)} feeds")
    print(f"0.2 delivered {site.received}")
    if len(site.received) != 1:
        yield "0.2 did not deliver the new item"
    exported = before.exported()
    print("import:", after.run("import", str(before.data.with_name("before.json"))).strip())
    imported = after.exported()
    for table, rows in exported.items():
        same = "as it was" if imported[table] == rows else "not as it was"
        print(f"  {table}: {len(rows)} rows, {same}")
        if imported[table] != rows:
            yield f"{table}: {rows} became {imported[table]}"
    site.received.clear()
    for turn in ("first", "second"):
        now = after.poll()
        changed = {url: (first[url], now.get(url)) for url in first if now.get(url) != first[url]}
        matches = {name: len(after.rows("matches", name)) for name in QUERIES}
        print(f"{turn} poll: {len(changed)} feeds differ, delivered {site.received}, {matches}")
        yield from (f"{url}: {was} -> {found}" for url, (was, found) in changed.items())
        if site.received:
            yield f"delivered again: {site.received}"
    site.items += 1
    after.poll()
    print(f"after one item more: delivered {site.received}")
    if len(site.received) != 1 or "g3" not in site.received[0]:
        yield f"the new item was not delivered once: {site.received}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the drill; return 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade_drill", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("--feeds", type=Path, required=True)
    options = parser.parse_args(arguments)
    files = sorted(
        file.relative_to(options.feeds)
        for file in options.feeds.rglob("*")
        if file.is_file() and file.suffix in (".xml", ".rss", ".atom", ".rdf", ".json")
    )
    site = Site(options.feeds.resolve())
    with tempfile.TemporaryDirectory() as place, serving(site):
        before = Release(options.before.resolve(), Path(place) / "before", site.port)
        after = Release(PROJECT, Path(place) / "after", site.port)
        wrong = list(drill(before, after, site, files))
    print(*wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
