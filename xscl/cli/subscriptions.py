"""Subscriptions: `xscl subscribe`, `edit`, `pause`, `rename`, `tag`, `unsubscribe` and the like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from xscl.cli.connection import SubscriptionName, opened
from xscl.cli.options import Call, argument, option, query_text
from xscl.cli.output import (
    TableColumn,
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
from xscl.cli.service import OpenedService
from xscl.client import Registered, Stopped, Subscription, calls
from xscl.client.calls import resource
from xscl.delivery.history_summary import history_summary
from xscl.documents.results import XSCL
from xscl.errors import XsclError
from xscl.plurals import counted
from xscl.polling.feed import is_url
from xscl.service.names import refuse_unaddressable
from xscl.time_format import ticks_to_second

_HIDDEN = {"own", "language", "history", "cost_share"}
"""The fields of a subscription that a list in JSON leaves out."""
_QUERY: TableColumn = ("query", lambda one: one_line(one.query, 100))
_TEMPLATE: TableColumn = ("template", lambda one: one.template or None)
_IMPORTED = {"name", "query", "updates", "stories", "tags"}
"""The fields of a row that `xscl import` reads."""


def subscribe(
    call: Call,
    name: str = argument("The name of the subscription."),
    query: str = argument("The query.", "QUERY|@FILE"),
    language: Annotated[str, option("What it is written in.", "|".join(LANGUAGES))] = XSCL,
    updates: bool = option("Also match new versions of documents."),
    stories: bool = option("Group matches that share documents; deliver each group once."),
    since: str | None = option("Begin so far back: 7d, '12 h'.", "DURATION"),
    from_now: bool = option("Begin with what arrives from now on."),
    tag: list[str] | None = option("A tag, by which lists are filtered."),
    webhook: str | None = option("Have its matches posted there.", "URL"),
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
            history=not from_now and since is None,
            tags=tag or None,
        )
        begun = () if from_now else tuple(service.matches(name))
        words = None
        if begun:
            words = one_line(history_summary(begun, since or "30 days", ticks_to_second))
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
    name: SubscriptionName,
    cascade: bool = option("Those that read what it publishes, too."),
    purge: bool = option("Delete its matches, too."),
    yes: bool = option("Do not ask before matches are deleted."),
) -> None:
    """Remove a subscription; its matches stay, unless they are purged.

    'xscl matches' lists them as before. With --purge they are deleted, also
    those of a subscription that was removed before.

    \b
    Example:
      xscl unsubscribe echo
    """
    with opened("unsubscribe", call) as service:
        if purge:
            service.expect_known(name)
        else:
            service.existing(name)
        if purge and not yes:
            confirm(f"delete the matches of {name!r} for good?", "this deletes matches")
        removed = service.unsubscribe(name, cascade=cascade, purge=purge)
    value = {"unsubscribed": name, "removed": list(removed)}
    answer(value, (f"unsubscribed {one!r}" for one in removed), as_json=call.as_json)


def subscriptions(
    call: Call,
    removed: bool = option("Those that were removed, and whose matches are kept."),
    tag: str | None = option("Only those of a tag."),
    rows: bool = option("As JSON lines that 'xscl import' reads, tags included."),
) -> None:
    """List the subscriptions in the order of their names.

    The template of a plain join is the number of its shape: all of a shape are
    evaluated together. Other queries have none of their own.

    \b
    Example:
      xscl subscriptions --json
    """
    with opened("subscriptions", call) as service:
        gone = service.removed() if removed else ()
        found = [] if removed else list(service.subscriptions(tag=tag))
    if removed:
        columns = ("name", "version", _QUERY)
        list_rows("removed subscriptions", gone, columns, as_json=call.as_json)
        return
    if rows:
        _echo_rows(found)
        return
    listed = ("name", _TEMPLATE, "reads", "tags", _QUERY)
    list_rows("subscriptions", found, listed, as_json=call.as_json, shown=_shown)
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


def _shown(one: Subscription) -> dict[str, Any]:
    return one.model_dump(exclude=_HIDDEN)


def _echo_rows(listed: Sequence[Subscription]) -> None:
    """Print subscriptions in XSCL as rows for `xscl import`; warn of others, which it lacks."""
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
    if url is not None and not is_url(url):
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


def edit(
    call: Call,
    name: SubscriptionName,
    query: str | None = argument("The new query.", "QUERY|@FILE"),
    language: str | None = option("What it is written in.", "|".join(LANGUAGES)),
    updates: bool | None = option("Also match new versions."),
    stories: bool | None = option("Group matches that share documents."),
) -> None:
    """Give a subscription another query: its next version, under the same name.

    It sees what arrives from now on; if only SELECT changes, it joins that with
    what was there before. The matches of earlier versions stay, and webhooks,
    mails and feeds go on with the new one. With --stories alone the query stays,
    and the matches that are kept are grouped, too.

    \b
    Example:
      xscl edit echo 'feeds//item->a[./title->t] JOIN{t=u, 5 d} feeds//item->b[./title->u]'
    """
    if query is None and updates is None and stories is None and language is None:
        raise UsageError("there is nothing to change: give a query, or an option")
    text = None if query is None else query_text(query)
    written_in = None if language is None else known_language(language)
    with opened("edit", call) as service:
        before = service.existing(name)
        if text is not None and (language or before.language) == XSCL:
            refuse_bare_windows(text)
        changed = service.edit(name, text, updates=updates, stories=stories, language=written_in)
        if text is not None and changed.language == XSCL:
            warn_of_unseen_names(service, text)
    is_new = changed.version != before.version
    line = f"{name!r} is unchanged"
    if changed.stories != before.stories:
        line = f"{name!r} has {'' if changed.stories else 'no '}stories"
    if is_new:
        version = f"version {changed.version}"
        line = f"edited {name!r}: {version}, for documents that arrive from now on"
    _tell(changed, line, call)


def pause(call: Call, name: SubscriptionName) -> None:
    """Stop the matches and deliveries of a subscription until it is resumed.

    It has no match that becomes certain meanwhile. What arrives takes part in
    the matches of later documents. NEXT, FOLD, NOT FOLLOWED BY and ELSE report
    a match when time has passed it: perhaps after the pause.

    \b
    Example:
      xscl pause echo
    """
    _change("pause", call, name, calls.pause, f"paused {name!r}")


def resume(call: Call, name: SubscriptionName) -> None:
    """Resume a paused subscription: it has matches and deliveries again, from now on.

    \b
    Example:
      xscl resume echo
    """
    _change("resume", call, name, calls.resume, f"resumed {name!r}")


def rename(call: Call, name: SubscriptionName, new: str = argument("The new name.")) -> None:
    """Give a subscription another name; its matches keep their ids, and deliveries go on.

    \b
    Example:
      xscl rename echo echoes
    """
    _change("rename", call, name, calls.rename, f"renamed {name!r} to {new!r}", new)


def tag(
    call: Call,
    name: SubscriptionName,
    tags: list[str] = argument("Words without blanks.", "TAG..."),
    remove: bool = option("Remove these tags."),
) -> None:
    """Add tags to a subscription, or remove them; lists are filtered by them.

    \b
    Example:
      xscl tag echo daily sea
    """
    with opened("tag", call) as service:
        kept = [one for one in service.existing(name).tags if one not in tags]
        changed = service.tag(name, kept if remove else [*kept, *tags])
    words = ", ".join(changed.tags) or "none"
    _tell(changed, f"tags of {name!r}: {words}", call)


def _change(
    command: str,
    call: Call,
    name: str,
    change: Callable[..., calls.Call[Registered]],
    line: str,
    *values: str,
) -> None:
    with opened(command, call) as service:
        service.existing(name)
        changed = service.send(change(name, *values))
    _tell(changed, line, call)


def _tell(changed: Subscription, line: str, call: Call) -> None:
    fields = {"name", "query", "language", "version", "paused", "tags"}
    answer(changed.model_dump(include=fields), [line], as_json=call.as_json)


def rotate(
    call: Call,
    name: SubscriptionName,
    endpoint: str | None = option("Which webhook, if there are several.", "ID"),
    webhook: str | None = option("Have its matches posted there from now on.", "URL"),
) -> None:
    """Make a new secret for a webhook; for a day the old one signs, too.

    Secrets are in no backup. A webhook that was restored on another machine
    waits, and goes on once it has a new secret. An address that has a secret
    itself is given again by --webhook.

    \b
    Example:
      xscl rotate echo
      xscl rotate echo --webhook 'https://example.org/hook?token=abc'
    """
    check_webhook(webhook)
    with opened("rotate", call) as service:
        service.existing(name)
        endpoints = resource("subscriptions", name, "endpoints")
        found = [one for one in service.ask("GET", endpoints).json() if one["kind"] == "webhook"]
        chosen = [one for one in found if endpoint in (None, one["id"])]
        if len(chosen) != 1:
            listed = ", ".join(f"{one['id']} ({one['to']['url']})" for one in found)
            raise UsageError(
                f"{name!r} has {'more than one' if chosen else 'no such'} webhook",
                hint=f"--endpoint chooses one: {listed}" if found else "it posts nothing",
            )
        path = resource("subscriptions", name, "endpoints", chosen[0]["id"])
        if webhook is not None:
            service.ask("PATCH", path, json={"url": webhook})
        secret = service.ask("POST", f"{path}:rotate").json()["secret"]
        made = service.ask("GET", path).json()
    shown = {field: made[field] for field in ("id", "state", "note")}
    answer({"rotated": name, **shown, "secret": secret}, [secret], as_json=call.as_json)
    if not call.as_json:
        warn("the secret signs what the webhook is sent: keep it, it is not shown again")
        if made["note"]:
            warn(f"the webhook waits: {made['note']} (--webhook URL)")
