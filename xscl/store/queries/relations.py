"""The relations of the paper and of users, as views: all state under stable names.

They are views over the storage, so that storage may change and the names stay
(Hong 2009, sections 6.3.1, 6.4.3 and 6.5).  Relations ending in W, R_vj, R_L, R_R and R_out are
those of the last push.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

import pyarrow as pa

from templates.model.join_graph import OPERATORS, JoinGraph
from xscl.errors import SqlError, near_miss
from xscl.store.queries.analysis import tables_of
from xscl.store.queries.kept_matches import KEPT_MATCHES
from xscl.store.queries.lateness import ARRIVAL, LATE, MISSED
from xscl.store.queries.tables import EARLIEST, LEVELS, TABLES, schema_of
from xscl.store.queries.tables import RELATIONS as CHUNKED
from xscl.store.store import Store

PUBLISHED = f"rank % {LEVELS} <> 0"
"""The condition that a subscription published a document: arrivals have multiples of `LEVELS`."""

_VERSION = "regexp_extract(id, '@[0-9]+$')"
_NUMBER = f"coalesce(TRY_CAST({_VERSION}[2:] AS BIGINT), 1)"
"""The number of the version of a document, by its name."""
_POSTED = f"given || CASE WHEN {_VERSION} = '@1' THEN '' ELSE {_VERSION} END"
"""The id that a document was posted with, followed by `@n` if it is the n-th version."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation: its query, over stored tables `state.*`, other relations and tables in `LENT`.

    `what` describes it to users; a relation with an empty `what` serves other relations only.
    """

    name: str
    what: str
    query: str

    @property
    def view(self) -> str:
        """Return the statement that creates its view."""
        return f"CREATE OR REPLACE TEMP VIEW {self.name} AS {self.query}"

    @property
    def over(self) -> frozenset[str]:
        """Return the names that it reads, its own of WITH included, stored tables excepted."""
        return frozenset(_READ.findall(self.query))


LENT = ("batch_binding", "batch_times", "vj1", "vj2", "reading", "known_stream", "match_values")
"""The tables in memory that relations read: of the last push, of streams, of matches' values."""

_AS_TEXT = re.compile(r"TIME WITH TIME ZONE|\bBIT\b")
"""Types that Arrow lacks: it would have no zone, and bytes in place of bits."""

_READ = re.compile(r"\b(?:FROM|JOIN) (\w+)\b(?!\.)")
_TIME = "microseconds since 1970-01-01 UTC"
_VARIABLE = "a variable by its canonical definition, `stream//path`"
_NODE = "the number of a node in its document, in document order from 0"
MEANINGS = {
    "docid": "the name of the document, which no other one has",
    "docid1": "the name of the earlier document",
    "docid2": "the name of the later document",
    "id": "the id that it was sent with",
    "streams": "the streams that it is on",
    "timestamp": f"the time of the document, {_TIME}",
    "var1": _VARIABLE,
    "var2": _VARIABLE,
    "node": _NODE,
    "node1": _NODE,
    "node2": _NODE,
    "strVal": "the string value of the node",
    "template": "the number of the template of its joins; 0 without one",
    "qid": "the row of the template, shared by subscriptions with the same joins",
    "op": f"the operator: {', '.join(one.name for one in OPERATORS)}",
    "wl": "the length of the window in microseconds",
    "subscription": "the name of its subscription",
    "documents.stream": "the stream that its name begins with: the first one that it is on",
    "documents.version": "1, or higher for a later version of the same id on its stream",
    "documents.history": "true if its feed held it at the first poll",
    "origin": "where it came from, such as the key of a feed",
    "feed_title": "your name for the feed that it came from, or the title that the feed has",
    "published": "true if a subscription published it",
    "position": "its position in the order of all results",
    "matches.documents": "the ids of its documents, in the order of the query's blocks",
    "docids": "their names, which no other documents have",
    "matches.timestamp": f"the time at which it is complete, {_TIME}",
    "matches.history": "true if feeds held all of its documents at their first poll",
    "values": "the values of each variable; of the newest 1,000 matches",
    "name": "its name",
    "language": "xscl, cel, sase or eql",
    "query": "the query as it was written",
    "distinct": "true for SELECT DISTINCT",
    "updates": "true if new versions of documents are matched, too",
    "publish": "the stream that it publishes its matches to",
    "subscriptions.version": "the version of the query, which an edit increases",
    "paused": "true while it has no matches",
    "subscriptions.stories": "true if its matches are grouped into stories",
    "story": "the id of the story, which never changes",
    "story_documents.position": "the position at which the document came to its story",
    "began": "the position of its first growth",
    "last": "the position of its newest growth",
    "stories.documents": "the number of its documents",
    "merged_into": "the story that took it over",
    "late.watermark": f"the watermark at its arrival, {_TIME}",
    "behind": "how far it was behind the watermark, in microseconds",
    "missed": "the subscriptions that may have missed it, by its streams and time alone",
    "rejected.stream": "the stream that it was sent to",
    "reason": "a stable code of the reason",
    "line": "the line of the error",
    "rejected.column": "the column of the error",
    "message": "the error",
    "rejected.timestamp": f"the latest time among documents at its arrival, {_TIME}",
    "sha256": "a hash of its bytes",
    "beginning": "its first characters",
    "watermarks.stream": "the name of the stream",
    "lateness": "how far documents may come behind the latest one, in microseconds",
    "live": "true if time passes on it without documents",
    "clock": f"the time that all streams have reached, {_TIME}",
    "watermarks.watermark": f"the time before which documents are late, {_TIME}",
    "watermarks.documents": "the number of its documents",
    "watermarks.late": "the number of documents that came late",
    "watermarks.rejected": "the number of documents that were not taken",
    "relation": "the name of the relation",
    "relations.column": "the name of the column",
    "type": "its type in DuckDB",
    "what": "what the relation is",
}
"""The meanings of columns by `name`, or by `relation.name` where relations differ."""

_OF_JOINS = "node1, node2, pair1, above1, pair2, above2"

_KEPT = (
    Relation(
        "R_bin",
        "witnesses that may still be joined: nodes of two adjacent variables",
        """
    SELECT d.id AS docid, p.var1, p.var2, b.node1, b.node2
    FROM state.binding b JOIN state.document d USING (doc) JOIN named_pair p USING (pair)""",
    ),
    # Only nodes that are compared have the key of their value.
    Relation(
        "R_doc",
        "the string values of nodes in R_bin",
        """
    SELECT d.id AS docid, n.node, v.strVal
    FROM (
        SELECT doc, node, max(key) AS key FROM (
            SELECT doc, node1 AS node, NULL::UBIGINT AS key FROM state.binding
            UNION ALL SELECT doc, node2, key FROM state.binding)
        GROUP BY doc, node) n
    JOIN state.document d USING (doc) LEFT JOIN state.value v USING (key)""",
    ),
    Relation(
        "R_docTS",
        "the times of documents in R_bin",
        """
    SELECT d.id AS docid, t.ts AS timestamp FROM state.times t JOIN state.document d USING (doc)""",
    ),
)


def _of_last_batch(kept: Relation) -> Relation:
    """Return the relation ending in W: the rows of the last push."""
    query = kept.query.replace("state.binding", "batch_binding")
    query = query.replace("state.times", "batch_times")
    return Relation(f"{kept.name}W", f"{kept.name} of the last batch", query)


RELATIONS = (
    Relation(
        "documents",
        "the documents that are known, those that subscriptions published included",
        f"""
    SELECT id AS docid, streams[1] AS stream, given AS id, {_NUMBER} AS version, streams,
        ts AS timestamp, history, origin,
        coalesce(nullif(f.given_title, ''), f.title) AS feed_title, {PUBLISHED} AS published
    FROM state.document LEFT JOIN state.feed f ON f.key = origin""",
    ),
    Relation(
        "match_row",
        "",
        f"""
    WITH made AS (
        SELECT doc, coalesce(list(id ORDER BY place) FILTER (id IS NOT NULL), []) AS docids,
            coalesce(list(posted ORDER BY place) FILTER (id IS NOT NULL), []) AS ids,
            bool_and(d_history) AS history
        FROM (
            SELECT c.doc, d.id, {_POSTED} AS posted, d.history AS d_history, c.place FROM (
                SELECT doc, unnest(docs) AS source, generate_subscripts(docs, 1) AS place
                FROM state.composite) c
            LEFT JOIN state.document d ON d.doc = c.source)
        GROUP BY doc),
    part AS (
        SELECT doc, [id] AS docids, [{_POSTED}] AS ids, history FROM state.document
        UNION ALL SELECT doc, docids, ids, history FROM made
        UNION ALL SELECT c.doc, [], [], c.start = c.ts AND d.history
        FROM state.composite c LEFT JOIN state.document d ON d.doc = c.bases[1]
        WHERE len(c.docs) = 0),
    timed AS (
        SELECT number FROM (
            SELECT number, language, reads FROM state.subscription
            UNION ALL SELECT number, language, reads FROM state.retired)
        WHERE language <> 'xscl' AND contains(array_to_string(reads, ''), ' '))
    SELECT m.position, m.name AS subscription,
        CASE WHEN m.doc1 = m.doc2 THEN p1.ids ELSE list_concat(p1.ids, p2.ids) END AS documents,
        CASE WHEN m.doc1 = m.doc2 THEN p1.docids ELSE list_concat(p1.docids, p2.docids) END
            AS docids,
        m.ts AS timestamp,
        coalesce(least(p1.history, p2.history), false)
            AND m.number NOT IN (SELECT number FROM timed) AS history
    FROM ({KEPT_MATCHES}) m JOIN part p1 ON p1.doc = m.doc1 JOIN part p2 ON p2.doc = m.doc2""",
    ),
    Relation(
        "matches",
        "the matches that are kept, in the order of their positions, the newest ones with the"
        " values of their variables",
        """
    SELECT m.position, m.subscription, m.documents, m.docids, m.timestamp, m.history, v."values"
    FROM match_row m
    LEFT JOIN match_values v ON v.position = m.position AND v.subscription = m.subscription
    ORDER BY m.position""",
    ),
    Relation(
        "story_part",
        "",
        """
    SELECT DISTINCT o.name AS subscription, s.id, s.root, s.began, s.last FROM state.story s JOIN (
        SELECT key, name FROM state.subscription UNION ALL SELECT key, name FROM state.retired) o
    USING (key)""",
    ),
    Relation(
        "story_documents",
        "the documents of stories",
        """
    SELECT p.subscription, p.root AS story, d.id AS docid, sd.position
    FROM state.story_document sd JOIN story_part p ON p.id = sd.story
    JOIN state.document d ON d.doc = sd.doc ORDER BY sd.position, sd.doc""",
    ),
    Relation(
        "stories",
        "matches that share documents, of subscriptions that are grouped into stories",
        """
    SELECT p.subscription, p.id AS story, p.began, p.last, (
            SELECT count(*) FROM story_documents d WHERE d.story = p.id) AS documents,
        nullif(p.root, p.id) AS merged_into
    FROM story_part p ORDER BY p.began, p.id""",
    ),
    Relation(
        "subscriptions",
        "what is subscribed to",
        """
    SELECT name, language, query, template, qid, is_distinct AS "distinct", updates, publish,
        version, until IS NOT NULL AS paused, stories
    FROM state.subscription""",
    ),
    Relation("arrival", "", ARRIVAL),
    Relation("missed", "", MISSED),
    Relation(
        "late",
        "documents that came late, and the subscriptions that may lack some match of them",
        f"{LATE} ORDER BY d.doc",
    ),
    Relation(
        "rejected",
        "documents that were not taken, why, and how they begin",
        """
    SELECT stream, id, reason, line, "column", message, clock AS timestamp, sha256,
        coalesce(TRY(decode(beginning)), beginning::VARCHAR) AS beginning
    FROM state.rejected""",
    ),
    Relation(
        "watermarks",
        "for each stream how far its time has come",
        f"""
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
    ORDER BY stream""",
    ),
    Relation(
        "named_pair",
        "",
        """
    SELECT p.id AS pair, v1.definition AS var1, v2.definition AS var2 FROM state.pair p
    JOIN state.variable v1 ON v1.id = p.var1 JOIN state.variable v2 ON v2.id = p.var2""",
    ),
    *_KEPT,
    *map(_of_last_batch, _KEPT),
    Relation(
        "value_join",
        "",
        f"""
    SELECT d1.id AS docid1, d2.id AS docid2, v.strVal, {_OF_JOINS}
    FROM (SELECT doc1, doc2, key, {_OF_JOINS} FROM vj1
        UNION SELECT doc1, doc2, key, {_OF_JOINS} FROM vj2) j
    JOIN state.document d1 ON d1.doc = j.doc1
    JOIN state.document d2 ON d2.doc = j.doc2 JOIN state.value v USING (key)""",
    ),
    Relation(
        "R_vj",
        "value joins of the last batch: nodes with equal values in two documents",
        """
    SELECT DISTINCT docid1, node1, docid2, node2, strVal FROM value_join""",
    ),
    Relation(
        "R_L",
        "the left sides of R_vj",
        """
    SELECT DISTINCT docid1, p.var1, p.var2, above1 AS node1, j.node1 AS node2, strVal
    FROM value_join j JOIN named_pair p ON p.pair = j.pair1""",
    ),
    Relation(
        "R_R",
        "the right sides of R_vj",
        """
    SELECT DISTINCT docid2, p.var1, p.var2, above2 AS node1, j.node2, strVal
    FROM value_join j JOIN named_pair p ON p.pair = j.pair2""",
    ),
    Relation(
        "R_sub",
        "the template and the row of it (qid) of each subscription",
        """
    SELECT name AS subscription, template, qid FROM state.subscription""",
    ),
)
"""All relations, each after those that it reads.

Each template has two more: R_T_<number>, its joins, and R_out_<number>, their results of the last
push.
"""

RELATION_OF_RELATIONS = Relation(
    "relations",
    "what there is to be asked for: this relation",
    """
    SELECT p.relation, c.column_name AS "column", c.data_type AS type, p.what
    FROM kept_public p LEFT JOIN duckdb_columns() c ON c.table_name = p.relation
        AND c.database_name = 'temp'
    ORDER BY p.relation, c.column_index""",
)
"""The relation of all others; it reads `kept_public`, a table in memory."""

PUBLIC = {one.name: one.what for one in RELATIONS if one.what}
"""The relations that users may query, with their descriptions."""


def meaning(relation: str, column: str) -> str:
    """Return the meaning of a column of a relation, empty for one that is not known."""
    # Relations of templates have var1 ... varn and node1 ... noden.
    shared = re.sub(r"^(var|node)[0-9]+$", r"\g<1>1", column)
    return MEANINGS.get(f"{relation}.{column}") or MEANINGS.get(shared, "")


def relations_for(names: Set[str], known: Sequence[Relation] = RELATIONS) -> list[Relation]:
    """Return the known relations of some names, in small letters, and those that they read."""
    needed = set(names)
    for one in reversed(known):
        if one.name.lower() in needed:
            needed.update(map(str.lower, one.over))
    return [one for one in known if one.name.lower() in needed]


def names_of_template(number: int) -> dict[str, str]:
    """Return the names of the relations of a template, with their descriptions."""
    return {
        f"R_T_{number}": f"the joins of template {number}",
        f"R_out_{number}": f"what the joins of template {number} found in the last batch",
    }


def relations_of_template(number: int, graph: JoinGraph) -> tuple[Relation, Relation]:
    """Return R_T and R_out of a template, whose output is lent as `out_<number>`.

    Columns are qid, var1 ... varn, op, wl (Table 6.4 a); qid, docid1, docid2, node1 ... noden, wl.
    """
    joins, variables = [], {}
    for index, (parent, child) in enumerate(graph.pairs):
        joins.append(f"JOIN named_pair n{index} ON n{index}.pair = t.pairs[{index + 1}]")
        variables[parent], variables[child] = f"n{index}.var1", f"n{index}.var2"
    columns = ", ".join(f"{variables[i]} AS var{i + 1}" for i in range(len(graph.nodes)))
    names = " ".join(f"WHEN {one.number} THEN '{one.name}'" for one in OPERATORS)
    operator = f"CASE t.op {names} END" if graph.two_sided else "NULL"
    nodes = ", ".join(f"o.node{i + 1}" for i in range(len(graph.nodes)))
    r_t, r_out = names_of_template(number).items()
    return (
        Relation(
            *r_t,
            f"SELECT t.qid, {columns}, {operator} AS op, t.wl FROM state.r_t t {' '.join(joins)}"
            f" WHERE t.template = {number}",
        ),
        Relation(
            *r_out,
            f"SELECT o.qid, d1.id AS docid1, d2.id AS docid2, {nodes}, o.wl FROM out_{number} o"
            " JOIN state.document d1 ON d1.doc = o.doc1 JOIN state.document d2 ON d2.doc = o.doc2",
        ),
    )


def known_relations(graphs: Mapping[int, JoinGraph]) -> list[Relation]:
    """Return all relations, and those of templates with their graphs, each after what it reads."""
    return [*RELATIONS, *chain.from_iterable(map(relations_of_template, graphs, graphs.values()))]


def sql_error(message: str, graphs: Mapping[int, JoinGraph]) -> SqlError:
    """Return the error for a message of DuckDB; its hint has names like that of an unknown one."""
    unknown = _UNKNOWN.match(message)
    if unknown is None:
        return SqlError(message)
    known = [one.name for one in known_relations(graphs) if one.what]
    hint = near_miss(unknown[1], known, most=3)
    return SqlError(f"there is no relation {unknown[1]!r}", hint=hint or _SOME)


def no_output(graph: JoinGraph) -> pa.Table:
    """Return the empty R_out of a template without results."""
    nodes = {f"node{i + 1}": pa.int32() for i in range(len(graph.nodes))}
    ids = dict.fromkeys(("qid", "doc1", "doc2"), pa.int64())
    return pa.schema({**ids, **nodes, "wl": pa.int64()}).empty_table()


# -- A user's query ------------------------------------------------------------------------

_STORED = frozenset({*TABLES, *CHUNKED} - {"chunk"})
_WORD = re.compile(r"\w+")
_OF_TEMPLATE = re.compile(r"\b(?:r_t|r_out|out)_([1-9][0-9]*)\b")
_UNKNOWN = re.compile(r"Catalog Error: Table with name (\S+) does not exist!")
_SOME = (
    "such as documents, subscriptions, watermarks, late, rejected, R_doc, R_bin;"
    " 'SELECT * FROM relations' lists them with their columns"
)
_OF_ALL = re.compile(r"\b(relations|(duckdb|pragma|pg|sqlite)_\w+|information_schema|show)\b")
"""Catalogs: they list relations that a query does not name."""


def kept_public(names: Mapping[str, str]) -> pa.Table:
    """Return the table that `relations` reads: names of relations, with their descriptions."""
    return pa.table({"relation": list(names), "what": list(names.values())})


def answer(
    store: Store,
    query: str,
    lent: Callable[[str], pa.Table],
    graphs: Mapping[int, JoinGraph],
    instead: Mapping[str, pa.Table] = MappingProxyType({}),
) -> pa.Table:
    """Return the answer of a user's query over relations and tables `state.*`.

    `lent` returns a table in memory by its name: one of `LENT`, or R_out of the template n by
    `out_n`.  `graphs` are those of all templates; tables of `instead` replace stored ones.
    Raises duckdb.Error for a wrong query.
    """
    text = query.lower()
    words = set(_WORD.findall(text))
    tells_of_all = _OF_ALL.search(text) is not None
    named = {int(number) for number in _OF_TEMPLATE.findall(text)}
    chosen = graphs.keys() if tells_of_all else graphs.keys() & named
    known = known_relations({number: graphs[number] for number in sorted(chosen)})
    in_memory = {*LENT, *(f"out_{number}" for number in chosen)}
    read = relations_for(words, known)
    shown = [*known, RELATION_OF_RELATIONS] if tells_of_all else read
    stored = (_STORED & tables_of(text)).union(*(tables_of(one.query) for one in read))
    empty = _STORED - stored if tells_of_all else ()
    tables = {name: instead[name] for name in stored & instead.keys()}
    tables |= {name: schema_of(name).empty_table() for name in empty}
    with closing(store.duck(*stored - tables.keys(), lent=tables)) as connection:
        for name in (words | {name for one in shown for name in one.over}) & in_memory:
            connection.register(name, lent(name))
        if tells_of_all:
            public = {one.name: one.what for one in shown if one.what}
            connection.register("kept_public", kept_public(public))
        for one in shown:
            connection.execute(one.view)
        found = connection.sql(query)
        as_text = [_AS_TEXT.search(str(kind)) is not None for kind in found.types]
        if not any(as_text):  # within a projection the lines of errors are others
            return found.to_arrow_table()
        parts = [f"#{at}::VARCHAR" if one else f"#{at}" for at, one in enumerate(as_text, 1)]
        return found.project(", ".join(parts)).to_arrow_table().rename_columns(found.columns)
