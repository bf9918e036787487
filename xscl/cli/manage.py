"""`xscl subscribe`, `unsubscribe`, `subscriptions`."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.cli.options import DATA, Data, Json, home
from xscl.cli.output import complain, one_line, say, say_json, table
from xscl.cli.queries import (
    query_text,
    refuse_bare_duration,
    unknown_streams,
)
from xscl.engine import Engine
from xscl.following import prepare
from xscl.language.windows import refuse_bare_windows


def subscribe(
    name: Annotated[str, typer.Argument(help="The name of the subscription.")],
    query: Annotated[str, typer.Argument(metavar="QUERY|@FILE", help="The query, in XSCL.")],
    updates: Annotated[
        bool, typer.Option("--updates", help="See new versions of documents too.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="Begin so far back: 7d, '12 h'."),
    ] = None,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Register a query under a name; it sees what arrives from now on.

    With --since it begins with the documents that are kept from that time on.

    \b
    Example:
      xscl subscribe echo 'feeds//item->a[./title->t] JOIN{t=u, 2 d} feeds//item->b[./title->u]'
    """
    text = query_text(query)
    refuse_bare_windows(text)
    refuse_bare_duration(since)
    place = home(data)
    with place.hold("subscribe"), Engine(place.database) as engine:
        prepare(engine)
        engine.subscribe(name, text, updates=updates, since=since)
        for warning in (*_warnings(engine.explain(name)), *unknown_streams(engine, name)):
            complain(warning)
    if as_json:
        say_json({"subscribed": name})
    else:
        say(f"subscribed {name!r}")


def unsubscribe(
    name: Annotated[str, typer.Argument(help="The name of the subscription.")],
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Those that read what it publishes, too.")
    ] = False,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Remove a subscription and everything that only it needed.

    \b
    Example:
      xscl unsubscribe echo
    """
    place = home(data)
    place.expect()
    with place.hold("unsubscribe"), Engine(place.database) as engine:
        removed = engine.unsubscribe(name, cascade=cascade)
    if as_json:
        say_json({"unsubscribed": name, "removed": list(removed)})
    else:
        for one in removed:
            say(f"unsubscribed {one!r}")


def subscriptions(data: Data = DATA, as_json: Json = False) -> None:
    """List the subscriptions.

    \b
    Example:
      xscl subscriptions --json
    """
    place = home(data)
    place.expect()
    with place.hold("subscriptions"), Engine(place.database) as engine:
        registered = engine.subscriptions
    if as_json:
        say_json(
            [
                {
                    "name": s.name,
                    "query": s.query,
                    "reads": list(s.reads),
                    "publishes": s.publish,
                    "template": s.template,
                    "updates": s.updates,
                }
                for s in registered
            ]
        )
        return
    rows = [(s.name, s.template, ", ".join(s.reads), one_line(s.query, 100)) for s in registered]
    for line in table(("NAME", "TEMPLATE", "READS", "QUERY"), rows):
        say(line)


def _warnings(explanation: str) -> list[str]:
    return [line for line in explanation.splitlines() if line.startswith("warning: ")]
