"""`xscl subscribe`, `unsubscribe`, `subscriptions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from xscl.cli.argument_files import query_text
from xscl.cli.completion import subscriptions_like
from xscl.cli.options import Call, option
from xscl.cli.output import (
    UsageError,
    answer,
    confirm,
    echo,
    echo_json,
    echo_lines,
    list_rows,
    one_line,
    warn,
)
from xscl.cli.query_options import (
    LANGUAGES,
    known_language,
    refuse_bare_duration,
    refuse_bare_windows,
    warn_of_unmatched_blocks,
    warn_of_unseen_names,
)
from xscl.cli.service import OpenedService, opened
from xscl.client import Stopped, Subscription
from xscl.client.calls import resource
from xscl.delivery.history_summary import history_summary
from xscl.documents.results import XSCL
from xscl.errors import XsclError
from xscl.plurals import counted
from xscl.service.names import refuse_unaddressable

_FIELDS = {
    "name",
    "query",
    "reads",
    "publishes",
    "template",
    "updates",
    "stories",
    "stopped",
    "unevaluated",
    "refused",
    "version",
    "paused",
    "tags",
}
_IMPORTED = {"name", "query", "updates", "stories", "tags"}
"""The fields of a row that `xscl import` reads."""


def subscribe(
    call: Call,
    name: Annotated[str, typer.Argument(help="The name of the subscription.")],
    query: Annotated[str, typer.Argument(metavar="QUERY|@FILE", help="The query.")],
    language: Annotated[
        str, option("--language", "What it is written in.", "|".join(LANGUAGES))
    ] = XSCL,
    updates: Annotated[bool, option("--updates", "Also match new versions of documents.")] = False,
    stories: Annotated[
        bool,
        option("--stories", "Group matches that share documents; deliver each group once."),
    ] = False,
    since: Annotated[
        str | None, option("--since", "Begin so far back: 7d, '12 h'.", "DURATION")
    ] = None,
    from_now: Annotated[bool, option("--from-now", "Begin with what arrives from now on.")] = False,
    tag: Annotated[list[str] | None, option("--tag", "A tag, by which lists are filtered.")] = None,
    webhook: Annotated[
        str | None, option("--webhook", "Have its matches posted there.", "URL")
    ] = None,
) -> None:
    """Register a query under a name; it begins with what is kept, and goes on.

    It has the newest 1,000 matches of the last 30 days. With --since it begins
    with all that is kept from that time on, with --from-now with nothing.
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
    written_in = known_language(language)
    if written_in == XSCL:
        refuse_bare_windows(text)
    refuse_bare_duration(since)
    if from_now and since is not None:
        raise UsageError("--since and --from-now exclude each other")
    history = not from_now and since is None
    check_webhook(webhook)
    with opened("subscribe", call, missing="create") as service:
        unseen = warn_of_unseen_names(service, text) if language == XSCL else ()
        service.register(
            name,
            text,
            updates=updates,
            stories=stories,
            language=written_in,
            since=since,
            history=history,
            tags=tag or (),
        )
        begun = () if from_now else tuple(service.matches(name))
        words = one_line(history_summary(begun, since or "30 days")) if begun else None
        explanation = service.explain(name).splitlines()
        known = [f"the stream {one.name!r} yet" for one in unseen if one.kind == "stream"]
        known += [f"{one.message}: {one.hint}" for one in unseen if one.kind == "comparison"]
        warnings = [
            line
            for line in explanation
            if line.startswith("warning: ") and not line.endswith(tuple(known))
        ]
        if language == XSCL and all(one.kind == "comparison" for one in unseen):
            warn_of_unmatched_blocks(service, text)
        made = None if webhook is None else _add_webhook(service, name, webhook)
    for warning in warnings:
        warn(warning)
    if call.as_json:
        echo_json({"subscribed": name, "webhook": made, "backfilled": len(begun)})
        return
    echo(f"subscribed {name!r}")
    if words is not None:
        echo(words)
    if made is not None:
        echo(made["secret"])
        warn("the secret signs what the webhook is sent: keep it, it is not shown again")


def unsubscribe(
    call: Call,
    name: Annotated[
        str, typer.Argument(help="The name of the subscription.", autocompletion=subscriptions_like)
    ],
    cascade: Annotated[
        bool, option("--cascade", "Those that read what it publishes, too.")
    ] = False,
    purge: Annotated[bool, option("--purge", "Delete its matches, too.")] = False,
    yes: Annotated[bool, option("--yes", "Do not ask before matches are deleted.")] = False,
) -> None:
    """Remove a subscription; its matches stay, unless they are purged.

    'xscl matches' lists them as before. With --purge they are deleted, also
    those of a subscription that was removed before.

    \b
    Example:
      xscl unsubscribe echo
    """
    with opened("unsubscribe", call) as service:
        if not (purge and service.known_versions(name)):
            service.existing(name)
        if purge and not yes:
            confirm(f"delete the matches of {name!r} for good?", "this deletes matches")
        removed = service.unsubscribe(name, cascade=cascade, purge=purge)
    value = {"unsubscribed": name, "removed": list(removed)}
    answer(value, (f"unsubscribed {one!r}" for one in removed), as_json=call.as_json)


def subscriptions(
    call: Call,
    removed: Annotated[
        bool, option("--removed", "Those that were removed, and whose matches are kept.")
    ] = False,
    tag: Annotated[str | None, option("--tag", "Only those of a tag.")] = None,
    rows: Annotated[
        bool, option("--rows", "As JSON lines that 'xscl import' reads, tags included.")
    ] = False,
) -> None:
    """List the subscriptions in the order of their names.

    \b
    Example:
      xscl subscriptions --json
    """
    if removed:
        with opened("subscriptions", call) as service:
            gone = service.removed()
        lines = ((one.name, one.version, one_line(one.query, 100)) for one in gone)
        list_rows(
            "removed subscriptions", gone, ("NAME", "VERSION", "QUERY"), lines, as_json=call.as_json
        )
        return
    with opened("subscriptions", call) as service:
        found = list(service.subscriptions(tag=tag))
    if rows:
        _echo_rows(found)
        return
    cells = (
        (
            one.name,
            one.template,
            ", ".join(one.reads),
            ", ".join(one.tags),
            one_line(one.query, 100),
        )
        for one in found
    )
    shown = [one.model_dump(include=_FIELDS) for one in found]
    headings = ("NAME", "TEMPLATE", "READS", "TAGS", "QUERY")
    list_rows("subscriptions", shown, headings, cells, as_json=call.as_json)
    if not call.as_json:
        echo_lines(f"{one.name} {_stopped(one.stopped)}" for one in found if one.stopped)
        echo_lines(
            f"{one.name}: [{each.expression}] was not evaluated in"
            f" {counted(each.documents, 'document')}, the latest {each.latest}: {each.reason}"
            for one in found
            for each in one.unevaluated
        )
        echo_lines(
            f"{one.name} has no matches: {one_line(one.refused, 200)}"
            for one in found
            if one.refused
        )
        echo_lines(f"{one.name} is paused" for one in found if one.paused)


def _echo_rows(listed: Sequence[Subscription]) -> None:
    """Print the rows of subscriptions in XSCL; others are imported from an export only."""
    for one in listed:
        if one.language == XSCL:
            echo_json(one.model_dump(include=_IMPORTED))
    others = sum(one.language != XSCL for one in listed)
    if others:
        warn(f"{others} in languages of events were left out: 'xscl export' writes them")


def _stopped(stopped: Stopped) -> str:
    """Return a line about the documents whose results exceeded the bound."""
    number = stopped.documents
    state = "is incomplete and " if stopped.incomplete else ""
    documents = "1 document" if number == 1 else f"each of {number} documents"
    return f"{state}had more than {stopped.results:,} matches with {documents}: none is kept"


def check_webhook(url: str | None) -> None:
    """Raise UsageError for a text that is no HTTP address; it is not requested yet."""
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise UsageError(f"{url!r} is no address of a webhook", hint="it begins with https://")


def _add_webhook(service: OpenedService, name: str, url: str) -> dict[str, Any]:
    """Add a webhook to a new subscription, which is removed if the address is refused."""
    try:
        body = {"kind": "webhook", "url": url}
        path = resource("subscriptions", name, "endpoints")
        made = service.ask("POST", path, json=body).json()
    except XsclError:
        service.unsubscribe(name, purge=True)
        raise
    return {"id": made["id"], "secret": made["secret"]}
