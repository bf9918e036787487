"""The public relations: all state in SQL, under the names of the paper.

They are views over the storage, so that storage may change and the names stay
(Hong 2009, sections 6.3.1, 6.4.3 and 6.5).  Relations ending in W, R_vj,
R_L, R_R and R_out are those of the last push.

Time: `watermarks` has the lateness of each stream and its number of late
documents; `late` has the documents that some subscription may have missed, with
the subscription (`xscl.subscriptions.lateness`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pyarrow as pa

from templates.model.join_graph import JoinGraph
from templates.processor import Processor
from templates.registry.registry import Registry, r_t
from xscl.documents.document_ids import SUFFIX
from xscl.store.schema import EARLIEST, LEVELS
from xscl.store.store import Store
from xscl.subscriptions.kept_matches import KEPT_MATCHES
from xscl.subscriptions.lateness import ARRIVAL, LATE, MISSED, LatenessBounds
from xscl.subscriptions.match_tables import VALUES
from xscl.subscriptions.streams import Streams

PUBLISHED = f"rank % {LEVELS} <> 0"
"""Whether a document is what a subscription published: those that arrive begin a rank."""


_VERSION = f"regexp_extract(id, '{SUFFIX}')"
NUMBER = f"coalesce(TRY_CAST({_VERSION}[2:] AS BIGINT), 1)"
"""The number of the version of a document, by its name."""
POSTED = f"given || CASE WHEN {_VERSION} = '@1' THEN '' ELSE {_VERSION} END"
"""The id that a document was posted with, followed by `@n` if it is the n-th version."""


def _nodes(bindings: str) -> str:
    """Return the query of the nodes of bindings, with the key of those that are compared."""
    return (
        "SELECT doc, node, max(key) AS key FROM ("
        f"SELECT doc, node1 AS node, NULL::UBIGINT AS key FROM {bindings}"
        f" UNION ALL SELECT doc, node2, key FROM {bindings}) GROUP BY doc, node"
    )


_OF_JOINS = "node1, node2, pair1, above1, pair2, above2"

VIEWS = f"""
CREATE OR REPLACE TEMP VIEW R_docTS AS
    SELECT d.id AS docid, t.ts AS timestamp
    FROM state.times t JOIN state.document d USING (doc);
CREATE OR REPLACE TEMP VIEW R_docTSW AS
    SELECT d.id AS docid, t.ts AS timestamp FROM batch_times t JOIN state.document d USING (doc);
CREATE OR REPLACE TEMP VIEW R_doc AS
    SELECT d.id AS docid, n.node, v.strVal
    FROM ({_nodes("state.binding")}) n JOIN state.document d USING (doc)
    LEFT JOIN state.value v USING (key);
CREATE OR REPLACE TEMP VIEW R_docW AS
    SELECT d.id AS docid, n.node, v.strVal
    FROM ({_nodes("batch_binding")}) n JOIN state.document d USING (doc)
    LEFT JOIN state.value v USING (key);
CREATE OR REPLACE TEMP VIEW named_pair AS
    SELECT p.id AS pair, v1.definition AS var1, v2.definition AS var2 FROM state.pair p
    JOIN state.variable v1 ON v1.id = p.var1 JOIN state.variable v2 ON v2.id = p.var2;
CREATE OR REPLACE TEMP VIEW R_bin AS
    SELECT d.id AS docid, p.var1, p.var2, b.node1, b.node2
    FROM state.binding b JOIN state.document d USING (doc) JOIN named_pair p USING (pair);
CREATE OR REPLACE TEMP VIEW R_binW AS
    SELECT d.id AS docid, p.var1, p.var2, b.node1, b.node2
    FROM batch_binding b JOIN state.document d USING (doc) JOIN named_pair p USING (pair);
CREATE OR REPLACE TEMP VIEW value_join AS
    SELECT d1.id AS docid1, d2.id AS docid2, v.strVal, {_OF_JOINS}
    FROM (SELECT doc1, doc2, key, {_OF_JOINS} FROM vj1
        UNION SELECT doc1, doc2, key, {_OF_JOINS} FROM vj2) j
    JOIN state.document d1 ON d1.doc = j.doc1
    JOIN state.document d2 ON d2.doc = j.doc2 JOIN state.value v USING (key);
CREATE OR REPLACE TEMP VIEW R_vj AS
    SELECT DISTINCT docid1, node1, docid2, node2, strVal FROM value_join;
CREATE OR REPLACE TEMP VIEW R_L AS
    SELECT DISTINCT docid1, p.var1, p.var2, above1 AS node1, j.node1 AS node2, strVal
    FROM value_join j JOIN named_pair p ON p.pair = j.pair1;
CREATE OR REPLACE TEMP VIEW R_R AS
    SELECT DISTINCT docid2, p.var1, p.var2, above2 AS node1, j.node2, strVal
    FROM value_join j JOIN named_pair p ON p.pair = j.pair2;
CREATE OR REPLACE TEMP VIEW R_sub AS
    SELECT name AS subscription, template, qid FROM state.subscription;
CREATE OR REPLACE TEMP VIEW rejected AS
    SELECT stream, id, reason, line, "column", message, clock AS timestamp, sha256,
        coalesce(TRY(decode(beginning)), beginning::VARCHAR) AS beginning
    FROM state.rejected;
CREATE OR REPLACE TEMP VIEW documents AS
    SELECT id AS docid, streams[1] AS stream, given AS id, {NUMBER} AS version, streams,
        ts AS timestamp, history, origin, {PUBLISHED} AS published
    FROM state.document;
CREATE OR REPLACE TEMP VIEW arrival AS {ARRIVAL};
CREATE OR REPLACE TEMP VIEW missed AS {MISSED};
CREATE OR REPLACE TEMP VIEW late AS {LATE} ORDER BY d.doc;
CREATE OR REPLACE TEMP VIEW watermarks AS
    WITH counted AS (
        SELECT a.stream, any_value(coalesce(k.lateness, 0)) AS lateness, any_value(k.live) AS live,
            count(*) AS documents,
            count(*) FILTER (behind > coalesce(k.lateness, 0) AND NOT history) AS late
        FROM arrival a LEFT JOIN known_stream k USING (stream) GROUP BY a.stream),
    refused AS (SELECT stream, count(*) AS rejected FROM state.rejected GROUP BY stream),
    found AS (
        SELECT stream, coalesce(c.lateness, k.lateness, 0) AS lateness,
            coalesce(k.live, false) AS live, coalesce(documents, 0) AS documents,
            coalesce(late, 0) AS late, coalesce(rejected, 0) AS rejected
        FROM known_stream k FULL JOIN counted c USING (stream) FULL JOIN refused r USING (stream)
        WHERE stream IS NOT NULL)
    SELECT stream, lateness, live, clock, clock - lateness AS watermark, documents, late, rejected
    FROM found CROSS JOIN (
        SELECT max(clock) AS clock FROM state.progress WHERE clock > {EARLIEST})
    ORDER BY stream;
CREATE OR REPLACE TEMP VIEW match_row AS
    WITH made AS (
        SELECT doc, list(id ORDER BY place) FILTER (id IS NOT NULL) AS docids,
            list(posted ORDER BY place) FILTER (id IS NOT NULL) AS ids,
            bool_and(coalesce(d_history, true)) AS history
        FROM (
            SELECT c.doc, d.id, {POSTED} AS posted, d.history AS d_history, c.place FROM (
                SELECT doc, unnest(sources) AS source, generate_subscripts(sources, 1) AS place
                FROM (
                    SELECT doc, CASE WHEN len(docs) > 0 THEN docs ELSE bases END AS sources
                    FROM state.composite)) c
            LEFT JOIN state.document d ON d.doc = c.source)
        GROUP BY doc),
    part AS (
        SELECT doc, [id] AS docids, [{POSTED}] AS ids, history FROM state.document
        UNION ALL SELECT doc, docids, ids, history FROM made)
    SELECT m.position, m.name AS subscription,
        CASE WHEN m.doc1 = m.doc2 THEN p1.ids ELSE list_concat(p1.ids, p2.ids) END AS documents,
        CASE WHEN m.doc1 = m.doc2 THEN p1.docids ELSE list_concat(p1.docids, p2.docids) END
            AS docids,
        m.ts AS timestamp, p1.history AND p2.history AS history
    FROM ({KEPT_MATCHES}) m JOIN part p1 ON p1.doc = m.doc1 JOIN part p2 ON p2.doc = m.doc2;
CREATE OR REPLACE TEMP VIEW matches AS
    SELECT m.position, m.subscription, m.documents, m.docids, m.timestamp, m.history, v."values"
    FROM match_row m
    LEFT JOIN match_values v ON v.position = m.position AND v.subscription = m.subscription
    ORDER BY m.position;
CREATE OR REPLACE TEMP VIEW subscriptions AS
    SELECT name, language, query, template, qid, is_distinct AS "distinct", updates, publish,
        version, until IS NOT NULL AS paused
    FROM state.subscription;
"""


VALUED = 1_000
"""Number of the newest matches that have `values` in the relation `matches`: they are read from the
texts of the documents.  It is null for older ones."""
_MATCHES = re.compile(r"\bmatches\b", re.IGNORECASE)
_VALUES = re.compile(r"\*|\bvalues\b", re.IGNORECASE)


def may_read_values(query: str) -> bool:
    """Return False for a query in SQL that cannot read the values of matches."""
    return _MATCHES.search(query) is not None and _VALUES.search(query) is not None


PUBLIC = {
    "documents": "the documents that are known, those that subscriptions published included",
    "matches": "the matches that are kept, in the order of their positions, the newest ones with"
    " the values of their variables",
    "subscriptions": "what is subscribed to",
    "late": "documents that came late, and which subscriptions may have missed them",
    "rejected": "documents that were not taken, why, and how they begin",
    "watermarks": "for each stream how far its time has come",
    "R_bin": "witnesses that may still be joined: nodes of two adjacent variables",
    "R_doc": "the string values of nodes in R_bin",
    "R_docTS": "the times of documents in R_bin",
    "R_binW": "R_bin of the last batch",
    "R_docW": "R_doc of the last batch",
    "R_docTSW": "R_docTS of the last batch",
    "R_vj": "value joins of the last batch: nodes with equal values in two documents",
    "R_L": "the left sides of R_vj",
    "R_R": "the right sides of R_vj",
    "R_sub": "the template and the row of it (qid) of each subscription",
}
"""The relations that anybody may ask for, and what they are.

Each template has two more: R_T_<number>, its joins, and R_out_<number>, what they found last.
"""


@dataclass(eq=False, repr=False)
class Relations:
    """Keeps the public views consistent with the templates in use."""

    _store: Store
    _registry: Registry
    _processor: Processor
    _readings: LatenessBounds
    _streams: Streams
    _shown: set[int] | None = field(default=None, init=False)

    def refresh(self, values: pa.Table | None = None) -> None:
        """Create the views, with each template's R_T and R_out of the last push.

        `values` are those of matches; None: none are read.
        """
        self._store.lend("match_values", VALUES.empty_table() if values is None else values)
        current = self._registry.members
        self._processor.show_views()
        self._store.lend("reading", self._readings.table())
        self._store.lend("known_stream", self._streams.table())
        if self._shown is None:
            self._store.peek(VIEWS)
            self._shown = set()
            gone = self._left_over()
        else:
            gone = self._shown - current.keys()
        for number in gone:
            self._store.peek(
                f"DROP VIEW IF EXISTS R_out_{number}; DROP VIEW IF EXISTS R_T_{number}"
            )
        for number, members in current.items():
            graph = members.template.graph
            rows = self._processor.out.get(number, no_output(graph))
            self._store.lend(f"out_{number}", rows)
            if number not in self._shown:
                self._store.peek(r_t_view(number, graph))
                self._store.peek(r_out_view(number, graph))
        self._shown = set(current)

    def _left_over(self) -> set[int]:
        """Return the templates with old views, which a failed change leaves behind."""
        rows = self._store.peek(
            "SELECT view_name[5:] FROM duckdb_views() WHERE view_name ~ '^R_T_[0-9]+$'"
        )
        return {int(number) for (number,) in rows}


def r_t_view(number: int, graph: JoinGraph) -> str:
    """Return the view R_T of a template: qid, var1 ... varn, op, wl (Table 6.4 a)."""
    joins, variables = [], {}
    for index, (parent, child) in enumerate(graph.pairs):
        joins.append(f"JOIN named_pair n{index} ON n{index}.pair = t.p{index}")
        variables[parent], variables[child] = f"n{index}.var1", f"n{index}.var2"
    columns = ", ".join(f"{variables[i]} AS var{i + 1}" for i in range(len(graph.nodes)))
    operator = "CASE t.op WHEN 0 THEN 'FOLLOWED BY' ELSE 'JOIN' END" if graph.two_sided else "NULL"
    return (
        f"CREATE OR REPLACE TEMP VIEW R_T_{number} AS"
        f" SELECT t.qid, {columns}, {operator} AS op, t.wl FROM {r_t(number)} t {' '.join(joins)}"
    )


def r_out_view(number: int, graph: JoinGraph) -> str:
    """Return the view R_out of a template: qid, docid1, docid2, node1 ... noden, wl."""
    nodes = ", ".join(f"o.node{i + 1}" for i in range(len(graph.nodes)))
    return (
        f"CREATE OR REPLACE TEMP VIEW R_out_{number} AS"
        f" SELECT o.qid, d1.id AS docid1, d2.id AS docid2, {nodes}, o.wl FROM out_{number} o"
        " JOIN state.document d1 ON d1.doc = o.doc1 JOIN state.document d2 ON d2.doc = o.doc2"
    )


def no_output(graph: JoinGraph) -> pa.Table:
    """Return the R_out of a template without results."""
    names = ["qid", "doc1", "doc2", *(f"node{i + 1}" for i in range(len(graph.nodes))), "wl"]
    return pa.schema([(name, pa.int64()) for name in names]).empty_table()
