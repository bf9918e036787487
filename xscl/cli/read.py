"""`xscl matches`, `sql`, `explain`, `witness`, `status`: looking at what is there."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from xscl.cli.answers import write_answer
from xscl.cli.ask import of_named
from xscl.cli.naming import subscriptions_like, told_unknown
from xscl.cli.options import DATA, Data, Json, Token, Url, home
from xscl.cli.output import complain, match_row, match_text, say, say_json
from xscl.cli.queries import query_text, tell_unknown_word
from xscl.cli.remote import PAGE, Refused, Remote, place, reached
from xscl.cli.told import Told
from xscl.compile import compile_query
from xscl.drawing import draw_query
from xscl.engine import Engine
from xscl.errors import SqlError, UnknownSubscription, XsclError
from xscl.feedtables import create_tables
from xscl.home import SERVICE, HomeError
from xscl.match import Match
from xscl.results import XSCL
from xscl.status import Status
from xscl.status import status as figures
from xscl.time_format import ticks_of_time
from xscl.witness import Row, Witness
from xscl.witness import witness as witnesses


class Format(StrEnum):
    """How a table is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def matches(
    name: Annotated[
        str, typer.Argument(help="The name of a subscription.", autocompletion=subscriptions_like)
    ],
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Only those after this match.")
    ] = None,
    as_json: Json = False,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
) -> None:
    """List the matches of a subscription that are kept, in the order in which they were found.

    Those among the items that feeds held when they were first polled are
    there, too. With --json there is one match a line, with its id as "match".

    \b
    Example:
      xscl matches echo --json
    """
    service = reached(data, url, token)
    if service is not None:
        with service, told_unknown(service, name):
            _list(_after(_told(service, name), after), as_json)
        return
    at = home(data)
    at.expect()
    with at.hold("matches"), Engine(at.database) as engine:
        _list(_after(_matches_of(engine, name), after), as_json)


def _list(found: Iterator[Match] | Iterator[Told], as_json: bool) -> None:
    for match in found:
        if as_json:
            say_json(match_row(match))
        else:
            say(f"match {match.id}")
            for line in match_text(match):
                say(line)


def _told(service: Remote, name: str) -> Iterator[Told]:
    """Yield the matches of a subscription as a service tells them, the oldest first."""
    path, after = place("subscriptions", name, "matches"), 0
    while True:
        page = service.get(path, after=after, limit=PAGE)
        yield from map(Told, page["matches"])
        if page["next"] is None:
            return
        after = int(parse_qs(page["next"])["after"][0])


def _matches_of(engine: Engine, name: str) -> Iterator[Match]:
    names = [one.name for one in engine.subscriptions]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise UnknownSubscription(
            f"there is no subscription named {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else "'xscl subscriptions' lists them",
        )
    return (match for match in engine.matches() if match.subscription == name)


T = TypeVar("T", Match, Told)


def _after(found: Iterator[T], after: str | None) -> Iterator[T]:
    """Yield the matches after one; raise if that one is not there."""
    if after is None:
        yield from found
        return
    if not any(match.id == after for match in found):  # takes all up to that one
        raise XsclError(
            f"the subscription has no match {after!r}, or not any more",
            hint="without --after all that are kept are listed",
        )
    yield from found


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
    url: Url = None,
    token: Token = None,
) -> None:
    """Run one SELECT over the witness relations and all other public tables.

    CSV is written as RFC 4180 has it: lines end in CR and LF.

    \b
    Example:
      xscl sql 'SELECT * FROM R_bin LIMIT 5' --format csv
    """
    chosen = Format.JSON if as_json else form
    text = query_text(query)
    service = reached(data, url, token)
    if service is not None:
        with service:
            answer = _asked(service, text)
    else:
        at = home(data)
        at.expect()
        with at.hold("sql"), Engine(at.database) as engine:
            try:
                answer = engine.sql(text)
            except SqlError as error:
                raise SqlError(error.message, hint=_near(engine, error.message)) from None
    write_answer(answer, chosen.value, output)


_ROWS = 100_000  # that a service answers at most


def _asked(service: Remote, text: str) -> pa.Table:
    """Return what a service answers, the same values as the data directory has."""
    wanted = {"query": text, "format": "parquet", "rows": _ROWS}
    answer = service.ask("POST", "/v1/sql", json=wanted)
    found = pq.read_table(pa.BufferReader(answer.content))
    if answer.headers.get("xscl-truncated") == "true":
        complain(f"these are the first {found.num_rows} rows; a service answers with no more")
    return found


def _near(engine: Engine, message: str) -> str | None:
    """Return a hint about the relations that there are, if one was asked for that is not."""
    unknown = re.search(r"Table with name (\S+) does not exist", message)
    if unknown is None:
        return None
    rows = engine.sql("SELECT view_name AS name FROM duckdb_views() WHERE NOT internal").to_pylist()
    names = {str(row["name"]).lower(): str(row["name"]) for row in rows}
    near = difflib.get_close_matches(unknown[1].lower(), names, n=3)
    if near:
        return f"did you mean {' or '.join(names[one] for one in near)}?"
    return f"such as {', '.join(_OFTEN)}; 'SELECT view_name FROM duckdb_views()' lists them"


_OFTEN = ("documents", "subscriptions", "watermarks", "late", "rejected", "R_doc", "R_bin")


def explain(
    query: Annotated[
        str,
        typer.Argument(
            metavar="NAME|QUERY|@FILE",
            help="A subscription, or a query.",
            autocompletion=subscriptions_like,
        ),
    ],
    show_sql: Annotated[bool, typer.Option("--sql", help="Show the template's SQL.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the join graph to this file.")
    ] = None,
    as_json: Json = False,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show how a query is evaluated: join graph, template, sharing, windows, state kept.

    \b
    Example:
      xscl explain echo --sql
    """
    text = query_text(query)
    at = home(data)
    service = reached(data, url, token)
    if service is not None:
        with service:
            answer = str(of_named(service, "/v1/explain", text, sql=show_sql)["text"])
            drawn = text if svg is None else _query_of(service, text)
    elif at.exists():
        with at.hold("explain"), Engine(at.database) as engine:
            tell_unknown_word(engine, text)
            answer, drawn = engine.explain(text, sql=show_sql), _registered(engine, text)
    else:
        with Engine() as engine:
            tell_unknown_word(engine, text)
            answer, drawn = engine.explain(text, sql=show_sql), text
    if svg is not None:
        _draw(drawn, svg)
    if as_json:
        say_json({"query": text, "sql" if show_sql else "explanation": answer})
    else:
        say(answer)


def _registered(engine: Engine, text: str) -> str | None:
    """Return the query of the subscription of a name, or else the text; None if it is no XSCL."""
    named = engine.subscription(text)
    if named is None:
        return text
    return None if named.relational else named.query


def _query_of(service: Remote, text: str) -> str | None:
    """Return what `_registered` does, of a service."""
    if "/" in text:  # a query has a path nearly always, a name that can be asked for has none
        return text
    try:
        named = service.get(place("subscriptions", text))
    except Refused as error:
        if error.problem != UnknownSubscription.code:
            raise
        return text
    return str(named["query"]) if named["language"] == XSCL else None


def _draw(query: str | None, file: Path) -> None:
    """Write the picture of a query to a file."""
    if query is None:
        raise XsclError("only queries in XSCL are drawn", hint="leave out --svg")
    file.write_text(draw_query(compile_query(query)).svg(alone=True), "utf-8")


def witness(
    document: Annotated[str, typer.Argument(metavar="DOC", help="The id of a document.")],
    as_json: Json = False,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show a document as a tree with its node ids and which variables bind where.

    \b
    Example:
      xscl witness d1
    """
    service = reached(data, url, token)
    if service is not None:
        with service:
            found = _seen(service.get(place("documents", document, "witness", slashes=True)))
    else:
        at = home(data)
        at.expect()
        with at.hold("witness"), Engine(at.database) as engine:
            found = witnesses(engine, document, at.spool)
    if as_json:
        say_json(found.as_dict())
    else:
        for line in found.lines():
            say(line)


def _seen(told: dict[str, Any]) -> Witness:
    """Return a document's nodes as they were told."""
    rows = (
        Row(n["node"], n["depth"], n["path"], n["name"], n["text"], tuple(n["variables"]))
        for n in told["nodes"]
    )
    return Witness(told["document"], tuple(rows))


def status(as_json: Json = False, data: Data = DATA, url: Url = None, token: Token = None) -> None:
    """Show what is registered, how much came in, and what waits; also of a running service.

    \b
    Example:
      xscl status --json
    """
    written = _written(data, url, token)
    if written is not None:
        found, note = _of_service(written)
    else:
        at = home(data)
        at.expect()
        with (
            at.hold("status"),
            Engine(at.database) as engine,
            closing(engine.host.connect()) as store,
        ):
            create_tables(store)
            found, note = figures(store, at, engine), None
    if as_json:
        told = written or {}
        running, address = told.get("pid"), told.get("address")
        say_json({**found.as_dict(), "service": running, "address": address})
        return
    if note is not None:
        say(note)
    for line in found.lines():
        say(line)


def _written(data: Path, url: str | None, token: str | None) -> dict[str, Any] | None:
    """Return what a running service has last written of itself, None if there is none."""
    if url is not None:
        service = reached(data, url, token)
        assert service is not None
        with service:
            told = service.figures()
        if told is None:
            raise Refused(403, "operator_only", "the figures of a service are for its operator")
        return told
    at = home(data)
    holder = at.holder()
    if holder is None or holder.command != SERVICE:
        return None
    written = at.read_status()
    if written is None or written.get("pid") != holder.pid:
        raise HomeError(
            f"the service (process {holder.pid}) has not written its status yet",
            hint="try again soon",
        )
    return written


def _of_service(written: dict[str, Any]) -> tuple[Status, str]:
    """Return what a running service has written, and a line about the service."""
    try:
        found, then = Status.of(written), ticks_of_time(written["written"])
    except (KeyError, TypeError, AttributeError):
        raise HomeError(
            f"the service (process {written.get('pid')}) is of another release, whose status is"
            " not known here",
            hint="ask with the release that runs, or start the service anew",
        ) from None
    age = 0.0 if then is None else time.time() - then / 1e6
    where = f" at {written['address']}" if written.get("address") else ""
    note = f"service        process {written['pid']}{where}, {age:.0f} s ago"
    if stalled := written.get("stalled"):
        note += (
            f"\nconsumer       stalled: segment {stalled['segment']} waits"
            f" for {stalled['seconds']:.0f} s, and nothing was committed"
        )
    if written.get("wall_clock", "ok") != "ok":
        note += f"\nwall clock     {written['wall_clock_ahead']:+.0f} s against the service's clock"
    return found, note
