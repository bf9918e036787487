"""The matches of all cells at one committed position, read from the answers that were committed.

The position of a match is the entry of the log that completed it, and its order within the entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from xscl.cluster.cell_task import ANSWERED, CellAnswer
from xscl.cluster.shared_directory import ClusterError, SharedDirectory
from xscl.store.store import Store

COMMITTED = "cluster_committed"
"""The key of the last committed entry in the store's named numbers."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_answer(
    cell INTEGER, after BIGINT, upto BIGINT, matches BIGINT, sha256 VARCHAR);
"""


class CommittedMatches:
    """Reads committed answers.  What a cell has answered to an uncommitted batch is not seen."""

    def __init__(self, store: Store, shared: SharedDirectory) -> None:
        self._store = store
        self._shared = shared

    @property
    def position(self) -> int:
        """The last committed entry."""
        return self._store.meta(COMMITTED)

    def count(self) -> int:
        """Return the number of committed matches."""
        ((found,),) = self._store.fetch("SELECT sum(matches) FROM state.cluster_answer")
        return int(found or 0)

    def after(self, entry: int = 0, *, subscription: str | None = None) -> pa.Table:
        """Return the matches that later entries completed, all or a subscription's, in order.

        The table has `ANSWERED`.  Raises ClusterError for a file that is lost or was changed.
        """
        found = [ANSWERED.empty_table(), *self._batches(entry, subscription)]
        return pa.concat_tables(found)

    def _batches(self, entry: int, subscription: str | None) -> Iterator[pa.Table]:
        rows = self._store.fetch(
            "SELECT cell, after, upto, matches, sha256 FROM state.cluster_answer"
            " WHERE upto > ? AND matches > 0 ORDER BY upto, cell",
            [entry],
        )
        batch: list[pa.Table] = []
        end = None
        for row in rows:
            answer = CellAnswer(*row)
            if end is not None and answer.upto != end:
                yield _in_order(batch)
                batch = []
            end = answer.upto
            table = self.read(answer)
            chosen = pc.greater(table["entry"], entry)
            if subscription is not None:
                chosen = pc.and_(chosen, pc.equal(table["subscription"], subscription))
            batch.append(table.filter(chosen))
        if batch:
            yield _in_order(batch)

    def read(self, answer: CellAnswer) -> pa.Table:
        """Return the matches of an answer; raises ClusterError if the file differs from it."""
        path = self._shared.results_of(answer.cell, answer.upto)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise ClusterError(
                f"the matches of cell {answer.cell} up to entry {answer.upto} are missing: {path}",
                hint="put the file back from a copy of the shared directory",
            ) from error
        if hashlib.sha256(content).hexdigest() != answer.sha256:
            raise ClusterError(f"{path} is not the file that its cell answered with")
        return pa.ipc.open_file(pa.py_buffer(content)).read_all()


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the matches of one batch by entry; a subscription's are of one cell, in its order."""
    table = pa.concat_tables(tables)
    numbered = table.append_column("place", pa.array(range(table.num_rows), pa.int64()))
    order = [("entry", "ascending"), ("place", "ascending")]
    return numbered.sort_by(order).drop_columns(["place"])
