"""`xscl import`: many subscriptions at once, from a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from xscl.cli.options import DATA, Data, Json, Token, Url, home
from xscl.cli.output import Misuse, say, say_json, tracked
from xscl.cli.remote import Refused, Remote, reached
from xscl.cli.rows import Row, read_rows, refuse_bare
from xscl.engine import Engine
from xscl.errors import NameTaken, QueryError, XsclError
from xscl.following import prepare
from xscl.service.names import BadName, refuse_unaddressable

PART = 2_000
"""Rows that are registered together, all or none."""


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or JSON lines; - is standard input.")
    ],
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Subscribe to all queries of a file: CSV with the columns name,query, or JSON lines.

    A row {"name": ..., "query": ...} may have "updates", too. Rows that are
    there already, with the same query, change nothing. All rows are read
    before the first one is registered; 2,000 at a time are, all or none.

    \b
    Example:
      xscl import subscriptions.csv
    """
    rows = read_rows(file)
    _refuse_names(rows)
    service = reached(data, url, token)
    if service is not None:
        with service:
            new = _send(service, rows)
    else:
        at = home(data)
        with at.hold("import"), Engine(at.database) as engine:
            prepare(engine)
            new = _take(engine, rows)
    if as_json:
        say_json({"new": new, "unchanged": len(rows) - new})
    else:
        say(f"{new} new subscriptions, {len(rows) - new} were there already")


def _refuse_names(rows: Sequence[Row]) -> None:
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        _refuse_name(number, row.name)
        if row.name in seen:
            raise Misuse(f"row {number}: the name {row.name!r} is in row {seen[row.name]}, too")
        seen[row.name] = number


def _refuse_name(number: int, name: str) -> None:
    try:
        refuse_unaddressable(name)
    except BadName as error:
        raise Misuse(f"row {number}: {error.message}", hint=error.hint) from None


def _parts(rows: Sequence[Row]) -> Iterator[tuple[int, list[Row]]]:
    """Yield rows that are registered together, with the number of those before them."""
    part: list[Row] = []
    done = 0
    for row in tracked(rows, "subscribing", len(rows), quiet=not sys.stderr.isatty()):
        if part and (len(part) >= PART or part[0].updates != row.updates):
            yield done, part
            done += len(part)
            part = []
        part.append(row)
    if part:
        yield done, part


def _send(service: Remote, rows: Sequence[Row]) -> int:
    """Register rows with a service, and return how many are new."""
    new = 0
    for done, part in _parts(rows):
        lines = ({"name": one.name, "query": one.query, "updates": one.updates} for one in part)
        body = "".join(json.dumps(line) + "\n" for line in lines)
        try:
            answer = service.ask(
                "POST",
                "/v1/subscriptions:import",
                content=body.encode(),
                headers={"Content-Type": "application/jsonl"},
            )
        except XsclError as error:
            if error.row is None:
                raise
            raise _wrong(done, part, error) from None
        new += int(answer.json()["new"])
    return new


def _take(engine: Engine, rows: Sequence[Row]) -> int:
    """Register rows with an engine, and return how many are new."""
    new = 0
    for done, part in _parts(rows):
        fresh = []
        for number, row in enumerate(part, 1):
            try:
                if _is_fresh(engine, row):
                    fresh.append((number, row))
            except XsclError as error:
                error.row = number
                raise _wrong(done, part, error) from None
        pairs = [(row.name, row.query) for _, row in fresh]
        try:
            engine.subscribe_many(pairs, updates=part[0].updates)
        except XsclError as error:
            if error.row is None:
                raise
            error.row = fresh[error.row - 1][0]
            raise _wrong(done, part, error) from None
        new += len(fresh)
    return new


def _is_fresh(engine: Engine, row: Row) -> bool:
    """Return whether a row is to be registered; raises what stands against it."""
    refuse_bare(row.query)
    found = engine.subscription(row.name)
    if found is not None and (found.query, found.updates) != (row.query, row.updates):
        raise NameTaken(f"there is a subscription named {row.name!r} already, with another query")
    return found is None


def _wrong(done: int, part: Sequence[Row], error: XsclError) -> XsclError:
    """Return an error with the number of its row in the file, at its place in that row's query."""
    assert error.row is not None
    number = done + error.row
    told = f"row {number}: {error.message}"
    hint = error.hint
    if done:
        hint = f"{hint}; " if hint else ""
        hint += f"the first {done} rows are registered, and change nothing when they come again"
    match error:
        case (
            QueryError(line=int(line), column=int(column))
            | Refused(line=int(line), column=int(column))
        ):
            return QueryError(told, part[error.row - 1].query, line, column, hint)
        case NameTaken():
            return NameTaken(told, hint=hint)
        case _:
            return XsclError(told, hint=hint)
