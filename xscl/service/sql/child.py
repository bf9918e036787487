"""A child of the fork server: runs one query and exits.

Before it parses the query it sets its limits: a timer that kills it, CPU time, memory, no file
writes, no network.  DuckDB's settings are locked and give it access to nothing but its own memory.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import time
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from templates.registry.registry import graph_of
from xscl.service.sql.check import check
from xscl.service.sql.errors import NotSelect, QueryRefused, TooLarge, as_data
from xscl.service.sql.formats import ResultWriter, expressions
from xscl.service.sql.limits import Form, Limits
from xscl.service.sql.snapshot import read
from xscl.store.queries.analysis import tables_of
from xscl.store.queries.relations import (
    LENT,
    PUBLIC,
    RELATION_OF_RELATIONS,
    RELATIONS,
    names_of_template,
    no_output,
    relations_for,
    relations_of_template,
)

BEGUN = b"+"
"""First byte of a response: the child has read the query."""

_BATCH = 256  # rows
_DESCRIBED = 20  # templates listed with the columns of their relations
_NICE = 10
_NO_MEMORY = "the question needs more memory than there is for one"
_CLONE_NEWNET, _CLONE_NEWUSER = 0x40000000, 0x10000000


def answer(channel: socket.socket, snapshot: int) -> None:
    """Read a query from a channel, run it and write the response."""
    began, connection = time.monotonic(), _connect()
    with channel.makefile("rb") as file:
        request = json.loads(file.readline())
    limits = Limits(**request["limits"])
    channel.sendall(BEGUN)
    _limit(limits)
    try:
        head, body = _answered(connection, request, limits, snapshot)
        head["seconds"] = round(time.monotonic() - began, 4)
    except QueryRefused as error:
        head, body = {"error": as_data(error)}, b""
    except MemoryError:
        head, body = {"error": as_data(TooLarge(_NO_MEMORY))}, b""
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
        raise NotSelect("only one SELECT statement can be run here")
    _create_relations(connection, tables, used)
    connection.execute("SET lock_configuration = true")
    try:
        return _run(connection, question, form, int(request["rows"]), limits)
    except (duckdb.Error, OSError) as error:  # the latter of rows on their way through Arrow
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
    """Return the names and descriptions of all relations."""
    found = {**PUBLIC, RELATION_OF_RELATIONS.name: RELATION_OF_RELATIONS.what}
    for number in tables["template"]["id"].to_pylist():
        found |= names_of_template(number)
    return found


def _create_relations(
    connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table], used: frozenset[str]
) -> None:
    """Create the relations that a query reads."""
    described = range(1, _DESCRIBED + 1) if "relations" in used else ()
    texts = (tables["template"][column].to_pylist() for column in ("id", "graph"))
    templates = {
        number: text
        for number, text in zip(*texts, strict=True)
        if f"r_t_{number}" in used or f"r_out_{number}" in used or number in described
    }
    if "relations" in used:
        public = _public(tables)
        names = list(public), list(public.values())
        connection.register("kept_public", pa.table(names, ("relation", "what")))
        views = list(RELATIONS)
    else:
        views = relations_for({*used, "named_pair"} if templates else used)
    for number, text in templates.items():
        graph = graph_of(text)
        views += relations_of_template(number, graph)
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
    if "relations" in used:
        connection.execute(RELATION_OF_RELATIONS.view)


def _run(
    connection: duckdb.DuckDBPyConnection, question: str, form: Form, rows: int, limits: Limits
) -> tuple[dict[str, Any], bytes]:
    relation = connection.sql(question)
    names, types = relation.columns, [str(kind) for kind in relation.types]
    if len(names) > limits.columns:
        raise TooLarge(f"{len(names):,} columns are more than {limits.columns:,}")
    reader = relation.project(expressions(types, form)).to_arrow_reader(_BATCH)
    written = ResultWriter(names, types, form, rows, limits.size)
    for batch in reader:
        if not written.take(batch):
            break
    head = {
        "columns": list(zip(names, types, strict=True)),
        "count": written.count,
        "truncated": written.truncated,
    }
    return head, written.body(reader.schema)


def _user_error(question: str, error: duckdb.Error | OSError) -> QueryRefused:
    """Map an error of DuckDB to one for the user."""
    lines = str(error).splitlines() or [type(error).__name__]
    message = lines[0]
    if message.startswith("Out of Memory Error"):
        return TooLarge(_NO_MEMORY)
    if "xpression depth" in message or "recursion" in message.lower():
        return TooLarge("the question is nested too deeply")
    message = message.removeprefix("Error: ")
    hint = next((line for line in lines[1:] if line.startswith(("Candidate", "Did you"))), None)
    return QueryRefused(message, hint=hint)
