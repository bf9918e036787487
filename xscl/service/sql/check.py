"""Static check that a query is one SELECT over public relations.

It walks the parse tree of DuckDB itself (`json_serialize_sql`), so that check and execution cannot
disagree about a text.  Unknown node types are refused (an allow-list).  The check serves clear
error messages.  Isolation does not depend on it: the child has process limits and locked settings,
and its snapshot contains only rows that the user may see.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from xscl.service.sql.errors import (
    NotAllowed,
    NotSelect,
    QueryRefused,
    QueryTooLong,
    UnknownRelation,
)

_QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_TABLES = {
    "BASE_TABLE",
    "SUBQUERY",
    "JOIN",
    "TABLE_FUNCTION",
    "EXPRESSION_LIST",
    "EMPTY",
    "PIVOT",
    "CTE",
}
_TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "json_each", "json_tree", "repeat_row"}
_FORBIDDEN = re.compile(
    r"current_(setting|user|role|query|query_id|connection_id|transaction_id|schemas?|catalog"
    r"|database)|(session_)?user|getenv|getvariable|(next|curr|set)val|pg_\w+|has_\w+_privilege"
    r"|inet_\w+|\w+_description|json_(de)?serialize_\w+|json_execute\w*|write_log|version"
    r"|in_search_path|txid_current|parse_duckdb_log_message|__internal\w+|duckdb_\w+|pragma_\w+"
)
_RESERVED = re.compile(r"(duckdb|pragma|sqlite|pg|information|kept|state)(_.*)?")

_SELECT = "only one SELECT statement can be run here"
_READ_ONLY = "the relations are read-only"
_LIST = "the relation 'relations' lists what there is, with all columns"


def check(question: str, tree: str, known: Collection[str]) -> frozenset[str]:
    """Return the relations that a query reads, in lower case; raises QueryRefused.

    `tree` is the result of DuckDB's `json_serialize_sql`, `known` are the public relations.
    """
    try:
        parsed = json.loads(tree)
    except RecursionError:
        raise QueryTooLong("the question is nested too deeply") from None
    if parsed["error"]:
        raise _unparsed(question, parsed)
    statements = parsed["statements"]
    if len(statements) != 1:
        raise NotSelect(_SELECT, hint="there is none" if not statements else _READ_ONLY)
    nodes = list(_walk(statements[0]))
    named = {
        str(entry["key"]).lower()
        for node in nodes
        for entry in (node.get("cte_map") or {"map": ()})["map"]
    }
    for name in named:
        if _RESERVED.fullmatch(name):
            raise NotAllowed(f"{name!r} cannot name a part of a question", hint="use another name")
    public = {name.lower(): name for name in known}
    read: set[str] = set()
    for node in nodes:
        _check_node(question, node)
        if "class" not in node and node.get("type") == "BASE_TABLE":
            name = _table(question, node)
            if name in named and name not in public:
                continue
            if name not in public:
                raise _unknown(question, node, public.values())
            read.add(name)
    return frozenset(read)


def _walk(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a tree, without recursion."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def _check_node(question: str, node: dict[str, Any]) -> None:
    kind = str(node.get("type", ""))
    name = node.get("function_name")
    if isinstance(name, str) and _FORBIDDEN.fullmatch(name.lower()):
        raise _at(NotAllowed, question, node, f"the function {name!r} cannot be used here")
    if "class" in node:
        if node["class"] == "PARAMETER":
            raise _at(NotSelect, question, node, "a question has no parameters", "write the value")
    elif kind.endswith("_NODE"):
        if kind not in _QUERIES:
            raise NotSelect(_SELECT, hint=_READ_ONLY)
    elif "sample" in node and "alias" in node:
        if kind not in _TABLES:
            raise _at(NotAllowed, question, node, "only relations can be asked for here", _LIST)
        if kind == "TABLE_FUNCTION":
            called = str(node["function"].get("function_name", ""))
            if called.lower() not in _TABLE_FUNCTIONS:
                raise _at(
                    *(NotAllowed, question, node),
                    f"{called!r} cannot be read from: only relations, "
                    f"{', '.join(sorted(_TABLE_FUNCTIONS))}",
                    _LIST,
                )


def _table(question: str, node: dict[str, Any]) -> str:
    """Return the name of a relation that is read."""
    path = node.get("qualified_name", {}).get("path") or [node["table_name"]]
    if len(path) != 1 or node.get("schema_name") or node.get("catalog_name"):
        raise _at(
            *(NotAllowed, question, node),
            f"{'.'.join(map(str, path))!r} cannot be asked for: relations have plain names",
            _LIST,
        )
    return str(path[0]).lower()


def _unknown(question: str, node: dict[str, Any], known: Collection[str]) -> QueryRefused:
    name = str(node["table_name"])
    lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), lower, n=3)
    hint = f"did you mean {' or '.join(lower[one] for one in near)}?" if near else _LIST
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    return _at(UnknownRelation, question, node, f"there is no relation {shown!r}", hint)


def _unparsed(question: str, parsed: dict[str, Any]) -> QueryRefused:
    """Return the error of a query that DuckDB cannot parse, or that is no SELECT."""
    message = str(parsed.get("error_message", ""))
    if parsed.get("error_type") == "not implemented":
        return NotSelect(_SELECT, hint=_READ_ONLY)
    if "depth limit" in message:
        return QueryTooLong("the question is nested too deeply")
    place = str(parsed.get("position", ""))
    if place.isdigit():
        return QueryRefused.at(int(place), question, message)
    return QueryRefused(message)


def _at(
    kind: type[QueryRefused],
    question: str,
    node: dict[str, Any],
    message: str,
    hint: str | None = None,
) -> QueryRefused:
    place = node.get("query_location", -1)
    if isinstance(place, int) and 0 <= place <= len(question) * 4:
        return kind.at(place, question, message, hint)
    return kind(message, hint=hint)
