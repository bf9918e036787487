"""`xscl subscribe`, `unsubscribe`, `subscriptions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from xscl.cli.delivering import Made, check_webhook, deliver, deliver_remotely
from xscl.cli.delivering import unsubscribe as removed_from
from xscl.cli.naming import subscriptions_like, told_unknown
from xscl.cli.options import DATA, Data, Json, Token, Url, home
from xscl.cli.output import complain, one_line, say, say_json, table
from xscl.cli.queries import (
    mistyped,
    query_text,
    refuse_bare_duration,
    refuse_unspoken,
    unknown_streams,
)
from xscl.cli.remote import Refused, Remote, place, reached
from xscl.cuts import Stopped
from xscl.engine import Engine
from xscl.errors import NameTaken
from xscl.following import prepare
from xscl.language.windows import refuse_bare_windows
from xscl.relational import LANGUAGES
from xscl.results import XSCL
from xscl.service.names import refuse_unaddressable

SPOKEN = (XSCL, *LANGUAGES)


def subscribe(
    name: Annotated[str, typer.Argument(help="The name of the subscription.")],
    query: Annotated[str, typer.Argument(metavar="QUERY|@FILE", help="The query.")],
    language: Annotated[
        str, typer.Option("--language", metavar="|".join(SPOKEN), help="What it is written in.")
    ] = XSCL,
    updates: Annotated[
        bool, typer.Option("--updates", help="See new versions of documents too.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="Begin so far back: 7d, '12 h'."),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", metavar="URL", help="Have its matches posted there."),
    ] = None,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Register a query under a name; it sees what arrives from now on.

    With --since it begins with the documents that are kept from that time on.
    With --webhook a running service posts its matches, signed by the secret
    that is shown this once (Standard Webhooks).
    Queries in languages of events are the operator's; they read streams whose
    attributes are known.

    \b
    Example:
      xscl subscribe echo 'feeds//item->a[./title->t] JOIN{t=u, 2 d} feeds//item->b[./title->u]'
    """
    refuse_unaddressable(name)
    text = query_text(query)
    refuse_unspoken(language, SPOKEN)
    if language == XSCL:
        refuse_bare_windows(text)
    refuse_bare_duration(since)
    check_webhook(webhook)
    made = None
    service = reached(data, url, token)
    if service is not None:
        with service:
            wanted = {"query": text, "updates": updates, "since": since, "language": language}
            warnings = _put(service, name, wanted)
            made = None if webhook is None else _delivered(service, name, webhook)
    else:
        at = home(data)
        with at.hold("subscribe"), Engine(at.database) as engine:
            prepare(engine)
            engine.subscribe(name, text, updates=updates, language=language, since=since)
            warnings = [*_warnings(engine.explain(name)), *unknown_streams(engine, name)]
            made = None if webhook is None else deliver(engine, at, name, webhook)
    for warning in warnings:
        complain(warning)
    if as_json:
        say_json({"subscribed": name, "webhook": None if made is None else made.as_dict()})
        return
    say(f"subscribed {name!r}")
    if made is not None:
        say(made.secret)
        complain("the secret signs what the webhook is sent: keep it, it is not shown again")


def unsubscribe(
    name: Annotated[
        str, typer.Argument(help="The name of the subscription.", autocompletion=subscriptions_like)
    ],
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Those that read what it publishes, too.")
    ] = False,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Remove a subscription and everything that only it needed.

    \b
    Example:
      xscl unsubscribe echo
    """
    service = reached(data, url, token)
    if service is not None:
        with service, told_unknown(service, name):
            removed = _delete(service, name, cascade)
    else:
        at = home(data)
        at.expect()
        with at.hold("unsubscribe"), Engine(at.database) as engine:
            removed = removed_from(engine, at, name, cascade=cascade)
    if as_json:
        say_json({"unsubscribed": name, "removed": list(removed)})
    else:
        for one in removed:
            say(f"unsubscribed {one!r}")


def subscriptions(
    data: Data = DATA, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """List the subscriptions in the order of their names.

    \b
    Example:
      xscl subscriptions --json
    """
    service = reached(data, url, token)
    if service is not None:
        with service:
            found = [_row(one) for one in service.all_of("/v1/subscriptions")]
    else:
        at = home(data)
        at.expect()
        with at.hold("subscriptions"), Engine(at.database) as engine:
            found = _registered(engine)
    if as_json:
        say_json(found)
        return
    rows = [
        (s["name"], s["template"], ", ".join(s["reads"]), one_line(s["query"], 100)) for s in found
    ]
    for line in table(("NAME", "TEMPLATE", "READS", "QUERY"), rows):
        say(line)
    for one in found:
        if one["stopped"]:
            say(f"{one['name']} {_stopped(one['stopped'])}")


def _stopped(stopped: Mapping[str, Any]) -> str:
    """Return where a subscription was stopped by the bound of results, as a person reads it."""
    number = stopped["documents"]
    state = "incomplete, " if stopped["incomplete"] else ""
    documents = "1 document" if number == 1 else f"each of {number} documents"
    return f"is {state}stopped at {stopped['results']:,} matches of {documents}"


_FIELDS = ("name", "query", "reads", "publishes", "template", "updates", "stopped")


def _row(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in _FIELDS}


def _registered(engine: Engine) -> list[dict[str, Any]]:
    """Return all subscriptions as values for JSON."""
    return [
        {
            "name": s.name,
            "query": s.query,
            "reads": list(s.reads),
            "publishes": s.publish,
            "template": s.template,
            "updates": s.updates,
            "stopped": _shown(engine.stopped(s.name)),
        }
        for s in sorted(engine.subscriptions, key=lambda one: one.name)
    ]


def _shown(stopped: Stopped | None) -> dict[str, Any] | None:
    """Return where a subscription was stopped as the service shows it."""
    if stopped is None:
        return None
    return {name: getattr(stopped, name) for name in ("documents", "results", "incomplete")}


def _put(service: Remote, name: str, wanted: dict[str, Any]) -> list[str]:
    """Register a query with a service, and return its warnings."""
    path = place("subscriptions", name)
    answer = service.ask("PUT", path, json=wanted, source=wanted["query"])
    if answer.status_code != 201:
        raise NameTaken(
            f"there is a subscription named {name!r} already",
            hint="unsubscribe it first, or choose another name",
        )
    explanation = service.get(f"{path}/explain")["text"]
    known = {one["name"] for one in service.all_of("/v1/streams")}
    return [*_warnings(explanation), *mistyped(answer.json()["reads"], known)]


def _delivered(service: Remote, name: str, url: str) -> Made:
    """Make a webhook of a new subscription; there is neither if the address is refused."""
    try:
        return deliver_remotely(service, name, url)
    except Refused:
        _delete(service, name, False)
        raise


def _delete(service: Remote, name: str, cascade: bool) -> Sequence[str]:
    """Unsubscribe, and return the names of what was removed."""
    path = place("subscriptions", name)
    answer = service.ask("DELETE", path, params={"cascade": cascade})
    return [str(one) for one in answer.json()["removed"]] if cascade else [name]


def _warnings(explanation: str) -> Iterator[str]:
    return (line for line in explanation.splitlines() if line.startswith("warning: "))
