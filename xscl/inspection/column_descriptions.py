"""Descriptions of the columns of the public relations."""

from __future__ import annotations

from collections.abc import Mapping

_TIME = "microseconds since 1970-01-01 UTC"
_VARIABLE = "a variable by its canonical definition, `stream//path`"
_NODE = "the number of a node in its document, in document order from 0"

COLUMNS: Mapping[str, str] = {
    "documents.stream": "the stream that its name begins with: the first one that it is on",
    "documents.id": "the id that it was sent with",
    "documents.version": "1, or higher for a later version of the same id on its stream",
    "documents.streams": "the streams that it is on",
    "documents.timestamp": f"its time, {_TIME}",
    "documents.history": "true if its feed held it at the first poll",
    "documents.origin": "where it came from, such as the key of a feed",
    "documents.published": "true if a subscription published it",
    "matches.position": "its position in the order of all results",
    "matches.subscription": "the name of its subscription",
    "matches.documents": "the ids of its documents, in the order of the query's blocks",
    "matches.docids": "their names, which no other documents have",
    "matches.timestamp": f"the time at which it is complete, {_TIME}",
    "matches.history": "true if feeds held all of its documents at their first poll",
    "matches.values": "the values of each variable; of the newest 1,000 matches",
    "subscriptions.name": "its name",
    "subscriptions.language": "xscl, cel, sase or eql",
    "subscriptions.query": "the query as it was written",
    "subscriptions.distinct": "true for SELECT DISTINCT",
    "subscriptions.updates": "true if new versions of documents are matched, too",
    "subscriptions.publish": "the stream that it publishes its matches to",
    "subscriptions.version": "the version of the query, which an edit increases",
    "subscriptions.paused": "true while it has no matches",
    "late.id": "the id that it was sent with",
    "late.streams": "the streams that it is on",
    "late.timestamp": f"its time, {_TIME}",
    "late.watermark": f"the watermark at its arrival, {_TIME}",
    "late.behind": "how far it was behind the watermark, in microseconds",
    "late.missed": "the subscriptions that may have missed it",
    "rejected.stream": "the stream that it was sent to",
    "rejected.id": "its id",
    "rejected.reason": "a stable code of the reason",
    "rejected.line": "the line of the error",
    "rejected.column": "the column of the error",
    "rejected.message": "the error",
    "rejected.timestamp": f"the latest time among documents at its arrival, {_TIME}",
    "rejected.sha256": "a hash of its bytes",
    "rejected.beginning": "its first characters",
    "watermarks.stream": "the name of the stream",
    "watermarks.lateness": "how far documents may come behind the latest one, in microseconds",
    "watermarks.live": "true if time passes on it without documents",
    "watermarks.clock": f"the time that all streams have reached, {_TIME}",
    "watermarks.watermark": f"the time before which documents are late, {_TIME}",
    "watermarks.documents": "the number of its documents",
    "watermarks.late": "the number of documents that came late",
    "watermarks.rejected": "the number of documents that were not taken",
    "relations.relation": "the name of the relation",
    "relations.column": "the name of the column",
    "relations.type": "its type in DuckDB",
    "relations.what": "what the relation is",
    "R_sub.subscription": "the name of the subscription",
    "docid": "the name of the document, which no other one has",
    "docid1": "the name of the earlier document",
    "docid2": "the name of the later document",
    "timestamp": f"the time of the document, {_TIME}",
    "var1": _VARIABLE,
    "var2": _VARIABLE,
    "node": _NODE,
    "node1": _NODE,
    "node2": _NODE,
    "strVal": "the string value of the node",
    "template": "the number of the template of its joins; 0 without one",
    "qid": "the row of the template, shared by subscriptions with the same joins",
    "op": "the operator: JOIN, FOLLOWED BY",
    "wl": "the length of the window in microseconds",
}
"""The meaning of each column: by `relation.column`, or by its name where all relations agree."""

_NUMBERED = ("var", "node")  # templates have as many of these as they have variables


def meaning(relation: str, column: str) -> str:
    """Return the meaning of a column of a relation, empty for one that is not known."""
    plain = column.rstrip("0123456789")
    name = f"{plain}1" if plain in _NUMBERED else column
    return COLUMNS.get(f"{relation}.{column}") or COLUMNS.get(name, "")
