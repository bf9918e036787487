"""The result log of an engine as files, which processes without the engine read.

    matches/FIRST-LAST.arrow       the matches of the positions FIRST to LAST
    _rejected/QUERY-BATCH.arrow    the rejected rows of one micro-batch

Consecutive files of matches adjoin, so a missing one is noticed.  A file is written once, durably,
and never changed.  A position can have several matches (of subscriptions that share a query), and
these are in one file.  Spark's tasks import this module: it loads neither the engine nor DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from xscl.atomic_files import replacing
from xscl.subscriptions.match_tables import SOURCES

_TIME = pa.timestamp("us", tz="UTC")
MATCHES = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("subscription", pa.string(), nullable=False),
        pa.field("documents", pa.list_(pa.string()), nullable=False),
        pa.field("sources", SOURCES, nullable=False),
        pa.field("t0", _TIME, nullable=False),
        pa.field("t1", _TIME, nullable=False),
        pa.field("bindings", pa.map_(pa.string(), pa.list_(pa.string())), nullable=False),
        pa.field("xml", pa.string(), nullable=False),
    ]
)
"""A match: `bindings` has the string values of the nodes of each variable, `xml` is the output
document."""

_FILE = re.compile(r"(\d+)-(\d+)\.arrow")
_COMPRESSION = pa.ipc.IpcWriteOptions(compression="zstd")


class MatchFile(NamedTuple):
    """A file with the matches of some positions, both ends included."""

    first: int
    last: int
    path: Path


@dataclass(frozen=True, slots=True)
class MatchFiles:
    """The files in a directory; the constructor touches nothing on disk."""

    directory: Path

    @property
    def _matches(self) -> Path:
        return self.directory / "matches"

    @property
    def _rejected(self) -> Path:
        return self.directory / "_rejected"

    def exist(self) -> bool:
        """Return True if the directory was made for matches."""
        return self._matches.is_dir()

    def create(self) -> None:
        """Make the directory, readable by its owner only."""
        for path in (self._matches, self._rejected):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    # -- Matches ---------------------------------------------------------------------------

    def files(self) -> list[MatchFile]:
        """Return the files of matches, by position."""
        named = ((_FILE.fullmatch(path.name), path) for path in self._matches.iterdir())
        return sorted(MatchFile(int(n[1]), int(n[2]), path) for n, path in named if n is not None)

    def write(self, first: int, last: int, matches: pa.Table) -> None:
        """Write the matches of positions that follow those written before, durably."""
        _write(self._matches / f"{first:020d}-{last:020d}.arrow", matches)

    # -- Rejected rows ---------------------------------------------------------------------

    def rejected_files(self) -> list[Path]:
        """Return the files of rejected rows."""
        return sorted(path for path in self._rejected.iterdir() if path.suffix == ".arrow")

    def write_rejected(self, query_id: str, batch_id: int, rows: pa.RecordBatch) -> None:
        """Write the rejected rows of a micro-batch, durably; a repeated one replaces them."""
        _write(self._rejected / f"{query_id}-{batch_id:020d}.arrow", rows)


def batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file.

    Spark's tasks must not import pandas, as `pyarrow.array` and comparisons do if it is installed.
    """
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _write(path: Path, table: pa.Table | pa.RecordBatch) -> None:
    with (
        replacing(path) as file,
        pa.ipc.new_file(file, table.schema, options=_COMPRESSION) as writer,
    ):
        writer.write(table)
