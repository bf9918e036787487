"""`xscl try` and `xscl why`: what a query would have matched, and why some documents do or do not.

Both ask the documents that are kept; nothing is registered, nothing changes.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from xscl.cli.naming import subscriptions_like
from xscl.cli.options import DATA, Data, Json, Token, Url, home
from xscl.cli.output import complain, say, say_json
from xscl.cli.queries import (
    is_word,
    query_text,
    refuse_bare_duration,
    tell_unknown_word,
    tell_word,
)
from xscl.cli.remote import PAGE, Refused, Remote, reached
from xscl.cli.run import WRITERS, Format
from xscl.cli.told import Told
from xscl.engine import Engine
from xscl.errors import UnknownSubscription
from xscl.language.windows import refuse_bare_windows
from xscl.why import Edge, Why
from xscl.witness import spooled

_LONGEST_NAME = 500  # that a service takes


def try_query(
    query: Annotated[
        str,
        typer.Argument(
            metavar="NAME|QUERY|@FILE",
            help="A subscription, or a query.",
            autocompletion=subscriptions_like,
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="How far back to begin: 7d, '12 h'."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How to write matches.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
) -> None:
    """Print what a query would have matched on the kept documents, without registering it.

    Kept are all documents of the last 30 days (serve --history), and what
    subscriptions need. --since counts back from the latest document.

    \b
    Example:
      xscl try 'feeds//item->a[./title->t] JOIN{t=u, 2 d} feeds//item->b[./title->u]' --since 7d
    """
    text = query_text(query)
    refuse_bare_duration(since)
    write = WRITERS[Format.JSONL if as_json else form]
    service = reached(data, url, token)
    if service is not None:
        with service:
            total, shown = _tried(service, text, since)
            for one in shown:
                write(one)
    else:
        place = home(data)
        place.expect()
        with place.hold("try"), Engine(place.database) as engine:
            _refuse_bare_windows(engine, text)
            tell_unknown_word(engine, text)
            found = engine.try_query(text, since)
            total = len(found)
            for match in found:
                write(match)
    if not total:
        complain("no match among the kept documents")


def _tried(service: Remote, text: str, since: str | None) -> tuple[int, list[Told]]:
    """Return how many matches there would be, and those that a service tells."""
    answer = of_named(service, "/v1/try", text, since=since, limit=PAGE)
    shown = [Told(one) for one in answer["matches"]]
    total = int(answer["total"])
    if len(shown) < total:
        complain(f"these are the first {len(shown)} of {total} matches: --since makes them fewer")
    return total, shown


def of_named(service: Remote, path: str, text: str, **more: Any) -> Any:
    """Return an answer about the subscription of a name or else about a query."""
    if len(text) <= _LONGEST_NAME:
        try:
            return service.ask("POST", path, json={"subscription": text, **more}).json()
        except Refused as error:
            if error.problem != UnknownSubscription.code:
                raise
            if is_word(text) and all(
                one["name"] != text.strip() for one in service.all_of("/v1/streams")
            ):
                tell_word(text)
    return service.ask("POST", path, json={"query": text, **more}, source=text).json()


def why(
    query: Annotated[
        str,
        typer.Argument(
            metavar="NAME|QUERY|@FILE",
            help="A subscription, or a query.",
            autocompletion=subscriptions_like,
        ),
    ],
    documents: Annotated[
        list[str],
        typer.Argument(metavar="DOC...", help="A document for each block; - for none."),
    ],
    as_json: Json = False,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show why a query matches some documents, or why not: all that it asks of them.

    The documents are those of the query's blocks, in their order. Each line
    is a condition: the pattern of a block, a comparison, order, window,
    registration; where it fails, with what comes nearest.

    \b
    Example:
      xscl why echo d1 d2
    """
    text = query_text(query)
    service = reached(data, url, token)
    if service is not None:
        with service:
            answer = _why(of_named(service, "/v1/why", text, documents=documents))
    else:
        place = home(data)
        place.expect()
        with place.hold("why"), Engine(place.database) as engine:
            _refuse_bare_windows(engine, text)
            tell_unknown_word(engine, text)
            read = partial(spooled, engine, directory=place.spool)
            answer = engine.why(text, *documents, read=read)
    if as_json:
        say_json(answer.as_dict())
    else:
        for line in answer.lines():
            say(line)


def _why(told: dict[str, Any]) -> Why:
    """Return an answer as it was told."""
    edges = tuple(Edge(e["kind"], e["text"], e["holds"], e["nearest"]) for e in told["edges"])
    return Why(told["query"], tuple(told["documents"]), told["matched"], edges)


def _refuse_bare_windows(engine: Engine, text: str) -> None:
    """Raise for a window without a unit in a query that is not a subscription's name."""
    if "{" in text and all(one.name != text for one in engine.subscriptions):
        refuse_bare_windows(text)
