"""Drill: feeds that an earlier release has polled, upgraded, polled again, bring nothing new.

    python -m tests.upgrade_drill CHECKOUT --feeds FOLDER

CHECKOUT is a working tree of the earlier release (`git worktree add`).  Its program follows and
polls every feed below the folder, served on a loopback address; this one polls the same addresses
twice.  The drill fails if an item is new or updated, or if a feed that was read fails.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]


class _Files(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; no validators, so that each poll reads the whole answer."""

    def send_header(self, keyword: str, value: str) -> None:
        if keyword.lower() != "last-modified":
            super().send_header(keyword, value)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve a folder on a loopback address; yield the port."""
    handler = functools.partial(_Files, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _xscl(checkout: Path, data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xscl", *arguments, "--data", str(data)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )


def _polled(checkout: Path, data: Path, port: int) -> list[dict[str, Any]]:
    """Poll all feeds; return what is said of each."""
    allowed = f"127.0.0.1:{port}"
    addresses = [feed["url"] for feed in _listed(checkout, data)]
    answer = _xscl(
        checkout, data, "feeds", "poll", "--json", "--allow-address", allowed, *addresses
    )
    if not answer.stdout:
        raise SystemExit(f"drill: poll failed: {answer.stderr[-2_000:]}")
    return _listed(checkout, data)


def _listed(checkout: Path, data: Path) -> list[dict[str, Any]]:
    return _rows(_xscl(checkout, data, "feeds", "list", "--json").stdout)


def _rows(text: str) -> list[dict[str, Any]]:
    """Read an array, as early releases print, or one object a line."""
    if text.startswith("["):
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines()]


def _counts(feeds: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return the numbers of items and of their versions by the address of the feed."""
    return {feed["url"]: (feed["items"], feed["versions"]) for feed in feeds}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the drill; return 0 if nothing was new or updated."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade_drill", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("--feeds", type=Path, required=True)
    options = parser.parse_args(arguments)
    files = sorted(
        file.relative_to(options.feeds)
        for file in options.feeds.rglob("*")
        if file.is_file() and file.suffix in (".xml", ".rss", ".atom", ".rdf", ".json")
    )
    with tempfile.TemporaryDirectory() as place, serving(options.feeds) as port:
        data, addresses = Path(place) / "data", Path(place) / "feeds.txt"
        addresses.write_text("".join(f"http://127.0.0.1:{port}/{file}\n" for file in files))
        before = options.before.resolve()
        _xscl(before, data, "feeds", "import", str(addresses))
        first = _counts(_polled(before, data, port))
        items, versions = (sum(column) for column in zip(*first.values(), strict=True))
        print(f"{len(files)} feeds; the earlier release read {items} items, {versions} versions")
        for turn in ("first", "second"):
            now = _counts(_polled(PROJECT, data, port))
            changed = {url: now[url] for url in first if now[url] != first[url]}
            print(f"{turn} poll after the upgrade: {len(changed)} feeds have new or updated items")
            for url, counts in changed.items():
                print(f"  {url}: {first[url]} -> {counts}")
            if changed:
                return 1
    return 0 if items else 1


if __name__ == "__main__":
    sys.exit(main())
