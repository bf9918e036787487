"""Keeping the public relations in SQL (`xscl.store.queries.relations`) true to the engine's state.

Time: `watermarks` has the lateness of each stream and its number of late
documents; `late` has the documents that some subscription may have missed, with
the subscription (`xscl.subscriptions.lateness`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pyarrow as pa

from templates.processor import Processor
from templates.registry.registry import Registry
from templates.sql.views import BACKWARD, FORWARD
from xscl.store.queries import relations
from xscl.store.sqlite_store import SqliteStore
from xscl.store.store import Store
from xscl.subscriptions.lateness import LatenessBounds
from xscl.subscriptions.match_tables import VALUES
from xscl.subscriptions.streams import Streams

VALUED = 1_000
"""Number of the newest matches that have `values` in the relation `matches`: they are read from the
texts of the documents.  It is null for older ones."""
_MATCHES = re.compile(r"\bmatches\b", re.IGNORECASE)
_VALUES = re.compile(r"\*|\bvalues\b", re.IGNORECASE)


def may_read_values(query: str) -> bool:
    """Return False for a query in SQL that cannot read the values of matches."""
    return _MATCHES.search(query) is not None and _VALUES.search(query) is not None


@dataclass(eq=False, repr=False)
class Relations:
    """Keeps the public views consistent with the templates in use."""

    _store: Store
    _registry: Registry
    _processor: Processor
    _readings: LatenessBounds
    _streams: Streams
    _shown: set[int] | None = field(default=None, init=False)

    def answer(self, query: str, values: pa.Table | None = None) -> pa.Table:
        """Return the answer of a user's query; `values` are those of matches, as in `refresh`.

        Raises StoreError; duckdb.Error, as the query is wrong.
        """
        store, members = self._store, self._registry.members
        if isinstance(store, SqliteStore):
            graphs = {number: one.template.graph for number, one in members.items()}
            return relations.answer(store, query, lambda name: self.lent(name, values), graphs)
        with store.translate_errors():
            self.refresh(values)
        with store.reading():
            return store.answer(query)

    def lent(self, name: str, values: pa.Table | None = None) -> pa.Table:
        """Return the table in memory that relations read under a name; `values` as in `answer`."""
        pushed = self._processor.pushed
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

    def refresh(self, values: pa.Table | None = None) -> None:
        """Create the views, with each template's R_T and R_out of the last push.

        `values` are those of matches; None: none are read.
        """
        self._store.lend("match_values", VALUES.empty_table() if values is None else values)
        current = self._registry.members
        pushed = self._processor.pushed
        self._store.lend("batch_binding", pushed.bindings)
        self._store.lend("batch_times", pushed.times)
        for name in (FORWARD, BACKWARD):
            self._store.lend(name, pushed.joins(name))
        self._store.lend("reading", self._readings.table())
        self._store.lend("known_stream", self._streams.table())
        if self._shown is None:
            relations.create_views(self._store)
            self._shown = set()
            gone = relations.shown_templates(self._store)  # a failed change leaves them behind
        else:
            gone = self._shown - current.keys()
        relations.hide_templates(self._store, gone)
        out = pushed.out
        for number, members in current.items():
            graph = members.template.graph
            rows = out.get(number, relations.no_output(graph))
            self._store.lend(f"out_{number}", rows)
            if number not in self._shown:
                relations.show_template(self._store, number, graph)
        self._shown = set(current)
