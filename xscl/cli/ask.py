"""`xscl try` and `xscl why`: what a query would have matched, and why some documents do or do not.

Both ask the documents that are kept; nothing is registered, nothing changes.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from xscl.cli.options import DATA, Data, Json, home
from xscl.cli.output import complain, say, say_json
from xscl.cli.queries import query_text, refuse_bare_duration
from xscl.cli.run import WRITERS, Format
from xscl.engine import Engine
from xscl.language.windows import refuse_bare_windows
from xscl.witness import spooled


def try_query(
    query: Annotated[
        str, typer.Argument(metavar="NAME|QUERY|@FILE", help="A subscription, or a query.")
    ],
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="How far back to begin: 7d, '12 h'."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How to write matches.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
    data: Data = DATA,
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
    place = home(data)
    place.expect()
    write = WRITERS[Format.JSONL if as_json else form]
    with place.hold("try"), Engine(place.database) as engine:
        _refuse_bare_windows(engine, text)
        found = engine.try_query(text, since)
        for match in found:
            write(match)
    if not found:
        complain("no match among the kept documents")


def why(
    query: Annotated[
        str, typer.Argument(metavar="NAME|QUERY|@FILE", help="A subscription, or a query.")
    ],
    documents: Annotated[
        list[str],
        typer.Argument(metavar="DOC...", help="A document for each block; - for none."),
    ],
    as_json: Json = False,
    data: Data = DATA,
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
    place = home(data)
    place.expect()
    with place.hold("why"), Engine(place.database) as engine:
        _refuse_bare_windows(engine, text)
        answer = engine.why(text, *documents, read=partial(spooled, engine, directory=place.spool))
    if as_json:
        say_json(answer.as_dict())
    else:
        for line in answer.lines():
            say(line)


def _refuse_bare_windows(engine: Engine, text: str) -> None:
    """Raise for a window without a unit in a query that is not a subscription's name."""
    if "{" in text and all(one.name != text for one in engine.subscriptions):
        refuse_bare_windows(text)
