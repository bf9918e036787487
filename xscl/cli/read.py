"""`xscl sql`, `explain`, `witness`, `status`: looking at what is there."""

from __future__ import annotations

import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from xscl.cli.answers import write_answer
from xscl.cli.options import DATA, Data, Json, home
from xscl.cli.output import say, say_json
from xscl.cli.queries import query_text
from xscl.engine import Engine
from xscl.followed import create_tables
from xscl.home import SERVICE, Home, HomeError
from xscl.status import Status
from xscl.status import status as figures
from xscl.witness import witness as witnesses


class Format(StrEnum):
    """How a table is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def sql(
    query: Annotated[str, typer.Argument(metavar="SELECT|@FILE", help="One SELECT statement.")],
    form: Annotated[
        Format, typer.Option("--format", help="How to write the answer.")
    ] = Format.TABLE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file.")
    ] = None,
    as_json: Json = False,
    data: Data = DATA,
) -> None:
    """Run one SELECT over the witness relations and all other public tables.

    \b
    Example:
      xscl sql 'SELECT * FROM R_bin LIMIT 5' --format csv
    """
    place = home(data)
    place.expect()
    chosen = Format.JSON if as_json else form
    with place.hold("sql"), Engine(place.database) as engine:
        answer = engine.sql(query_text(query))
    write_answer(answer, chosen.value, output)


def explain(
    query: Annotated[
        str, typer.Argument(metavar="NAME|QUERY|@FILE", help="A subscription, or a query.")
    ],
    show_sql: Annotated[bool, typer.Option("--sql", help="Show the template's SQL.")] = False,
    as_json: Json = False,
    data: Data = DATA,
) -> None:
    """Show how a query is evaluated: join graph, template, sharing, windows, state kept.

    \b
    Example:
      xscl explain echo --sql
    """
    place = home(data)
    text = query_text(query)
    if place.exists():
        with place.hold("explain"), Engine(place.database) as engine:
            answer = engine.explain(text, sql=show_sql)
    else:
        with Engine() as engine:
            answer = engine.explain(text, sql=show_sql)
    if as_json:
        say_json({"query": text, "sql" if show_sql else "explanation": answer})
    else:
        say(answer)


def witness(
    document: Annotated[str, typer.Argument(metavar="DOC", help="The id of a document.")],
    as_json: Json = False,
    data: Data = DATA,
) -> None:
    """Show a document as a tree with its node ids and which variables bind where.

    \b
    Example:
      xscl witness d1
    """
    place = home(data)
    place.expect()
    with place.hold("witness"), Engine(place.database) as engine:
        found = witnesses(engine, document, place.spool)
    if as_json:
        say_json(found.as_dict())
    else:
        for line in found.lines():
            say(line)


def status(as_json: Json = False, data: Data = DATA) -> None:
    """Show what is registered, how much came in, and what waits; also of a running service.

    \b
    Example:
      xscl status --json
    """
    place = home(data)
    place.expect()
    holder = place.holder()
    if holder is not None and holder.command == SERVICE:
        found, note = _of_service(place, holder.pid)
    else:
        with (
            place.hold("status"),
            Engine(place.database) as engine,
            closing(engine.store()) as store,
        ):
            create_tables(store)
            found, note = figures(store, place), None
    if as_json:
        say_json({**found.as_dict(), "service": None if note is None else holder and holder.pid})
        return
    if note is not None:
        say(note)
    for line in found.lines():
        say(line)


def _of_service(place: Home, pid: int) -> tuple[Status, str]:
    """Return what the running service last wrote, and a line about the service."""
    written = place.read_status()
    if written is None or written.pop("pid", None) != pid:
        raise HomeError(
            f"the service (process {pid}) has not written its status yet", hint="try again soon"
        )
    age = time.time() - written.pop("written") / 1e6
    return Status(**written), f"service        process {pid}, {age:.0f} s ago"
