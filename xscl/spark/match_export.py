"""Matches as rows, and an engine's result log written to files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from xscl.engine.facade import Engine
from xscl.ingestion.pipeline import PipelineError
from xscl.spark.match_files import MATCHES, MatchFiles
from xscl.subscriptions.match import Match
from xscl.subscriptions.match_tables import sources_of, values_of

FILE = 10_000
"""The most matches in one file, unless one position has more."""

_ELSEWHERE = "name another directory for the results"


def match_table(matches: Iterable[Match]) -> pa.Table:
    """Return matches as a table with MATCHES."""
    rows = [
        (
            *(one.id, one.subscription, list(one.documents), sources_of(one), one.t0, one.t1),
            *(list(values_of(one).items()), one.xml().decode()),
        )
        for one in matches
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(MATCHES)
    arrays = [pa.array(one, kind) for one, kind in zip(columns, MATCHES.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=MATCHES)


class MatchExport:
    """Writes an engine's matches to files, each once, in the order of their positions.

    The engine keeps the results of a transaction until the next one, whatever its retention.  So
    an export before a push and one after each of its transactions write every match, also if the
    process ends between a transaction and its export.
    """

    def __init__(self, engine: Engine, files: MatchFiles) -> None:
        """Raise PipelineError if the files do not continue with the engine's matches."""
        self._engine = engine
        self.files = files
        files.create()
        written = files.files()
        self._last = written[-1].last if written else 0
        kept = engine.host.log.pages().span()
        if self._last > kept.newest:
            raise PipelineError(
                f"{files.directory} has matches up to position {self._last}, and the engine has"
                f" {kept.newest}: they belong to another store, or to a newer state of it",
                hint=_ELSEWHERE,
            )
        if written and kept.forgotten > self._last:
            raise PipelineError(
                f"the matches from position {self._last + 1} to {kept.forgotten} are no longer"
                f" kept, and {files.directory} does not have them",
                hint=_ELSEWHERE,
            )

    def write(self) -> None:
        """Write the matches since the last call."""
        end = self._engine.host.state.position
        if end <= self._last:
            return
        some: list[Match] = []
        for one in self._engine.host.log.since(self._last + 1):
            if one.position > end:
                break
            if len(some) >= FILE and one.position > some[-1].position:
                self._write(some[-1].position, some)
                some = []
            some.append(one)
        self._write(end, some)

    def _write(self, last: int, matches: list[Match]) -> None:
        self.files.write(self._last + 1, last, match_table(matches))
        self._last = last
