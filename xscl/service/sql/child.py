"""A child of the fork server: checks one query, runs it and exits.

Before it parses the query it sets its limits: a timer that kills it, CPU time, memory, no file
writes, no network.  DuckDB's settings are locked and give it access to nothing but its own memory.

`check` walks the parse tree of DuckDB itself (`json_serialize_sql`), so that check and execution
cannot disagree about a text.  Unknown node types are refused (an allow-list).  The check is there
for clear error messages.  Isolation does not depend on it: the child has process limits and locked
settings, and its snapshot contains only rows that the user may see.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from templates.registry import graph_of
from xscl.errors import near_miss
from xscl.service.sql import errors
from xscl.service.sql.formats import written
from xscl.service.sql.limits import BEGUN, Form, Limits
from xscl.service.sql.snapshot_file import read
from xscl.store.queries.analysis import tables_of
from xscl.store.queries.relations import (
    LENT,
    PUBLIC,
    RELATION_OF_RELATIONS,
    kept_public,
    known_relations,
    names_of_template,
    no_output,
    relations_for,
)

_DESCRIBED = 20  # maximum number of templates whose relations `relations` lists with columns
_NICE = 10
_NO_MEMORY = "the question needs more memory than there is for one"
_CLONE_NEWNET, _CLONE_NEWUSER = 0x40000000, 0x10000000


def answer(channel: socket.socket, snapshot: int) -> None:
    """Read a query from a channel, run it on the file `snapshot` (a descriptor) and answer."""
    began, connection = time.monotonic(), _connect()
    with channel.makefile("rb") as file:
        request = json.loads(file.readline())
    limits = Limits(**request["limits"])
    channel.sendall(BEGUN)
    _limit(limits)
    try:
        head, body = _answered(connection, request, limits, snapshot)
        head["seconds"] = round(time.monotonic() - began, 4)
    except errors.QueryRefused as error:
        head, body = {"error": errors.as_data(error)}, b""
    except MemoryError:
        head, body = {"error": errors.as_data(errors.TooLarge(_NO_MEMORY))}, b""
    except Exception as error:  # an internal error, which the service logs
        head, body = {"failed": f"{type(error).__name__}: {error}"}, b""
    channel.sendall(json.dumps(head).encode() + b"\n" + body)
    channel.shutdown(socket.SHUT_WR)


def _limit(limits: Limits) -> None:
    """Set resource limits; a timer kills the process after `seconds` and `grace`."""
    # The default action of SIGALRM kills the process, even inside native code.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + limits.grace)
    seconds = int(limits.seconds + limits.grace) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    memory = _data() + limits.memory
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(kind, (0, 0))
    os.nice(_NICE)
    # A network namespace without interfaces, if the kernel permits unprivileged ones.
    ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER | _CLONE_NEWNET)


def _data() -> int:
    """Return the size in bytes of this process's data segment (VmData)."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0


def _answered(
    connection: duckdb.DuckDBPyConnection,
    request: Mapping[str, Any],
    limits: Limits,
    snapshot: int,
) -> tuple[dict[str, Any], bytes]:
    question, form = str(request["question"]), Form(request["form"])
    mapped = mmap.mmap(snapshot, 0, access=mmap.ACCESS_READ)  # mapped until the child exits
    tables = read(pa.py_buffer(mapped))
    connection.execute(f"SET memory_limit = '{3 * limits.memory // 4 >> 20} MiB'")
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?)", [question]).fetchall()
    used = check(question, tree, _public(tables))
    if len(duckdb.extract_statements(question)) != 1:
        raise errors.NotSelect(_SELECT)
    _create_relations(connection, tables, used)
    connection.execute("SET lock_configuration = true")
    try:
        relation = connection.sql(question)
        names, types = relation.columns, [str(kind) for kind in relation.types]
        if len(names) > limits.columns:
            raise errors.TooLarge(f"{len(names):,} columns are more than {limits.columns:,}")
        found = written(relation, form, int(request["rows"]), limits.size)
        columns = list(zip(names, types, strict=True))
        head = {"columns": columns, "count": found.count, "truncated": found.truncated}
        return head, found.body
    except (duckdb.Error, OSError) as error:  # OSError: rows pass through Arrow
        raise _user_error(question, error) from None


def _connect() -> duckdb.DuckDBPyConnection:
    """Return a connection to an in-memory database without external access."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "async_threads": 0,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_unsigned_extensions": False,
            "allow_persistent_secrets": False,
            "python_enable_replacements": False,
        },
    )
    connection.execute("SET enable_external_access = false; SET TimeZone = 'UTC'")
    # Loads the JSON functions before the limits are set.
    connection.execute("SELECT json_serialize_sql('SELECT 1')").fetchall()
    return connection


def _public(tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """Return the descriptions of all relations that users may query, by name."""
    found = {**PUBLIC, RELATION_OF_RELATIONS.name: RELATION_OF_RELATIONS.what}
    for number in tables["template"]["id"].to_pylist():
        found |= names_of_template(number)
    return found


def _create_relations(
    connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table], used: frozenset[str]
) -> None:
    """Create the views `used`, which a query reads, and register the tables that they need."""
    tells_of_all = "relations" in used
    described = range(1, _DESCRIBED + 1) if tells_of_all else ()
    graphs = {
        row["id"]: graph_of(row["graph"])
        for row in tables["template"].to_pylist()
        if row["id"] in described or used & {f"r_t_{row['id']}", f"r_out_{row['id']}"}
    }
    known = known_relations(graphs)
    views = [*known, RELATION_OF_RELATIONS] if tells_of_all else relations_for(used, known)
    if tells_of_all:
        connection.register("kept_public", kept_public(_public(tables)))
    for number, graph in graphs.items():
        connection.register(f"out_{number}", tables.get(f"out_{number}", no_output(graph)))
    stored = {table for view in views for table in tables_of(view.query)}
    connection.execute("CREATE SCHEMA state")
    for name, table in tables.items():
        if name in LENT:
            connection.register(name, table)
        elif name in stored:
            connection.register(f"kept_{name}", table)
            connection.execute(f'CREATE VIEW state."{name}" AS FROM "kept_{name}"')
    for view in views:
        connection.execute(view.view)


def _user_error(question: str, error: duckdb.Error | OSError) -> errors.QueryRefused:
    """Return the error that the user gets for an error of DuckDB."""
    lines = str(error).splitlines() or [type(error).__name__]
    message = lines[0]
    if message.startswith("Out of Memory Error"):
        return errors.TooLarge(_NO_MEMORY)
    if "xpression depth" in message or "recursion" in message.lower():
        return errors.TooLarge("the question is nested too deeply")
    message = message.removeprefix("Error: ")
    hint = next((line for line in lines[1:] if line.startswith(("Candidate", "Did you"))), None)
    return errors.QueryRefused(message, hint=hint)


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
        raise errors.QueryTooLong("the question is nested too deeply") from None
    if parsed["error"]:
        raise _unparsed(question, parsed)
    statements = parsed["statements"]
    if len(statements) != 1:
        raise errors.NotSelect(_SELECT, hint="there is none" if not statements else _READ_ONLY)
    nodes = list(_walk(statements[0]))
    named = {
        str(entry["key"]).lower()
        for node in nodes
        for entry in (node.get("cte_map") or {"map": ()})["map"]
    }
    for name in named:
        if _RESERVED.fullmatch(name):
            raise errors.NotAllowed(
                f"{name!r} cannot name a part of a question", hint="use another name"
            )
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
        raise _at(errors.NotAllowed, question, node, f"the function {name!r} cannot be used here")
    if "class" in node:
        if node["class"] == "PARAMETER":
            raise _at(
                errors.NotSelect, question, node, "a question has no parameters", "write the value"
            )
    elif kind.endswith("_NODE"):
        if kind not in _QUERIES:
            raise errors.NotSelect(_SELECT, hint=_READ_ONLY)
    elif "sample" in node and "alias" in node:
        if kind not in _TABLES:
            raise _at(
                errors.NotAllowed, question, node, "only relations can be asked for here", _LIST
            )
        if kind == "TABLE_FUNCTION":
            called = str(node["function"].get("function_name", ""))
            if called.lower() not in _TABLE_FUNCTIONS:
                raise _at(
                    *(errors.NotAllowed, question, node),
                    f"{called!r} cannot be read from: only relations, "
                    f"{', '.join(sorted(_TABLE_FUNCTIONS))}",
                    _LIST,
                )


def _table(question: str, node: dict[str, Any]) -> str:
    """Return the relation that a node reads, in lower case; raises for a qualified name."""
    path = node.get("qualified_name", {}).get("path") or [node["table_name"]]
    if len(path) != 1 or node.get("schema_name") or node.get("catalog_name"):
        raise _at(
            *(errors.NotAllowed, question, node),
            f"{'.'.join(map(str, path))!r} cannot be asked for: relations have plain names",
            _LIST,
        )
    return str(path[0]).lower()


def _unknown(question: str, node: dict[str, Any], known: Collection[str]) -> errors.QueryRefused:
    name = str(node["table_name"])
    hint = near_miss(name, known, most=3) or _LIST
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    return _at(errors.UnknownRelation, question, node, f"there is no relation {shown!r}", hint)


def _unparsed(question: str, parsed: dict[str, Any]) -> errors.QueryRefused:
    """Return the error of a query that DuckDB cannot parse, or that is no SELECT."""
    message = str(parsed.get("error_message", ""))
    if parsed.get("error_type") == "not implemented":
        return errors.NotSelect(_SELECT, hint=_READ_ONLY)
    if "depth limit" in message:
        return errors.QueryTooLong("the question is nested too deeply")
    place = str(parsed.get("position", ""))
    if place.isdigit():
        return errors.QueryRefused.at(int(place), question, message)
    return errors.QueryRefused(message)


def _at(
    kind: type[errors.QueryRefused],
    question: str,
    node: dict[str, Any],
    message: str,
    hint: str | None = None,
) -> errors.QueryRefused:
    place = node.get("query_location", -1)
    if isinstance(place, int) and 0 <= place <= len(question) * 4:
        return kind.at(place, question, message, hint)
    return kind(message, hint=hint)
