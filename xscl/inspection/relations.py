"""The public relations in SQL (`xscl.store.queries.relations`) as of the engine's state.

Time: `watermarks` has the lateness of each stream and its number of late
documents; `late` has the documents that some subscription may have missed, with
the subscription (`xscl.subscriptions.lateness`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from templates.batch_join import Pushed
from templates.model.conjunctive_query import BACKWARD, FORWARD
from templates.processor import Processor
from templates.registry.registry import Registry
from xscl.inspection.rebuilt_relations import may_read_joins, rebuilt
from xscl.store.queries import relations
from xscl.store.store import Store
from xscl.subscriptions.lateness import LatenessBounds
from xscl.subscriptions.match_tables import VALUES
from xscl.subscriptions.streams import StreamDefinitions

VALUED = 1_000
"""Number of the newest matches that have `values` in the relation `matches`: they are read from the
texts of the documents.  It is null for older ones."""
_MATCHES = re.compile(r"\bmatches\b", re.IGNORECASE)


def may_read_values(query: str) -> bool:
    """Return False for a query in SQL that cannot read the values of matches.

    A query need not name the column: `FROM matches`, `TABLE matches` and a row of it have it, too.
    """
    return _MATCHES.search(query) is not None


@dataclass(eq=False, repr=False)
class Relations:
    """Answers queries over the public relations."""

    _store: Store
    _registry: Registry
    _processor: Processor
    _readings: LatenessBounds
    _streams: StreamDefinitions
    _firsts: Callable[[], Mapping[int, int]]

    def answer(
        self, query: str, values: pa.Table | None = None, document: int | None = None
    ) -> pa.Table:
        """Return the answer of a user's query; `values` are those of matches; None: none are read.

        The query reads witnesses of one `document` only, by its number; None: of any.
        Raises StoreError; SqlError; duckdb.Error, as the query is wrong.
        """
        members = self._registry.members.items()
        graphs = {number: one.template.graph for number, one in members}
        pushed, state = self._joined(query, document)
        return relations.answer(
            self._store, query, lambda name: self.lent(name, values, pushed), graphs, state
        )

    def _joined(self, query: str, document: int | None) -> tuple[Pushed, Mapping[str, pa.Table]]:
        """Return the last push, and the join state if it is not as it is stored."""
        pushed = self._processor.pushed
        if not may_read_joins(query):
            return pushed, {}
        docs = None if document is None else np.array([document])
        found = rebuilt(self._store, pushed, self._firsts, self._processor.most, docs=docs)
        return (pushed, {}) if found is None else (found.pushed, found.state)

    def lent(
        self, name: str, values: pa.Table | None = None, pushed: Pushed | None = None
    ) -> pa.Table:
        """Return the table in memory that relations read under a name.

        `values` are as in `answer`, `pushed` is the last push.
        """
        pushed = pushed or self._processor.pushed
        match name:
            case "match_values":
                return VALUES.empty_table() if values is None else values
            case "batch_binding":
                return pushed.bindings
            case "batch_times":
                return pushed.times
            case "reading":
                return self._readings.table()
            case "known_stream":
                return self._streams.table()
            case str() if name in (FORWARD, BACKWARD):
                return pushed.joins(name)
            case _:
                number = int(name.removeprefix("out_"))
                graph = self._registry.members[number].template.graph
                return pushed.out.get(number, relations.no_output(graph))
