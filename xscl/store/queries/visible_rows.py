"""The rows that a user may see in SQL: those of a snapshot, as Arrow tables.

Streams and subscriptions of the account 7 are called `_7.name` in the store, and `name` in his
rows.  A name without the prefix of an owner is public.  The operator sees everything under the
names of the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.queries.analysis import answers
from xscl.store.queries.owners import OPERATOR
from xscl.store.store import Store

_NOBODYS = "coalesce(stream, '_0.')"
"""The stream of a rejected document; without one, a name that no user can see."""

_STORIES = {
    "story": "id, key, root, began, last",
    "story_document": "doc, story, position",
}
"""The columns of stories, whose keys begin with the prefix of the owner."""


def visible_rows(store: Store, number: int) -> dict[str, pa.Table]:
    """Return the rows that an account may see, by table.

    These are documents with their dependent rows, subscriptions and results.
    """
    streams, where = "streams", ""
    results = "SELECT position, qid, doc1, doc2 FROM state.result r"
    if number != OPERATOR:
        seen = f"list_filter(streams, lambda s: {_visible('s', number)})"
        streams = f"list_transform({seen}, lambda s: {_shown('s', number)})"
        where = f" WHERE len({seen}) > 0"
        # Users with equal queries share results; each sees those since he subscribed.
        versions = "name, qid, since, after, until"
        results += (
            " WHERE EXISTS (SELECT 1 FROM"
            f" (SELECT {versions} FROM state.subscription"
            f" UNION ALL SELECT {versions} FROM state.retired) s WHERE"
            f" {_own('s.name', number)} AND s.qid = r.qid AND doc1 >= s.since AND doc2 >= s.since"
            " AND r.position > s.after AND r.position <= coalesce(s.until, r.position))"
        )
    asked = {
        "document": (
            f"SELECT doc, {_called('id', number)} AS id, given, {streams} AS streams, ts, clock,"
            f" first, version, history, origin, rank FROM state.document{where}"
        ),
        **{
            table: (
                "SELECT number, name, query, template, qid, since, is_distinct, updates, publish,"
                f" reads, language, version, after, until, key, stories FROM state.{table}"
                f" WHERE {_own('name', number)} ORDER BY number"
            )
            for table in ("subscription", "retired")
        },
        "result": results,
        "composite": (
            "SELECT doc, docs, bases, start, ts, first, version FROM state.composite WHERE doc IN"
            f" (SELECT doc1 FROM ({results}) UNION SELECT doc2 FROM ({results}))"
        ),
        "rejected": (
            f"SELECT {_shown('stream', number)} AS stream, id, reason, line,"
            ' "column", message, clock, sha256, beginning FROM state.rejected'
            f" WHERE {_visible(_NOBODYS, number)}"
        ),
        **{
            table: f"SELECT {columns} FROM state.{table} WHERE {_own('key', number)}"
            for table, columns in _STORIES.items()
        },
        "feed": (f"SELECT key, title, given_title FROM state.feed WHERE {_visible('key', number)}"),
        "late": "SELECT doc, missed, watermark, lateness FROM state.late",
        "progress": "SELECT clock FROM state.progress",
    }
    return answers(store, asked)


def join_state(
    state: Mapping[str, pa.Table], documents: pa.Table, pairs: Collection[int] | None
) -> dict[str, pa.Table]:
    """Return the join state of some documents and pairs of variables by table.

    It is all of `state` if `pairs` is None.
    """
    bindings, times, values = (state[name] for name in ("binding", "times", "value"))
    times = times.select(["doc", "ts"])
    if pairs is not None:
        of_pairs = bindings.filter(pc.is_in(bindings["pair"], pa.array(sorted(pairs), pa.int32())))
        bindings = of_pairs.filter(pc.is_in(of_pairs["doc"], documents["doc"]))
        times = times.filter(pc.is_in(times["doc"], bindings["doc"]))
        values = values.filter(pc.is_in(values["key"], of_pairs["key"]))
    return {"binding": bindings, "times": times, "value": values}


def template_graphs(store: Store) -> pa.Table:
    """Return the graph of each template by its number, in their order."""
    return store.arrow("SELECT id, graph FROM state.template ORDER BY id")


# -- Conditions ----------------------------------------------------------------------------
# In the SQL of DuckDB: what `own_condition` returns takes five times as long for many documents.


def _visible(stream: str, number: int) -> str:
    """Return the SQL condition that an account sees a stream."""
    if number == OPERATOR:
        return "true"
    return f"({_own(stream, number)} OR NOT regexp_matches({stream}, '^_[0-9]+\\.'))"


def _own(name: str, number: int) -> str:
    """Return the SQL condition that a name belongs to an account."""
    return "true" if number == OPERATOR else f"starts_with({name}, '_{number}.')"


def _shown(name: str, number: int) -> str:
    """Return SQL for a name without the prefix of the account."""
    if number == OPERATOR:
        return name
    length = len(f"_{number}.")
    return f"(CASE WHEN {_own(name, number)} THEN {name}[{length + 1}:] ELSE {name} END)"


def _called(name: str, number: int) -> str:
    """Return SQL for the account's name of a document (`xscl.service.accounts.Account.named`)."""
    if number == OPERATOR:
        return name
    hidden = f"SELECT name FROM state.owned_stream WHERE account = {int(number)}"
    return (
        f"(CASE WHEN contains({name}, '/') AND split_part({name}, '/', 1) IN ({hidden})"
        f" THEN '_0.' || {name} ELSE {_shown(name, number)} END)"
    )
