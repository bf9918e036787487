"""Printer of matches on standard output.

It writes to the descriptor: a thread in `sys.stdout.write`, when nobody reads the output, would
hold the lock of the stream, which the end of the process waits for.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Iterable, Iterator

from xscl.cli.match_text import match_row, match_text
from xscl.cli.output import ESCAPES, clean, json_line, warn
from xscl.errors import StoreError
from xscl.store.store_errors import StoreUnavailable
from xscl.subscriptions.match import Match

_log = logging.getLogger(__name__)


class MatchPrinter:
    """Prints matches, with `history` also those among items of first polls; not thread-safe."""

    def __init__(self, *, as_json: bool, history: bool, verbose: bool = False) -> None:
        self._as_json = as_json
        self._history = history
        self._verbose = verbose
        self._closed = False

    def __call__(self, matches: Iterable[Match]) -> None:
        """Print matches; raises StoreUnavailable if their documents cannot be read now.

        A match whose documents are gone, as its subscription was removed, is left out.
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
            while data:
                try:
                    data = data[os.write(descriptor, data) :]
                except BlockingIOError:  # another program has made the terminal non-blocking
                    select.select([], [descriptor], [])
        except BrokenPipeError:
            self._closed = True
            warn("nobody reads the output any more; matches are kept, and printed no longer")
