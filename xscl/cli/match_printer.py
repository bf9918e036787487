"""Non-blocking printer of matches on standard output.

Each write is at most as long as a pipe takes at once, and only when there is room for it. Else a
thread in `write` would hold the lock of the stream, which the end of the process waits for.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import time
from collections.abc import Iterable, Iterator

from xscl.cli.match_text import match_row, match_text
from xscl.cli.output import ESCAPES, clean, json_line, warn
from xscl.errors import StoreError
from xscl.store.store_errors import StoreUnavailable
from xscl.subscriptions.match import Match

GRACE = 1.0
"""Seconds for which an output that nobody reads is waited for when the service ends."""

_log = logging.getLogger(__name__)

_LOOK = 200
"""Milliseconds from one look at whether to end to the next."""


class OutputUnread(Exception):
    """Standard output is not read while the service stops."""


class MatchPrinter:
    """Prints matches, with `history` those between history items too; not thread-safe."""

    def __init__(self, *, as_json: bool, history: bool, verbose: bool = False) -> None:
        self._as_json = as_json
        self._history = history
        self._verbose = verbose
        self._stop_at: float | None = None
        self._closed = False

    def __call__(self, matches: Iterable[Match]) -> None:
        """Print matches; raises OutputUnread after `stop` if the output is not read.

        One whose documents are gone, as its subscription was removed, is left out.  Raises
        StoreUnavailable if they cannot be read now.
        """
        for match in matches:
            if match.history and not self._history:
                continue
            try:
                lines = list(self._lines(match))
            except StoreUnavailable:
                raise
            except StoreError as error:
                _log.info("a match of %s is not printed: %s", match.subscription, error)
                continue
            for line in lines:
                self._write(line)
        if not self._closed:
            sys.stdout.flush()

    def skipped(self, count: int) -> None:
        """Print the number of matches left out because the output was not read in time."""
        if count:
            line = json_line({"skipped": count}) if self._as_json else f"... {count} skipped"
            self._write(line)

    def stop(self) -> None:
        """Limit waiting for the reader of the output to `GRACE` from now on."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + GRACE

    def _lines(self, match: Match) -> Iterator[str]:
        if self._as_json:
            yield json_line(match_row(match))
        else:
            yield from map(clean, match_text(match, verbose=self._verbose))

    def _write(self, line: str) -> None:
        if self._closed:
            return
        try:
            descriptor = sys.stdout.fileno()
        except OSError:  # a stream in memory
            sys.stdout.write(f"{line}\n")
            return
        data = f"{line}\n".encode(sys.stdout.encoding or "utf-8", ESCAPES)
        try:
            for at in range(0, len(data), select.PIPE_BUF):
                self._wait(descriptor)
                _write_all(descriptor, data[at : at + select.PIPE_BUF])
        except BrokenPipeError:
            self._closed = True
            warn("nobody reads the output any more; matches are kept, and printed no longer")

    def _wait(self, descriptor: int) -> None:
        """Block until standard output is writable."""
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while not poll.poll(_LOOK):
            if self._stop_at is not None and time.monotonic() > self._stop_at:
                raise OutputUnread


def _write_all(descriptor: int, data: bytes) -> None:
    """Write bytes that the pipe has room for."""
    while data:
        data = data[os.write(descriptor, data) :]
